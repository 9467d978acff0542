"""The core of one agent: observations, expiry, gossip, and its records."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any

import numpy as np
import pytest

import fedbandits as fb
from fedbandits.algorithms import REGISTRY
from fedbandits.live import (
    Agent,
    ConflictingObservationError,
    ExpiredTicketError,
    Federation,
    MemoryStore,
    ObservationError,
    UnknownTicketError,
    UnsuitableError,
)
from fedbandits.live.protocol.agent_core import EXPIRY_BATCH, AgentCore
from fedbandits.live.protocol.observations import LossRange
from fedbandits.live.protocol.records import Changes
from fedbandits.live.protocol.suitability import check_suitable
from fedbandits.live.rehearsal.virtual_clock import run_virtual
from tests.instances import ALGORITHMS

from .members import empty, exchange, member, members

REMEMBERED = "fedbandits.live.protocol.tickets.REMEMBERED"


def alone(**options: Any) -> Federation:
    return Federation(("tea", "coffee", "cocoa"), fb.networks.path(1), **options)


ALONE = alone()


def inputs(one: AgentCore) -> Any:
    return one.ledger.inputs["z"]


# Observations


def test_an_observation_is_counted_once() -> None:
    """Equal losses are recognised in another form and with fewer digits."""
    one = member(ALONE)
    ticket = one.choose(0.0)
    one.observe(ticket.id, 0.5, 0.0)
    counted = inputs(one)
    for again in (0.5, 0.5 + 1e-9, np.float32(0.5)):
        one.observe(ticket.id, again, 0.0)
    assert inputs(one) is counted
    assert counted.sum() == pytest.approx(0.5 / ticket.probability, rel=1e-15)
    assert (one.rounds, one.observed, one.open_tickets) == (1, 1, 0)
    with pytest.raises(ConflictingObservationError, match=r"with loss 0.5, and not 0.6"):
        one.observe(ticket.id, 0.6, 0.0)


def test_observations_may_come_in_any_order() -> None:
    """Each is learned from with the distribution and the round of its ticket."""
    one, other = member(ALONE), member(ALONE)
    tickets = [one.choose(0.0) for _ in range(5)]
    assert [other.choose(0.0) for _ in range(5)] == tickets
    expected = np.zeros(3)
    for ticket in tickets:
        one.observe(ticket.id, 0.3, 0.0)
        expected[ALONE.arms.index(ticket.arm)] += 0.3 / ticket.probability
    for ticket in reversed(tickets):
        other.observe(ticket.id, 0.3, 0.0)
    np.testing.assert_allclose(inputs(one), expected, rtol=1e-13)
    np.testing.assert_allclose(inputs(other), expected, rtol=1e-13)


@pytest.mark.parametrize(
    ("loss", "why"),
    [
        (1.5, r"a loss must be in \[0, 1\], not 1.5.*in agent.toml"),
        (-0.1, "not -0.1"),
        (float("nan"), "not nan$"),
        ("0.5", "a loss must be a number, not '0.5'"),
        (True, "not True"),
        ([0.1, 0.2, 0.3], "give one number"),
        ({"tea": 0.1}, "give one number"),
    ],
)
def test_invalid_losses_are_rejected_and_the_ticket_stays_open(loss: Any, why: str) -> None:
    one = member(ALONE)
    ticket = one.choose(0.0)
    with pytest.raises(ObservationError, match=why):
        one.observe(ticket.id, LossRange().scaled(loss), 0.0)
    assert one.open_tickets == 1


def test_full_information_takes_the_losses_of_all_arms() -> None:
    one = member(alone(algorithm=fb.FedHedge()))
    for losses in ([0.1, 0.2, 0.3], {"coffee": 0.2, "tea": 0.1, "cocoa": 0.3}):
        one.observe(one.choose(0.0).id, losses, 0.0)
    np.testing.assert_allclose(inputs(one), [0.2, 0.4, 0.6])
    for bad, why in ((0.5, "all arms"), ([0.1], "all arms"), ({"tea": 1}, "no loss of coffee")):
        with pytest.raises(ObservationError, match=why):
            one.observe(one.choose(0.0).id, bad, 0.0)


def test_old_closed_tickets_are_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(REMEMBERED, 3)
    one = member(ALONE)
    tickets = [one.choose(0.0) for _ in range(5)]
    for ticket in tickets:
        one.observe(ticket.id, 0.5, 0.0)
    changes = one.changes()
    assert changes.forgotten == [1, 2]
    assert [record.round for record in changes.tickets] == [3, 4, 5]
    with pytest.raises(UnknownTicketError, match="more than 3 tickets ago"):
        one.observe(tickets[0].id, 0.5, 0.0)
    with pytest.raises(UnknownTicketError, match="agent1 knows no ticket 'elsewhere-1'"):
        one.observe("elsewhere-1", 0.5, 0.0)


# Expiry


def test_expired_tickets_are_dropped() -> None:
    one = member(alone(expire_after=60.0))
    early, late = one.choose(0.0), one.choose(30.0)
    one.observe(late.id, 0.5, 60.0)
    with pytest.raises(ExpiredTicketError, match="has expired"):
        one.observe(early.id, 0.5, 61.0)
    assert (one.expired, one.observed, one.open_tickets) == (1, 1, 0)
    assert inputs(one).sum() == pytest.approx(0.5 / late.probability)


def test_expired_tickets_may_be_charged() -> None:
    one = member(alone(expire_after=60.0, expired_loss=1.0))
    ticket = one.choose(0.0)
    one.expire(100.0)
    one.expire(200.0)
    assert inputs(one).sum() == pytest.approx(1 / ticket.probability)
    assert one.expired == 1


MANY = 5 * EXPIRY_BATCH + 7


def opened(loss: float | None = None) -> tuple[AgentCore, list[str]]:
    """Return a core with many open tickets, all saved, and their ids."""
    one = member(alone(expire_after=60.0, expired_loss=loss))
    ids = [one.choose(0.0).id for _ in range(MANY)]
    one.changes()
    return one, ids


def test_a_commit_closes_one_batch_at_most() -> None:
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


def test_an_overdue_ticket_is_rejected_before_its_batch() -> None:
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
def test_batches_end_in_the_state_of_one_step(
    loss: float | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    batched, _ = opened(loss)
    while batched.expire(60.0):
        batched.changes()
    monkeypatch.setattr("fedbandits.live.protocol.agent_core.EXPIRY_BATCH", 2 * MANY)
    whole, _ = opened(loss)
    whole.expire(60.0)
    assert batched.state_record() == whole.state_record()
    assert batched.book.closed == whole.book.closed
    assert np.any(batched.ledger.values["z"]) == (loss is not None)


def run_overdue(delay: float, work: Callable[[Agent], Awaitable[None]]) -> list[int]:
    """Run an agent that starts with overdue tickets; return the tickets of each commit."""
    commits: list[int] = []

    class CountingStore(MemoryStore):
        async def write(self, changes: Changes) -> None:
            commits.append(len(changes.tickets))
            await super().write(changes)

    store, shops = CountingStore(random.Random(0), delay), alone(expire_after=60.0, gossip_period=1)

    async def run() -> None:
        for begin in (1e9, 1e9 + 60.0):
            chance = random.Random(1)
            agent = Agent("agent1", shops, store, clock=partial(float, begin), chance=chance)
            async with agent:
                if begin > 1e9:
                    await work(agent)
                    continue
                for _ in range(MANY):
                    agent._running().choose(begin)
                await agent.choose()
                commits.clear()

    run_virtual(run())
    return commits


@pytest.mark.parametrize("delay", [0.0, 0.01])
def test_calls_are_answered_between_batches(delay: float) -> None:
    """Also if the store never suspends its caller."""

    async def work(agent: Agent) -> None:
        first = await agent.choose()
        assert agent.expired < MANY
        await agent.observe(first, 0.5)
        await asyncio.sleep(5.0)
        assert (agent.expired, agent.open_tickets) == (MANY + 1, 0)

    commits = run_overdue(delay, work)
    assert max(commits) <= EXPIRY_BATCH + 2
    assert sum(commits) >= MANY


def test_all_expire_without_any_call() -> None:
    """Within one gossip period, in successive commits."""

    async def work(agent: Agent) -> None:
        await asyncio.sleep(1.0)
        assert agent.expired == MANY + 1

    run_overdue(0.0, work)


# Algorithms


@pytest.mark.parametrize("name", sorted(REGISTRY))
def test_algorithms_that_need_a_common_round_are_rejected(name: str) -> None:
    algorithm = ALGORITHMS[name]
    if name in {"FedExp3", "TrackingFedExp3", "Exp3", "FedHedge", "GossipUCB", "Uniform"}:
        check_suitable(algorithm, 3, 4)
    else:
        why = f"{type(algorithm).__name__} cannot live apart: its? "
        with pytest.raises(UnsuitableError, match=why):
            check_suitable(algorithm, 3, 4)


@pytest.mark.parametrize(
    "of",
    [lambda z, t: z * 2, lambda z, t: -z / 2, lambda z, t: z / t, lambda z, t: np.minimum(z, 1.5)],
    ids=["grows", "changes sign", "by the round", "not linear"],
)
def test_algorithms_that_do_not_add_to_received_values_are_rejected(of: Any) -> None:
    class Strange(fb.FedExp3):
        def update(self, state: Any, received: Any, *rest: Any) -> Any:
            return super().update(state, {"z": of(received["z"], rest[-1])}, *rest)

    with pytest.raises(UnsuitableError, match="Strange cannot live apart: its 'z'"):
        check_suitable(Strange(), 3, 4)


def test_the_kept_share_of_received_values_is_measured() -> None:
    np.testing.assert_array_equal(check_suitable(fb.FedExp3(), 3, 4)["z"], [1, 1, 1])
    np.testing.assert_allclose(check_suitable(fb.FedExp3(memory=4), 3, 4)["z"], [0.75] * 3)
    assert check_suitable(fb.Exp3(), 3, 4) == {}


# Restarts


def reopened(one: AgentCore, federation: Federation, kept: dict[str, Any]) -> AgentCore:
    """Return the core that continues from the changes of this one and all before."""
    changes = one.changes()
    kept["state"] = changes.state or kept.get("state")
    kept.setdefault("tickets", {}).update({t.round: t for t in changes.tickets})
    kept.setdefault("edges", {}).update(changes.edges)
    tickets = sorted(kept["tickets"].values(), key=lambda t: t.round)
    saved = empty(one.name)._replace(state=kept["state"], edges=kept["edges"], tickets=tickets)
    return member(federation, one.name, saved)


@pytest.mark.parametrize(
    "algorithm", [fb.FedExp3(), fb.FedExp3(memory=9), fb.FedHedge(), fb.GossipUCB(), fb.Exp3()]
)
def test_a_restart_changes_nothing(algorithm: Any) -> None:
    pair = Federation(ALONE.arms, fb.networks.path(2), algorithm=algorithm)
    one, other = members(pair), members(pair)
    kept: dict[str, dict[str, Any]] = {name: {} for name in one}
    rng = np.random.default_rng(0)
    for _ in range(30):
        losses = rng.random(3)
        for name in pair.members:
            tickets = [everyone[name].choose(0.0) for everyone in (one, other)]
            assert tickets[0] == tickets[1]
            arm = pair.arms.index(tickets[0].arm)
            loss = losses if algorithm.feedback == "full" else losses[arm]
            one[name] = reopened(one[name], pair, kept[name])
            for everyone in (one, other):
                everyone[name].observe(tickets[0].id, loss, 0.0)
        exchange(one)
        exchange(other)
        one = {name: reopened(each, pair, kept[name]) for name, each in one.items()}
    for name in pair.members:
        np.testing.assert_array_equal(one[name].distribution(), other[name].distribution())
        assert one[name].rounds == other[name].rounds == 30


def test_a_flow_that_became_an_input_is_saved_with_its_edge() -> None:
    """Otherwise a restart would return forgotten flow."""
    algorithm = fb.FedExp3(memory=2)
    pair = Federation(ALONE.arms, fb.networks.path(2), algorithm=algorithm)
    everyone = members(pair)
    one, other = everyone.values()
    kept: dict[str, Any] = {}
    for _ in range(5):
        other.observe(other.choose(0.0).id, 1.0, 0.0)
        exchange(everyone)
    one = reopened(one, pair, kept)
    before = one.ledger.values["z"]
    assert before.any()
    single = alone(algorithm=algorithm)
    one.adopt(single.part("agent1"))
    np.testing.assert_array_equal(one.ledger.values["z"], before)
    state = one.changes().state or kept["state"]
    again = member(single, saved=empty(one.name)._replace(state=state))
    np.testing.assert_array_equal(again.ledger.values["z"], before)


def test_closed_tickets_are_forgotten_in_the_order_of_closing_also_after_a_restart(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(REMEMBERED, 2)
    one, kept = member(ALONE), dict[str, Any]()
    first, second, third = (one.choose(0.0) for _ in range(3))
    for ticket in (second, first):
        one.observe(ticket.id, 0.5, 0.0)
    one = reopened(one, ALONE, kept)
    one.observe(third.id, 0.5, 0.0)
    one.observe(first.id, 0.5, 0.0)  # repeated
    with pytest.raises(UnknownTicketError):
        one.observe(second.id, 0.5, 0.0)


# Gossip


def test_an_idle_agent_recommends_by_what_its_neighbours_found() -> None:
    everyone = members(Federation(("tea", "coffee"), fb.networks.path(2)))
    busy, idle = everyone.values()
    for _ in range(200):
        ticket = busy.choose(0.0)
        busy.observe(ticket.id, float(ticket.arm == "tea"), 0.0)
        exchange(everyone)
    assert idle.rounds == 0
    assert idle.recommended == "coffee"
    assert idle.distribution()[1] > 0.9


def test_gossip_waits_for_first_rounds_that_overwrite_received_values() -> None:
    one = member(Federation(("tea", "coffee"), fb.networks.path(2), algorithm=fb.GossipUCB()))
    tickets = [one.choose(0.0), one.choose(0.0), one.choose(0.0)]
    one.observe(tickets[1].id, 0.5, 0.0)
    one.observe(tickets[2].id, 0.5, 0.0)
    assert not one.gossips
    one.observe(tickets[0].id, 0.5, 0.0)
    assert one.gossips
