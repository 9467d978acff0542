"""The rounds of a table: its distinct times in order."""

from __future__ import annotations

from collections.abc import Hashable
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

if TYPE_CHECKING:
    import pandas as pd

CLOCKS = ("utc", "local")

_OFFSET = r"(?:Z|[+-]\d\d(?::?\d\d)?)$"
"""An offset from UTC at the end of an ISO time of day."""


class TableRounds(NamedTuple):
    """The rounds of a table.

    Attributes:
        of_rows: the round of each row, counted from 0.
        labels: the label of each round, `[T]`.
        dates: the date of each round, `[T]`; None where times are numbers.
        by_clock: the round that each row would have by local clocks; None where no times have
            offsets from UTC, or where the rounds are by local clocks.
    """

    of_rows: np.ndarray[Any, Any]
    labels: pd.Series[Any]
    dates: np.ndarray[Any, Any] | None
    by_clock: np.ndarray[Any, Any] | None


def rounds_of(column: pd.Series[Any], clock: str) -> TableRounds:
    """Assign numbers to the distinct times of a column.

    Args:
        column: numbers, dates, or texts that are ISO dates.
        clock: how times with an offset from UTC are compared, one of `CLOCKS`.
    """
    import pandas as pd
    from pandas.api.types import is_numeric_dtype

    if clock not in CLOCKS:
        raise ValueError(f"clock must be 'utc' or 'local', not {clock!r}")
    seen, distinct = pd.factorize(column)
    labels = pd.Series(distinct, name=column.name)
    if isinstance(labels.dtype, pd.CategoricalDtype):
        labels = labels.astype(labels.cat.categories.dtype)
    labels = labels.infer_objects()
    by_clock = None
    if is_numeric_dtype(labels):
        order, moments = pd.factorize(labels, sort=True)
        dates = None
    else:
        instants, local = _moments(labels)
        compared = local if clock == "local" else instants
        # Two labels may be one moment, in other offsets.
        order, moments = pd.factorize(compared, sort=True)
        dates = _in_nanoseconds(moments, column.name)
        if clock == "utc" and not local.equals(instants):
            by_clock = pd.factorize(local)[0][seen]
    _, first = np.unique(order, return_index=True)
    return TableRounds(order[seen], labels.iloc[first], dates, by_clock)


def _in_nanoseconds(moments: Any, name: Hashable) -> np.ndarray[Any, Any]:
    """Return dates as files hold them; reject dates before 1678 or after 2261."""
    exact = np.asarray(moments)
    outside = (exact < np.datetime64("1678-01-01")) | (exact >= np.datetime64("2262-01-01"))
    if outside.any():
        raise ValueError(
            f"the table's {name} {exact[outside][0].astype('datetime64[D]')} is outside 1678 to "
            "2262; give rounds as numbers instead"
        )
    return exact.astype("datetime64[ns]")


def _moments(labels: pd.Series[Any]) -> tuple[pd.Series[Any], pd.Series[Any]]:
    """Return dates in UTC and by their local clocks, both without an offset."""
    import pandas as pd
    from pandas.api.types import is_datetime64_any_dtype

    if isinstance(labels.dtype, pd.ArrowDtype):
        labels = labels.astype(object)
    if is_datetime64_any_dtype(labels):
        if labels.dt.tz is None:
            return labels, labels
        return labels.dt.tz_convert(None), labels.dt.tz_localize(None)
    text = labels.map(str)
    dates = pd.to_datetime(text, format="ISO8601", errors="coerce", utc=True)
    if dates.isna().any():
        raise ValueError(_no_date(labels, labels[dates.isna()].iloc[0]))
    offset = text.str.contains(rf"[T ].*{_OFFSET}")
    if offset.any() and not offset.all():
        raise ValueError(
            f"the table's {labels.name} {text[offset].iloc[0]!r} has an offset from UTC, but "
            f"{text[~offset].iloc[0]!r} has none; give one to all of them, or to none"
        )
    instants = dates.dt.tz_convert(None)
    if not offset.any():
        return instants, instants
    local = pd.to_datetime(text.str.replace(_OFFSET, "", regex=True), format="ISO8601")
    return instants, local


def _no_date(labels: pd.Series[Any], found: Any) -> str:
    """Return the error about a time that cannot be read as a date."""
    numbers = [label for label in labels if isinstance(label, int | float)]
    others = [label for label in labels if not isinstance(label, int | float)]
    if numbers and others:
        return (
            f"the table's {labels.name} is a number in some rows, such as {numbers[0]}, but not in "
            f"others, such as {others[0]!r}; make them one kind"
        )
    return f"the table's {labels.name} {found!r} is neither a number nor a date such as 2024-01-31"
