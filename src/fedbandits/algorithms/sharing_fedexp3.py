"""SharingFedExp3: FedExp3 with fixed share, which limits how far an arm falls behind."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

from fedbandits.arrays import Array, over_arms
from fedbandits.common import checks
from fedbandits.schedules import MixingAware, Power, Schedule

from .base import Leaf
from .exponential_weights import ExploringWeights, LossEstimates, importance_weighted
from .tunable import SHARE, Tunable


@dataclass(frozen=True, init=False)
class SharingFedExp3(ExploringWeights):
    """FedExp3 whose arms give a share of their weights to all arms, as in Exp3.S.

    y_{t+1}^v = Σ_u W_uv z_t^u + g_t^v,  v(i) ∝ (1 - α) e^{-η y(i)} + (α/K) Σ_j e^{-η y(j)},
    z_{t+1}(i) = min_j y(j) + (1/η) ln(max_j v(j) / v(i)),
    x_t ∝ exp(-η z_t),  p_t = (1 - γ_t) x_t + γ_t / K.

    η is the rate of the next round, evaluated at y. The z of the best arm does not change. The
    others stay softly below it plus (1/η) ln(K/α): this is the most that an arm has to catch up
    when it becomes the best. Agents gossip this z, so they send K numbers.

    Sharing is not linear, so the mean over agents is not a sum of mean estimates, unlike in FedExp3
    with or without a memory. With a constant rate, one agent is Exp3 with fixed share, and sharing
    increases no distance between two agents. No bound is known for several agents
    (docs/understand/moving.md).

    Args:
        learning_rate: η, a number or a schedule; `fb.schedules.mixing_aware()` by default.
        exploration: γ, a number in [0, 1] or a schedule (clipped at 1).
        share: α in (0, 1). An arm that has fallen behind regains a weight of about sqrt(α/K)
            before it is played and loses, again and again: small shares work best.

    Example:
        >>> import fedbandits as fb
        >>> fb.SharingFedExp3(0.1, share=0.001).share
        0.001

    Reference:
        Herbster and Warmuth, Tracking the best expert, 1998; Auer, Cesa-Bianchi, Freund and
        Schapire, The nonstochastic multiarmed bandit problem, 2002 (Exp3.S).
    """

    share: float

    leaves: ClassVar[Mapping[str, Leaf]] = {"z": Leaf(kind="estimate", combine="average")}
    tunable: ClassVar[Mapping[str, Tunable]] = {**ExploringWeights.tunable, "share": SHARE}
    common_round: ClassVar[str | None] = (
        "it limits how far arms fall behind after every round, which a ledger of sums cannot do"
    )
    sleeps: ClassVar[bool] = False

    def __init__(
        self,
        learning_rate: float | Schedule = MixingAware(),  # noqa: B008 (frozen)
        exploration: float | Schedule = Power(0.01, 1 / 3),  # noqa: B008 (frozen)
        *,
        share: float = 1e-8,
    ) -> None:
        super().__init__(learning_rate, exploration)
        self._assign(share=checks.within(share, "share", "(0, 1)", "; FedExp3 shares nothing"))

    def update(
        self,
        state: LossEstimates,
        received: Mapping[str, Array],
        action: Array,
        feedback: Array,
        p: Array,
        t: Array,
    ) -> LossEstimates:
        """Update as in FedExp3, then share."""
        y = received["z"] + importance_weighted(feedback, action, p)
        eta = self.learning_rate(t, state._replace(z=y))
        return state._replace(z=shared(y, eta, self.share))


def shared(y: Array, eta: Array, share: Array) -> Array:
    """Return the z whose weights are those of y after sharing, with the same smallest entry.

    Args:
        y: loss estimates, `[K, *batch]`.
        eta: the learning rate, a scalar or `[*batch]`; 0 shares nothing.
        share: α.

    Example:
        >>> import numpy as np
        >>> y, x = np.array([1.0, 5.0]), lambda z: np.exp(-z) / np.exp(-z).sum()
        >>> z = shared(y, 1.0, 0.1)
        >>> np.round(0.9 * x(y) + 0.1 / 2, 6), np.round(x(z), 6)
        (array([0.933812, 0.066188]), array([0.933812, 0.066188]))
        >>> float(shared(np.array([1.0, 900.0]), 1.0, 0.1).max())  # 1 + ln(1 + 0.9 · 2 / 0.1)
        3.9444389791664403
    """
    xp = y.__array_namespace__()
    best = over_arms("min", y)
    weights = xp.exp(-eta * (y - best))
    gift = share * over_arms("sum", weights) / y.shape[0]
    behind = xp.log((1.0 - share + gift) / ((1.0 - share) * weights + gift))
    # A rate of 0 plays uniformly for every z, and must not be divided by.
    return xp.where(eta > 0, best + behind / xp.where(eta > 0, eta, 1.0), y)
