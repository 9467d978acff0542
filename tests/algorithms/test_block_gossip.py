"""BlockGossip against its oracle, and what is special about it and AcceleratedFedExp3."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import fedbandits as fb
from fedbandits.algorithms.base import AnyAlgorithm, Setting
from fedbandits.engine.executors.program import compilations
from fedbandits.engine.trajectory import trajectory
from fedbandits.gossip import acceleration as accelerated
from tests.engine.simulations import simulate_each
from tests.instances import ORACLE_SIZES, connected_networks, random_losses, sent_by
from tests.oracles import block_gossip as oracle
from tests.oracles.paper import Float, softmax


def compare(engine: Any, run: int, truth: Any, leaf: str) -> None:
    np.testing.assert_array_equal(engine.action[:, run], truth.action)
    np.testing.assert_allclose(engine.distribution[:, run], truth.p, rtol=1e-9, atol=1e-13)
    np.testing.assert_allclose(engine.messages[leaf][:, run], truth.z, rtol=1e-9, atol=1e-11)


@pytest.mark.slow
@given(st.data())
def test_block_gossip_equals_the_oracle(data: st.DataObject) -> None:
    """Blocks that divide the horizon, that do not, and one longer than it."""
    agents, arms, horizon = data.draw(st.sampled_from(ORACLE_SIZES))
    gossip = fb.gossip.max_degree(data.draw(connected_networks(agents)))
    block = data.draw(st.sampled_from([1, 2, 3, 5, 13]))
    kappa = data.draw(st.sampled_from([None, accelerated.theorem_momentum(gossip.sigma2)]))
    losses = random_losses(agents, arms, horizon, data.draw(st.integers(0, 99)))
    algorithm = fb.BlockGossip(
        fb.schedules.power(0.7, 1 / 2), fb.schedules.power(0.5, 1 / 3), block, momentum=kappa
    )
    problem = fb.problems.from_tensor(losses)
    seed = data.draw(st.integers(0, 2**32 - 1))
    engine = trajectory(problem, algorithm, gossip, runs=2, seed=seed)
    weights = oracle.chebyshev(gossip.sigma2, block) if kappa is None else [1 + kappa] * block

    def leader(fed: Float, _other: Float, _updates: int, first: int) -> Float:
        return softmax(fed, 0.7 * first**-0.5)

    for run in range(2):
        uniforms = engine.uniforms.action[:, run]
        truth = oracle.block_gossip(
            *(losses, gossip.matrix.toarray(), leader, lambda t: 0.5 * t ** (-1 / 3)),
            *(weights, uniforms),
        )
        compare(engine, run, truth, "x")


@pytest.mark.parametrize("best_loss", [None, pytest.param(40.0, marks=pytest.mark.slow)])
def test_small_loss_equals_the_oracle(best_loss: float | None) -> None:
    algorithm = fb.BlockGossip(block=2, regulariser="small_loss", best_loss=best_loss)
    check_regulariser(algorithm, oracle.small_loss(2, 5, 3, best_loss))


@pytest.mark.slow
def test_best_of_both_worlds_equals_the_oracle() -> None:
    algorithm = fb.BlockGossip(block=2, regulariser="best_of_both_worlds")
    check_regulariser(algorithm, oracle.best_of_both_worlds(2, 5, 3))


def check_regulariser(algorithm: fb.BlockGossip, leader: oracle.Leader) -> None:
    agents, arms, horizon = 5, 3, 12
    gossip = fb.gossip.max_degree(fb.networks.star(agents))
    losses = random_losses(agents, arms, horizon, 1)
    engine = trajectory(fb.problems.from_tensor(losses), algorithm, gossip, runs=2, seed=3)
    weights = oracle.chebyshev(gossip.sigma2, 2)
    truth = oracle.block_gossip(
        *(losses, gossip.matrix.toarray(), leader, lambda t: 1 / t),
        *(weights, engine.uniforms.action[:, 0]),
    )
    compare(engine, 0, truth, "x")
    # Something was learned. Three continuous estimates this near to each other: chance below 1e-8.
    assert np.ptp(truth.p[-1], axis=1).min() > 1e-6


@pytest.mark.slow
def test_blocks_of_different_lengths_in_one_compiled_call() -> None:
    """Play is uniform in the first two blocks, before anything was fed, and not after them."""
    problem = fb.problems.activated_bernoulli(agents=8, arms=4, horizon=200, seed=5)
    gossip = fb.gossip.max_degree(fb.networks.ring(8))
    before = compilations()
    blocks = (1, 7, 99)
    algorithms = [fb.BlockGossip(block=b) for b in blocks]
    found = simulate_each(problem, algorithms, gossip, runs=2, dtype="float64")
    assert compilations() == before + 1
    for block, result in zip(blocks, found, strict=True):
        assert result.config["algorithm"]["block"] == block
        losses = result.dataset["arm_loss"]
        uniform = losses.mean("arm") - losses.min("arm")
        apart = abs(result.dataset["expected_regret"] - uniform).max("run").to_numpy()
        assert apart[: 2 * block].max() < 1e-11
        # Two sums of 200 losses that agree by chance do not to eight places.
        assert block == 99 or apart[-1] > 1e-8


def test_the_block_is_the_fewest_chebyshev_steps() -> None:
    network = fb.networks.path(36)
    for gossip, expected in [
        (fb.gossip.max_degree(network), 60),
        (fb.gossip.none(network), 1),
        (fb.gossip.max_degree(fb.networks.path(1)), 1),
        (fb.gossip.max_degree(fb.networks.complete(4), lazy=False), 1),  # σ2 = 0
    ]:
        ready = fb.BlockGossip().set_up(Setting(2, gossip.network.agents, gossip))
        assert ready.block == expected
    gossip = fb.gossip.max_degree(network)
    W, weights = gossip.matrix.toarray(), oracle.chebyshev(gossip.sigma2, 60)
    left = oracle.accelerated_gossip(np.eye(36), W, weights) - 1 / 36
    assert np.linalg.norm(left, 2) <= 0.1
    random = fb.BlockGossip().set_up(Setting(2, 36, fb.gossip.random_edge(network)))
    assert (random.sigma, random.block) == (
        0.0,
        math.ceil(math.log(0.1) / math.log(fb.gossip.random_edge(network).sigma2)),
    )


def test_what_is_given_stays() -> None:
    setting = Setting(3, 4, fb.gossip.max_degree(fb.networks.ring(4)))
    given_all = fb.BlockGossip(0.2, 0.1, 5, momentum=0.4)
    assert given_all.set_up(setting) == given_all
    accelerated_one = fb.AcceleratedFedExp3(momentum=0.0)
    assert accelerated_one.set_up(setting) == accelerated_one


def test_the_constants_of_the_theorem() -> None:
    gossip = fb.gossip.max_degree(fb.networks.grid(6, 6))
    with pytest.warns(UserWarning, match="the theorem's block is 1,392 rounds at horizon 2,000"):
        fb.BlockGossip.from_theorem(gossip, arms=20, horizon=2000)
    algorithm = fb.BlockGossip.from_theorem(gossip, arms=20, horizon=3000)
    assert algorithm.block == 1442
    assert algorithm.momentum == pytest.approx(1 / (1 + math.sqrt(1 - gossip.sigma2**2)))
    eta = math.sqrt(math.log(20) / (2 * (1442 + 60 / 36) * 3000))
    assert algorithm.learning_rate == fb.schedules.constant(eta)
    assert algorithm.exploration == fb.schedules.constant(1 / 3000)
    bound = fb.bounds.block_gossip_bound(gossip, arms=20, horizon=3000)
    assert bound == pytest.approx(2 * math.log(20) / eta + 10)
    with pytest.raises(ValueError, match="for a fixed, symmetric and positive semi-definite W"):
        fb.BlockGossip.from_theorem(
            fb.gossip.max_degree(fb.networks.path(4), lazy=False), arms=2, horizon=10**6
        )


def test_no_gap_is_no_crash() -> None:
    gossip = fb.gossip.none(fb.networks.path(3))
    assert fb.bounds.block_gossip_bound(gossip, arms=3, horizon=100) == math.inf
    with pytest.warns(UserWarning, match="plays uniformly to the end"):
        algorithm = fb.BlockGossip.from_theorem(gossip, arms=3, horizon=100)
    assert algorithm.block == 100


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"block": 0}, "block must be a whole number of at least 1, not 0"),
        ({"block": 2.5}, "block must be a whole number of at least 1, not 2.5"),
        ({"momentum": 1.5}, "momentum must be in \\[0, 1\\], not 1.5"),
        ({"sigma": -0.1}, "sigma must be in \\[0, 1\\], not -0.1"),
        ({"momentum": 0.5, "sigma": 0.5}, "give one of them"),
        ({"exploration": 1.5}, "exploration is a probability and must be <= 1, not 1.5"),
        ({"learning_rate": -1}, "learning_rate must be a finite number >= 0, not -1"),
        ({"regulariser": "maximin"}, "regulariser must be one of .*, not 'maximin'"),
        ({"best_loss": 3.0}, "best_loss is for regulariser='small_loss'"),
        (
            {"regulariser": "small_loss", "best_loss": -1},
            "best_loss must be in \\[0, inf\\], not -1",
        ),
        ({"regulariser": "small_loss", "learning_rate": 0}, "learning_rate must be above 0"),
    ],
)
def test_refusals(arguments: dict[str, Any], message: str) -> None:
    with pytest.raises((ValueError, TypeError), match=message):
        fb.BlockGossip(**arguments)


def test_more_refusals() -> None:
    with pytest.raises(ValueError, match="momentum must be in \\[0, 1\\], not 2"):
        fb.AcceleratedFedExp3(momentum=2)
    with pytest.raises(ValueError, match="call set_up"):
        fb.BlockGossip().distribution(fb.BlockGossip().init(3, 4), 1)


def test_the_practical_rate_is_the_one_stated() -> None:
    """η_t = sqrt(2 ln K / ((B/4 + K/N) t)) at the block's first round, by hand."""
    gossip = fb.gossip.max_degree(fb.networks.path(4))
    ready = fb.BlockGossip(block=6).set_up(Setting(3, 4, gossip))
    assert ready.learning_rate is not None
    found = ready.learning_rate(np.float64(13), ready.init(3, 4, (), np.float64))
    assert found == pytest.approx(np.sqrt(2 * np.log(3) / ((6 / 4 + 3 / 4) * 13)))


def test_what_is_missing_without_a_network_is_named() -> None:
    half = fb.BlockGossip(0.1, block=3)
    with pytest.raises(ValueError, match="sigma from the network: call set_up"):
        half.distribution(half.init(3, 1), 1)


@pytest.fixture(scope="module")
def result() -> fb.Result:
    gossip = fb.gossip.max_degree(fb.networks.path(4))
    problem = fb.problems.bernoulli([0.1, 0.5, 0.6], horizon=24, agents=4)
    return fb.simulate(problem, fb.BlockGossip(), gossip, runs=2)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("section", "change", "shown"),
    [
        ("algorithm", {}, True),
        ("gossip", {"lazy": False}, False),
        ("algorithm", {"regulariser": "small_loss"}, False),
    ],
)
def test_the_bound_is_shown_only_where_the_theorem_speaks(
    result: fb.Result, section: str, change: dict[str, Any], shown: bool
) -> None:
    """On a result that says it was played so: the table looks at nothing else."""
    config = result.config | {section: result.config[section] | change}
    said = fb.Result(result.dataset.assign_attrs(config=json.dumps(config)))
    assert ("upper bound of BlockGossip" in said.bounds().index) == shown


def test_one_vector_of_arms_goes_to_each_neighbour_in_a_round() -> None:
    """Like FedExp3's: K float32 numbers for each of the 2 · 3 directed edges of a path of 4."""
    gossip = fb.gossip.max_degree(fb.networks.path(4))
    problem = fb.problems.bernoulli([0.1, 0.5, 0.6], horizon=24, agents=4)
    sent = sent_by(problem, fb.BlockGossip(), gossip)
    assert (sent.messages, sent.bytes) == (6 / 4, 6 * 3 * 4 / 4)


@pytest.mark.slow
@pytest.mark.parametrize(
    "algorithm", [fb.BlockGossip(block=6), fb.LinearBlockGossip(np.eye(3), block=6)]
)
def test_a_game_that_ends_before_anything_is_learned_says_so(algorithm: AnyAlgorithm) -> None:
    """What was seen in the first block is played from after the second."""
    problem = fb.problems.activated_bernoulli(agents=5, arms=3, horizon=12)
    gossip = fb.gossip.max_degree(fb.networks.ring(5))
    name = type(algorithm).__name__
    said = f"{name} learns nothing in its first 12 rounds, and the problem has 12; a shorter block"
    with pytest.warns(UserWarning, match=said) as caught:
        fb.simulate(problem, algorithm, gossip, runs=1)
    assert [warning.filename for warning in caught] == [__file__]
    # One round more, and there is nothing to warn of: warnings are errors in these tests.
    fb.simulate(replace(problem, horizon=13), algorithm, gossip, runs=1)
