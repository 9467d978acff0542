"""Congestion: an arm costs more, the more agents played it in the last round."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from fedbandits.arrays import Array
from fedbandits.common import checks

from .adaptive import Watching, check_inside, raised
from .base import Problem


@dataclass(frozen=True, eq=False, repr=False)
class Crowded(Watching):
    """An arm costs more, for everyone, the more agents played it in the last round."""

    strength: float

    def memory(self) -> Array:
        """Return the share of agents that played each arm in the last round, `[K]`: none."""
        return np.zeros(self.arms)

    def losses_given(self, t: Array, memory: Array) -> Array:
        """Return ℓ + (1 - ℓ) · strength · share, `[N, K]`."""
        return raised(self.problem.losses(t), self.strength * memory)

    def watch(self, memory: Array, action: Array, t: Array) -> Array:  # noqa: ARG002
        """Return the share of agents that played each arm."""
        import jax.numpy as jnp

        return (action == jnp.arange(self.arms)[:, None]).sum(axis=1) / self.agents


def crowded(problem: Problem, *, strength: float = 1.0) -> Crowded:
    """Make an arm cost more, the more agents played it in the last round.

    ℓ_t^v(i) = ℓ + (1 - ℓ) · strength · share, ℓ being the loss of the problem inside and `share`
    that of the agents who played arm i in round t - 1. See `fb.problems.Adaptive` for the
    definition of regret.

    Args:
        problem: the losses as they would be in an empty place; made by JAX.
        strength: of the congestion, in [0, 1].

    Example:
        >>> import fedbandits as fb
        >>> coins = fb.problems.bernoulli([0.0, 0.0], horizon=20, agents=4)
        >>> problem = crowded(coins)
        >>> problem.watch(problem.memory(), np.array([1, 0, 1, 1]), 1).tolist()
        [0.25, 0.75]
    """
    inside = check_inside(problem, "crowded")
    return Crowded(*inside, float(checks.unit_interval(strength, "strength")))
