"""Lies that an agent can send to its neighbours in place of its true message.

A lie changes every leaf of a message, however neighbours combine it. It is defined for losses. In a
leaf where high values attract other agents, such as rewards and counts, the negative values are
changed instead.

By default `by` is large: such a liar destroys. No attack here is claimed to be the worst.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal, Protocol

from fedbandits.arrays import Array
from fedbandits.common import checks

__all__ = ["defame", "promote", "swap"]


def __dir__() -> list[str]:
    return __all__


class Attack(Protocol):
    """A lie: a frozen dataclass, so that JAX can trace its numbers."""

    def lie(self, x: Array, t: Array) -> Array:
        """Return what is sent in round t for a leaf with the value x, `[M, R]`, low being good."""


def lie_about(attack: Attack, attracts: Literal["low", "high"], x: Array, t: Array) -> Array:
    """Return the lie about a leaf of a message, in the direction that attracts others.

    Args:
        attack: the lie.
        attracts: which values of the leaf attract others.
        x: the true value, `[M, R]`.
        t: the round.
    """
    return attack.lie(x, t) if attracts == "low" else -attack.lie(-x, t)


class _OneArm:
    """A lie about one arm, by the same amount in every round."""

    arm: int
    by: float

    def __post_init__(self) -> None:
        object.__setattr__(self, "arm", checks.whole(self.arm, "arm", least=0))
        object.__setattr__(self, "by", checks.within(self.by, "by", "(0, inf)"))

    def _raised(self, x: Array, by: float) -> Array:
        xp = x.__array_namespace__()
        here = xp.arange(x.shape[0])[:, None] == self.arm
        return xp.where(here, x + xp.asarray(by, dtype=x.dtype), x)


@dataclass(frozen=True)
class Promote(_OneArm):
    """Claim that one arm is better than it is, so that others play it.

    Args:
        arm: counted from 0. The worst arm of a problem is
            `problem.block(1, problem.horizon).mean(axis=(0, 1)).argmax()`.
        by: how much lower its value is sent.

    Example:
        >>> import numpy as np
        >>> promote(arm=1, by=5.0).lie(np.array([[1.0], [2.0]]), np.int32(1)).tolist()
        [[1.0], [-3.0]]
    """

    arm: int
    by: float = 1e6

    def lie(self, x: Array, t: Array) -> Array:  # noqa: ARG002
        """Return x with one entry lowered."""
        return self._raised(x, -self.by)


@dataclass(frozen=True)
class Defame(_OneArm):
    """Claim that one arm is worse than it is, so that others avoid it.

    Args:
        arm: counted from 0.
        by: how much higher its value is sent.

    Example:
        >>> import numpy as np
        >>> defame(arm=0).lie(np.array([[1.0], [2.0]]), np.int32(1)).tolist()
        [[1000001.0], [2.0]]
    """

    arm: int
    by: float = 1e6

    def lie(self, x: Array, t: Array) -> Array:  # noqa: ARG002
        """Return x with one entry raised."""
        return self._raised(x, self.by)


@dataclass(frozen=True)
class Swap:
    """Send the values of the arms in reverse order, the first arm's for the last.

    No neighbour can distinguish this liar from an agent with such losses.

    Example:
        >>> import numpy as np
        >>> swap().lie(np.array([[1.0], [2.0], [3.0]]), np.int32(1)).tolist()
        [[3.0], [2.0], [1.0]]
    """

    def lie(self, x: Array, t: Array) -> Array:  # noqa: ARG002
        """Return x from its last arm to its first."""
        return x.__array_namespace__().flip(x, axis=0)


# What users write. The class names are part of result files and checkpoints.
promote, defame, swap = Promote, Defame, Swap

REGISTRY: dict[str, Callable[..., Attack]] = {"promote": promote, "defame": defame, "swap": swap}
"""The attacks that a configuration can name."""
