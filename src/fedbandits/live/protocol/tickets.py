"""Tickets: choices that wait for a loss, and a memory of those that were closed recently."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from typing import NamedTuple

import msgspec
import numpy as np

from .observations import UnknownTicketError
from .records import TicketRecord, TicketStatus

EVENT_LENGTH = 200
"""The largest length of an application's name for a choice."""

REMEMBERED = 10_000
"""Number of closed tickets that an agent remembers, to recognise repeated observations."""


class ChoiceError(ValueError):
    """An impossible choice."""


class ConflictingChoiceError(ChoiceError):
    """A second choice for the same event, among other arms."""


class Ticket(msgspec.Struct, frozen=True, gc=False):
    """The result of `choose`.

    Attributes:
        id: The id under which the loss is observed.
        arm: The arm to play.
        probability: The probability of the draw.
        event: The application's name for the choice, if it has one.
        would: The arm that was drawn, if a baseline is played instead.
    """

    id: str
    arm: str
    probability: float
    event: str | None = None
    would: str | None = None


class OpenTicket(msgspec.Struct, frozen=True, gc=False):
    """A choice that waits for its loss.

    Attributes:
        id: The id under which the loss is observed.
        arm: The arm that was to be played.
        probability: The probability of the draw.
        age: Seconds since the choice.
    """

    id: str
    arm: str
    probability: float
    age: float

    @classmethod
    def of(cls, record: TicketRecord, arms: tuple[str, ...], now: float) -> OpenTicket:
        """Return the open ticket of a record, at a time in seconds since 1970."""
        p = float(np.frombuffer(record.p)[record.arm])
        return cls(record.id, arms[record.arm], p, now - record.issued)


class TicketExpiry(NamedTuple):
    """The treatment of tickets that are never observed.

    Attributes:
        after: Seconds until a ticket expires; None for never.
        loss: The loss charged then; None drops the ticket.
    """

    after: float | None = None
    loss: float | None = None

    def over(self, record: TicketRecord, now: float) -> bool:
        """Return whether a ticket has expired."""
        return self.after is not None and now - record.issued >= self.after


class TicketBook:
    """The tickets of one agent.

    Args:
        name: the name of the agent, for errors.
        tickets: the tickets of the journal.
        now: seconds since 1970; no ticket is younger. Otherwise a clock that was ahead would keep a
            ticket open for long.

    Attributes:
        open: open tickets by id, in the order of their rounds, which is the order of expiry.
        closed: closed tickets by id, in the order of closing; without their distributions.
        events: ids of tickets by event.
    """

    def __init__(self, name: str, tickets: Iterable[TicketRecord], now: float) -> None:
        known = [msgspec.structs.replace(t, issued=min(t.issued, now)) for t in tickets]
        self._name = name
        self.open = {t.id: t for t in sorted(known, key=lambda t: t.issued) if t.status == "open"}
        self.closed = {t.id: t for t in sorted(known, key=lambda t: t.closed) if t.status != "open"}
        self.events = {t.event: t.id for t in known if t.event}
        self._unsaved: dict[int, TicketRecord] = {}
        self._forgotten: list[int] = []

    def add(self, record: TicketRecord) -> None:
        """Add an open ticket."""
        self.open[record.id] = record
        if record.event:
            self.events[record.event] = record.id
        self._unsaved[record.round] = record

    def close(
        self, record: TicketRecord, feedback: bytes, status: TicketStatus, number: int
    ) -> None:
        """Close a ticket, and forget the oldest closed one if there are too many.

        Args:
            record: the ticket.
            feedback: the losses that the agent learned from.
            status: observed or expired.
            number: the number of closed tickets, including this one.
        """
        # A repeated choice for the same event returns the probability again.
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
        """Return a closed ticket by its id; raise UnknownTicketError without one."""
        if ticket not in self.closed:
            raise UnknownTicketError(
                f"{self._name} knows no ticket {ticket!r}: it belongs to another agent, or was "
                f"closed more than {REMEMBERED:,} tickets ago"
            )
        return self.closed[ticket]

    def id_of(self, event: str) -> str:
        """Return the id of the ticket for an event; raise UnknownTicketError without one."""
        if event not in self.events:
            raise UnknownTicketError(
                f"{self._name} knows no event {event!r}: there was no choice for it, or its ticket "
                f"was closed more than {REMEMBERED:,} tickets ago"
            )
        return self.events[event]

    def changes(self) -> tuple[list[TicketRecord], list[int]]:
        """Return the new and closed tickets since the last call, and the forgotten rounds."""
        changes = list(self._unsaved.values()), self._forgotten
        self._unsaved, self._forgotten = {}, []
        return changes


def keyed_uniform(seed: bytes, t: int) -> float:
    """Return the number in [0, 1) that draws the arm of round t: a keyed hash of t.

    A choice is therefore a function of the seed and its round. After a crash the agent repeats the
    same choices. Nobody without the seed can predict them.

    Example:
        >>> keyed_uniform(b"seed", 1) == keyed_uniform(b"seed", 1) != keyed_uniform(b"seed", 2)
        True
    """
    digest = hashlib.blake2b(t.to_bytes(8, "little"), key=seed, digest_size=8).digest()
    return (int.from_bytes(digest, "little") >> 11) * 2.0**-53
