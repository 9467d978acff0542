"""The rates of the paper's theorems and the horizons from which they say anything."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, NamedTuple

from .checks import whole

if TYPE_CHECKING:
    from .gossip import Gossip


class TheoremRates(NamedTuple):
    """The tuning of the paper's upper bound.

    Attributes:
        learning_rate: η.
        exploration_scale: c of γ_t = c · t^(-1/3), before clipping at 1.
        exploration_at_horizon: γ_T, before clipping at 1.
    """

    learning_rate: float
    exploration_scale: float
    exploration_at_horizon: float


def theorem_rates(gossip: Gossip, *, arms: int, horizon: int) -> TheoremRates:
    """γ_t = ((C_W + 1/2) K² ln K / t)^(1/3) and η = ln K / (T γ_T).

    Args:
        gossip: gives C_W, which depends on T.
        arms: K, at least 2.
        horizon: T, at least 1.

    Reference:
        Yi and Vojnović 2023, Theorem 3 (upper bound).
    """
    _check(gossip, arms, horizon)
    scale = _exploration_cubed(gossip.c_w(horizon), arms) ** (1 / 3)
    at_horizon = scale * horizon ** (-1 / 3)
    return TheoremRates(math.log(arms) / (horizon * at_horizon), scale, at_horizon)


def horizon_needed(gossip: Gossip, *, arms: int) -> float:
    """The smallest T with γ_T <= 1: T >= (C_W + 1/2) K² ln K, C_W itself growing with T.

    Infinite where the spectral gap is zero.
    """
    _check(gossip, arms, 1)
    if math.isinf(gossip.c_w(1)):
        return math.inf
    # C_W grows like log T at most, so the iteration climbs to the least fixed point.
    horizon = 1
    while True:
        needed = math.ceil(_exploration_cubed(gossip.c_w(horizon), arms))
        if needed <= horizon:
            return horizon
        horizon = needed


def full_information_rate(gossip: Gossip, *, arms: int, horizon: int) -> float:
    """η = sqrt(ln K / ((C_W + 1/2) T)), the full-information analogue of the theorem's."""
    _check(gossip, arms, horizon)
    return math.sqrt(math.log(arms) / ((gossip.c_w(horizon) + 0.5) * horizon))


def _exploration_cubed(c_w: float, arms: int) -> float:
    return (c_w + 0.5) * arms**2 * math.log(arms)


def _check(gossip: Gossip, arms: int, horizon: int) -> None:
    if not hasattr(gossip, "c_w"):
        raise TypeError(
            f"gossip must be a Gossip such as fb.gossip.max_degree(network), not {gossip!r}"
        )
    whole(arms, "arms", least=2)
    whole(horizon, "horizon", least=1)
