"""The rates that the theorems tune: learning, exploration, lengths of blocks."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, NamedTuple

from fedbandits.common.checks import whole
from fedbandits.gossip import acceleration as accelerated

if TYPE_CHECKING:
    from fedbandits.gossip.base import Gossip


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


class BlockGossipRates(NamedTuple):
    """The constants of `BlockGossip`'s theorem.

    Attributes:
        block: B, rounds in a block; infinite without a spectral gap.
        momentum: κ of the accelerated gossip.
        learning_rate: η.
        exploration: α.
    """

    block: float
    momentum: float
    learning_rate: float
    exploration: float


class LinearRates(NamedTuple):
    """The constants of `LinearBlockGossip`'s theorem.

    Attributes:
        block: B, rounds in a block; infinite without a spectral gap.
        learning_rate: η.
        exploration: β, the share of rounds spent on the spanner.
        uniform: α, the share of rounds spent on all actions alike.
    """

    block: float
    learning_rate: float
    exploration: float
    uniform: float


def theorem_rates(gossip: Gossip, *, arms: int, horizon: int) -> TheoremRates:
    """Return Theorem 3's rates γ_t = ((C_W + 1/2) K² ln K / t)^(1/3) and η = ln K / (T γ_T).

    Args:
        gossip: gives C_W, which depends on T.
        arms: K, at least 2.
        horizon: T, at least 1.
    """
    check_sizes(arms, horizon, gossip)
    scale = _exploration_cubed(gossip.c_w(horizon), arms) ** (1 / 3)
    at_horizon = scale * horizon ** (-1 / 3)
    return TheoremRates(math.log(arms) / (horizon * at_horizon), scale, at_horizon)


def horizon_needed(gossip: Gossip, *, arms: int) -> float:
    """Return the smallest T with γ_T <= 1: T >= (C_W + 1/2) K² ln K, where C_W grows with T."""
    check_sizes(arms, 1, gossip)
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
    """Return η = sqrt(ln K / ((C_W + 1/2) T)), for FedHedge; see `upper_bound_full_information`."""
    check_sizes(arms, horizon, gossip)
    return math.sqrt(math.log(arms) / ((gossip.c_w(horizon) + 0.5) * horizon))


def block_gossip_rates(gossip: Gossip, *, arms: int, horizon: int) -> BlockGossipRates:
    """Return B, κ, η and α of Qiu, Zhang and Cesa-Bianchi (COLT 2026), for `BlockGossip`.

    B = ⌈ln((KT)⁶ sqrt(14 N)) / ((1 - 1/√2) sqrt(1 - σ2))⌉, κ = 1/(1 + sqrt(1 - σ2²)),
    η = sqrt(ln K / (2 (B + 3K/N) T)) and α = 1/T.

    Example:
        >>> from fedbandits import gossip, networks
        >>> block_gossip_rates(gossip.max_degree(networks.grid(6, 6)), arms=20, horizon=3000).block
        1442
    """
    check_sizes(arms, horizon, gossip)
    agents, sigma2 = gossip.network.agents, gossip.sigma2
    block = accelerated.theorem_steps(sigma2, arms=arms, agents=agents, horizon=horizon)
    rate = math.sqrt(math.log(arms) / (2 * (block + 3 * arms / agents) * horizon))
    return BlockGossipRates(block, accelerated.theorem_momentum(sigma2), rate, 1 / horizon)


def linear_rates(gossip: Gossip, *, arms: int, horizon: int, dimension: int) -> LinearRates:
    """Return B, η, β and α of Qiu, Zhang and Cesa-Bianchi (COLT 2026), for `LinearBlockGossip`.

    B = ⌈ln((KT)⁶ sqrt(14 N)) / ((1 - 1/√2) sqrt(1 - σ2))⌉,
    η = min{1/(6Bd), sqrt(ln K/(dTB + dT/N))}, β = 3Bdη and α = 1/T.

    Args:
        gossip: gives σ2 and N.
        arms: K.
        horizon: T.
        dimension: d, of the actions' span.

    Example:
        >>> from fedbandits import gossip, networks
        >>> grid = gossip.max_degree(networks.grid(4, 4))
        >>> linear_rates(grid, arms=50, horizon=3000, dimension=5).exploration
        0.5
    """
    check_sizes(arms, horizon, gossip)
    d, agents = whole(dimension, "dimension", least=1), gossip.network.agents
    block = accelerated.theorem_steps(gossip.sigma2, arms=arms, agents=agents, horizon=horizon)
    if math.isinf(block):
        return LinearRates(block, 0.0, 0.5, 1 / horizon)
    most = 1 / (6 * block * d)  # β <= 1/2
    rate = min(most, math.sqrt(math.log(arms) / (d * horizon * (block + 1 / agents))))
    return LinearRates(block, rate, 3 * block * d * rate, 1 / horizon)


def _exploration_cubed(c_w: float, arms: int) -> float:
    return (c_w + 0.5) * arms**2 * math.log(arms)


def check_sizes(arms: int, horizon: int, gossip: Gossip | None = None) -> None:
    """Refuse sizes, or a gossip, that no theorem speaks of."""
    if gossip is not None and not hasattr(gossip, "c_w"):
        raise TypeError(
            f"gossip must be a Gossip such as fb.gossip.max_degree(network), not {gossip!r}"
        )
    whole(arms, "arms", least=2)
    whole(horizon, "horizon", least=1)
