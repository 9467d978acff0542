"""SharingFedExp3: FedExp3 that lets no arm fall too far behind (fixed share)."""

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
    """FedExp3 whose arms give a share of their weights to all, as Exp3.S does alone.

    y_{t+1}^v = Σ_u W_uv z_t^u + g_t^v,  v(i) ∝ (1 - α) e^{-η y(i)} + (α/K) Σ_j e^{-η y(j)},
    z_{t+1}(i) = min_j y(j) + (1/η) ln(max_j v(j) / v(i)),
    x_t ∝ exp(-η z_t),  p_t = (1 - γ_t) x_t + γ_t / K.

    η is the rate of the next round as it reads y. The best arm's z stays as it is, and what others
    are above it is held softly below (1/η) ln(K/α): an arm that becomes the best has that much to
    catch up, however long it was worse. This z is gossiped, and only K numbers are sent.

    Sharing is not linear, so the mean over agents is no longer a sum of mean estimates, as it is
    in FedExp3 and with a memory. What holds with a constant rate: an agent alone is Exp3 with fixed
    share, and sharing moves no two agents apart. No bound is known for several
    (docs/understand/moving.md).

    Args:
        learning_rate: η, a number or a schedule; `fb.schedules.mixing_aware()` by default.
        exploration: γ, a number in [0, 1] or a schedule (clipped at 1).
        share: α, above 0 and below 1. An arm that has fallen behind comes back to a weight of about
            sqrt(α/K) before it is played and found to lose, again and again: small shares do best.

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
        "it holds its arms near the best one after every round, which a ledger of sums cannot keep"
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
        object.__setattr__(self, "share", _checked_share(share))

    def message(self, state: LossEstimates) -> dict[str, Array]:
        """Only the estimates leave the agent, shared."""
        return {"z": state.z}

    def update(
        self,
        state: LossEstimates,
        received: Mapping[str, Array],
        action: Array,
        feedback: Array,
        p: Array,
        t: Array,
    ) -> LossEstimates:
        """As FedExp3, then the share."""
        y = received["z"] + importance_weighted(feedback, action, p)
        eta = self.learning_rate(t, state._replace(z=y))
        return state._replace(z=shared(y, eta, self.share))


def shared(y: Array, eta: Array, share: Array) -> Array:
    """The z whose weights are those of y after the share, with the same smallest entry.

    Args:
        y: loss estimates, `[K, *batch]`.
        eta: the learning rate, a scalar or `[*batch]`; where it is 0 nothing is shared.
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
    # A rate of 0 plays uniformly, whatever z: it need not be divided by.
    return xp.where(eta > 0, best + behind / xp.where(eta > 0, eta, 1.0), y)


def _checked_share(share: float) -> float:
    found = checks.number(share, "share")
    if not 0 < found < 1:
        raise ValueError(
            f"share is the part of its weight that an arm gives to all, above 0 and below 1, not "
            f"{share}; FedExp3 shares nothing"
        )
    return found
