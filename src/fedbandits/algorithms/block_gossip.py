"""BlockGossip: accelerated gossip in blocks, with a bandit learner for delayed losses."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, ClassVar, Self

import numpy as np
from numpy.typing import DTypeLike

from fedbandits.arrays import Array
from fedbandits.common import checks
from fedbandits.gossip import acceleration as accelerated
from fedbandits.schedules import Constant, Power, Schedule
from fedbandits.theory import rates as theory

from .base import Setting
from .block_learner import REGULARISERS, Regulariser, default_rate, leader
from .blocks import TOLERANCE, BlockAlgorithm, BlockState, advance, chebyshev_weight, checked_block
from .exponential_weights import (
    checked_exploration,
    explore,
    importance_weighted,
    optional_rate,
)

if TYPE_CHECKING:
    from fedbandits.gossip.base import Gossip


@dataclass(frozen=True)
class BlockGossip(BlockAlgorithm):
    """Agents agree on the losses of one block of B rounds while they play the next.

    In block τ an agent plays from p_τ = (1 - α) p'_τ + α/K. Each round it collects the estimates
    ℓ̂_t(k) = ℓ_t 1{a_t = k}/p_τ(k), and makes one step of accelerated gossip with the sums of block
    τ - 1:

        x^{b+1} = ω W x^b + (1 - ω) x^{b-1},  from x^0 = Σ_{t in block τ-1} ℓ̂_t.

    At the end of the block x^B is nearly the mean over agents. It is fed to a learner with a delay
    of one block: two copies of follow the regularised leader, one for even and one for odd blocks.
    As in FedExp3 an agent sends K numbers to each neighbour in every round.

    `from_theorem` gives the constants of the paper, with regret Õ(sqrt((1/sqrt(1 - σ2) + K/N) T)).
    Their blocks are so long that short games end before the first block is used. The defaults need
    no horizon and are not covered by the theorem: Chebyshev's ω, the shortest B that leaves at most
    a tenth of the disagreement, η_t = sqrt(2 ln K/((B/4 + K/N) t)) at the first round t of a block,
    and α_t = 1/t. If W is random or asymmetric, gossip is plain (ω = 1).

    Args:
        learning_rate: η, a number or a schedule; None takes that of the regulariser.
        exploration: α, a number in [0, 1] or a schedule (clipped at 1). Like η it is evaluated at
            the first round of a block.
        block: B, rounds in a block; None takes the fewest that the network needs.
        momentum: κ, for the constant ω = 1 + κ; None takes Chebyshev's ω.
        sigma: σ2 for Chebyshev's ω, 0 for plain gossip; None takes that of the network.
        regulariser: `minimax`, entropy alone; `small_loss`, with -(1/γ) Σ ln q, γ =
            min{N/12, sqrt(K N ln t / L*)}, for a best arm that loses little; or
            `best_of_both_worlds`, with -(2/γ) Σ sqrt(q), γ = sqrt(N/(s B)), s counting a copy's
            updates, for losses that may also be stochastic.
        best_loss: L*, the best arm's total loss (mean over agents), for `small_loss`. None takes
            the agent's own estimate, which the theorem does not cover.

    Example:
        >>> import fedbandits as fb
        >>> list(fb.BlockGossip().leaves)
        ['x']
        >>> gossip = fb.gossip.max_degree(fb.networks.grid(6, 6))
        >>> setting = fb.algorithms.base.Setting(arms=20, agents=36, gossip=gossip)
        >>> fb.BlockGossip().set_up(setting).block
        13

    Reference:
        Qiu, Zhang and Cesa-Bianchi, COLT 2026, arXiv 2602.06404.
    """

    learning_rate: Schedule | None
    exploration: Schedule
    block: int | None
    momentum: float | None
    sigma: float | None
    regulariser: Regulariser = field(metadata={"static": True})
    best_loss: float | None

    theorem: ClassVar[str | None] = "block gossip"

    def __init__(
        self,
        learning_rate: float | Schedule | None = None,
        exploration: float | Schedule = Power(1.0, 1.0),  # noqa: B008 (frozen)
        block: int | None = None,
        *,
        momentum: float | None = None,
        sigma: float | None = None,
        regulariser: Regulariser = "minimax",
        best_loss: float | None = None,
    ) -> None:
        if regulariser not in REGULARISERS:
            raise ValueError(f"regulariser must be one of {REGULARISERS}, not {regulariser!r}")
        if best_loss is not None and regulariser != "small_loss":
            raise ValueError(
                f"best_loss is for regulariser='small_loss'; leave it out for {regulariser!r}"
            )
        if momentum is not None and sigma is not None:
            raise ValueError("momentum is a constant ω, sigma is for Chebyshev's: give one of them")
        rate = optional_rate(learning_rate)
        if regulariser != "minimax" and rate == Constant(0.0):
            raise ValueError(f"learning_rate must be above 0 for {regulariser}, whose 1/η it sets")
        self._assign(
            learning_rate=rate,
            exploration=checked_exploration(exploration),
            block=checked_block(block),
            momentum=_within(momentum, "momentum", "[0, 1]"),
            sigma=_within(sigma, "sigma", "[0, 1]"),
            regulariser=regulariser,
            best_loss=_within(best_loss, "best_loss", "[0, inf]"),
        )

    @classmethod
    def from_theorem(cls, gossip: Gossip, *, arms: int, horizon: int) -> BlockGossip:
        """Return the algorithm with the constants of the paper for this gossip, K and T.

        B = ⌈ln((KT)⁶ sqrt(14 N)) / ((1 - 1/√2) sqrt(1 - σ2))⌉, κ = 1/(1 + sqrt(1 - σ2²)),
        η = sqrt(ln K / (2 (B + 3K/N) T)) and α = 1/T. If T <= 2B, all agents play uniformly to the
        end, and a warning is issued.
        """
        rates = theory.block_gossip_rates(gossip, arms=arms, horizon=horizon)
        if gossip.random or not accelerated.positive_semidefinite(gossip):
            raise ValueError(
                f"the theorem is for a fixed, symmetric and positive semi-definite W, which "
                f"{gossip.name} is not; take fb.gossip.max_degree(network)"
            )
        if 2 * rates.block >= horizon:
            warnings.warn(
                f"the theorem's block is {rates.block:,} rounds at horizon {horizon:,}: the first "
                "is learned from after two, so that every agent plays uniformly to the end. For "
                "short horizons leave the block to BlockGossip()",
                stacklevel=2,
            )
        block = int(min(rates.block, horizon))
        return cls(rates.learning_rate, rates.exploration, block, momentum=rates.momentum)

    def set_up(self, setting: Setting) -> Self:
        """Fill in σ2, the block and the learning rate if they were not given."""
        gossip, block, sigma = setting.gossip, self.block, self.sigma
        if sigma is None and self.momentum is None:
            sigma = accelerated.usable_sigma(gossip)
        if block is None:
            block = accelerated.steps(gossip, TOLERANCE)
        rate = self.learning_rate
        if rate is None:
            rate = default_rate(self.regulariser, block, self.best_loss)
        return replace(self, learning_rate=rate, block=block, sigma=sigma)

    def init(
        self, arms: int, agents: int, batch: tuple[int, ...] = (), dtype: DTypeLike = np.float32
    ) -> BlockState:
        """Return the state before round 1."""
        return BlockState.zeros(arms, agents, batch, dtype)

    def distribution(self, state: BlockState, t: Array) -> Array:
        """Return p_τ = (1 - α) p'_τ + α/K, the same in all rounds of a block."""
        eta, block = self._rate_and_block()
        first = (t - 1) // block * block + 1
        p = leader(state, eta(first, state), first, self.regulariser, block, self.best_loss)
        return explore(p, self.exploration(first, state))

    def update(
        self,
        state: BlockState,
        received: Mapping[str, Array],
        action: Array,
        feedback: Array,
        p: Array,
        t: Array,
    ) -> BlockState:
        """Make one step of gossip; at the end of a block, feed the result and swap the copies."""
        _, block = self._rate_and_block()
        done = (t - 1) % block  # steps of gossip in this block so far
        estimates = importance_weighted(feedback, action, p)
        weight = self._weight(state, done)
        return advance(state, received["x"], estimates, weight, done == block - 1)

    def _weight(self, state: BlockState, done: Array) -> Array:
        """Return ω of the step after `done` others."""
        xp = state.x.__array_namespace__()
        if self.momentum is not None:
            return xp.asarray(1.0 + self.momentum, dtype=state.weight.dtype)
        return chebyshev_weight(state, done, self.sigma)

    def _rate_and_block(self) -> tuple[Schedule, Array]:
        unknown = self.sigma is None and self.momentum is None
        if self.learning_rate is None or self.block is None or unknown:
            raise ValueError(
                "BlockGossip takes its block, its learning rate and sigma from the network: call "
                "set_up(fb.Setting(arms, agents, gossip)) first, or give all three"
            )
        return self.learning_rate, self.block


def _within(value: float | None, name: str, interval: str) -> float | None:
    return None if value is None else checks.within(value, name, interval)
