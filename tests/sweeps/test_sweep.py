"""Sweeps on one machine: a cell is what simulate gives, and only what is missing is played."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest
import xarray as xr

import fedbandits as fb
from fedbandits import config
from fedbandits.engine import play as engine
from fedbandits.sweeps import run, store
from fedbandits.sweeps.plan import Plan, make_plan
from fedbandits.sweeps.run import run_sweep
from fedbandits.sweeps.workshop import Parcel
from tests.sweeps.small_sweep import COMMAND, SWEEP, call, cells, never


@pytest.mark.slow
def test_a_cell_is_what_simulate_gives(plan: Plan, tmp_path: Path) -> None:
    """In float64 batching flips no arm; curves are the same but for the rounding of sums."""
    wide = make_plan(plan.source, ["dtype=float64"])
    run_sweep(wide, tmp_path / "out", COMMAND)
    experiment = config.build(wide.sweep.cells[2].config, wide.source)
    result = fb.load(store.cell_path(tmp_path / "out", wide.hashes[2]))
    direct = experiment.simulate()
    assert result.config == direct.config
    xr.testing.assert_allclose(result.dataset, direct.dataset, rtol=1e-10, atol=1e-10)


@pytest.mark.slow
def test_a_second_run_plays_nothing(
    finished: Path, plan: Plan, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(run, "play_cells", never)
    assert len(run_sweep(plan, finished, COMMAND).done) == 4


def test_what_is_missing_is_played_whole_and_written_alone(
    finished: Path, plan: Plan, undisturbed: dict[str, bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    store.cell_path(finished, plan.hashes[3]).unlink()
    played: list[list[str]] = []
    original = run.play_cells

    def play(parcel: Parcel, *rest: Any) -> list[run.Outcome]:
        played.append(parcel.hashes)
        return original(parcel, *rest)

    monkeypatch.setattr(run, "play_cells", play)
    written: list[str] = []
    save = store.save_cell

    def note(folder: Path, name: str, data: xr.Dataset) -> None:
        written.append(name)
        save(folder, name, data)

    monkeypatch.setattr(store, "save_cell", note)
    run_sweep(plan, finished, COMMAND)
    assert played == [[plan.hashes[2], plan.hashes[3]]]
    assert written == [plan.hashes[3]]
    assert cells(finished) == undisturbed


@pytest.mark.slow
def test_the_same_bits_even_if_they_depend_on_the_batch(
    plan: Plan, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    original = engine.play

    def play(simulations: Any, options: Any) -> Any:
        found = original(simulations, options)
        for place, result in enumerate(found):
            result.dataset["regret"] += 1e-6 * (10 * len(found) + place)
        return found

    monkeypatch.setattr(engine, "play", play)
    run_sweep(plan, tmp_path, COMMAND)
    whole = cells(tmp_path)
    for name in plan.hashes:
        store.cell_path(tmp_path, name).unlink()
        run_sweep(plan, tmp_path, COMMAND)
        assert cells(tmp_path) == whole


def test_force_plays_everything_anew(
    finished: Path, plan: Plan, undisturbed: dict[str, bytes]
) -> None:
    for path in (finished / "cells").iterdir():
        os.utime(path, (0, 0))
    run_sweep(plan, finished, COMMAND, force=True)
    assert cells(finished) == undisturbed
    assert all(path.stat().st_mtime > 0 for path in (finished / "cells").iterdir())


def test_an_edited_sweep_keeps_what_it_shares(
    finished: Path, file: Path, undisturbed: dict[str, bytes]
) -> None:
    file.write_text(SWEEP.replace("[0.1, 0.3]", "[0.3, 0.5]"))
    edited = make_plan(file)
    assert len(set(edited.hashes) & {name[:-3] for name in undisturbed}) == 2
    found = run_sweep(edited, finished, COMMAND)
    assert (len(found.done), found.others) == (4, 2)
    assert cells(finished).items() > undisturbed.items()
    listed = call("results", finished).stdout
    assert "2 more results are of cells that are no longer in the sweep" in listed
