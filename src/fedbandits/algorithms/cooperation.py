"""Cooperation: loss estimates from the plays of all agents within `hops` hops."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import ClassVar, NamedTuple

import numpy as np
from numpy.typing import DTypeLike

from fedbandits.arrays import Array, played
from fedbandits.common.checks import INT32, whole

from .base import Algorithm, Leaf

_NEVER = -800.0
"""Replaces ln 0, so that sums stay finite: e^-800 is 0 in every precision."""


class Cooperation(NamedTuple):
    """The state of a cooperating agent. `arm`, `loss` and `unplayed` are of the previous round.

    Attributes:
        z: cumulative loss estimates, `[K, *batch]`.
        arm: 1 at the arm played, `[K, *batch]`.
        loss: its loss at the arm played, `[K, *batch]`.
        unplayed: ln(1 - p(i)) of the distribution p that it played from, `[K, *batch]`.
        agents: number of agents in the network, a scalar.
    """

    z: Array
    arm: Array
    loss: Array
    unplayed: Array
    agents: Array


def log_unplayed(p: Array) -> Array:
    """Return ln(1 - p), with -800 for ln 0.

    Example:
        >>> log_unplayed(np.array([0.5, 1.0])).round(3).tolist()
        [-0.693, -800.0]
    """
    xp = p.__array_namespace__()
    return xp.where(p < 1, xp.log1p(-xp.where(p < 1, p, 0.0)), _NEVER)


def cooperative_estimate(arm: Array, loss: Array, unplayed: Array) -> Array:
    """Return ℓ̂(i) = ℓ(i) 1{an agent in reach played i} / q(i), q(i) = 1 - Π (1 - p^u(i)).

    ℓ(i) is the mean over the agents that played i. The estimate is unbiased if all agents in reach
    have equal losses.

    Args:
        arm: number of agents in reach that played each arm, `[K, *batch]`.
        loss: the sum of their losses, `[K, *batch]`.
        unplayed: the sum over all agents in reach of ln(1 - p(i)), `[K, *batch]`.

    Returns:
        estimates, `[K, *batch]`.

    Example:
        >>> two = np.log(1 - np.array([0.5, 0.5])) + np.log(1 - np.array([0.2, 0.8]))
        >>> cooperative_estimate(np.array([2.0, 0.0]), np.array([1.2, 0.0]), two).round(3)
        array([1., 0.])
    """
    xp = arm.__array_namespace__()
    someone = arm > 0.5
    # No agent played an arm with q = 0: the 1 is never used.
    chance = xp.where(someone, -xp.expm1(unplayed), 1.0)
    return xp.where(someone, loss / (xp.maximum(arm, 1.0) * chance), 0.0)


@dataclass(frozen=True)
class CooperativeLearner(Algorithm[Cooperation]):
    """An agent that sends its arm, distribution and loss to all agents within `hops` hops.

    Arms and losses are sent unchanged and are `raw`. The distribution follows from earlier losses
    and is an `estimate`.
    """

    hops: int = field(default=1, metadata={"static": True})

    leaves: ClassVar[Mapping[str, Leaf]] = {
        "arm": Leaf(kind="raw", combine="flood", one_hot=True),
        "loss": Leaf(kind="raw", combine="flood", one_hot=True),
        "unplayed": Leaf(kind="estimate", combine="flood"),
    }

    def __post_init__(self) -> None:
        object.__setattr__(self, "hops", whole(self.hops, "hops", least=1, most=INT32))

    def init(
        self, arms: int, agents: int, batch: tuple[int, ...] = (), dtype: DTypeLike = np.float32
    ) -> Cooperation:
        """Return z_1 = 0, and no play."""
        zeros = np.zeros((arms, *batch), dtype)
        return Cooperation(zeros, zeros, zeros, zeros, np.asarray(agents, dtype))

    def update(
        self,
        state: Cooperation,
        received: Mapping[str, Array],
        action: Array,
        feedback: Array,
        p: Array,
        t: Array,  # noqa: ARG002
    ) -> Cooperation:
        """Return z_{t+1} = z_t + ℓ̂_{t-hops}, from the plays of round t - hops."""
        xp = p.__array_namespace__()
        chosen = played(action, like=p)
        return state._replace(
            z=state.z + cooperative_estimate(**received),
            arm=chosen.astype(p.dtype),
            loss=xp.where(chosen, feedback, 0.0).astype(p.dtype),
            unplayed=log_unplayed(p),
        )
