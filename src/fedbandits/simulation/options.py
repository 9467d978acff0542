"""Options: how a simulation is played. They do not change what is asked for."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from fedbandits.results.snapshots import Snapshots, snapshot_rounds

if TYPE_CHECKING:
    import jax

    from .simulation import Simulation


Recorded = Literal["agents"] | None


@dataclass(frozen=True, eq=False)
class Milestone:
    """The state of a simulation after a chunk of rounds.

    Attributes:
        round: the last round that is done.
        horizon: T.
        seconds: the time since this call began to play.
        regret: the regret of each run so far, mean over agents, `[R]`, against the arm best so far.
        expected_regret: the same from the distributions, with less noise.
        draw: the draw of the losses that is played; None without draws.
    """

    round: int
    horizon: int
    seconds: float
    regret: np.ndarray[Any, np.dtype[np.float64]]
    expected_regret: np.ndarray[Any, np.dtype[np.float64]]
    draw: int | None = None


Callback = Callable[[Milestone], object]


@dataclass(frozen=True, eq=False)
class Options:
    """How a simulation is played; see `fb.simulate` for the meaning of each.

    Attributes:
        devices: the number of devices, or which; None for the default.
        checkpoint: a folder for checkpoints.
        keep_checkpoint: leave the checkpoint of a finished simulation to the caller.
        progress: show a progress bar; None for terminals only.
        record: `agents` keeps snapshots of every agent.
        callback: called with a `Milestone` after each chunk.
        executor: the name of the executor to use; None for the fastest one.
    """

    devices: int | Sequence[jax.Device] | None = None
    checkpoint: str | Path | None = None
    keep_checkpoint: bool = False
    progress: bool | None = None
    record: Recorded = None
    callback: Callback | None = None
    executor: str | None = None

    def __post_init__(self) -> None:
        if self.record not in (None, "agents"):
            raise ValueError(f'record must be "agents" or None, not {self.record!r}')
        if self.callback is not None and not callable(self.callback):
            raise TypeError(
                "callback must be a function of one milestone, such as "
                f"lambda m: print(m.round), not {self.callback!r}"
            )

    def snapshots(self, simulation: Simulation, draws: int = 1) -> Snapshots | None:
        """Return empty snapshots of one of so many draws; None if none are recorded."""
        if self.record is None:
            return None
        problem, runs = simulation.problem, simulation.runs
        times = snapshot_rounds(problem, runs * draws)
        return Snapshots(times, runs, problem.agents, problem.arms)
