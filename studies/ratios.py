"""Ratios of mean regrets, with bootstrap intervals over draws of the losses."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from fedbandits.common.statistics import Interval
from fedbandits.paper.intervals import Floats, resamples, span

Pair = tuple[Floats, Floats]
"""Two regrets in each draw, the numerator and the denominator."""


def geometric_mean_ratio(pairs: Sequence[Pair]) -> Interval:
    """Return the geometric mean over cases of E[a] / E[b], with a 95% bootstrap interval.

    Args:
        pairs: a and b of each case in each draw, `[D]`; all cases have the same draws resampled.

    Returns:
        the mean and its interval; NaN where a mean is not positive and has no logarithm.

    Example:
        >>> pairs = [(np.array([2.0]), np.array([1.0])), (np.array([1.0]), np.array([8.0]))]
        >>> geometric_mean_ratio(pairs)
        Interval(mean=0.5, low=0.5, high=0.5)
    """
    weights = _weights(len(pairs[0][0]))
    with np.errstate(divide="ignore", invalid="ignore"):
        logs = [np.log(weights @ a) - np.log(weights @ b) for a, b in pairs]
    found = np.mean(logs, axis=0)
    if not np.isfinite(found[0]):
        return Interval(np.nan, np.nan, np.nan)
    low, high = np.quantile(found[1:], [0.025, 0.975])
    return Interval(*(round(float(np.exp(log)), 6) for log in (found[0], low, high)))


def mean_ratio(pairs: Sequence[Pair], worst: bool = False) -> Interval:
    """Return the mean over cases of E[a] / E[b], with a 95% bootstrap interval over draws.

    Args:
        pairs: a and b of each case in each draw, `[D]`. a may have an axis of agents, `[D, N]`.
        worst: of the agents take the one with the largest E[a], instead of their mean.

    Returns:
        the mean and its interval, which is NaN for a single draw.

    Example:
        >>> mean_ratio([(np.array([[1.0, 3.0]]), np.array([4.0]))], worst=True).mean
        0.75
    """
    draws = len(pairs[0][1])
    weights = _weights(draws)
    ratios = []
    for a, b in pairs:
        means = weights @ a.reshape(draws, -1)  # [1 + B, N]
        of_agents = means.max(axis=1) if worst else means.mean(axis=1)
        ratios.append(of_agents / (weights @ b))
    value, *others = np.mean(ratios, axis=0)
    low, high = np.quantile(others, [0.025, 0.975]) if draws > 1 else (np.nan, np.nan)
    return Interval(float(value), float(low), float(high))


def ratio_columns(
    head: str, of: Callable[[Any], Interval]
) -> list[tuple[str, Callable[[Any], str]]]:
    """Return two columns of a table: a ratio, and its 95% interval."""
    return [(head, lambda item: f"{of(item).mean:.2f}"), ("95%", lambda item: span(*of(item)[1:]))]


def _weights(draws: int) -> Floats:
    """Return weights of the draws, `[1 + B, D]`: all equal, then bootstrap samples."""
    again = [(resamples(draws) == draw).mean(axis=1) for draw in range(draws)]
    return np.vstack([np.full(draws, 1 / draws), np.column_stack(again)])
