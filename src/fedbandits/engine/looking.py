"""What agents would do next, seen from outside: between two chunks, and after the last round."""

from __future__ import annotations

import functools
from typing import Any

import jax
import jax.numpy as jnp

from fedbandits.algorithms.base import AnyAlgorithm
from fedbandits.arrays import Array, materialised, over_arms, sample
from fedbandits.common.streams import ACTIONS, round_key, uniforms
from fedbandits.results.snapshots import Shot

from .conditions import Conditions
from .under_way import own_state


def leading(p: Array, t: Array, seed: Array) -> Array:
    """The likeliest arm of round t for every run and agent, `[R, N]`; a random one of equals."""
    likeliest = (p >= over_arms("max", p) * (1 - 1e-6)).astype(p.dtype)
    uniform = materialised(uniforms(round_key(ACTIONS, seed, t), p.shape[1:], p.dtype))
    return sample(likeliest, uniform)


def _seen(
    algorithm: AnyAlgorithm, conditions: Conditions, state: Any, t: Array, seed: Array
) -> Shot:
    """What agents would do in round t. Means are of the honest ones."""
    p = algorithm.distribution(own_state(state), t)
    honest = conditions.honest(p)
    mean = honest.mean(axis=-1)
    distance = jnp.abs(honest - mean[..., None]).sum(axis=0) / 2
    return Shot(leading(p, t, seed), mean, distance.mean(axis=-1))


@functools.partial(jax.jit, static_argnames=("several", "platform"))
def look(
    algorithm: AnyAlgorithm,
    conditions: Conditions,
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
        conditions: who lies.
        state: before the round.
        t: the round.
        seed: of the agents' randomness.
        several: whether algorithm and state are of several games along a first axis.
        platform: by which programs differ: see `common.backend`.
    """
    seen = jax.vmap(_seen, in_axes=(0, None, 0, None, None)) if several else _seen
    return seen(algorithm, conditions, state, t, seed)
