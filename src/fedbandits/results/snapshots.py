"""What is kept of every agent now and then, for pictures: `simulate(..., record="agents")`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from fedbandits.common.files import atomic_write

from .record import recorded_rounds

if TYPE_CHECKING:
    import xarray as xr

    from fedbandits.arrays import Array
    from fedbandits.problems.base import Problem

    from .record import Record

MOST_BYTES = 2**27
"""Of all snapshots of a result together, runs and draws included."""

FEWEST = 10
"""Snapshots that are worth a picture: where no more fit, they are refused."""

DIMENSIONS = {
    "leading_arm": ("run", "snapshot", "agent"),
    "agent_excess": ("run", "snapshot", "agent"),
    "mean_distribution": ("run", "snapshot", "arm"),
    "disagreement": ("run", "snapshot"),
}
"""Of the variables that a result with snapshots has beside the others; see `Result`."""


def encoding(data: xr.Dataset) -> dict[str, dict[str, Any]]:
    """Return the encoding of a dataset: snapshots are large and compress well."""
    packed = {"zlib": True, "complevel": 1, "shuffle": True}
    return {name: packed for name in DIMENSIONS if name in data}


class Shot(NamedTuple):
    """What all agents would do in the next round.

    Attributes:
        leading: the arm each would most likely play, `[R, N]`.
        mean: the mean over agents of their distributions, `[K, R]`.
        disagreement: how far from it they are: ½ Σ_i |p^v(i) - p̄(i)|, mean over agents, `[R]`.
    """

    leading: Array
    mean: Array
    disagreement: Array


def bytes_each(problem: Problem, runs: int) -> int:
    """Return the bytes of one snapshot of so many runs: 5 per agent, with up to 256 arms.

    Example:
        >>> from fedbandits import problems
        >>> bytes_each(problems.activated_bernoulli(agents=3364, arms=20, horizon=100), runs=1)
        16904
    """
    leading = _number(problem.arms).itemsize
    return runs * (problem.agents * (leading + 4) + 4 * problem.arms + 4)


def snapshot_rounds(problem: Problem, runs: int) -> np.ndarray[Any, np.dtype[np.int64]]:
    """Return the rounds after which snapshots are taken: as many as fit.

    Refused where that is none to speak of.

    Args:
        problem: the losses.
        runs: of all draws together.
    """
    times = recorded_rounds(problem.horizon)
    each = bytes_each(problem, runs)
    step = -(-len(times) // max(1, MOST_BYTES // each))
    chosen = times[::-1][::step][::-1]  # T is one of them
    fewest = min(FEWEST, len(times))
    if len(chosen) < fewest or len(chosen) * each > MOST_BYTES:
        most = MOST_BYTES // (fewest * bytes_each(problem, 1))
        fix = f"choose runs of at most {most:,}, or leave record out" if most else "leave it out"
        raise ValueError(
            f'record="agents" keeps at most {MOST_BYTES:,} bytes, and {fewest} snapshots of '
            f"{problem.agents:,} agents in {runs:,} runs (of all draws) would take "
            f"{fewest * each:,}; {fix}"
        )
    return chosen


class Snapshots:
    """The snapshots of a simulation. Every field is an array, so that a checkpoint is `vars(...)`.

    Args:
        times: rounds after which agents are looked at.
        runs: R.
        agents: N.
        arms: K.
    """

    def __init__(
        self, times: np.ndarray[Any, np.dtype[np.int64]], runs: int, agents: int, arms: int
    ) -> None:
        self.times = times
        each = (len(times), runs)
        self.leading = np.zeros((*each, agents), _number(arms))
        self.excess = np.zeros((*each, agents), np.float32)
        self.mean = np.zeros((*each, arms), np.float32)
        self.disagreement = np.zeros(each, np.float32)

    def add(self, shot: Shot, after: int, record: Record) -> None:
        """Add what was seen after a round, which is the last of the record."""
        place = int(np.searchsorted(self.times, after))
        self.leading[place] = shot.leading
        self.mean[place] = np.asarray(shot.mean).T
        self.disagreement[place] = shot.disagreement
        self.excess[place] = record.agent_expected - record.expected_so_far[:, None]

    def variables(self) -> dict[str, tuple[tuple[str, ...], np.ndarray[Any, Any]]]:
        """Return the variables of a result, each with its dimensions."""
        arrays = (self.leading, self.excess, self.mean, self.disagreement)
        return {
            name: (dimensions, array.swapaxes(0, 1))
            for (name, dimensions), array in zip(DIMENSIONS.items(), arrays, strict=True)
        }


def _number(arms: int) -> np.dtype[Any]:
    """Return the smallest type that holds an arm's number."""
    return np.min_scalar_type(arms - 1)


def write_netcdf(data: xr.Dataset, path: str | Path) -> None:
    """Write a dataset whole or not at all; HDF5 makes the file in memory."""
    with atomic_write(path) as file:
        data.to_netcdf(file, engine="h5netcdf", encoding=encoding(data))
