"""An adversary that raises the loss of the arm that most agents played in the last round."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from fedbandits.arrays import Array
from fedbandits.common import checks

from .adaptive import Watching, check_inside, raised
from .base import Problem


@dataclass(frozen=True, eq=False, repr=False)
class HitFavourite(Watching):
    """The arm played most in the last round costs more, for everyone."""

    strength: float

    def memory(self) -> Array:
        """Return the favourite of the last round; -1 before round 1."""
        return np.int32(-1)

    def losses_given(self, t: Array, memory: Array) -> Array:
        """Return ℓ + (1 - ℓ) · strength for the favourite, ℓ for the others: `[N, K]`."""
        import jax.numpy as jnp

        hit = jnp.arange(self.arms) == memory
        return raised(self.problem.losses(t), self.strength * hit)

    def watch(self, memory: Array, action: Array, t: Array) -> Array:  # noqa: ARG002
        """Return the arm that most agents played, of equals the first."""
        import jax.numpy as jnp

        counts = (action == jnp.arange(self.arms)[:, None]).sum(axis=1)
        return counts.argmax().astype("int32")


def hit_favourite(problem: Problem, *, strength: float = 1.0) -> HitFavourite:
    """Make the arm that most agents played in the last round cost more for all agents.

    ℓ_t^v(i) = ℓ + (1 - ℓ) · strength for the favourite i of round t - 1, of equals the first, and
    ℓ for the others, ℓ being the loss of the problem inside. With strength 1 the favourite costs 1.
    In round 1 no arm is hit. See `fb.problems.Adaptive` for the definition of regret.

    Args:
        problem: the losses of an oblivious adversary, made by JAX.
        strength: of the hit, in [0, 1].

    Example:
        >>> import fedbandits as fb
        >>> coins = fb.problems.bernoulli([0.0, 0.0, 0.0], horizon=20, agents=2)
        >>> problem = hit_favourite(coins)
        >>> problem.losses_given(2, 1).tolist()
        [[0.0, 1.0, 0.0], [0.0, 1.0, 0.0]]
    """
    inside = check_inside(problem, "hit_favourite")
    return HitFavourite(*inside, float(checks.unit_interval(strength, "strength")))
