"""The paper's own instance: grid 6×6, K=20, T=3000, the authors' constants, 100 runs.

Null: an end point here is the mean of 100 runs, each with a standard deviation of about 0.9, on one
draw of the losses, which moves the level by 0.2 (one standard deviation). Limits are more than five
such standard deviations (0.22) wide, on top of the 0.3 between our mean and what was read off the
figure.
"""

from __future__ import annotations

import numpy as np
import pytest

import fedbandits as fb

PROBLEM = fb.problems.activated_bernoulli(agents=36, arms=20, horizon=3000, seed=0)
FIGURE = fb.gossip.max_degree(fb.networks.grid(6, 6), lazy=False)

pytestmark = pytest.mark.slow  # the experiment, if only a quick one


def at_end(algorithm: fb.Algorithm) -> float:  # type: ignore[type-arg]
    result = fb.simulate(PROBLEM, algorithm, FIGURE, runs=100, seed=0)
    return float(result.band("regret").mean[-1])


def test_fedexp3_ends_where_the_figure_does() -> None:
    """Published: about 33.6."""
    assert at_end(fb.FedExp3(0.1)) == pytest.approx(33.6, abs=1.5)


def test_exp3_ends_where_the_figure_does() -> None:
    """Published: about 68.5."""
    assert at_end(fb.Exp3(0.1)) == pytest.approx(68.5, abs=1.5)


def test_uniform_play_is_exact() -> None:
    """Its expected regret needs no algorithm: mean over arms less the best arm, about 750.

    The regret of the arms drawn is that plus independent draws, one for every round, agent and
    run, whose variance the losses give: its mean lies within six standard errors (2e-9).
    """
    runs = 10
    result = fb.simulate(PROBLEM, fb.Uniform(), FIGURE, runs=runs, seed=0)
    by_round = PROBLEM.block(1, 3000).mean(axis=1, dtype=np.float64)
    losses = by_round.sum(axis=0)
    exact = losses.mean() - losses.min()
    assert exact == pytest.approx(750, abs=10)
    np.testing.assert_allclose(result.dataset["expected_regret"][:, -1], exact, rtol=1e-6)
    error = np.sqrt(by_round.var(axis=1).sum() / (36 * runs))
    assert abs(float(result.dataset["regret"][:, -1].mean()) - exact) < 6 * error
