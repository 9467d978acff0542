"""How far gossip leaves sums apart: by eigenvalues, by Lanczos, and by adding up powers of W."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import fedbandits as fb
from fedbandits.gossip import scatter as room
from fedbandits.gossip.scatter import scatter
from tests.instances import connected_networks
from tests.oracles import paper

RULES = [fb.gossip.max_degree, fb.gossip.metropolis, fb.gossip.fastest]


@pytest.mark.parametrize("rule", RULES)
@given(st.data())
def test_it_is_the_sum_over_all_powers(rule: Any, data: st.DataObject) -> None:
    gossip = rule(data.draw(connected_networks(5)))
    assert scatter(gossip) == pytest.approx(paper.scatter(gossip.matrix.toarray()), rel=1e-6)


def test_of_a_matrix_that_differs_by_direction() -> None:
    """Of a circulant, which commutes with its transpose, it is exact too."""
    W = np.array([[0.5, 0.5, 0], [0, 0.5, 0.5], [0.5, 0, 0.5]])
    assert scatter(fb.gossip.from_matrix(W)) == pytest.approx(paper.scatter(W))


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("momentum", [0.1, 0.4])
def test_with_momentum_it_is_what_the_recursion_leaves(rule: Any, momentum: float) -> None:
    """It starts from x^{-1} = x^0, so that the signs of eigenvalues matter."""
    gossip = rule(fb.networks.path(6))
    W = gossip.matrix.toarray()
    before, now, total = np.eye(6), np.eye(6), 0.0
    for _ in range(2000):
        total += ((now - 1 / 6) ** 2).sum() / 6
        before, now = now, (1 + momentum) * W @ now - momentum * before
    assert scatter(gossip, momentum) == pytest.approx(total)


@pytest.mark.parametrize(
    ("network", "within"),
    [
        (fb.networks.path(2), 1e-6),
        (fb.networks.path(7), 1e-6),
        (fb.networks.star(6), 1e-6),
        (fb.networks.ring(5), 1e-6),
        (fb.networks.complete(5), 1e-6),
        (fb.networks.grid(3, 3), 0.01),
        (fb.networks.two_clusters(4, 2), 0.05),
    ],
)
def test_of_one_random_edge_a_round(network: fb.Network, within: float) -> None:
    """E ‖W_k ⋯ W_1 - 11ᵀ/N‖_F², edge by edge; exact where all edges are alike, and on trees."""
    agents, drawn, total = network.agents, [], 0.0
    for u, v in network.edges:
        ends = np.eye(agents)[u] - np.eye(agents)[v]
        drawn.append(np.eye(agents) - np.outer(ends, ends) / 2)
    left = np.eye(agents) - 1 / agents
    while np.trace(left) > 1e-9:
        total += np.trace(left) / agents
        left = np.mean([W @ left @ W for W in drawn], axis=0)
    assert scatter(fb.gossip.random_edge(network)) == pytest.approx(total, rel=within)


@pytest.mark.parametrize(
    "gossip", [fb.gossip.none(fb.networks.ring(5)), fb.gossip.max_degree(fb.networks.path(1))]
)
def test_who_never_hears_anything_has_none(gossip: fb.Gossip) -> None:
    assert scatter(gossip) == 0


def test_what_hardly_ever_agrees_is_counted_for_ten_thousand_rounds() -> None:
    """Two agents who exchange their values do not come closer."""
    swap = fb.gossip.from_matrix(np.array([[0.0, 1.0], [1.0, 0.0]]))
    assert scatter(swap) == pytest.approx(1e4 / 2)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("network", "within"),
    [
        (fb.networks.star(400), 0.02),
        (fb.networks.complete(200), 0.02),
        (fb.networks.erdos_renyi(400, 0.05), 0.05),
        (fb.networks.grid(20, 20), 0.4),
        (fb.networks.path(400), 0.5),
        (fb.networks.two_clusters(100, 2), 0.3),  # one mode is slow, and all others are fast
    ],
)
def test_many_agents_are_estimated(
    network: fb.Network, within: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The vectors are always the same, so that this is no matter of luck."""
    exact = scatter(fb.gossip.max_degree(network))
    monkeypatch.setattr(room, "DENSE_AGENTS", 1)
    assert scatter(fb.gossip.max_degree(network)) == pytest.approx(exact, rel=within)
    given_whole = fb.gossip.from_matrix(fb.gossip.max_degree(network).matrix)
    assert scatter(given_whole) == pytest.approx(scatter(fb.gossip.max_degree(network)), rel=1e-3)
