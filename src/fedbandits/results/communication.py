"""What a federation pays for: messages and bytes, counted per directed edge."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from fedbandits.algorithms.base import AnyAlgorithm
from fedbandits.gossip.base import Gossip

_STAMP = 8
"""Bytes of the agent and the round that a record passed on carries."""


class Communication(NamedTuple):
    """The mean over agents of what one agent sends in one round.

    Attributes:
        messages: one per neighbour it sends to.
        bytes: numbers sent, at the width they are computed in.
        leaves: what is sent, by name, and what it is declared to be.
        leaf_bytes: the bytes of each, which sum to `bytes`; the agent and round of a record are
            counted with its first leaf.
    """

    messages: float
    bytes: float
    leaves: dict[str, str]
    leaf_bytes: dict[str, float]


def communication(
    gossip: Gossip | None, algorithm: AnyAlgorithm, sizes: Mapping[str, int]
) -> Communication:
    """Return messages and bytes per agent and round.

    Args:
        gossip: who sends to whom.
        algorithm: what is sent.
        sizes: the bytes of each leaf of one agent's message.
    """
    leaves = {name: leaf.kind for name, leaf in algorithm.leaves.items()}
    if gossip is None or not leaves:
        return Communication(0.0, 0.0, dict(leaves), dict.fromkeys(leaves, 0.0))
    combined = {leaf.combine for leaf in algorithm.leaves.values()}
    counts = {
        "average": _edges_of_averages(gossip),
        "maximum": _edges_of_maxima(gossip),
        "flood": _edges_of_maxima(gossip),
    }
    records = _records(gossip, algorithm.hops) if "flood" in combined else 0
    # Leaves bound for the same neighbour travel in one message.
    messages = max(counts[how] for how in combined)
    agents = gossip.network.agents
    leaf_bytes, stamp = {}, _STAMP
    for name, leaf in algorithm.leaves.items():
        if leaf.combine == "flood":
            leaf_bytes[name] = records * (sizes[name] + stamp) / agents
            stamp = 0  # one for all leaves of a record
        else:
            leaf_bytes[name] = counts[leaf.combine] * sizes[name] / agents
    return Communication(messages / agents, sum(leaf_bytes.values()), dict(leaves), leaf_bytes)


def _records(gossip: Gossip, hops: int) -> int:
    """Return the records that cross an edge in a round of flooding, over all directed edges.

    Every agent passes on to each neighbour, once, the records of all agents up to hops - 1 away.
    """
    if gossip.silent:
        return 0
    return int(gossip.network.reached(hops - 1) @ gossip.network.degrees)


def _edges_of_averages(gossip: Gossip) -> int:
    if gossip.random:
        return 2 if len(gossip.network.edges) else 0
    return int(gossip.directed_edges)


def _edges_of_maxima(gossip: Gossip) -> int:
    return 0 if gossip.silent else 2 * len(gossip.network.edges)
