"""Several draws of the losses: each is a simulation of its own, and intervals are over them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner

import fedbandits as fb
from fedbandits.cli import app
from fedbandits.config import ConfigError
from fedbandits.engine import over_draws
from fedbandits.problems.redrawn import loss_seeds, redraw
from fedbandits.results import interval
from fedbandits.sweeps.plan import make_plan

from .instances import SMALL_CONFIG

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
        alone = fb.simulate(redraw(PROBLEM, seed), fb.FedExp3(0.7), GOSSIP, runs=2, seed=9 + d)
        one = found.dataset.isel(draw=d, drop=True)
        for name, values in alone.dataset.variables.items():
            np.testing.assert_array_equal(one[name], values, err_msg=str(name))
    assert found.config["draws"] == 3
    assert found.config["loss_seeds"] == list(seeds)
    by_draw = found.dataset["arm_loss"].isel(time=-1).to_numpy()
    assert len(np.unique(by_draw, axis=0)) == 3  # the losses are others


def test_intervals_are_over_draws(found: fb.Result) -> None:
    at_end = found.dataset["regret"].isel(time=-1)
    by_draw = at_end.mean("run").to_numpy()
    table = found.summary()
    assert list(table.loc["mean agent"]) == pytest.approx(list(interval(by_draw)))
    uniform = [
        fb.simulate(redraw(PROBLEM, seed), fb.Uniform(), runs=1).uniform_regret
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
        patch.setattr(over_draws, "redraw", stopped)
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
    with pytest.raises(ConfigError, match=r"draws is for a single experiment; .* problem\.seed"):
        make_plan(file, ["algorithm.learning_rate=[0.1, 0.2]"])
