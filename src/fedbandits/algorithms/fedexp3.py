"""FedExp3, Algorithm 1 of the paper."""

from __future__ import annotations

import math
import warnings
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import TYPE_CHECKING, ClassVar

from fedbandits.arrays import Array
from fedbandits.common import checks
from fedbandits.schedules import Constant, MixingAware, Power, Schedule
from fedbandits.theory import rates as theory

from .base import Leaf
from .exponential_weights import ExploringWeights, LossEstimates, importance_weighted
from .tunable import MEMORY, Tunable

if TYPE_CHECKING:
    from fedbandits.gossip.base import Gossip


@dataclass(frozen=True, init=False)
class FedExp3(ExploringWeights):
    """Exp3 on loss estimates that are averaged with the neighbours' in every round.

    z_{t+1}^v = Σ_u W_uv z_t^u + g_t^v,  x_t ∝ exp(-η_{t-1} z_t),  p_t = (1 - γ_t) x_t + γ_t / K.

    With a memory of m rounds it forgets: z_{t+1}^v = λ Σ_u W_uv z_t^u + g_t^v, λ = 1 - 1/m. The
    mean over agents is then the discounted sum of mean estimates. The messages stay the same. The
    default rate depends on this z, the losses of about the last m rounds. So it is the rate of a
    game of m rounds, and rises again if the recently best arm loses little. For a constant rate
    `fb.bounds.forgetting_bound` holds.

    The default needs no tuning: its learning rate adapts to the losses, and to the speed at which
    the network spreads estimates, which `set_up` computes. `FedExp3(0.1)` has the constants of the
    paper's figures; `from_theorem` gives those of Theorem 3.

    Args:
        learning_rate: η, a number or a schedule; `fb.schedules.mixing_aware()` by default.
        exploration: γ, a number in [0, 1] or a schedule (clipped at 1).
        memory: m, in rounds, at least 1; None remembers forever. The rounds of a live agent are its
            own observations.

    Example:
        >>> import fedbandits as fb
        >>> fb.FedExp3(learning_rate=0.1, exploration=fb.schedules.power(0.01, 1 / 3)).exploration
        power(c=0.01, a=0.3333333333333333)

    Reference:
        Yi and Vojnović, Doubly Adversarial Federated Bandits, ICML 2023, Algorithm 1.
    """

    memory: float | None = field(metadata={"if_given": True})

    leaves: ClassVar[Mapping[str, Leaf]] = {"z": Leaf(kind="estimate", combine="average")}
    theorem: ClassVar[str | None] = "doubly adversarial"
    tunable: ClassVar[Mapping[str, Tunable]] = {**ExploringWeights.tunable, "memory": MEMORY}

    def __init__(
        self,
        learning_rate: float | Schedule = MixingAware(),  # noqa: B008 (frozen)
        exploration: float | Schedule = Power(0.01, 1 / 3),  # noqa: B008 (frozen)
        *,
        memory: float | None = None,
    ) -> None:
        super().__init__(learning_rate, exploration)
        if memory is not None:
            fix = "; leave it out to remember forever"
            memory = checks.within(memory, "memory, in rounds,", "[1, inf)", fix)
        self._assign(memory=memory)

    def __repr__(self) -> str:
        values = {each.name: getattr(self, each.name) for each in fields(self)}
        shown = (f"{name}={value!r}" for name, value in values.items() if value is not None)
        return f"{type(self).__name__}({', '.join(shown)})"

    @classmethod
    def from_theorem(cls, gossip: Gossip, *, arms: int, horizon: int) -> FedExp3:
        """Return the algorithm with the rates of the paper's upper bound for this gossip, K and T.

        γ_t = ((C_W + 1/2) K² ln K / t)^(1/3) and η = ln K / (T γ_T), with γ_T not clipped. If γ_T
        is above 1, agents always play uniformly; a warning names the horizon from which the theorem
        is not vacuous.
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

    def largest_estimate(self, arms: int, rounds: float) -> float:
        """Return T K / γ_T, or m K / γ_T with a memory of m < T rounds."""
        most = super().largest_estimate(arms, rounds)
        return most if self.memory is None else most * min(1.0, self.memory / rounds)

    def update(
        self,
        state: LossEstimates,
        received: Mapping[str, Array],
        action: Array,
        feedback: Array,
        p: Array,
        t: Array,  # noqa: ARG002
    ) -> LossEstimates:
        """Return z_{t+1}^v = Σ_u W_uv z_t^u + g_t^v, lines 5 and 6 of Algorithm 1."""
        known = received["z"]
        if self.memory is not None:  # known when it is compiled
            known = (1.0 - 1.0 / self.memory) * known
        return state._replace(z=known + importance_weighted(feedback, action, p))
