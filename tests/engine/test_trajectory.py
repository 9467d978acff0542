"""A trajectory rejects what a simulation rejects."""

from __future__ import annotations

import jax.numpy as jnp
import numpy as np
import pytest

import fedbandits as fb


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
