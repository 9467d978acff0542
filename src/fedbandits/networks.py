"""Networks: undirected simple graphs of agents, with the numbers the theory needs.

Everything is sparse: a ring, grid or random geometric graph of a million agents builds in
seconds. Eigenvalues come from a closed form, a dense solver (few agents) or a multigrid one.
"""

from __future__ import annotations

import math
import random
import warnings
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from .checks import unit_interval, whole
from .describe import array_hash

if TYPE_CHECKING:
    import networkx as nx
    from matplotlib.axes import Axes
    from scipy.sparse import csr_array

    Sparse = csr_array[Any]

Ints = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]

DENSE_AGENTS = 500
"""Up to here eigenvalues are computed densely."""

_LABELLED_AGENTS = 60
_SPRING_AGENTS = 500


@dataclass(frozen=True, eq=False, repr=False)
class Network:
    """An undirected simple graph; agents are 0 … N-1. Made by the functions of this module.

    Arguments:
        agents: N.
        edges: [E, 2], each row u < v, rows sorted and unique.
        family: the constructor's name.
        parameters: its arguments as plain data; a hash stands for edges that were given.
        positions: [N, 2] where to draw the agents, or None.

    Example:
        >>> network = grid(2, 3)
        >>> network
        grid(rows=2, cols=3)
        >>> network.degrees
        array([2, 3, 2, 2, 3, 2])
        >>> network.diameter
        3
    """

    agents: int
    edges: Ints
    family: str
    parameters: Mapping[str, Any]
    positions: Floats | None = None

    @cached_property
    def name(self) -> str:
        """The call that made it, hashes shortened."""
        return call(self.family, self.parameters)

    def __repr__(self) -> str:
        return self.name

    @cached_property
    def degrees(self) -> Ints:
        """[N] numbers of neighbours."""
        return np.bincount(self.edges.ravel(), minlength=self.agents)

    @cached_property
    def max_degree(self) -> int:
        """d_max."""
        return int(self.degrees.max())

    @cached_property
    def adjacency(self) -> Sparse:
        """A: [N, N] sparse, 1.0 at both (u, v) and (v, u) of every edge."""
        return symmetric(self.agents, self.edges, np.ones(len(self.edges)))

    @cached_property
    def laplacian(self) -> Sparse:
        """L = D - A: [N, N] sparse."""
        return laplacian_of(self.adjacency)

    @cached_property
    def components(self) -> int:
        """How many connected parts there are."""
        if self._closed_form is not None:
            return 1
        return count_components(self.adjacency)

    @property
    def connected(self) -> bool:
        """Whether every agent reaches every other; one agent alone is connected."""
        return self.components == 1

    @cached_property
    def algebraic_connectivity(self) -> float:
        """λ_{N-1}, the second smallest eigenvalue of L; 0 when disconnected or N = 1."""
        if self._closed_form is not None:
            return self._closed_form[0]
        return float(smooth_modes(self.laplacian)[0][0]) if self.connected else 0.0

    @cached_property
    def largest_laplacian_eigenvalue(self) -> float:
        """λ_1, the largest eigenvalue of L; 0 when there is no edge."""
        if self._closed_form is not None:
            return self._closed_form[1]
        return float(rough_modes(self.laplacian)[0][0]) if len(self.edges) else 0.0

    @cached_property
    def diameter(self) -> int:
        """The largest distance between two agents, in hops."""
        if self._closed_form is not None:
            return self._closed_form[2]
        if not self.connected:
            raise ValueError(
                f"{self.name} has {self.components} components, so no diameter; "
                "take a connected network (`network.connected`)"
            )
        return _bounded_diameter(self.adjacency)

    def distances(self, agent: int | None = None) -> npt.NDArray[np.int32]:
        """Hops from every agent to every other, or from one agent; -1 where there is no way.

        Arguments:
            agent: the one to measure from; None for all.

        Returns:
            [N, N], or [N] for one agent.

        Example:
            >>> ring(5).distances(0)
            array([0, 1, 2, 2, 1], dtype=int32)
        """
        if agent is None:
            return np.stack([hops(self.adjacency, v) for v in range(self.agents)])
        source = whole(agent, "agent", least=0)
        if source >= self.agents:
            raise ValueError(f"agent must be below {self.agents} on {self.name}, not {source}")
        return hops(self.adjacency, source)

    def to_networkx(self) -> nx.Graph[int]:
        """The same graph for networkx, with nodes 0 … N-1."""
        import networkx as nx

        graph: nx.Graph[int] = nx.empty_graph(self.agents)
        graph.add_edges_from(self.edges.tolist())
        return graph

    def draw(self, path: str | Path | None = None, ax: Axes | None = None) -> Axes:
        """Draw agents and edges; numbers on the agents where there is room.

        Arguments:
            path: a file to save to (.svg, .pdf, .png, …); None saves nothing.
            ax: matplotlib axes to draw on; None makes new ones.

        Returns:
            the matplotlib axes.
        """
        from matplotlib.collections import LineCollection
        from matplotlib.figure import Figure

        if ax is None and path is None:
            from matplotlib import pyplot as plt

            ax = plt.subplots(figsize=(5, 5))[1]
        elif ax is None:  # a figure that is only saved needs no window
            ax = Figure(figsize=(5, 5)).subplots()
        where = self._layout()
        lines = LineCollection(
            list(where[self.edges]), colors="0.6", linewidths=min(1.0, 300 / self.agents + 0.1)
        )
        lines.set_rasterized(len(self.edges) > 20_000)  # keeps vector files small
        ax.add_collection(lines)
        labelled = self.agents <= _LABELLED_AGENTS
        size = 160.0 if labelled else max(0.2, 4_000 / self.agents)
        ax.scatter(where[:, 0], where[:, 1], s=size, zorder=2, rasterized=self.agents > 20_000)
        if labelled:
            for v, (x, y) in enumerate(where):
                ax.text(x, y, str(v), ha="center", va="center", fontsize=7, color="white")
        ax.set_aspect("equal", adjustable="datalim")
        ax.set_axis_off()
        ax.set_title(self.name, fontsize=9)
        if path is not None:
            ax.get_figure(root=True).savefig(path)  # type: ignore[union-attr]
        return ax

    def _layout(self) -> Floats:
        if self.positions is not None:
            return self.positions
        if self.agents > _SPRING_AGENTS:  # spring layouts are quadratic
            return _circle(self.agents)
        import networkx as nx

        spots = nx.spring_layout(self.to_networkx(), seed=0)
        return np.array([spots[v] for v in range(self.agents)], np.float64)

    @cached_property
    def _closed_form(self) -> tuple[float, float, int] | None:
        """(λ_{N-1}, λ_1, diameter) where the family has them in closed form."""
        n, sides = self.agents, self.parameters
        if n == 1:
            return 0.0, 0.0, 0
        match self.family:
            case "complete":
                return float(n), float(n), 1
            case "star" if n > 2:
                return 1.0, float(n), 2
            case "ring":  # 4 sin²(πk/N), k = 0 … N-1
                return _sin2(1, n), _sin2(n // 2, n), n // 2
            case "path" | "star":  # 4 sin²(πk/2N); the star of two is a path
                return _sin2(1, 2 * n), _sin2(n - 1, 2 * n), n - 1
            case "grid":  # sums of a path's eigenvalues, one from each side
                rows, cols = sides["rows"], sides["cols"]
                top = _sin2(rows - 1, 2 * rows) + _sin2(cols - 1, 2 * cols)
                return _sin2(1, 2 * max(rows, cols)), top, rows + cols - 2
        return None


def complete(agents: int) -> Network:
    """Every agent linked to every other.

    Example:
        >>> complete(4).algebraic_connectivity
        4.0
    """
    n = whole(agents, "agents", least=1)
    edges = np.column_stack(np.triu_indices(n, 1))
    return _network("complete", n, edges, {"agents": n}, _circle(n))


def grid(rows: int, cols: int) -> Network:
    """A rows × cols lattice; agent r·cols + c stands in row r, column c.

    Example:
        >>> grid(2, 2).edges.tolist()
        [[0, 1], [0, 2], [1, 3], [2, 3]]
    """
    rows, cols = whole(rows, "rows", least=1), whole(cols, "cols", least=1)
    index = np.arange(rows * cols).reshape(rows, cols)
    across = np.column_stack([index[:, :-1].ravel(), index[:, 1:].ravel()])
    down = np.column_stack([index[:-1].ravel(), index[1:].ravel()])
    spots = np.column_stack([index.ravel() % cols, -(index.ravel() // cols)]).astype(np.float64)
    edges = np.concatenate([across, down])
    return _network("grid", rows * cols, edges, {"rows": rows, "cols": cols}, spots)


def ring(agents: int) -> Network:
    """A cycle of at least three agents.

    Example:
        >>> ring(4).edges.tolist()
        [[0, 1], [0, 3], [1, 2], [2, 3]]
    """
    n = whole(agents, "agents", least=1)
    if n < 3:
        raise ValueError(f"a ring needs at least 3 agents, not {n}; for fewer use path({n})")
    edges = np.concatenate([_chain(0, n), [[0, n - 1]]])
    return _network("ring", n, edges, {"agents": n}, _circle(n))


def path(agents: int) -> Network:
    """Agents in a line.

    Example:
        >>> path(3).edges.tolist()
        [[0, 1], [1, 2]]
    """
    n = whole(agents, "agents", least=1)
    spots = np.column_stack([np.arange(n), np.zeros(n)]).astype(np.float64)
    return _network("path", n, _chain(0, n), {"agents": n}, spots)


def star(agents: int) -> Network:
    """Agent 0 linked to all others.

    Example:
        >>> star(4).degrees
        array([3, 1, 1, 1])
    """
    n = whole(agents, "agents", least=1)
    edges = np.column_stack([np.zeros(n - 1, np.int64), np.arange(1, n)])
    spots = np.concatenate([np.zeros((1, 2)), _circle(n - 1)])
    return _network("star", n, edges, {"agents": n}, spots)


def random_geometric(agents: int, radius: float, seed: int = 0) -> Network:
    """Uniform positions in the unit square, linked where at most `radius` apart.

    The same graph as networkx.random_geometric_graph(agents, radius, seed=seed). May be
    disconnected: see `network.connected`.

    Example:
        >>> len(random_geometric(36, 0.3, seed=0).edges)
        151
    """
    from scipy.spatial import cKDTree

    n, seed = whole(agents, "agents", least=1), whole(seed, "seed", least=0)
    if not radius >= 0:
        raise ValueError(f"radius must be 0 or more, not {radius}")
    draw = random.Random(seed).random
    spots = np.fromiter((draw() for _ in range(2 * n)), np.float64, 2 * n).reshape(n, 2)
    edges = cKDTree(spots).query_pairs(radius, output_type="ndarray")
    parameters = {"agents": n, "radius": float(radius), "seed": seed}
    return _network("random_geometric", n, edges, parameters, spots)


def erdos_renyi(agents: int, probability: float, seed: int = 0) -> Network:
    """Every pair linked with the same probability, independently.

    The same graph as networkx.fast_gnp_random_graph(agents, probability, seed=seed). May be
    disconnected: see `network.connected`.

    Example:
        >>> erdos_renyi(5, 1.0).edges.shape
        (10, 2)
    """
    import networkx as nx

    n, seed = whole(agents, "agents", least=1), whole(seed, "seed", least=0)
    chance = float(unit_interval(probability, "probability"))
    graph = nx.fast_gnp_random_graph(n, chance, seed=seed)
    parameters = {"agents": n, "probability": chance, "seed": seed}
    return _network("erdos_renyi", n, _edge_array(graph.edges), parameters)


def two_clusters(cluster: int, path: int) -> Network:
    """Two cliques joined by a path: the graph of the paper's lower bound.

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
    clique = np.column_stack(np.triu_indices(size, 1))
    edges = np.concatenate([clique, _chain(size - 1, far + 1), clique + far])
    # the clique's joining agent is at angle 0: its last on the left, its first on the right
    left, right = np.roll(_circle(size), -1, axis=0) - [2, 0], _circle(size) * [-1, 1] + [2, 0]
    line = np.column_stack([np.linspace(-1, 1, between + 2)[1:-1], np.zeros(between)])
    spots = np.concatenate([left, line, right])
    return _network("two_clusters", n, edges, {"cluster": size, "path": between}, spots)


def preferential_attachment(agents: int, links: int, seed: int = 0) -> Network:
    """Agents arrive one by one and link to `links` others, popular ones more often.

    The same graph as networkx.barabasi_albert_graph(agents, links, seed=seed).

    Example:
        >>> preferential_attachment(10, 2).edges.shape
        (16, 2)
    """
    import networkx as nx

    n, seed = whole(agents, "agents", least=1), whole(seed, "seed", least=0)
    links = whole(links, "links", least=1)
    if links >= n:
        raise ValueError(f"links must be below the number of agents, {n}, not {links}")
    graph = nx.barabasi_albert_graph(n, links, seed=seed)
    parameters = {"agents": n, "links": links, "seed": seed}
    return _network("preferential_attachment", n, _edge_array(graph.edges), parameters)


def from_edges(agents: int, edges: npt.ArrayLike) -> Network:
    """A network given by its edges.

    Arguments:
        agents: N.
        edges: [E, 2] pairs of agents in 0 … N-1, in any order, each pair once.

    Example:
        >>> from_edges(3, [(2, 0), (1, 2)]).edges.tolist()
        [[0, 2], [1, 2]]
    """
    return _checked("from_edges", whole(agents, "agents", least=1), edges)


def from_adjacency(matrix: Any) -> Network:
    """A network given by its adjacency matrix.

    Arguments:
        matrix: [N, N] of 0 and 1, symmetric with a zero diagonal; NumPy, nested lists or SciPy
            sparse.

    Example:
        >>> from_adjacency([[0, 1], [1, 0]]).edges.tolist()
        [[0, 1]]
    """
    sparse = square(matrix, "adjacency matrix").tocoo()
    u, v, value = sparse.row, sparse.col, sparse.data
    _refuse(~np.isin(value, (0, 1)), u, v, value, "must be 0 or 1")
    _refuse((u == v) & (value != 0), u, v, value, "is a self loop; the diagonal must be 0")
    skew = (sparse - sparse.T).tocoo()
    _refuse(skew.data != 0, skew.row, skew.col, skew.data, "differs from its mirror image by")
    upper = (u < v) & (value != 0)
    return _checked("from_adjacency", sparse.shape[0], np.column_stack([u[upper], v[upper]]))


def from_networkx(graph: nx.Graph[Any]) -> Network:
    """A network given as an undirected networkx graph; agents are its nodes in their order.

    Example:
        >>> import networkx as nx
        >>> from_networkx(nx.path_graph(3)).edges.tolist()
        [[0, 1], [1, 2]]
    """
    return _from_networkx("from_networkx", graph, {})


def read_graphml(path: str | Path) -> Network:
    """A network from a GraphML file; agents are its nodes in the file's order.

    Example:
        >>> read_graphml("network.graphml")  # doctest: +SKIP
    """
    from xml.etree.ElementTree import ParseError

    import networkx as nx

    try:
        graph = nx.read_graphml(path)
    except (nx.NetworkXError, ParseError, KeyError) as error:
        raise ValueError(f"{path} is not a GraphML file: {error}") from error
    return _from_networkx("read_graphml", graph, {"path": str(path)})


REGISTRY: dict[str, Callable[..., Network]] = {
    make.__name__: make
    for make in (
        complete,
        grid,
        ring,
        path,
        star,
        random_geometric,
        erdos_renyi,
        two_clusters,
        preferential_attachment,
        from_edges,
        read_graphml,
    )
}
"""The constructors a configuration can name."""


# ---- building blocks -------------------------------------------------------------------------


def call(name: str, parameters: Mapping[str, Any]) -> str:
    """`name(key=value, …)`, with hashes cut to eight digits.

    Example:
        >>> call("from_edges", {"agents": 3, "edges_sha256": "0123456789abcdef"})
        'from_edges(agents=3, edges_sha256=01234567)'
    """
    shown = (
        f"{key}={value[:8] if key.endswith('sha256') else value}"
        for key, value in parameters.items()
    )
    return f"{name}({', '.join(shown)})"


def square(matrix: Any, what: str) -> Sparse:
    """`matrix`, dense or sparse, as a square csr_array of floats: a copy."""
    from scipy.sparse import csr_array, issparse

    if not issparse(matrix):
        matrix = np.asarray(matrix, np.float64)
    if matrix.ndim != 2 or matrix.shape[0] != matrix.shape[1] or matrix.shape[0] < 1:
        raise ValueError(f"the {what} must be square, [N, N], not of shape {matrix.shape}")
    return csr_array(matrix, dtype=np.float64, copy=True)


def symmetric(agents: int, edges: Ints, values: Floats) -> Sparse:
    """[N, N] sparse matrix with values[e] at both places of edge e; zeros are left out."""
    from scipy.sparse import csr_array

    edges, values = edges[values != 0], values[values != 0]
    u, v = edges.astype(np.int32).T  # multigrid and graph searches want 32-bit indices
    places = (np.concatenate([u, v]), np.concatenate([v, u]))
    return csr_array((np.concatenate([values, values]), places), shape=(agents, agents))


def laplacian_of(weights: Sparse) -> Sparse:
    """D - A of a symmetric non-negative matrix A; its diagonal drops out."""
    from scipy.sparse import csr_array, diags_array

    return csr_array(diags_array(weights.sum(axis=1)) - weights)


def count_components(matrix: Sparse) -> int:
    """The number of connected parts of a symmetric matrix's graph."""
    from scipy.sparse.csgraph import connected_components

    return int(connected_components(matrix, directed=False)[0])


def hops(matrix: Sparse, source: int) -> npt.NDArray[np.int32]:
    """[N] distances from `source` on a symmetric matrix's graph; -1 where there is no way."""
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


def _bounded_diameter(adjacency: Sparse) -> int:
    """Exact diameter by bounding eccentricities (Takes and Kosters, 2011).

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


def smooth_modes(
    laplacian: Sparse, count: int = 1, accuracy: float = 3e-4
) -> tuple[Floats, Floats]:
    """The smallest non-zero eigenvalues of a connected graph's (weighted) Laplacian.

    Above `DENSE_AGENTS` by LOBPCG, preconditioned by algebraic multigrid, or by the diagonal
    on graphs without large distances: there multigrid fills in, and the diagonal suffices.

    Arguments:
        laplacian: [N, N] sparse, of a connected graph.
        count: how many, at most N - 1.
        accuracy: residual over eigenvalue; an eigenvalue's own error is about its square.

    Returns:
        ascending eigenvalues [count] and unit eigenvectors [N, count].
    """
    n = laplacian.shape[0]
    if n <= DENSE_AGENTS:
        return _dense_modes(laplacian, 1, count)
    distance = hops(laplacian, 0)
    start = np.random.default_rng(0).standard_normal((n, count + 1))
    start[:, 0] = distance - distance.mean()  # already smooth, and its quotient sets the scale
    shallow = distance.max() <= 2 * math.log2(n)
    for kind in ("diagonal", "multigrid") if shallow else ("multigrid",):
        values, vectors, converged = _lobpcg(laplacian, start, count, accuracy, kind)
        if converged:
            return values, vectors
    raise RuntimeError(f"no eigenvalue within accuracy {accuracy} on a graph of {n} agents")


def rough_modes(laplacian: Sparse, count: int = 1) -> tuple[Floats, Floats]:
    """The largest eigenvalues of a (weighted) Laplacian: descending [count], vectors [N, count]."""
    from scipy.sparse.linalg import eigsh

    n = laplacian.shape[0]
    if n <= DENSE_AGENTS:
        values, vectors = _dense_modes(laplacian, n - count, n - 1)
        return values[::-1], vectors[:, ::-1]
    start = np.random.default_rng(0).standard_normal(n)
    found: Any = eigsh(laplacian, count, which="LA", tol=1e-7, v0=start)
    order = np.argsort(-found[0])
    return found[0][order], found[1][:, order]


def _dense_modes(laplacian: Sparse, first: int, last: int) -> tuple[Floats, Floats]:
    # all of them: LAPACK's range solver can return none of a repeated eigenvalue
    values, vectors = np.linalg.eigh(laplacian.toarray())
    return values[first : last + 1], vectors[:, first : last + 1]


def _lobpcg(
    laplacian: Sparse, start: Floats, count: int, accuracy: float, kind: str
) -> tuple[Floats, Floats, bool]:
    from scipy.sparse.linalg import lobpcg

    n = laplacian.shape[0]
    inverse = _multigrid(laplacian) if kind == "multigrid" else _inverse_diagonal(laplacian)
    scale = float(start[:, 0] @ (laplacian @ start[:, 0])) / float(start[:, 0] @ start[:, 0])
    block, ones = start, np.ones((n, 1))
    for _ in range(12):
        with warnings.catch_warnings():  # it warns when it stops early; checked just below
            warnings.simplefilter("ignore")
            found: Any = lobpcg(
                laplacian, block, M=inverse, Y=ones, largest=False, maxiter=40,
                tol=accuracy * scale / 5,
            )  # fmt: skip
        order = np.argsort(found[0])
        values, block = found[0][order], found[1][:, order]
        residual = np.linalg.norm(laplacian @ block - block * values, axis=0)
        if (residual <= accuracy * values)[:count].all():
            return values[:count], block[:, :count], True
        scale = min(scale, float(values[0]))
    return values[:count], block[:, :count], False


def _inverse_diagonal(laplacian: Sparse) -> Any:
    from scipy.sparse import diags_array

    return diags_array(1 / laplacian.diagonal())


def _multigrid(laplacian: Sparse) -> Any:
    from pyamg import smoothed_aggregation_solver
    from scipy.sparse import csr_matrix

    return smoothed_aggregation_solver(
        csr_matrix(laplacian),  # pyamg takes matrices, not arrays
        max_coarse=300,
        coarse_solver="pinv",  # a Laplacian is singular
        presmoother=("gauss_seidel", {"sweep": "forward"}),
        postsmoother=("gauss_seidel", {"sweep": "backward"}),
    ).aspreconditioner()


def _network(
    family: str,
    agents: int,
    edges: npt.NDArray[Any],
    parameters: Mapping[str, Any],
    positions: Floats | None = None,
) -> Network:
    """A network from edges known to be valid, in any order."""
    if agents >= 2**31:
        raise ValueError(f"agents must be below 2**31, not {agents}")
    pairs = np.sort(edges.astype(np.int64).reshape(-1, 2), axis=1)
    keys = np.sort(pairs[:, 0] * agents + pairs[:, 1])  # one sort of numbers, not of pairs
    ordered = np.column_stack(np.divmod(keys, agents))
    ordered.flags.writeable = False
    return Network(agents, ordered, family, parameters, positions)


def _checked(
    family: str, agents: int, edges: npt.ArrayLike, parameters: Mapping[str, Any] | None = None
) -> Network:
    """A network from edges that may be anything."""
    pairs = _edge_array(edges)
    if pairs.ndim != 2 or pairs.shape[1] != 2:
        raise ValueError(f"edges must be pairs of agents, [E, 2], not of shape {pairs.shape}")
    if pairs.dtype.kind not in "iu":
        raise TypeError(f"edges must be whole numbers, not {pairs.dtype}; they name agents")
    for row in np.flatnonzero(((pairs < 0) | (pairs >= agents)).any(axis=1))[:1]:
        raise ValueError(
            f"edge {row}, {_pair(pairs[row])}, leaves the agents 0 … {agents - 1}; "
            "agents are numbered from 0"
        )
    for row in np.flatnonzero(pairs[:, 0] == pairs[:, 1])[:1]:
        raise ValueError(f"edge {row}, {_pair(pairs[row])}, is a self loop; leave it out")
    made = _network(family, agents, pairs, {})
    for row in np.flatnonzero((np.diff(made.edges, axis=0) == 0).all(axis=1))[:1]:
        raise ValueError(f"edge {_pair(made.edges[row])} is given twice; list each pair once")
    named = {"agents": agents, **(parameters or {}), "edges_sha256": array_hash(made.edges)}
    return Network(agents, made.edges, family, named)


def _from_networkx(family: str, graph: nx.Graph[Any], parameters: Mapping[str, Any]) -> Network:
    if not hasattr(graph, "is_directed"):
        raise TypeError(f"{family} takes a networkx graph, not {type(graph).__name__}")
    if graph.is_directed() or graph.is_multigraph():
        kind = "directed" if graph.is_directed() else "a multigraph"
        raise ValueError(
            f"the graph is {kind}; networks are undirected and simple: convert it with nx.Graph(…)"
        )
    index = {node: v for v, node in enumerate(graph)}
    agents = whole(len(index), "the graph's number of nodes", least=1)
    edges = _edge_array((index[u], index[v]) for u, v in graph.edges)
    return _checked(family, agents, edges, parameters)


def _edge_array(edges: npt.ArrayLike | Iterable[tuple[int, int]]) -> npt.NDArray[Any]:
    """`edges` as an array; none at all gives [0, 2]."""
    array = np.asarray(edges if isinstance(edges, np.ndarray) else list(edges))  # type: ignore[arg-type]
    return array if array.size else np.zeros((0, 2), np.int64)


def _refuse(bad: Any, u: Any, v: Any, value: Any, problem: str) -> None:
    for i in np.flatnonzero(bad)[:1]:
        raise ValueError(f"adjacency entry [{u[i]}, {v[i]}] {problem}: {value[i]:g}")


def _pair(edge: Ints) -> str:
    return f"({edge[0]}, {edge[1]})"


def _chain(first: int, stop: int) -> Ints:
    """[stop - first - 1, 2] edges of a line through agents first … stop - 1."""
    return np.column_stack([np.arange(first, stop - 1), np.arange(first + 1, stop)])


def _circle(agents: int) -> Floats:
    """[N, 2] points on the unit circle."""
    angle = np.arange(agents) * (2 * math.pi / max(agents, 1))
    return np.column_stack([np.cos(angle), np.sin(angle)])


def _sin2(k: int, n: int) -> float:
    """4 sin²(πk/n)."""
    return 4 * math.sin(math.pi * k / n) ** 2
