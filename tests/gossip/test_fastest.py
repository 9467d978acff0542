"""The fastest gossip: known optima, never worse than the simple rules, large graphs."""

from __future__ import annotations

from typing import Any

import networkx as nx
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fedbandits import gossip, networks
from fedbandits.gossip import fastest_weights as fastest
from fedbandits.gossip.base import Gossip
from fedbandits.networks import Network
from fedbandits.networks.searches import Floats
from tests.instances import connected_networks

EIGHT = "01 04 12 13 16 17 23 26 37 45 46 56 67"
# second largest eigenvalue modulus with w = 1/d_max, 1/max(d_u, d_v), and the fastest
KNOWN = {
    "path of 4": (networks.path(4), 0.7071, 0.7071, 0.7071),
    "triangle and pendant": (
        networks.from_edges(4, [(0, 1), (0, 2), (1, 2), (2, 3)]), 0.6667, 0.6667, 7 / 11,
    ),
    "K_2,3": (networks.from_networkx(nx.complete_bipartite_graph(2, 3)), 0.6667, 0.6667, 3 / 7),
    "square and centre": (networks.from_networkx(nx.wheel_graph(5)), 0.25, 0.5833, 0.25),
    "8 nodes, 13 edges": (
        networks.from_edges(8, [(int(e[0]), int(e[1])) for e in EIGHT.split()]),
        0.7793, 0.7743, 0.6810,
    ),
}  # fmt: skip


def sigma2(network: Network, weights: Floats) -> float:
    return Gossip(network, "fastest", {}, weights).sigma2


def check_valid(made: Gossip) -> None:
    W = made.matrix.toarray()
    assert (W >= 0).all()
    np.testing.assert_allclose(W.sum(axis=0), 1, atol=1e-12)
    np.testing.assert_array_equal(W, W.T)
    network = made.network
    simple = (
        gossip.max_degree(network),
        gossip.max_degree(network, lazy=False),
        gossip.metropolis(network),
    )
    assert made.sigma2 <= min(other.sigma2 for other in simple) + 1e-12


@pytest.mark.parametrize("name", KNOWN)
def test_known_optima(name: str) -> None:
    network, by_max_degree, by_larger_degree, optimum = KNOWN[name]
    larger = network.degrees[network.edges].max(axis=1)
    uniform = np.full(len(network.edges), 1 / network.max_degree)
    assert sigma2(network, uniform) == pytest.approx(by_max_degree, abs=1e-4)
    assert sigma2(network, 1 / larger) == pytest.approx(by_larger_degree, abs=1e-4)
    made = gossip.fastest(network)
    assert made.sigma2 == pytest.approx(optimum, abs=1e-4)
    check_valid(made)


@given(data=st.data())
@settings(max_examples=25)
def test_never_worse_than_the_simple_rules(data: Any) -> None:
    check_valid(gossip.fastest(data.draw(connected_networks(data.draw(st.integers(1, 9))))))


@pytest.mark.soak
def test_cutting_planes_reach_the_semidefinite_optimum(monkeypatch: pytest.MonkeyPatch) -> None:
    """On a graph without symmetries, so that no other processor takes other steps."""
    network = networks.random_geometric(30, 0.35, seed=1)
    optimum = gossip.fastest(network)
    monkeypatch.setattr(fastest, "SDP_AGENTS", 20)
    by_cuts = gossip.fastest(network)
    check_valid(by_cuts)
    assert 0.995 * optimum.gap <= by_cuts.gap <= optimum.gap + 1e-6
    monkeypatch.setattr(fastest, "CUT_EDGES", 20)
    by_steps = gossip.fastest(network)
    check_valid(by_steps)
    assert gossip.metropolis(network).gap < by_steps.gap < by_cuts.gap


@pytest.mark.soak
def test_above_the_cutting_plane_size(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fastest, "CUT_EDGES", 1_000)
    network = networks.random_geometric(600, 0.075, seed=0)  # sparse eigensolver too
    assert len(network.edges) > 1_000
    made = gossip.fastest(network)
    assert made.gap > 1.1 * gossip.metropolis(network).gap
    assert made.edge_weights.min() >= 0
    assert made.matrix.diagonal().min() >= 0


def test_capped_weights_are_feasible() -> None:
    network = networks.preferential_attachment(30, 2)
    weights = np.random.default_rng(0).normal(0.2, 0.5, len(network.edges))
    capped = fastest.capped(30, network.edges, weights)
    totals = np.bincount(network.edges.ravel(), np.repeat(capped, 2))
    assert capped.min() >= 0
    assert totals.max() <= 1 + 1e-12
    feasible = np.full(len(network.edges), 0.01)
    np.testing.assert_array_equal(fastest.capped(30, network.edges, feasible), feasible)
