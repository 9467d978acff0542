"""One agent's part: tickets, observations, expiry, and what is kept of it."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import fedbandits as fb
from fedbandits.algorithms import REGISTRY
from fedbandits.live import (
    ConflictingObservationError,
    ExpiredTicketError,
    Federation,
    ObservationError,
    UnknownTicketError,
    UnsuitableError,
)
from fedbandits.live.protocol import tickets as book
from fedbandits.live.protocol.agent_core import AgentCore
from fedbandits.live.protocol.observations import LossRange
from fedbandits.live.protocol.records import SavedAgent
from fedbandits.live.protocol.suitability import check_suitable
from tests.instances import ALGORITHMS

from .members import empty, exchange, member, members

ALONE = Federation(("tea", "coffee", "cocoa"), fb.networks.path(1))


def put_in(one: AgentCore) -> Any:
    return one.ledger.inputs["z"]


def test_an_observation_is_counted_once() -> None:
    one = member(ALONE)
    ticket = one.choose(0.0)
    one.observe(ticket.id, 0.5, 0.0)
    counted = put_in(one)
    one.observe(ticket.id, 0.5, 0.0)
    assert put_in(one) is counted
    assert counted.sum() == pytest.approx(0.5 / ticket.probability, rel=1e-15)
    assert (one.rounds, one.observed, one.open_tickets) == (1, 1, 0)


def test_many_tickets_may_be_open_and_come_in_any_order() -> None:
    """Each is learnt from with the p and the round it was drawn with."""
    one, other = member(ALONE), member(ALONE)
    tickets = [one.choose(0.0) for _ in range(5)]
    assert [other.choose(0.0) for _ in range(5)] == tickets
    for ticket in tickets:
        one.observe(ticket.id, 0.3, 0.0)
    for ticket in reversed(tickets):
        other.observe(ticket.id, 0.3, 0.0)
    expected = np.zeros(3)
    for ticket in tickets:
        expected[ALONE.arms.index(ticket.arm)] += 0.3 / ticket.probability
    np.testing.assert_allclose(put_in(one), expected, rtol=1e-13)
    np.testing.assert_allclose(put_in(other), expected, rtol=1e-13)


@pytest.mark.parametrize(
    ("loss", "why"),
    [
        (1.5, r"a loss must be in \[0, 1\], not 1.5.*in agent.toml"),
        (-0.1, "not -0.1"),
        (float("nan"), "not nan"),
        ("0.5", "must be a number, not '0.5'"),
        (True, "not True"),
        ([0.1, 0.2, 0.3], "give one number"),
    ],
)
def test_bad_losses_are_refused_and_the_ticket_stays_open(loss: Any, why: str) -> None:
    one = member(ALONE)
    ticket = one.choose(0.0)
    with pytest.raises(ObservationError, match=why):
        one.observe(ticket.id, LossRange().scaled(loss), 0.0)
    assert one.open_tickets == 1
    one.observe(ticket.id, 1, 0.0)


def test_another_loss_for_the_same_ticket_is_refused() -> None:
    one = member(ALONE)
    ticket = one.choose(0.0)
    one.observe(ticket.id, 0.5, 0.0)
    with pytest.raises(ConflictingObservationError, match=r"with loss 0.5, and not 0.6"):
        one.observe(ticket.id, 0.6, 0.0)


def test_unknown_tickets_are_refused() -> None:
    with pytest.raises(UnknownTicketError, match="agent1 knows no ticket 'elsewhere-1'"):
        member(ALONE).observe("elsewhere-1", 0.5, 0.0)


def test_old_closed_tickets_are_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(book, "REMEMBERED", 3)
    one = member(ALONE)
    tickets = [one.choose(0.0) for _ in range(5)]
    for ticket in tickets:
        one.observe(ticket.id, 0.5, 0.0)
    changes = one.changes()
    assert changes.forgotten == [1, 2]
    assert [record.round for record in changes.tickets] == [3, 4, 5]
    with pytest.raises(UnknownTicketError, match="more than 3 tickets ago"):
        one.observe(tickets[0].id, 0.5, 0.0)


def test_tickets_expire_and_are_dropped() -> None:
    federation = Federation(ALONE.arms, fb.networks.path(1), expire_after=60.0)
    one = member(federation)
    early, late = one.choose(0.0), one.choose(30.0)
    one.observe(late.id, 0.5, 60.0)
    with pytest.raises(ExpiredTicketError, match="has expired"):
        one.observe(early.id, 0.5, 61.0)
    assert (one.expired, one.observed, one.open_tickets) == (1, 1, 0)
    assert put_in(one).sum() == pytest.approx(0.5 / late.probability)


def test_an_expired_ticket_may_be_charged() -> None:
    federation = Federation(ALONE.arms, fb.networks.path(1), expire_after=60.0, expired_loss=1.0)
    one = member(federation)
    ticket = one.choose(0.0)
    one.expire(100.0)
    one.expire(200.0)
    assert put_in(one).sum() == pytest.approx(1 / ticket.probability)
    assert one.expired == 1


@pytest.mark.parametrize(
    ("allowed", "why"),
    [
        (["te"], "no arm 'te'; did you mean 'tea'"),
        ([], "names no arm"),
    ],
)
def test_bad_allowed_is_refused(allowed: list[str], why: str) -> None:
    one = member(ALONE)
    with pytest.raises(ValueError, match=why):
        one.choose(0.0, allowed)
    assert one.rounds == 0


def test_only_allowed_arms_are_played() -> None:
    one = member(ALONE)
    played = {one.choose(0.0, ["tea", "cocoa"]).arm for _ in range(50)}
    assert played == {"tea", "cocoa"}
    assert one.choose(0.0, ["coffee"]).probability == 1.0


def test_who_cannot_say_what_an_absent_arm_is_charged_refuses() -> None:
    federation = Federation(ALONE.arms, fb.networks.path(1), algorithm=fb.GossipUCB())
    with pytest.raises(ValueError, match="GossipUCB plays all arms or none"):
        member(federation).choose(0.0, ["tea"])
    assert member(federation).choose(0.0, list(ALONE.arms)).arm == "tea"


def test_full_information_takes_the_losses_of_all() -> None:
    federation = Federation(ALONE.arms, fb.networks.path(1), algorithm=fb.FedHedge())
    one = member(federation)
    for losses in ([0.1, 0.2, 0.3], {"coffee": 0.2, "tea": 0.1, "cocoa": 0.3}):
        one.observe(one.choose(0.0).id, losses, 0.0)
    np.testing.assert_allclose(put_in(one), [0.2, 0.4, 0.6])
    for bad, why in ((0.5, "all arms"), ([0.1], "all arms"), ({"tea": 1}, "no loss of coffee")):
        with pytest.raises(ObservationError, match=why):
            one.observe(one.choose(0.0).id, bad, 0.0)


@pytest.mark.parametrize("name", sorted(REGISTRY))
def test_who_needs_a_common_round_is_refused_by_name(name: str) -> None:
    living = {"FedExp3", "TrackingFedExp3", "Exp3", "FedHedge", "GossipUCB", "Uniform"}
    algorithm = ALGORITHMS[name]
    if name in living:
        check_suitable(algorithm, 3, 4)
    else:
        called = type(algorithm).__name__
        with pytest.raises(UnsuitableError, match=f"{called} cannot live apart: its? "):
            check_suitable(algorithm, 3, 4)


@pytest.mark.parametrize(
    "of",
    [lambda z, t: z * 2, lambda z, t: -z / 2, lambda z, t: z / t, lambda z, t: np.minimum(z, 1.5)],
    ids=["grows", "turns", "by the round", "not linear"],
)
def test_who_does_not_add_to_what_it_received_is_found_out(of: Any) -> None:
    class Strange(fb.FedExp3):
        def update(self, state: Any, received: Any, *rest: Any) -> Any:
            return super().update(state, {"z": of(received["z"], rest[-1])}, *rest)

    with pytest.raises(UnsuitableError, match="Strange cannot live apart: its 'z'"):
        check_suitable(Strange(), 3, 4)


def test_a_share_of_what_was_received_is_kept() -> None:
    np.testing.assert_array_equal(check_suitable(fb.FedExp3(), 3, 4)["z"], [1, 1, 1])
    np.testing.assert_allclose(check_suitable(fb.FedExp3(memory=4), 3, 4)["z"], [0.75] * 3)
    assert check_suitable(fb.Exp3(), 3, 4) == {}


def reopened(one: AgentCore, federation: Federation, kept: dict[str, Any]) -> AgentCore:
    """The member again, from what it said to keep."""
    changes = one.changes()
    kept["state"] = changes.state or kept.get("state")
    kept.setdefault("tickets", {}).update({t.round: t for t in changes.tickets})
    kept.setdefault("edges", {}).update(changes.edges)
    saved = empty(one.name)._replace(
        state=kept["state"],
        edges=kept["edges"],
        tickets=sorted(kept["tickets"].values(), key=lambda t: t.round),
    )
    return member(federation, one.name, SavedAgent(*saved))


@pytest.mark.parametrize(
    "algorithm", [fb.FedExp3(), fb.FedExp3(memory=9), fb.FedHedge(), fb.GossipUCB(), fb.Exp3()]
)
def test_reopened_it_goes_on_as_if_nothing_had_been(algorithm: Any) -> None:
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


def test_a_flow_that_became_an_input_is_kept_with_its_edge() -> None:
    """Else a restart would give back what was forgotten."""
    algorithm = fb.FedExp3(memory=2)
    pair = Federation(ALONE.arms, fb.networks.path(2), algorithm=algorithm)
    everyone = members(pair)
    one = everyone[pair.members[0]]
    kept: dict[str, Any] = {}
    for _ in range(5):
        other = everyone[pair.members[1]]
        other.observe(other.choose(0.0).id, 1.0, 0.0)
        exchange(everyone)
    one = reopened(one, pair, kept)
    before = one.ledger.values["z"]
    assert before.any()
    alone = Federation(ALONE.arms, fb.networks.path(1), algorithm=algorithm)
    one.adopt(alone.part("agent1"))
    np.testing.assert_array_equal(one.ledger.values["z"], before)
    state = one.changes().state or kept["state"]
    again = member(alone, saved=empty(one.name)._replace(state=state))
    np.testing.assert_array_equal(again.ledger.values["z"], before)


def test_an_idle_agent_hears() -> None:
    """Who makes no choice plays from what its neighbours have found, not from what it knew last."""
    pair = Federation(("tea", "coffee"), fb.networks.path(2))
    everyone = members(pair)
    busy, idle = everyone.values()
    for _ in range(200):
        ticket = busy.choose(0.0)
        busy.observe(ticket.id, float(ticket.arm == "tea"), 0.0)
        exchange(everyone)
    assert idle.rounds == 0
    assert idle.recommended == "coffee"
    assert idle.distribution()[1] > 0.9


def test_the_last_closed_are_remembered_longest_also_after_a_restart(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(book, "REMEMBERED", 2)
    one, kept = member(ALONE), dict[str, Any]()
    first, second, third = (one.choose(0.0) for _ in range(3))
    for ticket in (second, first):  # the first is closed last
        one.observe(ticket.id, 0.5, 0.0)
    one = reopened(one, ALONE, kept)
    one.observe(third.id, 0.5, 0.0)
    one.observe(first.id, 0.5, 0.0)  # the same again
    with pytest.raises(UnknownTicketError):
        one.observe(second.id, 0.5, 0.0)


def test_the_same_loss_in_other_words_is_the_same() -> None:
    one = member(ALONE)
    ticket = one.choose(0.0)
    one.observe(ticket.id, 0.0, 0.0)
    for same in (-0.0, 1e-9, np.float32(1e-8)):
        one.observe(ticket.id, same, 0.0)


@pytest.mark.parametrize(
    "allowed", [iter(["tea", "cocoa"]), {"tea": 1, "cocoa": 2}, ("cocoa", "tea")]
)
def test_allowed_may_be_anything_that_names_arms(allowed: Any) -> None:
    ticket = member(ALONE).choose(0.0, allowed)
    assert ticket.arm in ("tea", "cocoa")
    assert ticket.probability == pytest.approx(0.5)


def test_allowed_is_no_text() -> None:
    with pytest.raises(TypeError, match=r"allowed=\['tea'\]"):
        member(ALONE).choose(0.0, "tea")


def test_gossip_waits_for_first_rounds_that_overwrite() -> None:
    pair = Federation(("tea", "coffee"), fb.networks.path(2), algorithm=fb.GossipUCB())
    one = member(pair)
    tickets = [one.choose(0.0), one.choose(0.0), one.choose(0.0)]
    one.observe(tickets[1].id, 0.5, 0.0)
    one.observe(tickets[2].id, 0.5, 0.0)
    assert not one.gossips
    one.observe(tickets[0].id, 0.5, 0.0)
    assert one.gossips
