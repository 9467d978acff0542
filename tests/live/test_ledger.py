"""The ledger of one agent, message by message."""

from __future__ import annotations

import math
from contextlib import suppress

import msgspec
import numpy as np
import pytest

import fedbandits as fb
from fedbandits.live import Federation
from fedbandits.live.protocol.edge import EdgeState, owns
from fedbandits.live.protocol.ledger import AgentLedger
from fedbandits.live.protocol.messages import (
    LARGEST,
    FlowMessage,
    Message,
    MessageFormat,
    RejectedMessageError,
    packed,
)
from fedbandits.networks import Network

FORM = MessageFormat(b"12345678", {"z": 2}, {"m": 1})
OWNER, OTHER = ("u", "v") if owns("u", "v") else ("v", "u")


def pair(weight: float = 0.25, limit: float = math.inf) -> tuple[AgentLedger, AgentLedger]:
    """Return the owner of an edge and the other end."""
    return connected(AgentLedger(OWNER, FORM, limit), AgentLedger(OTHER, FORM, limit), weight)


def connected(
    owner: AgentLedger, other: AgentLedger, weight: float = 0.25
) -> tuple[AgentLedger, AgentLedger]:
    owner.connect(OTHER, weight, 10)
    other.connect(OWNER, weight, 20)
    return owner, other


def fresh(ledger: AgentLedger, incarnation: int) -> AgentLedger:
    """Return the ledger of an agent that lost its disk."""
    new = AgentLedger(ledger.name, FORM)
    new.connect(OTHER if ledger.name == OWNER else OWNER, 0.25, incarnation)
    return new


def edge(ledger: AgentLedger) -> EdgeState:
    [only] = ledger.edges.values()
    return only


def report(other: AgentLedger) -> Message:
    [(_, sent)] = other.reports()
    return sent


def answer(owner: AgentLedger, sent: Message) -> FlowMessage:
    flow = owner.receive(OTHER, sent)
    assert isinstance(flow, FlowMessage)
    return flow


def exchange(owner: AgentLedger, other: AgentLedger) -> None:
    assert other.receive(OWNER, answer(owner, report(other))) is None


def exchange_often(owner: AgentLedger, other: AgentLedger) -> None:
    """Exchange until both ends agree; rejected messages do not stop later ones."""
    for _ in range(100):
        with suppress(RejectedMessageError):
            exchange(owner, other)


def put(ledger: AgentLedger, z: list[float], m: float = 0.0) -> None:
    ledger.set_values({"z": ledger.values["z"] + np.array(z), "m": np.array([m])})


def check_sum(owner: AgentLedger, other: AgentLedger, z: list[float]) -> None:
    np.testing.assert_allclose(owner.values["z"] + other.values["z"], z, atol=1e-9)


@pytest.mark.parametrize("difference", [0.0, 1e-6], ids=["equal weights", "other last digits"])
def test_one_exchange_moves_the_weight_of_the_difference(difference: float) -> None:
    owner, other = pair()
    other.connect(OWNER, 0.25 * (1 + difference), 99)
    put(owner, [4.0, 0.0], 3)
    put(other, [0.0, 8.0], 5)
    exchange(owner, other)
    np.testing.assert_array_equal(owner.values["z"], [3.0, 2.0])
    np.testing.assert_array_equal(other.values["z"], [1.0, 6.0])
    assert owner.values["m"] == other.values["m"] == 5


def test_a_lost_answer_is_repeated_without_a_second_exchange() -> None:
    owner, other = pair()
    put(owner, [4.0, 0.0])
    sent = report(other)
    first, second = answer(owner, sent), answer(owner, sent)  # both are lost
    assert (first, edge(owner).sequence) == (second, 1)
    exchange(owner, other)
    check_sum(owner, other, [4.0, 0.0])
    assert edge(other).sequence == 1


def test_an_old_flow_is_counted_and_ignored() -> None:
    owner, other = pair()
    put(owner, [4.0, 0.0])
    late = answer(owner, report(other))
    other.receive(OWNER, late)
    exchange(owner, other)
    values, before = other.values["z"], edge(other)
    other.receive(OWNER, late)
    assert other.values["z"] is values
    assert edge(other) is before  # the neighbour's values are the later ones
    assert (other.stale, owner.stale) == ({OWNER: 1}, {})


def test_an_old_report_is_counted_and_answered() -> None:
    """A timely report names the last flow that was moved, or the one before it."""
    owner, other = pair()
    sent = []
    for _ in range(3):
        put(owner, [4.0, 0.0])
        sent.append(report(other))
        exchange(owner, other)
    now = answer(owner, sent[2])
    assert (owner.stale, edge(owner).sequence) == ({}, 3)
    before = edge(owner)
    assert [answer(owner, old) for old in sent[:2]] == [now, now]
    assert owner.stale == {OTHER: 2}
    assert edge(owner) is before


@pytest.mark.parametrize("lost", ["owner", "other"])
def test_an_end_without_its_disk_restarts_the_edge(lost: str) -> None:
    owner, other = pair()
    put(owner, [4.0, 0.0])
    put(other, [0.0, 8.0])
    for _ in range(3):
        exchange(owner, other)
    old = report(other) if lost == "other" else answer(owner, report(other))
    if lost == "owner":
        owner = fresh(owner, 11)
    else:
        other = fresh(other, 21)
    exchange(owner, other)
    exchange(owner, other)
    check_sum(owner, other, [0.0, 8.0] if lost == "owner" else [4.0, 0.0])
    # A late message from before the loss has no effect.
    flows = edge(owner).flow["z"], edge(other).flow["z"]
    receiver, sender = (owner, OTHER) if lost == "other" else (other, OWNER)
    receiver.receive(sender, old)
    assert edge(owner).flow["z"] is flows[0]
    assert edge(other).flow["z"] is flows[1]
    assert receiver.stale.total() >= 1


def test_an_end_whose_clock_went_back_gets_a_larger_incarnation() -> None:
    owner, other = pair()
    put(owner, [4.0, 0.0])
    exchange(owner, other)
    other = fresh(other, 3)  # below the 20 of before
    exchange(owner, other)
    assert edge(other).incarnation == 21
    exchange(owner, other)
    exchange(owner, other)
    check_sum(owner, other, [4.0, 0.0])
    assert edge(owner).neighbour_incarnation == 21


def test_a_removed_neighbour_returns_its_flow_and_may_come_back() -> None:
    owner, other = pair()
    put(owner, [4.0, 0.0])
    exchange(owner, other)
    owner.disconnect(OTHER)
    np.testing.assert_array_equal(owner.values["z"], [4.0, 0.0])
    with pytest.raises(RejectedMessageError, match="not a neighbour"):
        owner.receive(OTHER, report(other))
    owner.connect(OTHER, 0.25, 12)
    exchange(owner, other)
    exchange(owner, other)
    check_sum(owner, other, [4.0, 0.0])
    assert edge(owner).sequence == 1  # the first exchange only restarted both ends


@pytest.mark.parametrize("other_weight", [0.25, 0.4])
@pytest.mark.parametrize("leaves", ["owner", "other"])
def test_a_goodbye_returns_the_flow_on_both_ends(leaves: str, other_weight: float) -> None:
    """Also if the files of both ends differ."""
    owner, other = pair()
    put(owner, [4.0, 0.0])
    put(other, [0.0, 8.0])
    exchange(owner, other)
    leaver, stayer = (owner, other) if leaves == "owner" else (other, owner)
    stayer.connect(leaver.name, other_weight, 99)
    leaver.leave({stayer.name: 21})
    [(_, goodbye)] = leaver.goodbyes()
    confirmation = stayer.receive(leaver.name, goodbye)
    assert confirmation is not None
    assert leaver.receive(stayer.name, confirmation) is None
    assert (leaver.goodbyes(), leaver.unaware) == ([], set())
    np.testing.assert_array_equal(owner.values["z"], [4.0, 0.0])
    np.testing.assert_array_equal(other.values["z"], [0.0, 8.0])
    assert edge(stayer).neighbour_left
    stayer.connect(leaver.name, 0.25, 99)
    back = AgentLedger(leaver.name, FORM)
    back.restore(leaver.inputs, leaver.maxima, leaver.edges)
    exchange(*((back, other) if leaves == "owner" else (owner, back)))
    assert not edge(stayer).neighbour_left
    check_sum(stayer, back, [4.0, 8.0])


def test_no_goodbye_is_sent_to_a_removed_neighbour() -> None:
    owner, _ = pair()
    owner.leave({OTHER: 11})
    owner.disconnect(OTHER)
    assert owner.goodbyes() == []


@pytest.mark.parametrize("how", ["leave", "disconnect", "disk"])
def test_forgotten_flow_is_not_returned(how: str) -> None:
    """Half of the first entry is forgotten in every round, nothing of the second."""
    kept = np.array([0.5, 1.0])
    owner, other = (AgentLedger(name, FORM, kept_shares={"z": kept}) for name in (OWNER, OTHER))
    connected(owner, other)
    for _ in range(50):
        for ledger, more in ((owner, 4.0), (other, 0.0)):
            put(ledger, list(ledger.values["z"] * (kept - 1) + more))
        exchange(owner, other)
    before = other.values["z"]
    assert other.inputs["z"][0] < -20  # it subtracts what it forgot of the flow to it
    if how == "leave":
        owner.leave({OTHER: 11})
        [(_, goodbye)] = owner.goodbyes()
        other.receive(OWNER, goodbye)
    elif how == "disconnect":
        other.disconnect(OWNER)
    else:
        exchange(fresh(owner, 11), other)
    assert other.inputs_changed
    np.testing.assert_allclose(other.values["z"], [before[0], 0.0])


@pytest.mark.parametrize(("sequence", "size"), [(1, 25.0), (10**15, 1e12)])
def test_a_flow_beyond_the_limit_is_rejected(sequence: int, size: float) -> None:
    """Neither a large flow nor a large sequence number exceeds the limit."""
    owner, other = pair(limit=1.0)
    sent = answer(owner, report(other))
    flow = packed({"z": np.array([size, 0.0])})
    lie = msgspec.structs.replace(sent, sequence=sequence, flow=flow)
    with pytest.raises(RejectedMessageError, match="both ends restart this edge"):
        other.receive(OWNER, lie)
    np.testing.assert_array_equal(other.values["z"], [0.0, 0.0])
    assert edge(other).neighbour_values is None


@pytest.mark.parametrize("limit", [math.inf, 1.0])
def test_an_owner_with_an_older_disk_recovers(limit: float) -> None:
    """After a restore from a backup the owner does not know its last flows."""
    owner, other = pair(limit=limit)
    put(owner, [4.0, 0.0])
    exchange(owner, other)
    backup = edge(owner)
    exchange(owner, other)
    exchange(owner, other)
    owner.restore(owner.inputs, owner.maxima, {OTHER: backup})
    with pytest.raises(RejectedMessageError, match=r"flow 3 of .* cannot follow on flow 1"):
        owner.receive(OTHER, report(other))
    exchange(owner, other)
    exchange(owner, other)
    check_sum(owner, other, [4.0, 0.0])


def test_a_flow_that_comes_too_soon_is_applied_when_repeated() -> None:
    """Otherwise a lying owner could move the limit as often as it can send."""
    owner, other = pair(limit=1.0)
    put(owner, [100.0, 0.0])
    flow = answer(owner, report(other))
    assert other.receive(OWNER, flow, exchange=False) is None
    np.testing.assert_array_equal(other.values["z"], [0.0, 0.0])
    again = answer(owner, report(other))
    assert again.sequence == flow.sequence
    assert other.receive(OWNER, again) is None
    np.testing.assert_array_equal(owner.values["z"], [99.75, 0.0])
    np.testing.assert_array_equal(other.values["z"], [0.25, 0.0])


def test_the_limit_allows_for_the_rounding_of_large_flows() -> None:
    owner, other = pair(weight=1 / 3, limit=1.0)
    put(owner, [1e9 + 0.1, 0.0])
    exchange(owner, other)
    for one, sign in ((owner, 1.0), (other, -1.0)):
        [name] = one.edges
        moved = edge(one)._replace(flow={"z": np.array([sign * 1e8 / 3, 0.0])})
        one.restore(one.inputs, one.maxima, {name: moved})
    for _ in range(50):
        exchange(owner, other)
    assert edge(other).sequence == 51


@pytest.mark.parametrize(
    "network", [fb.networks.grid(3, 3), fb.networks.star(6), fb.networks.path(5)]
)
def test_an_exchange_of_held_values_is_the_product_with_w(network: Network) -> None:
    federation = Federation(("a", "b"), network)
    assert isinstance(federation.gossip, fb.Gossip)
    W = federation.gossip.matrix.toarray()
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
                flow = ledgers[owner].receive(name, sent)
                assert flow is not None
                ledger.receive(owner, flow)
        for ledger in ledgers.values():
            ledger.release()
        z = W @ z
        np.testing.assert_allclose([one.values["z"] for one in ledgers.values()], z, rtol=1e-13)


def test_owners_are_spread_evenly() -> None:
    names = [f"agent{i}" for i in range(100)]
    owned = sum(owns(one, other) for one in names for other in names if one < other)
    assert 0.4 < owned / (100 * 99 / 2) < 0.6


def test_flows_are_summed_in_the_order_of_names() -> None:
    """0.1 + 0.2 + 0.3 differs from 0.3 + 0.2 + 0.1; a restart must not change the last digit."""
    form, z = MessageFormat(b"game", {"z": 1}, {}), []
    for order in ("123", "321"):
        ledger = AgentLedger("me", form)
        flows = {name: {"z": np.array([0.1 * int(name)])} for name in order}
        edges = {name: EdgeState(0.1, False, 1, 0, 0, flow) for name, flow in flows.items()}
        ledger.restore({"z": np.array([0.0])}, {}, edges)
        z.append(ledger.values["z"])
    assert z[0] == z[1]


@pytest.mark.parametrize("first", ["owner", "other"])
@pytest.mark.parametrize(("weight", "limit"), [(0.4, math.inf), (0.25, 30.0)])
def test_ends_with_other_files_reject_each_other_until_the_files_agree(
    first: str, weight: float, limit: float
) -> None:
    """Flows stay meanwhile, and then continue by the new terms."""
    owner, other = pair()
    put(owner, [8.0, 0.0])
    exchange(owner, other)
    pending = answer(owner, report(other))  # moved, and not yet applied
    ends = [owner, other] if first == "owner" else [other, owner]

    def adopt(end: AgentLedger) -> None:
        [neighbour] = end.edges
        end.connect(neighbour, weight, 99)
        end.limit = limit

    adopt(ends[0])
    flows = [edge(owner), edge(other)]
    with pytest.raises(RejectedMessageError, match="another file") as error:
        answer(owner, report(other))
    assert error.value.reason == "file"
    if first == "other":  # the pending flow comes too late
        with pytest.raises(RejectedMessageError, match="another file"):
            other.receive(OWNER, pending)
    assert [edge(owner), edge(other)] == flows
    adopt(ends[1])
    before = edge(owner)
    exchange(owner, other)
    # The pending flow arrives first. The next exchange moves by the new weight.
    np.testing.assert_array_equal(edge(other).flow["z"], -before.flow["z"])
    difference = (owner.values["z"] - other.values["z"])[0]
    exchange(owner, other)
    moved = edge(owner).flow["z"][0] - before.flow["z"][0]
    assert moved == pytest.approx(weight * difference)
    assert edge(owner).sequence == before.sequence + 1
    check_sum(owner, other, [8.0, 0.0])


def test_no_honest_flow_or_value_exceeds_the_bound_of_messages() -> None:
    """No honest agent has such large inputs, but a former liar may have left such flows."""
    owner, other = pair()
    put(owner, [40 * LARGEST, 0.0])
    put(other, [-40 * LARGEST, 0.0])
    for _ in range(20):
        exchange(owner, other)
    assert edge(owner).flow["z"][0] == LARGEST
    assert edge(other).flow["z"][0] == -LARGEST
    put(owner, [-40.5 * LARGEST, 0.0])
    put(other, [40.5 * LARGEST, 0.0])
    for _ in range(300):
        exchange(owner, other)
    np.testing.assert_allclose(owner.values["z"], other.values["z"], rtol=0, atol=1e-3)


def test_impossible_estimates_count_as_the_largest_honest_ones() -> None:
    owner, other = (AgentLedger(name, FORM, largest_estimate=100.0) for name in (OWNER, OTHER))
    connected(owner, other)
    put(other, [1000.0, -1000.0])
    exchange(owner, other)
    np.testing.assert_array_equal(owner.values["z"], [25.0, -25.0])
    np.testing.assert_array_equal(owner.values["z"] + other.values["z"], [1000.0, -1000.0])


def test_a_flow_of_an_older_journal_that_is_too_large_restarts() -> None:
    """Before version 2 of the protocol, flows between honest agents had no bound."""
    owner, other = pair()
    for one, sign, own in ((owner, 1, 1.0), (other, -1, 3.0)):
        [name] = one.edges
        large = edge(one)._replace(flow={"z": np.array([sign * 4e15, 0.0])}, sequence=7)
        one.restore({"z": np.array([own, 0.0])}, one.maxima, {name: large})
        one.connect(name, 0.25, 5)  # as an agent does when it starts
        assert name in one.changed_edges
    exchange_often(owner, other)
    np.testing.assert_allclose(owner.values["z"], [2.0, 0.0])
    np.testing.assert_allclose(other.values["z"], [2.0, 0.0])


def recovers(owner: AgentLedger, other: AgentLedger) -> None:
    """Check that the edge still averages."""
    put(owner, [8.0, 0.0])
    exchange_often(owner, other)
    np.testing.assert_allclose(owner.values["z"], [4.0, 0.0])
    np.testing.assert_allclose(other.values["z"], [4.0, 0.0])


@pytest.mark.parametrize("liar", ["owner", "other"])
def test_no_incarnation_that_a_liar_claims_blocks_an_edge(liar: str) -> None:
    """Claims up to the bound and beyond it; then an honest end comes back."""
    clock = [1000]
    owner, other = pair()
    owner._largest_incarnation = other._largest_incarnation = lambda: clock[0]
    exchange(owner, other)
    victim, thief = (other, owner) if liar == "owner" else (owner, other)
    for claimed in (1000, 1001, 2**62, 2**63 - 2, 2**63 - 1):
        for field in ("sender_incarnation", "receiver_incarnation"):
            lie = msgspec.structs.replace(thief.message_to(victim.name), **{field: claimed})
            with suppress(RejectedMessageError):
                victim.receive(thief.name, lie)
    clock[0] += 10
    honest = AgentLedger(thief.name, FORM, largest_incarnation=lambda: clock[0])
    honest.connect(victim.name, 0.25, 30)
    recovers(*((honest, victim) if liar == "owner" else (victim, honest)))


@pytest.mark.parametrize("victim", ["owner", "other"])
def test_an_incarnation_that_an_earlier_version_accepted_is_forgotten(victim: str) -> None:
    owner, other = pair()
    owner._largest_incarnation = other._largest_incarnation = lambda: 1000
    exchange(owner, other)
    one, neighbour = (owner, OTHER) if victim == "owner" else (other, OWNER)
    poisoned = edge(one)._replace(neighbour_incarnation=2**63 - 2)
    one.restore(one.inputs, one.maxima, {neighbour: poisoned})
    one.connect(neighbour, 0.25, 40)  # as an agent does when it starts
    recovers(owner, other)
