"""Networks that already exist: edges, matrices, networkx graphs and files."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from reprlib import repr as shortened
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from fedbandits.common.checks import whole
from fedbandits.common.describe import array_hash

from .base import Network, build, check_size
from .searches import Ints

if TYPE_CHECKING:
    import networkx as nx

    from .searches import Sparse


def from_edges(agents: int, edges: npt.ArrayLike) -> Network:
    """Return the network with the given edges.

    Arguments:
        agents: N.
        edges: [E, 2] pairs of agents in 0 … N-1, in any order, each pair once.

    Example:
        >>> from_edges(3, [(2, 0), (1, 2)]).edges.tolist()
        [[0, 2], [1, 2]]
    """
    return _checked("from_edges", check_size(agents), edges)


def from_adjacency(matrix: Any) -> Network:
    """Return the network with the given adjacency matrix.

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
    """Return the network of an undirected networkx graph; agents are its nodes in their order.

    Nodes that are not just 0 … N-1 are kept as `network.names`. A network has no weights: the
    weights of the graph's edges are ignored, with a warning if they differ.

    Example:
        >>> import networkx as nx
        >>> from_networkx(nx.path_graph(3)).edges.tolist()
        [[0, 1], [1, 2]]
    """
    return _from_networkx("from_networkx", graph, {})


def read_graphml(path: str | Path) -> Network:
    """Return the network of a GraphML file; agents are its nodes in the order of the file.

    Weights of edges are ignored, with a warning if they differ.
    """
    from xml.etree.ElementTree import ParseError

    import networkx as nx

    try:
        graph = nx.read_graphml(path)
    except (nx.NetworkXError, ParseError, KeyError) as error:
        raise ValueError(f"{path} is not a GraphML file: {error}") from error
    return _from_networkx("read_graphml", graph, {"path": Path(path).name})


def square(matrix: Any, what: str) -> Sparse:
    """Return a dense or sparse `matrix` as a square csr_array of floats: a copy."""
    from scipy.sparse import csr_array, issparse

    if not issparse(matrix):
        given = matrix
        try:
            matrix = np.asarray(given)
            if matrix.dtype.kind != "c":
                matrix = matrix.astype(np.float64)
        except (TypeError, ValueError):  # other objects, or rows of different lengths
            kind = type(given).__name__
            raise TypeError(
                f"the {what} must be [N, N] numbers, not {kind} {shortened(given)}"
            ) from None
    if matrix.dtype.kind == "c":
        raise TypeError(f"the {what} must be real, not {matrix.dtype}")
    if matrix.ndim != 2 or matrix.shape[0] != matrix.shape[1] or matrix.shape[0] < 1:
        raise ValueError(f"the {what} must be square, [N, N], not of shape {matrix.shape}")
    return csr_array(matrix, dtype=np.float64, copy=True)


def _checked(
    family: str, agents: int, edges: npt.ArrayLike, parameters: Mapping[str, Any] | None = None
) -> Network:
    """Return a network from edges that may be invalid."""
    pairs = _edge_array(edges)
    if pairs.ndim != 2 or pairs.shape[1] != 2:
        weights = "; edges have no weights" if pairs.ndim == 2 and pairs.shape[1] == 3 else ""
        raise ValueError(
            f"edges must be pairs of agents, [E, 2], not of shape {pairs.shape}{weights}"
        )
    if pairs.dtype.kind == "U":
        raise TypeError(
            f"edges must be pairs of numbers 0 … {agents - 1}, not names such as "
            f"{str(pairs[0, 0])!r}; for names use fb.networks.from_networkx(nx.Graph(edges))"
        )
    if pairs.dtype.kind not in "iu":
        raise TypeError(f"edges must be whole numbers, not {pairs.dtype}; they name agents")
    for row in np.flatnonzero(((pairs < 0) | (pairs >= agents)).any(axis=1))[:1]:
        raise ValueError(
            f"edge {row}, {_pair(pairs[row])}, leaves the agents 0 … {agents - 1}; "
            "agents are numbered from 0"
        )
    for row in np.flatnonzero(pairs[:, 0] == pairs[:, 1])[:1]:
        raise ValueError(f"edge {row}, {_pair(pairs[row])}, is a self loop; leave it out")
    made = build(family, agents, pairs, {})
    for row in np.flatnonzero((np.diff(made.edges, axis=0) == 0).all(axis=1))[:1]:
        raise ValueError(f"edge {_pair(made.edges[row])} is given twice; list each pair once")
    named = {
        "agents": agents,
        "edges": len(made.edges),
        **(parameters or {}),
        "edges_sha256": array_hash(made.edges),
    }
    return Network(agents, made.edges, family, named, closed_form=made.closed_form)


def _from_networkx(family: str, graph: nx.Graph[Any], parameters: Mapping[str, Any]) -> Network:
    if isinstance(graph, type) or not hasattr(graph, "is_directed"):
        kind = f"the class {graph.__name__}" if isinstance(graph, type) else type(graph).__name__
        raise TypeError(f"{family} takes a networkx graph, not {kind}")
    if graph.is_directed() or graph.is_multigraph():
        kind = "directed" if graph.is_directed() else "a multigraph"
        raise ValueError(
            f"the graph is {kind}; networks are undirected and simple: convert it with nx.Graph(…)"
        )
    index = {node: v for v, node in enumerate(graph)}
    agents = whole(len(index), "the graph's number of nodes", least=1)
    for node in [u for u, v in graph.edges if u == v][:1]:
        raise ValueError(
            f"node {node!r} has a self loop; remove it: "
            "graph.remove_edges_from(nx.selfloop_edges(graph))"
        )
    names = tuple(str(node) for node in index)
    if len(set(names)) < agents:
        twice = next(name for name in names if names.count(name) > 1)
        raise ValueError(f"the graph gives two nodes the name {twice!r}, as a number and as text")
    edges = _edge_array((index[u], index[v]) for u, v in graph.edges)
    made = _checked(family, agents, edges, parameters)
    _warn_of_weights(family, graph)
    numbered = list(index) == list(range(agents))
    return made if numbered else replace(made, names=names)


def _warn_of_weights(family: str, graph: nx.Graph[Any]) -> None:
    """Warn that the weights of edges are ignored; equal weights say nothing and need no warning."""
    weights = list(graph.edges(data="weight", default=1))
    if len({weight for _, _, weight in weights}) > 1:
        u, v, weight = next(edge for edge in weights if edge[2] != 1)
        # Level 4 is the line that calls from_networkx or read_graphml.
        warnings.warn(
            f"{family} ignores the weights of edges, such as {weight} between {u!r} and {v!r}: a "
            "network has no weights, and gossip computes its own. To choose them, pass a doubly "
            "stochastic matrix to fb.gossip.from_matrix",
            stacklevel=4,
        )


def _edge_array(edges: npt.ArrayLike | Iterable[tuple[int, int]]) -> npt.NDArray[Any]:
    """Return edges as an array; an empty list gives [0, 2]."""
    try:
        array = np.asarray(edges if hasattr(edges, "__array__") else list(edges))  # type: ignore[arg-type]
    except (TypeError, ValueError):  # not iterable, or items of different lengths
        raise TypeError(
            f"edges must be pairs of agents such as [(0, 1), (1, 2)], not {shortened(edges)}"
        ) from None
    return array if array.size else np.zeros((0, 2), np.int64)


def _refuse(bad: Any, u: Any, v: Any, value: Any, problem: str) -> None:
    for i in np.flatnonzero(bad)[:1]:
        raise ValueError(f"adjacency entry [{u[i]}, {v[i]}] {problem}: {value[i]:g}")


def _pair(edge: Ints) -> str:
    return f"({edge[0]}, {edge[1]})"
