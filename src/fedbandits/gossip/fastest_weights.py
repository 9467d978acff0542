"""The edge weights whose gossip matrix mixes fastest.

    minimise s   over w ≥ 0 [E] and s
    such that    -s I ⪯ W(w) - 11ᵀ/N ⪯ s I,   W(w) = I - A diag(w) Aᵀ,   diag W(w) ≥ 0

with A the incidence matrix, so there are E unknowns and not N². (Boyd, Diaconis and Xiao, 2004.)
Few agents: the semidefinite program itself. More: a first-order method, which sees only the
extreme eigenvectors. A unit vector u ⊥ 1 gives the cuts s ≥ ±(1 - Σ_(i,j) w_ij (u_i - u_j)²), whose
slopes are subgradients of s.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from fedbandits.networks.searches import Floats, Ints, laplacian_of, symmetric
from fedbandits.networks.spectra import rough_modes, smooth_modes

SDP_AGENTS = 50
"""Up to here the semidefinite program takes a few seconds; its time grows faster than N⁴."""

CUT_EDGES = 5_000
"""Up to here the linear programs over all edges take a minute or less together."""

_CUTS = 10  # eigenvectors looked at, from either end of the spectrum
_NEGLIGIBLE = 1e-7  # weights below are solver noise, not links worth a message


def fastest_weights(agents: int, edges: Ints, start: Floats) -> Floats:
    """Return weights [E] of a matrix that mixes (nearly) as fast as any on this graph.

    Arguments:
        agents: N ≥ 2.
        edges: [E, 2] of a connected graph.
        start: [E] positive weights with at most 1 at every agent, for the first-order methods.

    Returns:
        [E] non-negative weights with at most 1 at every agent.

    Example:
        >>> triangle = np.array([[0, 1], [0, 2], [1, 2]])
        >>> fastest_weights(3, triangle, np.full(3, 0.1)).round(4)
        array([0.3333, 0.3333, 0.3333])
    """
    if agents <= SDP_AGENTS:
        weights = solve_sdp(agents, edges)
    elif len(edges) <= CUT_EDGES:
        weights = cutting_planes(agents, edges, start)
    else:
        weights = projected_subgradient(agents, edges, start)
    return capped(agents, edges, np.where(weights < _NEGLIGIBLE, 0.0, weights))


def solve_sdp(agents: int, edges: Ints) -> Floats:
    """Return weights [E] from the semidefinite program, solved by Clarabel."""
    import cvxpy

    cp: Any = cvxpy  # only part of it is typed
    weights, s = cp.Variable(len(edges), nonneg=True), cp.Variable()
    incidence = _incidence(agents, edges)
    rest = np.eye(agents) - 1 / agents - incidence @ cp.diag(weights) @ incidence.T  # W - 11ᵀ/N
    bound = s * np.eye(agents)
    limits = [rest << bound, rest >> -bound, abs(incidence) @ weights <= 1]
    problem = cp.Problem(cp.Minimize(s), limits)
    problem.solve(solver=cp.CLARABEL)
    if weights.value is None:
        raise RuntimeError(
            f"the semidefinite program for {agents} agents and {len(edges)} edges ended as "
            f"{problem.status}; take gossip.metropolis instead"
        )
    return np.asarray(weights.value, np.float64)


def cutting_planes(agents: int, edges: Ints, start: Floats, rounds: int = 150) -> Floats:
    """Return the best weights [E] of a cutting-plane method, near the best weights so far.

    The trust region grows when a step is better and shrinks when it is not. It is also relative:
    no weight loses more than 19/20 at once, so the graph stays connected.
    """
    from scipy.optimize import linprog
    from scipy.sparse import coo_array, csr_array, hstack, vstack

    count = len(edges)
    at_agents = hstack([abs(_incidence(agents, edges)), coo_array((agents, 1))])
    cost = np.append(np.zeros(count), 1.0)
    slopes, offsets = np.zeros((0, count)), np.zeros(0)
    weights, best, centre, radius = start, np.inf, start, 0.1
    for _ in range(rounds):
        value, new_slopes, new_offsets = _cuts(agents, edges, weights)
        if value < best:
            best, centre, radius = value, weights, min(1.5 * radius, 1.0)
        else:
            radius *= 0.6
        slopes = np.concatenate([slopes, new_slopes])
        offsets = np.concatenate([offsets, new_offsets])
        cuts = np.column_stack([slopes, -np.ones(len(slopes))])  # slope·w + offset ≤ s
        cuts[np.abs(cuts) < 1e-9] = 0  # below the solver's own tolerance
        low = np.append(np.maximum(centre / 20, centre - radius), 0.0)
        bounds: Any = np.column_stack([low, np.append(centre + radius, 2.0)])
        solved: Any = linprog(
            cost,
            A_ub=vstack([csr_array(cuts), at_agents]),
            b_ub=np.append(-offsets, np.ones(agents)),
            bounds=bounds,
            method="highs-ds",
        )
        if solved.status != 0 or best - solved.x[-1] < 3e-4 * (1 - best):
            break  # the model promises too little: 0.03% of the gap
        near = solved.slack[: len(slopes)] < 0.2 * (1 - best)
        slopes, offsets, weights = slopes[near], offsets[near], solved.x[:-1]
    return centre


def projected_subgradient(agents: int, edges: Ints, start: Floats, rounds: int = 60) -> Floats:
    """Return the best weights [E] of normalised subgradient steps of length 1/√k, capped."""
    weights, best, kept = start, np.inf, start
    for k in range(1, rounds + 1):
        value, slopes, _ = _cuts(agents, edges, weights)
        if value < best:
            best, kept = value, weights
        step = slopes[0] / (np.linalg.norm(slopes[0]) * np.sqrt(k))
        # no weight to 0 at once: the graph stays connected
        weights = capped(agents, edges, np.maximum(weights - step, weights / 20))
    return kept


def capped(agents: int, edges: Ints, weights: Floats) -> Floats:
    """Return weights [E] scaled down along edges until no agent has more than 1 in all.

    Example:
        >>> capped(3, np.array([[0, 1], [1, 2]]), np.array([1.0, 1.0]))
        array([0.5, 0.5])
    """
    weights = np.maximum(weights, 0)
    totals = np.bincount(edges.ravel(), weights=np.repeat(weights, 2), minlength=agents)
    return np.asarray(weights / totals[edges].max(axis=1, initial=1.0), np.float64)


def _cuts(agents: int, edges: Ints, weights: Floats) -> tuple[float, Floats, Floats]:
    """Return σ2 of W(w), and cuts slope·w + offset ≤ s: slopes [c, E], offsets [c], tight first."""
    laplacian = laplacian_of(symmetric(agents, edges, weights))
    count = min(_CUTS, agents - 1)
    smooth, below = smooth_modes(laplacian, count, accuracy=1e-2)
    rough, above = rough_modes(laplacian, count)
    values = np.concatenate([1 - smooth, rough - 1])
    order = np.argsort(-values)
    order = order[values[order] > values[order[0]] - 0.2]  # those that could matter soon
    sign = np.repeat([1.0, -1.0], count)[order]
    u, v = np.concatenate([below, above], axis=1)[edges.T][:, :, order]
    return float(values.max()), -(sign * (u - v) ** 2).T, sign


def _incidence(agents: int, edges: Ints) -> Any:
    """Return A: [N, E] sparse, +1 and -1 at the ends of each edge."""
    from scipy.sparse import csr_array

    columns = np.repeat(np.arange(len(edges)), 2)
    signs = np.tile([1.0, -1.0], len(edges))
    return csr_array((signs, (edges.ravel(), columns)), shape=(agents, len(edges)))
