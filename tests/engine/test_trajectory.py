"""A trajectory has the rounds of a simulation, and rejects what a simulation rejects."""

from __future__ import annotations

import jax.numpy as jnp
import numpy as np
import pytest

import fedbandits as fb
from fedbandits.engine import chunk_sizes


def test_several_chunks_play_the_same_rounds(monkeypatch: pytest.MonkeyPatch) -> None:
    """Regret of a simulation in chunks of at most 7 rounds, from the rounds of a trajectory."""
    monkeypatch.setattr(chunk_sizes, "MOST_ROUNDS", 7)
    problem = fb.problems.activated_bernoulli(agents=9, arms=3, horizon=25, seed=2)
    gossip = fb.gossip.max_degree(fb.networks.grid(3, 3))
    run = fb.trajectory(problem, fb.FedExp3(0.3), gossip, 2, 5)
    mean = run.losses.mean(axis=2)  # [T, R, K]
    incurred = np.take_along_axis(mean, run.action.astype(int), axis=-1).mean(axis=2)
    regret = incurred.cumsum(axis=0) - mean.cumsum(axis=0).min(axis=-1)
    result = fb.simulate(problem, fb.FedExp3(0.3), gossip, 2, 5, dtype="float64")
    np.testing.assert_allclose(result.dataset["regret"].T, regret, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("wrong", [2.0, -0.5, np.nan])
def test_losses_outside_the_unit_interval(wrong: float) -> None:
    problem = fb.problems.from_function(
        lambda t: jnp.where(t == 3, wrong, 0.5) * jnp.ones((4, 2)), agents=4, arms=2, horizon=9
    )
    with pytest.raises(ValueError, match=r"t=3|round 3"):
        fb.trajectory(problem, fb.Exp3(0.1))


def test_adaptive_losses_outside_the_unit_interval() -> None:
    problem = fb.problems.adaptive(
        lambda t, memory: jnp.where(t == 3, 2.0, 0.5) * jnp.ones((4, 2)) + 0 * memory,
        lambda memory, action, t: memory,
        np.zeros(()),
        agents=4,
        arms=2,
        horizon=9,
    )
    with pytest.raises(ValueError, match="round 3"):
        fb.trajectory(problem, fb.Exp3(0.1))
