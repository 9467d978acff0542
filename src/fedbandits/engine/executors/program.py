"""The compiled program of a chunk of rounds, which an executor plays stretch by stretch."""

from __future__ import annotations

from functools import partial
from typing import Any, ClassVar, NamedTuple, Protocol

import jax
import jax.numpy as jnp

from fedbandits.algorithms.base import AnyAlgorithm
from fedbandits.arrays import Array
from fedbandits.engine.devices import Spread
from fedbandits.engine.recording.summing_up import Plays, sum_up
from fedbandits.engine.stages.losses import Losses, RoundLosses, losses_stage
from fedbandits.engine.stages.stages import Stages
from fedbandits.problems.base import Problem
from fedbandits.results.record import AgentTotals, Curves

_traces = 0


def compilations() -> int:
    """Return how many chunk programs have been compiled so far in this process."""
    return _traces


class Carry(NamedTuple):
    """What one chunk passes on to the next.

    Attributes:
        state: the algorithm's state.
        excess: run-averaged expected loss of each agent so far, less its mean over agents, `[N]`.
        memory: the memory of an adaptive problem in each run, `[R, ...]`; None otherwise.
    """

    state: Any
    excess: Array
    memory: Any = None


class Stretch(NamedTuple):
    """The rounds of a stretch.

    Attributes:
        times: the rounds, `[C]`.
        given: their losses, `[C, K, N]`, if they come with the chunk.
        request: reserved for requests that agents decide on: a segment, allowed arms, a slate.
    """

    times: Array
    given: Array | None = None
    request: Any = None


Before = tuple[Carry, AgentTotals]
"""The carry and the totals before a stretch."""


class Executor(Protocol):
    """One way to play the rounds of a stretch. Executors are static parts of a program."""

    name: ClassVar[str]

    def stretch(self, program: Program, before: Before, now: Stretch) -> tuple[Before, Curves]:
        """Play a stretch of rounds; `program.summed` then sums up what they leave."""


class Chunk(NamedTuple):
    """What a chunk's program is compiled for.

    Attributes:
        runs: R.
        rounds: C.
        stretch: rounds played before what they leave is summed up; divides C.
        ahead: whether the losses of a stretch are drawn at once: faster where they fit in memory.
        checked: whether losses outside [0, 1] are looked for.
        where: the placement of the carry on devices.
        executor: plays the rounds.
    """

    runs: int
    rounds: int
    stretch: int
    ahead: bool
    checked: bool
    where: Spread
    executor: Executor


def play_chunk(
    algorithm: AnyAlgorithm,
    stages: Stages,
    losses: Problem | Array,
    carry: Carry,
    first: Array,
    seed: Array,
    *,
    chunk: Chunk,
) -> tuple[Carry, Curves, AgentTotals]:
    """Play rounds first, ..., first + C - 1; compiled as one program.

    Args:
        algorithm: the behaviour of each agent; its numbers are traced, so a sweep compiles once.
        stages: exchange and conditions, traced.
        losses: a traceable problem, or the losses of these rounds, `[C, N, K]`.
        carry: the carry of the chunk before; donated.
        first: the first round.
        seed: the seed of the agents' randomness.
        chunk: the sizes and the executor.
    """
    global _traces
    _traces += 1
    source = losses_stage(losses, checked=chunk.checked, recorded=stages.recorded)
    program = Program(algorithm, stages, source, seed, chunk, carry.excess.shape[0])
    times = first + jnp.arange(chunk.rounds, dtype="int32").reshape(-1, chunk.stretch)
    given = None
    if not isinstance(losses, Problem):
        given = jnp.swapaxes(losses, 1, 2).reshape(-1, chunk.stretch, *losses.shape[:0:-1])
    zeros = jnp.zeros((chunk.runs, program.agents), carry.excess.dtype)
    start = (carry, AgentTotals(zeros, zeros))
    play = partial(chunk.executor.stretch, program)
    (carry, totals), curves = jax.lax.scan(play, start, Stretch(times, given))
    carry = chunk.where.keep(carry)
    curves = jax.tree.map(lambda x: x.reshape(chunk.rounds, *x.shape[2:]), curves)
    return carry, curves, totals


class Program(NamedTuple):
    """What stays the same in all rounds of a chunk."""

    algorithm: AnyAlgorithm
    stages: Stages
    losses: Losses
    seed: Array
    chunk: Chunk
    agents: int

    @property
    def shape(self) -> tuple[int, int]:
        """R and N."""
        return self.chunk.runs, self.agents

    def losses_ahead(self, now: Stretch, dtype: Any) -> RoundLosses | None:
        """Return the losses of a stretch where they are given, or drawn at once."""
        if now.given is None and not self.chunk.ahead:
            return None
        return self.losses.ahead(now.times, now.given, dtype)

    def summed(
        self, state: Any, memory: Any, before: Before, plays: Plays, *, kernels: bool = False
    ) -> tuple[Before, Curves]:
        """Return carry, totals and curves after the rounds of a stretch."""
        carry, totals = before
        excess, totals, curves = sum_up(plays, carry.excess, totals, self.stages, kernels=kernels)
        return (Carry(state, excess, memory), totals), curves
