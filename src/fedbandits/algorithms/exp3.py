"""Exp3, the baseline without communication."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import DTypeLike

from fedbandits.arrays import Array

from .exponential_weights import ExploringWeights, LossEstimates, importance_weighted


@dataclass(frozen=True, init=False)
class Exp3(ExploringWeights):
    """Each agent learns alone: z_{t+1} = z_t + g_t. It ignores the gossip and sends nothing.

    Args:
        learning_rate: η, a number or a schedule; `fb.schedules.small_loss()` by default.
        exploration: γ, a number in [0, 1] or a schedule (clipped at 1).

    Example:
        >>> import fedbandits as fb
        >>> fb.Exp3(learning_rate=0.1).leaves
        {}

    Reference:
        Auer, Cesa-Bianchi, Freund and Schapire, The nonstochastic multiarmed bandit problem, 2002.
    """

    def init(
        self,
        arms: int,
        agents: int,  # noqa: ARG002
        batch: tuple[int, ...] = (),
        dtype: DTypeLike = np.float32,
    ) -> LossEstimates:
        """Return z_1 = 0 with N = 1: an agent alone is a federation of one, also for its rates."""
        return LossEstimates.zeros(arms, 1, batch, dtype)

    def update(
        self,
        state: LossEstimates,
        received: Mapping[str, Array],  # noqa: ARG002
        action: Array,
        feedback: Array,
        p: Array,
        t: Array,  # noqa: ARG002
    ) -> LossEstimates:
        """Return z_{t+1} = z_t + g_t."""
        return state._replace(z=state.z + importance_weighted(feedback, action, p))
