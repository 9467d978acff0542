"""Search ranges for the parameters of algorithms."""

from __future__ import annotations

import math
import numbers
from dataclasses import dataclass
from typing import Any

from fedbandits.schedules import Constant, Power


@dataclass(frozen=True)
class Tunable:
    """A positive number, searched evenly in its logarithm.

    Attributes:
        low: the smallest value.
        high: the largest value.
        weight: number of values relative to a parameter of weight 1, approximately.
    """

    low: float
    high: float
    weight: float = 1.0

    def range(self, current: Any) -> tuple[float, float] | None:  # noqa: ARG002
        """Return the search range for a field with this value after `set_up`, or None."""
        return self.low, self.high

    def limits(self, current: Any, horizon: int) -> tuple[float, float]:  # noqa: ARG002
        """Return the limits of valid values."""
        return 0.0, math.inf

    def rounded(self, number: float) -> float:
        """Return the candidate nearest to a number."""
        return short(number)

    def value(self, number: float, current: Any) -> Any:  # noqa: ARG002
        """Return the number in the form of the field, whose current value is `current`."""
        return number


def short(number: float) -> float:
    """Return a number with three digits, which people will read.

    Example:
        >>> short(0.0123456)
        0.0123
    """
    return float(f"{number:.3g}")


class TunableRate(Tunable):
    """A rate, searched among constants."""

    def value(self, number: float, current: Any) -> Any:
        """Return a constant rate, or a plain number if the field has one."""
        return number if isinstance(current, numbers.Real) else Constant(number)


class TunableExploration(Tunable):
    """A probability c · t^(-a): c is searched, and a is that of the field, else 1/3."""

    def limits(self, current: Any, horizon: int) -> tuple[float, float]:
        """Return [0, 1] for a plain number."""
        plain = isinstance(current, numbers.Real)
        return (0.0, 1.0) if plain else super().limits(current, horizon)

    def value(self, number: float, current: Any) -> Any:
        """Return a power of t, or a plain number if the field has one."""
        if isinstance(current, numbers.Real):
            return number
        return Power(number, current.a if isinstance(current, Power) else 1 / 3)


class TunableRounds(Tunable):
    """A number of rounds; `low` and `high` are multiples of the value that `set_up` chose."""

    def range(self, current: Any) -> tuple[float, float] | None:
        """Return the range around the current value; None if there is none."""
        return None if current is None else (self.low * current, self.high * current)

    def limits(self, current: Any, horizon: int) -> tuple[float, float]:  # noqa: ARG002
        """Return 1 and T."""
        return 1.0, float(horizon)

    def rounded(self, number: float) -> float:
        """Return a whole number."""
        return float(round(number))

    def value(self, number: float, current: Any) -> float:  # noqa: ARG002
        """Return a whole number."""
        return int(number)


class TunableMemory(TunableRounds):
    """A number of rounds to remember, searched around the given one."""

    def value(self, number: float, current: Any) -> float:  # noqa: ARG002
        """Return a number of the field's type, so that all candidates share a program."""
        return number


class TunableShare(Tunable):
    """A share in (0, 1)."""

    def limits(self, current: Any, horizon: int) -> tuple[float, float]:  # noqa: ARG002
        """Return 0 and 0.99."""
        return 0.0, 0.99


LEARNING_RATE = TunableRate(0.003, 3.0, weight=2.0)
EXPLORATION = TunableExploration(0.001, 0.3)
BLOCK = TunableRounds(1 / 8, 8.0)
MEMORY = TunableMemory(1 / 8, 8.0)
SHARE = TunableShare(1e-10, 1e-3)
