"""Two faces of one agent: plain threads, and event loops that come and go."""

from __future__ import annotations

import asyncio
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

import fedbandits as fb
from fedbandits.live import Agent, BlockingAgent, Federation, StoppedError
from fedbandits.live.rehearsal.memory import MemoryStore

ARMS = ("tea", "coffee", "cocoa")
ALONE = Federation(ARMS, fb.networks.path(1))


def test_threads_without_asyncio() -> None:
    with Agent("agent1", ALONE, MemoryStore()) as shop:

        def pair(_: int) -> str:
            ticket = shop.choose()
            shop.observe(ticket.id, loss=0.5)
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


def test_a_plain_thread_is_told_which_face_to_use() -> None:
    one = Agent("agent1", ALONE, MemoryStore())
    for call in (one.choose, lambda: one.observe("ticket", 0.5)):
        with pytest.raises(StoppedError, match="with agent as shop"):
            call()


def test_a_ticket_may_stand_for_its_id() -> None:
    with Agent("agent1", ALONE, MemoryStore()) as shop:
        shop.observe(shop.choose(), 0.5)
        assert shop.open_tickets == 0


def test_a_face_that_cannot_start_leaves_no_thread() -> None:
    before = threading.active_count()
    store = MemoryStore()
    with Agent("agent1", ALONE, store):
        pass
    other = Federation(("tea", "coffee"), fb.networks.path(1))
    with pytest.raises(ValueError, match="this store is of"), Agent("agent1", other, store):
        pass
    assert threading.active_count() == before


def test_an_agent_may_run_again_in_another_loop() -> None:
    store = MemoryStore()
    one = Agent("agent1", ALONE, store)

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


def test_a_call_from_another_loop_is_refused() -> None:
    with Agent("agent1", ALONE, MemoryStore()) as shop:

        async def elsewhere() -> None:
            await shop._agent.choose()

        with pytest.raises(StoppedError, match="runs in another event loop"):
            asyncio.run(elsewhere())


def test_calls_while_it_stops_are_done_or_refused() -> None:
    """Nobody waits for ever: of 200 callers each gets a ticket or is told that it has stopped."""
    for _ in range(5):
        face = Agent("agent1", ALONE, MemoryStore()).__enter__()

        def call(face: BlockingAgent = face) -> str:
            try:
                return face.choose().id
            except StoppedError:
                return "stopped"

        with ThreadPoolExecutor(16) as threads:
            calls = [threads.submit(call) for _ in range(40)]
            face.stop()
            assert all(each.result(timeout=20) for each in calls)
