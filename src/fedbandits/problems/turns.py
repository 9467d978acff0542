"""A few arms that are best in turn."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from fedbandits.arrays import Array
from fedbandits.common import checks

from .base import check_sizes
from .coins import Coins
from .heterogeneous import disagreement


@dataclass(frozen=True, eq=False, repr=False)
class TakingTurns(Coins):
    """Coins with a few arms that are best in turn, for a fixed number of rounds each."""

    order: Array
    """The arms that take turns, `[C]`."""
    period: Array
    """Rounds of a turn."""
    best: Array
    other: Array
    apart: Array
    """The offset of each agent's means, `[N, K]`; `[1, 1]` if agents see the same."""
    seed: Array

    def losses(self, t: Array) -> Array:
        """Return Bernoulli losses with mean `best` for the arm in turn, else `other`: `[N, K]`."""
        import jax.numpy as jnp

        turn = (t - 1) // self.period % len(self.order)
        now = jnp.arange(self.arms) == jnp.asarray(self.order)[turn]
        return self.coins(t, jnp.where(now, self.best, self.other) + self.apart)


def taking_turns(
    agents: int,
    arms: int,
    horizon: int,
    *,
    period: int | None = None,
    contestants: int = 2,
    best: float = 0.25,
    other: float = 0.5,
    spread: float = 0.0,
    seed: int = 0,
) -> TakingTurns:
    """Change the best arm every `period` rounds among a few arms, in turn.

    Losses are Bernoulli, on average over agents of mean `best` for the arm whose turn it is and
    `other` for the rest. (`switching` has all arms take turns, in equal parts of the horizon.)

    Args:
        agents: N.
        arms: K.
        horizon: T.
        period: rounds of a turn, at most T; a tenth of T by default.
        contestants: how many arms take turns, from 2 to K.
        best: the mean of the arm whose turn it is.
        other: that of all others.
        spread: the largest distance of an agent's mean from the average, as in `heterogeneous`.
        seed: of the arms, the disagreement and the losses.

    Example:
        >>> problem = taking_turns(agents=3, arms=5, horizon=100, period=10, contestants=3)
        >>> len(problem.order)
        3
    """
    agents, arms, horizon = check_sizes(agents, arms, horizon)
    period = max(1, horizon // 10) if period is None else period
    period = checks.whole(period, "period", least=1, most=horizon)
    contestants = checks.whole(contestants, "contestants", least=2, most=arms)
    for name, mean in (("best", best), ("other", other)):
        checks.unit_interval(mean, name)
    rng = np.random.default_rng(checks.seed32(seed))
    order = rng.permutation(arms)[:contestants].astype(np.int32)
    apart = disagreement(rng, agents, arms, spread, (best, other))
    return TakingTurns(
        agents,
        arms,
        horizon,
        order,
        np.int32(period),
        np.float32(best),
        np.float32(other),
        apart,
        np.uint32(seed),
    )
