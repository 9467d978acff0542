"""A limit on differences to neighbours, which bounds the influence of a liar."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from fedbandits.common import checks

from .base import Gossip

_ROUNDING = 1e-12


def clipped(gossip: Gossip, limit: float) -> Gossip:
    """Limit differences to neighbours: x^v + Σ_u W_uv clip(x^u - x^v, ±limit).

    Without liars the mean over agents stays constant, and agreement is slower if differences exceed
    the limit. A liar changes the sum of the others by at most limit · Σ_u W_u,liar in each entry
    and round, with the W of the round (for `random_edge` 1/2 on the edge drawn). Nothing more is
    guaranteed, and no regret bound is known. The limit applies to averaged messages, and not to
    maxima and floods.

    Arguments:
        gossip: symmetric weights, or `random_edge`.
        limit: positive; an infinite limit gives the plain average, bit for bit.

    Example:
        >>> from fedbandits import gossip, networks
        >>> clipped(gossip.max_degree(networks.ring(4)), limit=10)
        clipped(gossip=max_degree(lazy=true), limit=10.0) on ring(agents=4)
    """
    if not isinstance(gossip, Gossip):
        raise TypeError(
            "gossip.clipped takes a gossip such as gossip.max_degree(network), not "
            f"{type(gossip).__name__} {gossip!r}"
        )
    silent = "; for agents that do not communicate take gossip.none"
    most = checks.within(limit, "limit", "(0, inf]", silent)
    if gossip.rule == "clipped":
        raise ValueError(f"{gossip.name} is clipped already; give it the smaller limit")
    if gossip.faults is not None:
        raise ValueError(
            f"a limit on {gossip.name}: clipped differences over links that lose messages are not "
            "there; take one of the two"
        )
    _require_symmetric(gossip)
    inside = {"name": gossip.rule, **gossip.parameters}
    parameters: dict[str, Any] = {"gossip": inside, "limit": most}
    return replace(gossip, rule="clipped", parameters=parameters, limit=most)


def _require_symmetric(gossip: Gossip) -> None:
    if isinstance(gossip.weights, float | np.ndarray):  # one weight for both ends of each edge
        return
    difference = (gossip.matrix - gossip.matrix.T).tocoo()
    worst = int(abs(difference.data).argmax()) if difference.nnz else 0
    if difference.nnz and abs(difference.data[worst]) > _ROUNDING:
        u, v = difference.row[worst], difference.col[worst]
        raise ValueError(
            f"{gossip.name} has W[{u}, {v}] = {gossip.matrix[u, v]:.6g} and W[{v}, {u}] = "
            f"{gossip.matrix[v, u]:.6g}; clipped differences keep the mean only where both ends of "
            "a link give it the same weight. Take a symmetric matrix"
        )
