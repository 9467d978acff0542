"""Networks from edges, matrices and networkx: names, weights, and errors with a fix."""

from __future__ import annotations

import re
import warnings
from fractions import Fraction
from pathlib import Path
from typing import Any

import networkx as nx
import numpy as np
import pandas as pd
import pytest

import fedbandits as fb
from fedbandits import networks

WRONG: Any = networks  # takes arguments that its type hints exclude


def weighted() -> nx.Graph[str]:
    graph: nx.Graph[str] = nx.Graph([("ann", "bob"), ("bob", "cid")])
    graph["ann"]["bob"]["weight"] = 2.5
    return graph


def test_weights_of_edges_are_ignored_with_a_warning(tmp_path: Path) -> None:
    message = r"ignores the weights of edges, such as 2\.5 between 'ann' and 'bob': .*\.from_matrix"
    with pytest.warns(UserWarning, match=f"from_networkx {message}") as said:
        network = networks.from_networkx(weighted())
    assert network.edges.tolist() == [[0, 1], [1, 2]]
    assert [warning.filename for warning in said] == [__file__]
    nx.write_graphml(weighted(), tmp_path / "w.graphml")
    with pytest.warns(UserWarning, match=f"read_graphml {message}"):
        networks.read_graphml(tmp_path / "w.graphml")


def test_equal_weights_say_nothing() -> None:
    graph = nx.from_numpy_array(np.array([[0, 1.0, 1.0], [1.0, 0, 0], [1.0, 0, 0]]))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert networks.from_networkx(graph).agents == 3
        for u, v in graph.edges:
            graph[u][v]["weight"] = 3.0
        assert networks.from_networkx(graph).agents == 3


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (
            lambda: networks.from_edges(3, [("ann", "bob"), ("bob", "cid")]),
            "numbers 0 … 2, not names such as 'ann'; for names use "
            "fb.networks.from_networkx(nx.Graph(edges))",
        ),
        (
            lambda: networks.from_edges(3, [(0, 1, 0.5), (1, 2, 0.5)]),
            "not of shape (2, 3); edges have no weights",
        ),
        (
            lambda: networks.from_edges(3, [(0, 1), (1,)]),
            "pairs of agents such as [(0, 1), (1, 2)]",
        ),
        (
            lambda: WRONG.from_edges(3, None),
            "pairs of agents such as [(0, 1), (1, 2)], not None",
        ),
        (lambda: networks.from_edges(3, 5), "pairs of agents such as [(0, 1), (1, 2)], not 5"),
        (
            lambda: networks.from_networkx(nx.Graph([("a", "b"), ("b", "b")])),
            "node 'b' has a self loop; remove it: "
            "graph.remove_edges_from(nx.selfloop_edges(graph))",
        ),
        (lambda: networks.from_networkx(nx.Graph([(1, "1")])), "two nodes the name '1'"),
        (lambda: WRONG.from_networkx(nx.Graph), "takes a networkx graph, not the class Graph"),
        (lambda: networks.from_adjacency([[0, 1], [1]]), "adjacency matrix must be [N, N] numbers"),
        (lambda: networks.from_adjacency([["a"]]), "adjacency matrix must be [N, N] numbers"),
        (lambda: networks.from_adjacency(np.eye(2) * 1j), "must be real, not complex128"),
        (
            lambda: fb.gossip.from_matrix(WRONG.ring(3), WRONG.ring(3)),
            "the gossip matrix must be [N, N] numbers, not Network",
        ),
    ],
)
def test_refused(make: Any, message: str) -> None:
    with pytest.raises((TypeError, ValueError), match=re.escape(message)):
        make()


def test_edges_of_a_data_frame() -> None:
    frame = pd.DataFrame({"from": [0, 1], "to": [1, 2]})
    assert networks.from_edges(3, frame).edges.tolist() == [[0, 1], [1, 2]]


def test_a_matrix_of_fractions() -> None:
    half = Fraction(1, 2)
    assert fb.gossip.from_matrix([[half, half], [half, half]]).gap == pytest.approx(1)
