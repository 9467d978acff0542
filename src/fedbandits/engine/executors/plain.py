"""The plain executor: all agents play a round at once, in arrays over arms, runs and agents."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar

import jax

from fedbandits.arrays import Array, expectation
from fedbandits.common.backend import on_cpu
from fedbandits.engine.recording.summing_up import Plays
from fedbandits.engine.stages.losses import RoundLosses
from fedbandits.engine.stages.round import RoundUniforms, arm_type, draw_uniforms, play_round
from fedbandits.results.record import Curves

from .program import Before, Program, Stretch

if TYPE_CHECKING:
    from .choice import ExecutionPlan


@dataclass(frozen=True)
class Plain:
    """Plays every simulation; XLA alone decides how."""

    name: ClassVar[str] = "plain"

    def supports(self, plan: ExecutionPlan) -> None:
        """Return None: every plan is supported."""

    def fitted(self, plan: ExecutionPlan) -> Plain:  # noqa: ARG002
        """Return the executor for a plan that it supports."""
        return self

    def stretch(self, program: Program, before: Before, now: Stretch) -> tuple[Before, Curves]:
        """Play a stretch; what is known before it is drawn for all of its rounds at once."""
        (state, _, memory), times, dtype = before[0], now.times, before[0].excess.dtype
        uniforms = jax.vmap(
            lambda t: draw_uniforms(
                program.algorithm, program.stages, program.seed, t, program.shape, dtype
            )
        )(times)
        known = program.losses_ahead(now, dtype)
        play = partial(_round, program)
        (state, memory), (action, expected, found) = jax.lax.scan(
            play, (state, memory), (times, uniforms, known), unroll=_unrolled()
        )
        about = known[1:] if known is not None else found
        return program.summed(state, memory, before, Plays(action, expected, *about))


def _round(
    program: Program,
    before: tuple[Any, Any],
    now: tuple[Array, RoundUniforms, RoundLosses | None],
) -> tuple[tuple[Any, Any], tuple[Array, Array, Any]]:
    """Play one round and return what is kept of it."""
    (state, memory), (t, uniforms, known) = before, now
    dtype = uniforms.action.dtype
    losses = program.losses.of(t, dtype, memory) if known is None else known
    state, play = play_round(program.algorithm, program.stages, state, losses.values, uniforms, t)
    memory = program.losses.after(memory, play.action, t)
    action = play.action.astype(arm_type(play.p.shape[0]))
    # What was known before the round need not be carried out of it.
    found = losses[1:] if known is None else None
    mean = losses.mean if memory is None else losses.mean[..., None]
    return (state, memory), (action, expectation(play.p, mean), found)


def _unrolled() -> int:
    """Return rounds in one turn of the loop: with two, an accelerator need not copy the state."""
    return 1 if on_cpu() else 2
