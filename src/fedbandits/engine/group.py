"""Groups: simulations that one compiled program plays together."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any

import jax
import numpy as np

from fedbandits.algorithms.base import AnyAlgorithm
from fedbandits.arrays import Array
from fedbandits.common.backend import on_cpu, playing_on
from fedbandits.problems.base import Problem
from fedbandits.results.record import AgentTotals, Curves, Record
from fedbandits.results.snapshots import Shot, Snapshots
from fedbandits.simulation.simulation import Simulation

from .chunk_sizes import Chunking, chunking
from .compiled import LARGE, compiled
from .devices import Spread
from .executors.choice import ExecutionPlan, ExecutorChoice, Over, choose
from .executors.program import Carry, Chunk, play_chunk
from .recording.leading_arms import look
from .stages.stages import Stages


@dataclass(frozen=True, eq=False)
class Group:
    """Simulations on one network, ready to be played together.

    Attributes:
        simulations: the simulations, in order.
        over: in what they differ; None for a single simulation.
        algorithm: the algorithm, set up; over algorithms, with numbers along a first axis.
        problem: the losses; over draws, with arrays along a first axis.
        stages: exchange and conditions.
        carry: the state before round 1; of several simulations along a first axis.
        seed: the seed of the agents' randomness; over draws `[D]`.
        where: the placement of the arrays on devices.
        records: the records to fill, one for each simulation.
        snapshots: the snapshots to fill, one for each simulation; empty if none are recorded.
        sent: the bytes of each leaf of one agent's message.
        executor: the name of the executor to use; None for the fastest one.
    """

    simulations: tuple[Simulation, ...]
    over: Over | None
    algorithm: AnyAlgorithm
    problem: Problem
    stages: Stages
    carry: Carry
    seed: Array
    where: Spread
    records: tuple[Record, ...]
    snapshots: tuple[Snapshots, ...]
    sent: dict[str, int]
    executor: str | None = None

    @property
    def first(self) -> Simulation:
        """The first simulation: all of them share its sizes, network and conditions."""
        return self.simulations[0]

    @property
    def identity(self) -> dict[str, Any]:
        """The description by which a checkpoint is known."""
        times = len(self.snapshots[0].times) if self.snapshots else None
        each = [identity_of(simulation, times) for simulation in self.simulations]
        return each[0] if self.over is None else {"batch": each}

    @cached_property
    def plan(self) -> ExecutionPlan:
        """The facts that executors compare with their abilities."""
        first = self.first
        with playing_on(self.where.platform):
            return ExecutionPlan(
                first.problem,
                first.ready,
                self.stages,
                self.carry.state,
                self.where,
                len(self.simulations),
                self.over,
                chunking(first.problem, *self._sizes).ahead,
            )

    @cached_property
    def choice(self) -> ExecutorChoice:
        """The executor that plays the group, and why no faster one does."""
        with playing_on(self.where.platform):
            return choose(self.plan, self.executor)

    def describe(self) -> dict[str, Any]:
        """Return how the group is played, as plain data: float32 may round by it."""
        where = {"platform": self.where.platform, **dict(self.where.mesh.shape)}
        return {**self.choice.describe(), "devices": where, "simulations": len(self.simulations)}

    @cached_property
    def chunks(self) -> Chunking:
        """The chunks of rounds, as the executor plays them."""
        name = self.choice.executor.name
        with playing_on(self.where.platform):
            sizes, fused, tiled = self._sizes, name == "kernels", name == "tiles"
            return chunking(self.first.problem, *sizes, fused=fused, tiled=tiled)

    @property
    def _sizes(self) -> tuple[int, int, int]:
        """Runs of all simulations, draws of a group, and messages that may be lost."""
        count, gossip = len(self.simulations), self.first.gossip
        messages = 0 if gossip is None or gossip.faults is None else len(gossip.faults.loss)
        return self.where.runs * count, count if self.over == "draws" else 1, messages

    @property
    def program(self) -> Callable[..., Any]:
        """The compiled program of a chunk; it takes the arguments of `play_chunk`."""
        size = sum(np.size(leaf) for leaf in jax.tree.leaves(self.carry.state))
        large = on_cpu() and size >= LARGE
        if self.over is None:
            return compiled(play_chunk, ("chunk",), "carry", large=large)
        return partial(
            compiled(play_batch, ("chunk", "over"), "carries", large=large), over=self.over
        )

    def look(self, stages: Stages, carry: Carry, done: int) -> Shot:
        """Return snapshots of all simulations after round `done`; not over draws."""
        arguments = (self.algorithm, stages, carry.state, np.int32(done + 1), self.seed)
        platform = self.where.platform
        found: Shot = look(*arguments, several=self.over is not None, platform=platform)
        return found

    def part(self, tree: Any, place: int) -> Any:
        """Return the part of one simulation of what was computed for all of them."""
        return tree if self.over is None else jax.tree.map(lambda leaf: leaf[place], tree)


def identity_of(simulation: Simulation, snapshots: int | None) -> dict[str, Any]:
    """Return the identity of a simulation that keeps so many snapshots."""
    described = simulation.describe()
    return described if snapshots is None else {**described, "snapshots": snapshots}


def stacked(trees: Sequence[Any]) -> Any:
    """Return one tree whose leaves hold those of all trees along a first axis."""
    return jax.tree.map(lambda *leaves: np.stack(leaves), *trees)


_AXES: dict[Over, tuple[int | None, ...]] = {
    "algorithms": (0, None, None, 0, None, None),
    "draws": (None, None, 0, 0, None, 0),
}
"""Along which axis the arguments of `play_chunk` differ."""


def play_batch(
    algorithms: AnyAlgorithm,
    stages: Stages,
    losses: Problem | Array,
    carries: Carry,
    first: Array,
    seeds: Array,
    *,
    chunk: Chunk,
    over: Over,
) -> tuple[Carry, Curves, AgentTotals]:
    """Play a chunk of several simulations, along a first axis of what they differ in."""
    play = jax.vmap(partial(play_chunk, chunk=chunk), in_axes=_AXES[over])
    carries, curves, totals = play(algorithms, stages, losses, carries, first, seeds)
    if over == "draws":  # what does not leave the program is not computed
        curves = curves._replace(incurred=None, frequency=None, worst_excess=None)
    return carries, curves, totals
