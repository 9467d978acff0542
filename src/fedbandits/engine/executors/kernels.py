"""The executor for GPUs: one kernel plays a round, and kernels sum up what rounds leave."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import jax
import jax.numpy as jnp
import numpy as np

from fedbandits.arrays import Array
from fedbandits.common import checks
from fedbandits.engine.recording.summing_up import Plays
from fedbandits.engine.stages.pending_messages import relay
from fedbandits.results.record import Curves

from . import kernel_round
from .kernel_support import kernels
from .program import Before, Program, Stretch

if TYPE_CHECKING:
    from .choice import Plan

_HOOKS = frozenset({"outgoing", "excluded"})
"""Hooks that kernels allow if losses are known: XLA then combines messages before the kernel."""


@dataclass(frozen=True)
class Kernels:
    """Plays rounds as one kernel each, which draws its own randomness and losses."""

    name: ClassVar[str] = "kernels"

    def supports(self, plan: Plan) -> str | None:
        """Return why kernels cannot play a plan, or None."""
        if not kernels():
            return "kernels need a GPU with Triton"
        if plan.over is not None:
            return "several simulations share the program"
        if plan.where.mesh.size > 1:
            return "the arrays are spread over several devices"
        return self._of_problem(plan) or self._of_algorithm(plan)

    def _of_problem(self, plan: Plan) -> str | None:
        problem, known = plan.problem, plan.ahead or not plan.problem.traced
        if problem.arms > kernel_round.MOST_ARMS:
            return f"there are more than {kernel_round.MOST_ARMS} arms"
        if problem.adaptive:
            return "the losses are adaptive"
        if not known and not problem.pointwise:
            return "the losses cannot be drawn one by one"
        if not known and problem.check != "never":
            return "the losses have to be checked"
        played = _HOOKS if known else frozenset()
        return plan.condition_reason if plan.stages.hooks - played else None

    def _of_algorithm(self, plan: Plan) -> str | None:
        algorithm, state = plan.algorithm, plan.own_state
        leaves = jax.tree.leaves(state)
        found = kernel_round.dtype_and_sizes(leaves)
        if found is None:
            return f"the state of {plan.kind} has no array over runs and agents"
        dtype, sizes = found
        if dtype not in kernel_round.TYPES:
            return f"kernels compute in float32, not in {dtype}"
        if algorithm.feedback != "bandit":
            return f"{plan.kind} sees the losses of all arms"
        if algorithm.noised:
            return f"{plan.kind} adds noise"
        shaped = all(np.ndim(x) in (0, 2, 3) and np.shape(x)[-2:] in ((), sizes) for x in leaves)
        if not shaped:
            return f"the state of {plan.kind} has arrays of other shapes"
        if sum(np.size(leaf) for leaf in leaves) > checks.INT32:
            return "the state has more than 2³¹ numbers"
        drawn = None if plan.ahead or not plan.problem.traced else plan.problem
        if kernel_round.triton_takes_round(algorithm, state, plan.problem.arms, drawn):
            return None
        return f"Triton cannot compile {plan.kind}"

    def fitted(self, plan: Plan) -> Kernels:  # noqa: ARG002
        """Return the executor for a plan that it supports."""
        return self

    def stretch(self, program: Program, before: Before, now: Stretch) -> tuple[Before, Curves]:
        """Play a stretch of rounds."""
        (state, _, memory), times, dtype = before[0], now.times, before[0].excess.dtype
        algorithm, stages = program.algorithm, program.stages
        known = program.losses_ahead(now, dtype)
        stretch = kernel_round.stretch_of(
            algorithm, program.losses.source, known, program.seed, times, dtype
        )

        def receive(state: Any, t: Array) -> tuple[dict[str, Array], Any]:
            drawn = stages.mixer.draw(program.seed, t, program.chunk.runs, dtype)
            return relay(algorithm, stages, state, drawn, t)

        state, plays = kernel_round.play_stretch(stretch, stages, state, *program.shape, receive)
        valid = jnp.ones(times.shape, bool) if known is None else known.valid
        found = Plays(*plays, stretch.mean, valid, None)
        return program.summed(state, memory, before, found, kernels=True)
