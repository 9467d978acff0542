"""Tickets that wait for their loss, and those closed lately: what is asked of them again."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

import msgspec

from .observations import UnknownTicketError
from .records import Status, TicketRecord

REMEMBERED = 10_000
"""Closed tickets that an agent remembers, to know an observation that is made twice."""


class Expiry(NamedTuple):
    """What becomes of a ticket that is never observed.

    Attributes:
        after: seconds it stays open; None for ever.
        loss: charged then; None drops the ticket.
    """

    after: float | None = None
    loss: float | None = None


class TicketBook:
    """The tickets of one agent.

    Args:
        name: of the agent, for errors.
        tickets: what the journal holds of them.
        now: seconds since 1970; none of these is younger. A clock that was ahead when a ticket was
            given out must not keep it open for long.

    Attributes:
        open: open tickets by id, in the order of their rounds, which is the order of expiry.
        closed: by id, in the order in which they were closed; without their p.
        events: the ids of the tickets that bear an event of the application's own.
    """

    def __init__(self, name: str, tickets: Iterable[TicketRecord], now: float) -> None:
        known = [msgspec.structs.replace(t, issued=min(t.issued, now)) for t in tickets]
        self._name = name
        self.open = {t.id: t for t in sorted(known, key=lambda t: t.issued) if t.status == "open"}
        self.closed = {t.id: t for t in sorted(known, key=lambda t: t.closed) if t.status != "open"}
        self.events = {t.event: t.id for t in known if t.event}
        self._unsaved: dict[int, TicketRecord] = {}
        self._forgotten: list[int] = []

    def keep(self, record: TicketRecord) -> None:
        """One more is open."""
        self.open[record.id] = record
        if record.event:
            self.events[record.event] = record.id
        self._unsaved[record.round] = record

    def close(self, record: TicketRecord, feedback: bytes, status: Status, number: int) -> None:
        """One waits no more; the one closed longest ago may be forgotten for it.

        Args:
            record: of the ticket.
            feedback: what was learnt from.
            status: observed or expired.
            number: how many have been closed by now.
        """
        # Should the event be chosen for again, it is told with which probability.
        p = record.p[8 * record.arm :][:8] if record.event else b""
        closed = msgspec.structs.replace(
            record, status=status, feedback=feedback, p=p, closed=number
        )
        del self.open[record.id]
        self.closed[record.id] = self._unsaved[record.round] = closed
        if len(self.closed) > REMEMBERED:
            oldest = self.closed.pop(next(iter(self.closed)))
            self.events.pop(oldest.event, None)
            self._unsaved.pop(oldest.round, None)
            self._forgotten.append(oldest.round)

    def closed_ticket(self, ticket: str) -> TicketRecord:
        """One that is closed.

        Raises:
            UnknownTicketError: if there is none of this id, or none any more.
        """
        if ticket not in self.closed:
            raise UnknownTicketError(
                f"{self._name} knows no ticket {ticket!r}: it is another agent's, or was closed "
                f"more than {REMEMBERED:,} tickets ago"
            )
        return self.closed[ticket]

    def of_event(self, event: str) -> str:
        """The id of the ticket that was given out for an event."""
        if event not in self.events:
            raise UnknownTicketError(
                f"{self._name} knows no event {event!r}: nothing was chosen for it, or its ticket "
                f"was closed more than {REMEMBERED:,} tickets ago"
            )
        return self.events[event]

    def changes(self) -> tuple[list[TicketRecord], list[int]]:
        """What is new or closed since this was last called, and the rounds of what is forgotten."""
        found = list(self._unsaved.values()), self._forgotten
        self._unsaved, self._forgotten = {}, []
        return found
