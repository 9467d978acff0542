"""Regret against a best arm that changes: exact, and from what was recorded."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

import fedbandits as fb
from fedbandits.results import record
from fedbandits.results.dynamic_regret import best_of_parts, best_sequences

slow = pytest.mark.slow
GOSSIP = fb.gossip.max_degree(fb.networks.ring(4))
PROBLEM = fb.problems.switching(agents=4, arms=3, horizon=620, parts=4, seed=2)
CURVES = ("regret", "expected_regret")
LOSSES = st.tuples(st.integers(1, 6), st.integers(1, 3)).flatmap(
    lambda shape: arrays(
        np.float64, shape, elements=st.integers(0, 4).map(lambda n: n / 4), fill=st.nothing()
    )
)
"""Quarters, which add up without rounding: equal means equal."""


def by_brute_force(losses: np.ndarray[Any, Any], changes: int) -> float:
    """The least loss of all K^T sequences that have no more changes."""
    rounds, arms = losses.shape
    return min(
        sum(float(losses[t, arm]) for t, arm in enumerate(sequence))
        for sequence in itertools.product(range(arms), repeat=rounds)
        if sum(a != b for a, b in itertools.pairwise(sequence)) <= changes
    )


@pytest.mark.parametrize(("rounds", "arms"), [(6, 2), (4, 3), (3, 4)])
def test_all_small_tables_of_zeros_and_ones(rounds: int, arms: int) -> None:
    """4,096 tables, each against all of its sequences of arms."""
    bits = np.arange(2 ** (rounds * arms)) >> np.arange(rounds * arms)[:, None] & 1
    tables = bits.reshape(rounds, arms, -1)
    found = best_sequences(tables, rounds, [rounds])[0]
    least = np.full(found.shape, rounds + 1)
    for sequence in itertools.product(range(arms), repeat=rounds):
        changes = sum(a != b for a, b in itertools.pairwise(sequence))
        paid = sum(tables[t, arm] for t, arm in enumerate(sequence))
        least[changes:] = np.minimum(least[changes:], paid)
    np.testing.assert_array_equal(found, least)


@given(LOSSES)
@settings(max_examples=200)
def test_best_sequences_by_brute_force(losses: np.ndarray[Any, Any]) -> None:
    times = range(1, len(losses) + 1)
    found = best_sequences(losses, 4, times)
    for t in times:
        assert found[t - 1].tolist() == [by_brute_force(losses[:t], s) for s in range(5)]


@given(LOSSES, st.integers(1, 6))
def test_parts_have_their_own_best_arm(losses: np.ndarray[Any, Any], parts: int) -> None:
    horizon = len(losses)
    parts = min(parts, horizon)
    ends = [p * horizon // parts for p in range(parts + 1)]
    for t in range(1, horizon + 1):
        pieces = [losses[a : min(b, t)] for a, b in itertools.pairwise(ends) if a < t]
        [found] = best_of_parts(losses, parts, horizon, [t])
        assert found == sum(piece.sum(axis=0).min() for piece in pieces)


def test_several_at_once_are_each_by_itself() -> None:
    losses = np.random.default_rng(0).integers(0, 5, (40, 3, 2, 4)) / 4
    several = best_sequences(losses, 3, [20, 40])
    parts = best_of_parts(losses, 3, 40, [20, 40])
    for a, b in itertools.product(range(2), range(4)):
        alone = losses[:, :, a, b]
        np.testing.assert_array_equal(several[..., a, b], best_sequences(alone, 3, [20, 40]))
        np.testing.assert_array_equal(parts[:, a, b], best_of_parts(alone, 3, 40, [20, 40]))


@pytest.fixture(scope="module")
def result() -> fb.Result:
    return fb.simulate(PROBLEM, fb.FedExp3(), GOSSIP, runs=3)


def test_against_one_arm_it_is_the_plain_regret(result: fb.Result) -> None:
    for fixed in (result.regret_against(changes=0), result.regret_against(parts=1)):
        for name in (*CURVES, "worst_regret", "agent_regret", "agent_expected_regret"):
            np.testing.assert_allclose(fixed.dataset[name], result.dataset[name], atol=1e-9)
        final = result.against("final").summary()
        np.testing.assert_allclose(fixed.summary(), final, atol=1e-9)


def test_it_is_of_the_losses_that_were_played(result: fb.Result) -> None:
    """Means of four coins are quarters, and their sums are exact."""
    mean = PROBLEM.block(1, 620).mean(axis=1)
    np.testing.assert_array_equal(result.dataset["round_loss"], mean)
    times = result.dataset["time"].to_numpy()
    best = best_sequences(mean, 3, times)[:, -1]
    moving = result.regret_against(changes=3).dataset
    spent = result.dataset["regret"] + result.dataset["arm_loss"].min("arm")
    np.testing.assert_allclose(moving["regret"], spent - best, atol=1e-9)
    in_parts = result.regret_against(parts=4).dataset
    ends = mean.reshape(4, 155, 3).sum(axis=1).min(axis=1).sum()
    last = spent.isel(time=-1) - ends
    np.testing.assert_allclose(in_parts["regret"].isel(time=-1), last, atol=1e-9)
    for data in (moving, in_parts):
        for name in ("agent_regret", "agent_expected_regret"):
            curve = data[name.removeprefix("agent_")].isel(time=-1)
            np.testing.assert_allclose(data[name].mean("agent"), curve, atol=1e-3)
        worst = data["agent_expected_regret"].mean("run").max()
        assert float(data["worst_regret"][-1]) == pytest.approx(float(worst), abs=1e-3)


def test_more_changes_leave_more_to_regret(result: fb.Result) -> None:
    ends = [result.regret_against(changes=s).dataset["regret"] for s in (0, 1, 3, 10, 619)]
    for fewer, more in itertools.pairwise(ends):
        assert (more >= fewer - 1e-9).all()
    assert (ends[2] > ends[0] + 10).isel(time=-1).all()  # three changes are what it takes
    each = result.dataset["round_loss"].min("arm").sum(dtype=np.float64)
    spent = (result.dataset["regret"] + result.dataset["arm_loss"].min("arm")).isel(time=-1)
    np.testing.assert_allclose(ends[-1].isel(time=-1), spent - each, atol=1e-9)
    parts = result.regret_against(parts=7).dataset["regret"]
    assert (parts <= result.regret_against(changes=6).dataset["regret"] + 1e-9).all()


def test_there_and_back(result: fb.Result) -> None:
    moving = result.regret_against(changes=3)
    again = result.regret_against(parts=5).regret_against(changes=3)
    np.testing.assert_allclose(again.dataset["regret"], moving.dataset["regret"], atol=1e-9)
    for which in ("current", "final"):
        back, plain = moving.against(which), result.against(which)
        assert set(back.dataset) == set(plain.dataset)
        for name in plain.dataset:
            np.testing.assert_allclose(back.dataset[name], plain.dataset[name], atol=1e-9)
        assert (back.moving, back.dataset.attrs["against"]) == (None, which)


def test_tables_say_what_regret_is_against(result: fb.Result) -> None:
    moving = result.regret_against(changes=1)
    assert repr(moving).endswith("regret is against the best sequence with at most 1 change")
    assert "regret is against" not in repr(result)
    table = moving.summary()
    last = moving.dataset["regret"].isel(time=-1)
    assert table.loc["mean agent", "regret"] == pytest.approx(float(last.mean()))
    gain = result.dataset["arm_loss"].isel(time=-1).min() - moving.dataset["compared_loss"][-1]
    assert moving.uniform_regret == pytest.approx(result.uniform_regret + float(gain))
    assert moving.to_pandas()["regret"].iloc[-1] == pytest.approx(float(last.mean()))


@slow
def test_plots_and_comparisons(result: fb.Result) -> None:
    moving = result.regret_against(parts=4)
    legend = moving.plot().get_legend()
    assert legend is not None
    title = legend.get_title().get_text().replace("\n", " ")
    assert title.startswith("against the best arm of each of 4 equal parts band: 95%")
    names = fb.plot(result, moving).get_legend_handles_labels()[1]
    assert [name.partition(", ")[2] for name in names] == [
        "against the current best arm",
        "against the best arm of each of 4 equal parts",
    ]
    with pytest.raises(ValueError, match="current best arm, the other against the best arm of"):
        fb.compare(result, moving)
    other = fb.simulate(PROBLEM, fb.Exp3(), GOSSIP, runs=3)
    apart, plainly = (
        fb.compare(a, b).summary()
        for a, b in ((moving, other.regret_against(parts=4)), (result, other))
    )
    np.testing.assert_allclose(apart, plainly, atol=1e-9)
    for ask in (moving.bounds, lambda: moving.plot(bounds=True)):
        with pytest.raises(ValueError, match="bounds are for regret against one arm"):
            ask()


def test_arguments(result: fb.Result) -> None:
    with pytest.raises(TypeError, match="give one of the two"):
        result.regret_against()
    with pytest.raises(TypeError, match="give one of the two"):
        result.regret_against(changes=1, parts=1)
    refused: list[tuple[dict[str, Any], str]] = [
        ({"changes": -1}, "changes must be a whole number of at least 0, not -1"),
        ({"changes": 620}, "changes in a horizon of 620 rounds must be at most 619, not 620"),
        ({"parts": 0}, "parts must be a whole number of at least 1, not 0"),
        ({"parts": 621}, "parts in a horizon of 620 rounds must be at most 620, not 621"),
    ]
    for wrong, message in refused:
        with pytest.raises(ValueError, match=message):
            result.regret_against(**wrong)


@slow
def test_saved_loaded_and_older_files(result: fb.Result, tmp_path: Path) -> None:
    moving = result.regret_against(changes=3).dataset
    loaded = fb.load(result.save(tmp_path / "new.nc"))
    assert loaded.regret_against(changes=3).dataset.identical(moving)
    with pytest.raises(ValueError, match="save the result itself"):
        loaded.regret_against(changes=3).save(tmp_path / "moving.nc")
    older = fb.Result(result.dataset.drop_vars("round_loss"))
    older = fb.load(older.save(tmp_path / "older.nc"))
    with pytest.raises(ValueError, match="does not hold the losses of every round"):
        older.regret_against(changes=3)
    sequences: list[dict[str, Any]] = [{"changes": 3}, {"parts": 4}]
    for sequence in sequences:
        again = older.regret_against(**sequence, problem=PROBLEM).dataset
        there = result.regret_against(**sequence).dataset
        np.testing.assert_allclose(again["regret"], there["regret"], atol=1e-9)
    with pytest.raises(ValueError, match="makes other losses than the result was simulated on"):
        older.regret_against(changes=3, problem=PROBLEM.redraw(9))
    short = fb.problems.switching(agents=4, arms=3, horizon=600, parts=4, seed=2)
    with pytest.raises(ValueError, match=r"\(4, 3, 600\), the result \(4, 3, 620\)"):
        older.regret_against(changes=3, problem=short)


@slow
def test_of_each_draw_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    found = fb.simulate(PROBLEM, fb.Exp3(), runs=2, draws=3)
    moving = found.regret_against(changes=3)
    assert moving.dataset["regret"].dims == ("draw", "run", "time")
    assert moving.dataset["worst_regret"].dims == ("draw", "time")
    seed = found.config["loss_seeds"][1]
    alone = fb.simulate(PROBLEM.redraw(seed), fb.Exp3(), runs=2, seed=1).regret_against(changes=3)
    for name in (*CURVES, "worst_regret", "agent_regret", "agent_expected_regret"):
        np.testing.assert_array_equal(moving.dataset[name][1], alone.dataset[name])
    assert moving.summary()["low 95%"].notna().all()
    again = found.regret_against(changes=3, problem=PROBLEM)
    np.testing.assert_allclose(again.dataset["regret"], moving.dataset["regret"], atol=1e-9)
    # A third of what is needed: of one draw enough, of three not.
    monkeypatch.setattr("fedbandits.engine.draws.MOST_ROUND_LOSSES", 620 * 3 * 3 - 1)
    light = fb.simulate(PROBLEM, fb.Exp3(), runs=2, draws=3)
    assert "round_loss" not in light.dataset
    assert light.dataset.identical(found.dataset.drop_vars("round_loss"))


@slow
def test_too_many_losses_are_not_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    for most, kept in ((620 * 3, True), (620 * 3 - 1, False)):
        monkeypatch.setattr(record, "MOST_ROUND_LOSSES", most)
        found = fb.simulate(PROBLEM, fb.Exp3(), runs=2)
        assert ("round_loss" in found.dataset) == kept
    with pytest.raises(ValueError, match=r"regret_against\(\.\.\., problem=problem\)"):
        found.regret_against(parts=2)


@slow
def test_where_problems_watch_each_run_has_its_own(tmp_path: Path) -> None:
    problem = fb.problems.hit_favourite(PROBLEM)
    found = fb.simulate(problem, fb.Exp3(), runs=3)
    assert found.dataset["round_loss"].dims == ("run", "round", "arm")
    moving = fb.load(found.save(tmp_path / "watched.nc")).regret_against(changes=2).dataset
    assert moving["compared_loss"].dims == ("time", "run")
    for run in range(3):
        losses = found.dataset["round_loss"].to_numpy()[run]
        best = best_sequences(losses, 2, found.dataset["time"].to_numpy())[:, -1]
        spent = (found.dataset["regret"] + found.dataset["arm_loss"].min("arm"))[run]
        np.testing.assert_allclose(moving["regret"][run], spent - best, atol=1e-9)
    with pytest.raises(ValueError, match="HitFavourite watches what agents play"):
        found.regret_against(changes=2, problem=problem)
    drawn = fb.simulate(problem, fb.Exp3(), runs=2, draws=2).regret_against(changes=2)
    assert drawn.dataset["regret"].dims == ("draw", "run", "time")
    assert drawn.dataset["worst_regret"].dims == ("draw", "time")


@slow
def test_where_some_lie_it_is_of_the_honest() -> None:
    found = fb.simulate(PROBLEM, fb.FedExp3(), GOSSIP, runs=2, liars={1: fb.attacks.swap()})
    mean = PROBLEM.block(1, 620)[:, [0, 2, 3]].mean(axis=1)
    np.testing.assert_allclose(found.dataset["round_loss"], mean, atol=1e-6)
    there = found.regret_against(changes=3).dataset
    again = found.regret_against(changes=3, problem=PROBLEM).dataset
    np.testing.assert_allclose(there["regret"], again["regret"], atol=1e-3)
    assert np.isnan(there["agent_regret"][:, 1]).all()


@slow
def test_in_float64_nothing_is_rounded() -> None:
    found = fb.simulate(PROBLEM, fb.Exp3(), runs=1, dtype="float64")
    assert found.dataset["round_loss"].dtype == np.float64
