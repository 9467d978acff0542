"""Keeps the curves of a run: float32 on the device, summed in float64 here."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from fedbandits.common import checks

if TYPE_CHECKING:
    from numpy.typing import DTypeLike

    from fedbandits.arrays import Array
    from fedbandits.problems.base import Problem

RECORDED = 500
"""About how many rounds a curve keeps."""

MOST_ROUND_LOSSES = 8_000_000
"""The mean loss of every arm in every round is kept up to so many numbers, T × K: 32 MB.

Times R where every run has losses of its own; with draws, all of them together.
"""


def check_runs(runs: Any, problem: Problem) -> int:
    """Return R >= 1; reject more runs than can be recorded."""
    number = checks.whole(runs, "runs", least=1, most=checks.INT32)
    points = min(problem.horizon, RECORDED)
    curves = 2 if problem.adaptive else 1  # how often an arm was played; what it cost in this run
    numbers = number * (curves * points * problem.arms + 2 * problem.agents)
    checks.fits(8 * numbers, f"what is recorded of {number:,} runs")
    return number


def recorded_rounds(horizon: int) -> np.ndarray[Any, np.dtype[np.int64]]:
    """Return evenly spaced rounds that end with T; all of them if there are few.

    Example:
        >>> recorded_rounds(3000)[:3], recorded_rounds(3000)[-1], len(recorded_rounds(3000))
        (array([ 6, 12, 18]), np.int64(3000), 500)
        >>> recorded_rounds(4)
        array([1, 2, 3, 4])
    """
    points = min(horizon, RECORDED)
    return -(-np.arange(1, points + 1, dtype=np.int64) * horizon // points)


class Invalid(NamedTuple):
    """The first loss of a round that is outside [0, 1], where every run has losses of its own.

    Attributes:
        place: counted by run, agent and arm; 0 where there is none.
        loss: its value.
    """

    place: Array
    loss: Array


class Curves(NamedTuple):
    """What is kept of every round, losses being averaged over all agents as in the paper.

    Attributes:
        incurred: mean over agents of the loss of the arm played, `[C, R]`.
        expected: mean over agents of the expected loss ⟨p_t, ℓ̄_t⟩, `[C, R]`.
        arm_loss: ℓ̄_t(i), `[C, K]`; `[C, K, R]` where every run has losses of its own.
        frequency: share of agents that played each arm, `[C, K, R]`.
        worst_excess: the largest excess of an agent: its expected loss so far less the agents'
            mean, `[C]`.
        valid: whether all losses were in [0, 1], `[C]`; always true where they are not checked.
        invalid: the first of each round that was not, `[C]`, where it cannot be found otherwise.
    """

    incurred: Array
    expected: Array
    arm_loss: Array
    frequency: Array
    worst_excess: Array
    valid: Array
    invalid: Invalid | None = None


class AgentTotals(NamedTuple):
    """Losses of each agent summed over the chunk, `[R, N]`."""

    incurred: Array
    expected: Array


class Record:
    """Cumulative losses, at the recorded rounds and so far.

    Every field is an array, so that a checkpoint is `vars(record)`.

    Args:
        horizon: T.
        runs: R.
        agents: N.
        arms: K.
        own_losses: whether every run has losses of its own.
        dtype: of the losses.
    """

    def __init__(
        self,
        horizon: int,
        runs: int,
        agents: int,
        arms: int,
        *,
        own_losses: bool = False,
        dtype: DTypeLike = np.float64,
    ) -> None:
        self.times = recorded_rounds(horizon)
        points = len(self.times)
        self.incurred = np.zeros((points, runs))
        self.expected = np.zeros((points, runs))
        losses = (arms, runs) if own_losses else (arms,)
        self.arm_loss = np.zeros((points, *losses))
        kept = horizon * math.prod(losses) <= MOST_ROUND_LOSSES
        self.round_loss = np.zeros((horizon if kept else 0, *losses), dtype)  # of every round
        self.plays = np.zeros((points, arms, runs))
        self.worst_excess = np.zeros(points)
        self.incurred_so_far = np.zeros(runs)
        self.expected_so_far = np.zeros(runs)
        self.arm_loss_so_far = np.zeros(losses)
        self.plays_so_far = np.zeros((arms, runs))
        self.agent_incurred = np.zeros((runs, agents))
        self.agent_expected = np.zeros((runs, agents))

    def add(self, first: int, curves: Curves, totals: AgentTotals) -> None:
        """Add the chunk whose first round is `first`."""
        last = first + len(curves.incurred) - 1
        points = np.flatnonzero((self.times >= first) & (self.times <= last))
        rows = self.times[points] - first
        for name, per_round in (
            ("incurred", curves.incurred),
            ("expected", curves.expected),
            ("arm_loss", curves.arm_loss),
            ("plays", curves.frequency),
        ):
            so_far = getattr(self, f"{name}_so_far")
            sums = so_far + np.cumsum(np.asarray(per_round, np.float64), axis=0)
            getattr(self, name)[points] = sums[rows]
            so_far[...] = sums[-1]
        if len(self.round_loss):
            self.round_loss[first - 1 : last] = curves.arm_loss
        self.worst_excess[points] = np.asarray(curves.worst_excess, np.float64)[rows]
        self.agent_incurred += np.asarray(totals.incurred)
        self.agent_expected += np.asarray(totals.expected)
