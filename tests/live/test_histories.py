"""Nothing is lost in thousands of histories; three ways to break the protocol are each found."""

from __future__ import annotations

import asyncio
import math
import os
from collections import Counter
from collections.abc import Iterable
from typing import Any

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import fedbandits as fb
from fedbandits.live.agent.group_commit import GroupCommit
from fedbandits.live.protocol.ledger import Ledger
from fedbandits.live.protocol.member import Member
from fedbandits.live.protocol.messages import Message, Report
from tests.salt import SALT
from tests.tiers import soak_but

from .histories import play_history

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
    """At rest Σ z = Σ I, where I has what was forgotten taken away."""
    play_history(seed, events, fb.FedExp3(memory=10))


def count_repeated_messages(patch: pytest.MonkeyPatch) -> None:
    """An owner that moves the flow for every report, whether its last flow was applied or not."""
    receive = Ledger.receive

    def broken(self: Ledger, sender: str, message: Message, **how: Any) -> Any:
        edge = self.edges.get(sender)
        if edge is not None and isinstance(message, Report):
            message = msgspec.structs.replace(message, sequence=edge.sequence)
        return receive(self, sender, message, **how)

    patch.setattr(Ledger, "receive", broken)


def answer_before_the_commit(patch: pytest.MonkeyPatch) -> None:
    """A caller that is told so before it is on disk."""

    async def broken(self: GroupCommit) -> None:
        self._pending.set()
        await asyncio.sleep(0)

    patch.setattr(GroupCommit, "saved", broken)


def send_before_the_commit(patch: pytest.MonkeyPatch) -> None:
    """An answer to a neighbour that is sent before the flow is on disk."""

    def broken(self: GroupCommit, messages: Iterable[tuple[str, bytes]]) -> None:
        for to, message in messages:
            self._send(to, message)
        self._pending.set()

    patch.setattr(GroupCommit, "post", broken)


def drop_the_incarnation(patch: pytest.MonkeyPatch) -> None:
    """An edge that takes every message for one of the ledger it has."""
    receive = Ledger.receive

    def broken(self: Ledger, sender: str, message: Message, **how: Any) -> Any:
        edge = self.edges.get(sender)
        if edge is not None:
            numbers = {"incarnation": edge.other or message.incarnation, "other": edge.incarnation}
            message = msgspec.structs.replace(message, **numbers)
        return receive(self, sender, message, **how)

    patch.setattr(Ledger, "receive", broken)


def never_say_goodbye(patch: pytest.MonkeyPatch) -> None:
    """A goodbye that is believed to be known at once."""
    patch.setattr(Ledger, "goodbyes", lambda self: self.untold.clear() or [])


def never_expire(patch: pytest.MonkeyPatch) -> None:
    """Tickets that stay open for ever."""
    patch.setattr(Member, "expire", lambda self, now: None)


def ignore_what_is_allowed(patch: pytest.MonkeyPatch) -> None:
    """Arms that are drawn whether they are there or not."""
    patch.setattr(Member, "_absent", lambda self, allowed: ())


def never_take_maxima(patch: pytest.MonkeyPatch) -> None:
    """Maxima that nobody hears of."""
    patch.setattr(Ledger, "_take_maxima", lambda self, values: None)


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
        (drop_the_incarnation, "was lost on the way|different ledgers|at most one is|flow in"),
        (never_say_goodbye, "was lost on the way|still apart|may not know"),
        (never_expire, "is still open"),
        (ignore_what_is_allowed, "was not allowed"),
        (never_take_maxima, "maxima differ"),
    ],
)
def test_a_broken_protocol_is_found(broken: Any, found: str) -> None:
    with pytest.MonkeyPatch.context() as patch:
        broken(patch)
        with pytest.raises((AssertionError, ValueError), match=found):
            play_many(1000)


def play_many(histories: int) -> None:
    for seed in range(histories):
        play_history(seed)
