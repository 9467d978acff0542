"""Tickets expire in slices of bounded work, and as if all had expired at once."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable
from functools import partial

import numpy as np
import pytest

import fedbandits as fb
from fedbandits.live import Agent, Federation, MemoryStore
from fedbandits.live.protocol.agent_core import EXPIRY_BATCH, AgentCore
from fedbandits.live.protocol.observations import ExpiredTicketError
from fedbandits.live.protocol.records import Changes
from fedbandits.live.rehearsal.virtual_clock import run_virtual

from .members import member

MANY = 5 * EXPIRY_BATCH + 7


def federation(loss: float | None = None) -> Federation:
    return Federation(
        ["tea", "coffee", "cocoa"],
        fb.networks.path(1),
        expire_after=60.0,
        expired_loss=loss,
        gossip_period=1.0,
    )


def opened(loss: float | None = None, tickets: int = MANY) -> tuple[AgentCore, list[str]]:
    """Return a member with open tickets, all saved, and their ids."""
    one = member(federation(loss))
    ids = [one.choose(0.0).id for _ in range(tickets)]
    one.changes()
    return one, ids


def test_a_commit_closes_one_slice_at_most() -> None:
    one, _ = opened()
    sizes = []
    more = True
    while more:
        for _ in range(3):
            more = one.expire(60.0)
        one.choose(60.0)
        sizes.append(len(one.changes().tickets))
    assert sizes == [EXPIRY_BATCH + 1] * 5 + [7 + 1]
    assert (one.expired, one.open_tickets) == (MANY, len(sizes))


def test_an_overdue_ticket_is_refused_before_its_slice() -> None:
    one, ids = opened()
    for ticket in (ids[0], ids[-1]):
        with pytest.raises(ExpiredTicketError, match=f"{ticket}' has expired"):
            one.observe(ticket, 0.5, 60.0)
    assert one.open_tickets == MANY - EXPIRY_BATCH
    while one.expire(60.0):
        one.changes()
    with pytest.raises(ExpiredTicketError, match=f"{ids[-1]}' has expired"):
        one.observe(ids[-1], 0.5, 60.0)
    assert (one.expired, one.observed) == (MANY, 0)


@pytest.mark.parametrize("loss", [None, 0.7])
def test_slices_end_in_the_state_of_one_step(
    loss: float | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    sliced, _ = opened(loss)
    while sliced.expire(60.0):
        sliced.changes()
    monkeypatch.setattr("fedbandits.live.protocol.agent_core.EXPIRY_BATCH", 2 * MANY)
    whole, _ = opened(loss)
    whole.expire(60.0)
    assert sliced.state_record() == whole.state_record()
    assert sliced.book.closed == whole.book.closed
    assert np.any(sliced.ledger.values["z"]) == (loss is not None)


class Counting(MemoryStore):
    """Counts the tickets of each commit."""

    def __init__(self, delay: float) -> None:
        super().__init__(random.Random(0), delay)
        self.commits: list[int] = []

    async def write(self, changes: Changes) -> None:
        self.commits.append(len(changes.tickets))
        await super().write(changes)


def started(store: Counting, work: Callable[[Agent], Awaitable[None]]) -> None:
    """Run an agent that starts with overdue tickets in its store."""

    async def run() -> None:
        for begin in (1e9, 1e9 + 60.0):
            agent = Agent(
                "agent1",
                federation(),
                store,
                clock=partial(float, begin),
                chance=random.Random(1),
            )
            async with agent:
                if begin == 1e9:
                    member = agent._running()
                    for _ in range(MANY):
                        member.choose(begin)
                    await agent.choose()
                    store.commits.clear()
                else:
                    await work(agent)

    run_virtual(run())


@pytest.mark.parametrize("delay", [0.0, 0.01])
def test_calls_are_answered_between_slices(delay: float) -> None:
    """Also if the store never suspends its caller."""
    store = Counting(delay)

    async def work(agent: Agent) -> None:
        first = await agent.choose()
        assert agent.expired < MANY
        await agent.observe(first, 0.5)
        await asyncio.sleep(5.0)
        assert (agent.expired, agent.open_tickets) == (MANY + 1, 0)

    started(store, work)
    assert max(store.commits) <= EXPIRY_BATCH + 2
    assert sum(store.commits) >= MANY


def test_all_expire_although_nothing_calls() -> None:
    """Within one period of gossip, in commits that follow each other."""
    store = Counting(0.0)

    async def work(agent: Agent) -> None:
        await asyncio.sleep(1.0)
        assert agent.expired == MANY + 1

    started(store, work)
