"""Algorithms played side by side, on the same losses with the same randomness."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import numpy.typing as npt

from fedbandits.algorithms import AnyAlgorithm
from fedbandits.results.result import Result
from fedbandits.simulation.options import Options
from fedbandits.simulation.simulation import Simulation


def play_each(
    simulation: Simulation, algorithms: Sequence[AnyAlgorithm], seed: int, progress: bool | None
) -> list[Result]:
    """Return the result of each algorithm, on the losses and the randomness of a seed."""
    from fedbandits.engine.play import play

    problem = simulation.problem.redraw(seed)
    drawn = replace(simulation, problem=problem, seed=seed)
    each = [replace(drawn, algorithm=algorithm) for algorithm in algorithms]
    return play(each, Options(progress=progress))


def at_end(result: Result) -> npt.NDArray[np.float64]:
    """Expected regret at T, the mean over agents: `[run]`."""
    values: npt.NDArray[np.float64] = result.dataset["expected_regret"].to_numpy()[:, -1]
    return values
