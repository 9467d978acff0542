"""Messages that do not belong to the game are rejected without any effect."""

from __future__ import annotations

from typing import Any

import msgspec
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import fedbandits as fb
from fedbandits.live import Federation
from fedbandits.live.protocol.agent_core import AgentCore
from fedbandits.live.protocol.messages import (
    VERSION,
    EdgeTerms,
    RejectedMessageError,
    ReportMessage,
    encode,
    packed,
)

from .members import exchange, member, members

PAIR = Federation(("tea", "coffee"), fb.networks.path(2), algorithm=fb.GossipUCB())

TERMS = EdgeTerms(0.5)


def values(theta: list[float]) -> dict[str, bytes]:
    return packed({"theta": np.array(theta, float), "n_most": np.ones(2)})


def report(**other: Any) -> ReportMessage:
    """Return a report as the neighbour may send it, with these fields changed."""
    game = member(PAIR).ledger.form.game
    return msgspec.structs.replace(
        ReportMessage(VERSION, game, 5, 0, 0, TERMS, values([0, 0])), **other
    )


def past_first_rounds(*, owner: bool) -> tuple[AgentCore, str]:
    """Return one end of the edge, past its first rounds, and the name of the other."""
    [one] = [each for each in members(PAIR).values() if bool(each.ledger.reports()) != owner]
    for _ in range(2):
        one.observe(one.choose(0.0).id, 0.5, 0.0)
    [neighbour] = one.ledger.edges
    return one, neighbour


def test_a_valid_report_is_answered() -> None:
    one, neighbour = past_first_rounds(owner=True)
    [(to, _)] = one.receive(neighbour, encode(report()))
    assert to == neighbour


@pytest.mark.parametrize(
    ("payload", "why"),
    [
        (b"", "not a message"),
        (b"\x00" * 40, "not a message"),
        (b"\xc1", "not a message"),
        (encode(report()).replace(b"theta", b"th\xffta"), "not a message"),
        (b"x" * 10_000, "10,000 bytes"),
        (encode(report(version=1)), "protocol 1"),
        (encode(report(game=b"12345678")), "another game"),
        (encode(report(terms=EdgeTerms(0.4))), "another file.*weight 0.4 there and 0.5 here"),
        (encode(report(terms=EdgeTerms(0.5, 9.0))), "another file.*limit 9 there and none here"),
        (encode(report(terms=EdgeTerms(np.nan))), "another file"),
        (encode(report(terms=EdgeTerms(-0.5))), "another file"),
        (encode(report(values={})), "are expected"),
        (encode(report(values=values([0, 0, 0]))), "24 bytes"),
        (encode(report(values=packed({"theta": np.zeros(2), "n": np.zeros(2)}))), "are expected"),
        (encode(report(values=values([0, np.nan]))), "which no honest agent sends"),
        (encode(report(values=values([np.inf, -np.inf]))), "which no honest agent sends"),
        (encode(report(values=values([0, -1e16]))), "which no honest agent sends"),
        (encode(report(receiver_incarnation=2**62 + 1)), "100 years ahead of the clock"),
        (encode(report(sequence=7)), "flow 7 of .* cannot follow on flow 0"),
    ],
)  # fmt: skip
def test_invalid_messages_are_rejected_and_change_nothing(payload: bytes, why: str) -> None:
    one, neighbour = past_first_rounds(owner=True)
    before, flow = one.ledger.values, one.ledger.edges[neighbour].flow
    with pytest.raises(RejectedMessageError, match=why):
        one.receive(neighbour, payload)
    assert (one.ledger.values["theta"] == before["theta"]).all()
    assert (one.ledger.edges[neighbour].flow["theta"] == flow["theta"]).all()


@pytest.mark.parametrize("version", [1, 3])
def test_other_versions_are_recognised_whatever_their_content(version: int) -> None:
    """Version 1 had no terms, and a later one may have anything."""
    game = member(PAIR).ledger.form.game
    sent = ["report", version, game, 5, 0, 0, values([0, 0]), False]
    one, neighbour = past_first_rounds(owner=True)
    with pytest.raises(RejectedMessageError, match=f"protocol {version}, and this is") as error:
        one.receive(neighbour, msgspec.msgpack.encode(sent))
    assert error.value.reason == "protocol"


def test_nested_lists_are_rejected() -> None:
    """As deep as Python's stack; an error of another kind would fill the log."""
    one = member(Federation([f"arm{i}" for i in range(1000)], fb.networks.path(2)))
    sent = bytearray(encode(report(game=one.ledger.form.game)))
    sent[0] += 1  # one element more
    with pytest.raises(RejectedMessageError, match="not a message"):
        one.receive(next(iter(one.ledger.edges)), bytes(sent) + b"\x91" * 8000 + b"\xc0")


def test_strangers_and_reports_to_an_end_that_is_not_the_owner_are_rejected() -> None:
    one, _ = past_first_rounds(owner=True)
    with pytest.raises(RejectedMessageError, match="'eve' is not a neighbour"):
        one.receive("eve", encode(report()))
    one, neighbour = past_first_rounds(owner=False)
    with pytest.raises(RejectedMessageError, match="runs the other way"):
        one.receive(neighbour, encode(report()))


@given(st.binary(max_size=300))
def test_noise_is_rejected(payload: bytes) -> None:
    one, neighbour = past_first_rounds(owner=True)
    with pytest.raises(RejectedMessageError):
        one.receive(neighbour, payload)


@pytest.mark.parametrize("algorithm", [fb.FedExp3(), fb.GossipUCB()])
@pytest.mark.parametrize("arms", [2, 300])
def test_messages_stay_below_the_limit(algorithm: Any, arms: int) -> None:
    """Also with the largest incarnations."""
    names = [f"arm{i}" for i in range(arms)]
    pair = Federation(names, fb.networks.path(2), algorithm=algorithm)
    newest = 2**62 - 1
    everyone = {name: member(pair, name, incarnation=lambda: newest) for name in pair.members}
    for one in everyone.values():
        one._gossips = True
    for _ in range(3):
        exchange(everyone)
    for one in everyone.values():
        for neighbour in one.ledger.edges:
            sent = encode(one.ledger.message_to(neighbour))
            assert len(sent) + 16 <= one.ledger.form.most_bytes
