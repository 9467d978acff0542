"""FedHedge: distributed dual averaging on the simplex, for full information."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

import numpy as np
from numpy.typing import DTypeLike

from fedbandits.arrays import Array
from fedbandits.schedules import Anytime, Constant, Schedule, as_schedule
from fedbandits.theory import rates as theory

from .base import Algorithm, Feedback, Leaf
from .exponential_weights import LossEstimates, charge_absent, exponential_weights
from .tunable import LEARNING_RATE, Tunable

if TYPE_CHECKING:
    from fedbandits.gossip.base import Gossip


@dataclass(frozen=True)
class FedHedge(Algorithm[LossEstimates]):
    """Exponential weights on gossiped losses; each agent sees the losses of all arms.

    z_{t+1}^v = Σ_u W_uv z_t^u + ℓ_t^v,  p_t ∝ exp(-η_{t-1} z_t).

    Args:
        learning_rate: η, a number or a schedule.

    Example:
        >>> import fedbandits as fb
        >>> fb.FedHedge(learning_rate=0.1).feedback
        'full'

    Reference:
        Duchi, Agarwal and Wainwright, Dual averaging for distributed optimization, 2011;
        Hosseini, Chapman and Mesbahi, Online distributed optimization via dual averaging, 2013.
    """

    learning_rate: Schedule

    feedback: ClassVar[Feedback] = "full"
    leaves: ClassVar[Mapping[str, Leaf]] = {"z": Leaf(kind="estimate", combine="average")}
    theorem: ClassVar[str | None] = "full information"
    tunable: ClassVar[Mapping[str, Tunable]] = {"learning_rate": LEARNING_RATE}
    sleeps: ClassVar[bool] = True

    def __init__(self, learning_rate: float | Schedule = Anytime(1.0)) -> None:  # noqa: B008
        self._assign(learning_rate=as_schedule(learning_rate, "learning_rate"))

    @classmethod
    def from_theorem(cls, gossip: Gossip, *, arms: int, horizon: int) -> FedHedge:
        """Return the algorithm with η = sqrt(ln K / ((C_W + 1/2) T)).

        Its regret is at most 2 sqrt((C_W + 1/2) T ln K). This follows from the paper's proof with
        ‖g‖ <= 1; it is not a theorem of the paper.
        """
        rate = theory.full_information_rate(gossip, arms=arms, horizon=horizon)
        return cls(Constant(rate))

    def init(
        self, arms: int, agents: int, batch: tuple[int, ...] = (), dtype: DTypeLike = np.float32
    ) -> LossEstimates:
        """Return z_1 = 0."""
        return LossEstimates.zeros(arms, agents, batch, dtype)

    def distribution(self, state: LossEstimates, t: Array) -> Array:
        """Return p_t ∝ exp(-η_{t-1} z_t)."""
        return exponential_weights(state, self.learning_rate, t)

    def update(
        self,
        state: LossEstimates,
        received: Mapping[str, Array],
        action: Array,  # noqa: ARG002
        feedback: Array,
        p: Array,  # noqa: ARG002
        t: Array,  # noqa: ARG002
    ) -> LossEstimates:
        """Return z_{t+1}^v = Σ_u W_uv z_t^u + ℓ_t^v."""
        return state._replace(z=received["z"] + feedback)

    def largest_estimate(self, arms: int, rounds: float) -> float:  # noqa: ARG002
        """Return T, the largest sum of losses."""
        return rounds

    def charge_absent(self, state: LossEstimates, absent: Array, loss: Array) -> LossEstimates:
        """Charge absent arms the loss incurred, so that they keep their share."""
        return charge_absent(state, absent, loss)
