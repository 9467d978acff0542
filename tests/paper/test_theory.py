"""Figure 3, quickly, and what it rests on: the lower bound's instance and its exact value."""

from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from scipy.integrate import quad
from scipy.special import stdtrit
from scipy.stats import norm

import fedbandits as fb
from fedbandits.engine import chunk_sizes
from fedbandits.paper import PartOptions, Section, theory
from fedbandits.paper.intervals import exponent
from tests.engine.simulations import simulate_draws
from tests.sections import Made

pytestmark = pytest.mark.slow  # the experiment, if only a quick one


def make(out: Path) -> Section:
    return theory.reproduce(PartOptions(out, quick=True))


@pytest.mark.soak
def test_nobody_beats_the_delay(made: Made) -> None:
    """At 20 draws: the exact value for every algorithm.

    Null: the mean of 20 draws of that mean. The bands are Student's t at 95% all at once, that is
    about three standard errors of each point; of eight a false alarm has 1e-7 for every point.
    """
    points = pd.read_csv(made[0] / "figure3.csv")
    assert set(points["algorithm"]) == {"FedExp3", "FedHedge", "uniform play"}
    errors = (points["high"] - points["mean"]) / stdtrit(19, 1 - 0.025 / len(points))
    assert (abs(points["mean"] - points["exact"]) < 8 * errors).all()
    assert (points["exact"] < points["theorem1"]).all()


@pytest.mark.soak
def test_regret_is_below_the_upper_bound(made: Made) -> None:
    upper = pd.read_csv(made[0] / "figure3_upper.csv")
    assert set(upper["network"]) == {"complete(16)", "grid(4, 4)", "path(16)"}
    assert (upper["gamma"] < 1).all()
    assert (upper["high"] < upper["bound"]).all()
    assert (upper["bound"] < upper["time"]).sum() == 2  # where it says something
    of_figure1 = fb.gossip.max_degree(fb.networks.grid(6, 6), lazy=False)
    bound = fb.bounds.upper_bound(of_figure1, arms=20, horizon=3000)
    assert f"figure 1, left: {bound:,.0f} at T = 3,000" in made[1].paragraphs[1]


def test_a_near_agent_does_beat_it() -> None:
    """Else the tests above could not fail: next to the losses, repetition is a gift.

    The far agent's mean of 20 draws lies eight standard errors (1e-7) around the exact value and
    away from 0, the near agent's below 0 by as many.
    """
    network = fb.networks.two_clusters(4, 8)
    problems = [
        fb.problems.delayed_experts(16, 20, 1000, cluster=4, block=10, seed=s) for s in range(20)
    ]
    found = simulate_draws(problems, fb.FedHedge(1.0), fb.gossip.max_degree(network))
    exact = fb.bounds.delayed_experts_regret(arms=20, horizon=1000, block=10, share=0.25)
    near, far = (found["expected_regret"].isel(time=-1, run=0, agent=v) for v in (0, 12))
    near_error, far_error = (8 * float(x.std(ddof=1)) / np.sqrt(20) for x in (near, far))
    assert float(near.mean()) + near_error < 0 < float(far.mean()) - far_error
    assert abs(float(far.mean()) - exact) < far_error


# The instance.


def test_delayed_experts_repeats_in_blocks_in_one_cluster() -> None:
    losses = fb.problems.delayed_experts(6, 3, 100, cluster=2, block=7, seed=1).block(1, 100)
    assert not losses[:, 2:].any()
    np.testing.assert_array_equal(losses[:, 0], losses[:, 1])
    for first in range(0, 100, 7):
        block = losses[first : first + 7, 0]
        np.testing.assert_array_equal(block, np.broadcast_to(block[0], block.shape))
    long = fb.problems.delayed_experts(1, 2, 4000, cluster=1, block=1, seed=1).block(1, 4000)
    assert long.mean() == pytest.approx(0.5, abs=6 * 0.5 / np.sqrt(8000))
    assert np.corrcoef(long[:, 0].T)[0, 1] == pytest.approx(0, abs=6 / np.sqrt(4000))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"cluster": 7}, "cluster must be at most the number of agents 6, not 7"),
        ({"block": 0}, "block must be a whole number of at least 1, not 0"),
    ],
)
def test_delayed_experts_refuses(change: dict[str, int], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        fb.problems.delayed_experts(6, 3, 100, **({"cluster": 2, "block": 7} | change))


@pytest.mark.parametrize(("arms", "ratio"), [(2, 0.48), (20, 0.76)])
def test_exact_value_is_the_normal_one_for_many_blocks(arms: int, ratio: float) -> None:
    """share · (Δ+1)(√B/2) E[max of K normals]; 0.48 and 0.76 of Theorem 1's formula."""
    largest = quad(lambda x: x * arms * norm.pdf(x) * norm.cdf(x) ** (arms - 1), -9, 9)[0]
    horizon, block = 140_000, 14
    exact = fb.bounds.delayed_experts_regret(arms=arms, horizon=horizon, block=block, share=0.25)
    # The correction to the normal law is of order 1/B = 1e-4.
    assert exact == pytest.approx(0.25 * block * np.sqrt(horizon / block) / 2 * largest, rel=1e-3)
    theorem = fb.bounds.lower_bound_full_information(
        fb.networks.two_clusters(12, 12), arms=arms, horizon=horizon, distance=13
    )
    assert exact / theorem == pytest.approx(ratio, abs=0.005)


def test_exact_value_by_hand() -> None:
    """Two arms, two rounds, one coin each: E[min] is 1/4 · 2 where they repeat."""
    regret = partial(fb.bounds.delayed_experts_regret, arms=2, share=1.0)
    assert regret(horizon=2, block=2) == pytest.approx(1 - 2 / 4)
    # Sums of two coins are 0, 1, 2 with 1/4, 1/2, 1/4: E[min] = 1 · (9/16 - 1/16) + 2/16.
    assert regret(horizon=2, block=1) == pytest.approx(1 - 10 / 16)
    # A block of two and one of one: sums 0, 1, 2, 3 with 1/4 each.
    assert regret(horizon=3, block=2) == pytest.approx(1.5 - (5 + 2 * 3 + 3) / 16)


# What it is measured with.


@pytest.mark.parametrize("held", [chunk_sizes.MOST_LOSSES_HELD, 1], ids=["ahead", "round by round"])
def test_draws_are_what_simulate_gives(held: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(chunk_sizes, "MOST_LOSSES_HELD", held)
    gossip = fb.gossip.max_degree(fb.networks.ring(8))
    problems = [fb.problems.activated_bernoulli(8, 4, 200, seed=s) for s in (4, 9)]
    wide: dict[str, Any] = {"runs": 2, "dtype": "float64"}  # in which rounding flips no arm
    batch = simulate_draws(problems, fb.FedExp3(), gossip, seed=5, **wide).isel(time=-1)
    for d, problem in enumerate(problems):
        alone = fb.simulate(problem, fb.FedExp3(), gossip, seed=5 + d, **wide).dataset
        for name in ("regret", "expected_regret"):
            np.testing.assert_allclose(batch[name][d], alone[f"agent_{name}"], atol=1e-10)
        np.testing.assert_allclose(batch["arm_loss"][d], alone["arm_loss"][-1], atol=1e-10)


@pytest.mark.soak
def test_draws_of_an_algorithm_that_is_told_of_the_network() -> None:
    gossip = fb.gossip.max_degree(fb.networks.ring(8))
    problems = [fb.problems.activated_bernoulli(8, 4, 200, seed=s) for s in (4, 9)]
    coop = fb.Exp3Coop(hops=3)
    batch = simulate_draws(problems, coop, gossip, seed=5, dtype="float64").isel(time=-1)
    alone = fb.simulate(problems[1], coop, gossip, runs=1, seed=6, dtype="float64").dataset
    np.testing.assert_allclose(batch["regret"][1], alone["agent_regret"], atol=1e-10)


def test_draws_of_other_actions_are_refused() -> None:
    gossip = fb.gossip.max_degree(fb.networks.grid(3, 3))
    problems = [fb.problems.linear(9, 30, 50, dimension=4, seed=s) for s in (0, 1)]
    with pytest.raises(ValueError, match="different actions"):
        simulate_draws(problems, fb.LinearBlockGossip(), gossip)


def test_only_losses_that_jax_makes_are_batched() -> None:
    problem = fb.problems.from_tensor(np.zeros((5, 4, 2)))
    with pytest.raises(ValueError, match="only losses that JAX makes"):
        simulate_draws([problem], fb.Exp3(), fb.gossip.max_degree(fb.networks.ring(4)))


def test_exponent_and_its_interval() -> None:
    rng = np.random.default_rng(0)
    x = np.array([100, 200, 400, 800])
    samples = [t**0.6 * rng.uniform(0.5, 1.5, 200) for t in x]
    fitted = exponent(x, np.array(samples))
    # A 95% interval is four standard errors wide: six of these, 2e-9.
    assert abs(fitted.mean - 0.6) < 1.5 * (fitted.high - fitted.low)
    assert fitted.high - fitted.low < 0.1


def test_no_exponent_without_positive_means() -> None:
    assert np.isnan(exponent([1, 2], [[1.0, 1.0], [-1.0, 1.0]]).mean)
