"""Choices among some of the arms, under the application's own names, and with a baseline."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import fedbandits as fb
from fedbandits.algorithms import AnyAlgorithm
from fedbandits.live import Agent, Federation, MemoryStore, Ticket, UnknownTicketError
from fedbandits.live.protocol.agent_core import AgentCore
from fedbandits.live.protocol.records import Changes
from fedbandits.live.protocol.tickets import ChoiceError, ConflictingChoiceError
from tests.salt import SALT

from .members import exchange, member, members

ARMS = ("tea", "coffee", "cocoa")


def federation(algorithm: AnyAlgorithm | None = None, agents: int = 1) -> Federation:
    return Federation(ARMS, fb.networks.path(agents), algorithm=algorithm or fb.FedExp3(0.5))


ALONE = federation()


# Absent arms


@pytest.mark.parametrize("container", [iter, set, tuple, dict.fromkeys])
def test_only_allowed_arms_are_drawn(container: Any) -> None:
    """`allowed` is any iterable of names."""
    one = member(ALONE)
    tickets = [one.choose(0.0, container(["cocoa", "tea"])) for _ in range(50)]
    assert {ticket.arm for ticket in tickets} == {"tea", "cocoa"}
    assert tickets[0].probability == pytest.approx(0.5)
    assert one.choose(0.0, container(["coffee"])).probability == 1.0


UCB = federation(fb.GossipUCB())


@pytest.mark.parametrize(
    ("shops", "options", "error", "why"),
    [
        (ALONE, {"allowed": ["te"]}, ChoiceError, "no arm 'te'; did you mean 'tea'"),
        (ALONE, {"allowed": []}, ChoiceError, "names no arm"),
        (ALONE, {"allowed": "tea"}, TypeError, r"allowed=\['tea'\]"),
        (ALONE, {"baseline": "te"}, ChoiceError, r"no arm 'te'.*tea"),
        (ALONE, {"allowed": ["cocoa"], "baseline": "tea"}, ChoiceError, "baseline 'tea' is played"),
        (ALONE, {"event": ""}, ChoiceError, "not 0"),
        (ALONE, {"event": "x" * 201}, ChoiceError, "not 201"),
        (UCB, {"allowed": ["tea"]}, ChoiceError, "GossipUCB plays all arms or none"),
        (UCB, {"baseline": "tea"}, ChoiceError, "GossipUCB plays all arms or none"),
    ],
)
def test_impossible_choices_are_rejected(
    shops: Federation, options: dict[str, Any], error: type[Exception], why: str
) -> None:
    one = member(shops)
    with pytest.raises(error, match=why):
        one.choose(0.0, **options)
    assert one.rounds == 0
    assert one.choose(0.0, list(ARMS)).arm in ARMS


@pytest.mark.parametrize("away", [(), (1,), (0, 2), (0, 1)])
def test_estimates_with_absent_arms_are_unbiased(away: tuple[int, ...]) -> None:
    """Exactly, on average over the draws: a present arm is charged its loss, and an absent one the
    loss of the others' mixture."""

    def started(drawn: float) -> AgentCore:
        one = member(ALONE, uniforms=lambda _: drawn)
        one.ledger.set_values({"z": np.array([0.3, 1.4, 0.8])})
        return one

    losses = np.array([0.2, 0.9, 0.5])
    present = [i for i in range(3) if i not in away]
    expected, shares = np.zeros(3), np.zeros(3)
    for arm in present:
        p = started(0.0).distribution()[present]
        shares[present] = p / p.sum()
        one = started(float(shares[:arm].sum() + shares[arm] / 2))  # the middle of the arm's share
        before = one.ledger.inputs["z"]
        ticket = one.choose(0.0, [ARMS[i] for i in present] if away else None)
        assert ticket.arm == ARMS[arm]
        assert ticket.probability == pytest.approx(shares[arm], rel=1e-12)
        one.observe(ticket.id, losses[arm], 0.0)
        expected += shares[arm] * (one.ledger.inputs["z"] - before)
    mixture = shares @ losses
    wanted = [mixture if i in away else losses[i] for i in range(3)]
    np.testing.assert_allclose(expected, wanted, rtol=1e-12)


def test_full_information_charges_the_mixture() -> None:
    one = member(federation(fb.FedHedge()))
    ticket = one.choose(0.0, ["tea", "cocoa"])
    one.observe(ticket.id, {"tea": 0.25, "cocoa": 0.75}, 0.0)
    np.testing.assert_allclose(one.ledger.inputs["z"], [0.25, 0.5, 0.75], rtol=1e-12)


def test_an_absent_arm_keeps_its_share() -> None:
    """The rule of sleeping experts: with full information exact up to terms of η²."""
    one = member(federation(fb.FedHedge(1e-4)))
    before = one.distribution()[1]
    for _ in range(10):
        ticket = one.choose(0.0, ["tea", "cocoa"])
        one.observe(ticket.id, {"tea": 0.0, "cocoa": 1.0}, 0.0)
    assert one.distribution()[1] == pytest.approx(before, abs=10 * 1e-8)


def regret_of(algorithm: AnyAlgorithm, seed: int, rounds: int) -> float:
    """Return the largest regret against an arm over the rounds in which it was allowed.

    Losses are averaged over agents, and the regret is that of the mean agent.
    """
    agents, arms, rng = 9, tuple(f"arm{i}" for i in range(9)), np.random.default_rng([seed, SALT])
    shops = Federation(arms, fb.networks.grid(3, 3), algorithm=algorithm)
    everyone = members(shops, str(seed + 1000 * SALT))
    means = np.linspace(0.3, 0.7, len(arms))
    # Agents differ, and agree only on average.
    shifts = rng.uniform(-0.3, 0.3, (agents, len(arms)))
    shifts -= shifts.mean(axis=0)
    beyond = np.zeros(len(arms))
    for _ in range(rounds):
        losses = (rng.random((agents, len(arms))) < means + shifts).astype(float)
        average = losses.mean(axis=0)
        for v, one in enumerate(everyone.values()):
            present = np.sort(rng.choice(len(arms), 6, replace=False))
            ticket = one.choose(0.0, [arms[i] for i in present])
            arm = arms.index(ticket.arm)
            one.observe(ticket.id, losses[v, arm], 0.0)
            beyond[present] += average[arm] - average[present]
        exchange(everyone)
        for one in everyone.values():
            one.changes()
    return float(beyond.max()) / agents


@pytest.mark.slow
def test_agents_learn_together_when_a_third_of_the_arms_is_absent() -> None:
    """Measured over 12 seeds: regret 13.8 and 37.2, with standard deviations of 1.8 and 4.2.

    The difference of the means of three runs is therefore nine standard errors above 0.
    """
    federated = [regret_of(fb.FedExp3(), seed, 500) for seed in range(3)]
    alone = [regret_of(fb.Exp3(), seed, 500) for seed in range(3)]
    assert np.mean(federated) < np.mean(alone)


# Events


def test_a_repeated_event_returns_the_same_ticket() -> None:
    """Also after its observation."""
    one = member(ALONE)
    first = one.choose(0.0, event="order 1")
    assert first.event == "order 1"
    assert one.choose(1.0, event="order 1") == first
    other = one.choose(1.0, event="order 2")
    assert (other.id != first.id, one.rounds, one.open_tickets) == (True, 2, 2)
    assert one.book.id_of("order 2") == other.id
    one.observe(one.book.id_of("order 1"), 0.5, 0.0)
    assert one.choose(1.0, event="order 1") == first
    assert (one.rounds, one.observed) == (2, 1)
    with pytest.raises(UnknownTicketError, match="no event 'order 9'"):
        one.book.id_of("order 9")


def test_events_survive_a_restart(tmp_path: Path) -> None:
    async def restarted() -> list[Ticket]:
        tickets = []
        for start in range(3):
            async with Agent("agent1", ALONE, tmp_path / "agent.db") as agent:
                tickets.append(await agent.choose(event="order 1"))
                if start == 1:
                    await agent.observe(agent.ticket_of("order 1"), 0.25)
                assert agent.rounds == 1
        return tickets

    first, still_open, closed = asyncio.run(restarted())
    assert first == still_open == closed


def test_a_repeat_waits_until_the_first_is_on_disk() -> None:
    class HeldStore(MemoryStore):
        held: asyncio.Event | None = None

        async def write(self, changes: Changes) -> None:
            if self.held is not None:
                await self.held.wait()
            await super().write(changes)

    async def repeated() -> None:
        store = HeldStore()
        async with Agent("agent1", ALONE, store) as agent:
            store.held = asyncio.Event()
            calls = [asyncio.create_task(agent.choose(event="order 1")) for _ in range(2)]
            await asyncio.sleep(0.02)
            assert not any(call.done() for call in calls)
            store.held.set()
            first, again = await asyncio.gather(*calls)
            assert first == again

    asyncio.run(repeated())


@pytest.mark.parametrize("changed", [{"allowed": ["tea", "cocoa"]}, {"baseline": "tea"}])
def test_another_choice_for_the_same_event_is_rejected(changed: dict[str, Any]) -> None:
    one = member(ALONE)
    ticket = one.choose(0.0, event="order 1")
    with pytest.raises(ConflictingChoiceError, match=f"'order 1'.*{ticket.id}"):
        one.choose(0.0, event="order 1", **changed)
    assert one.rounds == 1


def test_old_events_are_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("fedbandits.live.protocol.tickets.REMEMBERED", 3)
    one, known = member(ALONE), []
    for i in range(5):
        one.observe(one.choose(0.0, event=f"order {i}").id, 0.5, 0.0)
    for i in range(5):
        with suppress(UnknownTicketError):
            one.book.id_of(f"order {i}")
            known.append(i)
    assert known == [2, 3, 4]
    assert len(one.book.events) == 3


# Apprentices, which play a baseline


def test_the_baseline_is_played_and_the_draw_is_reported() -> None:
    """The same numbers draw the choices of an agent without a baseline."""
    apprentice, free = member(ALONE), member(ALONE)
    tickets = [apprentice.choose(0.0, baseline="tea") for _ in range(30)]
    assert {(each.arm, each.probability) for each in tickets} == {("tea", 1.0)}
    assert [each.would for each in tickets] == [free.choose(0.0).arm for _ in range(30)]
    assert {each.would for each in tickets} == set(ARMS)


def test_one_arm_alone_changes_no_share() -> None:
    """Arms that no agent played are charged the same loss, exactly."""
    one = member(ALONE)
    one.ledger.set_values({"z": np.array([0.5, 0.0, 1.0])})
    before = one.ledger.values["z"]
    for loss in (1.0, 0.25, 0.5):
        one.observe(one.choose(0.0, baseline="tea").id, loss, 0.0)
    np.testing.assert_array_equal(one.ledger.values["z"] - before, 1.75)


def test_an_apprentice_learns_from_a_neighbour_that_plays_freely() -> None:
    both = members(federation(fb.FedExp3(0.3), agents=2))
    apprentice, free = both.values()
    for _ in range(300):
        ticket = free.choose(0.0)
        free.observe(ticket.id, 0.1 if ticket.arm == "cocoa" else 0.9, 0.0)
        apprentice.observe(apprentice.choose(0.0, baseline="tea").id, 0.9, 0.0)
        exchange(both)
    assert apprentice.recommended == "cocoa"
    last = [apprentice.choose(0.0, baseline="tea") for _ in range(40)]
    assert {each.arm for each in last} == {"tea"}
    assert sum(each.would == "cocoa" for each in last) > 20


def test_an_apprentice_with_full_information_learns_all_losses() -> None:
    one = member(federation(fb.FedHedge()))
    one.observe(one.choose(0.0, baseline="tea").id, [0.5, 0.25, 1.0], 0.0)
    np.testing.assert_array_equal(one.ledger.values["z"], [0.5, 0.25, 1.0])


def test_a_repeated_event_of_an_apprentice_counts_once() -> None:
    async def twice() -> None:
        async with Agent("agent1", ALONE, MemoryStore()) as agent:
            first = await agent.choose(event="order 1", baseline="tea")
            await agent.observe(first.id, 0.5)
            assert await agent.choose(event="order 1", baseline="tea") == first
            assert first.would is not None
            assert agent.would == {first.would: 1}

    asyncio.run(twice())
