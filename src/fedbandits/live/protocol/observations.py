"""Observed losses and rewards: their range, and the errors of invalid observations."""

from __future__ import annotations

import numbers
from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

from fedbandits.common import checks

from .messages import Vector


class ObservationError(ValueError):
    """An invalid observation, which is not counted."""


class UnknownTicketError(ObservationError):
    """An observation for a ticket that does not exist or was closed long ago."""


class ExpiredTicketError(ObservationError):
    """An observation after the ticket expired."""


class ConflictingObservationError(ObservationError):
    """A second, different observation for the same ticket."""


class LossRange(NamedTuple):
    """The range of losses or rewards, as in `fb.problems.scaled`."""

    low: float = 0.0
    high: float = 1.0

    def scaled(self, value: Any, *, reward: bool = False) -> Any:
        """Return one or several observations as losses in [0, 1].

        Raises:
            ObservationError: for values that are not numbers in the range.

        Example:
            >>> LossRange(1, 5).scaled(4, reward=True), LossRange(1, 5).scaled({"tea": 2})
            (0.25, {'tea': 0.25})
        """
        if isinstance(value, Mapping):
            return {arm: self.scaled(one, reward=reward) for arm, one in value.items()}
        if np.ndim(value) == 1:
            return [self.scaled(one, reward=reward) for one in value]
        what = "reward" if reward else "loss"
        if isinstance(value, bool) or not isinstance(value, numbers.Real):
            raise ObservationError(f"a {what} must be a number, not {value!r}")
        number = float(value)
        if not self.low <= number <= self.high:  # also rejects NaN
            hint = "; give the agent low= and high= (low and high in agent.toml) that hold all"
            raise ObservationError(
                f"a {what} must be in [{self.low:g}, {self.high:g}], not {number!r}"
                f"{'' if np.isnan(number) else hint}"
            )
        fraction = (number - self.low) / (self.high - self.low)
        return 1.0 - fraction if reward else fraction


def loss_range(low: float, high: float) -> LossRange:
    """Return a range; reject bounds that are not finite numbers with low < high."""
    bounds = LossRange(checks.number(low, "low"), checks.number(high, "high"))
    if not (np.isfinite(bounds).all() and bounds.low < bounds.high):
        raise ValueError(f"low and high must be finite, low < high, not {low} and {high}")
    return bounds


def losses_of_all(losses: Any, arms: tuple[str, ...], absent: tuple[int, ...]) -> Vector:
    """Return the losses of all present arms, by name or in order; 0 for the absent ones.

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
    present = [i for i in range(len(arms)) if i not in absent]
    if missing := [arms[i] for i in present if arms[i] not in losses]:
        raise ObservationError(f"no loss of {', '.join(missing)}")
    vector = np.zeros(len(arms))
    vector[present] = [losses[arms[i]] for i in present]
    return vector
