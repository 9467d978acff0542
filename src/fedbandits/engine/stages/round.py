"""One round of every agent of every run: play, send, hear, learn."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from fedbandits.algorithms.base import AnyAlgorithm
from fedbandits.arrays import Array, sample, taken
from fedbandits.common import streams
from fedbandits.common.backend import on_cpu

from .pending_messages import moved_on, own_state, relay
from .stages import Stages


class RoundUniforms(NamedTuple):
    """The randomness of one round.

    Attributes:
        action: uniforms from which arms are drawn, `[R, N]`.
        links: the fate of messages, as the form of the links draws it; None for reliable links.
        conditions: the randomness of each condition.
        noise: the key of an algorithm's own noise; None for algorithms without noise.
    """

    action: Array
    links: Any = None
    conditions: tuple[Any, ...] = ()
    noise: streams.Key | None = None


class Play(NamedTuple):
    """What agents did in one round.

    Attributes:
        p: distributions, `[K, R, N]`.
        action: the arms played, `[R, N]`.
    """

    p: Array
    action: Array


def draw_uniforms(
    algorithm: AnyAlgorithm,
    stages: Stages,
    seed: Array,
    t: Array,
    shape: tuple[int, int],
    dtype: Any,
) -> RoundUniforms:
    """Return the uniforms of round t: a function of (seed, run, round, agent) alone.

    Args:
        algorithm: the behaviour of each agent.
        stages: exchange and conditions.
        seed: the seed of the agents' randomness.
        t: the round.
        shape: R and N.
        dtype: the type of the numbers.
    """
    return RoundUniforms(
        streams.uniforms(streams.round_key(streams.ACTIONS, seed, t), shape, dtype),
        stages.mixer.draw(seed, t, shape[0], dtype),
        stages.draw(seed, t, shape, dtype),
        streams.round_key(streams.NOISE, seed, t) if algorithm.noised else None,
    )


def block_uniforms(
    key: streams.Key, first: Array | int, sizes: tuple[int, int], agents: int, dtype: Any
) -> Array:
    """Return the uniforms of a block of agents: those that `streams.uniforms` has in their places.

    Args:
        key: the key of the round.
        first: the first agent of the block.
        sizes: R and n.
        agents: N.
        dtype: the type of the numbers.

    Returns:
        `[R, n]`, columns `first` to `first` + n - 1 of all, `[R, N]`.
    """
    agent = first + jax.lax.broadcasted_iota("int32", sizes, 1)
    run = jax.lax.broadcasted_iota("uint32", sizes, 0)
    place = run * np.uint32(agents) + agent.astype("uint32")
    return streams.as_uniforms(streams.words_at(key, place), dtype)


def arm_type(arms: int) -> str:
    """Return the smallest type that holds an arm's number.

    Example:
        >>> arm_type(20), arm_type(2000)
        ('int8', 'int32')
    """
    return "int8" if arms <= 127 else "int32"


def play_round(
    algorithm: AnyAlgorithm,
    stages: Stages,
    state: Any,
    losses: Array,
    uniforms: RoundUniforms,
    t: Array,
) -> tuple[Any, Play]:
    """Play one round: everyone plays, sends what it knew at the round's start, and learns.

    Args:
        algorithm: the behaviour of each agent.
        stages: exchange and conditions.
        state: the algorithm's state before the round.
        losses: `[K, N]`, or `[K, R, N]` where every run has its own.
        uniforms: the round's randomness.
        t: the round.

    Returns:
        the state after the round, and what agents did in it.
    """
    inner, pending = own_state(state), state
    received: dict[str, Array] = {}

    def see(p: Array, action: Array) -> Array:
        everyone = losses if losses.ndim == 3 else jnp.broadcast_to(losses[:, None, :], p.shape)
        seen = everyone if algorithm.feedback == "full" else taken(everyone, action)
        return stages.feedback(seen, uniforms.conditions)

    def hear() -> Mapping[str, Array]:
        nonlocal pending, received
        received, pending = relay(algorithm, stages, state, uniforms.links, t)
        return received

    # Distributions are written to memory where that costs little.
    hold = on_cpu() and uniforms.action.size < 2**18
    after, play = play_block(algorithm, inner, uniforms.action, t, see, hear, hold=hold)
    if uniforms.noise is not None:
        after = _disturbed(algorithm, after, uniforms.noise, play.p, t)
    after = stages.learned(algorithm, inner, received, after, uniforms.conditions)
    return moved_on(pending, after), play


def play_block(
    algorithm: AnyAlgorithm,
    state: Any,
    uniforms: Array,
    t: Array,
    see: Callable[[Array, Array], Array],
    hear: Callable[[], Mapping[str, Array]],
    *,
    hold: bool = False,
) -> tuple[Any, Play]:
    """Play one round of a block of agents: all of them, a tile, or the agents of a kernel.

    Args:
        algorithm: the behaviour of each agent.
        state: the state of these agents before the round; leaves `[K, R, n]`, or scalars.
        uniforms: uniforms from which arms are drawn, `[R, n]`.
        t: the round.
        see: returns the losses that agents see, given their distributions and their arms.
        hear: returns the combined messages, named and shaped like those sent.
        hold: keep XLA from computing the distributions a second time.

    Returns:
        the state after the algorithm's update, and what these agents did.
    """
    p = algorithm.distribution(state, t)
    if hold:
        p = jax.lax.optimization_barrier(p)
    action = sample(p, uniforms)
    feedback = see(p, action)
    after = algorithm.update(state, hear(), action, feedback, p, t)
    return after, Play(p, action)


def _disturbed(algorithm: AnyAlgorithm, state: Any, key: streams.Key, like: Array, t: Array) -> Any:
    """Return the state after the noise that is due in round t, if any is.

    Runs are the first axis of the uniforms, so a run has its noise whatever runs are beside it.
    """
    arms, runs, agents = like.shape

    def disturbed() -> Any:
        uniforms = streams.uniforms(key, (runs, arms, agents), like.dtype)
        return algorithm.disturb(state, jnp.swapaxes(uniforms, 0, 1), t)

    return jax.lax.cond(algorithm.noise_due(t), disturbed, lambda: state)
