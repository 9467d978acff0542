"""Losses and rewards as they are observed, and what can be wrong with them."""

from __future__ import annotations

import numbers
from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

from fedbandits.common import checks

from .messages import Vector


class ObservationError(ValueError):
    """An observation that is not counted; says why."""


class UnknownTicketError(ObservationError):
    """No such ticket was given out, or it was closed long ago."""


class ExpiredTicketError(ObservationError):
    """The loss came after the ticket's time."""


class ConflictingObservationError(ObservationError):
    """Another loss was observed for the same ticket before."""


class Range(NamedTuple):
    """The values that losses or rewards can have, as `fb.problems.scaled` takes them."""

    low: float = 0.0
    high: float = 1.0

    def loss(self, value: Any, *, reward: bool = False) -> Any:
        """A value, or several, as losses in [0, 1]; one minus that for rewards.

        Example:
            >>> Range(1, 5).loss(4, reward=True), Range(1, 5).loss({"tea": 2})
            (0.25, {'tea': 0.25})
        """
        if isinstance(value, Mapping):
            return {arm: self.loss(one, reward=reward) for arm, one in value.items()}
        if np.ndim(value) == 1:
            return [self.loss(one, reward=reward) for one in value]
        what = "reward" if reward else "loss"
        if isinstance(value, bool) or not isinstance(value, numbers.Real):
            raise ObservationError(f"a {what} must be a number, not {value!r}")
        found = float(value)
        if not self.low <= found <= self.high:  # nor NaN
            others = (
                ""
                if np.isnan(found)
                else "; give the agent low= and high= (low and high in agent.toml) that hold all"
            )
            raise ObservationError(
                f"a {what} must be in [{self.low:g}, {self.high:g}], not {found!r}{others}"
            )
        fraction = (found - self.low) / (self.high - self.low)
        return 1.0 - fraction if reward else fraction


def checked_range(low: float, high: float) -> Range:
    """A range with low < high."""
    found = Range(checks.number(low, "low"), checks.number(high, "high"))
    if not (np.isfinite(found).all() and found.low < found.high):
        raise ValueError(f"low and high must be finite, low < high, not {low} and {high}")
    return found


def checked_loss(value: Any, arm: str) -> float:
    """A loss in [0, 1]."""
    if isinstance(value, bool) or not isinstance(value, numbers.Real):
        raise ObservationError(f"the loss of {arm!r} must be a number in [0, 1], not {value!r}")
    found = float(value)
    if not 0 <= found <= 1:  # nor NaN
        raise ObservationError(f"the loss of {arm!r} must be in [0, 1], not {found!r}")
    return found


def losses_of_all(losses: Any, arms: tuple[str, ...], absent: tuple[int, ...]) -> Vector:
    """The losses of all arms that were there, by name or in order; 0 for those that were not.

    Example:
        >>> losses_of_all({"tea": 0.5, "cocoa": 1}, ("tea", "coffee", "cocoa"), absent=(1,))
        array([0.5, 0. , 1. ])
    """
    if not isinstance(losses, Mapping):
        if np.ndim(losses) != 1 or len(losses) != len(arms):
            raise ObservationError(
                f"this algorithm learns from the losses of all arms: give {len(arms)} of them, or "
                f"a mapping from arms to losses, not {losses!r}"
            )
        losses = dict(zip(arms, losses, strict=True))
    there = [i for i in range(len(arms)) if i not in absent]
    if missing := [arms[i] for i in there if arms[i] not in losses]:
        raise ObservationError(f"no loss of {', '.join(missing)}")
    found = np.zeros(len(arms))
    for i in there:
        found[i] = checked_loss(losses[arms[i]], arms[i])
    return found
