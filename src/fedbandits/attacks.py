"""Lies that an agent can tell its neighbours: what it sends instead of what it should.

A lie is told in every leaf of a message, whatever it is combined by. It is told of losses: where a
leaf says that high values speak for an arm, as rewards and counts do, the lie is of its negative.

`by` is large by default: the lie of a vandal. No named attack is the worst there is.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal, Protocol

from fedbandits.arrays import Array
from fedbandits.common import checks


class Attack(Protocol):
    """A lie: a frozen dataclass, so that JAX can trace its numbers."""

    def lie(self, x: Array, t: Array) -> Array:
        """What is sent in round t of a leaf whose true value is x, `[M, R]`, low being good."""


def lie_about(attack: Attack, attracts: Literal["low", "high"], x: Array, t: Array) -> Array:
    """Return the lie about a leaf of a message, in the direction that attracts others.

    Args:
        attack: the lie.
        attracts: which values of the leaf attract others.
        x: the true value, `[M, R]`.
        t: the round.
    """
    return attack.lie(x, t) if attracts == "low" else -attack.lie(-x, t)


@dataclass(frozen=True)
class Promote:
    """One arm is told to be better than it is, by the same amount in every round.

    Attributes:
        arm: counted from 0.
        by: how much lower its value is told.
    """

    arm: int
    by: float

    def lie(self, x: Array, t: Array) -> Array:  # noqa: ARG002
        """X with one entry lowered."""
        return _raised(x, self.arm, -self.by)


@dataclass(frozen=True)
class Defame:
    """One arm is told to be worse than it is, by the same amount in every round.

    Attributes:
        arm: counted from 0.
        by: how much higher its value is told.
    """

    arm: int
    by: float

    def lie(self, x: Array, t: Array) -> Array:  # noqa: ARG002
        """X with one entry raised."""
        return _raised(x, self.arm, self.by)


@dataclass(frozen=True)
class Swap:
    """The arms in reverse order: the truth of an agent whose losses are."""

    def lie(self, x: Array, t: Array) -> Array:  # noqa: ARG002
        """X from its last arm to its first."""
        return x.__array_namespace__().flip(x, axis=0)


def _raised(x: Array, arm: int, by: float) -> Array:
    xp = x.__array_namespace__()
    here = xp.arange(x.shape[0])[:, None] == arm
    return xp.where(here, x + xp.asarray(by, dtype=x.dtype), x)


@checks.explained
def promote(arm: int, by: float = 1e6) -> Promote:
    """Tell that one arm is better than it is, so that others play it.

    Args:
        arm: counted from 0. The worst one of a problem is
            `problem.block(1, problem.horizon).mean(axis=(0, 1)).argmax()`.
        by: how much lower its value is told.

    Example:
        >>> import numpy as np
        >>> promote(arm=1, by=5.0).lie(np.array([[1.0], [2.0]]), np.int32(1)).tolist()
        [[1.0], [-3.0]]
    """
    return Promote(checks.whole(arm, "arm", least=0), _amount(by))


@checks.explained
def defame(arm: int, by: float = 1e6) -> Defame:
    """Tell that one arm is worse than it is, so that others keep from it.

    Args:
        arm: counted from 0.
        by: how much higher its value is told.

    Example:
        >>> import numpy as np
        >>> defame(arm=0).lie(np.array([[1.0], [2.0]]), np.int32(1)).tolist()
        [[1000001.0], [2.0]]
    """
    return Defame(checks.whole(arm, "arm", least=0), _amount(by))


@checks.explained
def swap() -> Swap:
    """Tell of the last arm what is true of the first, and so on.

    Nobody can tell such a liar from an agent whose losses are so.

    Example:
        >>> import numpy as np
        >>> swap().lie(np.array([[1.0], [2.0], [3.0]]), np.int32(1)).tolist()
        [[3.0], [2.0], [1.0]]
    """
    return Swap()


def _amount(by: Any) -> float:
    found = checks.number(by, "by")
    if not 0 < found < math.inf:
        raise ValueError(f"by must be a positive number, not {by}")
    return found


REGISTRY: dict[str, Callable[..., Attack]] = {
    make.__name__: make for make in (promote, defame, swap)
}
"""The attacks a configuration can name."""
