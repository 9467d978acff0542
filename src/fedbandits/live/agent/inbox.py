"""What has arrived and is not yet handed over: bounded, whoever floods it."""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from contextlib import suppress
from threading import Lock
from typing import SupportsBytes

from fedbandits.live.transport.interface import Receive

MOST_WAITING = 64
"""Messages of one neighbour that wait for the event loop. Two wait at most where all is well."""

MOST_PER_SECOND = 1000
"""Messages of one neighbour that are believed within a second; gossip needs a few."""


class Inbox:
    """Takes messages from any thread, hands them over in the event loop's, and drops the rest.

    A neighbour that floods it costs the others nothing: each has its own bound.

    Args:
        receive: is called in the event loop's thread.
        counts: "received" and "dropped" are counted here.
        most_waiting: of one sender.
        most_per_second: of one sender.
    """

    def __init__(
        self,
        receive: Receive,
        counts: Counter[str],
        most_waiting: int = MOST_WAITING,
        most_per_second: int = MOST_PER_SECOND,
    ) -> None:
        self._receive = receive
        self._counts = counts
        self._most_waiting = most_waiting
        self._most_per_second = most_per_second
        self._loop = asyncio.get_running_loop()
        self._lock = Lock()
        self._waiting: list[tuple[str, SupportsBytes]] = []
        self._of_sender: Counter[str] = Counter()
        self._this_second: Counter[str] = Counter()
        self._second = 0
        self._closed = False

    def put(self, sender: str, message: SupportsBytes) -> None:
        """From any thread; never waits."""
        with self._lock:
            if self._closed:
                return
            second = int(time.monotonic())
            if second != self._second:
                self._second = second
                self._this_second.clear()
            if (
                self._of_sender[sender] >= self._most_waiting
                or self._this_second[sender] >= self._most_per_second
            ):
                self._counts["dropped"] += 1
                return
            self._of_sender[sender] += 1
            self._this_second[sender] += 1
            self._counts["received"] += 1
            self._waiting.append((sender, message))
            wake = len(self._waiting) == 1
        if wake:
            with suppress(RuntimeError):  # the loop has ended before the transport
                self._loop.call_soon_threadsafe(self._hand_over)

    def close(self) -> None:
        """Hand over nothing more."""
        with self._lock:
            self._closed = True
            self._waiting = []

    def _hand_over(self) -> None:
        with self._lock:
            waiting, self._waiting = self._waiting, []
            self._of_sender.clear()
        for sender, message in waiting:
            if not self._closed:
                self._receive(sender, bytes(message))
