"""Nothing is lost in thousands of histories, and each way to break the protocol is detected."""

from __future__ import annotations

import asyncio
import math
import os
import random
from collections import Counter
from collections.abc import Iterable
from typing import Any

import msgspec
import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import fedbandits as fb
from fedbandits.live.agent.group_commit import GroupCommit
from fedbandits.live.protocol.agent_core import AgentCore
from fedbandits.live.protocol.ledger import AgentLedger
from fedbandits.live.protocol.messages import Message, ReportMessage
from fedbandits.live.rehearsal.virtual_clock import run_virtual
from tests.salt import SALT
from tests.tiers import soak_but

from .histories import ARMS, play_history
from .lying_histories import ATTACKS, LyingHistory

SHARE = 250
SHARES = math.ceil(int(os.environ.get("HISTORIES", "2000")) / SHARE)
"""How many times 250 histories `make soak` plays; HISTORIES=100000 takes an hour."""


@pytest.mark.slow
@pytest.mark.parametrize("share", soak_but([0], range(SHARES)))
def test_nothing_is_lost(share: int) -> None:
    happened: Counter[str] = Counter()
    for seed in range(share * SHARE, (share + 1) * SHARE):
        happened.update(play_history(seed + SALT * 10**7))
    assert happened["rest"] == SHARE
    assert all(happened[what] > 0 for what in ("crash", "lose_disk", "leave", "change_members"))


@settings(max_examples=20, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(seed=st.integers(0, 2**32), events=st.integers(0, 60))
def test_nothing_is_lost_in_any_history(seed: int, events: int) -> None:
    play_history(seed, events)


@settings(max_examples=10, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(seed=st.integers(0, 2**32), events=st.integers(0, 60))
def test_nothing_is_lost_but_what_is_forgotten(seed: int, events: int) -> None:
    """At rest Σ z = Σ I, where I subtracts what was forgotten."""
    play_history(seed, events, fb.FedExp3(memory=10))


def count_repeated_messages(patch: pytest.MonkeyPatch) -> None:
    """Let the owner move the flow for every report, even if its last flow was not applied."""
    receive = AgentLedger.receive

    def broken(self: AgentLedger, sender: str, message: Message, **how: Any) -> Any:
        edge = self.edges.get(sender)
        if edge is not None and isinstance(message, ReportMessage):
            message = msgspec.structs.replace(message, sequence=edge.sequence)
        return receive(self, sender, message, **how)

    patch.setattr(AgentLedger, "receive", broken)


def answer_before_the_commit(patch: pytest.MonkeyPatch) -> None:
    """Acknowledge calls before they are on disk."""

    async def broken(self: GroupCommit) -> None:
        self._pending.set()
        await asyncio.sleep(0)

    patch.setattr(GroupCommit, "saved", broken)


def send_before_the_commit(patch: pytest.MonkeyPatch) -> None:
    """Send answers to neighbours before the flow is on disk."""

    def broken(self: GroupCommit, messages: Iterable[tuple[str, bytes]]) -> None:
        for to, message in messages:
            self._send(to, message)
        self._pending.set()

    patch.setattr(GroupCommit, "post", broken)


def drop_the_incarnation(patch: pytest.MonkeyPatch) -> None:
    """Ignore the incarnations of messages."""
    receive = AgentLedger.receive

    def broken(self: AgentLedger, sender: str, message: Message, **how: Any) -> Any:
        edge = self.edges.get(sender)
        if edge is not None:
            numbers = {
                "sender_incarnation": edge.neighbour_incarnation or message.sender_incarnation,
                "receiver_incarnation": edge.incarnation,
            }
            message = msgspec.structs.replace(message, **numbers)
        return receive(self, sender, message, **how)

    patch.setattr(AgentLedger, "receive", broken)


def never_say_goodbye(patch: pytest.MonkeyPatch) -> None:
    """Assume that neighbours know at once who leaves."""
    patch.setattr(AgentLedger, "goodbyes", lambda self: self.unaware.clear() or [])


def never_expire(patch: pytest.MonkeyPatch) -> None:
    """Keep all tickets open."""
    patch.setattr(AgentCore, "expire", lambda self, now: None)


def ignore_what_is_allowed(patch: pytest.MonkeyPatch) -> None:
    """Draw all arms, allowed or not."""
    patch.setattr(AgentCore, "_absent", lambda self, allowed: ())


def never_update_maxima(patch: pytest.MonkeyPatch) -> None:
    """Ignore received maxima."""
    patch.setattr(AgentLedger, "_update_maxima", lambda self, values: None)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("broken", "found"),
    [
        (count_repeated_messages, "at most one is under way"),
        (answer_before_the_commit, "an acknowledged|knows no ticket"),
        pytest.param(
            send_before_the_commit,
            "at most one is under way|did not flow in",
            marks=pytest.mark.soak,  # hundreds of histories pass before one shows it
        ),
        (
            drop_the_incarnation,
            "was lost on the way|still apart|different ledgers|at most one is|flow in",
        ),
        (never_say_goodbye, "was lost on the way|still apart|may not know"),
        (never_expire, "is still open"),
        (ignore_what_is_allowed, "was not allowed"),
        (never_update_maxima, "maxima differ"),
    ],
)
def test_a_broken_protocol_is_detected(broken: Any, found: str) -> None:
    with pytest.MonkeyPatch.context() as patch:
        broken(patch)
        with pytest.raises((AssertionError, ValueError), match=found):
            list(map(play_history, range(1000)))


EVENTS = int(os.environ.get("LYING_EVENTS", "3000"))
"""Number of events in each history with a liar; 100,000 on demand."""


@pytest.mark.slow
@pytest.mark.parametrize("attack", ATTACKS)
@pytest.mark.parametrize(
    "network", soak_but(["path"], {"random": None, "path": fb.networks.path(5)})
)
def test_the_removal_of_a_lying_member_undoes_its_lies(
    network: fb.Network | None, attack: str
) -> None:
    """After the removal, estimates are those that the honest members made themselves.

    On a path the liar is at one end, and the flow that it moves passes through all others.
    """
    history = LyingHistory(random.Random(SALT * 100 + 9), ATTACKS[attack], network)
    run_virtual(history.play(EVENTS))
    assert history.liar.lies > EVENTS / 3
    ledgers = history.ledgers()
    assert history.liar.name not in ledgers
    own = np.mean([ledger.inputs["z"] for ledger in ledgers.values()], axis=0)
    for name, ledger in ledgers.items():
        np.testing.assert_allclose(ledger.values["z"], own, rtol=0, atol=0.05)
        recommended = ARMS.index(history.agents[name].recommended)
        assert own[recommended] <= own.min() + 0.1  # the best one, or a tie up to the digits left
