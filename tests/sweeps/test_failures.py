"""Cells that fail: the others are played, and a fault that passes leaves no trace."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import fedbandits as fb
from fedbandits.engine import play as engine
from fedbandits.sweeps.plan import Plan
from fedbandits.sweeps.run import run_sweep
from tests.sweeps.small_sweep import COMMAND, call, cells, status_of


def fails_at(rate: float) -> Callable[..., list[fb.Result]]:
    def play(simulations: Any, options: Any) -> Any:
        if any(each.algorithm.learning_rate.value == rate for each in simulations):
            raise ValueError(f"no luck\nwith {rate}")
        return original(simulations, options)

    original = engine.play
    return play


@pytest.mark.slow
def test_one_failing_cell_stops_no_other(
    file: Path, plan: Plan, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patched:
        patched.setattr(engine, "play", fails_at(0.3))
        done = call("run", file, "--out", tmp_path)
    assert done.exit_code == 1
    assert "2 cells failed; the same command tries again\n" in done.stderr
    for seed in (0, 1):
        named = f"failed: seed={seed}, learning_rate=0.3: ValueError: no luck with 0.3\n"
        assert done.stderr.count(named) == 1
    assert "no luck" not in done.stdout
    folder = tmp_path / "sweep"
    found = status_of(folder)
    assert [cell.values["algorithm.learning_rate"] for cell in found.done] == [0.1, 0.1]
    assert [error for _, error in found.failed] == ["ValueError: no luck with 0.3"] * 2
    listed = call("results", folder).stdout
    assert "4 cells: 2 done, 2 failed, 0 missing" in listed
    assert "ValueError: no luck with 0.3" in listed
    assert f"to play the rest: fedbandits run {file} --out {tmp_path}" in listed
    # Whatever it was is gone: so is the note of it.
    assert call("run", file, "--out", tmp_path).exit_code == 0
    assert list((folder / "failed").iterdir()) == []


@pytest.mark.slow
def test_a_batch_that_fails_once_is_played_as_ever(
    plan: Plan, tmp_path: Path, undisturbed: dict[str, bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    original, sizes = engine.play, []

    def play(simulations: Any, options: Any) -> Any:
        sizes.append(len(simulations))
        if len(sizes) == 1:
            raise MemoryError
        return original(simulations, options)

    monkeypatch.setattr(engine, "play", play)
    run_sweep(plan, tmp_path / "out", COMMAND)
    assert sizes == [2, 1, 1, 2, 2]
    assert cells(tmp_path / "out") == undisturbed


@pytest.mark.slow
def test_a_batch_that_is_too_large_is_played_one_by_one(
    plan: Plan, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    original = engine.play

    def play(simulations: Any, options: Any) -> Any:
        if len(simulations) > 1:
            raise MemoryError
        return original(simulations, options)

    monkeypatch.setattr(engine, "play", play)
    assert len(run_sweep(plan, tmp_path / "out", COMMAND).done) == 4
