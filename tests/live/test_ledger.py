"""The protocol, message by message."""

from __future__ import annotations

import math
from contextlib import suppress

import msgspec
import numpy as np
import pytest

import fedbandits as fb
from fedbandits.live import Federation
from fedbandits.live.protocol.edge import owns
from fedbandits.live.protocol.ledger import AgentLedger
from fedbandits.live.protocol.messages import (
    LARGEST,
    FlowMessage,
    Message,
    MessageFormat,
    RejectedMessageError,
    ReportMessage,
    packed,
)
from fedbandits.networks import Network

FORM = MessageFormat(b"12345678", {"z": 2}, {"m": 1})


def pair(
    weight: float = 0.25, limit: float = math.inf, kept: list[float] | None = None
) -> tuple[AgentLedger, AgentLedger]:
    """The owner of an edge, and the other end."""
    names = ("u", "v") if owns("u", "v") else ("v", "u")
    shares = None if kept is None else {"z": np.array(kept)}
    owner, other = (AgentLedger(name, FORM, limit, shares) for name in names)
    owner.connect(other.name, weight, 10)
    other.connect(owner.name, weight, 20)
    return owner, other


def report(other: AgentLedger) -> Message:
    [(_, sent)] = other.reports()
    return sent


def answer(owner: AgentLedger, sent: Message) -> Message:
    [neighbour] = owner.edges
    flow = owner.receive(neighbour, sent)
    assert isinstance(flow, FlowMessage)
    return flow


def exchanged(owner: AgentLedger, other: AgentLedger) -> None:
    assert other.receive(owner.name, answer(owner, report(other))) is None


def put(ledger: AgentLedger, z: list[float], m: float = 0.0) -> None:
    ledger.set_values({"z": ledger.values["z"] + np.array(z), "m": np.array([m])})


def test_one_exchange_moves_the_weight_of_the_difference() -> None:
    owner, other = pair()
    put(owner, [4.0, 0.0], 3)
    put(other, [0.0, 8.0], 5)
    exchanged(owner, other)
    np.testing.assert_array_equal(owner.values["z"], [3.0, 2.0])
    np.testing.assert_array_equal(other.values["z"], [1.0, 6.0])
    assert owner.values["m"] == other.values["m"] == 5


def test_a_repeated_report_moves_nothing_twice() -> None:
    owner, other = pair()
    put(owner, [4.0, 0.0])
    sent = report(other)
    first, second = answer(owner, sent), answer(owner, sent)
    assert (first, owner.edges[other.name].sequence) == (second, 1)


def test_a_lost_flow_is_made_good_by_the_next() -> None:
    owner, other = pair()
    put(owner, [4.0, 0.0])
    answer(owner, report(other))  # lost
    exchanged(owner, other)
    np.testing.assert_array_equal(owner.values["z"] + other.values["z"], [4.0, 0.0])
    assert other.edges[owner.name].sequence == 1


def test_an_old_flow_is_recognised_and_counted() -> None:
    owner, other = pair()
    put(owner, [4.0, 0.0])
    late = answer(owner, report(other))
    other.receive(owner.name, late)
    exchanged(owner, other)
    there, edge = other.values["z"], other.edges[owner.name]
    other.receive(owner.name, late)
    assert other.values["z"] is there
    assert other.edges[owner.name] is edge  # what it heard last is not what it says
    assert (other.stale, owner.stale) == ({owner.name: 1}, {})


def test_an_old_report_is_counted_and_answered() -> None:
    """Where all is well, a report names the last flow that was moved, or the one before it."""
    owner, other = pair()
    sent = []
    for _ in range(3):
        put(owner, [4.0, 0.0])
        sent.append(report(other))
        exchanged(owner, other)
    assert (owner.edges[other.name].sequence, owner.stale) == (3, {})
    now = answer(owner, sent[2])
    assert (owner.stale, owner.edges[other.name].sequence) == ({}, 3)
    edge = owner.edges[other.name]
    assert [answer(owner, old) for old in sent[:2]] == [now, now]
    assert owner.stale == {other.name: 2}
    assert owner.edges[other.name] is edge


@pytest.mark.parametrize("who", ["owner", "other"])
def test_an_end_without_its_disk_starts_anew(who: str) -> None:
    owner, other = pair()
    put(owner, [4.0, 0.0])
    put(other, [0.0, 8.0])
    for _ in range(3):
        exchanged(owner, other)
    old = report(other) if who == "other" else answer(owner, report(other))
    if who == "owner":
        owner = AgentLedger(owner.name, FORM)
        owner.connect(other.name, 0.25, 11)
    else:
        other = AgentLedger(other.name, FORM)
        other.connect(owner.name, 0.25, 21)
    exchanged(owner, other)
    exchanged(owner, other)
    left = [0.0, 8.0] if who == "owner" else [4.0, 0.0]
    np.testing.assert_allclose(owner.values["z"] + other.values["z"], left)
    # What was sent before, and arrives late, changes nothing.
    flows = owner.edges[other.name].flow["z"], other.edges[owner.name].flow["z"]
    (owner if who == "other" else other).receive((other if who == "other" else owner).name, old)
    assert owner.edges[other.name].flow["z"] is flows[0]
    assert other.edges[owner.name].flow["z"] is flows[1]
    assert (owner if who == "other" else other).stale.total() >= 1


def test_an_end_whose_clock_went_back_becomes_newer_again() -> None:
    owner, other = pair()
    put(owner, [4.0, 0.0])
    exchanged(owner, other)
    other = AgentLedger(other.name, FORM)
    other.connect(owner.name, 0.25, 3)  # below the 20 of before
    exchanged(owner, other)
    assert other.edges[owner.name].incarnation == 21
    exchanged(owner, other)
    exchanged(owner, other)
    np.testing.assert_allclose(owner.values["z"] + other.values["z"], [4.0, 0.0])
    assert owner.edges[other.name].neighbour_incarnation == 21


def test_who_is_taken_out_gives_back_and_may_return() -> None:
    owner, other = pair()
    put(owner, [4.0, 0.0])
    exchanged(owner, other)
    owner.disconnect(other.name)
    np.testing.assert_array_equal(owner.values["z"], [4.0, 0.0])
    with pytest.raises(RejectedMessageError, match="not a neighbour"):
        owner.receive(other.name, report(other))
    owner.connect(other.name, 0.25, 12)
    exchanged(owner, other)
    exchanged(owner, other)
    np.testing.assert_allclose(owner.values["z"] + other.values["z"], [4.0, 0.0])
    assert owner.edges[other.name].sequence == 1  # the first only told that both start anew


def test_a_goodbye_undoes_the_flow_on_both_ends() -> None:
    owner, other = pair()
    put(owner, [4.0, 0.0])
    put(other, [0.0, 8.0])
    exchanged(owner, other)
    other.leave({owner.name: 21})
    [(_, goodbye)] = other.goodbyes()
    told = owner.receive(other.name, goodbye)
    assert told is not None
    assert other.receive(owner.name, told) is None
    assert other.goodbyes() == []
    np.testing.assert_array_equal(owner.values["z"], [4.0, 0.0])
    np.testing.assert_array_equal(other.values["z"], [0.0, 8.0])
    assert owner.edges[other.name].neighbour_left
    back = AgentLedger(other.name, FORM)
    back.restore(other.inputs, other.maxima, other.edges)
    exchanged(owner, back)
    assert not owner.edges[other.name].neighbour_left
    np.testing.assert_array_equal(owner.values["z"] + back.values["z"], [4.0, 8.0])


@pytest.mark.parametrize("how", ["leave", "disconnect", "disk"])
def test_what_is_forgotten_is_not_given_back(how: str) -> None:
    """The first entry is forgotten by half in every round, the second never."""
    kept = [0.5, 1.0]
    owner, other = pair(kept=kept)
    for _ in range(50):
        for ledger, more in ((owner, 4.0), (other, 0.0)):
            forgotten = ledger.values["z"] * (np.array(kept) - 1)
            put(ledger, list(forgotten + more))
        exchanged(owner, other)
    before = other.values["z"]
    assert other.inputs["z"][0] < -20  # what it forgot of what flowed to it
    if how == "leave":
        owner.leave({other.name: 11})
        [(_, goodbye)] = owner.goodbyes()
        other.receive(owner.name, goodbye)
    elif how == "disconnect":
        other.disconnect(owner.name)
    else:
        owner = AgentLedger(owner.name, FORM)
        owner.connect(other.name, 0.25, 11)
        exchanged(owner, other)
    assert other.inputs_changed
    np.testing.assert_allclose(other.values["z"], [before[0], 0.0])


def test_an_owner_that_leaves_hears_that_it_is_known() -> None:
    owner, other = pair()
    put(owner, [4.0, 0.0])
    exchanged(owner, other)
    owner.leave({other.name: 11})
    [(_, goodbye)] = owner.goodbyes()
    told = other.receive(owner.name, goodbye)
    assert isinstance(told, ReportMessage)
    np.testing.assert_array_equal(other.values["z"], [0.0, 0.0])
    assert owner.receive(other.name, told) is None
    assert owner.goodbyes() == []


def test_clipping_bounds_what_is_moved_and_keeps_the_mean() -> None:
    owner, other = pair(limit=1.0)
    put(owner, [100.0, 0.0])
    exchanged(owner, other)
    np.testing.assert_allclose(other.values["z"], [0.25, 0.0])
    np.testing.assert_allclose(owner.values["z"] + other.values["z"], [100.0, 0.0])


def test_an_owner_that_moves_more_than_the_limit_is_refused() -> None:
    owner, other = pair(limit=1.0)
    sent = answer(owner, report(other))
    lie = msgspec.structs.replace(sent, flow=packed({"z": np.array([25.0, 0.0])}))
    with pytest.raises(RejectedMessageError, match="both ends restart this edge"):
        other.receive(owner.name, lie)
    np.testing.assert_array_equal(other.values["z"], [0.0, 0.0])
    assert other.edges[owner.name].neighbour_values is None


@pytest.mark.parametrize("limit", [math.inf, 1.0])
def test_an_owner_with_an_older_disk_heals(limit: float) -> None:
    """It was put back from a backup: what it has sent since, it does not know."""
    owner, other = pair(limit=limit)
    put(owner, [4.0, 0.0])
    exchanged(owner, other)
    backup = owner.edges[other.name]
    exchanged(owner, other)
    exchanged(owner, other)
    owner.restore(owner.inputs, owner.maxima, {other.name: backup})
    with pytest.raises(RejectedMessageError, match=r"flow 3 of .* cannot follow on flow 1"):
        owner.receive(other.name, report(other))
    exchanged(owner, other)
    exchanged(owner, other)
    np.testing.assert_allclose(owner.values["z"] + other.values["z"], [4.0, 0.0])


def test_a_weight_that_one_end_adopts_first_heals_under_clipping() -> None:
    owner, other = pair(weight=0.5, limit=1.0)
    put(owner, [100.0, 0.0])
    exchanged(owner, other)
    other.connect(owner.name, 0.25, 99)
    for _ in range(4):
        with suppress(RejectedMessageError):
            exchanged(owner, other)
    owner.connect(other.name, 0.25, 99)
    for _ in range(4):
        with suppress(RejectedMessageError):
            exchanged(owner, other)
    np.testing.assert_allclose(owner.values["z"] + other.values["z"], [100.0, 0.0])
    assert other.edges[owner.name].sequence > 0


def test_a_flow_that_comes_too_soon_is_applied_when_it_comes_again() -> None:
    """Else an owner that lies could move the limit as often as it can send."""
    owner, other = pair(limit=1.0)
    put(owner, [100.0, 0.0])
    flow = answer(owner, report(other))
    assert other.receive(owner.name, flow, exchange=False) is None
    np.testing.assert_array_equal(other.values["z"], [0.0, 0.0])
    again = answer(owner, report(other))
    assert again.sequence == flow.sequence
    assert other.receive(owner.name, again) is None
    np.testing.assert_array_equal(owner.values["z"] + other.values["z"], [100.0, 0.0])
    np.testing.assert_array_equal(other.values["z"], [0.25, 0.0])


def test_clipping_allows_for_the_rounding_of_large_flows() -> None:
    owner, other = pair(weight=1 / 3, limit=1.0)
    put(owner, [1e9 + 0.1, 0.0])
    exchanged(owner, other)
    for one, sign in ((owner, 1.0), (other, -1.0)):
        [name] = one.edges
        moved = {"z": np.array([sign * 1e8 / 3, 0.0])}
        one.restore(one.inputs, one.maxima, {name: one.edges[name]._replace(flow=moved)})
    for _ in range(50):
        exchanged(owner, other)
    assert other.edges[owner.name].sequence == 51


def test_a_flow_far_ahead_is_no_way_around_the_limit() -> None:
    owner, other = pair(limit=1.0)
    put(owner, [100.0, 0.0])
    exchanged(owner, other)
    sent = answer(owner, report(other))
    assert isinstance(sent, FlowMessage)
    lie = msgspec.structs.replace(sent, sequence=10**15, flow=packed({"z": np.array([1e12, 0.0])}))
    with pytest.raises(RejectedMessageError, match="both ends restart"):
        other.receive(owner.name, lie)
    assert np.abs(other.values["z"]).max() <= 1.0


@pytest.mark.parametrize(
    "network", [fb.networks.grid(3, 3), fb.networks.star(6), fb.networks.path(5)]
)
def test_an_exchange_of_what_all_held_is_the_product_with_w(network: Network) -> None:
    federation = Federation(("a", "b"), network)
    W = federation.gossip.matrix.toarray()  # type: ignore[union-attr]  # made a Gossip by Federation
    ledgers = {name: AgentLedger(name, FORM) for name in federation.members}
    for u, v, weight in federation.edges():
        ledgers[u].connect(v, weight, 1)
        ledgers[v].connect(u, weight, 1)
    z = np.random.default_rng(0).random((network.agents, 2))
    for ledger, value in zip(ledgers.values(), z, strict=True):
        put(ledger, list(value))
    for _ in range(4):
        for ledger in ledgers.values():
            ledger.hold()
        for name, ledger in ledgers.items():
            for owner, sent in ledger.reports():
                assert isinstance(sent, ReportMessage)
                flow = ledgers[owner].receive(name, sent)
                assert flow is not None
                ledger.receive(owner, flow)
        for ledger in ledgers.values():
            ledger.release()
        z = W @ z
        np.testing.assert_allclose([one.values["z"] for one in ledgers.values()], z, rtol=1e-13)


def test_owners_are_spread_about_evenly() -> None:
    names = [f"agent{i}" for i in range(100)]
    owned = sum(owns(one, other) for one in names for other in names if one < other)
    assert 0.4 < owned / (100 * 99 / 2) < 0.6


@pytest.mark.parametrize("first", ["owner", "other"])
@pytest.mark.parametrize(("weight", "limit"), [(0.4, math.inf), (0.25, 30.0)])
def test_ends_with_other_files_refuse_each_other_and_then_go_on(
    first: str, weight: float, limit: float
) -> None:
    """Nothing moves while they disagree; then the flow goes on where it was, by the new terms."""
    owner, other = pair(weight=0.25)
    put(owner, [8.0, 0.0])
    exchanged(owner, other)
    under_way = answer(owner, report(other))  # moved, and not yet applied
    ends = [owner, other] if first == "owner" else [other, owner]

    def adopt(end: AgentLedger) -> None:
        [neighbour] = end.edges
        end.connect(neighbour, weight, 99)
        end.limit = limit

    adopt(ends[0])
    flows = [end.edges[next(iter(end.edges))] for end in (owner, other)]
    with pytest.raises(RejectedMessageError, match="another file") as found:
        answer(owner, report(other))
    assert found.value.reason == "file"
    if first == "other":  # it comes too late; an owner that adopts first has sent it before
        with pytest.raises(RejectedMessageError, match="another file"):
            other.receive(owner.name, under_way)
    assert [end.edges[next(iter(end.edges))] for end in (owner, other)] == flows
    adopt(ends[1])
    before = owner.edges[other.name]
    exchanged(owner, other)
    # The flow under way arrives first, and the next exchange moves by the new weight.
    np.testing.assert_array_equal(other.edges[owner.name].flow["z"], -before.flow["z"])
    difference = (owner.values["z"] - other.values["z"])[0]
    exchanged(owner, other)
    moved = owner.edges[other.name].flow["z"][0] - before.flow["z"][0]
    assert moved == pytest.approx(weight * difference)
    assert owner.edges[other.name].sequence == before.sequence + 1
    np.testing.assert_allclose(owner.values["z"] + other.values["z"], [8.0, 0.0], atol=1e-12)


def test_the_last_digits_of_a_weight_are_no_other_file() -> None:
    owner, other = pair(weight=0.25)
    other.connect(owner.name, 0.25 * (1 + 1e-6), 99)
    put(owner, [8.0, 0.0])
    exchanged(owner, other)
    assert owner.values["z"][0] == 6.0


def test_a_goodbye_is_heard_by_who_has_another_file() -> None:
    owner, other = pair(weight=0.25)
    put(owner, [8.0, 0.0])
    exchanged(owner, other)
    owner.connect(other.name, 0.4, 99)
    other.leave({owner.name: 30})
    [(_, goodbye)] = other.goodbyes()
    other.receive(owner.name, answer(owner, goodbye))
    assert not other.unaware
    assert (owner.values["z"] == [8.0, 0.0]).all()
    assert (other.values["z"] == 0).all()


def test_no_honest_flow_or_value_is_beyond_what_the_other_end_takes() -> None:
    """Inputs as large as these are no honest agent's; a liar that is gone may have left flows."""
    owner, other = pair()
    put(owner, [40 * LARGEST, 0.0])
    put(other, [-40 * LARGEST, 0.0])
    for _ in range(20):
        exchanged(owner, other)
    assert owner.edges[other.name].flow["z"][0] == LARGEST
    assert other.edges[owner.name].flow["z"][0] == -LARGEST
    put(owner, [-40.5 * LARGEST, 0.0])
    put(other, [40.5 * LARGEST, 0.0])
    for _ in range(300):
        exchanged(owner, other)
    np.testing.assert_allclose(owner.values["z"], other.values["z"], rtol=0, atol=1e-3)


def test_values_that_no_honest_agent_reaches_count_as_the_largest_it_can_reach() -> None:
    names = ("u", "v") if owns("u", "v") else ("v", "u")
    owner, other = (AgentLedger(name, FORM, largest_estimate=100.0) for name in names)
    owner.connect(other.name, 0.25, 10)
    other.connect(owner.name, 0.25, 20)
    put(other, [1000.0, -1000.0])
    exchanged(owner, other)
    np.testing.assert_array_equal(owner.values["z"], [25.0, -25.0])
    np.testing.assert_array_equal(owner.values["z"] + other.values["z"], [1000.0, -1000.0])


def test_a_flow_of_an_older_journal_that_is_too_large_starts_again() -> None:
    """Up to version 2 of the protocol flows between honest agents could pass any bound."""
    owner, other = pair()
    for one, sign in ((owner, 1), (other, -1)):
        [name] = one.edges
        edge = one.edges[name]._replace(flow={"z": np.array([sign * 4e15, 0.0])}, sequence=7)
        one.restore({"z": np.array([sign * 4e15 + 1.0, 0.0])}, one.maxima, {name: edge})
    owner.inputs["z"] = np.array([1.0, 0.0])
    other.inputs["z"] = np.array([3.0, 0.0])
    for one in (owner, other):
        [name] = one.edges
        one.connect(name, 0.25, 5)  # as an agent does when it starts
        assert name in one.changed_edges
    for _ in range(100):
        with suppress(RejectedMessageError):
            exchanged(owner, other)
    np.testing.assert_allclose(owner.values["z"], [2.0, 0.0])
    np.testing.assert_allclose(other.values["z"], [2.0, 0.0])


@pytest.mark.parametrize("liar", ["owner", "other"])
def test_no_incarnation_that_a_liar_claims_ends_an_edge(liar: str) -> None:
    """The largest that is believed, and all beyond it; then an honest end comes back."""
    clock = [1000]
    owner, other = pair()
    owner._largest_incarnation = other._largest_incarnation = lambda: clock[0]
    exchanged(owner, other)
    victim, thief = (other, owner) if liar == "owner" else (owner, other)
    for claimed in (1000, 1001, 2**62, 2**63 - 2, 2**63 - 1):
        lie = msgspec.structs.replace(thief.message_to(victim.name), sender_incarnation=claimed)
        with suppress(RejectedMessageError):
            victim.receive(thief.name, lie)
        lie = msgspec.structs.replace(thief.message_to(victim.name), receiver_incarnation=claimed)
        with suppress(RejectedMessageError):
            victim.receive(thief.name, lie)
    clock[0] += 10
    honest = AgentLedger(thief.name, FORM, largest_incarnation=lambda: clock[0])
    honest.connect(victim.name, 0.25, 30)
    ends = (honest, victim) if liar == "owner" else (victim, honest)
    put(ends[0], [8.0, 0.0])
    for _ in range(50):
        exchanged(*ends)
    np.testing.assert_allclose(ends[0].values["z"], [4.0, 0.0])
    np.testing.assert_allclose(ends[1].values["z"], [4.0, 0.0])


@pytest.mark.parametrize("who", ["owner", "other"])
def test_an_incarnation_that_an_earlier_version_believed_is_forgotten(who: str) -> None:
    owner, other = pair()
    owner._largest_incarnation = other._largest_incarnation = lambda: 1000
    exchanged(owner, other)
    victim, thief = (owner, other) if who == "owner" else (other, owner)
    poisoned = victim.edges[thief.name]._replace(neighbour_incarnation=2**63 - 2)
    victim.restore(victim.inputs, victim.maxima, {thief.name: poisoned})
    victim.connect(thief.name, 0.25, 40)  # as an agent does when it starts
    put(owner, [8.0, 0.0])
    for _ in range(50):
        exchanged(owner, other)
    np.testing.assert_allclose(owner.values["z"], [4.0, 0.0])
    np.testing.assert_allclose(other.values["z"], [4.0, 0.0])
