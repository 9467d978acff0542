"""HeldFedExp3: one arm a block, and noise on the block's sum of losses."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import ClassVar, NamedTuple, Self

import numpy as np
from numpy.typing import DTypeLike

from fedbandits.arrays import Array
from fedbandits.common import checks
from fedbandits.schedules import Power, Schedule, as_schedule

from .base import Setting
from .exponential_weights import (
    checked_exploration,
    explore,
    exponential_weights,
    importance_weighted,
)
from .laplace import checked_epsilon, laplace
from .noised_blocks import NoisedBlocks


class HeldArm(NamedTuple):
    """The state of an agent.

    Attributes:
        z: cumulative loss estimates, all noised, `[K, *batch]`: what is played from and sent.
        held: 1/p of the arm that the block began with, in that arm's place, else 0, `[K, *batch]`.
        gathered: the block's sum of losses so far, over p, in the same place, `[K, *batch]`.
        agents: number of agents in the network, a scalar.
    """

    z: Array
    held: Array
    gathered: Array
    agents: Array


@dataclass(frozen=True)
class HeldFedExp3(NoisedBlocks[HeldArm]):
    """FedExp3 that holds an arm for B rounds and learns from one noised sum of its losses.

    In a block's first round a is drawn from p = (1 - γ) x + γ/K, x ∝ exp(-η z), and then held:
    every further round of the block plays a. At the block's end

        z(a) grows by (Σ_{t in block} ℓ_t(a) + Laplace(1/ε)) / p(a);

    gossip, z^v ← Σ_u W_uv z^u, goes on in every round.

    What is claimed is in `guarantee`: ε-differential privacy for one agent's loss in one round
    (event level), against all other agents together, who see all messages and all arms. One loss
    is in one block's sum and moves it by at most 1; whatever anyone sees later is computed from the
    noised sum. Arms are public. m rounds of one person have m ε; a whole history of T rounds T ε,
    which is no guarantee. The noise is a simulation (`algorithms/laplace.py`), so that live agents
    refuse it.

    Asi, Raman and Talwar have a bound for one agent that learns so, with rates of their own; none
    is known for these rates, nor with gossip.

    Args:
        epsilon: ε.
        block: B, rounds for which an arm is held; 10/sqrt(ε) by default, rounded upwards.
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
        epsilon = checked_epsilon(epsilon)
        if block is None:
            block = math.ceil(10 / math.sqrt(epsilon))
        rate = None if learning_rate is None else as_schedule(learning_rate, "learning_rate")
        values = {
            "epsilon": epsilon,
            "block": checks.whole(block, "block", least=1, most=checks.INT32),
            "learning_rate": rate,
            "exploration": checked_exploration(exploration),
        }
        for name, value in values.items():
            object.__setattr__(self, name, value)

    def set_up(self, setting: Setting) -> Self:
        """Fill in the learning rate, where it was not given."""
        if self.learning_rate is not None:
            return self
        varies = self.block / 4 + 2 / (self.epsilon**2 * self.block)  # of a sum, for each round
        scale = math.log(setting.arms) / ((setting.arms / setting.agents + 1) * varies)
        return replace(self, learning_rate=Power(2 * math.sqrt(scale), 1 / 2))

    def init(
        self, arms: int, agents: int, batch: tuple[int, ...] = (), dtype: DTypeLike = np.float32
    ) -> HeldArm:
        """z_1 = 0."""
        zeros = np.zeros((arms, *batch), dtype)
        return HeldArm(zeros, zeros, zeros, np.asarray(agents, dtype))

    def distribution(self, state: HeldArm, t: Array) -> Array:
        """As in FedExp3 where a block begins; then certainly the arm that is held."""
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
        """The average of the noised estimates; the loss stays with the agent."""
        xp = p.__array_namespace__()
        drawn = importance_weighted(xp.ones_like(feedback), action, p)
        held = xp.where(self._begins(t), drawn, state.held)
        return state._replace(z=received["z"], held=held, gathered=state.gathered + feedback * held)

    def disturb(self, state: HeldArm, uniforms: Array, t: Array) -> HeldArm:  # noqa: ARG002
        """The block is over: z grows by the block's sum and its noise, over p."""
        xp = state.z.__array_namespace__()
        noise = state.held * laplace(uniforms) / self.epsilon
        empty = xp.zeros_like(state.gathered)
        return state._replace(z=state.z + (state.gathered + noise), held=empty, gathered=empty)

    def _begins(self, t: Array) -> Array:
        return (t - 1) % self.block == 0
