"""How the parameters of an algorithm are searched: an algorithm declares one of these for each."""

from __future__ import annotations

import math
import numbers
from dataclasses import dataclass
from typing import Any

from fedbandits.schedules import Constant, Power


@dataclass(frozen=True)
class Tunable:
    """A number above 0, looked for evenly in the logarithm.

    Attributes:
        low: where the search begins.
        high: where it ends.
        weight: so many times as many values as of a parameter of weight 1, about.
    """

    low: float
    high: float
    weight: float = 1.0

    def range(self, current: Any) -> tuple[float, float] | None:  # noqa: ARG002
        """From where to where, given the value that `set_up` left; None where nobody knows."""
        return self.low, self.high

    def limits(self, current: Any, horizon: int) -> tuple[float, float]:  # noqa: ARG002
        """Beyond these there is nothing to try."""
        return 0.0, math.inf

    def rounded(self, number: float) -> float:
        """What is tried instead of a number near to it."""
        return short(number)

    def value(self, number: float, current: Any) -> Any:  # noqa: ARG002
        """The number as the field takes it, whose value is `current` now."""
        return number


def short(number: float) -> float:
    """Three digits: what is found will be written and read.

    Example:
        >>> short(0.0123456)
        0.0123
    """
    return float(f"{number:.3g}")


class Rate(Tunable):
    """A rate, which is searched among those that never change."""

    def value(self, number: float, current: Any) -> Any:
        """A constant; a plain number where the field has one."""
        return number if isinstance(current, numbers.Real) else Constant(number)


class Exploration(Tunable):
    """A probability c · t^(-a): c is searched, a is the field's own, else 1/3."""

    def limits(self, current: Any, horizon: int) -> tuple[float, float]:
        """A plain number is at most 1."""
        plain = isinstance(current, numbers.Real)
        return (0.0, 1.0) if plain else super().limits(current, horizon)

    def value(self, number: float, current: Any) -> Any:
        """A power of t; a plain number where the field has one."""
        if isinstance(current, numbers.Real):
            return number
        return Power(number, current.a if isinstance(current, Power) else 1 / 3)


class Rounds(Tunable):
    """A number of rounds; `low` and `high` are multiples of what `set_up` chose."""

    def range(self, current: Any) -> tuple[float, float] | None:
        """Around the field's own; None where it has none."""
        return None if current is None else (self.low * current, self.high * current)

    def limits(self, current: Any, horizon: int) -> tuple[float, float]:  # noqa: ARG002
        """From one round to T."""
        return 1.0, float(horizon)

    def rounded(self, number: float) -> float:
        """A whole number."""
        return float(round(number))

    def value(self, number: float, current: Any) -> float:  # noqa: ARG002
        """A whole number."""
        return int(number)


class Memory(Rounds):
    """A number of rounds to remember, around that which is set."""

    def value(self, number: float, current: Any) -> float:  # noqa: ARG002
        """A number like the field's own, so that all that are tried share a program."""
        return number


class Share(Tunable):
    """A part, above 0 and below 1."""

    def limits(self, current: Any, horizon: int) -> tuple[float, float]:  # noqa: ARG002
        """The whole is no part."""
        return 0.0, 0.99


LEARNING_RATE = Rate(0.003, 3.0, weight=2.0)
EXPLORATION = Exploration(0.001, 0.3)
BLOCK = Rounds(1 / 8, 8.0)
MEMORY = Memory(1 / 8, 8.0)
SHARE = Share(1e-10, 1e-3)
