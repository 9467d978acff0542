"""Several draws of the losses: each is a simulation of its own, and intervals are over them."""

from __future__ import annotations

import csv
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import xarray as xr
from typer.testing import CliRunner

import fedbandits as fb
from fedbandits.cli.commands import app
from fedbandits.common.statistics import interval
from fedbandits.config.building import build
from fedbandits.config.experiment import ConfigError
from fedbandits.engine import play, preparation
from fedbandits.problems.base import loss_seeds
from fedbandits.sweeps import store
from fedbandits.sweeps.listing import as_csv
from fedbandits.sweeps.plan import make_plan
from fedbandits.sweeps.run import run_sweep
from tests.instances import SMALL_CONFIG

PROBLEM = fb.problems.activated_bernoulli(agents=5, arms=3, horizon=12, seed=4)
GOSSIP = fb.gossip.max_degree(fb.networks.ring(5))


@pytest.fixture(scope="module")
def found() -> fb.Result:
    return fb.simulate(PROBLEM, fb.FedExp3(0.7), GOSSIP, runs=2, seed=9, draws=3)


def test_a_draw_is_what_simulate_gives(found: fb.Result) -> None:
    seeds = loss_seeds(PROBLEM, 3)
    assert seeds[0] == 4
    assert len(set(seeds)) == 3
    assert found.dataset.sizes["draw"] == 3
    for d, seed in enumerate(seeds):
        alone = fb.simulate(PROBLEM.redraw(seed), fb.FedExp3(0.7), GOSSIP, runs=2, seed=9 + d)
        one = found.dataset.isel(draw=d, drop=True)
        for name, values in alone.dataset.variables.items():
            np.testing.assert_array_equal(one[name], values, err_msg=str(name))
    assert found.config["draws"] == 3
    assert found.config["loss_seeds"] == list(seeds)
    by_draw = found.dataset["arm_loss"].isel(time=-1).to_numpy()
    assert len(np.unique(by_draw, axis=0)) == 3  # the losses are others


@pytest.mark.slow
def test_intervals_are_over_draws(found: fb.Result) -> None:
    at_end = found.dataset["regret"].isel(time=-1)
    by_draw = at_end.mean("run").to_numpy()
    table = found.summary()
    assert list(table.loc["mean agent"]) == pytest.approx(list(interval(by_draw)))
    uniform = [
        fb.simulate(PROBLEM.redraw(seed), fb.Uniform(), runs=1).uniform_regret
        for seed in loss_seeds(PROBLEM, 3)
    ]
    assert list(table.loc["uniform play"]) == pytest.approx(list(interval(uniform)))
    assert found.uniform_regret == pytest.approx(np.mean(uniform))
    assert found.sample == ("draw", 3)
    assert "2 runs on 3 draws of the losses" in repr(found)
    curves = found.to_pandas()
    assert curves["regret"].iloc[-1] == pytest.approx(by_draw.mean())
    assert curves["worst_regret"].notna().all()
    assert found.bounds().loc["mean agent", "value"] == pytest.approx(by_draw.mean())
    assert 0 <= found.best_arm.agreement <= 1


def test_plots_say_what_bands_are_over(found: fb.Result) -> None:
    legend = found.plot().get_legend()
    assert legend is not None
    assert legend.get_title().get_text() == "band: 95% over 3 draws of the losses"


def test_files_and_the_final_best_arm(found: fb.Result, tmp_path: Path) -> None:
    again = fb.load(found.save(tmp_path / "draws.nc"))
    assert again.dataset.identical(found.dataset)
    final = again.against("final").dataset["regret"].to_numpy()
    now, arm_loss = again.dataset["regret"].to_numpy(), again.dataset["arm_loss"].to_numpy()
    for d in range(3):
        best = arm_loss[d, -1].argmin()
        shift = arm_loss[d].min(axis=1) - arm_loss[d, :, best]
        np.testing.assert_allclose(final[d] - now[d], [shift, shift], atol=1e-12)


@pytest.mark.slow
def test_comparisons_are_paired_by_draw(found: fb.Result) -> None:
    alone = fb.simulate(PROBLEM, fb.Exp3(0.7), runs=2, seed=9, draws=3)
    compared = fb.compare(found, alone)
    apart = (found.dataset["regret"] - alone.dataset["regret"]).isel(time=-1).mean("run")
    row = compared.summary().iloc[0].tolist()
    assert row == pytest.approx(list(interval(apart.to_numpy())))
    fewer = fb.simulate(PROBLEM, fb.Exp3(0.7), runs=2, seed=9, draws=2)
    with pytest.raises(ValueError, match="3 and 2 entries along draw"):
        fb.compare(found, fewer)


def test_what_cannot_be_drawn_anew_is_refused() -> None:
    stored = fb.problems.from_tensor(np.zeros((5, 4, 2)))
    with pytest.raises(ValueError, match=r"not drawn by a seed.*leave draws out"):
        fb.simulate(stored, fb.Exp3(), draws=2)
    for draws in (0, 1, 10**9):
        with pytest.raises(ValueError, match="draws must be a"):
            fb.simulate(PROBLEM, fb.Exp3(), draws=draws)
    with pytest.raises(ValueError, match=r"seed \+ draws - 1 must be below"):
        fb.simulate(PROBLEM, fb.Exp3(), seed=2**32 - 1, draws=2)


def test_draws_that_are_done_are_not_played_again(
    found: fb.Result, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    drawn: list[int] = []
    redraw: Callable[[Any, int], fb.Problem] = type(PROBLEM).redraw

    def stopped(problem: Any, seed: int) -> fb.Problem:
        drawn.append(seed)
        if len(drawn) == 2:
            raise KeyboardInterrupt
        return redraw(problem, seed)

    def play() -> fb.Result:
        return fb.simulate(
            PROBLEM, fb.FedExp3(0.7), GOSSIP, runs=2, seed=9, draws=3, checkpoint=tmp_path
        )

    with monkeypatch.context() as patch:
        patch.setattr(type(PROBLEM), "redraw", stopped)
        with pytest.raises(KeyboardInterrupt):
            play()
    kept = {file: file.stat().st_mtime_ns for file in tmp_path.glob("*.nc")}
    assert len(kept) == 2
    saved: list[Path] = []
    save = fb.Result.save

    def noted(self: fb.Result, path: str | Path) -> Path:
        saved.append(Path(path))
        return save(self, path)

    monkeypatch.setattr(fb.Result, "save", noted)
    assert play().dataset.identical(found.dataset)
    assert len(saved) == 1
    assert saved[0] not in kept
    assert not list(tmp_path.iterdir())


@pytest.mark.slow
def test_in_a_configuration(tmp_path: Path) -> None:
    file = tmp_path / "small.toml"
    file.write_text("draws = 2\n" + SMALL_CONFIG)
    for _ in range(2):  # the same once more replaces it
        done = CliRunner().invoke(app, ["run", str(file), "--out", str(tmp_path / "out")])
        assert done.exit_code == 0, done.stderr
    assert "2 runs on 2 draws of the losses" in done.stdout
    assert fb.load(tmp_path / "out" / "small.nc").config["draws"] == 2
    other = ["run", str(file), "--out", str(tmp_path / "out"), "--set", "draws=3"]
    failed = CliRunner().invoke(app, other)
    assert failed.exit_code == 2
    assert "draws is 2 there and 3 here" in failed.stderr


SWEEP = "draws = 2\n" + SMALL_CONFIG.replace(
    'name = "FedExp3"', 'name = "FedExp3"\nlearning_rate = [0.1, 0.3]'
)


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("sweep") / "sweep.toml"
    path.write_text(SWEEP)
    return path


@pytest.fixture(scope="module")
def swept(file: Path) -> Path:
    folder = file.parent / "out"
    assert len(run_sweep(make_plan(file), folder, ["fedbandits"]).done) == 2
    return folder


@pytest.mark.slow
def test_in_a_sweep(file: Path, swept: Path) -> None:
    plan = make_plan(file)
    data = fb.load_experiment(swept)
    assert data["regret"].dims == ("learning_rate", "draw", "run", "time")
    assert data["arm_loss"].dims == ("learning_rate", "draw", "time", "arm")
    assert data["final_regret"].dims == ("learning_rate", "draw", "run")
    rows = list(csv.DictReader(as_csv(swept, *known(swept)).splitlines()))
    for place, cell in enumerate(plan.sweep.cells):
        alone = build(cell.config, file).simulate()
        stored = fb.load(store.cell_path(swept, plan.hashes[place]))
        assert stored.config == alone.config
        assert stored.sample == ("draw", 2)
        # Batched differently: the same but for rounding.
        xr.testing.assert_allclose(stored.dataset, alone.dataset, rtol=1e-5, atol=1e-5)
        one = data.isel(learning_rate=place)
        np.testing.assert_array_equal(one["regret"], stored.dataset["regret"])
        np.testing.assert_array_equal(one["final_regret"], stored.dataset["regret"][..., -1])
        limits = [float(rows[place][f"final_regret{end}"]) for end in ("", "_low", "_high")]
        at_end = stored.dataset["regret"].isel(time=-1).mean("run")
        assert limits == pytest.approx(list(interval(at_end.to_numpy())))


def known(folder: Path) -> tuple[store.Manifest, store.Status]:
    manifest = store.read_manifest(folder)
    return manifest, store.status(folder, manifest)


@pytest.mark.slow
def test_cells_with_other_numbers_of_draws_are_joined(tmp_path: Path) -> None:
    file = tmp_path / "sweep.toml"
    file.write_text("draws = [2, 3]\n" + SMALL_CONFIG)
    run_sweep(make_plan(file), tmp_path / "out", ["fedbandits"])
    regret = fb.load_experiment(tmp_path / "out")["final_regret"]
    assert regret.dims == ("draws", "draw", "run")
    assert regret["draw"].to_numpy().tolist() == [0, 1, 2]
    missing = regret.isnull().to_numpy()
    assert missing.sum() == 2  # the third draw of the first cell, in both runs
    assert missing[0, 2].all()


@pytest.mark.slow
def test_a_sweep_goes_on_after_the_draws_that_are_done(
    file: Path, swept: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    plan, out, seeds = make_plan(file), tmp_path / "out", []
    prepare = preparation.prepare

    def stopped(simulations: Any, *more: Any) -> Any:
        seeds.append(int(simulations[0].problem.seed))
        if len(seeds) == 2:
            raise KeyboardInterrupt
        return prepare(simulations, *more)

    monkeypatch.setattr(play, "prepare", stopped)
    with pytest.raises(KeyboardInterrupt):
        run_sweep(plan, out, ["fedbandits"])
    assert len(run_sweep(plan, out, ["fedbandits"]).done) == 2
    first, second = loss_seeds(build(plan.sweep.cells[0].config, file).simulation.problem, 2)
    assert seeds == [first, second, second]
    for name in plan.hashes:
        there = store.cell_path(swept, name).read_bytes()
        assert store.cell_path(out, name).read_bytes() == there
    assert not (out / "under_way").exists()
    # Played anew by force, nothing that waits there is taken.
    seeds[:] = [0]
    with pytest.raises(KeyboardInterrupt):
        run_sweep(plan, out, ["fedbandits"], force=True)
    seeds.clear()
    seeds.extend([0, 0])
    run_sweep(plan, out, ["fedbandits"], force=True)
    assert seeds[2:] == [first, second]


def test_a_configuration_that_cannot_be_drawn_anew_is_refused_before_the_run(
    tmp_path: Path,
) -> None:
    (tmp_path / "losses.csv").write_text("time,agent,arm,loss\n1,0,0,0.5\n1,0,1,0.5\n")
    file = tmp_path / "stored.toml"
    table = '[problem]\nname = "from_table"\ntable = "losses.csv"\n[algorithm]\nname = "Exp3"\n'
    file.write_text("draws = 2\n" + table)
    for changes in ([], ["algorithm.learning_rate=[0.1, 0.2]"]):
        with pytest.raises(ConfigError, match=r"stored\.toml.*not drawn by a seed"):
            make_plan(file, changes)


def test_more_draws_than_memory_holds_are_refused() -> None:
    with pytest.raises(ValueError, match="what is recorded of"):
        fb.simulate(PROBLEM, fb.Exp3(), runs=200_000, draws=10_000)


def test_tuning_draws_by_itself(tmp_path: Path) -> None:
    file = tmp_path / "small.toml"
    file.write_text("draws = 2\n" + SMALL_CONFIG)
    failed = CliRunner().invoke(app, ["tune", str(file), "--out", str(tmp_path / "out")])
    assert failed.exit_code == 2
    assert "leave draws out" in failed.stderr
