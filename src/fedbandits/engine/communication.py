"""What a federation pays for: messages and bytes, counted per directed edge."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from fedbandits.algorithms.base import AnyAlgorithm
from fedbandits.gossip import Gossip


class Communication(NamedTuple):
    """The mean over agents of what one agent sends in one round.

    Attributes:
        messages: one per neighbour it sends to.
        bytes: numbers sent, at the width they are computed in.
        leaves: what is sent, by name, and what it is declared to be.
    """

    messages: float
    bytes: float
    leaves: dict[str, str]


def communication(
    gossip: Gossip | None, algorithm: AnyAlgorithm, sizes: Mapping[str, int]
) -> Communication:
    """Messages and bytes per agent and round.

    Args:
        gossip: who sends to whom.
        algorithm: what is sent.
        sizes: the bytes of each leaf of one agent's message.
    """
    leaves = {name: leaf.kind for name, leaf in algorithm.leaves.items()}
    if gossip is None or not leaves:
        return Communication(0.0, 0.0, dict(leaves))
    edges = {"average": _edges_of_averages(gossip), "maximum": _edges_of_maxima(gossip)}
    sent = {name: edges[leaf.combine] for name, leaf in algorithm.leaves.items()}
    agents = gossip.network.agents
    # Leaves bound for the same neighbour travel in one message.
    total = sum(count * sizes[name] for name, count in sent.items())
    return Communication(max(sent.values()) / agents, total / agents, dict(leaves))


def _edges_of_averages(gossip: Gossip) -> int:
    if gossip.rule == "random_edge":
        return 2 if len(gossip.network.edges) else 0
    return int(gossip.directed_edges)


def _edges_of_maxima(gossip: Gossip) -> int:
    return 0 if gossip.rule == "none" else 2 * len(gossip.network.edges)
