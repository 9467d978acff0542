"""Nothing is lost in thousands of histories; three ways to break the protocol are each found."""

from __future__ import annotations

import asyncio
import os
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from fedbandits.live.agent import Agent
from fedbandits.live.ledger import Ledger
from fedbandits.live.messages import Message, Report
from tests.salt import SALT

from .histories import play_history

SHARES = 8
HISTORIES = int(os.environ.get("HISTORIES", "2000"))
"""How many are played; 100,000 on demand, which take an hour."""


@pytest.mark.slow
@pytest.mark.parametrize("share", range(SHARES))
def test_nothing_is_lost(share: int) -> None:
    happened: Counter[str] = Counter()
    for seed in range(share, HISTORIES, SHARES):
        happened.update(play_history(seed + SALT * 10**7))
    assert happened["rest"] == len(range(share, HISTORIES, SHARES))
    assert all(happened[what] > 0 for what in ("crash", "lose_disk", "leave", "change_members"))


@settings(max_examples=20, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(seed=st.integers(0, 2**32), events=st.integers(0, 60))
def test_nothing_is_lost_in_any_history(seed: int, events: int) -> None:
    play_history(seed, events)


def count_repeated_messages(patch: pytest.MonkeyPatch) -> None:
    """An owner that moves the flow for every report, whether its last flow was applied or not."""
    receive = Ledger.receive

    def broken(self: Ledger, sender: str, message: Message) -> Any:
        edge = self.edges.get(sender)
        if edge is not None and isinstance(message, Report):
            message = msgspec.structs.replace(message, sequence=edge.sequence)
        return receive(self, sender, message)

    patch.setattr(Ledger, "receive", broken)


def answer_before_the_commit(patch: pytest.MonkeyPatch) -> None:
    """A caller that is told so before it is on disk."""

    async def broken(self: Agent) -> None:
        self._pending.set()
        await asyncio.sleep(0)

    patch.setattr(Agent, "_saved", broken)


def send_before_the_commit(patch: pytest.MonkeyPatch) -> None:
    """An answer to a neighbour that is sent before the flow is on disk."""
    receive = Agent._receive

    def broken(self: Agent, sender: str, payload: bytes) -> None:
        receive(self, sender, payload)
        outbox, self._outbox = self._outbox, []
        for to, message in outbox:
            assert self._transport is not None
            self._transport.send(to, message)

    patch.setattr(Agent, "_receive", broken)


def drop_the_incarnation(patch: pytest.MonkeyPatch) -> None:
    """An edge that takes every message for one of the ledger it has."""
    receive = Ledger.receive

    def broken(self: Ledger, sender: str, message: Message) -> Any:
        edge = self.edges.get(sender)
        if edge is not None:
            numbers = {"incarnation": edge.other or message.incarnation, "other": edge.incarnation}
            message = msgspec.structs.replace(message, **numbers)
        return receive(self, sender, message)

    patch.setattr(Ledger, "receive", broken)


@pytest.mark.slow
@pytest.mark.parametrize(
    "broken",
    [
        count_repeated_messages,
        answer_before_the_commit,
        send_before_the_commit,
        drop_the_incarnation,
    ],
)
def test_a_broken_protocol_is_found(broken: Any) -> None:
    with found_broken(), pytest.MonkeyPatch.context() as patch:
        broken(patch)
        for seed in range(500):
            play_history(seed)


@contextmanager
def found_broken() -> Iterator[None]:
    """What a broken protocol shows itself by: an invariant, or an agent that knows no ticket."""
    with pytest.raises((AssertionError, ValueError), match=r"."):
        yield
