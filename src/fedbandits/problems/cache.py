"""A cache that warms: an arm gets cheaper for an agent that stays with it."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from fedbandits.arrays import Array
from fedbandits.common import checks

from .adaptive import Watching, check_inside
from .base import Problem


@dataclass(frozen=True, eq=False, repr=False)
class WarmingCache(Watching):
    """An arm that an agent plays again and again gets cheaper for it, until it plays another."""

    saving: float
    warming: float

    def memory(self) -> Array:
        """Return the warmth of each arm for each agent, in [0, 1], `[N, K]`: all cold."""
        return np.zeros((self.agents, self.arms))

    def losses_given(self, t: Array, memory: Array) -> Array:
        """Return ℓ · (1 - saving · warmth), `[N, K]`."""
        return self.problem.losses(t) * (1 - self.saving * memory)

    def watch(self, memory: Array, action: Array, t: Array) -> Array:  # noqa: ARG002
        """Warm the arm played, and cool all others."""
        import jax.numpy as jnp

        here = action[:, None] == jnp.arange(self.arms)
        return jnp.where(here, memory + self.warming * (1 - memory), 0.0)


def warming_cache(problem: Problem, *, saving: float = 0.5, warming: float = 0.1) -> WarmingCache:
    """Make an arm cheaper for an agent that stays with it, until it switches.

    ℓ_t^v(i) = ℓ · (1 - saving · warmth), ℓ being the loss of the problem inside. After s rounds in
    a row in which the agent played arm i its warmth is 1 - (1 - warming)^s; of all other arms it
    is 0. See `fb.problems.Adaptive` for the definition of regret.

    Args:
        problem: the losses as they would be if all were cold; made by JAX.
        saving: the share of a loss that a warm cache saves, in [0, 1].
        warming: the share of what lacks to warm that one round adds, in [0, 1].

    Example:
        >>> import fedbandits as fb
        >>> coins = fb.problems.bernoulli([1.0, 1.0], horizon=20, agents=1)
        >>> problem = warming_cache(coins, saving=1.0, warming=0.5)
        >>> memory = problem.watch(problem.memory(), np.array([1]), 1)
        >>> problem.losses_given(2, memory).tolist()
        [[1.0, 0.5]]
    """
    inside = check_inside(problem, "warming_cache")
    saving, warming = (
        float(checks.unit_interval(share, name))
        for name, share in (("saving", saving), ("warming", warming))
    )
    return WarmingCache(*inside, saving, warming)
