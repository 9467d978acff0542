"""Received messages that the agent has not processed yet, bounded for each neighbour."""

from __future__ import annotations

import asyncio
import time
from collections import Counter

from .interface import Receive

MOST_WAITING = 64
"""Waiting messages of one neighbour. At most two wait in normal operation."""

MOST_PER_SECOND = 1000
"""Accepted messages of one neighbour in a second. Gossip needs a few."""


class Inbox:
    """A queue from the links of an agent to the agent, in the thread of the event loop.

    Each neighbour has separate limits, so that a flood from one does not affect the others.

    Args:
        receive: is called for every message, in a later turn of the event loop.
        counts: counts messages under "received" and "dropped".
        most_waiting: limit for one sender.
        most_per_second: limit for one sender.
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
        self._waiting: list[tuple[str, bytes]] = []
        self._waiting_of: Counter[str] = Counter()
        self._this_second: Counter[str] = Counter()
        self._second = 0
        self._closed = False

    def put(self, sender: str, message: bytes) -> None:
        """Queue a message, or drop it if the sender exceeds a limit."""
        if self._closed:
            return
        second = int(time.monotonic())
        if second != self._second:
            self._second = second
            self._this_second.clear()
        if (
            self._waiting_of[sender] >= self._most_waiting
            or self._this_second[sender] >= self._most_per_second
        ):
            self._counts["dropped"] += 1
            return
        self._waiting_of[sender] += 1
        self._this_second[sender] += 1
        self._counts["received"] += 1
        self._waiting.append((sender, message))
        if len(self._waiting) == 1:
            self._loop.call_soon(self._deliver)

    def close(self) -> None:
        """Discard waiting and later messages."""
        self._closed = True
        self._waiting = []

    def _deliver(self) -> None:
        waiting, self._waiting = self._waiting, []
        self._waiting_of.clear()
        for sender, message in waiting:
            if not self._closed:
                self._receive(sender, message)
