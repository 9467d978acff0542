"""What --dry-run says: the cells, and a time that is measured, not guessed."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from fedbandits.config.experiment import ConfigError, Experiment
from fedbandits.engine import preparation
from fedbandits.sweeps import estimate as estimates
from fedbandits.sweeps import store
from fedbandits.sweeps.estimate import Cost, estimate
from fedbandits.sweeps.plan import make_plan
from tests.instances import SMALL_CONFIG
from tests.sweeps.small_sweep import COMMAND, SWEEP, call

# Two seeds of two horizons: four batches of two cells, of two kinds.
HORIZONS = SWEEP.replace("horizon = 20", "horizon = [20, 30]")


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "sweep.toml"
    path.write_text(HORIZONS)
    return path


def test_a_time_for_every_kind_of_batch(
    file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    played: list[int] = []

    def measured(cells: Sequence[Experiment]) -> tuple[Cost, int]:
        played.append(cells[0].simulation.problem.horizon)
        return Cost(10.0, 1.0, 0.5), 12

    monkeypatch.setattr(estimates, "_measured", measured)
    plan, out = make_plan(file), tmp_path / "out"
    found = estimate(plan, out)
    assert played == [30, 20]  # the one with more to do first
    assert (len(found.missing), found.done, found.batches) == (8, 0, 4)
    assert found.seconds == 2 * 10 + 4 * 1 + 2 * (20 + 30) * 0.5
    assert str(found) == (
        "8 cells: 0 done, 8 to play in 4 batches\nabout 1 min 14 s by one process of this machine, "
        "judging by up to 12 rounds of 2 kinds of batches, played now; nothing was written"
    )
    # Without patience the second kind costs what the first does for its size.
    monkeypatch.setattr(estimates, "PATIENCE", -1.0)
    hasty = estimate(plan, out)
    assert (hasty.seconds, hasty.measured) == (found.seconds, 1)
    assert "12 rounds of 1 of 2 kinds of batches" in str(hasty)
    assert not out.exists()


def test_an_error_names_the_cell(tmp_path: Path) -> None:
    """The engine raises it, which has one game before it and not a sweep."""
    path = tmp_path / "sweep.toml"
    path.write_text(
        f"{SMALL_CONFIG.partition('[algorithm]')[0]}\n"
        '[[algorithm]]\nname = "FedExp3"\n[[algorithm]]\nname = "LinearBlockGossip"\n'
    )
    done = call("run", path, "--dry-run")
    assert done.exit_code == 2
    assert "LinearBlockGossip needs the arms as vectors" in done.stderr
    assert done.stderr.endswith("(cell algorithm=LinearBlockGossip)\n")


def test_an_error_names_the_cell_within_a_batch(
    file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def measured(cells: Sequence[Any]) -> tuple[Cost, int]:
        if any(cell.simulation.algorithm.learning_rate.value == 0.3 for cell in cells):
            raise TypeError("no such rate")
        return Cost(10.0, 1.0, 0.5), 12

    monkeypatch.setattr(estimates, "_measured", measured)
    with pytest.raises(ConfigError, match=r"^no such rate \(cell .*learning_rate=0\.3.*\)$"):
        estimate(make_plan(file), tmp_path / "out")


def test_what_is_done_is_not_counted(
    tmp_path: Path, file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(estimates, "_measured", lambda cells: (Cost(10.0, 1.0, 0.5), 12))
    plan, out = make_plan(file), tmp_path / "out"
    store.prepare(out, store.manifest_of(plan, COMMAND))
    done = store.Status(store.manifest_of(plan, COMMAND).cells[:7], [], [], [], 0)
    monkeypatch.setattr(store, "status", lambda *_: done)
    found = estimate(plan, out)
    assert [cell.hash for cell in found.missing] == [plan.hashes[7]]
    assert found.seconds == 10 + 1 + 30 * 0.5
    assert str(found).startswith("8 cells: 7 done, 1 to play in 1 batch\n")
    assert len(estimate(plan, out, force=True).missing) == 8
    done.done.append(store.manifest_of(plan, COMMAND).cells[7])
    assert str(estimate(plan, out)) == "8 cells: 8 done, 0 to play"


@pytest.mark.slow
def test_a_dry_run_plays_a_little_and_writes_nothing(tmp_path: Path) -> None:
    file = tmp_path / "sweep.toml"
    file.write_text(SWEEP)
    done = call("run", file, "--out", tmp_path / "out", "--dry-run")
    assert done.exit_code == 0, done.stderr
    assert "cells to play" in done.stdout
    assert "4 cells: 0 done, 4 to play in 2 batches\n" in done.stdout
    assert "judging by up to 20 rounds of 1 kind of batches, played now" in done.stdout
    assert sorted(tmp_path.iterdir()) == [file]
    single = tmp_path / "single.toml"
    single.write_text(SMALL_CONFIG)
    done = call("run", single, "--out", tmp_path / "out", "--dry-run")
    assert done.stdout.startswith("about ")
    assert done.stdout.endswith("by up to 20 rounds, played now; nothing was written\n")
    assert sorted(tmp_path.iterdir()) == [single, file]


def test_the_program_with_its_liars_and_its_noise_is_measured(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The time of another program says nothing: liars were left out of it once."""
    file, played = tmp_path / "sweep.toml", []
    conditions = '[privacy]\nepsilon = 1.0\n[liars.0]\nname = "swap"\n'
    file.write_text(SWEEP + conditions)
    prepare = preparation.prepare

    def spied(simulations: Any, *more: Any) -> Any:
        played.append(prepare(simulations, *more))
        return played[-1]

    monkeypatch.setattr(preparation, "prepare", spied)
    plan = make_plan(file)
    estimates._measured(plan.workshop(plan.parcel(0)))
    assert [each.stages.excluded for each in played] == [(0,)] * 2
    assert all("feedback" in each.stages.hooks for each in played)


def test_a_measurement_is_of_this_batch(tmp_path: Path) -> None:
    file = tmp_path / "sweep.toml"
    file.write_text(SWEEP)
    plan = make_plan(file)
    cost, rounds = estimates._measured(plan.workshop(plan.parcel(0)))
    assert rounds == 20
    assert min(cost.batch, cost.round) > 0
    assert cost.once >= 0
