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

from .conditions import Conditions
from .liars import Liars
from .preparation import DType, precision, prepare
from .rounds import RoundUniforms, draw_uniforms, play_round
from .under_way import own_state


class Trajectory(NamedTuple):
    """What happened in each of T rounds of R runs, in the paper's order of axes.

    Attributes:
        distribution: p_t^v(i), `[T, R, N, K]`.
        action: a_t^v, `[T, R, N]`.
        messages: what each agent sent, lies included, by leaf, `[T, R, N, K]`.
        uniforms: the randomness used: `[T, R, N]` for actions, and what else there was.
    """

    distribution: np.ndarray[Any, Any]
    action: np.ndarray[Any, Any]
    messages: dict[str, np.ndarray[Any, Any]]
    uniforms: RoundUniforms


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
        losses = problem.block(1, problem.horizon).astype(dtype)
        kept = _play(
            game.algorithm, game.conditions, game.carry.state, losses, np.uint32(seed), runs=runs
        )
        p, action, messages, uniforms = jax.tree.map(np.asarray, kept)
    return Trajectory(
        np.moveaxis(p, 1, -1),
        action,
        {name: np.moveaxis(leaf, 1, -1) for name, leaf in messages.items()},
        uniforms,
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
    times = jnp.arange(1, losses.shape[0] + 1, dtype="int32")

    def step(before: Any, now: tuple[Array, Array, RoundUniforms]) -> tuple[Any, Any]:
        t, table, drawn = now
        after, play = play_round(algorithm, conditions, before, table.T, drawn, t)
        sent = {
            name: conditions.told(algorithm.leaves[name], leaf, t)
            for name, leaf in algorithm.message(own_state(before)).items()
        }
        return after, (play.p, play.action, sent)

    return jax.lax.scan(step, state, (times, losses, uniforms))[1]


def _scan(
    algorithm: AnyAlgorithm,
    conditions: Conditions,
    state: Any,
    losses: Array,
    seed: Array,
    *,
    runs: int,
) -> Any:
    horizon, agents, _ = losses.shape
    times = jnp.arange(1, horizon + 1, dtype="int32")
    uniforms = jax.vmap(
        lambda t: draw_uniforms(algorithm, conditions, seed, t, runs, agents, losses.dtype)
    )(times)
    return *play_given(algorithm, conditions, state, losses, uniforms), uniforms


_play = jax.jit(_scan, static_argnames=("runs",))
