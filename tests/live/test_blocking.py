"""The agent of plain threads, and agents in several event loops."""

from __future__ import annotations

import asyncio
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

import fedbandits as fb
from fedbandits.live import Agent, BlockingAgent, Federation, MemoryStore, StoppedError

ARMS = ("tea", "coffee", "cocoa")
ALONE = Federation(ARMS, fb.networks.path(1))


def test_many_threads_may_call() -> None:
    with Agent("agent1", ALONE, MemoryStore()) as shop:

        def pair(_: int) -> str:
            ticket = shop.choose()
            shop.observe(ticket, loss=0.5)
            return ticket.id

        with ThreadPoolExecutor(8) as threads:
            assert len(set(threads.map(pair, range(40)))) == 40
        assert (shop.rounds, shop.open_tickets, shop.expired) == (40, 0, 0)
        assert shop.recommended in ARMS
        assert sum(shop.probabilities.values()) == pytest.approx(1.0)
        assert (shop.neighbours, shop.disagreement) == ({}, 0.0)
        with pytest.raises(ValueError, match="knows no ticket"):
            shop.observe("nothing", 0.5)
    with pytest.raises(RuntimeError, match="has stopped"):
        shop.choose()


def test_calls_from_outside_its_event_loop_are_rejected() -> None:
    one = Agent("agent1", ALONE, MemoryStore())
    for call in (one.choose, lambda: one.observe("ticket", 0.5)):
        with pytest.raises(StoppedError, match="with agent as shop"):
            call()

    async def elsewhere() -> None:
        await one.choose()

    with one, pytest.raises(StoppedError, match="runs in another event loop"):
        asyncio.run(elsewhere())


def test_a_failed_start_leaves_no_thread() -> None:
    before = threading.active_count()
    store = MemoryStore()
    with Agent("agent1", ALONE, store):
        pass
    other = Federation(("tea", "coffee"), fb.networks.path(1))
    with pytest.raises(ValueError, match="this store is of"), Agent("agent1", other, store):
        pass
    assert threading.active_count() == before


def test_an_agent_may_run_again_in_another_loop() -> None:
    one = Agent("agent1", ALONE, MemoryStore())

    async def choose() -> str:
        async with one:
            return (await one.choose()).id

    first = asyncio.run(choose())
    assert asyncio.run(choose()) != first
    for _ in range(2):
        with one as shop:
            shop.choose()
    with one as shop:
        assert (shop.rounds, len(shop.tickets), shop.name) == (4, 4, "agent1")
        assert shop.tickets[0].id == first
        assert shop.status().rounds == 4


def test_calls_during_the_stop_get_a_ticket_or_an_error() -> None:
    """None of 200 callers waits forever."""
    for _ in range(5):
        shop = Agent("agent1", ALONE, MemoryStore()).__enter__()

        def call(shop: BlockingAgent = shop) -> str:
            try:
                return shop.choose().id
            except StoppedError:
                return "stopped"

        with ThreadPoolExecutor(16) as threads:
            calls = [threads.submit(call) for _ in range(40)]
            shop.stop()
            assert all(each.result(timeout=20) for each in calls)
