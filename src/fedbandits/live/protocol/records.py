"""What is kept of an agent: its state, its edges and its tickets, as plain data."""

from __future__ import annotations

from typing import Literal, NamedTuple

import msgspec

Status = Literal["open", "observed", "expired"]


class Identity(msgspec.Struct, frozen=True):
    """What a journal must agree with to be continued.

    Attributes:
        agent: its name.
        algorithm: what it does and with which parameters, as text.
        arms: their names.
        low: the smallest loss or reward there can be.
        high: the largest.
        epsilon: ε per round for the agent's losses (event level), even if all others collude, where
            it learns from noisy bits instead; arms are public. None for no guarantee.
    """

    agent: str
    algorithm: str
    arms: tuple[str, ...]
    low: float = 0.0
    high: float = 1.0
    epsilon: float | None = None


class TicketRecord(msgspec.Struct, frozen=True, gc=False):
    """A ticket as it is kept.

    Attributes:
        id: as the application knows it.
        round: t, the agent's own count of choices.
        arm: its number.
        p: what it was drawn from, K numbers of 64 bits. Of a closed one the arm's alone, if it
            has an event, else nothing.
        issued: when, in seconds since 1970.
        status: open, observed or expired.
        absent: the numbers of the arms that were not allowed.
        feedback: the losses observed, or charged on expiry, in numbers of 64 bits; nothing where
            the agent learns from noisy bits.
        closed: how many tickets had been closed then, this one included; 0 while it is open.
        event: the application's own name for the choice; empty if it gave none.
        would: the number of the arm that was drawn where a baseline was played instead; -1 if none
            was.
    """

    id: str
    round: int
    arm: int
    p: bytes
    issued: float
    status: Status = "open"
    absent: tuple[int, ...] = ()
    feedback: bytes = b""
    closed: int = 0
    event: str = ""
    would: int = -1


class ArrayRecord(msgspec.Struct, frozen=True, gc=False):
    """An array as it is kept."""

    dtype: str
    shape: tuple[int, ...]
    content: bytes


class LossRecord(msgspec.Struct, frozen=True, gc=False):
    """Sums of the losses that an agent has observed, see `LossSums`.

    Attributes:
        since: the time of the first observation, in seconds since 1970.
        until: the latest time for which the periods were updated, in seconds since 1970.
        rewards: whether the last observation was a reward.
        sums: the sums as 64-bit floats; sums of noisy bits if the agent learns from these.
    """

    since: float
    until: float
    rewards: bool
    sums: bytes


class StateRecord(msgspec.Struct, frozen=True, gc=False):
    """What an agent has learnt, as it is kept.

    Attributes:
        rounds: how many choices it has made.
        observed: how many of them were observed.
        expired: how many expired.
        fields: the algorithm's state.
        inputs: what it has put in, by average leaf.
        maxima: by maximum leaf.
        losses: sums of observed losses; None before the first.
    """

    rounds: int
    observed: int
    expired: int
    fields: dict[str, ArrayRecord]
    inputs: dict[str, bytes]
    maxima: dict[str, bytes]
    losses: LossRecord | None = None


class EdgeRecord(msgspec.Struct, frozen=True, gc=False):
    """An end of an edge, as it is kept."""

    incarnation: int
    other: int
    sequence: int
    flow: dict[str, bytes]


class Changes(NamedTuple):
    """What is to be written in one transaction.

    Attributes:
        state: the newest, if it changed.
        edges: by neighbour; None for one that was taken out.
        tickets: new, or with a new status.
        forgotten: the rounds of tickets closed so long ago that they are let go.
    """

    state: StateRecord | None
    edges: dict[str, EdgeRecord | None]
    tickets: list[TicketRecord]
    forgotten: list[int]

    def __bool__(self) -> bool:
        return bool(self.state or self.edges or self.tickets or self.forgotten)


class Saved(NamedTuple):
    """What a journal gives back.

    Attributes:
        life: names what began with an empty journal; tickets bear it.
        seed: of the choices.
        state: the last one written; None for an agent that has done nothing yet.
        edges: by neighbour.
        tickets: those that are open, and the last that were closed, in the order of rounds.
    """

    life: str
    seed: bytes
    state: StateRecord | None
    edges: dict[str, EdgeRecord]
    tickets: list[TicketRecord]
