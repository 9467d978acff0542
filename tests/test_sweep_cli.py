"""Sweeps on the command line: what is printed, and which options do not go together."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import fedbandits as fb
from fedbandits.sweeps import store
from fedbandits.sweeps.progress import CellProgress

from .test_sweep import SWEEP, call


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "sweep.toml"
    path.write_text(SWEEP)
    return path


def test_the_command_line(file: Path, tmp_path: Path) -> None:
    out = tmp_path / "some where"
    done = call("run", file, "--out", out, "--set", "seed=3")
    assert done.exit_code == 0, done.stderr
    folder = out / "sweep"
    assert done.stdout.endswith(f"wrote {folder}\n")
    loaded = fb.load_experiment(folder)
    for rate in (0.1, 0.3):
        mean = float(loaded["regret"].sel(learning_rate=rate).isel(time=-1).mean("run"))
        assert re.search(rf"{rate} +{mean:.2f} +\S+ to \S+", done.stdout)
    listed = call("results", folder)
    assert listed.exit_code == 0
    assert "2 cells: 2 done, 0 failed, 0 missing" in listed.stdout
    assert "to play the rest" not in listed.stdout
    store.cell_path(folder, store.read_manifest(folder).cells[0].hash).unlink()
    listed = call("results", folder)
    assert "2 cells: 1 done, 0 failed, 1 missing" in listed.stdout
    assert f"to play the rest: fedbandits run {file} --set seed=3 --out '{out}'" in listed.stdout
    again = call("run", file, "--out", out, "--set", "seed=3", "--quiet")
    assert (again.stdout, again.stderr) == (f"{folder}\n", "")


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (["--checkpoint", "x"], "a sweep keeps every finished cell without --checkpoint"),
        (["--set", "seed=1", "--set", "algorithm.learning_rate=1", "--force"], "are for sweeps"),
    ],
)
def test_options_that_do_not_go_together(file: Path, args: list[str], message: str) -> None:
    failed = call("run", file, *args)
    assert failed.exit_code == 2
    assert message in failed.stderr


def test_a_bar_for_those_who_watch(capsys: pytest.CaptureFixture[str]) -> None:
    for show in (False, None, True):
        with CellProgress(4, 1, show) as bar:
            bar.advance()
        assert ("2/4" in capsys.readouterr().err) == (show is True)
