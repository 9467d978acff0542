"""The limits of messages that wait for the event loop."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable

import pytest

from fedbandits.live.transport.inbox import Inbox


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """A clock that stands still unless a test sets it."""
    now = [100.0]
    monkeypatch.setattr("fedbandits.live.transport.inbox.time.monotonic", lambda: now[0])
    return now


def delivered(
    work: Callable[[Inbox], Awaitable[None]], **limits: int
) -> tuple[list[tuple[str, bytes]], Counter[str]]:
    """Return the messages that an inbox delivers, and its counts."""
    messages: list[tuple[str, bytes]] = []
    counts: Counter[str] = Counter()

    async def main() -> None:
        inbox = Inbox(lambda *message: messages.append(message), counts, **limits)
        await work(inbox)
        await asyncio.sleep(0)
        await asyncio.sleep(0)

    asyncio.run(main())
    return messages, counts


def test_a_flood_is_dropped_without_effect_on_others(clock: list[float]) -> None:
    async def work(inbox: Inbox) -> None:
        for i in range(1000):
            inbox.put("flood", bytes([i % 256]))
        inbox.put("quiet", b"here")

    messages, counts = delivered(work, most_waiting=5)
    assert messages == [("flood", bytes([i])) for i in range(5)] + [("quiet", b"here")]
    assert counts == {"received": 6, "dropped": 995}


def test_every_second_has_a_limit(clock: list[float]) -> None:
    async def work(inbox: Inbox) -> None:
        for second in range(3):
            clock[0] = 100.0 + second
            for _ in range(10):
                inbox.put("a", b"")
                await asyncio.sleep(0)

    messages, counts = delivered(work, most_per_second=4)
    assert len(messages) == 12
    assert counts == {"received": 12, "dropped": 18}


def test_a_closed_inbox_delivers_nothing(clock: list[float]) -> None:
    async def work(inbox: Inbox) -> None:
        inbox.put("a", b"before")
        inbox.close()
        inbox.put("a", b"after")

    assert delivered(work)[0] == []
