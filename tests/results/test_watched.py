"""Results in which every run had losses of its own."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest

import fedbandits as fb
from fedbandits.sweeps.plan import make_plan
from fedbandits.sweeps.run import run_sweep
from fedbandits.tuning.choice import choose

slow = pytest.mark.slow
BASE = fb.problems.bernoulli([0.2, 0.4, 0.6], horizon=30, agents=4, seed=3)
PROBLEM = fb.problems.hit_favourite(BASE)
GOSSIP = fb.gossip.max_degree(fb.networks.ring(4))


@pytest.fixture(scope="module")
def result() -> fb.Result:
    return fb.simulate(PROBLEM, fb.FedExp3(0.3), GOSSIP, runs=3)


@pytest.mark.soak
@slow
def test_the_table_says_on_which_losses(result: fb.Result, tmp_path: Path) -> None:
    assert result.watched
    assert not fb.simulate(BASE, fb.Exp3(), runs=2).watched
    at_end = result.dataset["arm_loss"].isel(time=-1).to_numpy()  # [R, K]
    uniform = at_end.mean(axis=1) - at_end.min(axis=1)
    table = result.summary()
    assert list(table.index[-1:]) == ["uniform play, on these losses"]
    assert table["regret"].iloc[-1] == pytest.approx(uniform.mean())
    assert table["high 95%"].iloc[-1] > uniform.mean()
    assert result.uniform_regret == pytest.approx(uniform.mean())
    best = result.best_arm
    order = at_end.mean(axis=0).argsort()
    assert (best.arm, best.second) == tuple(order[:2])
    assert best.gap == pytest.approx(np.diff(np.sort(at_end.mean(axis=0))[:2])[0] / 30)
    assert "uniform play, on these losses" in repr(result)
    loaded = fb.load(result.save(tmp_path / "watched.nc"))
    assert loaded.dataset.identical(result.dataset)
    assert loaded.watched
    assert len(result.to_pandas()) == 30


@slow
def test_losses_that_depend_on_arms_leave_no_guarantee_for_arms() -> None:
    """Others see which arm they were hit on, whatever noise is in the messages."""
    held_back = fb.PrivateFedExp3(2.0, block=5)
    endless = fb.privacy.randomised_response(float("inf"))
    found = {
        problem: fb.simulate(problem, held_back, GOSSIP, runs=2, privacy=endless).guarantee
        for problem in (BASE, PROBLEM)
    }
    assert held_back.guarantee is not None
    said = held_back.guarantee.format(epsilon="2")
    assert "not where losses depend on arms" in said
    assert found[BASE] == said  # of which infinite ε, no guarantee of its own, takes nothing
    assert found[PROBLEM] == f"{said}; here losses depended on arms: no guarantee for arms"


@slow
def test_against_the_arm_that_is_best_in_the_end_of_each_run(result: fb.Result) -> None:
    arm_loss = result.dataset["arm_loss"].to_numpy()
    final = result.against("final")
    for run in range(3):
        best = arm_loss[run, :, arm_loss[run, -1].argmin()]
        shift = arm_loss[run].min(axis=1) - best
        for name in ("regret", "expected_regret"):
            before, after = (r.dataset[name].to_numpy()[run] for r in (result, final))
            np.testing.assert_allclose(after, before + shift, atol=1e-9)
    assert final.dataset["worst_regret"].dims == ("time",)
    assert final.dataset["regret"].dims == ("run", "time")
    shifts = (final.dataset["regret"] - result.dataset["regret"]).mean("run")
    worst = final.dataset["worst_regret"] - result.dataset["worst_regret"]
    np.testing.assert_allclose(worst, shifts, atol=1e-9)
    back = final.against("current").dataset
    np.testing.assert_allclose(back["regret"], result.dataset["regret"], atol=1e-9)


@slow
def test_compared_on_the_same_problem_only(result: fb.Result) -> None:
    other = fb.simulate(PROBLEM, fb.FedExp3(0.1), GOSSIP, runs=3)
    found = fb.compare(result, other)
    np.testing.assert_allclose(
        found.difference, result.dataset["regret"] - other.dataset["regret"], atol=1e-9
    )
    milder = fb.problems.hit_favourite(BASE, strength=0.5)
    elsewhere = fb.simulate(milder, fb.FedExp3(0.1), GOSSIP, runs=3)
    with pytest.raises(ValueError, match="did not face the same problem"):
        fb.compare(result, elsewhere)
    with pytest.raises(ValueError, match="did not face the same losses"):
        fb.compare(result, fb.simulate(BASE, fb.FedExp3(0.1), GOSSIP, runs=3))


@slow
def test_no_theorem_speaks_of_it(result: fb.Result) -> None:
    with pytest.raises(ValueError, match="HitFavourite depended on the arms played, and the paper"):
        result.bounds()
    with pytest.raises(ValueError, match="bounds are for losses fixed in advance"):
        result.plot(bounds=True)
    legend = result.plot().get_legend()
    assert legend is not None
    assert re.search("95% over 3 runs$", legend.get_title().get_text())


@slow
def test_over_draws_of_the_losses_inside(tmp_path: Path) -> None:
    found = fb.simulate(PROBLEM, fb.Exp3(0.3), runs=2, draws=3, checkpoint=tmp_path)
    assert found.dataset["arm_loss"].dims == ("draw", "run", "time", "arm")
    assert found.config["loss_seeds"][0] == 3
    second = fb.simulate(
        PROBLEM.redraw(found.config["loss_seeds"][1]), fb.Exp3(0.3), runs=2, seed=1
    )
    np.testing.assert_array_equal(found.dataset["regret"][1], second.dataset["regret"])
    assert found.summary().index[-1] == "uniform play, on these losses"
    assert found.against("final").dataset["worst_regret"].dims == ("draw", "time")
    assert isinstance(found.best_arm.arm, int)
    fixed = fb.problems.crowded(
        fb.problems.from_function(
            lambda t: np.full((2, 3), 0.5) + 0 * t, agents=2, arms=3, horizon=5
        )
    )
    with pytest.raises(ValueError, match="not drawn by a seed"):
        fb.simulate(fixed, fb.Exp3(), runs=2, draws=2)


@pytest.mark.soak
@slow
def test_rates_are_tuned_on_it() -> None:
    rates = [fb.FedExp3(0.1), fb.FedExp3(0.4)]
    found = choose(PROBLEM, fb.FedExp3(), GOSSIP, candidates=rates, runs=2, draws=2)
    assert isinstance(found.winner, fb.FedExp3)


CONFIG = """
runs = 2

[problem]
name = "crowded"
problem = {name = "bernoulli", means = [0.2, 0.4], horizon = 12, agents = 3}

[algorithm]
name = "Exp3"
"""


@slow
def test_a_sweep_over_problems_that_watch_and_others(tmp_path: Path) -> None:
    (tmp_path / "sweep.toml").write_text(CONFIG)
    inside = '{name = "bernoulli", means = [0.2, 0.4], horizon = 12, agents = 3}'
    watching = f'{{name = "crowded", problem = {inside}}}'
    plan = make_plan(tmp_path / "sweep.toml", [f"problem=[{watching}, {inside}]"])
    out = tmp_path / "out"
    run_sweep(plan, out, ["fedbandits", "run", "sweep.toml"])
    for variables in (None, ["arm_loss"]):
        data = fb.load_experiment(out, variables)
        assert data["arm_loss"].dims == ("problem", "run", "time", "arm")
    mine, others = data["arm_loss"].to_numpy()
    assert (mine[0] != mine[1]).any()
    np.testing.assert_array_equal(others[0], others[1])
