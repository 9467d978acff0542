"""The paper's own instance: grid 6×6, K=20, T=3000, the authors' constants, 10 runs."""

from __future__ import annotations

import numpy as np
import pytest

import fedbandits as fb

PROBLEM = fb.problems.activated_bernoulli(agents=36, arms=20, horizon=3000, seed=0)
FIGURE = fb.gossip.max_degree(fb.networks.grid(6, 6), lazy=False)


def at_end(algorithm: fb.Algorithm) -> float:  # type: ignore[type-arg]
    result = fb.simulate(PROBLEM, algorithm, FIGURE, runs=10, seed=0)
    return float(result.band("regret").mean[-1])


def test_fedexp3_ends_where_the_figure_does() -> None:
    """Published: about 33.6. Ten runs have a 95% band of about ±0.6."""
    assert at_end(fb.FedExp3(0.1)) == pytest.approx(33.6, abs=1.5)


def test_exp3_ends_where_the_figure_does() -> None:
    """Published: about 68.5."""
    assert at_end(fb.Exp3(0.1)) == pytest.approx(68.5, abs=3)


def test_uniform_play_is_exact() -> None:
    """Its expected regret needs no algorithm: mean over arms less the best arm, about 750."""
    result = fb.simulate(PROBLEM, fb.Uniform(), FIGURE, runs=10, seed=0)
    losses = PROBLEM.block(1, 3000).mean(axis=1, dtype=np.float64).sum(axis=0)
    exact = losses.mean() - losses.min()
    assert exact == pytest.approx(750, abs=10)
    np.testing.assert_allclose(result.dataset["expected_regret"][:, -1], exact, rtol=1e-6)
    mean, low, high = (float(x[-1]) for x in result.band("regret"))
    assert low - (high - mean) < exact < high + (high - mean)  # within two half-widths
