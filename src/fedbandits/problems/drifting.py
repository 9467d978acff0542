"""Means that drift: the best arm changes without an abrupt change."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from fedbandits.arrays import Array
from fedbandits.common import checks

from .base import check_sizes
from .coins import Coins
from .heterogeneous import disagreement


@dataclass(frozen=True, eq=False, repr=False)
class Drifting(Coins):
    """Coins whose means go up and down, with a phase for each arm."""

    phases: Array
    """When each arm is the best, as a part of a cycle, `[K]`."""
    cycles: Array
    """In the whole horizon."""
    swing: Array
    apart: Array
    """The offset of each agent's means, `[N, K]`; `[1, 1]` if agents see the same."""
    seed: Array

    def losses(self, t: Array) -> Array:
        """Return Bernoulli(1/2 - swing cos(2π(cycles (t-1)/T - phases[i])) + apart[v, i])."""
        import jax.numpy as jnp

        where = self.cycles * ((t - 1) / self.horizon) - self.phases
        return self.coins(t, 0.5 - self.swing * jnp.cos(2 * jnp.pi * where) + self.apart)


def drifting(
    agents: int,
    arms: int,
    horizon: int,
    *,
    cycles: float = 1.0,
    swing: float = 0.25,
    spread: float = 0.0,
    seed: int = 0,
) -> Drifting:
    """Move every mean slowly up and down around 1/2, so that each arm is best at its time.

    Losses are Bernoulli, on average over agents of mean 1/2 - swing · cos(2π(cycles (t - 1)/T -
    i/K)) for the arm at place i of an order that the seed draws.

    Args:
        agents: N.
        arms: K.
        horizon: T.
        cycles: number of times that each arm is best in the horizon; 1/K is about one change.
        swing: the largest distance of a mean from 1/2, at most 1/2.
        spread: the largest distance of an agent's mean from the average, as in `heterogeneous`.
        seed: of the order, the disagreement and the losses.

    Example:
        >>> problem = drifting(agents=3, arms=4, horizon=100)
        >>> sorted(problem.phases.tolist())
        [0.0, 0.25, 0.5, 0.75]
    """
    agents, arms, horizon = check_sizes(agents, arms, horizon)
    cycles = checks.nonnegative(cycles, "cycles")
    checks.unit_interval(swing, "swing")
    if swing > 0.5:
        raise ValueError(f"swing must be at most 1/2, not {swing}: means go up and down around 1/2")
    rng = np.random.default_rng(checks.seed32(seed))
    phases = (rng.permutation(arms) / arms).astype(np.float32)
    apart = disagreement(rng, agents, arms, spread, (0.5 - swing, 0.5 + swing))
    return Drifting(
        agents,
        arms,
        horizon,
        phases,
        np.float32(cycles),
        np.float32(swing),
        apart,
        np.uint32(seed),
    )
