"""Checks of arguments, shared so that one mistake has one error message."""

from __future__ import annotations

import difflib
import math
import numbers
import operator
import os
from collections.abc import Iterable
from functools import cache
from pathlib import Path
from reprlib import repr as shortened
from typing import Any

import numpy as np

INT32 = 2**31 - 1
"""The most agents, arms and other things that the engine counts in 32 bits."""

ROUNDS = INT32 - 1
"""The longest horizon: the round after the last is counted too."""


def frozen_dataclass(cls: type) -> None:
    """Reject a class that is not a frozen dataclass.

    Example:
        >>> frozen_dataclass(int)
        Traceback (most recent call last):
            ...
        TypeError: int must be a frozen dataclass; write @dataclass(frozen=True) above it
    """
    parameters: Any = getattr(cls, "__dataclass_params__", None)
    if parameters is None or not parameters.frozen:
        raise TypeError(
            f"{cls.__name__} must be a frozen dataclass; write @dataclass(frozen=True) above it"
        )


def did_you_mean(value: Any, names: Iterable[str]) -> str:
    """Return the name that was probably meant, as the end of a sentence.

    Example:
        >>> did_you_mean("Rws", ["rows", "cols"]), did_you_mean("xyz", ["rows", "cols"])
        ("; did you mean 'rows'?", '.')
    """
    lowered = {name.lower(): name for name in names}
    near = difflib.get_close_matches(str(value).lower(), lowered, n=1, cutoff=0.5)
    return f"; did you mean {lowered[near[0]]!r}?" if near else "."


def whole(value: Any, name: str, *, least: int, most: int | None = None) -> int:
    """Return `value` as an int from `least` to `most`.

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
    if most is not None and number > most:
        raise ValueError(f"{name} must be at most {most:,}, not {number:,}")
    return number


def fits(size: float, what: str) -> None:
    """Reject `size` bytes if this machine or container has less memory.

    Example:
        >>> fits(2.0**70, "agents=2 and arms=10**20")
        Traceback (most recent call last):
            ...
        ValueError: agents=2 and arms=10**20 would take 1.1e+12 GiB of memory at least, and this ...
    """
    if size > _memory():
        raise ValueError(
            f"{what} would take {size / 2**30:.3g} GiB of memory at least, and this machine has "
            f"{_memory() / 2**30:.3g}; choose fewer"
        )


@cache
def _memory() -> float:
    """Return the bytes of this machine or container; infinity if neither is known."""
    try:
        machine = float(os.sysconf("SC_PHYS_PAGES")) * os.sysconf("SC_PAGE_SIZE")
    except (AttributeError, ValueError, OSError):
        machine = math.inf
    return min(machine, container_memory(Path("/proc/self/cgroup"), Path("/sys/fs/cgroup")))


def container_memory(groups: Path, root: Path) -> float:
    """Return the bytes that the control groups (v2) of Linux allow this process.

    Args:
        groups: file that names the group of this process.
        root: folder of the groups. A limit of a group holds for all groups in it.
    """
    try:
        lines = groups.read_text(encoding="utf-8").splitlines()
    except OSError:
        return math.inf
    least = math.inf
    for name in (line.removeprefix("0::/") for line in lines if line.startswith("0::/")):
        for folder in (root / name, *(root / name).parents):
            try:
                limit = (folder / "memory.max").read_text(encoding="utf-8").strip()
            except OSError:
                continue
            least = min(least, math.inf if limit == "max" else float(limit))
    return least


def number(value: Any, name: str) -> float:
    """Return `value` as a float; reject everything but real numbers, also NaN and booleans."""
    if isinstance(value, bool | np.bool) or not isinstance(value, numbers.Real):
        raise TypeError(f"{name} must be a number, not {value!r}")
    try:
        found = float(value)
    except OverflowError:
        raise ValueError(f"{name} must be a number that a float can hold, not {value}") from None
    if math.isnan(found):
        raise ValueError(f"{name} must be a number, not nan")
    return found


def nonnegative(value: Any, name: str) -> float:
    """Return `value` as a finite float, 0 or more."""
    if isinstance(value, float | np.floating) and math.isnan(value):
        raise ValueError(f"{name} must be a finite number >= 0, not {value}")
    found = number(value, name)
    if not (math.isfinite(found) and found >= 0):
        raise ValueError(f"{name} must be a finite number >= 0, not {value}")
    return found


def within(value: Any, name: str, interval: str, fix: str = "") -> float:
    """Return `value` as a float in an interval; a round bracket excludes its end.

    Args:
        value: the number.
        name: name of the parameter, for errors.
        interval: such as "[0, 1]" or "(0, inf)".
        fix: the end of the error, if more can be said.

    Example:
        >>> within(0, "share", "(0, 1)")
        Traceback (most recent call last):
            ...
        ValueError: share must be in (0, 1), not 0
    """
    found = number(value, name)
    low, high = map(float, interval[1:-1].split(","))
    above = found >= low if interval[0] == "[" else found > low
    below = found <= high if interval[-1] == "]" else found < high
    if not (above and below):
        raise ValueError(f"{name} must be in {interval}, not {value}{fix}")
    return found


def seed32(value: Any, name: str = "seed") -> int:
    """Return a seed: a whole number from 0 to 2^32 - 1."""
    number = whole(value, name, least=0)
    if number >= 2**32:
        raise ValueError(f"{name} must be below 2**32, not {number}")
    return number


def real_array(values: Any, name: str) -> np.ndarray[Any, Any]:
    """Return `values` as a float array; reject texts and rows of different lengths.

    Example:
        >>> real_array([[0.5, 0.5], [0.5]], "means")
        Traceback (most recent call last):
            ...
        TypeError: means must be numbers in rows of one length, not [[0.5, 0.5], [0.5]]
    """
    try:
        return np.asarray(values, np.float64)
    except (TypeError, ValueError):
        raise TypeError(
            f"{name} must be numbers in rows of one length, not {shortened(values)}"
        ) from None


def unit_interval(values: Any, name: str, labels: tuple[str, ...] = ()) -> np.ndarray[Any, Any]:
    """Return `values` as a float array in [0, 1]; the error names the first one outside."""
    array = real_array(values, name)
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


def percent(share: float) -> str:
    """Return a share in percent; only 0 is 0% and only 1 is 100%.

    Example:
        >>> percent(0.0), percent(0.001), percent(0.67), percent(0.999)
        ('0%', '<1%', '67%', '>99%')
    """
    if 0 < share < 0.005:
        return "<1%"
    return ">99%" if 0.995 < share < 1 else f"{share:.0%}"
