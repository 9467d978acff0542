"""The paper's theorems as functions: lower bounds, the upper bound, its rates, its horizon.

A network without a spectral gap gives infinity, never an exception.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from fedbandits.common.checks import whole, within
from fedbandits.schedules import Schedule, as_schedule

from .rates import (
    block_gossip_rates as block_gossip_rates,
)
from .rates import (
    check_sizes,
)
from .rates import (
    full_information_rate as full_information_rate,
)
from .rates import (
    horizon_needed as horizon_needed,
)
from .rates import (
    linear_rates as linear_rates,
)
from .rates import (
    theorem_rates as theorem_rates,
)

if TYPE_CHECKING:
    from fedbandits.gossip.base import Gossip
    from fedbandits.networks import Network

__all__ = ["forgetting_bound"]
"""The public name, as `fb.bounds.forgetting_bound`. `Result.bounds` tabulates the others."""


def __dir__() -> list[str]:
    return __all__


def cluster_distance(network: Network) -> float:
    """Return Δ̃ = (√2/3) sqrt((1 + d_max)/λ_{N-1}), the distance in the proof of the lower bounds.

    On the proof's own family of graphs two clusters of N/4 agents are at least this far apart; on
    any other network it is a number and not a distance.

    Example:
        >>> from fedbandits.networks import two_clusters
        >>> round(cluster_distance(two_clusters(12, 12)), 1)
        16.1
    """
    if network.algebraic_connectivity == 0:
        return 0.0 if network.agents == 1 else math.inf
    ratio = (1 + network.max_degree) / network.algebraic_connectivity
    return math.sqrt(2) / 3 * math.sqrt(ratio)


def lower_bound_full_information(
    network: Network, *, arms: int, horizon: int, distance: float | None = None
) -> float:
    """Return (1/4) sqrt((Δ + 1) T ln K / 2): Theorem 1 with the constant of its proof.

    For every algorithm there are losses and an agent whose regret is at least this, times 1 - o(1)
    as T and K grow: at small K or T the regret on the proof's own instance is smaller.

    Args:
        network: gives Δ̃ by `cluster_distance`, exact only on the proof's graphs.
        arms: K.
        horizon: T.
        distance: Δ, where the distance of the clusters is known.
    """
    check_sizes(arms, horizon)
    delta = cluster_distance(network) if distance is None else distance
    delta = within(delta, "distance", "[0, inf]")
    return math.sqrt((delta + 1) * horizon * math.log(arms) / 2) / 4


def delayed_experts_regret(*, arms: int, horizon: int, block: int, share: float) -> float:
    """Return the expected regret of the far agent on the losses of the proof, for every algorithm.

    share · (T/2 - E[min of K sums of T fair coins that repeat in blocks]), see
    `fb.problems.delayed_experts`: an agent block - 1 hops away, or more, hears of each block when
    it is over, so it pays 1/2 a round on average, like uniform play. For many blocks B this is
    share · block · (√B/2) · E[max of K standard normals], and as K grows as well, with a share of
    1/4, Theorem 1's formula.

    Args:
        arms: K.
        horizon: T.
        block: rounds in a block, Δ + 1.
        share: share of the agents that see the losses, |I₀|/N.

    Example:
        >>> round(delayed_experts_regret(arms=2, horizon=10_000, block=10, share=0.25), 2)
        22.3
    """
    from scipy.stats import binom

    check_sizes(arms, horizon)
    share = within(share, "share", "(0, 1]")
    blocks, rest = divmod(horizon, whole(block, "block", least=1))
    heads = np.arange(blocks + 1)
    sums, chance = block * heads, binom.pmf(heads, blocks, 0.5)
    if rest:  # a last block, cut short
        sums = np.concatenate([sums, sums + rest])
        chance = np.concatenate([chance, chance]) / 2
        order = np.argsort(sums)
        sums, chance = sums[order], chance[order]
    # P(min >= s) is P(one sum >= s)^K.
    at_least = np.append(np.cumsum(chance[::-1])[::-1], 0.0) ** arms
    smallest = float(np.sum(sums * (at_least[:-1] - at_least[1:])))
    return share * (horizon / 2 - smallest)


def lower_bound_bandit(network: Network, *, arms: int, horizon: int, agent: int) -> float:
    """Return min{T, max{sqrt(K/(1 + d_v)), ((1 + d_max)/λ_{N-1})^(1/4) sqrt(ln K)} sqrt(T)}.

    This is an order of growth, Theorem 2 of the paper, which gives no constant.

    Args:
        network: gives d_max, λ_{N-1} and the degree of the agent.
        arms: K.
        horizon: T.
        agent: v.
    """
    check_sizes(arms, horizon)
    bandit = math.sqrt(arms / (1 + int(network.degrees[agent])))
    if network.agents == 1:
        delay = math.sqrt(math.log(arms))
    elif network.algebraic_connectivity == 0:
        delay = math.inf
    else:
        ratio = (1 + network.max_degree) / network.algebraic_connectivity
        delay = ratio**0.25 * math.sqrt(math.log(arms))
    return min(float(horizon), max(bandit, delay) * math.sqrt(horizon))


def upper_bound(gossip: Gossip, *, arms: int, horizon: int) -> float:
    """Return 5 (C_W K² ln K)^(1/3) T^(2/3): Theorem 3 with the constant of its proof.

    For FedExp3 with `theorem_rates`, every agent, all losses; its assumption γ_T <= 1 holds from
    `horizon_needed` on.
    """
    check_sizes(arms, horizon, gossip)
    cubed = gossip.c_w(horizon) * arms**2 * math.log(arms)
    return float(5 * cubed ** (1 / 3) * horizon ** (2 / 3))


def upper_bound_before_tuning(
    gossip: Gossip,
    *,
    arms: int,
    horizon: int,
    learning_rate: float | Schedule,
    exploration: float | Schedule,
) -> float:
    """Return the last line before tuning in the proof of Theorem 3; rates must not increase.

    (K²/2) Σ η_{t-1}/γ_t + (K²/γ_T) C_W Σ η_{t-1} + Σ γ_t + (ln K)/η_T, with η_0 := η_1. It is
    often vacuous, that is above T: with the constants of the figures it is about 2·10¹⁰.

    Args:
        gossip: gives C_W.
        arms: K.
        horizon: T.
        learning_rate: η, a number or a schedule of the round alone.
        exploration: γ, a number or a schedule of the round alone; clipped at 1.
    """
    check_sizes(arms, horizon, gossip)
    eta = _over_rounds(learning_rate, "learning_rate", gossip, arms, horizon)
    gamma = np.minimum(_over_rounds(exploration, "exploration", gossip, arms, horizon), 1.0)
    before = np.concatenate([eta[:1], eta[:-1]])  # η_{t-1}
    if gamma[-1] == 0 or eta[-1] == 0:
        return math.inf
    estimates = arms**2 / 2 * np.sum(before / gamma)
    consensus = arms**2 / gamma[-1] * gossip.c_w(horizon) * np.sum(before)
    return float(estimates + consensus + gamma.sum() + math.log(arms) / eta[-1])


def forgetting_bound(
    gossip: Gossip,
    *,
    arms: int,
    horizon: int,
    learning_rate: float,
    exploration: float | Schedule,
    memory: float,
    changes: int = 0,
) -> float:
    """Return the bound of FedExp3 with a memory, against sequences of arms with so many changes.

    ((S + 1) λ + T/m) (ln K)/η + S min(m, T) + (K²/2) (η/λ) Σ 1/γ_t
    + (K²/γ_T) min(C_W, 2m) η T + Σ γ_t, with λ = 1 - 1/m: for each agent, in expectation, where
    losses do not depend on the arms played, η is constant and γ_t <= 1 never rises. It is not in
    the paper; docs/understand/theory.md has the proof. With S = 0 and m without end it is
    `upper_bound_before_tuning`, and vacuous where that is.

    Args:
        gossip: gives C_W.
        arms: K.
        horizon: T.
        learning_rate: η, a number above 0.
        exploration: γ, a number or a schedule of the round alone; clipped at 1.
        memory: m, in rounds, above 1.
        changes: S, of the sequence that it is compared with.
    """
    check_sizes(arms, horizon, gossip)
    eta = within(learning_rate, "learning_rate", "(0, inf)")
    m = within(memory, "memory", "(1, inf)")
    changes = whole(changes, "changes", least=0, most=horizon - 1)
    gamma = np.minimum(_over_rounds(exploration, "exploration", gossip, arms, horizon), 1.0)
    if gamma[-1] == 0:
        return math.inf
    kept = 1 - 1 / m
    distance = ((changes + 1) * kept + horizon / m) * math.log(arms) / eta
    estimates = arms**2 / 2 * eta / kept * np.sum(1 / gamma)
    consensus = arms**2 / gamma[-1] * min(gossip.c_w(horizon), 2 * m) * eta * horizon
    return float(distance + changes * min(m, horizon) + estimates + consensus + gamma.sum())


def _over_rounds(
    rate: float | Schedule, name: str, gossip: Gossip, arms: int, horizon: int
) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
    """Return a rate that depends on the round alone in every round, `[T]`."""
    from fedbandits.algorithms.exponential_weights import LossEstimates

    state = LossEstimates.zeros(arms, gossip.network.agents, (), np.float64)
    of = as_schedule(rate, name)
    return np.array([float(of(t, state)) for t in range(1, horizon + 1)])


def inverse_gap_bound(network: Network) -> float:
    """Return 2 (d_max + 1)/λ_{N-1}, at least 1/(1 - σ2) of the max-degree matrix, equal if lazy."""
    if network.agents == 1:
        return 1.0
    if network.algebraic_connectivity == 0:
        return math.inf
    return 2 * (network.max_degree + 1) / network.algebraic_connectivity


def upper_bound_full_information(gossip: Gossip, *, arms: int, horizon: int) -> float:
    """Return 2 sqrt((C_W + 1/2) T ln K), for FedHedge with `full_information_rate`.

    It follows from the paper's proof with ‖g‖ <= 1; it is not a theorem of the paper.
    """
    check_sizes(arms, horizon, gossip)
    return 2 * math.sqrt((gossip.c_w(horizon) + 0.5) * horizon * math.log(arms))


def block_gossip_bound(gossip: Gossip, *, arms: int, horizon: int) -> float:
    """Return 2 sqrt(2 ln K (B + 3K/N) T) + 10, for `BlockGossip` with `block_gossip_rates`.

    As the paper states it. The two copies' 2 (ln K)/η alone already equals the square root, which
    leaves 10 for all else: take it for the order of growth, sqrt(T ln T) on a given network, rather
    than for a limit that no run can pass.
    """
    rates = block_gossip_rates(gossip, arms=arms, horizon=horizon)
    variance = rates.block + 3 * arms / gossip.network.agents
    return 2 * math.sqrt(2 * math.log(arms) * variance * horizon) + 10


def delayed_ftrl_bound(*, arms: int, horizon: int, delay: int) -> float:
    """Return 4 sqrt(KT) + sqrt(8 D ln K), D = delay · T: Zimmert and Seldin, 2020.

    For DelayedFTRL with one agent and `hops` = delay, on all losses; theirs, not the paper's. For
    several agents nothing is claimed.

    Args:
        arms: K.
        horizon: T.
        delay: rounds between a play and its feedback.

    Example:
        >>> round(delayed_ftrl_bound(arms=10, horizon=1000, delay=5), 1)
        703.5
    """
    check_sizes(arms, horizon)
    total = whole(delay, "delay", least=0) * horizon
    return 4 * math.sqrt(arms * horizon) + math.sqrt(8 * total * math.log(arms))
