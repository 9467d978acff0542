"""Every round in full, for small instances: what tests and checks look at."""

from __future__ import annotations

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from fedbandits.algorithms.base import AnyAlgorithm
from fedbandits.arrays import Array
from fedbandits.gossip.base import Gossip
from fedbandits.problems.base import Problem

from . import pytrees
from .flooding import first_state, own
from .mixing import Mixer, mixer
from .rounds import Luck, draw_luck, play_round
from .simulate import DType, precision, setting_of


class Trajectory(NamedTuple):
    """What happened in each of T rounds of R runs, in the paper's order of axes.

    Attributes:
        distribution: p_t^v(i), `[T, R, N, K]`.
        action: a_t^v, `[T, R, N]`.
        messages: what each agent sent, by leaf, `[T, R, N, K]`.
        luck: the randomness used: uniforms `[T, R, N]` for actions and `[T, R]` for edges
            (None where the gossip has no random edges).
    """

    distribution: np.ndarray[Any, Any]
    action: np.ndarray[Any, Any]
    messages: dict[str, np.ndarray[Any, Any]]
    luck: Luck


def trajectory(
    problem: Problem,
    algorithm: AnyAlgorithm,
    gossip: Gossip | None = None,
    *,
    runs: int = 1,
    seed: int = 0,
    dtype: DType = "float64",
) -> Trajectory:
    """Play the whole horizon with the engine's own round, keeping everything."""
    with precision(dtype):
        losses = problem.block(1, problem.horizon).astype(dtype)
        algorithm = algorithm.set_up(setting_of(problem, gossip))
        pytrees.register(algorithm)
        batch = (runs, problem.agents)
        state = first_state(algorithm, problem.arms, problem.agents, batch, dtype)
        mix = mixer(gossip, algorithm, dtype)
        kept = _play(algorithm, mix, state, losses, np.uint32(seed), runs=runs)
        p, action, messages, luck = jax.tree.map(np.asarray, kept)
    return Trajectory(
        np.moveaxis(p, 1, -1),
        action,
        {name: np.moveaxis(leaf, 1, -1) for name, leaf in messages.items()},
        luck,
    )


def play_given(algorithm: AnyAlgorithm, mix: Mixer, state: Any, losses: Array, luck: Luck) -> Any:
    """Rounds 1, ..., T with these losses `[T, N, K]` and this luck `[T, ...]`, to be compiled.

    Returns:
        distributions `[T, K, R, N]`, actions `[T, R, N]` and messages `[T, M, R, N]` by leaf.
    """
    times = jnp.arange(1, losses.shape[0] + 1, dtype="int32")

    def step(before: Any, now: tuple[Array, Array, Luck]) -> tuple[Any, Any]:
        t, table, luck_now = now
        after, play = play_round(algorithm, mix, before, table.T, luck_now, t)
        return after, (play.p, play.action, algorithm.message(own(before)))

    return jax.lax.scan(step, state, (times, losses, luck))[1]


def _scan(
    algorithm: AnyAlgorithm, mix: Mixer, state: Any, losses: Array, seed: Array, *, runs: int
) -> Any:
    horizon, agents, _ = losses.shape
    times = jnp.arange(1, horizon + 1, dtype="int32")
    luck = jax.vmap(lambda t: draw_luck(seed, t, mix, runs, agents, losses.dtype))(times)
    return *play_given(algorithm, mix, state, losses, luck), luck


_play = jax.jit(_scan, static_argnames=("runs",))
