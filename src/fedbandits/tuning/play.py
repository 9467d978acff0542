"""Algorithms played side by side, on the same losses with the same randomness."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from fedbandits.algorithms import AnyAlgorithm
from fedbandits.gossip.base import Gossip
from fedbandits.privacy.response import RandomisedResponse
from fedbandits.problems import Problem

if TYPE_CHECKING:
    from fedbandits.engine.preparation import DType
    from fedbandits.results.result import Result


def play(
    problem: Problem,
    algorithms: Sequence[AnyAlgorithm],
    gossip: Gossip | None,
    runs: int,
    seed: int,
    dtype: DType,
    progress: bool | None,
    privacy: RandomisedResponse | None = None,
) -> list[Result]:
    """All results: one call for those that differ in numbers alone, more where memory asks."""
    from fedbandits.engine.several_algorithms import simulate_each
    from fedbandits.sweeps.plan import MOST_NUMBERS

    room = max(1, MOST_NUMBERS // (problem.agents * problem.arms * runs))
    results: dict[int, Result] = {}
    for alike in _kinds(problem, algorithms, gossip):
        for numbers in np.array_split(alike, -(-len(alike) // room)):
            each = [algorithms[h] for h in numbers]
            played = simulate_each(
                problem,
                each,
                gossip,
                runs,
                seed,
                dtype=dtype,
                progress=progress,
                privacy=privacy,
            )
            results |= dict(zip(numbers.tolist(), played, strict=True))
    return [results[h] for h in range(len(algorithms))]


def _kinds(
    problem: Problem, algorithms: Sequence[AnyAlgorithm], gossip: Gossip | None
) -> list[list[int]]:
    """Which algorithms one program can play."""
    from fedbandits.engine.batch import alike
    from fedbandits.engine.preparation import setting_of

    setting = setting_of(problem, gossip)
    ready = [algorithm.set_up(setting) for algorithm in algorithms]
    kinds: list[list[int]] = []
    for h in range(len(ready)):
        for kind in kinds:
            if alike([ready[kind[0]], ready[h]]):
                kind.append(h)
                break
        else:
            kinds.append([h])
    return kinds


def at_end(result: Result) -> npt.NDArray[np.float64]:
    """Expected regret at T, the mean over agents: `[run]`."""
    values: npt.NDArray[np.float64] = result.dataset["expected_regret"].to_numpy()[:, -1]
    return values
