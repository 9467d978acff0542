"""PrivateFedExp3: noise, added once per block, protects arms and losses."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import ClassVar, NamedTuple, Self

import numpy as np
from numpy.typing import DTypeLike

from fedbandits.arrays import Array, over_arms, played, taken
from fedbandits.common import checks
from fedbandits.schedules import Constant, Power, Schedule

from .base import Setting
from .blocks import checked_block
from .exponential_weights import (
    checked_exploration,
    explore,
    exponential_weights,
    optional_rate,
)
from .noised_blocks import NoisedBlocks, laplace


class NoisedEstimates(NamedTuple):
    """The state of an agent.

    Attributes:
        z: cumulative loss estimates with noise, `[K, *batch]`; distributions and messages use them.
        gathered: the agent's own estimates of this block so far, without noise, `[K, *batch]`;
            distributions and messages do not use them.
        baseline: b, about the loss of the arms that are played, from noised sums, `[1, *batch]`.
        agents: number of agents in the network, a scalar.
    """

    z: Array
    gathered: Array
    baseline: Array
    agents: Array


@dataclass(frozen=True)
class PrivateFedExp3(NoisedBlocks[NoisedEstimates]):
    """FedExp3 with bounded estimates, summed over B rounds, and noise before any use.

    In a block each agent sums ĝ_t(i) = (ℓ_t - b) 1{a_t = i} / max(p_t(i), 1/C), with a baseline
    b in [0, 1]. At the end of the block

        S = Σ_{t in block} ĝ_t + Laplace(2 max(b, 1 - b) C/ε), independent in every entry,
        z ← z + S,  b ← b + Σ_i max(p(i), 1/C) S(i) / 5B, clipped to [0, 1].

    Gossip, z^v ← Σ_u W_uv z^u, continues in every round. Arms are drawn from p_t = (1 - γ_t) x_t +
    γ_t/K, x_t ∝ exp(-η_{t-1} z_t), which depends on the noised z alone.

    `guarantee` states the claim: ε-differential privacy for the arm and the loss of one agent in
    one round (event level), against all other agents together, who see all messages. One event
    (a_t, ℓ_t) changes the sum of one block by at most 2 max(b, 1 - b) C in the L1 norm, and
    everything that others see, including b, is computed from the noised sums. p_t is public, since
    z is sent: the odds that others give to an arm start at p_t and change by at most e^ε. If losses
    depend on the arms played (`fb.problems.Adaptive`), later losses reveal an arm without this
    noise, and there is no guarantee for arms. m rounds of one person have m ε; over T rounds the
    guarantee weakens to T ε, which protects nothing. The noise is simulated (see `laplace`), so
    live agents reject this algorithm. No regret bound is known.

    The baseline is needed because max(p, 1/C) pulls the estimate of a rare arm towards b. With
    b = 0, the smallest loss, agents would return to rare arms; with b = 1 they would keep the first
    arm that they prefer. b starts at 1/2, where the noise is smallest, and follows the losses of
    the arms played.

    Args:
        epsilon: ε.
        bound: C; K/2 by default.
        block: B, rounds in a block; 20 sqrt(K/ε) by default, rounded up.
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
        self._assign(
            epsilon=checks.within(epsilon, "epsilon", "(0, inf)"),
            bound=None if bound is None else checks.within(bound, "bound", "[1, inf)"),
            block=checked_block(block),
            learning_rate=optional_rate(learning_rate),
            exploration=checked_exploration(exploration),
        )

    def set_up(self, setting: Setting) -> Self:
        """Fill in the bound, the block and the learning rate if they were not given."""
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
        """Return z_1 = 0, b = 1/2."""
        zeros = np.zeros((arms, *batch), dtype)
        half = np.full((1, *batch), 0.5, dtype)
        return NoisedEstimates(zeros, zeros, half, np.asarray(agents, dtype))

    def distribution(self, state: NoisedEstimates, t: Array) -> Array:
        """Return p_t = (1 - γ_t) x_t + γ_t / K, from the noised z alone."""
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
        """Average the noised estimates, and add the own estimate to the sum of the block."""
        if self.bound is None:
            raise ValueError(self.not_set_up)
        own = bounded(feedback - state.baseline[0], action, p, self.bound)
        return state._replace(z=received["z"], gathered=state.gathered + own)

    def disturb(self, state: NoisedEstimates, uniforms: Array, t: Array) -> NoisedEstimates:
        """Add the sum of the block and its noise to z, and move b towards the losses."""
        if self.bound is None or self.block is None:
            raise ValueError(self.not_set_up)
        xp, b = state.z.__array_namespace__(), state.baseline
        scale = 2.0 * xp.maximum(b, 1.0 - b) * self.bound / self.epsilon
        noised = state.gathered + scale * laplace(uniforms)
        # The mean loss of the block minus b, from the noised sum.
        weights = xp.maximum(self.distribution(state, t), 1.0 / self.bound)
        lost = over_arms("sum", weights * noised)[None] / self.block
        return state._replace(
            z=state.z + noised,
            gathered=xp.zeros_like(state.gathered),
            baseline=xp.minimum(xp.maximum(b + _FOLLOWS * lost, 0.0), 1.0),
        )


_FOLLOWS = 0.2
"""The share of the way to the mean loss of a block that b moves."""


def bounded(excess: Array, action: Array, p: Array, bound: Array) -> Array:
    """Return ĝ(i) = (ℓ - b) 1{a = i} / max(p(i), 1/C), at most max(b, 1 - b) C in absolute value.

    Args:
        excess: ℓ - b, of the arm played, `[*batch]`.
        action: the arm played, `[*batch]`.
        p: the distribution it was drawn from, `[K, *batch]`.
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
