"""FedExp3, Algorithm 1 of the paper."""

from __future__ import annotations

import math
import warnings
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from fedbandits.arrays import Array
from fedbandits.schedules import Constant, Power
from fedbandits.theory import rates as theory

from .base import Leaf
from .exponential_weights import ExploringWeights, LossEstimates, importance_weighted

if TYPE_CHECKING:
    from fedbandits.gossip.base import Gossip


@dataclass(frozen=True, init=False)
class FedExp3(ExploringWeights):
    """Exp3 on loss estimates that are averaged with the neighbours' in every round.

    z_{t+1}^v = Σ_u W_uv z_t^u + g_t^v,  x_t ∝ exp(-η_{t-1} z_t),  p_t = (1 - γ_t) x_t + γ_t / K.

    The default needs no tuning: a learning rate that adapts to the losses. The constants behind
    the paper's figures are `FedExp3(0.1)`; `from_theorem` gives Theorem 3's.

    Args:
        learning_rate: η, a number or a schedule; `fb.schedules.small_loss()` by default.
        exploration: γ, a number in [0, 1] or a schedule (clipped at 1).

    Example:
        >>> import fedbandits as fb
        >>> fb.FedExp3(learning_rate=0.1, exploration=fb.schedules.power(0.01, 1 / 3)).exploration
        power(c=0.01, a=0.3333333333333333)

    Reference:
        Yi and Vojnović, Doubly Adversarial Federated Bandits, ICML 2023, Algorithm 1.
    """

    leaves: ClassVar[Mapping[str, Leaf]] = {"z": Leaf(kind="estimate", combine="average")}
    theorem: ClassVar[str | None] = "doubly adversarial"

    @classmethod
    def from_theorem(cls, gossip: Gossip, *, arms: int, horizon: int) -> FedExp3:
        """The rates of the paper's upper bound, for this gossip, K and T.

        γ_t = ((C_W + 1/2) K² ln K / t)^(1/3) and η = ln K / (T γ_T), with γ_T not clipped. Where
        γ_T is above 1 the agents play uniformly throughout; a warning then names the horizon from
        which the theorem says anything.
        """
        rates = theory.theorem_rates(gossip, arms=arms, horizon=horizon)
        if rates.exploration_at_horizon > 1:
            needed = theory.horizon_needed(gossip, arms=arms)
            warnings.warn(
                f"the theorem's exploration rate is {rates.exploration_at_horizon:.3g} at "
                f"horizon {horizon:,}; it is clipped at 1 and every agent plays uniformly. It "
                f"falls to 1 at horizon {needed:,.0f}. For shorter horizons choose the rates "
                "yourself, for example FedExp3(learning_rate=0.1, "
                "exploration=fb.schedules.power(0.01, 1 / 3))",
                stacklevel=2,
            )
        if math.isinf(rates.exploration_scale):  # no spectral gap
            return cls(Constant(0.0), Constant(1.0))
        return cls(Constant(rates.learning_rate), Power(rates.exploration_scale, 1 / 3))

    def message(self, state: LossEstimates) -> dict[str, Array]:
        """Only the running estimates leave the agent."""
        return {"z": state.z}

    def update(
        self,
        state: LossEstimates,
        received: Mapping[str, Array],
        action: Array,
        feedback: Array,
        p: Array,
        t: Array,  # noqa: ARG002
    ) -> LossEstimates:
        """Lines 5 and 6: z_{t+1}^v = Σ_u W_uv z_t^u + g_t^v, the agent's own z included."""
        return state._replace(z=received["z"] + importance_weighted(feedback, action, p))
