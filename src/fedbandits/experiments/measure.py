"""What the experiments share: cells played side by side, intervals, curves and exponents."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, TypeVar

import numpy as np
import numpy.typing as npt

from fedbandits.common.statistics import Interval, interval

if TYPE_CHECKING:
    import pandas as pd

    from fedbandits.results.result import Result

In = TypeVar("In")
Out = TypeVar("Out")

Floats = npt.NDArray[np.float64]

__all__ = [
    "Interval",
    "curves",
    "exponent",
    "in_threads",
    "interval",
    "mean_ratio",
    "resamples",
    "span",
]

BOOTSTRAPS = 2000


def exponent(x: npt.ArrayLike, samples: npt.ArrayLike, seed: int = 0) -> Interval:
    """The slope of log E[y] against log x, with a 95% bootstrap interval over draws.

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


def mean_ratio(pairs: Sequence[tuple[Floats, Floats]]) -> Interval:
    """The geometric mean over cases of E[a] / E[b], with a 95% bootstrap interval over draws.

    Args:
        pairs: a and b of each case in each draw, `[D]`; all cases have the same draws resampled.

    Returns:
        the mean and its interval; NaN where a mean is not positive and has no logarithm.

    Example:
        >>> mean_ratio([(np.array([2.0]), np.array([1.0])), (np.array([1.0]), np.array([8.0]))])
        Interval(mean=0.5, low=0.5, high=0.5)
    """
    draws = len(pairs[0][0])
    # Every draw once in the first row, as often as it was drawn in the others.
    chosen = np.vstack([np.arange(draws), resamples(draws)])
    with np.errstate(divide="ignore", invalid="ignore"):
        logs = [np.log(a[chosen].mean(axis=1)) - np.log(b[chosen].mean(axis=1)) for a, b in pairs]
    found = np.mean(logs, axis=0)
    if not np.isfinite(found[0]):
        return Interval(np.nan, np.nan, np.nan)
    low, high = np.quantile(found[1:], [0.025, 0.975])
    return Interval(*(round(float(np.exp(log)), 6) for log in (found[0], low, high)))


def resamples(draws: int, seed: int = 0) -> npt.NDArray[np.int64]:
    """Bootstrap samples of the draws, `[B, D]`."""
    return np.random.default_rng(seed).integers(draws, size=(BOOTSTRAPS, draws))


def in_threads(play: Callable[[In], Out], cells: Sequence[In], title: str) -> list[Out]:
    """`play` of every cell, in order, on all cores: compiled rounds leave Python's lock alone."""
    from rich.console import Console
    from rich.progress import track

    with ThreadPoolExecutor(os.cpu_count()) as pool:
        try:
            return list(
                track(
                    pool.map(play, cells),
                    title,
                    total=len(cells),
                    console=Console(stderr=True),
                    disable=not sys.stderr.isatty(),
                )
            )
        except BaseException:
            pool.shutdown(cancel_futures=True)
            raise


def curves(results: Mapping[str, Result], network: str) -> pd.DataFrame:
    """Regret as a tidy table: network, algorithm, time, mean, low, high, runs."""
    import pandas as pd

    return pd.concat(
        pd.DataFrame(
            {
                "network": network,
                "algorithm": name,
                "time": result.dataset["time"].to_numpy(),
                **{key: part.to_numpy() for key, part in result.band()._asdict().items()},
                "runs": result.dataset.sizes["run"],
            }
        )
        for name, result in results.items()
    )


def span(low: float, high: float, digits: int = 2) -> str:
    """An interval as text; a dash where there is none.

    Example:
        >>> span(1.234, 5.678)
        '1.23 to 5.68'
    """
    return "-" if np.isnan(low) else f"{low:,.{digits}f} to {high:,.{digits}f}"
