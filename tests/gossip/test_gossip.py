"""Gossip matrices: doubly stochastic, on the graph, and with the singular value they claim."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st

from fedbandits import gossip, networks
from fedbandits.gossip.base import Gossip
from fedbandits.networks import Network, spectra
from tests.instances import connected_networks

RULES: dict[str, Callable[[Network], Gossip]] = {
    "max_degree": gossip.max_degree,
    "max_degree(lazy=False)": lambda network: gossip.max_degree(network, lazy=False),
    "metropolis": gossip.metropolis,
    "random_edge": gossip.random_edge,
    "none": gossip.none,
    "fastest": gossip.fastest,
}
CHEAP = [name for name in RULES if name != "fastest"]
SPLIT = networks.from_edges(5, [(0, 1), (2, 3)])


def dense_sigma2(matrix: Any) -> float:
    agents = matrix.shape[0]
    rest = matrix.toarray() - 1 / agents
    return float(np.linalg.svd(rest, compute_uv=False)[0])


def random_permutation_mixture(agents: int, seed: int) -> np.ndarray[Any, Any]:
    """A non-symmetric doubly stochastic matrix (Birkhoff)."""
    rng = np.random.default_rng(seed)
    parts = [np.eye(agents)[rng.permutation(agents)] for _ in range(4)]
    return np.asarray(np.tensordot(rng.dirichlet(np.ones(5)), [np.eye(agents), *parts], 1))


@pytest.mark.parametrize("rule", CHEAP)
@given(data=st.data())
def test_doubly_stochastic_on_the_graph_with_the_right_sigma2(rule: str, data: Any) -> None:
    network = data.draw(connected_networks(data.draw(st.integers(1, 12))))
    made = RULES[rule](network)
    W = made.matrix.toarray()
    assert (W >= 0).all()
    np.testing.assert_allclose(W.sum(axis=0), 1, atol=1e-12)
    np.testing.assert_allclose(W.sum(axis=1), 1, atol=1e-12)
    off = ~np.eye(network.agents, dtype=bool)
    assert not W[off & (network.adjacency.toarray() == 0)].any()
    of_W = dense_sigma2(made.matrix)  # of a random round W is E WᵀW
    squared = made.sigma2**2 if made.random else made.sigma2
    assert squared == pytest.approx(of_W, abs=1e-12)
    assert made.gap == pytest.approx(1 - made.sigma2)
    assert made.directed_edges == np.count_nonzero(W[off])
    again = gossip.from_matrix(W, network)
    assert again.sigma2 == pytest.approx(of_W, abs=1e-7)
    assert again.directed_edges == made.directed_edges


@given(data=st.data())
def test_the_papers_matrix_has_its_gap_with_equality(data: Any) -> None:
    network = data.draw(connected_networks(data.draw(st.integers(2, 12))))
    lazy = gossip.max_degree(network)
    expected = 2 * (network.max_degree + 1) / network.algebraic_connectivity
    assert 1 / (1 - lazy.sigma2) == pytest.approx(expected, rel=1e-9)
    L = network.laplacian.toarray()
    np.testing.assert_allclose(
        lazy.matrix.toarray(), np.eye(network.agents) - L / (2 * (1 + network.max_degree))
    )
    assert np.linalg.eigvalsh(lazy.matrix.toarray()).min() >= -1e-12


def test_metropolis_weights() -> None:
    W = gossip.metropolis(networks.star(4)).matrix.toarray()
    np.testing.assert_allclose(W[0], 0.25)
    np.testing.assert_allclose(np.diag(W)[1:], 0.75)


def test_random_edge_is_the_mean_over_edges() -> None:
    network = networks.two_clusters(3, 1)
    mean = np.zeros((7, 7))
    for u, v in network.edges:
        difference = np.eye(7)[u] - np.eye(7)[v]
        mean += (np.eye(7) - np.outer(difference, difference) / 2) / len(network.edges)
    np.testing.assert_allclose(gossip.random_edge(network).matrix.toarray(), mean)


def test_sigma2_of_a_random_edge_is_that_of_the_mean_square() -> None:
    """E WᵀW over all edges: what a random round leaves of a disagreement, exactly.

    λ_2(E W) alone would be its square, and Theorem 3 would be claimed with a C_W half as large.
    """
    network = networks.two_clusters(3, 1)
    square = np.zeros((7, 7))
    for u, v in network.edges:
        difference = np.eye(7)[u] - np.eye(7)[v]
        W = np.eye(7) - np.outer(difference, difference) / 2
        square += W.T @ W / len(network.edges)
    made = gossip.random_edge(network)
    assert made.sigma2**2 == pytest.approx(np.linalg.eigvalsh(square)[-2], abs=1e-12)
    assert gossip.random_edge(networks.path(2)).sigma2 == pytest.approx(0, abs=1e-7)


@pytest.mark.parametrize(
    ("network", "published"),
    [
        (networks.complete(36), 1.00),
        (networks.grid(6, 6), 2.65),
        *(
            (networks.random_geometric(36, radius, seed=0), x)
            for radius, x in zip(
                (0.9, 0.8, 0.7, 0.6, 0.5, 0.4, 0.3),
                (1.11, 1.18, 1.27, 1.51, 1.73, 2.11, 3.09),
                strict=True,
            )
        ),
    ],
    ids=str,
)
def test_the_x_axis_of_figure_1(network: Network, published: float) -> None:
    sigma2 = gossip.max_degree(network, lazy=False).sigma2
    assert (1 - sigma2) ** (-1 / 3) == pytest.approx(published, abs=0.01)


@pytest.mark.parametrize("rule", RULES)
def test_one_agent(rule: str) -> None:
    for network in (networks.path(1), networks.from_edges(1, []), networks.complete(1)):
        made = RULES[rule](network)
        assert made.matrix.toarray().tolist() == [[1]]
        assert (made.sigma2, made.gap, made.directed_edges) == (0, 1, 0)
        assert made.c_w(1) == 3
        assert made.c_w(100) == 4
    assert gossip.from_matrix([[1]]).gap == 1


def test_sigma2_is_a_singular_value_not_the_second_eigenvalue() -> None:
    W = np.array([[0.1, 0.9], [0.9, 0.1]])
    assert gossip.from_matrix(W).sigma2 == pytest.approx(0.8)  # eigenvalues 1 and -0.8
    network = networks.grid(2, 3)
    made = gossip.max_degree(network, lazy=False)
    second, last = np.linalg.eigvalsh(made.matrix.toarray())[[-2, 0]]
    assert made.sigma2 == pytest.approx(max(second, -last))
    star = gossip.max_degree(networks.complete(2), lazy=False)
    assert star.sigma2 == 0
    shift = np.roll(np.eye(5), 1, axis=1) * 0.7 + np.eye(5) * 0.3
    made = gossip.from_matrix(shift)
    eigenvalues = np.sort(np.abs(np.linalg.eigvals(shift)))
    assert made.sigma2 == pytest.approx(dense_sigma2(made.matrix))
    assert made.sigma2 == pytest.approx(eigenvalues[-2])  # normal; the next one is not
    swap, cycle = np.eye(4)[[1, 0, 2, 3]], np.eye(4)[[0, 2, 3, 1]]
    skew = gossip.from_matrix((swap + cycle + np.eye(4)) / 3)
    second_modulus = np.sort(np.abs(np.linalg.eigvals(skew.matrix.toarray())))[-2]
    assert skew.sigma2 == pytest.approx(dense_sigma2(skew.matrix))
    assert skew.sigma2 > second_modulus + 0.1  # 0.781 and 2/3


def test_a_gap_below_rounding_is_zero() -> None:
    assert gossip.from_matrix([[0, 1], [1, 0]]).gap == 0
    assert gossip.from_matrix(np.roll(np.eye(5), 1, axis=1)).gap == 0
    even_ring = networks.ring(6)
    swinging = gossip.from_matrix(even_ring.adjacency / 2, even_ring)
    assert swinging.gap == 0
    assert swinging.sigma2 == 1
    assert swinging.c_w(1000) == math.inf


def test_c_w() -> None:
    made = gossip.max_degree(networks.grid(6, 6))
    assert made.c_w(3000) == pytest.approx(6 / made.gap + 3)  # √36 is the smaller
    large = gossip.max_degree(networks.grid(40, 40))
    expected = (2 * math.log(20) + math.log(1600)) / large.gap + 3
    assert large.c_w(20) == pytest.approx(expected)
    assert gossip.none(SPLIT).c_w(10) == math.inf
    with pytest.raises(ValueError, match=r"horizon must be .* not 0"):
        made.c_w(0)


@pytest.mark.slow
@pytest.mark.parametrize(
    "made",
    [
        gossip.metropolis(networks.random_geometric(1200, 0.07, seed=1)),
        gossip.metropolis(networks.preferential_attachment(900, 3)),
        gossip.max_degree(networks.erdos_renyi(800, 0.02, seed=0), lazy=False),
        gossip.from_matrix(random_permutation_mixture(700, 0)),
        gossip.from_matrix(gossip.metropolis(networks.star(600)).matrix),
    ],
    ids=str,
)
def test_sparse_sigma2_equals_the_dense_one(made: Gossip) -> None:
    """Within the bound of Kato and Temple for the accuracy that LOBPCG is asked for."""
    agents = made.network.agents
    assert agents > spectra.DENSE_AGENTS
    sigma = np.linalg.svd(made.matrix.toarray() - 1 / agents, compute_uv=False)
    after = sigma[sigma < sigma[0] - 1e-9][0]
    apart = (sigma[0] ** 2 - after**2) / (1 - sigma[0] ** 2)
    accuracy = 3e-4
    bound = accuracy * min(1, accuracy / apart) * (1 + sigma[0]) / (2 * sigma[0])
    assert made.gap == pytest.approx(1 - sigma[0], rel=bound, abs=1e-12)


@pytest.mark.slow
def test_large_networks_with_closed_forms_cost_nothing() -> None:
    million = gossip.max_degree(networks.grid(1000, 1000))
    assert million.gap == pytest.approx(4 * math.sin(math.pi / 2000) ** 2 / 10, rel=1e-12)
    assert gossip.none(networks.random_geometric(100_000, 0.002)).gap == 0
    dense = networks.complete(3364)
    for made in (gossip.max_degree(dense, lazy=False), gossip.metropolis(dense)):
        assert made.sigma2 == pytest.approx(0, abs=1e-12)
        assert made.directed_edges == 3364 * 3363
    assert gossip.max_degree(dense).sigma2 == pytest.approx(0.5)
    W = gossip.max_degree(dense).matrix
    assert W.nnz == 3364**2
    assert W.sum() == pytest.approx(3364)


def test_names_and_parameters() -> None:
    network = networks.grid(6, 6)
    assert gossip.max_degree(network).name == "max_degree(lazy=True) on grid(rows=6, cols=6)"
    assert repr(gossip.none(network)) == "none on grid(rows=6, cols=6)"
    of_networks = {"max_degree", "metropolis", "fastest", "random_edge", "none"}
    assert set(gossip.REGISTRY) == of_networks | {"clipped", "unreliable"}
    for rule in of_networks:
        made = gossip.REGISTRY[rule](networks.ring(4))
        assert made.rule == rule
        assert json.dumps(made.parameters)
    given = gossip.from_matrix(gossip.metropolis(network).matrix, network)
    same = gossip.from_matrix(gossip.metropolis(network).matrix.toarray())
    assert given.rule == "from_matrix"
    assert given.parameters == same.parameters
    assert given.name == "from_matrix() on grid(rows=6, cols=6)"


def test_from_matrix_takes_the_graph_of_its_support_and_leaves_its_input_alone() -> None:
    cycle = sp.csr_array(np.roll(np.eye(4), 1, axis=1) * 0.5 + np.eye(4) * 0.5 + 1)
    cycle.data -= 1  # stores the zeros
    stored = cycle.nnz
    made = gossip.from_matrix(cycle)
    assert made.network.edges.tolist() == networks.ring(4).edges.tolist()
    assert made.directed_edges == 4
    assert cycle.nnz == stored
    with pytest.raises(ValueError, match=r"may differ by direction; read gossip\.matrix"):
        _ = made.edge_weights


@pytest.mark.parametrize("rule", [name for name in RULES if name != "none"])
def test_disconnected_networks_are_refused(rule: str) -> None:
    with pytest.raises(ValueError, match=r"has 3 components; .*radius.*seed.*gossip\.none"):
        RULES[rule](SPLIT)


def bad(row: int, col: int, value: float) -> np.ndarray[Any, Any]:
    W = gossip.metropolis(networks.path(4)).matrix.toarray()
    W[row, col] = value
    return np.asarray(W)


REFUSED: list[tuple[Callable[[], Any], type[Exception], str]] = [
    (lambda: gossip.from_matrix(np.eye(4)), ValueError, r"4 components"),
    (lambda: gossip.from_matrix(np.eye(3), SPLIT), ValueError, r"3 components"),
    (lambda: gossip.from_matrix(np.ones((2, 3))), ValueError, r"square.*\(2, 3\)"),
    (lambda: gossip.from_matrix(bad(0, 1, -0.1)), ValueError, r"\[0, 1\] is -0\.1; .* 0 or more"),
    (lambda: gossip.from_matrix(bad(2, 1, np.nan)), ValueError, r"\[2, 1\] is nan"),
    (lambda: gossip.from_matrix(bad(2, 2, 0.9)), ValueError, r"row 2 sums to 1\.5666.*, not 1"),
    (
        lambda: gossip.from_matrix([[0.5, 0.5], [1, 0]]),
        ValueError,
        r"column 0 sums to 1\.5, not 1; .*doubly stochastic",
    ),
    (
        lambda: gossip.from_matrix(np.full((4, 4), 0.25), networks.path(4)),
        ValueError,
        r"entry \[0, 2\] is 0\.25, but path\(agents=4\) has no such edge",
    ),
    (
        lambda: gossip.from_matrix(np.full((4, 4), 0.25), networks.complete(5)),
        ValueError,
        r"for 4 agents but complete\(agents=5\) has 5",
    ),
    (lambda: gossip.max_degree(np.eye(3)), TypeError, r"takes a network .* not ndarray"),  # type: ignore[arg-type]
    (lambda: gossip.none("grid"), TypeError, r"takes a network .* not str 'grid'"),  # type: ignore[arg-type]
    (
        lambda: gossip.max_degree(networks.path(3), lazy="no"),  # type: ignore[arg-type]
        TypeError,
        r"lazy must be True or False, not 'no'",
    ),
]


@pytest.mark.parametrize(("make", "error", "message"), REFUSED, ids=[row[2] for row in REFUSED])
def test_refusals(make: Callable[[], Any], error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        make()


def test_a_limit_and_bad_links_do_not_go_together() -> None:
    plain = gossip.metropolis(networks.ring(4))
    with pytest.raises(ValueError, match="take one of the two"):
        gossip.clipped(gossip.unreliable(plain, 0.1), 1.0)
    with pytest.raises(ValueError, match="take one of the two"):
        gossip.unreliable(gossip.clipped(plain, 1.0), 0.1)
