"""What agents would do next, seen from outside: between two chunks, and after the last round."""

from __future__ import annotations

import functools
from typing import Any

import jax
import jax.numpy as jnp

from fedbandits.algorithms.base import AnyAlgorithm
from fedbandits.arrays import Array, materialised, over_arms, sample
from fedbandits.common.streams import ACTIONS, round_key, uniforms
from fedbandits.engine.stages.pending_messages import own_state
from fedbandits.engine.stages.round import block_uniforms
from fedbandits.engine.stages.stages import Stages
from fedbandits.results.snapshots import Shot


def leading(p: Array, uniform: Array) -> Array:
    """The likeliest arm for every run and agent, `[R, N]`; a random one of equals."""
    likeliest = (p >= over_arms("max", p) * (1 - 1e-6)).astype(p.dtype)
    return sample(likeliest, materialised(uniform))


def leading_of_all(p: Array, t: Array, seed: Array) -> Array:
    """The same for round t, of all agents."""
    return leading(p, uniforms(round_key(ACTIONS, seed, t), p.shape[1:], p.dtype))


def leading_in_tiles(
    algorithm: AnyAlgorithm, state: Any, t: Array, seed: Array, sizes: tuple[int, int, int]
) -> Array:
    """The same, tile after tile, so that no distribution is held: `sizes` are R, N and n."""
    runs, agents, tile = sizes
    key = round_key(ACTIONS, seed, t)

    def add(i: Array, found: Array) -> Array:
        first = jnp.minimum(i * tile, agents - tile)  # the last may find again what is found
        own = jax.tree.map(
            lambda x: (
                jax.lax.dynamic_slice_in_dim(x, first, tile, axis=-1)
                if tuple(x.shape[-2:]) == (runs, agents)
                else x
            ),
            state,
        )
        p = algorithm.distribution(own, t)
        arms = leading(p, block_uniforms(key, first, (runs, tile), agents, p.dtype))
        return jax.lax.dynamic_update_slice_in_dim(found, arms, first, axis=-1)

    nothing = jnp.zeros((runs, agents), "int32")
    found: Array = jax.lax.fori_loop(0, -(-agents // tile), add, nothing)
    return found


def _seen(algorithm: AnyAlgorithm, stages: Stages, state: Any, t: Array, seed: Array) -> Shot:
    """What agents would do in round t. Means are of recorded agents."""
    p = algorithm.distribution(own_state(state), t)
    recorded = stages.recorded(p)
    mean = recorded.mean(axis=-1)
    distance = jnp.abs(recorded - mean[..., None]).sum(axis=0) / 2
    return Shot(leading_of_all(p, t, seed), mean, distance.mean(axis=-1))


@functools.partial(jax.jit, static_argnames=("several", "platform"))
def look(
    algorithm: AnyAlgorithm,
    stages: Stages,
    state: Any,
    t: Array,
    seed: Array,
    *,
    several: bool,
    platform: str,  # noqa: ARG001
) -> Shot:
    """What agents would do in round t.

    Args:
        algorithm: set up.
        stages: say which agents are recorded.
        state: before the round.
        t: the round.
        seed: of the agents' randomness.
        several: whether algorithm and state belong to several simulations, along a first axis.
        platform: by which programs differ: see `common.backend`.
    """
    seen = jax.vmap(_seen, in_axes=(0, None, 0, None, None)) if several else _seen
    return seen(algorithm, stages, state, t, seed)
