"""Games that one compiled program plays together: several algorithms, or draws of the losses."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any, Literal, NamedTuple

import jax
import numpy as np

from fedbandits.algorithms.base import AnyAlgorithm
from fedbandits.arrays import Array
from fedbandits.common import checks
from fedbandits.common.backend import on_cpu
from fedbandits.problems.base import Problem
from fedbandits.results.record import AgentTotals, Curves
from fedbandits.results.snapshots import Shot

from .compiled import LARGE, compiled
from .executors.chunk import Carry, Chunk, play_chunk
from .preparation import Game
from .pytrees import register
from .recording.leading_arms import look
from .stages.adaptive_losses import first_memory
from .stages.conditions import Conditions

Over = Literal["algorithms", "draws"]


class Batch(NamedTuple):
    """Games on one network, played together.

    Attributes:
        games: one by one; over draws the first, from which the others differ in losses and seeds.
        size: how many are played.
        over: in what they differ; None for a single game.
        algorithm: what each agent does; over algorithms, with its numbers along a first axis.
        problem: the losses; over draws, with its arrays along a first axis.
        carry: the state before round 1; of several games along a first axis.
        seed: of the agents' randomness; over draws `[D]`.
    """

    games: tuple[Game, ...]
    size: int
    over: Over | None
    algorithm: AnyAlgorithm
    problem: Problem
    carry: Carry
    seed: Array

    def play(
        self,
        conditions: Conditions,
        losses: Problem | Array,
        carry: Carry,
        first: int,
        chunk: Chunk,
    ) -> tuple[Carry, Curves, AgentTotals]:
        """A chunk of all games; over draws without what nobody reads."""
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
        """What agents of all games would do in the round after `done`; not over draws."""
        arguments = (self.algorithm, conditions, carry.state, np.int32(done + 1), self.seed)
        platform = self.games[0].where.platform
        found: Shot = look(*arguments, several=self.over is not None, platform=platform)
        return found

    def part(self, tree: Any, place: int) -> Any:
        """What belongs to one of the games in what was found for all."""
        return tree if self.over is None else jax.tree.map(lambda leaf: leaf[place], tree)


def single(game: Game) -> Batch:
    """One game, by a program of its own."""
    return Batch((game,), 1, None, game.algorithm, game.problem, game.carry, np.uint32(game.seed))


def batch_of_algorithms(games: Sequence[Game]) -> Batch:
    """Algorithms that differ in numbers alone, on the same losses and with the same seed."""
    algorithms = [game.algorithm for game in games]
    if not alike(algorithms):
        raise ValueError(f"only algorithms of one kind can be batched, not {algorithms!r}")
    first, carry = games[0], _stacked([game.carry for game in games])
    every, seed = _stacked(algorithms), np.uint32(first.seed)
    return Batch(tuple(games), len(games), "algorithms", every, first.problem, carry, seed)


def batch_of_draws(first: Game, problems: Sequence[Problem]) -> Batch:
    """A game on its own losses and on others that differ in seeds and arrays alone.

    What was found by tracing the first holds for the others, and is not found again.

    Args:
        first: on the first of the problems; draw d has the seed of this game, plus d.
        problems: the losses, draw by draw.
    """
    kind: Any = jax.tree.structure(first.problem)
    for problem in problems[1:]:
        if kind != jax.tree.structure(problem):
            raise ValueError(
                f"{problem!r} differs from {first.problem!r} in more than seeds and arrays"
            )
    if any(problem.check == "before" or not problem.traced for problem in problems):
        raise ValueError(f"only losses that JAX makes can be batched, not {problems[0]!r}")
    told: Any = first.problem.actions
    others: list[Any] = [] if told is None else [problem.actions for problem in problems]
    if any(not np.array_equal(told, other) for other in others):
        raise ValueError(
            "the draws have different actions, which an algorithm is told once for all; simulate "
            "them one by one"
        )
    draws = len(problems)
    checks.seed32(first.seed + draws - 1, "seed + draws - 1")
    seeds = np.arange(first.seed, first.seed + draws).astype(np.uint32)
    carry = jax.tree.map(lambda x: np.broadcast_to(x, (draws, *np.shape(x))), first.carry)
    runs, dtype = first.where.runs, first.config["dtype"]
    memories = [first_memory(problem, runs, dtype) for problem in problems]
    carry = carry._replace(memory=_stacked(memories))
    return Batch((first,), draws, "draws", first.algorithm, _stacked(problems), carry, seeds)


def alike(algorithms: Sequence[AnyAlgorithm]) -> bool:
    """Whether algorithms, set up, differ in numbers alone, so that one program plays them all."""
    for algorithm in algorithms:
        register(algorithm)
    kinds = {
        (jax.tree.structure(each), tuple(np.shape(leaf) for leaf in jax.tree.leaves(each)))
        for each in algorithms
    }
    return len(kinds) == 1


def _stacked(trees: Sequence[Any]) -> Any:
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
    """`play_chunk` for several games, along a first axis of what they differ in."""
    play = jax.vmap(partial(play_chunk, chunk=chunk), in_axes=_AXES[over])
    carries, curves, totals = play(algorithms, conditions, losses, carries, first, seeds)
    if over == "draws":  # what does not leave the program is not made
        curves = curves._replace(incurred=None, frequency=None, worst_excess=None)
    return carries, curves, totals
