"""Losses that change at once: at random times, or when a better arm arrives."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from fedbandits.arrays import Array
from fedbandits.common import checks

from .base import check_sizes
from .coins import Coins
from .heterogeneous import disagreement


@dataclass(frozen=True, eq=False, repr=False)
class Stretches(Coins):
    """Coins whose means stay the same over stretches of rounds."""

    starts: Array
    """The first round of each stretch, ascending, `[S]`; that of the first is 1."""
    means: Array
    """Averaged over agents, `[S, K]`."""
    apart: Array
    """The offset of each agent's means, `[N, K]`; `[1, 1]` if agents see the same."""
    seed: Array

    def losses(self, t: Array) -> Array:
        """Return ℓ_t^v(i) ~ Bernoulli(means[s, i] + apart[v, i]), s the stretch of t: `[N, K]`."""
        import jax.numpy as jnp

        # Counted, since on an accelerator a search is a separate loop.
        stretch = (t >= jnp.asarray(self.starts)).sum() - 1
        return self.coins(t, jnp.asarray(self.means)[stretch] + self.apart)


def switching_at_random(
    agents: int,
    arms: int,
    horizon: int,
    *,
    changes: int = 3,
    best: float = 0.25,
    other: float = 0.5,
    spread: float = 0.0,
    seed: int = 0,
) -> Stretches:
    """Change the best arm at rounds drawn by the seed, each time to another arm.

    Losses are Bernoulli, on average over agents of mean `best` for the best arm and `other` for
    the rest.

    Args:
        agents: N.
        arms: K.
        horizon: T.
        changes: number of changes, at most T - 1.
        best: the mean of the best arm.
        other: that of all others.
        spread: the largest distance of an agent's mean from the average, as in `heterogeneous`.
        seed: of the times, the arms, the disagreement and the losses.

    Example:
        >>> problem = switching_at_random(agents=3, arms=5, horizon=100, changes=4)
        >>> len(problem.starts), int(problem.starts[0])
        (5, 1)
    """
    agents, arms, horizon = check_sizes(agents, arms, horizon)
    changes = checks.whole(changes, "changes", least=0, most=horizon - 1)
    checks.fits(4 * (changes + 1) * (arms + 1), f"the means of {changes + 1:,} stretches")
    for name, mean in (("best", best), ("other", other)):
        checks.unit_interval(mean, name)
    rng = np.random.default_rng(checks.seed32(seed))
    later = 2 + np.sort(rng.choice(horizon - 1, changes, replace=False))
    # To another arm each time: on by 1 to K - 1 places.
    steps = rng.integers(1, arms, changes + 1)
    order = steps.cumsum() % arms
    means = np.full((changes + 1, arms), other, np.float32)
    means[np.arange(changes + 1), order] = best
    apart = disagreement(rng, agents, arms, spread, (best, other))
    starts = np.array([1, *later], np.int32)
    return Stretches(agents, arms, horizon, starts, means, apart, np.uint32(seed))


def newcomer(
    agents: int,
    arms: int,
    horizon: int,
    *,
    arrives: int | None = None,
    best: float = 0.3,
    better: float = 0.1,
    other: float = 0.5,
    spread: float = 0.0,
    seed: int = 0,
) -> Stretches:
    """Keep one arm the best until another, so far like all the rest, becomes better.

    Nothing gets worse: agents that play the best arm detect the newcomer only by trying it.

    Args:
        agents: N.
        arms: K.
        horizon: T, at least 2.
        arrives: the round from which the newcomer is better; by default after two thirds of T.
        best: the mean of the best arm before, which it keeps.
        better: that of the newcomer from then on.
        other: that of the newcomer before, and of all others.
        spread: the largest distance of an agent's mean from the average, as in `heterogeneous`.
        seed: of the two arms, the disagreement and the losses.

    Example:
        >>> problem = newcomer(agents=3, arms=5, horizon=300)
        >>> problem.starts.tolist(), [f"{row.min():.1f}" for row in problem.means]
        ([1, 201], ['0.3', '0.1'])
    """
    agents, arms, horizon = check_sizes(agents, arms, horizon)
    checks.whole(horizon, "horizon", least=2)
    first = 1 + max(1, 2 * horizon // 3) if arrives is None else arrives
    first = checks.whole(first, "arrives", least=2, most=horizon)
    for name, mean in (("best", best), ("better", better), ("other", other)):
        checks.unit_interval(mean, name)
    rng = np.random.default_rng(checks.seed32(seed))
    old, new = rng.permutation(arms)[:2]
    means = np.full((2, arms), other, np.float32)
    means[:, old] = best
    means[1, new] = better
    apart = disagreement(rng, agents, arms, spread, (best, better, other))
    starts = np.array([1, first], np.int32)
    return Stretches(agents, arms, horizon, starts, means, apart, np.uint32(seed))
