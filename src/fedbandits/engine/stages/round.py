"""One round of every agent of every run: play, send, hear, learn."""

from __future__ import annotations

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

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
    inner = own_state(state)
    p = algorithm.distribution(inner, t)
    if on_cpu() and uniforms.action.size < 2**18:
        p = jax.lax.optimization_barrier(p)  # held, where that costs little memory
    action = sample(p, uniforms.action)
    everyone = losses if losses.ndim == 3 else jnp.broadcast_to(losses[:, None, :], p.shape)
    seen = everyone if algorithm.feedback == "full" else taken(everyone, action)
    seen = stages.feedback(seen, uniforms.conditions)
    received, state = relay(algorithm, stages, state, uniforms.links, t)
    after = algorithm.update(inner, received, action, seen, p, t)
    if uniforms.noise is not None:
        after = _disturbed(algorithm, after, uniforms.noise, p, t)
    after = stages.learned(algorithm, inner, received, after, uniforms.conditions)
    return moved_on(state, after), Play(p, action)


def _disturbed(algorithm: AnyAlgorithm, state: Any, key: streams.Key, like: Array, t: Array) -> Any:
    """Return the state after the noise that is due in round t, if any is.

    Runs are the first axis of the uniforms, so a run has its noise whatever runs are beside it.
    """
    arms, runs, agents = like.shape

    def disturbed() -> Any:
        uniforms = streams.uniforms(key, (runs, arms, agents), like.dtype)
        return algorithm.disturb(state, jnp.swapaxes(uniforms, 0, 1), t)

    return jax.lax.cond(algorithm.noise_due(t), disturbed, lambda: state)
