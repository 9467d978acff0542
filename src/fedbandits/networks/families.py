"""Families of networks, each made from a few numbers."""

from __future__ import annotations

import math
import random
from typing import Any, Literal, TypeAlias, get_args

import numpy as np

from fedbandits.common.checks import whole, within

from .base import ClosedForm, Network, build, check_size, circle
from .hilbert import along_hilbert_curve
from .searches import Ints

Numbering: TypeAlias = Literal["networkx", "hilbert"]


def complete(agents: int) -> Network:
    """Link every agent to every other.

    Example:
        >>> complete(4).algebraic_connectivity
        4.0
    """
    n = check_size(agents, _pairs)
    edges = np.column_stack(np.triu_indices(n, 1))
    return build("complete", n, edges, {"agents": n}, circle(n), ClosedForm(float(n), float(n), 1))


def grid(rows: int, cols: int) -> Network:
    """Link agents in a rows × cols lattice; agent r·cols + c is in row r, column c.

    Example:
        >>> grid(2, 2).edges.tolist()
        [[0, 1], [0, 2], [1, 3], [2, 3]]
    """
    rows, cols = whole(rows, "rows", least=1), whole(cols, "cols", least=1)
    check_size(rows * cols, lambda n: 2 * n - rows - cols)
    index = np.arange(rows * cols).reshape(rows, cols)
    across = np.column_stack([index[:, :-1].ravel(), index[:, 1:].ravel()])
    down = np.column_stack([index[:-1].ravel(), index[1:].ravel()])
    spots = np.column_stack([index.ravel() % cols, -(index.ravel() // cols)]).astype(np.float64)
    edges = np.concatenate([across, down])
    # Sums of a path's eigenvalues, one from each side.
    top = _sin2(rows - 1, 2 * rows) + _sin2(cols - 1, 2 * cols)
    known = ClosedForm(_sin2(1, 2 * max(rows, cols)), top, rows + cols - 2)
    return build("grid", rows * cols, edges, {"rows": rows, "cols": cols}, spots, known)


def square_grid(agents: int) -> Network:
    """Link agents in a nearly square lattice: ⌈√N⌉ columns, the last row possibly incomplete.

    Example:
        >>> square_grid(7).edges.tolist()
        [[0, 1], [0, 3], [1, 2], [1, 4], [2, 5], [3, 4], [3, 6], [4, 5]]
    """
    n = check_size(agents)
    cols = math.isqrt(n - 1) + 1
    full = grid(-(-n // cols), cols)
    assert full.positions is not None
    edges = full.edges[(full.edges < n).all(axis=1)]
    return build("square_grid", n, edges, {"agents": n}, full.positions[:n])


def ring(agents: int) -> Network:
    """Link at least three agents in a cycle.

    Example:
        >>> ring(4).edges.tolist()
        [[0, 1], [0, 3], [1, 2], [2, 3]]
    """
    n = check_size(agents, lambda n: n)
    if n < 3:
        raise ValueError(f"a ring needs at least 3 agents, not {n}; for fewer use path({n})")
    edges = np.concatenate([_chain(0, n), [[0, n - 1]]])
    known = ClosedForm(_sin2(1, n), _sin2(n // 2, n), n // 2)  # 4 sin²(πk/N), k = 0 … N-1
    return build("ring", n, edges, {"agents": n}, circle(n), known)


def path(agents: int) -> Network:
    """Link agents in a line.

    Example:
        >>> path(3).edges.tolist()
        [[0, 1], [1, 2]]
    """
    n = check_size(agents, lambda n: n - 1)
    spots = np.column_stack([np.arange(n), np.zeros(n)]).astype(np.float64)
    return build("path", n, _chain(0, n), {"agents": n}, spots, _line(n))


def star(agents: int) -> Network:
    """Link agent 0 to all others.

    Example:
        >>> star(4).degrees
        array([3, 1, 1, 1])
    """
    n = check_size(agents, lambda n: n - 1)
    edges = np.column_stack([np.zeros(n - 1, np.int64), np.arange(1, n)])
    spots = np.concatenate([np.zeros((1, 2)), circle(n - 1)])
    known = ClosedForm(1.0, float(n), 2) if n > 2 else _line(n)  # the star of two is a path
    return build("star", n, edges, {"agents": n}, spots, known)


def random_geometric(
    agents: int, radius: float, seed: int = 0, numbering: Numbering = "networkx"
) -> Network:
    """Link agents at most `radius` apart, at uniform positions in the unit square.

    The same graph as networkx.random_geometric_graph(agents, radius, seed=seed). May be
    disconnected: see `network.connected`.

    Arguments:
        agents: N.
        radius: up to which two agents are linked.
        seed: of the positions.
        numbering: "networkx", in the order of the draw; "hilbert", in the order of a Hilbert
            curve. Neighbours are then near each other in memory, and rounds of large networks take
            a fraction of the time. Losses and randomness depend on agents' numbers, so results
            differ; `positions` has the place of each agent.

    Example:
        >>> len(random_geometric(36, 0.3, seed=0).edges)
        151
    """
    from scipy.spatial import cKDTree

    if numbering not in get_args(Numbering):
        raise ValueError(f"numbering must be 'networkx' or 'hilbert', not {numbering!r}")
    within(radius, "radius", "[0, inf]")
    # In a corner of the square a quarter of the disc is inside.
    inside = math.pi / 4 * min(radius, 1.0) ** 2
    n, seed = check_size(agents, lambda n: inside * _pairs(n)), whole(seed, "seed", least=0)
    draw = random.Random(seed).random
    spots = np.fromiter((draw() for _ in range(2 * n)), np.float64, 2 * n).reshape(n, 2)
    parameters: dict[str, Any] = {"agents": n, "radius": float(radius), "seed": seed}
    if numbering == "hilbert":
        spots = spots[along_hilbert_curve(spots)]
        parameters["numbering"] = numbering
    edges = cKDTree(spots).query_pairs(radius, output_type="ndarray")
    return build("random_geometric", n, edges, parameters, spots)


def erdos_renyi(agents: int, probability: float, seed: int = 0) -> Network:
    """Link every pair with the same probability, independently.

    The same graph as networkx.fast_gnp_random_graph(agents, probability, seed=seed). May be
    disconnected: see `network.connected`.

    Example:
        >>> erdos_renyi(5, 1.0).edges.shape
        (10, 2)
    """
    import networkx as nx

    chance = within(probability, "probability", "[0, 1]")
    n = check_size(agents, lambda n: chance * _pairs(n), in_networkx=True)
    seed = whole(seed, "seed", least=0)
    graph = nx.fast_gnp_random_graph(n, chance, seed=seed)
    parameters = {"agents": n, "probability": chance, "seed": seed}
    return build("erdos_renyi", n, np.array(list(graph.edges)), parameters)


def two_clusters(cluster: int, path: int) -> Network:
    """Join two cliques by a path: the graph of the paper's lower bound.

    Agents 0 … cluster-1 are the first clique, the next `path` agents the path, the rest the
    second clique; the cliques are path + 1 hops apart.

    Arguments:
        cluster: agents in each clique.
        path: agents between them.

    Example:
        >>> network = two_clusters(3, 2)
        >>> network.agents, network.distances(2)[5]
        (8, np.int32(3))
    """
    size, between = whole(cluster, "cluster", least=1), whole(path, "path", least=0)
    n, far = 2 * size + between, size + between
    check_size(n, lambda _: 2 * _pairs(size) + between + 1)
    clique = np.column_stack(np.triu_indices(size, 1))
    edges = np.concatenate([clique, _chain(size - 1, far + 1), clique + far])
    # the clique's joining agent is at angle 0: its last on the left, its first on the right
    left, right = np.roll(circle(size), -1, axis=0) - [2, 0], circle(size) * [-1, 1] + [2, 0]
    line = np.column_stack([np.linspace(-1, 1, between + 2)[1:-1], np.zeros(between)])
    spots = np.concatenate([left, line, right])
    return build("two_clusters", n, edges, {"cluster": size, "path": between}, spots)


def preferential_attachment(agents: int, links: int, seed: int = 0) -> Network:
    """Link agents, one after the other, to `links` others, popular ones more often.

    The same graph as networkx.barabasi_albert_graph(agents, links, seed=seed).

    Example:
        >>> preferential_attachment(10, 2).edges.shape
        (16, 2)
    """
    import networkx as nx

    links = whole(links, "links", least=1)
    n = check_size(agents, lambda n: (n - links) * links, in_networkx=True)
    seed = whole(seed, "seed", least=0)
    if links >= n:
        raise ValueError(f"links must be below the number of agents, {n}, not {links}")
    graph = nx.barabasi_albert_graph(n, links, seed=seed)
    parameters = {"agents": n, "links": links, "seed": seed}
    return build("preferential_attachment", n, np.array(list(graph.edges)), parameters)


def _pairs(agents: int) -> float:
    """Return the number of edges of a clique."""
    return agents * (agents - 1) / 2


def _chain(first: int, stop: int) -> Ints:
    """Return [stop - first - 1, 2] edges of a line through agents first … stop - 1."""
    return np.column_stack([np.arange(first, stop - 1), np.arange(first + 1, stop)])


def _line(agents: int) -> ClosedForm:
    """Return the spectrum of a path: 4 sin²(πk/2N), k = 0 … N-1."""
    return ClosedForm(_sin2(1, 2 * agents), _sin2(agents - 1, 2 * agents), agents - 1)


def _sin2(k: int, n: int) -> float:
    """Return 4 sin²(πk/n)."""
    return 4 * math.sin(math.pi * k / n) ** 2
