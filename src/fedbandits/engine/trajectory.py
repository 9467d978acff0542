"""Every round in full, for small instances: what tests and checks look at."""

from __future__ import annotations

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from fedbandits.algorithms.base import AnyAlgorithm
from fedbandits.arrays import Array
from fedbandits.gossip.base import Gossip
from fedbandits.privacy.response import RandomisedResponse
from fedbandits.problems.base import Problem

from .executors.chunk import Carry, RoundUniforms, draw_uniforms, play_round
from .preparation import DType, precision, prepare
from .stages.adaptive_losses import losses_given, watched
from .stages.conditions import Conditions
from .stages.liars import Liars
from .stages.pending_messages import own_state


class Trajectory(NamedTuple):
    """What happened in each of T rounds of R runs, in the paper's order of axes.

    Attributes:
        distribution: p_t^v(i), `[T, R, N, K]`.
        action: a_t^v, `[T, R, N]`.
        messages: what each agent sent, lies included, by leaf, `[T, R, N, K]`.
        uniforms: the randomness used: `[T, R, N]` for actions, and what else there was.
        losses: ℓ_t^v(i), `[T, R, N, K]`; the same in all runs unless the problem watches.
    """

    distribution: np.ndarray[Any, Any]
    action: np.ndarray[Any, Any]
    messages: dict[str, np.ndarray[Any, Any]]
    uniforms: RoundUniforms
    losses: np.ndarray[Any, Any]


def trajectory(
    problem: Problem,
    algorithm: AnyAlgorithm,
    gossip: Gossip | None = None,
    *,
    runs: int = 1,
    seed: int = 0,
    dtype: DType = "float64",
    privacy: RandomisedResponse | None = None,
    liars: Liars | None = None,
) -> Trajectory:
    """Play the whole horizon with the engine's own round, keeping everything."""
    with precision(dtype):
        game = prepare(
            problem,
            algorithm,
            gossip,
            runs,
            seed,
            dtype=dtype,
            devices=1,
            privacy=privacy,
            liars=liars,
        )
        given: Any = problem
        if not problem.adaptive:
            given = problem.block(1, problem.horizon).astype(dtype)
        kept = _play(
            game.algorithm,
            game.conditions,
            game.carry,
            given,
            np.uint32(seed),
            runs=runs,
            horizon=problem.horizon,
        )
        p, action, messages, losses, uniforms = jax.tree.map(np.asarray, kept)
    losses = losses.reshape(problem.horizon, problem.arms, -1, problem.agents)
    return Trajectory(
        np.moveaxis(p, 1, -1),
        action,
        {name: np.moveaxis(leaf, 1, -1) for name, leaf in messages.items()},
        uniforms,
        np.broadcast_to(
            np.moveaxis(losses, 1, -1), (problem.horizon, runs, problem.agents, problem.arms)
        ),
    )


def play_given(
    algorithm: AnyAlgorithm,
    conditions: Conditions,
    state: Any,
    losses: Array,
    uniforms: RoundUniforms,
) -> Any:
    """Rounds 1, ..., T with these losses `[T, N, K]` and uniforms `[T, ...]`, to be compiled.

    Returns:
        distributions `[T, K, R, N]`, actions `[T, R, N]` and messages `[T, M, R, N]` by leaf.
    """
    *kept, _ = play_rounds(algorithm, conditions, Carry(state, None), losses, uniforms)
    return tuple(kept)


def play_rounds(
    algorithm: AnyAlgorithm,
    conditions: Conditions,
    start: Carry,
    losses: Problem | Array,
    uniforms: RoundUniforms,
) -> Any:
    """`play_given`, with losses `[T, K, N]`, or `[T, K, R, N]` of a problem that watches."""
    times = jnp.arange(1, uniforms.action.shape[0] + 1, dtype="int32")
    tables = None if isinstance(losses, Problem) else losses

    def step(
        before: tuple[Any, Any], now: tuple[Array, Array | None, RoundUniforms]
    ) -> tuple[Any, Any]:
        (state, memory), (t, table, drawn) = before, now
        if table is None:
            values = losses_given(losses, t, memory).astype(drawn.action.dtype)
        else:
            values = table.T
        after, play = play_round(algorithm, conditions, state, values, drawn, t)
        if memory is not None:
            memory = watched(losses, memory, play.action, t)
        sent = {
            name: conditions.told(algorithm.leaves[name], leaf, t)
            for name, leaf in algorithm.message(own_state(state)).items()
        }
        return (after, memory), (play.p, play.action, sent, values)

    return jax.lax.scan(step, (start.state, start.memory), (times, tables, uniforms))[1]


def _scan(
    algorithm: AnyAlgorithm,
    conditions: Conditions,
    start: Carry,
    losses: Problem | Array,
    seed: Array,
    *,
    runs: int,
    horizon: int,
) -> Any:
    times = jnp.arange(1, horizon + 1, dtype="int32")
    (agents,), dtype = start.excess.shape, start.excess.dtype
    uniforms = jax.vmap(
        lambda t: draw_uniforms(algorithm, conditions, seed, t, runs, agents, dtype)
    )(times)
    return *play_rounds(algorithm, conditions, start, losses, uniforms), uniforms


_play = jax.jit(_scan, static_argnames=("runs", "horizon"))
