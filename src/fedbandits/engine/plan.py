"""How a run is cut into chunks of rounds: compiled once, short enough to stop and to watch."""

from __future__ import annotations

from typing import NamedTuple

from fedbandits.common.backend import on_cpu
from fedbandits.problems.base import Problem

# Updates of one number (an arm of an agent of a run) per chunk: about half a second of work.
_CELLS_CPU = 2**24
_CELLS_ACCELERATOR = 2**32
_ROUNDS = 512
# Losses of a block held at once, 64 MiB of float32; beyond that they are made round by round.
LOSSES = 2**24
# Plays of a block held at once: beside the state of a large network, little.
_PLAYS = 2**21


class Plan(NamedTuple):
    """The chunks of a run.

    Attributes:
        horizon: T.
        rounds: rounds in every chunk but possibly the last.
        block: rounds of a chunk played before what they leave is summed up; divides `rounds`.
        ahead: whether the losses of a block are generated all at once.
    """

    horizon: int
    rounds: int
    block: int
    ahead: bool

    def after(self, done: int) -> tuple[int, int]:
        """Rounds in the chunk that follows round `done`, and in its blocks."""
        rounds = min(self.rounds, self.horizon - done)
        if rounds > self.block:
            return rounds - rounds % self.block, self.block
        return rounds, rounds


def plan(problem: Problem, runs: int) -> Plan:
    """Chunks for this problem and number of runs."""
    table, cpu = problem.agents * problem.arms, on_cpu()
    held = max(1, _PLAYS // (runs * problem.agents))
    cells = _CELLS_CPU if cpu else _CELLS_ACCELERATOR
    most = min(_ROUNDS, problem.horizon, max(1, cells // (table * runs)))
    if cpu:  # one block: a loop inside a loop takes twice as long there
        most = min(most, held)
    if not problem.traced:
        most = max(1, min(most, LOSSES // table))
    rounds = _even(problem.horizon, most)
    block = _even(rounds, min(rounds, held))
    return Plan(problem.horizon, rounds - rounds % block, block, ahead=block * table <= LOSSES)


def _even(horizon: int, most: int) -> int:
    """At most `most` rounds, a divisor of the horizon if one is near: a remainder compiles anew.

    Example:
        >>> _even(3000, 512), _even(1009, 512), _even(5, 512)
        (500, 505, 5)
    """
    for rounds in range(most, most // 2, -1):
        if horizon % rounds == 0:
            return rounds
    chunks = -(-horizon // most)
    return -(-horizon // chunks)
