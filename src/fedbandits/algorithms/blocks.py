"""Blocks of rounds: agents gossip about one block while they play the next."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar, NamedTuple

import numpy as np
from numpy.typing import DTypeLike

from fedbandits.arrays import Array
from fedbandits.common.checks import INT32, whole
from fedbandits.gossip import acceleration as accelerated

from .base import Algorithm, Leaf
from .tunable import BLOCK, EXPLORATION, LEARNING_RATE, Tunable

TOLERANCE = 0.1
"""The share of the agents' disagreement that a default block leaves at most."""


class BlockState(NamedTuple):
    """The state of an agent: arrays `[M, *batch]` for M numbers to learn, and two scalars.

    Attributes:
        z: losses fed to the copy that plays in this block.
        waiting: losses fed to the other copy, which plays in the next block.
        x: the gossiped sums of the previous block, x^b after b steps; the message.
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
        """Return the state before round 1."""
        zeros = np.zeros((numbers, *batch), dtype)
        weight, count = np.asarray(1.0, dtype), np.asarray(agents, dtype)
        return cls(zeros, zeros, zeros, zeros, zeros, weight, count)


class BlockAlgorithm(Algorithm[BlockState]):
    """An algorithm that gossips about the sums of one block while it plays the next.

    The leaf `x` is x^b, which approaches the mean over agents of the previous block's sums.
    """

    block: int | None

    leaves: ClassVar[Mapping[str, Leaf]] = {"x": Leaf(kind="estimate", combine="average")}
    common_round: ClassVar[str | None] = (
        "it gossips and learns in blocks of rounds that begin everywhere at once"
    )
    tunable: ClassVar[Mapping[str, Tunable]] = {
        "learning_rate": LEARNING_RATE,
        "block": BLOCK,
        "exploration": EXPLORATION,
    }

    @property
    def rounds_before_learning(self) -> int:
        """Two blocks: agents agree on the losses of the first block during the second."""
        return 2 * (self.block or 0)


def checked_block(block: int | None) -> int | None:
    """Return the length of a block in rounds, or None if `set_up` chooses it."""
    return None if block is None else whole(block, "block", least=1, most=INT32)


def chebyshev_weight(state: BlockState, done: Array, sigma: Array) -> Array:
    """Return ω of a gossip step after `done` other steps in the block."""
    xp = state.x.__array_namespace__()
    then = xp.where(done == 1, 2.0, state.weight)
    weight = xp.where(done == 0, 1.0, accelerated.next_weight(then, sigma))
    return weight.astype(state.weight.dtype)


def advance(
    state: BlockState, received: Array, estimates: Array, weight: Array, ends: Array
) -> BlockState:
    """Make one step of gossip; at the end of a block, feed the result and swap the copies.

    Args:
        state: before the round.
        received: Σ_u W_uv x^u, `[M, *batch]`.
        estimates: the agent's own estimates of this round, `[M, *batch]`.
        weight: ω.
        ends: whether this is the last round of the block.
    """
    xp = state.x.__array_namespace__()
    x = weight * received + (1.0 - weight) * state.before
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
