"""What a row of the table is, before and after it was measured."""

from __future__ import annotations

import math
import statistics
import sys
import traceback
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from time import perf_counter
from typing import Any


class NotInstalled(Exception):  # noqa: N818  (a state of the machine, not an error)
    """What the row needs is not there; says what."""


@dataclass(frozen=True)
class Measured:
    """One number and what it is held against, all in the row's unit.

    Attributes:
        value: the best of the repeats, or what was fitted to the best ones.
        repeats: every repeat.
        goal: at most this, or None.
        baseline: the same work in plain NumPy, measured in this process just before or after.
        floor: the time of what a round cannot do without; see `floor.py`.
        note: what one has to know to read the number.
    """

    value: float
    repeats: tuple[float, ...]
    goal: float | None = None
    baseline: float | None = None
    floor: float | None = None
    note: str = ""


@dataclass(frozen=True)
class Measure:
    """A row to come."""

    name: str
    unit: str
    run: Callable[[], Measured]


@dataclass(frozen=True)
class Row:
    """A row as it is saved: numbers in `unit`, ratios without one, None where there is none."""

    name: str
    unit: str
    status: str
    """`measured`, `failed` or `not installed`."""
    value: float | None = None
    n: int = 0
    spread: float | None = None
    """How far the median repeat lies above the best, relative to it: 0.1 is 10%."""
    goal: float | None = None
    over_goal: float | None = None
    """value / goal: at most 1 where the goal is met."""
    baseline: float | None = None
    times_faster: float | None = None
    """baseline / value."""
    floor: float | None = None
    times_floor: float | None = None
    """value / floor."""
    note: str = ""
    seconds: float = 0.0
    """What measuring the row took, set-up and compilation included."""

    def as_data(self) -> dict[str, Any]:
        """Plain data for JSON."""
        return asdict(self)


def take(measure: Measure, goals: bool = True) -> Row:
    """Measure one row; a failure becomes a row too, so that the others are still measured.

    Args:
        measure: the row.
        goals: whether it is held against its goal, which is for the full size.
    """
    began = perf_counter()
    try:
        found = _finite(measure.run())
    except NotInstalled as missing:
        return Row(measure.name, measure.unit, "not installed", note=str(missing))
    except Exception as error:
        place = traceback.extract_tb(error.__traceback__)[-1]
        message = f"{type(error).__name__}: {error}".partition("\n")[0][:200]
        note = f"{message} ({Path(place.filename).name}:{place.lineno})"
        sys.stderr.write(traceback.format_exc())
        seconds = perf_counter() - began
        return Row(measure.name, measure.unit, "failed", note=note, seconds=seconds)
    goal = found.goal if goals else None
    return Row(
        measure.name,
        measure.unit,
        "measured",
        found.value,
        len(found.repeats),
        spread(found.repeats),
        goal,
        _ratio(found.value, goal),
        found.baseline,
        _ratio(found.baseline, found.value),
        found.floor,
        _ratio(found.value, found.floor),
        found.note,
        perf_counter() - began,
    )


def spread(repeats: tuple[float, ...]) -> float:
    """How far the median lies above the best: one repeat that met another program hides nothing.

    Example:
        >>> spread((2.0, 9.0, 2.2))
        0.10000000000000009
    """
    best = min(repeats)
    return statistics.median(repeats) / best - 1 if best > 0 else 0.0


def _finite(found: Measured) -> Measured:
    numbers = (found.value, *found.repeats, found.goal, found.baseline, found.floor)
    if not found.repeats or not all(x is None or math.isfinite(x) for x in numbers):
        raise ValueError(f"measured {numbers}: not all of them are numbers")
    return found


def _ratio(above: float | None, below: float | None) -> float | None:
    return above / below if above is not None and below else None
