"""Sweeps on the command line: what is printed, and which options do not go together."""

from __future__ import annotations

import logging
import re
from pathlib import Path

import pytest

import fedbandits as fb
from fedbandits.cli import tables
from fedbandits.sweeps import store
from fedbandits.sweeps.plan import make_plan
from fedbandits.sweeps.progress import CellProgress
from tests.sweeps.small_sweep import COMMAND, SWEEP, call


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
        printed = re.search(rf"{rate} +(\S+) +(\S+ to \S+|all runs alike)", done.stdout)
        assert printed, done.stdout
        assert abs(float(printed[1]) - mean) <= 0.00501
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
        (
            ["--set", "seed=1", "--set", "algorithm.learning_rate=1", "--scheduler", "a:1"],
            "--scheduler and --jobs are for sweeps",
        ),
    ],
)
def test_options_that_do_not_go_together(file: Path, args: list[str], message: str) -> None:
    failed = call("run", file, *args)
    assert failed.exit_code == 2
    assert message in failed.stderr


def test_a_bar_for_those_who_watch_and_lines_for_a_log(
    capsys: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "fedbandits")
    for show in (False, None, True):
        caplog.clear()
        with CellProgress(4, 1, show) as bar:
            bar.advance(1)
        drawn = capsys.readouterr().err
        assert ("2/4" in drawn) == ("about 0 s left" in drawn) == (show is True)
        assert caplog.messages == ([] if show else ["2 of 4 cells, 0 s"])
    with CellProgress(4, 1, True) as bar:
        bar.advance(3)
    assert "left" not in capsys.readouterr().err


def test_a_log_says_how_far_it_is(file: Path, tmp_path: Path) -> None:
    done = call("run", file, "--out", tmp_path)
    assert re.fullmatch(r"2 of 4 cells, \d+ s\n4 of 4 cells, \d+ s\n", done.stderr)


def begun(file: Path, *changes: str) -> Path:
    """The folder of a sweep of which nothing is played yet."""
    folder = file.parent / "begun"
    store.prepare(folder, store.manifest_of(make_plan(file, changes), COMMAND))
    return folder


def test_long_sweeps_are_cut_short_in_tables(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tables, "LISTED", 3)
    assert "\nand 1 more\n" in call("results", begun(file)).stdout


def test_titles_are_whole_above_narrow_tables(file: Path) -> None:
    narrow = begun(file, "algorithm.learning_rate=0.1")
    assert call("results", narrow).stdout.startswith("cells that are missing\n")


def test_the_command_that_goes_on_works_from_another_folder(
    file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder, started = begun(file), Path.cwd()
    assert "to play the rest: fedbandits run" in call("results", folder).stdout
    monkeypatch.chdir(folder)
    listed = call("results", folder).stdout
    assert f"to play the rest: cd {started} && fedbandits run" in listed
