"""A best arm that moves: cases, yardsticks, fairness, and a verdict that can fail."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import pytest

import fedbandits as fb
from fedbandits import tuning
from fedbandits.algorithms.base import Setting
from fedbandits.common.describe import canonical
from fedbandits.engine import totals
from fedbandits.paper import Section
from fedbandits.paper.cells import KeptCells
from fedbandits.simulation.grouping import shape_of
from studies import Options
from studies.moving import cases, picture, trackers
from studies.moving.cases import Case
from studies.moving.trackers import BEST, FOREVER, PLAIN, TRACKER, Played
from studies.ratios import geometric_mean_ratio
from studies.suite import fresh_seeds
from tests.engine.simulations import in_float64
from tests.sections import Made

EVERY = (*cases.tracking(), *cases.stationary())


def test_names_are_unique_and_kinds_agree() -> None:
    names = [case.name for case in EVERY]
    assert len(set(names)) == len(names)
    assert all(case.moves for case in cases.tracking())
    assert not any(case.moves for case in cases.stationary())
    sizes = trackers.quick()
    assert {case.moves for case in sizes.moving} == {True}
    assert {case.moves for case in sizes.still} == {False}
    assert all(math.prod(case.numbers) < 50_000 for case in cases.few())


@pytest.mark.parametrize("case", [*EVERY, *cases.few()], ids=lambda case: case.name)
def test_a_case_has_the_sizes_and_the_changes_that_it_says(case: Case) -> None:
    problem: Any = case.make(3)
    sizes = (problem.agents, problem.arms, problem.horizon)
    assert sizes == (case.network.agents, case.arms, case.horizon)
    assert problem.check == "never"
    fb.gossip.max_degree(case.network)  # which refuses agents that nobody reaches
    if hasattr(problem, "starts"):
        assert case.changes == len(problem.starts) - 1 <= 50
    elif hasattr(problem, "period"):
        turns = case.horizon // int(problem.period)
        assert turns * int(problem.period) == case.horizon
        assert (case.changes, case.parts) in ((turns - 1, None), (None, turns))
    else:
        assert case.changes is None


def test_the_grid_is_one_program_of_six_memories_and_thirteen_rates() -> None:
    sizes = trackers.full()
    steps = np.diff(np.log(sizes.rates))
    assert (len(sizes.memories), len(sizes.rates)) == (6, 13)
    assert (sizes.rates[0], sizes.rates[-1]) == pytest.approx((0.003, 3))
    np.testing.assert_allclose(steps, steps[0])
    setting = Setting(arms=3, agents=4)
    players = [fb.FedExp3(r, memory=m).set_up(setting) for m in sizes.memories for r in sizes.rates]
    assert len({canonical(shape_of(player)) for player in players}) == 1
    assert np.float64(1) - 1 / FOREVER == 1
    assert np.float32(1) - np.float32(1) / np.float32(FOREVER) == 1


def played(name: str = "a", *, moves: bool, **regret: float) -> Played:
    """Ten draws around these means, the same in every contender."""
    noise = np.linspace(-0.5, 0.5, 10)
    named = {"plain": PLAIN, "tracker": TRACKER, "best": BEST}
    values = {named[label]: mean + noise for label, mean in regret.items()}
    changes = 3 if moves else None
    case = Case(name, fb.networks.ring(4), 3, 100, fb.problems.heterogeneous, changes)
    return Played(case, FOREVER, 0.1, False, values, np.full(10, 100.0))


def found(
    tracks: float = 12.0, stays: float = 11.0, worst: float = 11.0
) -> tuple[list[Played], list[Played]]:
    """The tracker's regret, where the best pair's and that of FedExp3() are 10."""
    return (
        [played(moves=True, plain=40, tracker=tracks, best=10)],
        [
            played("b", moves=False, plain=10, tracker=stays, best=8),
            played("c", moves=False, plain=10, tracker=worst, best=5),
        ],
    )


@pytest.mark.parametrize(
    ("numbers", "met", "missed_by"),
    [
        ({}, [1, 1, 1], []),
        ({"tracks": 15}, [0, 1, 1], ["0.20"]),
        ({"stays": 15, "worst": 15}, [1, 0, 1], ["0.25"]),
        ({"stays": 5, "worst": 17}, [1, 1, 0], ["0.10"]),
        ({"tracks": 20, "stays": 20, "worst": 20}, [0, 0, 0], ["0.70", "0.75", "0.40"]),
    ],
)
def test_the_verdict_can_fail(
    numbers: Mapping[str, float], met: list[int], missed_by: list[str]
) -> None:
    moving_ones, still = found(**numbers)
    words = " ".join(trackers.findings(moving_ones, still))
    said = [part.partition(": ")[2].partition(")")[0] for part in words.split("; goal ")[1:]]
    assert [part == "met" for part in said] == [bool(m) for m in met]
    assert [part for part in said if part != "met"] == [f"missed by {by}" for by in missed_by]
    assert (f"All three goals are met by {TRACKER}." in words) == all(met)
    assert ("None of those compared meets all three goals." in words) != all(met)


def test_words_and_tables_by_hand() -> None:
    moving_ones, still = found(tracks=12, stays=5, worst=20)
    first, second, _ = trackers.findings(moving_ones, still)
    assert "pays 1.20 times what the best pair" in first
    assert f"{PLAIN}, which never forgets, pays 4.00 times it." in first
    assert "pays 1.00 times what" in second  # sqrt(1/2 · 2)
    assert "at most 2.00 times (c, ring, 95%: 1.98 to 2.02; goal 1.6: missed by 0.40)" in second
    assert "FedExp3() itself pays 1.58 times" in second  # sqrt(10/8 · 10/5)
    assert "at most 2.00 times (c, ring)." in second
    verdict = trackers.verdict_table(moving_ones, still)
    rows = {row[0]: row[1:] for row in verdict.rows}
    assert list(rows) == [PLAIN, TRACKER]
    assert [rows[TRACKER][i] for i in (0, 2, 3, 5)] == ["1.20", "1.20", "1.00", "2.00"]
    assert [rows[PLAIN][i] for i in (0, 2, 3, 5)] == ["4.00", "4.00", "1.00", "1.00"]
    assert trackers.still_table(still).rows[1][7:9] == ("2.00", "2.00")


def test_without_a_ratio_a_goal_is_missed() -> None:
    moving_ones, still = found(tracks=-3.0)
    assert math.isnan(trackers.ratio(moving_ones, TRACKER, BEST).mean)
    words = trackers.findings(moving_ones, still)
    assert "goal 1.3: missed: no ratio" in words[0]
    assert words[-1] == "None of those compared meets all three goals."
    assert math.isnan(geometric_mean_ratio([(np.zeros(3), np.ones(3))]).mean)


def test_the_picture_shows_both_trades_and_all_three_goals() -> None:
    """A line goes through every weight of remembering forever, and one through every memory."""
    moving_ones, still = (
        [each._replace(regret=everyone(each)) for each in part] for part in found()
    )
    figure = picture.draw(moving_ones, still)
    figure.canvas.draw()
    for ax, goal, which in zip(figure.axes, (1.25, 1.6), ("mean", "largest"), strict=True):
        assert (ax.get_xscale(), ax.get_yscale()) == ("log", "log")
        every: list[Any] = list(ax.lines)
        dashed = [line for line in every if line.get_linestyle() == "--"]
        assert [dashed[0].get_ydata()[0], dashed[1].get_xdata()[0]] == [1.3, goal]
        lines = [line for line in every if len(line.get_xdata()) > 2]
        for line, curve in zip(lines, trackers.curves().values(), strict=True):
            ys = [trackers.ratio(moving_ones, label, BEST).mean for label in curve]
            xs = [
                trackers.ratio(still, label, PLAIN).mean
                if which == "mean"
                else trackers.largest(still, label, PLAIN)[0].mean
                for label in curve
            ]
            assert [*line.get_xdata()] == xs
            assert [*line.get_ydata()] == ys
        labels = [text.get_text() for text in ax.texts]
        assert labels == [each for curve in trackers.curves().values() for each in curve.values()]
    assert len(figure.legends[0].get_texts()) == 5
    plt.close(figure)


def everyone(each: Played) -> dict[str, Any]:
    """Regret of every contender, each larger than that of the one before."""
    rising = {
        label: each.regret[BEST] * (1 + i / 10) for i, label in enumerate(trackers.contenders())
    }
    return rising | {BEST: each.regret[BEST]}


def test_the_weights_of_the_tracker_are_compared() -> None:
    weights: dict[str, Any] = {
        label: player.forever
        for label, player in trackers.contenders().items()
        if isinstance(player, fb.TrackingFedExp3)
    }
    assert sorted(weights.values()) == [0.2, fb.TrackingFedExp3().forever, 0.99, 0.999, 0.9999]
    first, *more = trackers.curves()["TrackingFedExp3(forever=...)"]
    assert sorted(weights, key=lambda label: weights[label]) == [first, *more]
    moving_ones, still = found()
    assert trackers.trade(moving_ones, still) == []

    def with_less(part: list[Played], factor: float) -> list[Played]:
        return [
            each._replace(regret=each.regret | {first: factor * each.regret[PLAIN]})
            for each in part
        ]

    (words,) = trackers.trade(with_less(moving_ones, 0.3), with_less(still, 1.5))
    assert "are 1.20, 1.50 and 1.50 with 0.2; 1.20, 1.10 and 1.10 with 0.95" in words
    assert words.endswith("all three goals are met with 0.95.")
    (words,) = trackers.trade(with_less(found(tracks=20)[0], 0.3), with_less(still, 1.5))
    assert words.endswith("all three goals are met with none of these.")


SMALL = Case(
    "switches",
    *(fb.networks.ring(4), 3, 240),
    partial(fb.problems.switching_at_random, changes=3, best=0.1, other=0.9),
    changes=3,
)


@pytest.mark.slow
@pytest.mark.parametrize(
    "given", [{"changes": 3}, {"changes": None, "parts": 8}, {"changes": None}]
)
def test_regret_is_above_what_the_case_says(given: dict[str, Any]) -> None:
    """As `regret_against` finds it for single simulations, in float64."""
    case = replace(SMALL, **given)
    gossip, problems = fb.gossip.max_degree(case.network), [case.make(5), case.make(6)]
    with pytest.MonkeyPatch.context() as patch:
        wide = in_float64(totals.play_totals)
        patch.setattr(totals, "play_totals", wide)
        players = {"a": fb.FedExp3(), "b": fb.FedExp3(0.5, memory=30)}
        regret, uniform = trackers.judged(case, problems, players, gossip, 7)
    yardstick = {name: value for name, value in given.items() if value is not None}
    for label, player in players.items():
        for d, problem in enumerate(problems):
            alone = fb.simulate(problem, player, gossip, runs=1, seed=7 + d, dtype="float64")
            if yardstick:
                alone = alone.regret_against(**yardstick)
            mean = float(alone.dataset["expected_regret"][:, -1].mean())
            assert regret[label][d] == pytest.approx(mean, rel=1e-6)
            assert uniform[d] == pytest.approx(alone.uniform_regret, rel=1e-6)


@pytest.mark.slow
def test_the_pair_is_chosen_on_other_draws_than_it_is_judged_on(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    tuned: list[int] = []
    judged: list[int] = []
    play, judge = tuning.play.play_each, trackers.judged

    def tuning_on(simulation: Any, players: Any, seed: int, **more: Any) -> Any:
        tuned.append(seed)
        return play(simulation, players, seed, **more)

    def judging_on(case: Case, problems: Any, *rest: Any) -> Any:
        judged.extend(int(problem.seed) for problem in problems)
        return judge(case, problems, *rest)

    monkeypatch.setattr(tuning.play, "play_each", tuning_on)
    monkeypatch.setattr(trackers, "judged", judging_on)
    monkeypatch.setattr(trackers, "contenders", lambda: {PLAIN: fb.FedExp3()})
    memories, rates = (20.0, FOREVER), (1e-6, 1.0, 2.0)
    still = replace(SMALL, changes=None)
    sizes = trackers.Sizes((SMALL,), (still,), 3, 2, memories, rates)
    seeds = fresh_seeds(1, 3, sizes.tuning)
    [moves], [stays] = trackers.play(sizes, seeds, KeptCells(tmp_path, "moving"))
    assert sorted(tuned) == sorted([*seeds.tuning] * 2)
    assert len(seeds.tuning) == 2
    assert sorted(judged) == sorted([*seeds.judging] * 2)
    # Gaps of 0.8 and four stretches of about 60 rounds: forgetting is far ahead, and learns.
    assert moves.memory == 20
    assert moves.rate > 1e-6
    assert stays.memory == FOREVER
    assert moves.regret[BEST].shape == moves.uniform.shape == (3,)
    assert moves.regret[BEST].mean() < moves.uniform.mean()
    assert (moves.uniform > stays.uniform).all()
    # After Ctrl-C, kept cells are not played again, and have the same numbers.
    [again], [once_more] = trackers.play(sizes, seeds, KeptCells(tmp_path, "moving"))
    assert len(judged) == 2 * len(seeds.judging)
    for kept, played in ((again, moves), (once_more, stays)):
        assert kept[:4] == played[:4]
        assert list(kept.regret) == list(played.regret)
        np.testing.assert_array_equal(kept.regret[BEST], played.regret[BEST])
        np.testing.assert_array_equal(kept.uniform, played.uniform)


def make(out: Path) -> Section:
    with pytest.MonkeyPatch.context() as patch:
        two = {PLAIN: fb.FedExp3(), TRACKER: fb.TrackingFedExp3()}
        patch.setattr(trackers, "contenders", lambda: two)
        still = replace(SMALL, family="none", changes=None)
        sizes = trackers.Sizes((SMALL,), (still,), 2, 1, (30.0, FOREVER), (0.1, 1.0))
        return trackers.reproduce(Options(out, quick=True), sizes)


@pytest.mark.slow
def test_quick_writes_all_cases(made: Made) -> None:
    out, section = made
    assert [len(table.rows) for table in section.tables] == [2, 1, 1]
    assert section.settings["pairs"].startswith("4 for each moving case, memories 30, ∞, rates 2 ")
    assert "1 others to choose the pair" in section.settings["seeds"]
    table = pd.read_csv(out / "moving.csv")
    assert len(table) == 2 * 4
    assert not table.isna().any(axis=None)
