"""Learning and exploration rates: η_t and γ_t of the paper, as functions of the round and state.

A rate is called as `rate(t, state)` with the round t = 1, 2, ... and the algorithm's state, which
offers `state.z` (`[K, ...]`) and `state.agents` (N). Parameters are traced, so a sweep over them is
one compiled program.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

from .arrays import Array


class RateState(Protocol):
    """What a rate may read of an algorithm's state."""

    @property
    def z(self) -> Array:
        """Cumulative loss estimates, `[K, ...]`."""

    @property
    def agents(self) -> Array:
        """The number of agents in the network, N."""


@runtime_checkable
class Schedule(Protocol):
    """A rate over time."""

    def __call__(self, t: Array, state: RateState) -> Array:
        """The rate of round t: a scalar, or `[...]` for one rate per agent."""


@dataclass(frozen=True)
class Constant:
    """The same rate in every round."""

    value: float

    def __call__(self, t: Array, state: RateState) -> Array:  # noqa: ARG002
        """η_t = value."""
        return self.value


@dataclass(frozen=True)
class Power:
    """A rate that decays as a power of the round."""

    c: float
    a: float

    def __call__(self, t: Array, state: RateState) -> Array:  # noqa: ARG002
        """γ_t = c · t^(-a)."""
        return self.c * t ** (-self.a)


@dataclass(frozen=True)
class Anytime:
    """A learning rate that needs no horizon."""

    c: float

    def __call__(self, t: Array, state: RateState) -> Array:
        """η_t = c · sqrt(ln K / ((K/N + 1) t))."""
        arms = state.z.shape[0]
        return self.c * (math.log(arms) / ((arms / state.agents + 1.0) * t)) ** 0.5


def constant(value: float) -> Constant:
    """The rate `value` in every round.

    Example:
        >>> constant(0.1)
        Constant(value=0.1)
    """
    return Constant(_nonnegative(value, "constant(value)"))


def power(c: float, a: float) -> Power:
    """The rate c · t^(-a); `power(0.01, 1/3)` is the exploration behind the paper's figures.

    Example:
        >>> power(0.01, 1 / 3)(8, None)
        0.005
    """
    return Power(_nonnegative(c, "power(c, ...)"), _nonnegative(a, "power(..., a)"))


def anytime(c: float = 1.0) -> Anytime:
    """The learning rate c · sqrt(ln K / ((K/N + 1) t)): no horizon is needed.

    Example:
        >>> anytime(0.5)
        Anytime(c=0.5)
    """
    return Anytime(_nonnegative(c, "anytime(c)"))


def as_schedule(rate: float | Schedule, name: str) -> Schedule:
    """A number stands for a constant rate; a schedule for itself.

    Example:
        >>> as_schedule(0.1, "learning_rate")
        Constant(value=0.1)
        >>> as_schedule(-1, "learning_rate")
        Traceback (most recent call last):
            ...
        ValueError: learning_rate must be a finite number >= 0, not -1
    """
    if isinstance(rate, int | float):
        return Constant(_nonnegative(rate, name))
    if isinstance(rate, Schedule):
        return rate
    raise TypeError(
        f"{name} must be a number or a schedule such as fb.schedules.power(0.01, 1 / 3), "
        f"not {rate!r}"
    )


def _nonnegative(value: float, name: str) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise TypeError(f"{name} must be a number, not {value!r}")
    if not (math.isfinite(value) and value >= 0):
        raise ValueError(f"{name} must be a finite number >= 0, not {value}")
    return float(value)


REGISTRY: dict[str, Callable[..., Schedule]] = {
    "constant": constant,
    "power": power,
    "anytime": anytime,
}
