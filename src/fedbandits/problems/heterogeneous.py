"""Agents that disagree: each has its own good arms, and one arm is best on average."""

from __future__ import annotations

from typing import Any

import numpy as np

from fedbandits.common import checks

from .base import check_sizes
from .coins import Bernoulli, bernoulli


def heterogeneous(
    agents: int,
    arms: int,
    horizon: int,
    *,
    gap: float = 0.1,
    spread: float = 0.4,
    seed: int = 0,
) -> Bernoulli:
    """Make Bernoulli losses with different means for each agent; on average one arm is best.

    The means of an arm are 1/2 + d_v, with d_v drawn uniformly, centred over the agents and scaled
    to at most `spread`; the means of one arm, drawn by the seed, are lower by `gap`. Averaged over
    agents it loses 1/2 - gap and every other arm 1/2.

    Args:
        agents: N, at least 2.
        arms: K.
        horizon: T.
        gap: between the best arm and the others, averaged over agents.
        spread: the largest distance of an agent's mean from the average; spread + gap <= 1/2.
        seed: of the means and of the losses.

    Example:
        >>> problem = heterogeneous(agents=36, arms=20, horizon=3000)
        >>> sorted(f"{mean:.3f}" for mean in problem.means.mean(axis=0))[:2]
        ['0.400', '0.500']
    """
    agents, arms, horizon = check_sizes(agents, arms, horizon)
    checks.whole(agents, "agents", least=2)
    for name, value in (("gap", gap), ("spread", spread)):
        checks.unit_interval(value, name)
    if spread + gap > 0.5:
        raise ValueError(f"spread + gap must be at most 1/2, not {spread} + {gap}")
    rng = np.random.default_rng(checks.seed32(seed))
    means = 0.5 + apart(rng, agents, arms, spread)
    means[:, rng.integers(arms)] -= gap
    return bernoulli(means.clip(0, 1), horizon, seed=seed)  # rounding may end below 0


def apart(
    rng: np.random.Generator, agents: int, arms: int, spread: float
) -> np.ndarray[Any, np.dtype[np.float64]]:
    """Return d_v, uniform, centred over the agents and scaled to at most `spread`: `[N, K]`."""
    drawn = rng.uniform(-1, 1, (agents, arms))
    drawn -= drawn.mean(axis=0)
    scaled: np.ndarray[Any, np.dtype[np.float64]] = spread * drawn / np.abs(drawn).max()
    return scaled


def disagreement(
    rng: np.random.Generator, agents: int, arms: int, spread: float, means: tuple[float, ...]
) -> np.ndarray[Any, np.dtype[np.float32]]:
    """Return what agents add to common means, `[N, K]`; `[1, 1]` if they add nothing.

    Args:
        rng: draws it.
        agents: N.
        arms: K.
        spread: the largest distance of an agent's mean from the average.
        means: the averages, all of which must stay in [0, 1].
    """
    checks.unit_interval(spread, "spread")
    if spread == 0:
        return np.zeros((1, 1), np.float32)
    checks.whole(agents, "agents", least=2)
    low, high = min(means) - spread, max(means) + spread
    if low < 0 or high > 1:
        raise ValueError(
            f"spread is {spread}, so that means lie between {low:.3g} and {high:.3g}; losses must "
            "be in [0, 1]"
        )
    return apart(rng, agents, arms, spread).astype(np.float32)
