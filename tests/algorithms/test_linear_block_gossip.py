"""LinearBlockGossip: a spanner of some arms, its parts one by one, and what it is for."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import fedbandits as fb
from fedbandits.algorithms.base import Setting
from fedbandits.config.document import load_config
from fedbandits.engine.trajectory import trajectory
from tests.instances import (
    SMALL_CONFIG,
    planar,
    random_losses,
)
from tests.oracles import linear_block_gossip as oracle
from tests.oracles.block_gossip import chebyshev

GRID = fb.gossip.max_degree(fb.networks.grid(2, 2))


@pytest.mark.slow
@pytest.mark.parametrize("rank", [3, 2])
def test_engine_equals_oracle_where_the_spanner_is_a_part(rank: int) -> None:
    """40 arms, 9 or 6 of them in S, the last block cut short; rank 2: actions in a plane of R^3."""
    agents, arms, horizon, block = 6, 40, 47, 5
    rng = np.random.default_rng(rank)
    flat = rng.normal(size=(arms, rank))
    actions = flat if rank == 3 else flat @ rng.normal(size=(2, 3))
    losses = random_losses(agents, arms, horizon, 1)
    gossip = fb.gossip.max_degree(fb.networks.grid(2, 3))
    algorithm = fb.LinearBlockGossip(actions, block=block)
    problem = fb.problems.from_tensor(losses)
    ready = algorithm.set_up(Setting(arms, agents, gossip))
    members = [] if ready.spanner is None else ready.spanner.members.tolist()
    assert len(members) == 3 * rank
    engine = trajectory(problem, algorithm, gossip, seed=3)

    def eta(t: int) -> float:
        return float(np.sqrt(2 * np.log(arms) / ((block / 4 + rank / agents) * t)))

    truth = oracle.linear_block_gossip(
        losses,
        flat,  # coordinates do not matter, the span does
        members,
        gossip.matrix.toarray(),
        sigma=gossip.sigma2,
        block=block,
        eta=eta,
        beta=lambda t: min(0.5, eta(t) * 3 * rank / agents),
        alpha=0.0,
        uniforms=engine.uniforms.action[:, 0],
    )
    np.testing.assert_array_equal(engine.action[:, 0], truth.action)
    np.testing.assert_allclose(engine.distribution[:, 0], truth.p, rtol=1e-8, atol=1e-12)
    np.testing.assert_allclose(engine.messages["x"][:, 0], truth.z, rtol=1e-7, atol=1e-8)


def test_estimates_are_unbiased_and_bounded() -> None:
    """E[⟨b_j, θ̂⟩] = ⟨b_j, θ⟩ by summing over all arms; and |⟨b_j, θ̂⟩| <= |S|/β."""
    actions = np.random.default_rng(0).normal(size=(30, 4))
    theta = np.array([0.1, -0.05, 0.2, 0.02])
    algorithm = fb.LinearBlockGossip(actions, exploration=0.05, block=4)
    algorithm = algorithm.set_up(Setting(30, 4, GRID))
    assert algorithm.spanner is not None
    state = algorithm.init(30, 4, (), np.float64)
    state = state._replace(z=np.random.default_rng(1).normal(size=12) * 5)
    p = algorithm.distribution(state, np.int32(1))
    assert p.sum() == pytest.approx(1)
    estimates = []
    for k in range(30):
        loss = actions[k] @ theta
        after = algorithm.update(state, {"x": state.x}, np.int64(k), loss, p, np.int32(1))
        estimates.append(after.gathered)
        unit = algorithm.update(state, {"x": state.x}, np.int64(k), 1.0, p, np.int32(1))
        assert np.abs(unit.gathered).max() <= 12 / 0.05
    members = actions[algorithm.spanner.members]
    np.testing.assert_allclose(p @ np.array(estimates), members @ theta, rtol=1e-10)


def test_a_message_is_as_long_as_the_spanner() -> None:
    for arms in (20, 400):
        actions = fb.problems.linear(4, arms, 30, dimension=3).actions
        algorithm = fb.LinearBlockGossip().set_up(Setting(arms, 4, GRID, actions))
        sent = algorithm.message(algorithm.init(arms, 4))
        assert {name: x.shape for name, x in sent.items()} == {"x": (9,)}


def test_chebyshev_leaves_less_than_the_papers_bound() -> None:
    """So `from_theorem` may use it: after any number of steps, at any σ2."""
    for sigma in (0.1, 0.5, 0.9, 0.99, 0.9999):
        for steps in (1, 2, 5, 20, 100, 1000):
            left = 1 / np.cosh(min(steps * np.arccosh(1 / sigma), 600))
            theirs = np.sqrt(14) * (1 - (1 - np.sqrt(0.5)) * np.sqrt(1 - sigma)) ** steps
            assert left <= max(theirs, 1e-200)


# Rates.


def test_theorem_rates_by_hand() -> None:
    gossip = fb.gossip.max_degree(fb.networks.grid(4, 4))
    sizes = {"arms": 50, "horizon": 10**7}
    rates = fb.bounds.linear_rates(gossip, **sizes, dimension=5)
    accuracy = np.log((50.0 * 10**7) ** 6 * np.sqrt(14 * 16))
    B = np.ceil(accuracy / ((1 - 1 / np.sqrt(2)) * np.sqrt(1 - gossip.sigma2)))
    eta = np.sqrt(np.log(50) / (5 * 1e7 * B + 5 * 1e7 / 16))
    assert eta < 1 / (6 * B * 5)
    expected = (B, eta, 3 * B * 5 * eta, 1e-7)
    assert tuple(rates) == pytest.approx(expected, rel=1e-12)
    short = fb.bounds.linear_rates(gossip, arms=50, horizon=1000, dimension=5)
    assert short.learning_rate == pytest.approx(1 / (30 * short.block))
    assert fb.bounds.linear_rates(
        fb.gossip.none(fb.networks.path(2)), arms=2, horizon=5, dimension=1
    ) == (np.inf, 0.0, 0.5, 0.2)


def test_from_theorem_waits_for_the_actions() -> None:
    gossip = fb.gossip.max_degree(fb.networks.complete(4))
    sizes = {"arms": 30, "horizon": 5000}
    waiting = fb.LinearBlockGossip.from_theorem(gossip, **sizes)
    actions = np.random.default_rng(0).normal(size=(30, 3))
    given = fb.LinearBlockGossip.from_theorem(gossip, **sizes, actions=actions)
    rates = fb.bounds.linear_rates(gossip, **sizes, dimension=3)
    for algorithm in (waiting, given, waiting.set_up(Setting(30, 4, gossip, actions))):
        ready = algorithm.set_up(Setting(30, 4, gossip, actions))
        assert ready.learning_rate == fb.schedules.constant(rates.learning_rate)
        assert ready.exploration == fb.schedules.constant(rates.exploration)
        assert (ready.block, ready.uniform) == (rates.block, rates.uniform)


def test_from_theorem_warns_where_nothing_is_learned() -> None:
    with pytest.warns(UserWarning, match=r"block is \d+ rounds at horizon 100: .* nothing is lea"):
        fb.LinearBlockGossip.from_theorem(GRID, arms=3, horizon=100)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        fb.LinearBlockGossip.from_theorem(GRID, arms=3, horizon=100_000)


def test_block_is_the_fewest_steps_that_agree() -> None:
    """On the network itself: B steps leave a tenth of the worst disagreement, B - 1 do not."""
    gossip = fb.gossip.max_degree(fb.networks.path(8))
    ready = fb.LinearBlockGossip(planar(5)).set_up(Setting(5, 8, gossip))
    W = gossip.matrix.toarray()
    assert ready.block is not None
    left = []
    for steps in (ready.block - 1, ready.block):
        x, before = np.eye(8) - 1 / 8, np.eye(8) - 1 / 8
        for weight in chebyshev(gossip.sigma2, steps):
            x, before = weight * W @ x + (1 - weight) * before, x
        left.append(np.linalg.norm(x, 2))
    assert left[1] <= 0.1 < left[0]
    plain = fb.LinearBlockGossip(planar(5)).set_up(
        Setting(5, 8, fb.gossip.random_edge(gossip.network))
    )
    assert plain.sigma == 0
    assert (plain.block or 0) > ready.block


# What is refused.


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: fb.LinearBlockGossip(block=0), "block must be a whole number of at least 1"),
        (lambda: fb.LinearBlockGossip(learning_rate=-1), "learning_rate must be a finite number"),
        (
            lambda: fb.LinearBlockGossip(exploration=0),
            "exploration must be in \\(0, 1\\], not 0.0: every direction",
        ),
        (
            lambda: fb.LinearBlockGossip(exploration=1.5),
            r"exploration must be in \(0, 1\], not 1.5",
        ),
        (lambda: fb.LinearBlockGossip(uniform=2), r"uniform must be in \[0, 1\]"),
        (lambda: fb.LinearBlockGossip([1, 2]), r"shape \(2,\); expected \(arms, d\)"),
        (
            lambda: fb.LinearBlockGossip().set_up(Setting(3, 4, GRID)),
            r"the problem has none: take one such as fb\.problems\.linear, or give them",
        ),
        (
            lambda: fb.LinearBlockGossip(np.eye(2)).set_up(Setting(3, 4, GRID)),
            "actions has 2 rows, but the problem has 3 arms",
        ),
        (
            lambda: fb.LinearBlockGossip.from_theorem(
                fb.gossip.random_edge(fb.networks.path(3)), arms=3, horizon=10**6
            ),
            "fixed and symmetric W, which random_edge on .* is not; take",
        ),
        (lambda: fb.LinearBlockGossip().init(3, 4), r"call set_up\(Setting\("),
    ],
)
def test_refused(make: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        make()


def test_a_configuration_can_name_it(tmp_path: Path) -> None:
    text = SMALL_CONFIG.replace("activated_bernoulli", "linear").replace(
        "FedExp3", "LinearBlockGossip"
    )
    (tmp_path / "config.toml").write_text(text)
    experiment = load_config(tmp_path / "config.toml")
    assert isinstance(experiment.simulation.algorithm, fb.LinearBlockGossip)
    with pytest.warns(UserWarning, match="nothing is learned"):
        theirs = load_config(tmp_path / "config.toml", ["algorithm.from_theorem=true"])
    assert theirs.simulation.gossip is not None
    ready = theirs.simulation.ready
    assert isinstance(ready, fb.LinearBlockGossip)
    rates = fb.bounds.linear_rates(theirs.simulation.gossip, arms=3, horizon=20, dimension=3)
    assert ready.learning_rate == fb.schedules.constant(rates.learning_rate)
