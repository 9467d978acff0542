"""Algorithms that differ in numbers alone, played side by side."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from fedbandits.algorithms import AnyAlgorithm
from fedbandits.gossip import Gossip
from fedbandits.problems import Problem

if TYPE_CHECKING:
    from fedbandits.engine.simulate import DType
    from fedbandits.results import Result


def play(
    problem: Problem,
    algorithms: Sequence[AnyAlgorithm],
    gossip: Gossip | None,
    runs: int,
    seed: int,
    dtype: DType,
    progress: bool | None,
) -> list[Result]:
    """All results, in as few calls as memory allows."""
    from fedbandits.engine.batch import simulate_each
    from fedbandits.sweeps.plan import MOST_NUMBERS

    room = max(1, MOST_NUMBERS // (problem.agents * problem.arms * runs))
    calls = np.array_split(np.arange(len(algorithms)), -(-len(algorithms) // room))
    return [
        result
        for numbers in calls
        for result in simulate_each(
            *(problem, [algorithms[h] for h in numbers], gossip, runs, seed),
            dtype=dtype,
            progress=progress,
        )
    ]


def at_end(result: Result) -> npt.NDArray[np.float64]:
    """Expected regret at T, the mean over agents: `[run]`."""
    values: npt.NDArray[np.float64] = result.dataset["expected_regret"].to_numpy()[:, -1]
    return values
