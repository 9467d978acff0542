"""The growth in T, quickly, and what its words rest on."""

import math
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import fedbandits as fb
from fedbandits.common.statistics import Interval, interval
from fedbandits.engine import totals
from fedbandits.paper import Section
from studies import Options, horizons
from tests.engine.simulations import in_float64
from tests.sections import Made

pytestmark = pytest.mark.slow  # the experiment, if only a quick one


def make(out: Path) -> Section:
    """In float64, where batching the draws flips no arm."""
    with pytest.MonkeyPatch.context() as patch:
        wide = in_float64(totals.play_totals)
        patch.setattr(totals, "play_totals", wide)
        return horizons.reproduce(Options(out, quick=True))


@pytest.mark.soak
def test_exponents_are_lines_through_points(made: Made) -> None:
    out, _ = made
    points = pd.read_csv(out / "horizons.csv")
    assert set(points["algorithm"]) == set(horizons.PLAYERS)
    assert (points["gamma"] < 1).all()
    exponents = pd.read_csv(out / "horizons_exponents.csv")
    assert len(exponents) == 2 * len(horizons.PLAYERS)
    # With two horizons the fit is the line through both.
    rows = points.set_index(["algorithm", "time"])["mean"]
    for name in horizons.PLAYERS:
        slope = np.log2(rows[name, 4000] / rows[name, 2000])
        fitted = exponents.set_index(["algorithm", "horizons"])["exponent"][name, "all"]
        assert slope == pytest.approx(fitted, abs=1e-5)


@pytest.mark.soak
def test_uniform_play_is_exact(made: Made) -> None:
    points = pd.read_csv(made[0] / "horizons.csv")
    for horizon, rows in points.groupby("time"):
        problem = fb.problems.activated_bernoulli(4, 2, int(str(horizon)))
        total = problem.block(1, problem.horizon).mean(axis=1).sum(axis=0)  # of each arm
        assert rows["uniform"].to_numpy() == pytest.approx(total.mean() - total.min(), rel=1e-6)


@pytest.mark.soak
def test_intervals_are_over_draws(made: Made) -> None:
    """The mean is that of single simulations of each draw, each with its own seeds."""
    gossip = fb.gossip.max_degree(horizons.QUICK.networks[0])
    alone = [
        fb.simulate(
            fb.problems.activated_bernoulli(4, 2, 2000, seed=draw),
            fb.BlockGossip(horizons.tuned_rate(gossip, 2000)),
            gossip,
            runs=1,
            seed=draw,
            dtype="float64",
            progress=False,
        ).dataset["expected_regret"]
        for draw in range(2)
    ]
    values = [float(regret.isel(time=-1).mean()) for regret in alone]
    assert values[0] != values[1]
    points = pd.read_csv(made[0] / "horizons.csv").set_index(["algorithm", "time"])
    mean, low = (points[column][horizons.TUNED, 2000] for column in ("mean", "low"))
    assert (mean, low) == pytest.approx(interval(values)[:2], rel=1e-9)


@pytest.mark.soak
def test_words(made: Made) -> None:
    growth, crossover = made[1].paragraphs
    assert "With the theorems' constants BlockGossip has the exponent 0." in growth
    assert "FedExp3's is nearer to 1/2. BlockGossip with blocks of 7 rounds and a rate" in growth
    assert "has the exponent nearer to 1/2: 0." in growth
    assert "BlockGossip() beats, from " in crossover
    assert "does not beat, up to 4,000 rounds, FedExp3()" in crossover
    assert "BlockGossip(), whose first 14 rounds are uniform too, is behind at none" in crossover


def test_no_exponent_is_nearer_if_the_intervals_meet() -> None:
    low, high, wide = (Interval(0.6, 0.59, 0.61), Interval(0.7, 0.69, 0.71), Interval(0.7, 0.6, 1))
    assert "It has the exponent nearer" in horizons._nearer("It", low, high)
    assert "FedExp3's is nearer" in horizons._nearer("It", high, low)
    assert "do not show" in horizons._nearer("It", low, wide)
    # Below 1/2 nearer is higher, and an interval around it is nearest.
    below, around = Interval(0.2, 0.19, 0.21), Interval(0.5, 0.45, 0.55)
    assert "FedExp3's is nearer" in horizons._nearer("It", below, low)
    assert "It has the exponent nearer" in horizons._nearer("It", around, low)


def test_crossover_is_where_the_interval_of_the_difference_is_below_0() -> None:
    """On path(4) the theorem's schedule is uniform play before round 67."""
    gossip = fb.gossip.max_degree(horizons.QUICK.networks[0])
    own = np.array([[12, 14], [13, 13], [13, 15], [14, 14.1]])
    played = horizons.Played(
        gossip,
        [100, 200],
        {horizons.FED: np.array([[13, 15], [20, 20.1]])},
        [50, 60, 100, 200],
        {
            horizons.ANYTIME: own,
            horizons.UNIFORM: np.array([[12, 14], [15, 15.1], [25, 25], [50, 50]]),
            horizons.DEFAULT: own + np.array([[2, 2.1], [1, 1.1], [2, -1], [-1, -1.1]]),
        },
    )
    # Better than uniform play at 60, but at 100 not than FedExp3.
    assert horizons.crossover(played) == (200, None, None)
    worse = own + np.array([[1], [0], [0], [0]])
    played = played._replace(curves=played.curves | {horizons.ANYTIME: worse})
    assert horizons.crossover(played) == (200, 50, None)
    ahead = played.curves | {horizons.DEFAULT: own + 3}
    assert horizons.crossover(played._replace(curves=ahead)).default == 50


def test_the_rate_for_a_horizon_is_the_best_of_its_bound() -> None:
    gossip = fb.gossip.max_degree(horizons.QUICK.networks[0])
    variance = horizons.short_block(gossip) / 4 + 2 / 4

    def bound(eta: float) -> float:
        return 2 * math.log(2) / eta + eta / 2 * 3000 * variance

    best = horizons.tuned_rate(gossip, 3000)
    assert bound(best) == pytest.approx(2 * math.sqrt(math.log(2) * 3000 * variance))
    assert bound(best) < min(bound(best * 1.01), bound(best / 1.01))


def test_the_theorem_applies_at_the_horizons() -> None:
    """And one length of chunks fits all of them."""
    needed = [
        fb.bounds.horizon_needed(fb.gossip.max_degree(network), arms=horizons.ARMS)
        for network in horizons.FULL.networks
    ]
    assert needed == [13_125, 39_045]
    assert all(t % 500 == 0 for t in horizons.FULL.horizons)
    assert all(t >= needed[0] for t in horizons.FULL.horizons)
    assert all(t >= needed[1] for t in horizons.FULL.horizons[1:])
