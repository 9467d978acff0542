"""Confidence intervals: growth exponents, bootstrap samples, and how intervals are shown."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from fedbandits.common.statistics import Interval

Floats = npt.NDArray[np.float64]

BOOTSTRAPS = 2000


def resamples(draws: int, seed: int = 0) -> npt.NDArray[np.int64]:
    """Return bootstrap samples of the draws, `[B, D]`."""
    return np.random.default_rng(seed).integers(draws, size=(BOOTSTRAPS, draws))


def exponent(x: npt.ArrayLike, samples: npt.ArrayLike, seed: int = 0) -> Interval:
    """Return the slope of log E[y] against log x, with a 95% bootstrap interval over draws.

    Args:
        x: the points, `[P]`.
        samples: y at each point in each draw, `[P, D]`; a draw is resampled with all its points.
        seed: of the resampling.

    Returns:
        the slope and its interval; NaN where a mean is not positive and has no logarithm.

    Example:
        >>> exponent([1, 4, 16], [[1.0], [2.0], [4.0]])
        Interval(mean=0.5, low=0.5, high=0.5)
    """
    y = np.asarray(samples, np.float64)
    resampled = y[:, resamples(y.shape[1], seed)].mean(axis=-1)  # [P, B]
    means = np.column_stack([y.mean(axis=1), resampled])
    if (means <= 0).any():
        return Interval(np.nan, np.nan, np.nan)
    slopes = np.polyfit(np.log(np.asarray(x, np.float64)), np.log(means), 1)[0]
    low, high = np.quantile(slopes[1:], [0.025, 0.975])
    return Interval(*(round(float(slope), 6) for slope in (slopes[0], low, high)))


def span(low: float, high: float, digits: int = 2) -> str:
    """Return the limits of an interval as text; a dash if there are none.

    Example:
        >>> span(1.234, 5.678)
        '1.23 to 5.68'
    """
    return "-" if np.isnan(low) else f"{low:,.{digits}f} to {high:,.{digits}f}"


def with_half(found: Interval, form: str = ".1f", scale: float = 1.0) -> str:
    """Return a mean ± half its interval as text; the mean alone if it has no interval.

    Example:
        >>> with_half(Interval(0.5, 0.25, 0.75), scale=100), with_half(Interval(2, np.nan, np.nan))
        ('50.0 ± 25.0', '2.0')
    """
    half = scale * (found.high - found.low) / 2
    return f"{scale * found.mean:{form}}" + ("" if np.isnan(half) else f" ± {half:{form}}")
