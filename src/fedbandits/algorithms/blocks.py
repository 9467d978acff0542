"""What algorithms that play in blocks share: they gossip about one block while playing the next."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import DTypeLike

from fedbandits.arrays import Array
from fedbandits.gossip import acceleration as accelerated

TOLERANCE = 0.1
"""What a block chosen from the network leaves at most of the agents' disagreement."""


class BlockState(NamedTuple):
    """What one agent knows: `[M, *batch]`, M numbers being learned, but for the two scalars.

    Attributes:
        z: losses fed to the copy that plays in this block.
        waiting: losses fed to the other copy, which plays in the next block.
        x: the gossiped sums of the block before, x^b after b steps; what is sent.
        before: x^{b-1}.
        gathered: the agent's own estimates of this block so far.
        weight: ω of the last gossip step, a scalar.
        agents: number of agents in the network, a scalar.
    """

    z: Array
    waiting: Array
    x: Array
    before: Array
    gathered: Array
    weight: Array
    agents: Array

    @classmethod
    def zeros(
        cls, numbers: int, agents: int, batch: tuple[int, ...], dtype: DTypeLike
    ) -> BlockState:
        """Nothing learned, nothing to gossip about."""
        zeros = np.zeros((numbers, *batch), dtype)
        weight, count = np.asarray(1.0, dtype), np.asarray(agents, dtype)
        return cls(zeros, zeros, zeros, zeros, zeros, weight, count)


def chebyshev_weight(state: BlockState, done: Array, sigma: Array) -> Array:
    """ω of the step of gossip after `done` others of the block."""
    xp = state.x.__array_namespace__()
    then = xp.where(done == 1, 2.0, state.weight)
    weight = xp.where(done == 0, 1.0, accelerated.next_weight(then, sigma))
    return weight.astype(state.weight.dtype)


def advance(
    state: BlockState, heard: Array, estimates: Array, weight: Array, ends: Array
) -> BlockState:
    """One step of gossip; where the block ends the result is fed and the copies change.

    Args:
        state: before the round.
        heard: Σ_u W_uv x^u, `[M, *batch]`.
        estimates: the agent's own of this round, `[M, *batch]`.
        weight: ω.
        ends: whether this is the block's last round.
    """
    xp = state.x.__array_namespace__()
    x = weight * heard + (1.0 - weight) * state.before
    gathered = state.gathered + estimates
    return BlockState(
        # Block τ + 1 is played by the copy that is fed now, for block τ - 1.
        z=xp.where(ends, state.waiting + x, state.z),
        waiting=xp.where(ends, state.z, state.waiting),
        x=xp.where(ends, gathered, x),
        before=xp.where(ends, gathered, state.x),
        gathered=xp.where(ends, 0.0, gathered),
        weight=weight,
        agents=state.agents,
    )
