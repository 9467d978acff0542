"""The records of an agent in its journal: its state, its edges and its tickets, as plain data."""

from __future__ import annotations

from typing import Literal, NamedTuple

import msgspec

TicketStatus = Literal["open", "observed", "expired"]


class Identity(msgspec.Struct, frozen=True):
    """The settings that an agent and its journal must share.

    Attributes:
        agent: The name of the agent.
        algorithm: The algorithm and its parameters, as text.
        arms: The names of the arms.
        low: The smallest possible loss or reward.
        high: The largest possible loss or reward.
        epsilon: ε per round for the agent's losses (event level), even if all others collude, for
            an agent that learns from noisy bits; arms are public. None for no guarantee.
    """

    agent: str
    algorithm: str
    arms: tuple[str, ...]
    low: float = 0.0
    high: float = 1.0
    epsilon: float | None = None


class TicketRecord(msgspec.Struct, frozen=True, gc=False):
    """The record of a ticket.

    Attributes:
        id: The id that the application uses.
        round: t, the agent's own number of choices.
        arm: The number of the arm played.
        p: The distribution of the draw, K numbers of 64 bits. A closed ticket keeps the arm's
            probability alone if it has an event, otherwise nothing.
        issued: The time of the choice, in seconds since 1970.
        status: Open, observed or expired.
        absent: The numbers of the arms that were not allowed.
        feedback: The losses observed, or charged on expiry, in numbers of 64 bits; empty if the
            agent learns from noisy bits.
        closed: The number of closed tickets when this one was closed, including it; 0 before.
        event: The application's name for the choice; empty without one.
        would: The number of the drawn arm if a baseline was played instead; otherwise -1.
    """

    id: str
    round: int
    arm: int
    p: bytes
    issued: float
    status: TicketStatus = "open"
    absent: tuple[int, ...] = ()
    feedback: bytes = b""
    closed: int = 0
    event: str = ""
    would: int = -1


class ArrayRecord(msgspec.Struct, frozen=True, gc=False):
    """The record of an array."""

    dtype: str
    shape: tuple[int, ...]
    content: bytes


class LossRecord(msgspec.Struct, frozen=True, gc=False):
    """The record of `LossSums`.

    Attributes:
        since: The time of the first observation, in seconds since 1970.
        until: The latest time for which the periods were updated, in seconds since 1970.
        rewards: Whether the last observation was a reward.
        sums: The sums as 64-bit floats; sums of noisy bits if the agent learns from these.
    """

    since: float
    until: float
    rewards: bool
    sums: bytes


class StateRecord(msgspec.Struct, frozen=True, gc=False):
    """The record of an agent's learning state.

    Attributes:
        rounds: Number of choices.
        observed: Number of observed choices.
        expired: Number of expired choices.
        fields: The algorithm's state.
        inputs: The agent's own inputs, by average leaf.
        maxima: The maxima, by maximum leaf.
        losses: Sums of observed losses; None before the first.
    """

    rounds: int
    observed: int
    expired: int
    fields: dict[str, ArrayRecord]
    inputs: dict[str, bytes]
    maxima: dict[str, bytes]
    losses: LossRecord | None = None


class EdgeRecord(msgspec.Struct, frozen=True, gc=False):
    """The record of `EdgeState`; `other` is the neighbour's incarnation."""

    incarnation: int
    other: int
    sequence: int
    flow: dict[str, bytes]


class Changes(NamedTuple):
    """The content of one transaction.

    Attributes:
        state: The new state, if it changed.
        edges: The changed edges, by neighbour; None for a removed one.
        tickets: Tickets that are new or have a new status.
        forgotten: The rounds of old closed tickets to delete.
    """

    state: StateRecord | None
    edges: dict[str, EdgeRecord | None]
    tickets: list[TicketRecord]
    forgotten: list[int]

    def __bool__(self) -> bool:
        return bool(self.state or self.edges or self.tickets or self.forgotten)


class SavedAgent(NamedTuple):
    """The agent that a journal holds.

    Attributes:
        life: A random name drawn with an empty journal; ids of tickets begin with it.
        seed: The seed of the choices.
        state: The last state; None for an agent without choices.
        edges: The edges, by neighbour.
        tickets: The open tickets and the last closed ones, in the order of rounds.
    """

    life: str
    seed: bytes
    state: StateRecord | None
    edges: dict[str, EdgeRecord]
    tickets: list[TicketRecord]
