"""PrivateFedExp3: arms and losses stay behind noise that is added once per block."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import ClassVar, NamedTuple, Self

import numpy as np
from numpy.typing import DTypeLike

from fedbandits.arrays import Array, over_arms, played, taken
from fedbandits.common import checks
from fedbandits.schedules import Constant, Power, Schedule, as_schedule

from .base import Setting
from .exponential_weights import checked_exploration, explore, exponential_weights
from .laplace import checked_epsilon, laplace
from .noised_blocks import NoisedBlocks


class NoisedEstimates(NamedTuple):
    """The state of an agent.

    Attributes:
        z: cumulative loss estimates, all noised, `[K, *batch]`: what is played from and sent.
        gathered: the agent's own estimates of this block so far, raw, `[K, *batch]`: what nobody
            else sees, and what nothing is played from.
        baseline: b, about what the arms that are played lose, of noised sums, `[1, *batch]`.
        agents: number of agents in the network, a scalar.
    """

    z: Array
    gathered: Array
    baseline: Array
    agents: Array


@dataclass(frozen=True)
class PrivateFedExp3(NoisedBlocks[NoisedEstimates]):
    """FedExp3 whose estimates are bounded, summed up over B rounds, and noised before any use.

    In a block each agent gathers ĝ_t(i) = (ℓ_t - b) 1{a_t = i} / max(p_t(i), 1/C), b in [0, 1]
    being a baseline. At the block's end

        z grows by S = Σ_{t in block} ĝ_t + Laplace(2 max(b, 1 - b) C/ε), independent in every
        entry, and b by Σ_i max(p(i), 1/C) S(i) / 5B, but stays in [0, 1];

    before, by nothing of the block. Gossip, z^v ← Σ_u W_uv z^u, goes on in every round; arms are
    drawn from p_t = (1 - γ_t) x_t + γ_t/K, x_t ∝ exp(-η_{t-1} z_t), of the noised z alone.

    What is claimed is in `guarantee`: ε-differential privacy for one agent's arm and loss in one
    round (event level), against all other agents together, who see all messages. One event, (a_t,
    ℓ_t), is in one block's sum and moves it by at most 2 max(b, 1 - b) C in the L1 norm; whatever
    anyone sees later, b among it, is computed from the noised sum. p_t is public, since z is sent:
    the odds that others give to an arm, which begin at p_t, change by e^ε at most. Where losses
    depend on the arms played (`fb.problems.Adaptive`), later ones show an arm past this noise: no
    guarantee for arms then. m rounds of one person have m ε; a whole history of T rounds T ε, which
    is no guarantee. The noise is a simulation (`algorithms/laplace.py`), so that live agents refuse
    it. No regret bound is known.

    Why a baseline: max(p, 1/C) draws what is known of a rare arm to b. Were that 0, the best loss
    there is, all would go back to rare arms; were it 1, agents would stay with the first arm they
    took to. b begins at 1/2, where noise is least, and follows the losses of the arms played.

    Args:
        epsilon: ε.
        bound: C; K/2 by default.
        block: B, rounds in a block; 20 sqrt(K/ε) by default, rounded upwards.
        learning_rate: η, a number or a schedule; 1/sqrt(B) by default.
        exploration: γ, a number in [0, 1] or a schedule (clipped at 1).

    Example:
        >>> import fedbandits as fb
        >>> setting = fb.Setting(arms=20, agents=36)
        >>> ready = fb.PrivateFedExp3(epsilon=0.1).set_up(setting)
        >>> ready.bound, ready.block
        (10.0, 283)

    Reference:
        Dwork, McSherry, Nissim and Smith, Calibrating noise to sensitivity in private data
        analysis, TCC 2006, for the noise; Yi and Vojnović, ICML 2023, for FedExp3.
    """

    epsilon: float
    bound: float | None
    block: int | None
    learning_rate: Schedule | None
    exploration: Schedule

    guarantee: ClassVar[str | None] = (
        "ε = {epsilon} per round for the arm and the loss of one agent (event level); holds even "
        "if all other agents collude, but not where losses depend on arms played; simulated noise"
    )

    def __init__(
        self,
        epsilon: float = 1.0,
        bound: float | None = None,
        block: int | None = None,
        learning_rate: float | Schedule | None = None,
        exploration: float | Schedule = Power(0.3, 1 / 3),  # noqa: B008 (frozen)
    ) -> None:
        rate = None if learning_rate is None else as_schedule(learning_rate, "learning_rate")
        values = {
            "epsilon": checked_epsilon(epsilon),
            "bound": None if bound is None else _checked_bound(bound),
            "block": None
            if block is None
            else checks.whole(block, "block", least=1, most=checks.INT32),
            "learning_rate": rate,
            "exploration": checked_exploration(exploration),
        }
        for name, value in values.items():
            object.__setattr__(self, name, value)

    def set_up(self, setting: Setting) -> Self:
        """Fill in the bound, the block and the learning rate, where they were not given."""
        bound, block, rate = self.bound, self.block, self.learning_rate
        if bound is None:
            bound = max(setting.arms / 2, 1.0)
        if block is None:
            block = math.ceil(20 * math.sqrt(setting.arms / self.epsilon))
        if rate is None:
            rate = Constant(1 / math.sqrt(block))
        return replace(self, bound=bound, block=block, learning_rate=rate)

    def init(
        self, arms: int, agents: int, batch: tuple[int, ...] = (), dtype: DTypeLike = np.float32
    ) -> NoisedEstimates:
        """z_1 = 0, b = 1/2."""
        zeros = np.zeros((arms, *batch), dtype)
        half = np.full((1, *batch), 0.5, dtype)
        return NoisedEstimates(zeros, zeros, half, np.asarray(agents, dtype))

    def distribution(self, state: NoisedEstimates, t: Array) -> Array:
        """p_t = (1 - γ_t) x_t + γ_t / K, of the noised z alone."""
        if self.learning_rate is None:
            raise ValueError(self.not_set_up)
        x = exponential_weights(state, self.learning_rate, t)
        return explore(x, self.exploration(t, state))

    def update(
        self,
        state: NoisedEstimates,
        received: Mapping[str, Array],
        action: Array,
        feedback: Array,
        p: Array,
        t: Array,  # noqa: ARG002
    ) -> NoisedEstimates:
        """The average of the noised estimates; the agent's own wait for their noise."""
        if self.bound is None:
            raise ValueError(self.not_set_up)
        own = bounded(feedback - state.baseline[0], action, p, self.bound)
        return state._replace(z=received["z"], gathered=state.gathered + own)

    def disturb(self, state: NoisedEstimates, uniforms: Array, t: Array) -> NoisedEstimates:
        """The block is over: z grows by its sum and noise, and b follows."""
        if self.bound is None or self.block is None:
            raise ValueError(self.not_set_up)
        xp, b = state.z.__array_namespace__(), state.baseline
        scale = 2.0 * xp.maximum(b, 1.0 - b) * self.bound / self.epsilon
        noised = state.gathered + scale * laplace(uniforms)
        # What the block lost a round, less b, as the noised sum tells.
        weights = xp.maximum(self.distribution(state, t), 1.0 / self.bound)
        lost = over_arms("sum", weights * noised)[None] / self.block
        return state._replace(
            z=state.z + noised,
            gathered=xp.zeros_like(state.gathered),
            baseline=xp.minimum(xp.maximum(b + _FOLLOWS * lost, 0.0), 1.0),
        )


_FOLLOWS = 0.2
"""How much of the way to a block's mean loss b goes."""


def bounded(excess: Array, action: Array, p: Array, bound: Array) -> Array:
    """ĝ(i) = (ℓ - b) 1{a = i} / max(p(i), 1/C), of absolute value max(b, 1 - b) C at most.

    Args:
        excess: ℓ - b, of the arm played, `[*batch]`.
        action: the arm played, `[*batch]`.
        p: what it was drawn from, `[K, *batch]`.
        bound: C.

    Returns:
        estimates, `[K, *batch]`.

    Example:
        >>> bounded(np.float64(0.5), np.int64(1), np.array([0.75, 0.25]), 2.0)
        array([0., 1.])
    """
    xp = p.__array_namespace__()
    weight = xp.minimum(1.0 / taken(p, action), bound)
    return xp.where(played(action, like=p), excess * weight, 0.0)


def _checked_bound(bound: float) -> float:
    found = checks.number(bound, "bound")
    if not (math.isfinite(found) and found >= 1):
        raise ValueError(f"bound must be a finite number of at least 1, not {bound}")
    return found
