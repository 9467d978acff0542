"""An application's own names for its choices: the same again is the same ticket."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

import fedbandits as fb
from fedbandits.live import Agent, Federation
from fedbandits.live.protocol.agent_core import AgentCore
from fedbandits.live.protocol.observations import UnknownTicketError
from fedbandits.live.protocol.records import Changes
from fedbandits.live.protocol.tickets import ChoiceError, ConflictingChoiceError, Ticket
from fedbandits.live.rehearsal.memory import MemoryStore

from .members import member

ALONE = Federation(("tea", "coffee", "cocoa"), fb.networks.path(1))


def test_the_same_event_is_the_same_ticket() -> None:
    one = member(ALONE)
    first = one.choose(0.0, event="order 1")
    assert first.event == "order 1"
    assert one.choose(1.0, event="order 1") == first
    other = one.choose(1.0, event="order 2")
    assert (other.id != first.id, one.rounds, one.open_tickets) == (True, 2, 2)
    assert one.book.id_of("order 2") == other.id


def test_it_is_the_same_after_it_was_observed() -> None:
    one = member(ALONE)
    first = one.choose(0.0, event="order 1")
    one.observe(one.book.id_of("order 1"), 0.5, 0.0)
    assert one.choose(1.0, event="order 1") == first
    assert (one.rounds, one.observed) == (1, 1)


def test_events_survive_a_restart(tmp_path: Path) -> None:
    async def lives() -> list[Ticket]:
        found = []
        for life in range(3):
            async with Agent("agent1", ALONE, tmp_path / "agent.db") as agent:
                found.append(await agent.choose(event="order 1"))
                if life == 1:
                    await agent.observe(agent.ticket_of("order 1"), 0.25)
                assert agent.rounds == 1
        return found

    first, open_still, closed = asyncio.run(lives())
    assert first == open_still == closed


def test_a_repeat_waits_until_the_first_is_on_disk() -> None:
    class Held(MemoryStore):
        held: asyncio.Event | None = None

        async def write(self, changes: Changes) -> None:
            if self.held is not None:
                await self.held.wait()
            await super().write(changes)

    async def retried() -> None:
        store = Held()
        async with Agent("agent1", ALONE, store) as agent:
            store.held = asyncio.Event()
            asks = [asyncio.create_task(agent.choose(event="order 1")) for _ in range(2)]
            await asyncio.sleep(0.02)
            assert not any(ask.done() for ask in asks)
            store.held.set()
            first, again = await asyncio.gather(*asks)
            assert first == again

    asyncio.run(retried())


@pytest.mark.parametrize("changed", [{"allowed": ["tea", "cocoa"]}, {"baseline": "tea"}])
def test_another_choice_under_the_same_name_is_refused(changed: dict[str, Any]) -> None:
    one = member(ALONE)
    ticket = one.choose(0.0, event="order 1")
    with pytest.raises(ConflictingChoiceError, match=f"'order 1'.*{ticket.id}"):
        one.choose(0.0, event="order 1", **changed)
    assert one.rounds == 1


@pytest.mark.parametrize("event", ["", "x" * 201])
def test_names_have_a_length(event: str) -> None:
    with pytest.raises(ChoiceError, match=f"not {len(event)}"):
        member(ALONE).choose(0.0, event=event)


def test_an_unknown_event_has_no_ticket() -> None:
    with pytest.raises(UnknownTicketError, match="no event 'order 9'"):
        member(ALONE).book.id_of("order 9")


def test_what_was_closed_long_ago_is_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("fedbandits.live.protocol.tickets.REMEMBERED", 3)
    one = member(ALONE)
    for i in range(5):
        one.observe(one.choose(0.0, event=f"order {i}").id, 0.5, 0.0)
    assert known(one) == ["order 2", "order 3", "order 4"]
    assert len(one.book.events) == 3


def known(one: AgentCore) -> list[str]:
    found = []
    for i in range(5):
        try:
            one.book.id_of(f"order {i}")
        except UnknownTicketError:
            continue
        found.append(f"order {i}")
    return found
