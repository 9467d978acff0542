"""What came of a chunk, checked and recorded while the devices play the next one."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import numpy as np

from fedbandits.algorithms.base import AnyAlgorithm
from fedbandits.engine.group import Group
from fedbandits.problems.base import Problem, check_losses
from fedbandits.results.record import AgentTotals, Curves
from fedbandits.results.snapshots import Shot


class _Pending(NamedTuple):
    """A chunk that was asked for: its first round, how many, and what will come of it."""

    first: int
    rounds: int
    outcome: Outcome


Outcome = tuple[Curves, AgentTotals] | tuple[Curves, AgentTotals, Shot]
"""Of a chunk, with what agents would do after it where a snapshot is due."""


class Recorder:
    """Hands on what came of each chunk, one chunk behind the devices."""

    def __init__(
        self, record: Callable[..., None], recorded: Callable[[int], None], done: int = 0
    ) -> None:
        """Take two functions.

        Args:
            record: takes the first round and the outcome of a chunk.
            recorded: takes the last round of every chunk after it is recorded.
            done: the last round that is recorded already.
        """
        self._record = record
        self._recorded = recorded
        self.done = done
        """The last round that is recorded."""
        self._pending: _Pending | None = None

    def add(self, first: int, rounds: int, outcome: Outcome) -> None:
        """Take a chunk that the devices are playing, and record the one before."""
        self.settle()
        self._pending = _Pending(first, rounds, outcome)

    def settle(self) -> None:
        """Record the chunk that was played last."""
        if self._pending is None:
            return
        first, rounds, outcome = self._pending
        self._pending = None
        self._record(first, *jax.device_get(outcome))
        self.done = first + rounds - 1
        self._recorded(self.done)


def into_records(
    group: Group, first: int, curves: Curves, totals: AgentTotals, shots: Shot | None = None
) -> None:
    """Check a chunk and add it to the records of all simulations of a group."""
    for place, simulation in enumerate(group.simulations):
        own, sums = group.part((curves, totals), place)
        reject_invalid(simulation.problem, first, own)
        reject_nan(simulation.algorithm, first, own.expected)
        record = group.records[place]
        record.add(first, own, sums)
        if shots is not None:
            last = first + len(own.incurred) - 1
            group.snapshots[place].add(group.part(shots, place), last, record)


def reject_invalid(problem: Problem, first: int, curves: Curves) -> None:
    """Refuse rounds with losses outside [0, 1]."""
    if not curves.valid.all():
        row = int(np.argmin(curves.valid))
        t = first + row
        if curves.invalid is not None:
            raise ValueError(_invalid_in_run(problem, t, *(x[row] for x in curves.invalid)))
        check_losses(problem.block(t, t), t, problem)
        raise ValueError(
            f"{problem.title}: round {t} had losses outside [0, 1] in the compiled run but not "
            "when asked again; the function must be a pure function of the round"
        )


def _invalid_in_run(problem: Any, t: int, place: int, loss: float) -> str:
    """What was wrong in a run of a problem that watches."""
    run, v, i = np.unravel_index(place, (np.iinfo(np.int32).max, problem.agents, problem.arms))
    cell = problem.in_run(int(run), t, int(v), int(i))
    return f"{problem.title}: {cell} is {problem.out_of_range(float(loss))}"


def reject_nan(algorithm: AnyAlgorithm, first: int, expected: np.ndarray[Any, Any]) -> None:
    """Refuse expected losses that are no numbers, `[C, R]`."""
    bad = ~np.isfinite(expected).all(axis=1)
    if bad.any():
        raise ValueError(
            f"{type(algorithm).__name__}.distribution is not finite at round "
            f"{first + int(np.argmax(bad))}; look at its rates and at its state"
        )
