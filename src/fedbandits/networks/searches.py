"""Graphs as sparse matrices: built from edges, searched for components, distances and diameter."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

if TYPE_CHECKING:
    from scipy.sparse import csr_array

    Sparse = csr_array[Any]

Ints = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]


def symmetric(agents: int, edges: Ints, values: Floats) -> Sparse:
    """Return an [N, N] sparse matrix with values[e] at both places of edge e, without zeros."""
    from scipy.sparse import csr_array

    edges, values = edges[values != 0], values[values != 0]
    u, v = edges.astype(np.int32).T  # multigrid and graph searches want 32-bit indices
    places = (np.concatenate([u, v]), np.concatenate([v, u]))
    return csr_array((np.concatenate([values, values]), places), shape=(agents, agents))


def laplacian_of(weights: Sparse) -> Sparse:
    """Return D - A of a symmetric non-negative matrix A; its diagonal cancels."""
    from scipy.sparse import csr_array, diags_array

    return csr_array(diags_array(weights.sum(axis=1)) - weights)


def count_components(matrix: Sparse) -> int:
    """Return the number of connected parts of the graph of a symmetric matrix."""
    from scipy.sparse.csgraph import connected_components

    return int(connected_components(matrix, directed=False)[0])


def joined_parts(agents: int, edges: Ints) -> int:
    """Return the number of connected parts of a small graph, without SciPy.

    Example:
        >>> joined_parts(4, np.array([[0, 1], [2, 3]]))
        2
    """
    part = list(range(agents))
    for u, v in edges.tolist():
        while part[u] != u:
            part[u] = u = part[part[u]]
        while part[v] != v:
            part[v] = v = part[part[v]]
        part[max(u, v)] = min(u, v)
    return sum(agent == root for agent, root in enumerate(part))


def hops(matrix: Sparse, source: int) -> npt.NDArray[np.int32]:
    """Return [N] distances from `source` on the graph of a symmetric matrix; -1 without a path."""
    from scipy.sparse.csgraph import breadth_first_order

    order, parents = breadth_first_order(matrix, source)
    place = np.empty(matrix.shape[0], np.int32)
    place[order] = np.arange(len(order), dtype=np.int32)
    up = np.zeros(len(order), np.int32)
    up[1:] = place[parents[order[1:]]]
    depth = np.ones(len(order), np.int32)
    depth[0] = 0
    while up.any():  # pointer jumping: log2(depth) passes instead of one per level
        depth += depth[up]
        up = up[up]
    distance = np.full(matrix.shape[0], -1, np.int32)
    distance[order] = depth
    return distance


def near_by_steps(adjacency: Sparse, hops: int) -> Sparse:
    """Return [N, N] of ones where two agents are within so many hops, step by step."""
    from scipy.sparse import csr_array, eye_array

    step = csr_array(adjacency + eye_array(adjacency.shape[0]))
    near = csr_array(eye_array(adjacency.shape[0]))
    for _ in range(hops):
        reached, near = near.nnz, csr_array(near @ step)
        near.data[:] = 1
        if near.nnz == reached:
            break
    return near


def bounded_diameter(adjacency: Sparse) -> int:
    """Return the exact diameter by bounding eccentricities (Takes and Kosters, 2011).

    A search from u gives every w: max(d, ecc(u) - d) ≤ ecc(w) ≤ ecc(u) + d, d = d(u, w). And of
    two agents further apart than the best so far, one is more than half of it from the hub
    (Crescenzi et al., 2013). Few searches settle all agents.
    """
    n = adjacency.shape[0]
    lower, upper = np.zeros(n, np.int64), np.full(n, n)
    source, outward = int(np.argmax(np.diff(adjacency.indptr))), True
    from_hub = hops(adjacency, source)
    while True:
        distance = hops(adjacency, source)
        eccentricity = distance.max()
        lower = np.maximum(lower, np.maximum(distance, eccentricity - distance))
        upper = np.minimum(upper, eccentricity + distance)
        upper[source] = eccentricity
        unsettled = np.flatnonzero((upper > lower.max()) & (2 * from_hub > lower.max()))
        if not len(unsettled):
            return int(lower.max())
        pick = np.argmax(upper[unsettled]) if outward else np.argmin(lower[unsettled])
        source, outward = int(unsettled[pick]), not outward
