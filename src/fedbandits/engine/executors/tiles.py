"""The executor for many agents on a CPU: a round is played tile by tile, each in a core's cache."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar

import jax
import jax.numpy as jnp

from fedbandits.arrays import Array
from fedbandits.common.backend import on_cpu
from fedbandits.engine.recording.summing_up import Plays
from fedbandits.results.record import Curves

from .program import Before, Program, Stretch
from .tiled_round import agents_in_cache, losses_of_round, round_in_tiles

if TYPE_CHECKING:
    from .choice import ExecutionPlan


@dataclass(frozen=True)
class Tiles:
    """Plays rounds in tiles, which draw their own randomness and losses.

    Attributes:
        tile: the number of agents of a tile; 0 before it is known.
    """

    name: ClassVar[str] = "tiles"

    tile: int = 0

    def supports(self, plan: ExecutionPlan) -> str | None:
        """Return why a plan cannot be played in tiles, or None."""
        problem, algorithm = plan.problem, plan.algorithm
        reason = None
        if not on_cpu():
            reason = "only a CPU plays in tiles"
        elif problem.adaptive:
            reason = "the losses are adaptive"
        elif not problem.pointwise:
            reason = "the losses cannot be drawn one by one"
        elif problem.check != "never":
            reason = "the losses have to be checked"
        elif algorithm.feedback != "bandit":
            reason = f"{plan.kind} sees the losses of all arms"
        elif algorithm.noised:
            reason = f"{plan.kind} adds noise"
        elif plan.messages_pending:
            reason = "messages take more than one round"
        elif plan.stages.hooks:
            reason = plan.condition_reason
        elif agents_in_cache(problem.arms, plan.where, plan.simulations) is None:
            reason = "all agents fit in the caches, or too few agents would make a tile"
        return reason

    def fitted(self, plan: ExecutionPlan) -> Tiles:
        """Return the executor with the number of agents of a tile."""
        tile = agents_in_cache(plan.problem.arms, plan.where, plan.simulations)
        assert tile is not None
        return Tiles(tile)

    def stretch(self, program: Program, before: Before, now: Stretch) -> tuple[Before, Curves]:
        """Play a stretch of rounds."""
        state, excess, memory = before[0]
        play = partial(self._round, program, excess.dtype)
        state, found = jax.lax.scan(play, state, now.times)
        valid = jnp.ones(now.times.shape, bool)
        return program.summed(state, memory, before, Plays(*found, valid, None))

    def _round(
        self, program: Program, dtype: Any, state: Any, t: Array
    ) -> tuple[Any, tuple[Array, Array, Array]]:
        losses = losses_of_round(program.losses.source, t, self.tile, dtype)
        sizes = program.chunk.runs, self.tile
        state, action, expected = round_in_tiles(
            program.algorithm, program.stages, losses, state, program.seed, t, sizes
        )
        return state, (action, expected, losses.mean)
