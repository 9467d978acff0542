"""Checks of arguments, shared so that the same mistake gets the same words everywhere."""

from __future__ import annotations

import math
import numbers
import operator
from typing import Any

import numpy as np


def whole(value: Any, name: str, *, least: int) -> int:
    """`value` as an int of at least `least`.

    Example:
        >>> whole(1, "arms", least=2)
        Traceback (most recent call last):
            ...
        ValueError: arms must be a whole number of at least 2, not 1
    """
    try:
        if isinstance(value, bool):
            raise TypeError
        number = operator.index(value)
    except TypeError:
        raise TypeError(
            f"{name} must be a whole number of at least {least}, not {value!r}"
        ) from None
    if number < least:
        raise ValueError(f"{name} must be a whole number of at least {least}, not {number}")
    return number


def number(value: Any, name: str) -> float:
    """`value` as a float; refuses what is not a real number, NaN and booleans included."""
    if isinstance(value, bool | np.bool) or not isinstance(value, numbers.Real):
        raise TypeError(f"{name} must be a number, not {value!r}")
    if math.isnan(value):
        raise ValueError(f"{name} must be a number, not nan")
    return float(value)


def nonnegative(value: Any, name: str) -> float:
    """`value` as a finite float, 0 or more."""
    if isinstance(value, numbers.Real) and math.isnan(value):
        raise ValueError(f"{name} must be a finite number >= 0, not {value}")
    found = number(value, name)
    if not (math.isfinite(found) and found >= 0):
        raise ValueError(f"{name} must be a finite number >= 0, not {value}")
    return found


def seed32(value: Any, name: str = "seed") -> int:
    """A seed: a whole number from 0 to 2^32 - 1."""
    number = whole(value, name, least=0)
    if number >= 2**32:
        raise ValueError(f"{name} must be below 2**32, not {number}")
    return number


def unit_interval(values: Any, name: str, labels: tuple[str, ...] = ()) -> np.ndarray[Any, Any]:
    """`values` as a float array, every one in [0, 1]; names the first that is not."""
    array = np.asarray(values, np.float64)
    bad = ~((array >= 0) & (array <= 1))  # NaN fails both
    if bad.any():
        place = tuple(int(i) for i in np.argwhere(bad)[0])
        labelled = ", ".join(
            f"{labels[i] if i < len(labels) else f'axis {i}'} {index}"
            for i, index in enumerate(place)
        )
        where = f" at {labelled}" if place else ""
        raise ValueError(f"{name} must be in [0, 1], but{where} it is {array[place]}")
    return array
