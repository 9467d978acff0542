"""Lies that an agent can tell its neighbours: what it sends instead of what it should."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from fedbandits.arrays import Array
from fedbandits.common import checks


class Attack(Protocol):
    """A lie: a frozen dataclass, so that JAX can trace its numbers."""

    def lie(self, x: Array, t: Array) -> Array:
        """What is sent in round t of a leaf whose true value is x, `[M, R]`."""


@dataclass(frozen=True)
class Replaced:
    """The same number for one arm in every round, the truth for the others.

    Attributes:
        arm: counted from 0.
        value: very low makes others play the arm, very high keeps them from it.
    """

    arm: int
    value: float

    def lie(self, x: Array, t: Array) -> Array:  # noqa: ARG002
        """X with one entry replaced."""
        xp = x.__array_namespace__()
        here = xp.arange(x.shape[0])[:, None] == self.arm
        return xp.where(here, xp.asarray(self.value, dtype=x.dtype), x)


@dataclass(frozen=True)
class Swapped:
    """The arms in reverse order: what was best is told to be worst."""

    def lie(self, x: Array, t: Array) -> Array:  # noqa: ARG002
        """X from its last arm to its first."""
        return x.__array_namespace__().flip(x, axis=0)


def replace(arm: int, value: float) -> Replaced:
    """Tell `value` of one arm, and the truth of the others."""
    return Replaced(checks.whole(arm, "arm", least=0), float(checks.number(value, "value")))


def swap() -> Swapped:
    """Tell of the last arm what is true of the first, and so on."""
    return Swapped()
