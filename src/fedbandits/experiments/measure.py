"""What the experiments share: cells played side by side, intervals, curves and exponents."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, NamedTuple, TypeVar

import numpy as np
import numpy.typing as npt

if TYPE_CHECKING:
    import pandas as pd

    from fedbandits.results import Result

In = TypeVar("In")
Out = TypeVar("Out")

BOOTSTRAPS = 2000


class Interval(NamedTuple):
    """A mean and its confidence limits; NaN limits for a single value."""

    mean: float
    low: float
    high: float


def interval(values: npt.ArrayLike, level: float = 0.95) -> Interval:
    """Mean of independent values and its interval, mean ± t · s/√n.

    Example:
        >>> interval([1.0, 2.0, 3.0])
        Interval(mean=2.0, low=-0.484..., high=4.484...)
    """
    from scipy.special import stdtrit

    sample = np.asarray(values, np.float64).ravel()
    mean = float(sample.mean())
    if sample.size == 1:
        return Interval(mean, np.nan, np.nan)
    half = stdtrit(sample.size - 1, (1 + level) / 2) * sample.std(ddof=1) / np.sqrt(sample.size)
    return Interval(mean, mean - float(half), mean + float(half))


def exponent(x: npt.ArrayLike, samples: Sequence[npt.ArrayLike], seed: int = 0) -> Interval:
    """The slope of log E[y] against log x, with a 95% bootstrap interval.

    Args:
        x: the points, `[P]`.
        samples: independent values of y at each point. Where all points have as many they are
            taken as paired, draw by draw, and resampled together.
        seed: of the resampling.

    Example:
        >>> exponent([1, 4, 16], [[1.0], [2.0], [4.0]])
        Interval(mean=0.5, low=0.5, high=0.5)
    """
    points, rng = np.log(np.asarray(x, np.float64)), np.random.default_rng(seed)
    values = [np.asarray(sample, np.float64).ravel() for sample in samples]

    def slope(means: list[float]) -> float:
        return float(np.polyfit(points, np.log(means), 1)[0])

    paired = len({sample.size for sample in values}) == 1
    slopes = []
    for _ in range(BOOTSTRAPS):
        shared = rng.integers(values[0].size, size=values[0].size)
        means = [
            float(y[shared if paired else rng.integers(y.size, size=y.size)].mean()) for y in values
        ]
        if min(means) > 0:  # no logarithm of a resample that sums to less than nothing
            slopes.append(slope(means))
    low, high = np.quantile(slopes, [0.025, 0.975])
    return Interval(
        round(slope([float(y.mean()) for y in values]), 6), round(low, 6), round(high, 6)
    )


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
