"""Links that lose messages: how fast they still mix, what theorems say, and what is refused."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest

import fedbandits as fb
from fedbandits.gossip.acceleration import accelerable
from fedbandits.gossip.bad_links import RULES, mean_square
from fedbandits.theory.theorems import RunFacts, theorem_of

PLAIN = fb.gossip.max_degree(fb.networks.grid(3, 4))


def laplacian(agents: int, edges: Any, weights: Any) -> Any:
    total = np.zeros((agents, agents))
    for (u, v), w in zip(edges, weights, strict=True):
        b = np.zeros(agents)
        b[u], b[v] = 1, -1
        total += w * np.outer(b, b)
    return total


def test_the_mean_square_is_that_of_all_outcomes() -> None:
    """Every subset of edges with its probability: exact."""
    network = fb.networks.from_edges(4, [(0, 1), (0, 2), (1, 2), (2, 3)])
    w, q = np.array([0.1, 0.2, 0.3, 0.25]), np.array([0.9, 0.5, 0.2, 0.7])
    expected = np.zeros((4, 4))
    for there in itertools.product([0, 1], repeat=4):
        chance = np.prod(np.where(there, q, 1 - q))
        W = np.eye(4) - laplacian(4, network.edges, w * there)
        expected += chance * W.T @ W
    found = mean_square(4, network.edges, w, q).toarray()
    np.testing.assert_allclose(found, expected, rtol=0, atol=1e-14)


@pytest.mark.parametrize(("loss", "active"), [(0.1, 1.0), (0.5, 1.0), (0.3, 0.6)])
def test_sigma2_of_equal_weights_has_a_closed_form(loss: float, active: float) -> None:
    """λ_2 = 1 - 2wqλ + w²q²λ² + 2w²q(1-q)λ."""
    gossip = fb.gossip.unreliable(PLAIN, loss, active=active)
    w, q, lam = (
        PLAIN.edge_weights[0],
        active * (1 - loss) ** 2,
        PLAIN.network.algebraic_connectivity,
    )
    squared = 1 - 2 * w * q * lam + (w * q * lam) ** 2 + 2 * w**2 * q * (1 - q) * lam
    assert gossip.sigma2**2 == pytest.approx(squared, abs=1e-12)


def test_sigma2_is_what_random_rounds_leave() -> None:
    """E‖W x‖² of the slowest x, over 40,000 drawn rounds: five standard errors."""
    gossip = fb.gossip.unreliable(PLAIN, lambda u, v: ((u + 2 * v) % 5) / 6)
    assert gossip.faults is not None
    agents, edges, w = 12, PLAIN.network.edges, PLAIN.edge_weights
    there, back = 1 - gossip.faults.loss.reshape(2, -1)
    exact = mean_square(agents, edges, w, there * back).toarray()
    values, vectors = np.linalg.eigh(exact)
    assert values[-2] == pytest.approx(gossip.sigma2**2, abs=1e-12)
    x = vectors[:, -2]
    rng = np.random.default_rng(0)
    arrive = rng.uniform(size=(40_000, 2, len(edges))) < np.stack([there, back])
    moved = arrive.all(axis=1) * w * (x[edges[:, 1]] - x[edges[:, 0]])
    after = np.tile(x, (len(moved), 1))
    for e, (u, v) in enumerate(edges):
        after[:, u] += moved[:, e]
        after[:, v] -= moved[:, e]
    left = (after**2).sum(axis=1)
    error = left.std(ddof=1) / np.sqrt(len(left))
    assert abs(left.mean() - values[-2]) <= 5 * error


def test_other_rules_have_the_gap_of_the_expected_matrix() -> None:
    w, lam = PLAIN.edge_weights[0], PLAIN.network.algebraic_connectivity
    for rule, survives in {"receiver": 0.7, "lost": 0.7, "flow": 0.49}.items():
        assert fb.gossip.unreliable(PLAIN, 0.3, rule).gap == pytest.approx(w * survives * lam)
    churn = fb.gossip.unreliable(PLAIN, 0.3, up=3, down=1)
    assert churn.gap == pytest.approx(w * 0.49 * (3 / 4) ** 2 * lam)
    assert fb.gossip.unreliable(PLAIN).gap == PLAIN.gap
    assert fb.gossip.unreliable(PLAIN, 0.3).c_w(100) > PLAIN.c_w(100)


def test_theorem_3_speaks_of_symmetric_rounds_that_are_independent_and_of_no_others() -> None:
    def theorem(algorithm: Any, **bad: Any) -> Any:
        described = {"name": type(algorithm).__name__, "regulariser": "minimax"}
        return theorem_of(RunFacts(fb.gossip.unreliable(PLAIN, **bad), 3, 100, described))

    assert theorem(fb.FedExp3(), loss=0.3, active=0.5) is not None
    assert theorem(fb.FedHedge(), loss=0.3) is not None
    assert theorem(fb.BlockGossip(), loss=0.0) is not None
    assert theorem(fb.BlockGossip(), loss=0.3) is None  # its W is the same in all rounds
    assert theorem(fb.FedExp3(), loss=0.3, up=3, down=3) is None
    for rule in set(RULES) - {"symmetric"}:
        assert theorem(fb.FedExp3(), loss=0.3, rule=rule) is None
    assert accelerable(PLAIN)
    assert not accelerable(fb.gossip.unreliable(PLAIN, 0.3))


def test_losses_can_be_said_in_many_ways() -> None:
    path = fb.gossip.metropolis(fb.networks.path(3))

    def losses(loss: Any) -> list[float]:
        faults = fb.gossip.unreliable(path, loss).faults
        assert faults is not None
        return list(faults.loss)

    # 0 → 1, 1 → 2, then 1 → 0, 2 → 1
    assert losses(0.5) == [0.5] * 4
    assert losses([0.1, 0.2, 0.3]) == [0.1, 0.2, 0.2, 0.3]
    assert losses(np.array([0.1, 0.2, 0.3, 0.4])) == [0.1, 0.2, 0.3, 0.4]
    assert losses({(2, 1): 0.5}) == [0, 0, 0, 0.5]
    assert losses(lambda u, v: u / 4 + v / 8) == [0.125, 0.5, 0.25, 0.625]


@pytest.mark.parametrize(
    ("arguments", "error", "match"),
    [
        ({"loss": 1.0}, ValueError, r"loss must be in \[0, 1\), not 1"),
        ({"loss": float("nan")}, ValueError, "loss .*nan"),
        ({"loss": [0.1, 0.2]}, ValueError, r"shape \(2,\); .* 12 senders, .* 34 directed edges"),
        ({"loss": {(0, 5): 0.1}}, ValueError, r"loss of \(0, 5\): grid.* no such pair"),
        ({"loss": {"a": 0.1}}, TypeError, r"give pairs"),
        ({"loss": "much"}, TypeError, "loss"),
        ({"rule": "flows"}, ValueError, "did you mean 'flow'"),
        ({"delay": 2}, ValueError, "delay is 2, but rule 'symmetric' .* 'receiver' or 'lost'"),
        ({"delay": 2, "rule": "flow"}, ValueError, "delay is 2, but rule 'flow'"),
        ({"delay": -1, "rule": "lost"}, ValueError, "delay"),
        ({"up": 3}, ValueError, "need both"),
        ({"up": 0, "down": 1}, ValueError, "up"),
        ({"active": 0}, ValueError, "active must be in \\(0, 1\\], not 0"),
    ],
)
def test_what_is_refused(arguments: dict[str, Any], error: type[Exception], match: str) -> None:
    with pytest.raises(error, match=match):
        fb.gossip.unreliable(PLAIN, **arguments)


def test_weights_must_be_symmetric_and_the_same_in_every_round() -> None:
    network = fb.networks.ring(3)
    cycle = fb.gossip.from_matrix(np.roll(np.eye(3), 1, axis=1) * 0.5 + np.eye(3) * 0.5)
    with pytest.raises(ValueError, match="symmetric weights"):
        fb.gossip.unreliable(cycle, 0.1)
    for gossip in (
        fb.gossip.random_edge(network),
        fb.gossip.none(network),
        fb.gossip.unreliable(fb.gossip.metropolis(network), 0.1),
    ):
        with pytest.raises(ValueError, match="same in every round"):
            fb.gossip.unreliable(gossip, 0.1)
    with pytest.raises(TypeError, match="takes a gossip"):
        fb.gossip.unreliable(network, 0.1)  # type: ignore[arg-type]  # a network: the point
    own = fb.gossip.from_matrix(fb.gossip.metropolis(network).matrix)
    assert fb.gossip.unreliable(own, 0.1).sigma2 == pytest.approx(
        fb.gossip.unreliable(fb.gossip.metropolis(network), 0.1).sigma2
    )


def test_its_name_is_the_calls_that_made_it() -> None:
    name = fb.gossip.unreliable(PLAIN, [0.1] * 11 + [0.5], "receiver", delay=1).name
    assert name == (
        "unreliable(gossip=max_degree(lazy=true), loss=0.1…0.5, rule=receiver, delay=1) on "
        "grid(rows=3, cols=4)"
    )
