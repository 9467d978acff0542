"""Regret against a best arm that changes: the best sequences of arms, exact and in one pass."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any

import numpy as np

from fedbandits.common import checks

from .record import MOST_ROUND_LOSSES

if TYPE_CHECKING:
    import xarray as xr

    from fedbandits.problems.base import Problem

    from .result import Result

Rows = Iterable[np.ndarray[Any, Any]]
"""The mean loss of every arm, round by round: `[T, K]`, or `[T, K, ...]` for several at once."""

LOSSES_HELD = 2**22
"""Of all agents, made at once where a problem makes its losses again."""


def best_sequences(losses: Rows, changes: int, times: Iterable[int]) -> np.ndarray[Any, Any]:
    """Return the least loss of any sequence of arms with at most s changes, s = 0, ..., S.

    With V_t(s, i) that of the best of them which ends in arm i,

        V_t(s, i) = ℓ_t(i) + min(V_{t-1}(s, i), min_j V_{t-1}(s - 1, j)),    V_0 = 0.

    Only V_t is held, so losses may come one by one. It takes about 10 µs a round for K = 20 and
    S = 50.

    Args:
        losses: `[T, K]`, or `[T, K, ...]` for several at once.
        changes: S.
        times: the rounds t after which to say, ascending.

    Returns:
        `[len(times), S + 1, ...]`.

    Example:
        >>> losses = np.array([[0, 1], [0, 1], [1, 0], [1, 0]])
        >>> best_sequences(losses, changes=1, times=[2, 4])
        array([[0., 0.],
               [2., 0.]])
    """
    wanted, found = {int(t) for t in times}, []
    for t, loss in enumerate(losses, 1):
        if t == 1:
            arms, *others = np.shape(loss)
            ending = np.zeros((arms, changes + 1, *others))
            least = np.zeros((changes + 1, *others))
        np.minimum(ending[:, 1:], least[:-1], out=ending[:, 1:])
        ending += loss[:, None]
        least = ending.min(axis=0)
        if t in wanted:
            found.append(least)
    return np.array(found)


def best_of_parts(
    losses: Rows, parts: int, horizon: int, times: Iterable[int]
) -> np.ndarray[Any, Any]:
    """Return the loss of playing the best arm of each of S equal parts of the horizon.

    Part p ends with round ⌊pT/S⌋: as equal as whole rounds allow. At a time within a part, that
    part's arm is the one best in it so far.

    Args:
        losses: `[T, K]`, or `[T, K, ...]` for several at once.
        parts: S.
        horizon: T.
        times: the rounds t after which to say, ascending.

    Returns:
        `[len(times), ...]`.

    Example:
        >>> losses = np.array([[0, 1], [0, 1], [1, 0], [1, 0]])
        >>> best_of_parts(losses, parts=2, horizon=4, times=[3, 4])
        array([0., 0.])
    """
    wanted, found = {int(t) for t in times}, []
    ends = {p * horizon // parts for p in range(1, parts + 1)}
    before: Any = 0.0
    within: Any = 0.0
    for t, loss in enumerate(losses, 1):
        within = within + np.asarray(loss, np.float64)
        if t in wanted:
            found.append(before + within.min(axis=0))
        if t in ends:
            before, within = before + within.min(axis=0), 0.0
    return np.array(found)


def given_sequence(changes: int | None, parts: int | None) -> dict[str, int]:
    """Return the given one of the two; reject both.

    Example:
        >>> given_sequence(changes=3, parts=None)
        {'changes': 3}
    """
    least = {"changes": 0, "parts": 1}
    given = {k: s for k, s in (("changes", changes), ("parts", parts)) if s is not None}
    if len(given) > 1:
        raise TypeError(f"give one of the two: changes={changes}, or parts={parts}")
    return {name: checks.whole(s, name, least=least[name]) for name, s in given.items()}


def compared_with(
    result: Result, changes: int | None, parts: int | None, problem: Problem | None
) -> tuple[xr.DataArray, str]:
    """Return the cumulative loss of the best sequence at the recorded rounds, and its name."""
    import xarray as xr

    data = result.dataset
    horizon = int(data["time"][-1])
    if not given_sequence(changes, parts):
        raise TypeError("give one of the two: regret_against(changes=5), or (parts=6)")
    times, among = data["time"].to_numpy(), f"in a horizon of {horizon:,} rounds"
    if changes is not None:
        changes = checks.whole(changes, f"changes {among}", least=0, most=horizon - 1)
        dims, losses = _losses(result, problem)
        loss = best_sequences(losses, changes, times)[:, -1]
    else:
        parts = checks.whole(parts, f"parts {among}", least=1, most=horizon)
        dims, losses = _losses(result, problem)
        loss = best_of_parts(losses, parts, horizon, times)
    found = xr.DataArray(loss, dims=("time", *dims), coords={"time": times})
    return found, in_words(changes, parts)


def in_words(changes: int | None = None, parts: int | None = None) -> str:
    """Return the name of a sequence with so many changes, or parts.

    Example:
        >>> in_words(changes=3), in_words(parts=4)
        ('the best sequence with at most 3 changes', 'the best arm of each of 4 equal parts')
    """
    if changes is None:
        return f"the best arm of each of {parts:,} equal parts"
    return f"the best sequence with at most {changes:,} change{'s' * (changes != 1)}"


def _losses(result: Result, problem: Problem | None) -> tuple[tuple[str, ...], Rows]:
    """Return recorded losses, or those of a given problem, and their other dimensions."""
    data = result.dataset
    if problem is not None:
        return ("draw",) * ("draw" in data.dims), _again(result, problem)
    if "round_loss" not in data:
        raise ValueError(
            "this result does not hold the losses of every round, which a sequence of arms is "
            f"chosen by: they were more than {MOST_ROUND_LOSSES:,} numbers, or the file is older. "
            "Pass the problem that was simulated, regret_against(..., problem=problem), which "
            "makes them again, or simulate anew with fewer rounds, arms or draws"
        )
    recorded = data["round_loss"].transpose("round", "arm", ...)
    return tuple(map(str, recorded.dims[2:])), recorded.to_numpy()


def _again(result: Result, problem: Problem) -> Iterator[np.ndarray[Any, Any]]:
    """Yield the mean losses of each round as the problem makes them, `[K]`, or `[K, draw]`.

    Refuses, when all are made, a problem whose losses do not add up to those of the result.
    """
    data = result.dataset
    if result.watched:
        raise ValueError(
            f"{result.config['problem']['name']} watches what agents play: its losses cannot be "
            "made again without playing. Simulate anew with fewer rounds, arms or runs, at most "
            f"{MOST_ROUND_LOSSES:,} numbers in all: then the result holds them"
        )
    horizon = int(data["time"][-1])
    sizes = (problem.agents, problem.arms, problem.horizon)
    theirs = (data.sizes["agent"], data.sizes["arm"], horizon)
    if sizes != theirs:
        raise ValueError(
            f"the problem has (agents, arms, horizon) = {sizes}, the result {theirs}: pass the one "
            "that was simulated"
        )
    seeds = result.config.get("loss_seeds", [None])
    draws = [problem, *(problem.redraw(seed) for seed in seeds[1:])]
    honest = [v for v in range(problem.agents) if str(v) not in result.config.get("liars", {})]
    total: Any = 0.0
    step = max(1, LOSSES_HELD // (problem.agents * problem.arms * len(draws)))
    for first in range(1, horizon + 1, step):
        last = min(first + step - 1, horizon)
        made = [draw.block(first, last)[:, honest].mean(axis=1, dtype=np.float64) for draw in draws]
        block = np.stack(made, axis=-1) if "draw" in data.dims else made[0]
        total = total + block.sum(axis=0)
        yield from block
    recorded = data["arm_loss"].isel(time=-1).transpose("arm", ...)
    if not np.allclose(total, recorded, rtol=1e-5, atol=1e-5):
        raise ValueError(
            f"{problem.title} makes other losses than the result was simulated on; pass the same "
            f"problem with the same seed: {result.config['problem']}"
        )
