"""A journal in numbers that people and programs can read; the seed stays where it is."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import msgspec
import numpy as np

from fedbandits.live.protocol.messages import Vector
from fedbandits.live.protocol.records import Saved, TicketRecord

from .format import Content


class TicketSummary(msgspec.Struct, frozen=True):
    """A choice that waits for its loss.

    Attributes:
        id: as the application knows it.
        arm: what was chosen.
        probability: with which it was.
        age: seconds since.
    """

    id: str
    arm: str
    probability: float
    age: float


class EdgeSummary(msgspec.Struct, frozen=True):
    """What an agent has exchanged with a neighbour.

    Attributes:
        incarnation: of this end of the edge.
        other: of the neighbour's; 0 if it was never heard of.
        sequence: of the last flow.
        largest_flow: in absolute value; 0 if nothing has flowed.
    """

    incarnation: int
    other: int
    sequence: int
    largest_flow: float


class Summary(msgspec.Struct, frozen=True):
    """What a journal holds.

    Attributes:
        agent: its name.
        algorithm: its description.
        arms: their names.
        life: names what began with this journal; tickets bear it.
        process: which has it open, or was killed when it had; None if it was closed.
        rounds: how many choices the agent has made.
        observed: how many of them were observed.
        expired: how many expired.
        open: those that wait for their loss, in the order of rounds.
        values: of the leaves: what was put in less what has flowed out, and the maxima.
        edges: by neighbour.
        epsilon: ε per round for the agent's losses (event level), even if all others collude; arms
            are public. None for no guarantee.
    """

    agent: str
    algorithm: Any
    arms: tuple[str, ...]
    life: str
    process: int | None
    rounds: int
    observed: int
    expired: int
    open: list[TicketSummary]
    values: dict[str, list[float]]
    edges: dict[str, EdgeSummary]
    epsilon: float | None = None


def summary(content: Content, now: float) -> Summary:
    """A journal in numbers.

    Args:
        content: as `read_journal` gives it.
        now: seconds since 1970, from which the age of tickets is counted.
    """
    identity, saved = content.identity, content.saved
    state = saved.state
    counts = (0, 0, 0) if state is None else (state.rounds, state.observed, state.expired)
    waiting = [ticket for ticket in saved.tickets if ticket.status == "open"]
    return Summary(
        identity.agent,
        _described(identity.algorithm),
        identity.arms,
        saved.life,
        content.holder,
        *counts,
        [_ticket(ticket, identity.arms, now) for ticket in waiting],
        {name: value.tolist() for name, value in leaf_values(saved).items()},
        {
            neighbour: EdgeSummary(
                edge.incarnation,
                edge.other,
                edge.sequence,
                max(
                    (float(np.abs(flow).max()) for flow in _vectors(edge.flow).values()), default=0
                ),
            )
            for neighbour, edge in sorted(saved.edges.items())
        },
        identity.epsilon,
    )


def leaf_values(saved: Saved) -> dict[str, Vector]:
    """Of every average leaf z = I - Σ f, and the maxima; empty before the first choice."""
    if saved.state is None:
        return {}
    values = _vectors(saved.state.inputs)
    for edge in saved.edges.values():
        for name, flow in _vectors(edge.flow).items():
            values[name] = values[name] - flow
    return values | _vectors(saved.state.maxima)


def _described(algorithm: str) -> Any:
    """A description where the text is one, as agents write it."""
    try:
        return json.loads(algorithm)
    except ValueError:
        return algorithm


def _ticket(ticket: TicketRecord, arms: tuple[str, ...], now: float) -> TicketSummary:
    p = float(np.frombuffer(ticket.p)[ticket.arm])
    return TicketSummary(ticket.id, arms[ticket.arm], p, now - ticket.issued)


def _vectors(content: Mapping[str, bytes]) -> dict[str, Vector]:
    return {name: np.frombuffer(value, "<f8") for name, value in content.items()}
