"""What parameters take, found by their types: not by the words in which these are written."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Optional

import numpy.typing as npt
import pytest

from fedbandits import problems, schedules
from fedbandits.config import catalogue
from fedbandits.config.accepting import PLAIN, Accepts, accepted, parameters_of
from fedbandits.problems import Problem
from fedbandits.schedules import Schedule

if TYPE_CHECKING:
    import pandas as pd

Folder = Path
Rate = Schedule


class PathLength(int):
    """A number, whose name has the name of a type in it."""


class ScheduleNumber(int):
    """Another."""


# One parameter has no hint, and one has the older form of a union: users write both.
def make(  # type: ignore[no-untyped-def]
    renamed: Folder | None,
    rate: Rate | float,
    inner: Problem,
    frame: pd.DataFrame | str | Path,
    length: PathLength,
    number: ScheduleNumber,
    text: str,
    many: Optional[Sequence[float]],  # noqa: UP045
    array: npt.ArrayLike,
    anything: Any,
    table: Mapping[str, list[str]],
    unhinted=None,
) -> None:
    """A constructor with a parameter of every kind."""


@pytest.mark.parametrize(
    ("key", "takes"),
    {
        "renamed": Accepts(file=True),
        "rate": Accepts(table=schedules.REGISTRY),
        "inner": Accepts(table=problems.REGISTRY),
        "frame": Accepts(file=True),
        "length": PLAIN,
        "number": PLAIN,
        "text": PLAIN,
        "many": Accepts(lists=True),
        "array": Accepts(lists=True),
        "anything": Accepts(lists=True),
        "table": PLAIN,
        "unhinted": PLAIN,
    }.items(),
)
def test_what_a_parameter_takes(key: str, takes: Accepts) -> None:
    assert parameters_of(make)[key] == takes


def test_every_constructor_has_hints_that_can_be_read() -> None:
    for registry in catalogue.REGISTRIES.values():
        for name in registry:
            accepted(registry, name)
