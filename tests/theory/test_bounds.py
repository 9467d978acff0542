"""The theorems' formulas, against values worked out elsewhere and against runs."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import fedbandits as fb
from fedbandits.theory import bounds
from tests.instances import connected_networks

GRID = fb.gossip.max_degree(fb.networks.grid(6, 6))


def test_the_proofs_own_graph() -> None:
    """Two cliques of 12 joined by 12 agents: Δ̃ is 16.1, the true distance 13."""
    network = fb.networks.two_clusters(12, 12)
    assert bounds.cluster_distance(network) == pytest.approx(16.1, abs=0.05)
    assert network.distances(11)[24] == 13
    by_distance = bounds.lower_bound_full_information(network, arms=20, horizon=9000, distance=13)
    assert by_distance == pytest.approx(math.sqrt(14 * 9000 * math.log(20) / 2) / 4)
    assert bounds.lower_bound_full_information(network, arms=20, horizon=9000) > by_distance


def test_lower_bound_bandit() -> None:
    network = fb.networks.complete(36)  # (1 + d_max)/λ = 1
    few = bounds.lower_bound_bandit(network, arms=20, horizon=3000, agent=0)
    assert few == pytest.approx(math.sqrt(math.log(20)) * math.sqrt(3000))
    many = bounds.lower_bound_bandit(network, arms=5000, horizon=3000, agent=0)
    assert many == pytest.approx(math.sqrt(5000 / 36 * 3000))
    assert bounds.lower_bound_bandit(network, arms=5000, horizon=3, agent=0) == 3


def test_upper_bound() -> None:
    c_w = 6 / GRID.gap + 3
    expected = 5 * (c_w * 400 * math.log(20)) ** (1 / 3) * 3000 ** (2 / 3)
    assert bounds.upper_bound(GRID, arms=20, horizon=3000) == pytest.approx(expected)


def test_before_tuning_is_vacuous_with_the_figures_constants() -> None:
    figure = fb.gossip.max_degree(fb.networks.grid(6, 6), lazy=False)
    value = bounds.upper_bound_before_tuning(
        figure,
        arms=20,
        horizon=3000,
        learning_rate=0.1,
        exploration=fb.schedules.power(0.01, 1 / 3),
    )
    assert value == pytest.approx(2e10, rel=0.05)


def test_before_tuning_with_the_theorems_rates_is_below_the_closed_form() -> None:
    """The proof's last steps, where its assumption γ <= 1 holds for most of the horizon."""
    gossip = fb.gossip.max_degree(fb.networks.complete(4))
    horizon = 4 * int(bounds.horizon_needed(gossip, arms=2))
    rates = bounds.theorem_rates(gossip, arms=2, horizon=horizon)
    exact = bounds.upper_bound_before_tuning(
        gossip,
        arms=2,
        horizon=horizon,
        learning_rate=rates.learning_rate,
        exploration=fb.schedules.power(rates.exploration_scale, 1 / 3),
    )
    closed = bounds.upper_bound(gossip, arms=2, horizon=horizon)
    assert 0.5 * closed < exact <= closed


@pytest.mark.slow
def test_a_run_stays_below_the_upper_bound() -> None:
    """Six other seeds gave 5.35 to 5.36; the bound is 162."""
    gossip = fb.gossip.max_degree(fb.networks.complete(4))
    horizon = 2 * int(bounds.horizon_needed(gossip, arms=2))
    algorithm = fb.FedExp3.from_theorem(gossip, arms=2, horizon=horizon)
    problem = fb.problems.bernoulli([0.4, 0.6], horizon, agents=4)
    result = fb.simulate(problem, algorithm, gossip, runs=5)
    worst = float(result.dataset["worst_regret"][-1])
    assert 0 < worst < bounds.upper_bound(gossip, arms=2, horizon=horizon)


@pytest.mark.soak
def test_fedhedge_stays_below_its_bound() -> None:
    """Eight other seeds gave 390 to 394; the bound is 1402."""
    gossip = fb.gossip.max_degree(fb.networks.path(9))
    algorithm = fb.FedHedge.from_theorem(gossip, arms=5, horizon=2000)
    problem = fb.problems.activated_bernoulli(agents=9, arms=5, horizon=2000)
    worst = fb.simulate(problem, algorithm, gossip, runs=2).dataset["worst_regret"][-1]
    bound = bounds.upper_bound_full_information(gossip, arms=5, horizon=2000)
    c_w = gossip.c_w(2000)
    assert bound == pytest.approx(2 * math.sqrt((c_w + 0.5) * 2000 * math.log(5)))
    assert 0 < float(worst) < bound


@given(st.data())
def test_the_inverse_gap(data: st.DataObject) -> None:
    network = data.draw(connected_networks(data.draw(st.integers(1, 9))))
    limit = bounds.inverse_gap_bound(network)
    lazy, figure = (fb.gossip.max_degree(network, lazy=lazy) for lazy in (True, False))
    assert 1 / lazy.gap == pytest.approx(limit)  # with equality, for the paper's matrix
    if figure.gap > 0.5 * lazy.gap:  # unless its negative eigenvalues dominate
        assert 1 / figure.gap <= 2 * limit


def test_no_gap_gives_infinity() -> None:
    apart = fb.networks.from_edges(4, [(0, 1), (2, 3)])
    silent = fb.gossip.none(apart)
    assert math.isinf(bounds.cluster_distance(apart))
    assert math.isinf(bounds.inverse_gap_bound(apart))
    assert math.isinf(bounds.lower_bound_full_information(apart, arms=2, horizon=10))
    assert bounds.lower_bound_bandit(apart, arms=2, horizon=10, agent=0) == 10
    assert math.isinf(bounds.upper_bound(silent, arms=2, horizon=10))
    assert math.isinf(bounds.horizon_needed(silent, arms=2))
    assert math.isinf(
        bounds.upper_bound_before_tuning(
            silent, arms=2, horizon=10, learning_rate=0.1, exploration=0.1
        )
    )


def test_one_agent() -> None:
    alone = fb.networks.path(1)
    assert bounds.cluster_distance(alone) == 0
    assert np.isfinite(bounds.lower_bound_bandit(alone, arms=3, horizon=10, agent=0))
    assert bounds.inverse_gap_bound(alone) == 1


def test_senseless_arguments_are_refused() -> None:
    with pytest.raises(ValueError, match="share must be in \\(0, 1\\], not -5"):
        bounds.delayed_experts_regret(arms=2, horizon=10, block=2, share=-5)
    with pytest.raises(ValueError, match="distance must be in \\[0, inf\\], not -1"):
        bounds.lower_bound_full_information(fb.networks.path(3), arms=2, horizon=10, distance=-1)
