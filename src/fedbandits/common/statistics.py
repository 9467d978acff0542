"""Means with their confidence intervals."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

if TYPE_CHECKING:
    import numpy.typing as npt
    import xarray as xr


LEVEL = 0.95

ONE_RUN = "one run has no 95% interval: use at least two runs"
"""Printed instead of an interval."""


class Band(NamedTuple):
    """A mean over runs or draws with its 95% interval, Student's t; NaN limits for a single one."""

    mean: xr.DataArray
    low: xr.DataArray
    high: xr.DataArray


def band(values: xr.DataArray, level: float = LEVEL) -> Band:
    """Return the mean over the dimension `run` and its interval, 95% by default: mean ± t · s/√R.

    Where there are draws of the losses, over the dimension `draw`, of the means over its runs.
    """
    from scipy.special import stdtrit

    over = "draw" if "draw" in values.dims else "run"
    if over == "draw" and "run" in values.dims:
        values = values.mean("run")
    count = values.sizes[over]
    mean = values.mean(over)
    if count == 1:
        return Band(mean, mean * np.nan, mean * np.nan)
    half = stdtrit(count - 1, (1 + level) / 2) * values.std(over, ddof=1) / np.sqrt(count)
    return Band(mean, mean - half, mean + half)


class Interval(NamedTuple):
    """A mean and its confidence limits; NaN limits for a single value."""

    mean: float
    low: float
    high: float


def interval(values: npt.ArrayLike, level: float = LEVEL) -> Interval:
    """Return the mean of independent values and its interval, mean ± t · s/√n.

    Example:
        >>> interval([1.0, 2.0, 3.0])
        Interval(mean=2.0, low=-0.484..., high=4.484...)
    """
    from scipy.special import stdtrit

    sample = np.asarray(values, np.float64).ravel()
    known = sample[~np.isnan(sample)]
    mean = float(known.mean()) if len(known) else math.nan
    if len(known) < 2:
        return Interval(mean, math.nan, math.nan)
    count = len(sample)
    half = float(stdtrit(count - 1, (1 + level) / 2) * known.std(ddof=1) / math.sqrt(count))
    return Interval(mean, mean - half, mean + half)
