"""The growth in T, quickly, and what its words rest on."""

from pathlib import Path

import matplotlib as mpl
import numpy as np
import pandas as pd
import pytest

import fedbandits as fb
from fedbandits.experiments import Options, Section, horizons
from fedbandits.experiments.measure import Interval

mpl.use("agg")


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Section]:
    out = tmp_path_factory.mktemp("horizons")
    return out, horizons.reproduce(Options(out, quick=True))


def test_files(made: tuple[Path, Section]) -> None:
    out, section = made
    assert sorted(path.name for path in out.iterdir()) == sorted(section.files)
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


def test_uniform_play_is_exact(made: tuple[Path, Section]) -> None:
    points = pd.read_csv(made[0] / "horizons.csv")
    for horizon, rows in points.groupby("time"):
        problem = fb.problems.activated_bernoulli(4, 2, int(str(horizon)))
        total = problem.block(1, problem.horizon).mean(axis=1).sum(axis=0)  # of each arm
        assert rows["uniform"].to_numpy() == pytest.approx(total.mean() - total.min(), rel=1e-6)


def test_words(made: tuple[Path, Section]) -> None:
    growth, crossover = made[1].paragraphs
    assert "exponent is nearer to 1/2: BlockGossip's" in growth
    assert "BlockGossip() beats, from " in crossover
    assert "does not beat, up to 4,000 rounds, FedExp3()" in crossover


def test_nobody_is_called_nearer_if_the_intervals_meet() -> None:
    low, high, wide = (Interval(0.6, 0.59, 0.61), Interval(0.7, 0.69, 0.71), Interval(0.7, 0.6, 1))
    assert "BlockGossip's exponent is nearer" in horizons._nearer(low, high)
    assert "FedExp3's exponent is nearer" in horizons._nearer(high, low)
    assert "do not tell" in horizons._nearer(low, wide)


def test_the_horizons_are_where_the_theorem_speaks() -> None:
    """And a curve of 500 points has one at each of them."""
    needed = [
        fb.bounds.horizon_needed(fb.gossip.max_degree(network), arms=horizons.ARMS)
        for network in horizons.NETWORKS
    ]
    assert needed == [13_125, 39_045]
    assert all(t % (horizons.HORIZONS[-1] / 500) == 0 for t in horizons.HORIZONS)
    assert all(t >= needed[0] for t in horizons.HORIZONS)
    assert all(t >= needed[1] for t in horizons.HORIZONS[1:])
