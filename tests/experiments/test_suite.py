"""The suite: its families, its fairness, and the arithmetic of its verdict."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import fedbandits as fb
from fedbandits.engine import totals
from fedbandits.experiments import Options, suite
from fedbandits.experiments.figure1 import EXPLORATION
from fedbandits.experiments.kept_cells import KeptCells
from fedbandits.experiments.suite import AUTHORS, BEST, DEFAULT, Case
from tests.engine.simulations import in_float64

SMALL = replace(suite.QUICK, rows=2, cols=4, arms=4, horizon=240, constants=(1e-6, 0.5))
"""A suite of the same kind that takes seconds."""


def case(family: str = "1 paper", **regret: float) -> Case:
    """Ten draws around these means, the same in every contender."""
    noise = np.linspace(-0.5, 0.5, 10)
    named = {"default": DEFAULT, "authors": AUTHORS, "best": BEST}
    values = {named[name]: mean + noise for name, mean in regret.items()}
    others = dict.fromkeys(["anytime", "half its factor", "twice its factor"], 5 + noise)
    return Case(family, "grid", 0.1, False, values | others, np.full(10, 100.0))


def test_six_families_and_four_networks() -> None:
    families = suite.families()
    assert [family.stationary for family in families.values()] == [True] * 4 + [False] * 2
    for family in families.values():
        problem = family.make(3)
        assert (problem.agents, problem.arms, problem.horizon) == (36, 20, 3000)
        assert problem.check == "never"
    assert {gossip.network.agents for gossip in suite.networks().values()} == {36}


def test_the_constants_are_thirteen_from_0_003_to_3() -> None:
    constants = suite.FULL.constants
    steps = np.diff(np.log(constants))
    assert len(constants) == 13
    assert constants[0] == pytest.approx(0.003)
    assert constants[-1] == pytest.approx(3)
    np.testing.assert_allclose(steps, steps[0])


@pytest.mark.parametrize("seed", [0, 1, 7])
def test_what_is_chosen_on_is_not_judged_on(seed: int) -> None:
    seeds, after = suite.fresh_seeds(seed, 20), suite.fresh_seeds(seed + 1, 20)
    assert not set(seeds.tuning) & set(seeds.judging)
    assert not {*seeds.tuning, *seeds.judging} & {*after.tuning, *after.judging}
    few = suite.fresh_seeds(seed, 20, 5)
    assert (list(few.tuning), few.judging) == (list(seeds.tuning[:5]), seeds.judging)


def test_there_are_draws_enough_for_the_largest_ratio() -> None:
    assert suite.FULL.runs >= 80
    assert all(sizes.tuning <= sizes.runs for sizes in (suite.FULL, suite.QUICK))


def test_the_worst_case_is_told_with_its_interval() -> None:
    worst = case(default=12, best=10, authors=30)
    changing = case("5 switching", default=3, authors=0, best=0)
    found = suite.ratio(worst, DEFAULT)
    assert found.low < found.mean < found.high
    (words,) = suite.findings([worst, changing])
    assert f"1.20 times (1 paper, grid, 95%: {found.low:.2f} to {found.high:.2f}; goal 1.3" in words
    assert "+0.03 of uniform play's (5 switching, grid, 95%: 0.03 to 0.03; goal 0.1" in words
    with_all = [
        each._replace(regret=each.regret | {"small_loss": each.regret[BEST] + 1})
        for each in (worst, changing)
    ]
    assert f"Of 10 draws: {suite.WHY_SO_MANY}" in suite.verdict_table(with_all).note


def test_all_contenders_explore_alike() -> None:
    players = [*suite.contenders().values()]
    assert {str(player.exploration) for player in players} == {str(EXPLORATION)}


def test_ratios_and_their_mean() -> None:
    two, half = case(default=20, best=10), case(default=5, best=10)
    assert suite.ratio(two, DEFAULT).mean == pytest.approx(2)
    found = suite.geometric_mean([two, half], DEFAULT)
    assert found.mean == pytest.approx(1)
    assert found.low < 1 < found.high
    above = suite.excess(case("5 switching", default=3, authors=-7, best=0), DEFAULT)
    assert above == pytest.approx((0.1, 0.1, 0.1))


@pytest.mark.parametrize(
    ("default", "switching", "met"),
    [(10.0, 0.0, [1, 1, 1]), (21.0, 0.0, [0, 0, 1]), (12.0, 0.0, [0, 1, 1]), (9.0, 11, [1, 1, 0])],
)
def test_the_verdict_says_what_is_met(default: float, switching: float, met: list[int]) -> None:
    cases = [
        case(default=default, best=10, authors=30),
        case("5 switching", default=switching, authors=0, best=0),
    ]
    (words,) = suite.findings(cases)
    said = [word.partition(";")[0].partition(")")[0] for word in words.split("goal ")[1:]]
    assert [part.endswith("met") for part in said] == [bool(m) for m in met]
    assert "were chosen with these families in view" in words


@pytest.mark.slow
def test_the_best_constant_is_chosen_on_the_tuning_draws(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In float64, where rounding flips no arm and single simulations are the same to 1e-9."""
    monkeypatch.setattr(totals, "play_totals", in_float64(totals.play_totals))
    seeds = suite.fresh_seeds(0, 2)
    chosen = {"4 moderate": suite.families(SMALL)["4 moderate"]}
    cases = suite.play(chosen, seeds, SMALL, KeptCells(tmp_path, "suite"))
    assert [c.network for c in cases] == ["complete", "grid", "path", "star"]
    for found in cases:
        assert (found.best, found.at_edge) == (0.5, True)
        assert found.regret[DEFAULT].shape == found.uniform.shape == (2,)
        assert found.regret[BEST].mean() < found.uniform.mean()
    # Regret and uniform play's are those of single simulations of the judging draws.
    problem, gossip = chosen["4 moderate"].make(seeds.judging[1]), suite.networks(SMALL)["grid"]
    seed = seeds.judging[0] + 1
    alone = fb.simulate(problem, fb.FedExp3(), gossip, runs=SMALL.again, seed=seed, dtype="float64")
    assert cases[1].regret[DEFAULT][1] == pytest.approx(
        float(alone.dataset["expected_regret"][:, -1].mean()), rel=1e-9
    )
    assert cases[1].uniform[1] == pytest.approx(alone.uniform_regret, rel=1e-9)


@pytest.mark.slow
def test_quick_writes_what_it_says(tmp_path: Path) -> None:
    section = suite.reproduce(Options(tmp_path, quick=True), SMALL)
    assert {file.name for file in tmp_path.iterdir()} == set(section.files)
    assert [len(table.rows) for table in section.tables] == [4, 4, 6, 6, 4]
    assert [table.title for table in section.tables[3:]] == [
        "The price of gossip",
        "Slow networks, long runs",
    ]
    assert section.command == "fedbandits reproduce suite --quick"
    assert section.settings["sizes"].startswith("N = 8, K = 4, T = 240; complete graph, grid(2, 4)")


@pytest.mark.slow
def test_the_default_adapts_to_the_losses() -> None:
    """Where the best arm never loses it is nearer to the constant 3, where agents disagree to 0.1.

    Each is at least 1.5 times better there than the other, and the default within a third of it:
    seeds 0 to 3, 16 agents, 8 arms, 1000 rounds.
    """
    from tests.engine.simulations import simulate_draws

    gossip = fb.gossip.max_degree(fb.networks.grid(4, 4))

    def regret(make: Callable[..., fb.Problem], rate: fb.FedExp3) -> float:
        problems = [make(16, 8, 1000, seed=seed) for seed in range(4)]
        found = simulate_draws(problems, rate, gossip, runs=2).isel(time=-1)
        return float(found["expected_regret"].mean())

    small, large, default = fb.FedExp3(0.1), fb.FedExp3(3.0), fb.FedExp3()
    never, disagree = fb.problems.activated_bernoulli, fb.problems.heterogeneous
    assert regret(never, small) > 1.5 * regret(never, large)
    assert regret(disagree, large) > 1.5 * regret(disagree, small)
    assert regret(never, default) < 4 / 3 * regret(never, large)
    assert regret(disagree, default) < 4 / 3 * regret(disagree, small)
