"""The round of a tile: so few agents that what they need stays where the device is quickest."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import jax
import numpy as np

from fedbandits.algorithms.base import AnyAlgorithm
from fedbandits.arrays import Array, expectation, sample
from fedbandits.common import streams


def tile_round(
    algorithm: AnyAlgorithm,
    state: Any,
    received: Mapping[str, Array],
    uniforms: Array,
    loss_of: Callable[[Array], Array],
    mean_loss: Array,
    t: Array,
) -> tuple[Any, Array, Array]:
    """What the n agents of a tile do in round t, once they have heard from their neighbours.

    Args:
        algorithm: what each agent does, with bandit feedback.
        state: of these agents before the round; leaves `[K, R, n]`, or scalars.
        received: the combined messages, named and shaped as those sent.
        uniforms: from which arms are drawn, `[R, n]`.
        loss_of: the losses of these arms, `[R, n] -> [R, n]`.
        mean_loss: over all agents, ℓ̄_t(i), `[K]`.
        t: the round.

    Returns:
        the state after the round, the arms played, `[R, n]`, and the expected losses ⟨p_t, ℓ̄_t⟩,
        `[R, n]`.
    """
    p = algorithm.distribution(state, t)
    action = sample(p, uniforms)
    after = algorithm.update(state, received, action, loss_of(action), p, t)
    return after, action, expectation(p, mean_loss)


def uniforms_of(
    key: streams.Key, first: Array | int, sizes: tuple[int, int], agents: int, dtype: Any
) -> Array:
    """The uniforms of the agents of a tile: those that `streams.uniforms` has in their places.

    Args:
        key: of the round.
        first: the first agent of the tile.
        sizes: R and n.
        agents: N.
        dtype: of the numbers.

    Returns:
        `[R, n]`, columns `first` to `first` + n - 1 of all, `[R, N]`.
    """
    agent = first + jax.lax.broadcasted_iota("int32", sizes, 1)
    run = jax.lax.broadcasted_iota("uint32", sizes, 0)
    place = run * np.uint32(agents) + agent.astype("uint32")
    return streams.as_uniforms(streams.words_at(key, place), dtype)


def arm_type(arms: int) -> str:
    """The smallest type that holds an arm's number.

    Example:
        >>> arm_type(20), arm_type(2000)
        ('int8', 'int32')
    """
    return "int8" if arms <= 127 else "int32"
