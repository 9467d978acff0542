"""How a run is cut into chunks of rounds: compiled once, short enough to stop and to watch."""

from __future__ import annotations

from typing import NamedTuple

from fedbandits.common.backend import on_cpu
from fedbandits.problems.base import Problem

from .recording.summing_kernel import worth_a_kernel

# Updates of one number (an arm of an agent of a run) per chunk: about half a second of work, and on
# an accelerator more than the host needs meanwhile to add up what is kept of every agent.
_UPDATES_CPU = 2**24
_UPDATES_ACCELERATOR = 2**34
# Rounds of a chunk played in tiles, where their plays can be held: they share the memory that the
# system hands to every program anew, page by page. Rounds played at once would take more of it.
_FEWEST_IN_TILES = 2
MOST_ROUNDS = 512
# Losses of a stretch held at once, 64 MiB of float32; beyond that they are made round by round.
MOST_LOSSES_HELD = 2**24
# Plays of a stretch held at once: beside the state of a large network, little.
_MOST_PLAYS_HELD = 2**21
# Rounds whose losses are made ahead rather than those of a longer stretch one by one.
_WORTH_A_STRETCH = 16
# Messages of a stretch whose fate is drawn at once, where links are bad: 64 MiB of float32.
_MOST_MESSAGES_HELD = 2**24


class Chunking(NamedTuple):
    """The chunks of a run.

    Attributes:
        horizon: T.
        rounds: rounds in every chunk but possibly the last.
        stretch: rounds of a chunk played before what they leave is summed up; divides `rounds`.
        ahead: whether the losses of a stretch are generated all at once.
    """

    horizon: int
    rounds: int
    stretch: int
    ahead: bool

    def after(self, done: int, end: int | None = None) -> tuple[int, int]:
        """Rounds in the chunk after round `done`, none beyond `end`, and in a stretch of it."""
        rounds = min(self.rounds, (self.horizon if end is None else end) - done)
        if rounds > self.stretch:
            return rounds - rounds % self.stretch, self.stretch
        return rounds, rounds


def chunking(
    problem: Problem,
    runs: int,
    draws: int = 1,
    messages: int = 0,
    *,
    fused: bool = False,
    tiled: bool = False,
) -> Chunking:
    """Chunks for this problem and number of runs, on so many draws of the losses at once.

    Args:
        problem: the losses.
        runs: R.
        draws: of the losses, played together.
        messages: those of a run and round whose fate is drawn.
        fused: whether kernels play the rounds, which changes nothing but the stretches.
        tiled: whether rounds are played in tiles.
    """
    numbers, cpu = problem.agents * problem.arms, on_cpu()
    losses = numbers * draws  # of one round
    held, large = max(1, _MOST_PLAYS_HELD // (runs * problem.agents)), False
    if not cpu:
        held = max(2, held)
        if (fit := MOST_LOSSES_HELD // losses) >= _WORTH_A_STRETCH and not problem.adaptive:
            held = min(held, fit)  # made ahead, losses take no steps of the rounds themselves
        elif large := fit < 2:
            held = max(held, _worth_holding(runs, problem, fused))
    if messages:
        held = max(1, min(held, _MOST_MESSAGES_HELD // (runs * messages)))
    updates = _UPDATES_CPU if cpu else _UPDATES_ACCELERATOR
    fewest = _FEWEST_IN_TILES if tiled else 1
    most = min(MOST_ROUNDS, problem.horizon, max(fewest, updates // (numbers * runs)))
    if cpu:  # one stretch: a loop inside a loop takes twice as long there
        most = min(most, held)
    if not problem.traced:
        most = max(1, min(most, MOST_LOSSES_HELD // losses))
    rounds = _even(problem.horizon, most)
    stretch = _even(rounds, min(rounds, held))
    if large and stretch > 1:
        stretch -= stretch % 2  # an even number of rounds need not copy the state back
    ahead = not problem.adaptive and stretch * losses <= MOST_LOSSES_HELD
    return Chunking(problem.horizon, rounds - rounds % stretch, stretch, ahead)


def _worth_holding(runs: int, problem: Problem, fused: bool) -> int:
    """Rounds of a large network: what they leave takes little more than half of its state's memory.

    A kernel that sums them up needs their arms and expected losses only, and so takes more of them.
    """
    longer = problem.arms // 4 * 2
    if fused and worth_a_kernel((longer, runs, problem.agents), problem.arms):
        return longer
    return problem.arms // 8 * 2


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
