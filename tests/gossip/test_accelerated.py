"""Accelerated gossip, on matrices: it keeps the mean, and is as fast as it says."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import fedbandits as fb
from fedbandits.gossip import acceleration as accelerated
from tests.instances import connected_networks
from tests.oracles.block_gossip import chebyshev

GRID = fb.gossip.max_degree(fb.networks.grid(6, 6))
Matrix = np.ndarray[Any, np.dtype[np.float64]]


def powers(W: Matrix, weights: list[float]) -> list[Matrix]:
    """The matrix of the first b steps, b = 0, 1, ..."""
    before = now = np.eye(len(W))
    out = [now]
    for weight in weights:
        before, now = now, weight * W @ now + (1 - weight) * before
        out.append(now)
    return out


def disagreement(matrix: Matrix) -> float:
    return float(np.linalg.norm(matrix - 1 / len(matrix), 2))


def steps_needed(W: Matrix, weights: list[float], tolerance: float) -> int:
    left = [disagreement(matrix) for matrix in powers(W, weights)]
    return next(b for b, value in enumerate(left) if value <= tolerance)


@given(st.data())
def test_the_mean_stays_and_chebyshev_keeps_its_word(data: st.DataObject) -> None:
    agents = data.draw(st.sampled_from([2, 5, 8]))
    network = data.draw(connected_networks(agents))
    gossip = fb.gossip.max_degree(network, lazy=data.draw(st.booleans()))
    W, sigma2 = gossip.matrix.toarray(), gossip.sigma2
    tolerance = data.draw(st.sampled_from([0.5, 0.1, 0.01]))
    steps = accelerated.chebyshev_steps(sigma2, tolerance)
    found = powers(W, chebyshev(sigma2, steps))
    for kappa in (accelerated.theorem_momentum(sigma2), accelerated.best_momentum(sigma2)):
        found += powers(W, [1 + kappa] * steps)
    for matrix in found:
        np.testing.assert_allclose(matrix.sum(axis=0), 1, rtol=1e-9)
    assert disagreement(found[steps]) <= tolerance * (1 + 1e-9)
    if steps > 1:  # and not one step fewer
        assert disagreement(found[steps - 1]) > tolerance * (1 - 1e-9)


def test_the_theorem_rate_holds_for_its_matrix_and_not_for_every() -> None:
    W, sigma2 = GRID.matrix.toarray(), GRID.sigma2
    weights = [1 + accelerated.theorem_momentum(sigma2)] * 300
    rate = 1 - (1 - 1 / math.sqrt(2)) * math.sqrt(1 - sigma2)
    for b, matrix in enumerate(powers(W, weights)):
        assert disagreement(matrix) <= math.sqrt(14) * rate**b
    negative = np.array([[0.005, 0.995], [0.995, 0.005]])  # eigenvalues 1 and -0.99
    sigma2 = fb.gossip.from_matrix(negative).sigma2
    weights = [1 + accelerated.theorem_momentum(sigma2)] * 60
    rate = 1 - (1 - 1 / math.sqrt(2)) * math.sqrt(1 - sigma2)
    left = [disagreement(matrix) for matrix in powers(negative, weights)]
    assert max(x / (math.sqrt(14) * rate**b) for b, x in enumerate(left)) > 2


def test_the_best_constant_halves_the_iterations() -> None:
    W, sigma2 = GRID.matrix.toarray(), GRID.sigma2
    tolerance = 1e-8
    ours = steps_needed(W, [1 + accelerated.best_momentum(sigma2)] * 300, tolerance)
    theirs = steps_needed(W, [1 + accelerated.theorem_momentum(sigma2)] * 300, tolerance)
    best = steps_needed(W, chebyshev(sigma2, 300), tolerance)
    plain = steps_needed(W, [1.0] * 800, tolerance)
    assert (plain, theirs, ours, best) == (679, 180, 92, 82)
    assert accelerated.chebyshev_steps(sigma2, tolerance) == best
    assert accelerated.plain_steps(sigma2, tolerance) == plain


def test_the_rate_of_the_best_constant() -> None:
    """It is sqrt(κ*) a step, and no other constant's is better."""
    W, sigma2 = GRID.matrix.toarray(), GRID.sigma2
    eigenvalues = np.linalg.eigvalsh(W)[:-1]

    def rate(kappa: float) -> float:
        steps = [np.array([[(1 + kappa) * x, -kappa], [1, 0]]) for x in eigenvalues]
        return max(float(abs(np.linalg.eigvals(step)).max()) for step in steps)

    best = accelerated.best_momentum(sigma2)
    # A double root moves by the square root of a rounding error.
    assert rate(best) == pytest.approx(math.sqrt(best), abs=1e-6)
    assert all(rate(best + shift) > rate(best) for shift in (-0.1, -0.01, 0.01, 0.1))


def test_weights_tend_to_the_best_constant() -> None:
    last = chebyshev(0.9, 100)[-1]
    assert last == pytest.approx(1 + accelerated.best_momentum(0.9), rel=1e-12)


def test_what_can_be_accelerated() -> None:
    network = fb.networks.path(4)
    turned = np.roll(np.eye(3), 1, axis=0) / 2 + np.eye(3) / 2
    kinds = {
        "lazy": (fb.gossip.max_degree(network), True, True),
        "not lazy": (fb.gossip.max_degree(network, lazy=False), True, False),
        "metropolis": (fb.gossip.metropolis(fb.networks.star(4)), True, True),
        "random": (fb.gossip.random_edge(network), False, True),
        "none": (fb.gossip.none(network), False, True),
        "alone": (fb.gossip.max_degree(fb.networks.path(1)), True, True),
        "turned": (fb.gossip.from_matrix(turned), False, False),
    }
    for name, (gossip, fast, positive) in kinds.items():
        assert accelerated.accelerable(gossip) == fast, name
        assert accelerated.positive_semidefinite(gossip) == positive, name


def test_the_theorem_block() -> None:
    steps = accelerated.theorem_steps(GRID.sigma2, arms=20, agents=36, horizon=3000)
    by_hand = math.log((20.0 * 3000) ** 6 * math.sqrt(14 * 36))
    assert steps == math.ceil(by_hand / ((1 - 2**-0.5) * math.sqrt(GRID.gap))) == 1442
    assert accelerated.theorem_steps(1.0, arms=2, agents=2, horizon=9) == math.inf


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: accelerated.best_momentum(1.5), r"sigma2 must be in \[0, 1\], not 1.5"),
        (lambda: accelerated.chebyshev_steps(0.5, 1.0), "tolerance must be in \\(0, 1\\), not"),
        (lambda: accelerated.plain_steps(0.5, 0.0), "tolerance must be in \\(0, 1\\), not"),
    ],
)
def test_refusals(call: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        call()
