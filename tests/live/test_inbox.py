"""What waits for the event loop has bounds."""

from __future__ import annotations

import asyncio
from collections import Counter
from threading import Thread
from typing import Any

import pytest

from fedbandits.live.transport.inbox import Inbox


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """A clock that stands still unless it is set."""
    now = [100.0]
    monkeypatch.setattr("fedbandits.live.transport.inbox.time.monotonic", lambda: now[0])
    return now


def run(work: Any, **limits: int) -> tuple[list[tuple[str, bytes]], Counter[str]]:
    """What an inbox handed over."""
    heard: list[tuple[str, bytes]] = []
    counts: Counter[str] = Counter()

    async def main() -> None:
        box = Inbox(lambda *message: heard.append(message), counts, **limits)
        await work(box)
        await asyncio.sleep(0)
        await asyncio.sleep(0)

    asyncio.run(main())
    return heard, counts


def test_what_another_thread_puts_in_arrives_in_the_loop_in_order(clock: list[float]) -> None:
    async def work(box: Inbox) -> None:
        def put() -> None:
            for i in range(50):
                box.put("a", bytes([i]))

        thread = Thread(target=put)
        thread.start()
        thread.join()

    heard, counts = run(work)
    assert heard == [("a", bytes([i])) for i in range(50)]
    assert counts == {"received": 50}


def test_a_flood_is_dropped_and_costs_the_others_nothing(clock: list[float]) -> None:
    async def work(box: Inbox) -> None:
        for i in range(1000):
            box.put("flood", bytes([i % 256]))
        box.put("quiet", b"here")

    heard, counts = run(work, most_waiting=5)
    assert heard == [("flood", bytes([i])) for i in range(5)] + [("quiet", b"here")]
    assert counts == {"received": 6, "dropped": 995}


def test_a_second_has_a_limit_and_the_next_begins_anew(clock: list[float]) -> None:
    async def work(box: Inbox) -> None:
        for second in range(3):
            clock[0] = 100.0 + second
            for _ in range(10):
                box.put("a", b"")
                await asyncio.sleep(0)

    heard, counts = run(work, most_per_second=4)
    assert len(heard) == 12
    assert counts == {"received": 12, "dropped": 18}


def test_nothing_is_handed_over_after_it_is_closed(clock: list[float]) -> None:
    async def work(box: Inbox) -> None:
        box.put("a", b"before")
        box.close()
        box.put("a", b"after")

    heard, _ = run(work)
    assert heard == []
