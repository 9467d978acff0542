"""The learner of `BlockGossip`: the distribution of one of its two copies, given its losses.

argmin over the simplex of ⟨q, L⟩ + (1/η) Σ q ln q, plus, depending on the regulariser,
-(1/γ) Σ ln q or -(2/γ) Σ sqrt(q). The rates are those of the paper with the horizon T replaced by
the number of rounds, or of the copy's updates, so far.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, Literal

from fedbandits.arrays import Array, over_arms
from fedbandits.schedules import Schedule

from .blocks import BlockState
from .exponential_weights import softmax

Regulariser = Literal["minimax", "small_loss", "best_of_both_worlds"]
REGULARISERS: tuple[Regulariser, ...] = ("minimax", "small_loss", "best_of_both_worlds")


def updates(t: Array, block: Array) -> Array:
    """Return how often the copy that plays in round t was fed; the two copies alternate by block.

    Block τ ends with feedback for block τ - 1, so the first two blocks play without any.

    Example:
        >>> [updates(t, 3) for t in range(1, 17)]
        [0, 0, 0, 0, 0, 0, 1, 1, 1, 1, 1, 1, 2, 2, 2, 2]
    """
    return (t - 1) // block // 2


@dataclass(frozen=True)
class BlockRate:
    """The learning rate of the minimax regulariser, without a horizon."""

    block: int

    def __call__(self, t: Array, state: Any) -> Array:
        """Return η_t = sqrt(2 ln K / ((B/4 + K/N) t)).

        Two copies cost 2 (ln K)/η. A round costs η/2 times B/4, by Hoeffding's lemma, since the
        losses of a block lie in an interval of length B, and K/N, the estimates' variance. The sum,
        with η = c/√t, is least for this c.
        """
        arms = state.z.shape[0]
        return (2.0 * math.log(arms) / ((self.block / 4.0 + arms / state.agents) * t)) ** 0.5


@dataclass(frozen=True)
class SmallLossRate:
    """The learning rate of the small-loss regulariser; L* is estimated if it is not given."""

    block: int
    best_loss: float | None

    def __call__(self, t: Array, state: Any) -> Array:  # noqa: ARG002
        """Return η = min{1/(4B), sqrt(ln K/(B L*))}."""
        xp = state.z.__array_namespace__()
        best = _best_loss(state, self.best_loss)
        return xp.minimum(
            0.25 / self.block, (math.log(state.z.shape[0]) / (self.block * best)) ** 0.5
        )


@dataclass(frozen=True)
class BestOfBothWorldsRate:
    """The learning rate of the best-of-both-worlds regulariser."""

    block: int

    def __call__(self, t: Array, state: Any) -> Array:
        """Return η_s = min{1, sqrt(ln K/s)}/B for a copy that was fed s - 1 times."""
        xp = state.z.__array_namespace__()
        s = updates(t, self.block) + 1.0
        return xp.minimum(1.0, (math.log(state.z.shape[0]) / s) ** 0.5) / self.block


def default_rate(regulariser: Regulariser, block: int, best_loss: float | None) -> Schedule:
    """Return η of a regulariser."""
    if regulariser == "small_loss":
        return SmallLossRate(block, best_loss)
    return BlockRate(block) if regulariser == "minimax" else BestOfBothWorldsRate(block)


def leader(
    state: BlockState,
    eta: Array,
    t: Array,
    regulariser: Regulariser,
    block: Array,
    best_loss: float | None,
) -> Array:
    """Return p', the distribution of this block's copy before exploration.

    Args:
        state: of the agent.
        eta: the learning rate, a scalar or `[*batch]`.
        t: the block's first round.
        regulariser: by name.
        block: B.
        best_loss: L*, or None for the agent's estimate.

    Returns:
        distributions, `[K, *batch]`.
    """
    xp = state.z.__array_namespace__()
    if regulariser == "minimax":
        return softmax(state.z, eta)
    from .regularisers import regularised_leader

    if regulariser == "small_loss":
        # 1/γ = max{12/N, sqrt(L*/(K N ln T))}, with the round for T.
        arms = state.z.shape[0]
        log_time = xp.log(xp.maximum(t + 0.0, 2.0))
        best = _best_loss(state, best_loss)
        inverse = xp.maximum(12.0 / state.agents, (best / (arms * state.agents * log_time)) ** 0.5)
        return regularised_leader(state.z, entropy=1.0 / eta, barrier=inverse)
    # 1/γ_s = sqrt(s B/N), s counting the copy's updates.
    inverse = ((updates(t, block) + 1.0) * block / state.agents) ** 0.5
    return regularised_leader(state.z, entropy=1.0 / eta, tsallis=inverse)


def _best_loss(state: BlockState, given: float | None) -> Array:
    """Return L*, at least 1: as given, or the smallest loss fed to both copies together."""
    xp = state.z.__array_namespace__()
    known = over_arms("min", state.z + state.waiting) if given is None else given
    return xp.maximum(known, 1.0)
