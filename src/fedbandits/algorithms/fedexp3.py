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
    mean over agents is then the discounted sum of mean estimates, and nothing more is sent. The
    default rate reads the same z, the losses of about the last m rounds: it is the rate of a game
    of m rounds, falls no lower, and rises again where the best arm of late loses little. No
    theorem here speaks of it.

    The default needs no tuning: a learning rate that adapts to the losses, and to how slowly the
    network spreads what is estimated, which `set_up` works out. The constants behind
    the paper's figures are `FedExp3(0.1)`; `from_theorem` gives Theorem 3's.

    Args:
        learning_rate: η, a number or a schedule; `fb.schedules.mixing_aware()` by default.
        exploration: γ, a number in [0, 1] or a schedule (clipped at 1).
        memory: m, in rounds, at least 1; None remembers forever. A live agent's rounds are its own
            observations.

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
        object.__setattr__(self, "memory", None if memory is None else checked_memory(memory))

    def __repr__(self) -> str:
        values = {each.name: getattr(self, each.name) for each in fields(self)}
        shown = (f"{name}={value!r}" for name, value in values.items() if value is not None)
        return f"{type(self).__name__}({', '.join(shown)})"

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
        """Lines 5 and 6: z_{t+1}^v = Σ_u W_uv z_t^u + g_t^v, the agent's own z included."""
        known = received["z"]
        if self.memory is not None:  # whether it forgets is known when it is compiled
            known = (1.0 - 1.0 / self.memory) * known
        return state._replace(z=known + importance_weighted(feedback, action, p))


def checked_memory(memory: float) -> float:
    """A memory in rounds, at least 1.

    Example:
        >>> checked_memory(0.5)
        Traceback (most recent call last):
            ...
        ValueError: memory is in rounds, a finite number of at least 1, not 0.5; leave it out ...
    """
    found = checks.number(memory, "memory")
    if not 1 <= found < math.inf:
        raise ValueError(
            f"memory is in rounds, a finite number of at least 1, not {memory}; leave it out to "
            "remember forever"
        )
    return found
