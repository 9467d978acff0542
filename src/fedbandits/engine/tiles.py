"""The round of a tile: so few agents that what they need stays where the device is quickest."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from fedbandits.algorithms.base import AnyAlgorithm
from fedbandits.arrays import Array, expectation, sample


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


def arm_type(arms: int) -> str:
    """The smallest type that holds an arm's number.

    Example:
        >>> arm_type(20), arm_type(2000)
        ('int8', 'int32')
    """
    return "int8" if arms <= 127 else "int32"
