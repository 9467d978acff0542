"""JAX's errors about an algorithm in words: the method, the line, and what to write instead."""

from __future__ import annotations

import traceback
from pathlib import Path

import jax
import numpy as np
from jax import errors

_LIBRARIES = [Path(package.__file__ or "").parent for package in (jax, np)]

METHODS = ("distribution", "message", "update")

_FAULTS: dict[type[Exception], tuple[str, str]] = {
    errors.TracerBoolConversionError: (
        "decides by the value of an array (if, while, and, or, not, min, max)",
        "compute both sides and take xp.where(condition, this, that)",
    ),
    errors.NonConcreteBooleanIndexError: (
        "picks entries of an array by their values",
        "keep its shape and take xp.where(condition, this, that)",
    ),
    errors.TracerArrayConversionError: (
        "gives an array of JAX to NumPy",
        "take functions from the array's own namespace: xp.exp(x), not np.exp(x)",
    ),
    errors.JAXTypeError: (
        "needs the value of an array",
        "int(), float(), range() and the index of a list take no array: keep it an array; what "
        'must stay a Python value is a field with field(metadata={"static": True})',
    ),
}
"""What was done, and what to do instead, for each kind of error; the first that fits."""

FAULTS: tuple[type[Exception], ...] = (TypeError, *_FAULTS)
"""What tracing may raise: a mistake of plain Python is a TypeError too."""


def explanation(error: Exception, algorithm: str) -> TypeError | None:
    """The error in words; None where it is not JAX's, or not about the code of a method.

    Args:
        error: what was raised while JAX traced the algorithm.
        algorithm: its name.
    """
    fault = next((text for kind, text in _FAULTS.items() if isinstance(error, kind)), None)
    frames = traceback.extract_tb(error.__traceback__)
    methods = [place for place, frame in enumerate(frames) if frame.name in METHODS]
    if fault is None or not methods:
        return None
    done, instead = fault
    inside = [frame for frame in frames[methods[0] :] if not _within(frame, *_LIBRARIES)]
    # Of the user's code, where there is some: a rate, say, that one of our methods calls.
    users = [frame for frame in inside if not _within(frame, Path(__file__).parents[1])]
    frame = (users or inside)[-1]
    return TypeError(
        f"{algorithm}.{frames[methods[0]].name} {done}, but while JAX compiles arrays have no "
        f"values yet: {frame.filename}, line {frame.lineno}: {frame.line}\n"
        f"Instead, with xp = x.__array_namespace__() of any array x: {instead}"
    )


def _within(frame: traceback.FrameSummary, *folders: Path) -> bool:
    return any(folder in Path(frame.filename).parents for folder in folders)
