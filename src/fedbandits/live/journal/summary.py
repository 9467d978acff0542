"""A summary of a journal for people and programs, without the seed."""

from __future__ import annotations

import json
from typing import Any

import msgspec
import numpy as np

from fedbandits.live.protocol.messages import Vector, unpacked
from fedbandits.live.protocol.records import EdgeRecord, SavedAgent
from fedbandits.live.protocol.tickets import OpenTicket

from .format import JournalContent


class EdgeSummary(msgspec.Struct, frozen=True):
    """A summary of an edge.

    Attributes:
        incarnation: The incarnation of this end.
        other: The incarnation of the neighbour's end; 0 before its first message.
        sequence: The number of the last flow.
        largest_flow: The largest absolute value of the flow; 0 without any.
    """

    incarnation: int
    other: int
    sequence: int
    largest_flow: float


class JournalSummary(msgspec.Struct, frozen=True):
    """A summary of a journal.

    Attributes:
        agent: The name of the agent.
        algorithm: The description of the algorithm.
        arms: The names of the arms.
        life: A random name drawn with this journal; ids of tickets begin with it.
        process: The process that has it open, or was killed while it had; None if it was closed.
        rounds: Number of choices.
        observed: Number of observed choices.
        expired: Number of expired choices.
        open: The open tickets, in the order of rounds.
        values: The values of the leaves: inputs less flows, and maxima.
        edges: The edges, by neighbour.
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
    open: list[OpenTicket]
    values: dict[str, list[float]]
    edges: dict[str, EdgeSummary]
    epsilon: float | None = None


def summary(content: JournalContent, now: float) -> JournalSummary:
    """Return the summary of a journal.

    Args:
        content: from `read_journal`.
        now: seconds since 1970, for the age of tickets.
    """
    identity, saved = content.identity, content.saved
    state = saved.state
    counts = (0, 0, 0) if state is None else (state.rounds, state.observed, state.expired)
    waiting = [ticket for ticket in saved.tickets if ticket.status == "open"]
    return JournalSummary(
        identity.agent,
        _described(identity.algorithm),
        identity.arms,
        saved.life,
        content.holder,
        *counts,
        [OpenTicket.of(ticket, identity.arms, now) for ticket in waiting],
        {name: value.tolist() for name, value in leaf_values(saved).items()},
        {neighbour: _edge(edge) for neighbour, edge in sorted(saved.edges.items())},
        identity.epsilon,
    )


def leaf_values(saved: SavedAgent) -> dict[str, Vector]:
    """Return z = I - Σ f of every average leaf, and the maxima; empty before the first choice."""
    if saved.state is None:
        return {}
    values = unpacked(saved.state.inputs)
    for edge in saved.edges.values():
        for name, flow in unpacked(edge.flow).items():
            values[name] = values[name] - flow
    return values | unpacked(saved.state.maxima)


def _described(algorithm: str) -> Any:
    """Return the description of an algorithm; agents write it as JSON."""
    try:
        return json.loads(algorithm)
    except ValueError:
        return algorithm


def _edge(edge: EdgeRecord) -> EdgeSummary:
    largest = max((float(np.abs(flow).max()) for flow in unpacked(edge.flow).values()), default=0)
    return EdgeSummary(edge.incarnation, edge.other, edge.sequence, largest)
