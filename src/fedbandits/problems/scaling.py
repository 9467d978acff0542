"""Rewards, and losses in another range."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from fedbandits.arrays import Array
from fedbandits.common import checks

from .base import Check, Inside, Problem, static


@dataclass(frozen=True, eq=False, repr=False)
class Scaled(Inside):
    """Another problem's values, mapped to losses in [0, 1]."""

    low: float
    high: float
    rewards: bool = field(metadata=static)

    @property
    def traced(self) -> bool:  # type: ignore[override]
        """That of the inner problem."""
        return self.problem.traced

    @property
    def constant(self) -> bool:  # type: ignore[override]
        """That of the inner problem."""
        return self.problem.constant

    @property
    def check(self) -> Check:
        """As the problem inside; what is never checked inside may leave [0, 1] when scaled."""
        return "before" if self.problem.check == "before" else "during"

    def _scale(self, values: Array) -> Array:
        xp = values.__array_namespace__()
        if not xp.isdtype(values.dtype, "real floating"):
            values = values.astype("float32")
        # The limits in the values' own precision: the float32 nearest to `high` must become 1.
        low, high = (xp.asarray(limit, dtype=values.dtype) for limit in (self.low, self.high))
        fraction = (values - low) / (high - low)
        return 1.0 - fraction if self.rewards else fraction

    def out_of_range(self, loss: float) -> str:
        """Return the end of the error, in the units of the inner problem."""
        fraction = 1 - loss if self.rewards else loss
        value = self.low + fraction * (self.high - self.low)
        return (
            f"{value:g} before scaling, not in [low, high] = [{self.low:g}, {self.high:g}]; give "
            "limits that hold all values"
        )

    def losses(self, t: Array) -> Array:
        """Return (value - low)/(high - low), or one minus that for rewards: `[N, K]`."""
        values = self.problem.losses(t)
        if self.traced:  # limits are traced then; a NumPy array could not be scaled by them
            import jax.numpy as jnp

            values = jnp.asarray(values)
        return self._scale(values)

    def block(self, first: int, last: int) -> np.ndarray[Any, Any]:
        """Return rounds `first` to `last`, `[C, N, K]`."""
        return np.asarray(self._scale(self.problem.block(first, last)))

    def describe(self) -> dict[str, Any]:
        """Return the description of the inner problem, and the range."""
        return {
            "name": "scaled",
            "problem": self.problem.describe(),
            "low": self.low,
            "high": self.high,
            "rewards": self.rewards,
        }


def scaled(problem: Problem, low: float, high: float, *, rewards: bool = False) -> Scaled:
    """Scale values in [low, high], or rewards, to losses in [0, 1].

    Regret is then in units of high - low. Values outside [low, high] are refused like losses
    outside [0, 1]. A table takes its range itself: `from_table(..., low=, high=)`.

    Args:
        problem: any problem, for example `from_tensor` of ratings.
        low: the smallest possible value.
        high: the largest possible value.
        rewards: whether larger is better.

    Example:
        >>> import fedbandits as fb
        >>> stars = fb.problems.from_tensor([[[5.0, 1.0]]])
        >>> fb.problems.scaled(stars, 1, 5, rewards=True).losses(1).tolist()
        [[0.0, 1.0]]
    """
    if not isinstance(problem, Problem):
        raise TypeError(f"scaled takes a problem such as from_tensor(...), not {problem!r}")
    if isinstance(problem, Scaled):  # twice would be a flip too many, or a range of a range
        raise ValueError(
            f"{problem.title} is scaled already, from [{problem.low:g}, {problem.high:g}] to "
            "losses in [0, 1]: give low and high once, a table's to from_table"
        )
    if problem.adaptive:
        raise ValueError(
            f"{problem.title} watches what agents play, and is not scaled: scale the problem inside"
        )
    for name, limit in (("low", low), ("high", high)):
        checks.number(limit, name)
    if not isinstance(rewards, bool):
        raise TypeError(f"rewards must be True or False, not {rewards!r}")
    if not (math.isfinite(low) and math.isfinite(high) and low < high):
        raise ValueError(f"scaled needs finite low < high, not low={low}, high={high}")
    return Scaled(
        problem.agents, problem.arms, problem.horizon, problem, float(low), float(high), rewards
    )
