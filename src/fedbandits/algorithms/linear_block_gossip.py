"""LinearBlockGossip: block gossip for losses that are linear in many arms."""

from __future__ import annotations

import math
import warnings
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from numpy.typing import DTypeLike

from fedbandits.arrays import Array, product
from fedbandits.common import checks
from fedbandits.gossip import acceleration as accelerated
from fedbandits.schedules import Constant, Power, Schedule, as_schedule
from fedbandits.theory import rates as theory

from .base import Setting
from .blocks import TOLERANCE, BlockAlgorithm, BlockState, advance, chebyshev_weight, checked_block
from .exponential_weights import LossEstimates, optional_rate, softmax
from .spanner import Spanner, checked_actions, volumetric_spanner

if TYPE_CHECKING:
    from fedbandits.gossip.base import Gossip

_LEAST = 1e-4
"""The smallest probability of a member of the spanner; float32 needs it."""


@dataclass(frozen=True)
class LinearBlockGossip(BlockAlgorithm):
    """Agents agree, block by block, on an estimate of θ, which gives the loss of every arm.

    S is a volumetric spanner of the actions: at most 3d of them, b_j, with a_k = Σ_j λ^(k)(j) b_j
    and ‖λ^(k)‖ <= 1. In block τ of B rounds agents play from

        p_τ = (1 - α - β) p'_τ + α/K + β 1_S/|S|,  M_τ = Σ_k p_τ(k) a_k a_kᵀ,

    and estimate θ̂_t = M_τ^{-1} a ℓ_t from the action a played. They send the |S| numbers ⟨b_j, θ̂⟩,
    summed over a block and averaged by accelerated gossip during the next block. The learner has
    two copies of exponential weights that alternate by block. It computes the loss of arm k as
    Σ_j λ^(k)(j) z(j). Regret grows with ln K and d, not with K, and messages have |S| numbers.

    The defaults need no horizon and are not covered by the theorem: Chebyshev's weights, the
    shortest B that leaves at most a tenth of the disagreement, η_t = sqrt(2 ln K/((B/4 + d/N) t))
    at the first round t of a block, and β = min{1/2, |S| max{η/N, 0.0001}}. An estimate is then at
    most |S|/β, and a 1/N of it moves no exponent by more than 1. Below 0.0001 a solution in float32
    has no correct digits. `from_theorem` gives the rates of the paper.

    Args:
        actions: a_k, `[K, d]`; None takes those of the problem.
        learning_rate: η, a number or a schedule.
        exploration: β, a number in (0, 1] or a schedule (clipped at 1 - α). Like η it is evaluated
            at the first round of a block.
        block: B, rounds in a block; None takes the fewest that the network needs.
        uniform: α, in [0, 1].

    Example:
        >>> import fedbandits as fb
        >>> problem = fb.problems.linear(agents=16, arms=200, horizon=100, dimension=5)
        >>> gossip = fb.gossip.max_degree(fb.networks.grid(4, 4))
        >>> setting = fb.algorithms.base.Setting(200, 16, gossip, problem.actions)
        >>> fb.LinearBlockGossip().set_up(setting).block
        9

    Reference:
        Qiu, Zhang and Cesa-Bianchi, COLT 2026, arXiv 2602.06404.
    """

    actions: Array | None
    learning_rate: Schedule | None
    exploration: Schedule | None
    block: int | None
    uniform: float
    sigma: float | None = field(repr=False)
    """σ2 for Chebyshev's weights, 0 for plain gossip; from the network."""
    spanner: Spanner | None = field(repr=False)
    horizon: int | None = field(repr=False, metadata={"static": True})
    """T, if `set_up` shall compute the rates of the theorem."""

    def __init__(
        self,
        actions: Any = None,
        learning_rate: float | Schedule | None = None,
        exploration: float | Schedule | None = None,
        block: int | None = None,
        *,
        uniform: float = 0.0,
    ) -> None:
        self._assign(
            actions=None if actions is None else checked_actions(actions),
            learning_rate=optional_rate(learning_rate),
            exploration=None if exploration is None else _exploration(exploration),
            block=checked_block(block),
            uniform=float(checks.unit_interval(uniform, "uniform")),
            sigma=None,
            spanner=None,
            horizon=None,
        )

    @classmethod
    def from_theorem(
        cls, gossip: Gossip, *, arms: int, horizon: int, actions: Any = None
    ) -> LinearBlockGossip:
        """Return the algorithm with the rates of the paper for this gossip, K and T.

        B = ⌈ln((KT)⁶ sqrt(14 N)) / ((1 - 1/√2) sqrt(1 - σ2))⌉, α = 1/T,
        η = min{1/(6Bd), sqrt(ln K/(dTB + dT/N))} and β = 3Bdη; `set_up` computes the last two,
        which depend on the actions. Chebyshev's weights replace the momentum of the paper: after
        equally many steps they leave less disagreement. If T <= 2B, agents learn nothing, and a
        warning is issued.
        """
        block = theory.linear_rates(gossip, arms=arms, horizon=horizon, dimension=1).block
        if gossip.gap > 0 and not accelerated.accelerable(gossip):
            raise ValueError(
                f"the theorem is for a fixed and symmetric W, which {gossip.name} is not; take "
                "fb.gossip.max_degree(network)"
            )
        if 2 * block >= horizon:
            warnings.warn(
                f"the theorem's block is {block:,} rounds at horizon {horizon:,}: the first is "
                "learned from after two, so that nothing is learned to the end. For short "
                "horizons leave the block to LinearBlockGossip()",
                stacklevel=2,
            )
        made = cls(actions, block=int(min(block, horizon)), uniform=1 / horizon)
        return made.with_values(horizon=horizon)

    @property
    def arms_given(self) -> int | None:
        """The number of actions, if they were given."""
        return None if self.actions is None else len(self.actions)

    def set_up(self, setting: Setting) -> Self:
        """Compute the spanner; fill in actions, block and learning rate if they were not given."""
        actions = setting.actions if self.actions is None else self.actions
        if actions is None:
            raise ValueError(
                "LinearBlockGossip needs the arms as vectors, and the problem has none: take one "
                "such as fb.problems.linear, or give them, as in "
                "LinearBlockGossip(actions=vectors) with vectors of shape (arms, d)"
            )
        vectors = checked_actions(actions)
        if len(vectors) != setting.arms:
            raise ValueError(
                f"actions has {len(vectors)} rows, but the problem has {setting.arms} arms; give "
                "one row for each"
            )
        spanner = self.spanner or volumetric_spanner(vectors)
        block = accelerated.steps(setting.gossip, TOLERANCE) if self.block is None else self.block
        rates = self._rates(setting, spanner.vectors.shape[1], block)
        return self.with_values(
            actions=vectors,
            block=block,
            sigma=accelerated.usable_sigma(setting.gossip) if self.sigma is None else self.sigma,
            spanner=spanner,
            horizon=None,
            **rates,
        )

    def _rates(self, setting: Setting, dimension: int, block: int) -> dict[str, Schedule | None]:
        """Return η and β that replace the given ones: those of the theorem, or the default η."""
        if self.horizon is not None and setting.gossip is not None:
            sizes = {"arms": setting.arms, "horizon": self.horizon}
            theirs = theory.linear_rates(setting.gossip, **sizes, dimension=dimension)
            rate, share = Constant(theirs.learning_rate), Constant(theirs.exploration)
            return {"learning_rate": rate, "exploration": share}
        if self.learning_rate is not None:
            return {}
        # Two copies cost 2 (ln K)/η. A round costs η/2 times B/4, by Hoeffding's lemma, since the
        # losses of a block lie in an interval of length B, and d/N, the estimates' variance. The
        # sum, with η = c/√t, is least for this c.
        spread = block / 4 + dimension / setting.agents
        return {"learning_rate": Power(math.sqrt(2 * math.log(setting.arms) / spread), 0.5)}

    def init(
        self,
        arms: int,  # noqa: ARG002
        agents: int,
        batch: tuple[int, ...] = (),
        dtype: DTypeLike = np.float32,
    ) -> BlockState:
        """Return the state before round 1."""
        spanner, *_ = self._ready()
        return BlockState.zeros(spanner.basis.shape[0], agents, batch, dtype)

    def distribution(self, state: BlockState, t: Array) -> Array:
        """Return p_τ = (1 - α - β) p'_τ + α/K + β 1_S/|S|, the same in all rounds of a block."""
        xp = state.z.__array_namespace__()
        spanner, rate, block = self._ready()
        first = (t - 1) // block * block + 1
        # Σ_j λ^(k)(j) z(j) = ⟨a_k, Σ_j z(j) b_j⟩ in the spanner's coordinates.
        losses = product(spanner.vectors, product(spanner.basis.T, state.z))
        seen = LossEstimates(losses, state.agents)
        eta = rate(first, seen)
        leader = softmax(losses, eta)
        if self.exploration is None:
            size = spanner.basis.shape[0]
            beta = xp.minimum(0.5, size * xp.maximum(eta / state.agents, _LEAST))
        else:
            beta = self.exploration(first, seen)
        beta = xp.minimum(beta, 1.0 - self.uniform)
        share = xp.asarray(spanner.share, dtype=losses.dtype)
        share = share.reshape((-1,) + (1,) * (losses.ndim - 1))
        # In this order, since β may be a scalar or one for each agent.
        kept = (1.0 - self.uniform - beta) * leader
        return (kept + self.uniform / losses.shape[0] + beta * share).astype(losses.dtype)

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
        spanner, _, block = self._ready()
        done = (t - 1) % block  # steps of gossip in this block so far
        estimates = product(spanner.basis, _estimate(spanner, feedback, action, p))
        weight = chebyshev_weight(state, done, self.sigma)
        return advance(state, received["x"], estimates, weight, done == block - 1)

    def _ready(self) -> tuple[Spanner, Schedule, Array]:
        if self.spanner is None or self.learning_rate is None or self.block is None:
            raise ValueError(
                "LinearBlockGossip must know the arms and the network before round 1: call "
                "set_up(Setting(arms, agents, gossip, actions)) first"
            )
        return self.spanner, self.learning_rate, self.block


def _estimate(spanner: Spanner, loss: Array, action: Array, p: Array) -> Array:
    """Return θ̂ = M^{-1} a ℓ with M = Σ_k p(k) a_k a_kᵀ, unbiased: `[d, *batch]`."""
    xp = p.__array_namespace__()
    vectors = xp.asarray(spanner.vectors, dtype=p.dtype)
    arms, d = vectors.shape
    squares = (vectors.T[:, None] * vectors.T).reshape(d * d, arms)
    # p is the same in all rounds of a block, but M_τ^{-1} kept in the state would save nothing
    # without a branch; at K = 5,000 and d = 5 this is a fifth of what drawing the arms takes.
    moments = xp.moveaxis(product(squares, p), 0, -1).reshape((*p.shape[1:], d, d))
    theta = xp.linalg.solve(moments, vectors[action][..., None])[..., 0]
    return xp.moveaxis(theta, -1, 0) * loss


def _exploration(exploration: float | Schedule) -> Schedule:
    beta = as_schedule(exploration, "exploration")
    if isinstance(beta, Constant):
        checks.within(beta.value, "exploration", "(0, 1]", ": every direction must be tried")
    return beta
