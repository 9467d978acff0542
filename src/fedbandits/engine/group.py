"""Groups: simulations that one compiled program plays together."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Literal

import jax
import numpy as np

from fedbandits.algorithms.base import AnyAlgorithm
from fedbandits.arrays import Array
from fedbandits.common.backend import on_cpu
from fedbandits.problems.base import Problem
from fedbandits.results.record import AgentTotals, Curves, Record
from fedbandits.results.snapshots import Shot, Snapshots
from fedbandits.simulation.simulation import Simulation

from .compiled import LARGE, compiled
from .devices import Spread
from .executors.chunk import Carry, Chunk, play_chunk
from .recording.leading_arms import look
from .stages.conditions import Conditions

Over = Literal["algorithms", "draws"]
"""In what simulations of a group differ: numbers of their algorithms, or draws of the losses."""


@dataclass(frozen=True, eq=False)
class Group:
    """Simulations on one network, ready to be played together.

    Attributes:
        simulations: the simulations, in order.
        over: in what they differ; None for a single simulation.
        algorithm: the algorithm, set up; over algorithms, with numbers along a first axis.
        problem: the losses; over draws, with arrays along a first axis.
        conditions: how messages are combined, which agents lie, which losses are private.
        carry: the state before round 1; of several simulations along a first axis.
        seed: the seed of the agents' randomness; over draws `[D]`.
        where: the placement of the arrays on devices.
        records: the records to fill, one for each simulation.
        snapshots: the snapshots to fill, one for each simulation; empty if none are recorded.
        sent: the bytes of each leaf of one agent's message.
    """

    simulations: tuple[Simulation, ...]
    over: Over | None
    algorithm: AnyAlgorithm
    problem: Problem
    conditions: Conditions
    carry: Carry
    seed: Array
    where: Spread
    records: tuple[Record, ...]
    snapshots: tuple[Snapshots, ...]
    sent: dict[str, int]

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

    def play(
        self,
        conditions: Conditions,
        losses: Problem | Array,
        carry: Carry,
        first: int,
        chunk: Chunk,
    ) -> tuple[Carry, Curves, AgentTotals]:
        """Play a chunk of all simulations; draws leave out the curves that nobody reads."""
        arguments = (self.algorithm, conditions, losses, carry, np.int32(first), self.seed)
        found: tuple[Carry, Curves, AgentTotals]
        size = sum(np.size(leaf) for leaf in jax.tree.leaves(carry.state))
        large = on_cpu() and size >= LARGE
        if self.over is None:
            play = compiled(play_chunk, ("chunk",), "carry", large=large)
            found = play(*arguments, chunk=chunk)
        else:
            play = compiled(play_batch, ("chunk", "over"), "carries", large=large)
            found = play(*arguments, chunk=chunk, over=self.over)
        return found

    def look(self, conditions: Conditions, carry: Carry, done: int) -> Shot:
        """Return snapshots of all simulations after round `done`; not over draws."""
        arguments = (self.algorithm, conditions, carry.state, np.int32(done + 1), self.seed)
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
    conditions: Conditions,
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
    carries, curves, totals = play(algorithms, conditions, losses, carries, first, seeds)
    if over == "draws":  # what does not leave the program is not computed
        curves = curves._replace(incurred=None, frequency=None, worst_excess=None)
    return carries, curves, totals
