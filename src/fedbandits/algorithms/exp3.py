"""Exp3, the baseline without communication."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from fedbandits.arrays import Array

from .exponential_weights import ExploringWeights, LossEstimates, importance_weighted


@dataclass(frozen=True, init=False)
class Exp3(ExploringWeights):
    """Each agent alone: z_{t+1} = z_t + g_t. It ignores the gossip and sends nothing.

    Args:
        learning_rate: η, a number or a schedule.
        exploration: γ, a number in [0, 1] or a schedule (clipped at 1).

    Example:
        >>> import fedbandits as fb
        >>> fb.Exp3(learning_rate=0.1).leaves
        {}

    Reference:
        Auer, Cesa-Bianchi, Freund and Schapire, The nonstochastic multiarmed bandit problem, 2002.
    """

    def update(
        self,
        state: LossEstimates,
        received: Mapping[str, Array],  # noqa: ARG002
        action: Array,
        feedback: Array,
        p: Array,
        t: Array,  # noqa: ARG002
    ) -> LossEstimates:
        """z_{t+1} = z_t + g_t."""
        return state._replace(z=state.z + importance_weighted(feedback, action, p))
