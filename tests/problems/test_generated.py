"""The stand-in for the paper's MovieLens release: ratings generated from a scale model."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

import fedbandits as fb
from fedbandits.data import generated as generator
from fedbandits.problems.movielens import NO_GENRES, RatingSequences
from tests.problems.test_movielens import arrays


def sequence_means(problem: RatingSequences) -> npt.NDArray[np.float64]:
    """The mean rating of every agent for every genre, in stars."""
    sums = np.concatenate([[0], np.cumsum(problem.half_stars, dtype=np.int64)])
    totals = sums[problem.start + problem.count] - sums[problem.start]
    return np.asarray(totals / problem.count / 2)


@pytest.fixture(scope="module")
def full() -> RatingSequences:
    return fb.problems.movielens_generated()


@pytest.fixture(scope="module")
def model() -> dict[str, Any]:
    path = Path(generator.__file__).with_name("scale_model.json")
    parsed: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    return parsed


def by_genre(model: dict[str, Any], name: str) -> npt.NDArray[np.float64]:
    return np.array([genre[name] for genre in model["genres"].values()])


@pytest.mark.soak
def test_the_stand_in_has_the_papers_sizes(full: RatingSequences, model: dict[str, Any]) -> None:
    assert (full.agents, full.arms, full.horizon) == (3364, 20, 12_800)
    assert full.arm_names == tuple(model["genres"]) == tuple(sorted(model["genres"]))
    assert full.arm_names[0] == NO_GENRES
    most = np.sort(full.count.max(axis=1))
    assert most[-1] == 12_800
    assert full.count.min() >= 1
    assert full.half_stars.size == full.count.sum()
    assert (full.half_stars.min(), full.half_stars.max()) == (1, 10)
    assert full.undefined < 0.005  # the model's own check: .0038
    assert sum(a.nbytes for a in arrays(full)) == full.count.sum() + 8 * full.count.size
    # Median ratings of a genre: between .75 and 1.33 of the model's in 24 seeds. Its law is
    # log-linear in the user's activity, and medians are whole numbers, most of them below ten.
    ratio = np.median(full.count, axis=0) / by_genre(model, "m_median")
    assert (np.abs(np.log(ratio)) < np.log(1.6)).all()


@pytest.mark.slow
def test_the_stand_in_likes_what_the_model_likes(
    full: RatingSequences, model: dict[str, Any]
) -> None:
    losses = (1 - sequence_means(full) / 5.5).mean(axis=0)
    assert full.arm_names[int(losses.argmin())] == "Film-Noir"
    # Calibrated: 2e-4 off at most in 28 seeds, where the sampler alone is off by .02.
    np.testing.assert_allclose(losses, by_genre(model, "mean_loss"), rtol=0, atol=1e-3)
    played = full.block(6400, 6410).mean(axis=(0, 1))  # in the middle of the horizon
    assert full.arm_names[int(played.argmin())] == "Film-Noir"


@pytest.mark.slow
def test_the_stand_in_rates_as_the_model_rates(
    full: RatingSequences, model: dict[str, Any]
) -> None:
    starts = full.start[:, 0]
    of_user = np.add.reduceat(full.half_stars / 2, starts) / full.count.sum(axis=1)
    # Clipping to 0.5 to 5 stars narrows it by .0215, with a standard deviation of .004 over seeds.
    assert abs(of_user.std() - model["user_mean"]["sd"]) < 0.05
    # Only genres are calibrated, not users: 3.382 for 3.430.
    assert abs(of_user.mean() - model["user_mean"]["mean"]) < 0.06
    whole = np.logical_and.reduceat(full.half_stars % 2 == 0, starts).mean()
    share = model["whole_star_only_users"]
    assert abs(whole - share) < 5.5 * np.sqrt(share * (1 - share) / full.agents)
    # The histogram is only roughly the data's. A rounded bell has too few 4.0 (.182 for .223), 3.5
    # (.155 for .190) and 0.5 (.005 for .022) and too many 2.0 (.099 for .066) and 2.5.
    stars = np.bincount(full.half_stars, minlength=11)[1:] / full.half_stars.size
    # At most .0413 off, give or take .001 over seeds.
    assert np.abs(stars - np.array(list(model["histogram"].values()))).max() < 0.055


@pytest.mark.slow
def test_the_stand_in_drifts_as_the_model_drifts(
    full: RatingSequences, model: dict[str, Any]
) -> None:
    """Losses rise over a history, all genres' together."""
    for name in ("Drama", "Comedy", "Thriller", "Action"):  # sequences long enough for deciles
        i = full.arm_names.index(name)
        enough = full.count[:, i] >= 10
        start, count = full.start[enough, i, None], full.count[enough, i, None].astype(np.int64)
        limits = start + count * np.arange(11) // 10
        sums = np.concatenate([[0], np.cumsum(full.half_stars, dtype=np.int64)])
        deciles = (1 - np.diff(sums[limits]) / np.diff(limits) / 11).mean(axis=0)
        # The model's curve is made a line between the middles of deciles, level at its ends, which
        # smooths it: off by .0103 at most, give or take .0008 over seeds.
        expected = model["genres"][name]["loss_by_decile"]
        np.testing.assert_allclose(deciles, expected, rtol=0, atol=0.018)
        assert deciles[-1] - deciles[0] > 0.04  # .059 for the flattest, give or take .002


@pytest.mark.slow
def test_the_stand_in_is_drawn_from_its_seed() -> None:
    make = fb.problems.movielens_generated
    one, again, other = (make(20, 300, seed=seed) for seed in (5, 5, 6))
    for a, b in zip(arrays(one), arrays(again), strict=True):
        np.testing.assert_array_equal(a, b)
    assert one.describe() == again.describe()
    assert (one.count != other.count).any()
    assert one.describe()["sha256"] != other.describe()["sha256"]
    assert one.describe()["source"] == "generated(agents=20, horizon=300, seed=5)"
    assert one.agent_names is None
    default, zero = make(2, 10), make(2, 10, seed=0)
    assert default.describe() == zero.describe()


@pytest.mark.slow
@pytest.mark.parametrize(("agents", "horizon"), [(1, 1), (1, 500), (50, 1), (7, 40)])
def test_the_stand_in_in_small(agents: int, horizon: int) -> None:
    problem = fb.problems.movielens_generated(agents, horizon)
    assert (problem.agents, problem.arms, problem.horizon) == (agents, 20, horizon)
    assert problem.count.max() == horizon
    assert problem.count[:, problem.arm_names.index("Drama")].max() == horizon  # made to reach it
    assert problem.count.min() >= 1
    losses = problem.block(1, horizon)
    stars = 11 * (1 - losses)
    # Half stars again, up to what float32 leaves of them.
    np.testing.assert_allclose(stars, np.rint(stars), rtol=0, atol=2e-6)
    assert 1 <= np.rint(stars.min()) <= np.rint(stars.max()) <= 10


@pytest.mark.slow
@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"agents": 0}, "agents must be a whole number of at least 1, not 0"),
        ({"agents": 2.5}, "agents must be a whole number of at least 1, not 2.5"),
        ({"horizon": 0}, "horizon must be a whole number of at least 1, not 0"),
        ({"seed": -1}, "seed must be a whole number of at least 0, not -1"),
    ],
)
def test_the_stand_in_refuses(arguments: dict[str, Any], message: str) -> None:
    with pytest.raises((TypeError, ValueError), match=re.escape(message)):
        fb.problems.movielens_generated(**{"agents": 2, "horizon": 3} | arguments)
