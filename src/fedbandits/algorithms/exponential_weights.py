"""Exponential weights: the state and the formulas that several algorithms share."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, NamedTuple, Self, TypeVar

import numpy as np
from numpy.typing import DTypeLike

from fedbandits.arrays import Array, over_arms, played, taken
from fedbandits.gossip.scatter import scatter
from fedbandits.schedules import (
    Constant,
    MixingAware,
    Power,
    RateState,
    Schedule,
    SmallLoss,
    as_schedule,
    name_of,
)

from .base import Algorithm, Setting
from .tunable import EXPLORATION, LEARNING_RATE, Tunable

if TYPE_CHECKING:
    from fedbandits.gossip.base import Gossip

S = TypeVar("S")


class LossEstimates(NamedTuple):
    """The state of an exponential-weights agent.

    Attributes:
        z: cumulative loss estimates, `[K, *batch]`.
        agents: number of agents in the network, a scalar.
    """

    z: Array
    agents: Array

    @classmethod
    def zeros(
        cls, arms: int, agents: int, batch: tuple[int, ...], dtype: DTypeLike
    ) -> LossEstimates:
        """Return z_1 = 0."""
        return cls(np.zeros((arms, *batch), dtype), np.asarray(agents, dtype))


def softmax(losses: Array, eta: Array) -> Array:
    """Return x(i) ∝ exp(-η L(i)), `[K, *batch]`.

    Subtracting the smallest L first keeps every exponent in (-inf, 0], so that no number of rounds
    overflows.
    """
    xp = losses.__array_namespace__()
    weights = xp.exp(-eta * (losses - over_arms("min", losses)))
    return weights * (1.0 / over_arms("sum", weights))


def exponential_weights(state: RateState, learning_rate: Schedule, t: Array) -> Array:
    """Return x_t(i) ∝ exp(-η_{t-1} z_t(i)), with η_0 := η_1: distributions, `[K, *batch]`."""
    xp = state.z.__array_namespace__()
    return softmax(state.z, learning_rate(xp.maximum(t - 1, 1), state))


def explore(x: Array, exploration: Array) -> Array:
    """Return p_t(i) = (1 - γ_t) x_t(i) + γ_t / K, with γ_t clipped at 1 (uniform play)."""
    gamma = x.__array_namespace__().minimum(exploration, 1.0)
    return (1.0 - gamma) * x + gamma / x.shape[0]


def importance_weighted(loss: Array, action: Array, p: Array) -> Array:
    """Return g_t(i) = ℓ_t(i) 1{a_t = i} / p_t(i), which is unbiased: E[g_t] = ℓ_t.

    Args:
        loss: loss of the arm played, `[*batch]`.
        action: the arm played, `[*batch]`.
        p: the distribution it was drawn from, `[K, *batch]`.

    Returns:
        estimates, `[K, *batch]`.

    Example:
        >>> importance_weighted(np.float64(1.0), np.int64(1), np.array([0.75, 0.25]))
        array([0., 4.])
    """
    xp = p.__array_namespace__()
    return xp.where(played(action, like=p), loss / taken(p, action), 0.0)


def largest_importance_weighted(exploration: Schedule, arms: int, rounds: float) -> float:
    """Return the largest estimate of a single loss in rounds 1 to T: K / γ_T.

    Args:
        exploration: γ, which must not grow with the round.
        arms: K.
        rounds: T.

    Example:
        >>> largest_importance_weighted(Constant(0.1), 3, 1e6)
        30.0
    """
    if not isinstance(exploration, Constant | Power):  # it may grow
        return math.inf
    gamma = exploration(np.float64(rounds), None)  # type: ignore[arg-type]  # neither reads the state
    return arms / min(gamma, 1.0) if gamma > 0 else math.inf


def charge_absent(state: LossEstimates, absent: Array, loss: Array) -> LossEstimates:
    """Add the loss incurred to z(i) of every absent arm i.

    This is the rule of sleeping experts (Freund, Schapire, Singer and Warmuth, 1997). The loss
    incurred is an unbiased estimate of the mean loss of the present arms, so an absent arm keeps
    its share.

    Example:
        >>> state = LossEstimates(np.array([1.0, 2.0]), np.asarray(3.0))
        >>> charge_absent(state, np.array([False, True]), np.float64(0.5)).z
        array([1. , 2.5])
    """
    xp = state.z.__array_namespace__()
    return state._replace(z=xp.where(absent, state.z + loss, state.z))


def optional_rate(learning_rate: float | Schedule | None) -> Schedule | None:
    """Return a learning rate as a schedule, or None if `set_up` chooses it."""
    return None if learning_rate is None else as_schedule(learning_rate, "learning_rate")


def checked_exploration(exploration: float | Schedule) -> Schedule:
    """Return an exploration rate as a schedule; a number must be a probability."""
    gamma = as_schedule(exploration, "exploration")
    if isinstance(gamma, Constant) and gamma.value > 1:
        raise ValueError(f"exploration is a probability and must be <= 1, not {gamma.value}")
    if isinstance(gamma, SmallLoss | MixingAware):
        raise ValueError(
            f"{name_of(gamma)} is a learning rate, of no use as exploration; take a number or "
            "fb.schedules.power(0.01, 1 / 3)"
        )
    return gamma


def with_scatter(rate: Schedule, gossip: Gossip | None, momentum: float = 0.0) -> Schedule:
    """Return a `MixingAware` rate with the scatter of the gossip, any other rate unchanged.

    Example:
        >>> from fedbandits import gossip, networks
        >>> rate = with_scatter(MixingAware(), gossip.max_degree(networks.star(36)))
        >>> round(rate.scatter, 1)
        34.3
    """
    if gossip is None or not isinstance(rate, MixingAware):
        return rate
    return rate.knowing(scatter(gossip, momentum))


@dataclass(frozen=True, init=False)
class Exploring(Algorithm[S]):
    """An algorithm with a learning rate and a rate of exploration."""

    learning_rate: Schedule
    exploration: Schedule

    tunable: ClassVar[Mapping[str, Tunable]] = {
        "learning_rate": LEARNING_RATE,
        "exploration": EXPLORATION,
    }

    def __init__(self, learning_rate: float | Schedule, exploration: float | Schedule) -> None:
        self._assign(
            learning_rate=as_schedule(learning_rate, "learning_rate"),
            exploration=checked_exploration(exploration),
        )

    def set_up(self, setting: Setting) -> Self:
        """Give the learning rate the scatter of the gossip, if it depends on it."""
        gossip = setting.gossip if self.leaves else None
        return self.with_values(learning_rate=with_scatter(self.learning_rate, gossip))


@dataclass(frozen=True, init=False)
class ExploringWeights(Exploring[LossEstimates]):
    """Exponential weights mixed with uniform exploration; subclasses define the update of z.

    Args:
        learning_rate: η, a number or a schedule; `fb.schedules.small_loss()` by default.
        exploration: γ, a number in [0, 1] or a schedule (clipped at 1); that of the paper's figures
            by default.
    """

    sleeps: ClassVar[bool] = True

    def __init__(
        self,
        learning_rate: float | Schedule = SmallLoss(),  # noqa: B008 (frozen)
        exploration: float | Schedule = Power(0.01, 1 / 3),  # noqa: B008 (frozen)
    ) -> None:
        super().__init__(learning_rate, exploration)

    def init(
        self, arms: int, agents: int, batch: tuple[int, ...] = (), dtype: DTypeLike = np.float32
    ) -> LossEstimates:
        """Return z_1 = 0."""
        return LossEstimates.zeros(arms, agents, batch, dtype)

    def distribution(self, state: LossEstimates, t: Array) -> Array:
        """Return p_t = (1 - γ_t) x_t + γ_t / K, line 3 of Algorithm 1."""
        x = exponential_weights(state, self.learning_rate, t)
        return explore(x, self.exploration(t, state))

    def largest_estimate(self, arms: int, rounds: float) -> float:
        """Return T K / γ_T."""
        return rounds * largest_importance_weighted(self.exploration, arms, rounds)

    def charge_absent(self, state: LossEstimates, absent: Array, loss: Array) -> LossEstimates:
        """Charge absent arms the loss incurred, so that they keep their share."""
        return charge_absent(state, absent, loss)
