"""Exp3Coop, DelayedFTRL and FedFTRL: the oracles, published values, and what they are made for."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest

import fedbandits as fb
from fedbandits.algorithms.base import Setting
from fedbandits.algorithms.cooperation import cooperative_estimate, log_unplayed
from fedbandits.algorithms.delayed_ftrl import outstanding
from fedbandits.engine.trajectory import trajectory
from fedbandits.results.trajectory import Trajectory
from tests.instances import ALGORITHMS, FarFedFTRL, random_losses, sent_by
from tests.oracles import cooperation as oracle
from tests.oracles.paper import Played


def same(engine: Trajectory, truth: Played) -> None:
    np.testing.assert_array_equal(engine.action[:, 0], truth.action)
    np.testing.assert_allclose(engine.distribution[:, 0], truth.p, rtol=1e-9, atol=1e-12)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("algorithm", "scales", "agents"),
    [
        (ALGORITHMS["FedFTRL"], (0.1, 0, 0.2, 0, 12), 1),
        pytest.param(ALGORITHMS["FedFTRL"], (0.1, 0, 0.2, 0, 12), 5, marks=pytest.mark.soak),
        (FarFedFTRL("published"), (4, 1, 8, 1, 12), 5),  # the same compiled program
    ],
)
def test_fed_ftrl_equals_oracle(
    algorithm: fb.FedFTRL, scales: tuple[float, float, float, float, float], agents: int
) -> None:
    network = fb.networks.path(agents)
    gossip = fb.gossip.max_degree(network)
    losses = random_losses(agents, 3, 12, 5)
    engine = trajectory(fb.problems.from_tensor(losses), algorithm, gossip)
    W, diameter = gossip.matrix.toarray(), agents - 1
    sigma2 = 0.0 if agents == 1 else float(np.sort(abs(np.linalg.eigvalsh(W)))[-2])
    truth = oracle.fed_ftrl(losses, W, sigma2, diameter, scales, engine.uniforms.action[:, 0])
    same(engine, truth)
    np.testing.assert_allclose(engine.messages["total"][:, 0], truth.z, rtol=1e-9, atol=1e-9)
    if scales[2] < 1:
        assert (engine.messages["difference"] > 0).any(), "nothing was cut off: a weak test"


def test_one_agent_is_exp3_delayed() -> None:
    """Importance-weighted losses, each used two rounds later."""
    d, losses = 2, random_losses(1, 3, 12, 6)
    gossip = fb.gossip.max_degree(fb.networks.path(1))
    engine = trajectory(fb.problems.from_tensor(losses), ALGORITHMS["Exp3Coop"], gossip)
    z = np.zeros(3)
    for t in range(1, 13):
        p = np.exp(-0.7 * z) / np.exp(-0.7 * z).sum()
        np.testing.assert_allclose(engine.distribution[t - 1, 0, 0], p, rtol=1e-9)
        if (s := t - d) >= 1:
            arm = engine.action[s - 1, 0, 0]
            z[arm] += losses[s - 1, 0, arm] / engine.distribution[s - 1, 0, 0, arm]


def test_estimates_are_unbiased_for_equal_losses() -> None:
    """Exactly: over all ways in which three agents can play three arms."""
    random = np.random.default_rng(0)
    p = random.dirichlet(np.ones(3), 3)  # [agent, arm]
    p[2] = [0.0, 1.0, 0.0]  # sure of its arm: q = 1
    loss = random.uniform(size=3)
    unplayed = log_unplayed(p).sum(axis=0)
    mean = np.zeros(3)
    for arms in np.ndindex(3, 3, 3):
        count = np.bincount(arms, minlength=3).astype(float)
        chance = np.prod(p[np.arange(3), arms])
        mean += chance * cooperative_estimate(count, count * loss, unplayed)
    np.testing.assert_allclose(mean, loss, rtol=1e-12)


def test_missing_feedback_is_counted_as_it_is() -> None:
    for d in (1, 2, 5):
        counts = [sum(1 for s in range(1, t) if s + d >= t) for t in range(1, 30)]
        np.testing.assert_array_equal(outstanding(np.arange(1, 30), d), np.cumsum(counts))


@pytest.mark.soak
def test_delayed_ftrl_is_below_its_bound() -> None:
    """Coins of .1 and .9, one agent: a mean over 10 runs of expected regret.

    Six other seeds gave 151 to 159; the bound is 724.
    """
    arms, horizon, delay = 2, 2000, 20
    problem = fb.problems.bernoulli([0.1, 0.9], horizon=horizon, agents=1)
    gossip = fb.gossip.max_degree(fb.networks.path(1))
    result = fb.simulate(problem, fb.DelayedFTRL(delay), gossip, runs=10)
    bound = fb.bounds.delayed_ftrl_bound(arms=arms, horizon=horizon, delay=delay)
    by_hand = 4 * np.sqrt(arms * horizon) + np.sqrt(8 * delay * horizon * np.log(arms))
    assert bound == pytest.approx(by_hand)
    assert bound < result.uniform_regret, "vacuous"
    assert 0 < float(result.dataset["expected_regret"].isel(time=-1).mean()) < bound
    row = result.bounds().loc["Zimmert and Seldin, upper bound"]
    assert row["value"] == pytest.approx(bound)
    assert row["remark"] == "one agent, a delay of 20"


@pytest.mark.slow
@pytest.mark.parametrize("agents", [1, 2])
def test_the_bound_is_of_one_agent(agents: int) -> None:
    """On a result that says it is DelayedFTRL's: the table looks at nothing else."""
    problem = fb.problems.bernoulli([0.4, 0.6], horizon=12, agents=agents)
    gossip = fb.gossip.max_degree(fb.networks.path(agents))
    result = fb.simulate(problem, fb.Uniform(), gossip, runs=1)
    config = result.config | {"algorithm": {"name": "DelayedFTRL", "hops": 2}}
    result.dataset.attrs["config"] = json.dumps(config)
    assert result.bounds().index.str.contains("Zimmert").any() == (agents == 1)


def test_fed_ftrl_rates() -> None:
    """By hand: 2x2 grid, σ2 of the lazy max-degree matrix 2/3, D = 2, N t = 4 at t = 1."""
    gossip = fb.gossip.max_degree(fb.networks.grid(2, 2))
    assert gossip.sigma2 == pytest.approx(2 / 3)
    algorithm = fb.FedFTRL("published").set_up(Setting(9, 4, gossip))
    assert algorithm.hops == 2
    rates = algorithm.rates(1, np.zeros(9))
    mixing = np.log(4) * 3 + 4
    assert rates.tsallis == pytest.approx(4 * 2 + 169 * 16 * 2)
    entropy = 32 * np.sqrt(mixing / np.log(9)) + 36 * 4 * 4 + 4 * mixing**2
    assert rates.entropy == pytest.approx(entropy)
    assert rates.least == pytest.approx(48 * mixing / entropy)
    later = fb.FedFTRL().set_up(Setting(9, 4, gossip)).rates(100, np.zeros(9))
    assert later.tsallis == pytest.approx(0.1 * 20)
    assert later.entropy == pytest.approx(32 * np.sqrt((2 * 3 + 4) * 100 / np.log(9)))


def test_alone_is_a_network_of_one() -> None:
    for gossip in (None, fb.gossip.none(fb.networks.path(4))):
        algorithm = fb.FedFTRL().set_up(Setting(3, 4, gossip))
        assert (algorithm.size, algorithm.gap, algorithm.diameter, algorithm.hops) == (1, 1, 0, 1)


def test_default_rate_of_exp3_coop() -> None:
    """A star of 5: the hub reaches all, a leaf itself and the hub; within 2 hops all reach all."""
    star = fb.networks.star(5)
    gossip, silent = fb.gossip.max_degree(star), fb.gossip.none(star)

    def rate(algorithm: fb.Exp3Coop, gossip: fb.Gossip) -> fb.schedules.Schedule | None:
        return algorithm.set_up(Setting(10, 5, gossip)).learning_rate

    for algorithm, over, variance_and_delay in (
        (fb.Exp3Coop(), gossip, 10 * (1 / 5 + 4 / 2) / 5 + 1),
        (fb.Exp3Coop(hops=2), gossip, 10 / 5 + 2),
        (fb.Exp3Coop(), silent, 10 + 1),
    ):
        scale = np.sqrt(np.log(10) / variance_and_delay)
        chosen = rate(algorithm, over)
        assert isinstance(chosen, fb.schedules.Power)
        assert chosen.c == pytest.approx(scale)
        assert chosen.a == 0.5
    assert rate(fb.Exp3Coop(0.3), gossip) == fb.schedules.constant(0.3)


def test_what_is_wrong_is_named() -> None:
    with pytest.raises(ValueError, match="hops must be a whole number of at least 1, not 0"):
        fb.DelayedFTRL(0)
    with pytest.raises(ValueError, match="hops must be a whole number of at least 1, not 0"):
        fb.Exp3Coop(hops=0)
    other: Any = "other"
    with pytest.raises(ValueError, match="constants must be 'experimental' or 'published'"):
        fb.FedFTRL(other)
    with pytest.raises(ValueError, match="truncation must be a finite number >= 0, not -1"):
        fb.FedFTRL(truncation=-1)
    with pytest.raises(ValueError, match="entropy_scale must be above 0"):
        fb.FedFTRL(entropy_scale=0)
    with pytest.raises(ValueError, match="set_up"):
        fb.Exp3Coop().distribution(fb.Exp3Coop().init(3, 1), 1)


def test_raw_and_estimated_bytes_stand_side_by_side() -> None:
    """Path of 5, 2 hops: 2 agents pass 2 records to 1 neighbour, 2 pass 3 to 2, 1 passes 3 to 2."""
    problem = fb.problems.from_tensor(random_losses(5, 3, 12, 4))
    gossip = fb.gossip.max_degree(fb.networks.path(5))
    sent = sent_by(problem, ALGORITHMS["Exp3Coop"], gossip)
    records = (2 * 2 + 3 * 3 * 2) / 5
    stamp, number = 8, 4  # agent and round, once; an arm or a float32
    assert sent.leaves == {"arm": "raw", "loss": "raw", "unplayed": "estimate"}
    assert sent.leaf_bytes == {
        "arm": pytest.approx(records * (2 * number + stamp)),
        "loss": pytest.approx(records * 2 * number),
        "unplayed": pytest.approx(records * 3 * number),
    }
