"""HeldFedExp3: one arm per block, and noise on the sum of its losses."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import ClassVar, NamedTuple, Self

import numpy as np
from numpy.typing import DTypeLike

from fedbandits.arrays import Array
from fedbandits.common import checks
from fedbandits.schedules import Power, Schedule

from .base import Setting
from .blocks import checked_block
from .exponential_weights import (
    checked_exploration,
    explore,
    exponential_weights,
    importance_weighted,
    optional_rate,
)
from .noised_blocks import NoisedBlocks, laplace


class HeldArm(NamedTuple):
    """The state of an agent.

    Attributes:
        z: cumulative loss estimates with noise, `[K, *batch]`; distributions and messages use them.
        held: 1/p at the arm of this block, else 0, `[K, *batch]`.
        gathered: the sum of losses of this block so far, over p, at the same arm, `[K, *batch]`.
        agents: number of agents in the network, a scalar.
    """

    z: Array
    held: Array
    gathered: Array
    agents: Array


@dataclass(frozen=True)
class HeldFedExp3(NoisedBlocks[HeldArm]):
    """FedExp3 that holds an arm for B rounds and learns from one noised sum of its losses.

    In the first round of a block the agent draws a from p = (1 - γ) x + γ/K, x ∝ exp(-η z), and
    plays a in every round of the block. At the end of the block

        z(a) ← z(a) + (Σ_{t in block} ℓ_t(a) + Laplace(1/ε)) / p(a).

    Gossip, z^v ← Σ_u W_uv z^u, continues in every round.

    `guarantee` states the claim: ε-differential privacy for the loss of one agent in one round
    (event level), against all other agents together, who see all messages and all arms. One loss
    changes the sum of one block by at most 1, and everything that others see is computed from the
    noised sums. Arms are public. m rounds of one person have m ε; over T rounds the guarantee
    weakens to T ε, which protects nothing. The noise is simulated (see `laplace`), so live agents
    reject this algorithm.

    Asi, Raman and Talwar prove a bound for one such agent with other rates. No bound is known for
    these rates or with gossip.

    Args:
        epsilon: ε.
        block: B, rounds for which an arm is held; 10/sqrt(ε) by default, rounded up.
        learning_rate: η, a number or a schedule; by default
            2 sqrt(B ln K / ((K/N + 1) (B²/4 + 2/ε²) t)), lower where a noised sum varies more.
        exploration: γ, a number in [0, 1] or a schedule (clipped at 1).

    Example:
        >>> import fedbandits as fb
        >>> fb.HeldFedExp3(epsilon=0.1).block
        32

    Reference:
        Asi, Raman and Talwar, Faster rates for private adversarial bandits, ICML 2025.
    """

    epsilon: float
    block: int
    learning_rate: Schedule | None
    exploration: Schedule

    guarantee: ClassVar[str | None] = (
        "ε = {epsilon} per round for the losses of one agent (event level); arms are public; holds "
        "even if all other agents collude; simulated noise"
    )

    def __init__(
        self,
        epsilon: float = 1.0,
        block: int | None = None,
        learning_rate: float | Schedule | None = None,
        exploration: float | Schedule = Power(0.3, 1 / 3),  # noqa: B008 (frozen)
    ) -> None:
        epsilon = checks.within(epsilon, "epsilon", "(0, inf)")
        if block is None:
            block = math.ceil(10 / math.sqrt(epsilon))
        self._assign(
            epsilon=epsilon,
            block=checked_block(block),
            learning_rate=optional_rate(learning_rate),
            exploration=checked_exploration(exploration),
        )

    def set_up(self, setting: Setting) -> Self:
        """Fill in the learning rate if it was not given."""
        if self.learning_rate is not None:
            return self
        varies = self.block / 4 + 2 / (self.epsilon**2 * self.block)  # variance of a sum, per round
        scale = math.log(setting.arms) / ((setting.arms / setting.agents + 1) * varies)
        return replace(self, learning_rate=Power(2 * math.sqrt(scale), 1 / 2))

    def init(
        self, arms: int, agents: int, batch: tuple[int, ...] = (), dtype: DTypeLike = np.float32
    ) -> HeldArm:
        """Return z_1 = 0."""
        zeros = np.zeros((arms, *batch), dtype)
        return HeldArm(zeros, zeros, zeros, np.asarray(agents, dtype))

    def distribution(self, state: HeldArm, t: Array) -> Array:
        """Return the distribution of FedExp3 in the first round of a block, then the arm held."""
        if self.learning_rate is None:
            raise ValueError(self.not_set_up)
        xp = state.z.__array_namespace__()
        x = exponential_weights(state, self.learning_rate, t)
        p = explore(x, self.exploration(t, state))
        return xp.where(self._begins(t), p, (state.held > 0).astype(p.dtype))

    def update(
        self,
        state: HeldArm,
        received: Mapping[str, Array],
        action: Array,
        feedback: Array,
        p: Array,
        t: Array,
    ) -> HeldArm:
        """Average the noised estimates, and add the loss to the sum of the block."""
        xp = p.__array_namespace__()
        drawn = importance_weighted(xp.ones_like(feedback), action, p)
        held = xp.where(self._begins(t), drawn, state.held)
        return state._replace(z=received["z"], held=held, gathered=state.gathered + feedback * held)

    def disturb(self, state: HeldArm, uniforms: Array, t: Array) -> HeldArm:  # noqa: ARG002
        """Add the sum of the block and its noise, over p, to z."""
        xp = state.z.__array_namespace__()
        noise = state.held * laplace(uniforms) / self.epsilon
        empty = xp.zeros_like(state.gathered)
        return state._replace(z=state.z + (state.gathered + noise), held=empty, gathered=empty)

    def _begins(self, t: Array) -> Array:
        return (t - 1) % self.block == 0
