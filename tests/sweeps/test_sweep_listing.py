"""The cells of a sweep one by one: tables, files of them, figures; and a sweep that was moved."""

from __future__ import annotations

import csv
import io
import shutil
from pathlib import Path
from typing import Any

import matplotlib.axes
import numpy as np
import pytest
from rich.console import Console

import fedbandits as fb
from fedbandits.cli import tables
from fedbandits.results import plots
from fedbandits.sweeps import store
from fedbandits.sweeps.plan import Plan, make_plan
from fedbandits.sweeps.run import run_sweep
from tests.instances import SMALL_CONFIG
from tests.sweeps.small_sweep import SWEEP, call

FIVE_AXES = """
runs = 2
seed = [0, 1]

[problem]
name = "activated_bernoulli"
agents = 4
arms = 3
horizon = [20, 30]

[network]
name = "grid"
rows = 2
cols = 2

[gossip]
name = ["max_degree", "metropolis"]

[algorithm]
name = "FedExp3"
learning_rate = [0.125, 0.0625]
exploration = [{ name = "power", c = 0.01, a = 0.5 }, { name = "power", c = 0.02, a = 0.5 }]
"""


@pytest.fixture(scope="module")
def plan(tmp_path_factory: pytest.TempPathFactory) -> Plan:
    path = tmp_path_factory.mktemp("project") / "sweep.toml"
    path.write_text(SWEEP)
    return make_plan(path)


@pytest.fixture(scope="module")
def played(plan: Plan) -> Path:
    out = plan.source.parent / "out"
    folder = out / "sweep"
    run_sweep(plan, folder, ["fedbandits", "run", str(plan.source), "--out", str(out)])
    return folder


@pytest.fixture
def sweep(played: Path, tmp_path: Path) -> Path:
    """Four cells: two done, one failed, one missing."""
    shutil.copytree(played, tmp_path / "sweep")
    hashes = [cell.hash for cell in store.read_manifest(played).cells]
    for name in hashes[2:]:
        store.cell_path(tmp_path / "sweep", name).unlink()
    store.save_failure(tmp_path / "sweep", hashes[2], "", "no luck, 'or\" so")
    return tmp_path / "sweep"


# Tables.


def drawn(group: Any, width: int) -> list[str]:
    text = io.StringIO()
    Console(file=text, width=width, color_system=None).print(group)
    return text.getvalue().splitlines()


@pytest.mark.parametrize("width", [80, 100, 120])
@pytest.mark.parametrize("kind", ["done", "failed", "missing"])
def test_tables_of_many_axes_break_between_axes(kind: str, width: int, tmp_path: Path) -> None:
    (tmp_path / "five.toml").write_text(FIVE_AXES)
    manifest = store.manifest_of(make_plan(tmp_path / "five.toml"), [])
    cells = manifest.cells[:3]
    columns: dict[str, Any] = {
        "done": {"regret at T": ["1,234.56"] * 3, "95% band": ["1,230.00 to 1,240.00"] * 3},
        "failed": {"error": ["ValueError: not finite at round 17; look at its rates"] * 3},
        "missing": {},
    }
    lines = drawn(tables.cell_table("title", manifest, cells, width, columns[kind]), width)
    assert max(map(len, lines)) <= width
    for cell in cells:
        for name, value in zip(
            ["seed", "horizon", "gossip", "learning_rate"], cell.values.values(), strict=False
        ):
            # A row of its own, or one of several: a name or a value is never broken.
            assert any(f"{name}={value}" in line or f" {value} " in line for line in lines)
    assert any("power(c=0.01, a=0.5)" in line for line in lines)
    assert any("1,230.00 to 1,240.00" in line for line in lines) == (kind == "done")


def test_a_table_that_fits_has_a_column_for_each_axis(plan: Plan) -> None:
    manifest = store.manifest_of(plan, [])
    lines = drawn(tables.cell_table("title", manifest, manifest.cells, 80), 80)
    assert lines[2].split() == ["seed", "learning_rate"]
    assert lines[4].split() == ["0", "0.1"]


def test_a_value_that_is_wider_than_the_terminal_is_all_there(plan: Plan) -> None:
    manifest = store.manifest_of(plan, [])
    cell = store.StoredCell("", "", [0], {"seed": "x" * 70, "algorithm.learning_rate": 0.1})
    lines = drawn(tables.cell_table("title", manifest, [cell], 40), 40)
    assert "".join(lines).count("x") == 70


# Files.


@pytest.mark.slow
def test_all_cells_as_csv(sweep: Path, tmp_path: Path) -> None:
    printed = call("results", sweep, "--csv", "-")
    rows = list(csv.DictReader(io.StringIO(printed.stdout)))
    assert [(row["seed"], row["learning_rate"], row["status"]) for row in rows] == [
        ("0", "0.1", "done"),
        ("0", "0.3", "done"),
        ("1", "0.1", "failed"),
        ("1", "0.3", "missing"),
    ]
    for row in rows[:2]:
        expected = [float(curve[-1]) for curve in fb.load(row["file"]).band("regret")]
        found = [float(row[f"final_regret{end}"]) for end in ("", "_low", "_high")]
        np.testing.assert_allclose(found, expected, rtol=1e-12)
    assert rows[2]["error"] == "no luck, 'or\" so"
    assert rows[3]["final_regret"] == rows[3]["file"] == ""
    written = call("results", sweep, "--csv", tmp_path / "cells.csv")
    assert f"wrote {tmp_path / 'cells.csv'}\n" in written.stdout
    assert "4 cells: 2 done, 1 failed, 1 missing" in written.stdout
    assert (tmp_path / "cells.csv").read_text() == printed.stdout


SEQUENCES = [
    ("changes", 2, "the best sequence with at most 2 changes"),
    ("parts", 3, "the best arm of each of 3 equal parts"),
]


@pytest.fixture(scope="module")
def switching(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A sweep whose best arm changes."""
    folder = tmp_path_factory.mktemp("switching")
    path = folder / "sweep.toml"
    path.write_text(
        SMALL_CONFIG.replace("activated_bernoulli", "switching") + "learning_rate = [0.1, 0.3]\n"
    )
    run_sweep(make_plan(path), folder / "sweep", ["fedbandits", "run", str(path)])
    return folder / "sweep"


@pytest.mark.slow
@pytest.mark.parametrize(("kind", "count", "words"), SEQUENCES)
def test_regret_against_the_best_sequence(
    switching: Path, kind: str, count: int, words: str
) -> None:
    """In the names of the columns, in the title of the table, and as the result itself says."""
    sequence: dict[str, Any] = {kind: count}
    asked = ["results", str(switching), f"--{kind}", str(count)]
    printed = call(*asked, "--csv", "-")
    rows = list(csv.DictReader(io.StringIO(printed.stdout)))
    for row in rows:
        result = fb.load(row["file"])
        against = result.regret_against(**sequence)
        moving = [float(curve[-1]) for curve in against.band("regret")]
        names = [f"final_regret_{kind}_{count}{end}" for end in ("", "_low", "_high")]
        found = [float(row[name]) for name in names]
        np.testing.assert_allclose(found, moving, rtol=1e-12)
        assert moving[0] > float(result.band("regret").mean[-1])
    table = call(*asked).stdout
    assert f"cells that are done, regret against {words}" in " ".join(table.split())
    assert f"{float(rows[0][f'final_regret_{kind}_{count}']):,.2f}" in table


# Figures.


def plotted(monkeypatch: pytest.MonkeyPatch, *args: str | Path) -> tuple[list[str], str]:
    """The labels of a figure, and what was printed."""
    labels: list[str] = []
    original = plots.plot_regret

    def plot_regret(results: Any, *rest: Any, **named: Any) -> matplotlib.axes.Axes:
        labels.extend(results)
        return original(results, *rest, **named)

    monkeypatch.setattr(plots, "plot_regret", plot_regret)
    done = call("plot", *args)
    assert done.exit_code == 0, done.stderr
    return labels, done.stderr


@pytest.mark.slow
def test_a_sweep_is_plotted_by_what_varies(
    played: Path, sweep: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    figure = tmp_path / "figure.png"
    labels, printed = plotted(monkeypatch, played, "--out", figure)
    assert labels == [
        f"seed={seed}, learning_rate={rate}" for seed in (0, 1) for rate in (0.1, 0.3)
    ]
    assert (figure.exists(), printed) == (True, "")
    # The two that are done differ in one axis alone.
    labels, printed = plotted(monkeypatch, sweep, "--out", figure)
    assert labels == ["learning_rate=0.1", "learning_rate=0.3"]
    assert printed == "2 of 4 cells are not done and not drawn\n"


@pytest.mark.slow
@pytest.mark.parametrize(("kind", "count", "words"), SEQUENCES)
def test_a_sweep_is_plotted_against_the_best_sequence(
    switching: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    kind: str,
    count: int,
    words: str,
) -> None:
    """All curves are of that regret, and the legend says so."""
    drawn: list[matplotlib.axes.Axes] = []
    monkeypatch.setattr("fedbandits.cli.messages.close_plot", drawn.append)
    done = call("plot", switching, f"--{kind}", str(count), "--out", tmp_path / "figure.png")
    assert done.exit_code == 0, done.stderr
    [ax] = drawn
    sequence: dict[str, Any] = {kind: count}
    legend = ax.get_legend()
    assert legend is not None
    assert " ".join(legend.get_title().get_text().split()).startswith(f"against {words}")
    cells = store.read_manifest(switching).cells
    for cell, line in zip(cells, ax.lines, strict=True):
        moving = fb.load(store.cell_path(switching, cell.hash)).regret_against(**sequence)
        np.testing.assert_array_equal(np.asarray(line.get_ydata()), moving.band("regret").mean)


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (["results", "--changes", "2", "--parts", "3"], "give --changes 2 or --parts 3, not both"),
        (["plot", "--changes", "2", "--parts", "3"], "give --changes 2 or --parts 3, not both"),
        (["plot", "--parts", "3", "--kind", "arms"], "of kind arms has no regret; leave --parts"),
        (["results", "--changes", "-1"], "changes must be a whole number of at least 0, not -1"),
        (["plot", "--parts", "0"], "parts must be a whole number of at least 1, not 0"),
        (["plot", "--changes", "20"], "a horizon of 20 rounds must be at most 19, not 20"),
    ],
)
def test_sequences_that_are_refused(sweep: Path, args: list[str], message: str) -> None:
    command, *options = args
    failed = call(command, sweep, *options)
    assert failed.exit_code == 2
    assert failed.stdout == ""
    assert message in failed.stderr


def test_a_figure_lies_in_the_folder_of_its_sweep(
    sweep: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """For a result, in that file's folder; the first argument decides."""
    monkeypatch.chdir(tmp_path)
    one = store.cell_path(sweep, store.read_manifest(sweep).cells[0].hash)
    (tmp_path / "elsewhere").mkdir()
    alone = shutil.copyfile(one, tmp_path / "elsewhere" / "one.nc")
    for paths, target in (([sweep], sweep), ([alone, sweep], tmp_path / "elsewhere")):
        done = call("plot", *paths)
        assert done.stdout == f"wrote {target / 'regret.pdf'}\n"
        assert (target / "regret.pdf").read_bytes().startswith(b"%PDF")


def test_a_sweep_beside_a_result(
    sweep: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    one = store.cell_path(sweep, store.read_manifest(sweep).cells[0].hash)
    labels, _ = plotted(monkeypatch, one, sweep, "--out", tmp_path / "figure.png")
    assert labels == ["FedExp3", f"{sweep}: learning_rate=0.1", f"{sweep}: learning_rate=0.3"]


def test_a_sweep_of_which_nothing_is_done_is_not_plotted(sweep: Path) -> None:
    shutil.rmtree(sweep / "cells")
    failed = call("plot", sweep)
    assert failed.exit_code == 2
    assert f"none of the 4 cells in {sweep} is done; play them with fedbandits run" in failed.stderr


# A folder that was moved.


def rest(folder: Path) -> str:
    """What plays the rest of a sweep."""
    return store.shown_command(store.read_manifest(folder), folder)


def test_a_moved_folder_is_named_where_it_is(plan: Plan, sweep: Path) -> None:
    command = f"fedbandits run {plan.source} --out {sweep.parent}"
    assert rest(sweep) == command
    printed = call("results", sweep).stdout
    assert f"{sweep}: 4 cells: 2 done, 1 failed, 1 missing\n" in printed
    assert printed.endswith(f"to play the rest: {command}\n")
    renamed = sweep.rename(sweep.parent / "kept")
    assert rest(renamed) == f"rename {renamed} to sweep, then {command}"


def test_a_project_that_was_moved_whole(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    old, new = tmp_path / "old", tmp_path / "new"
    old.mkdir()
    (old / "sweep.toml").write_text(SMALL_CONFIG.replace("runs = 2", "runs = 2\nseed = [0, 1]"))
    command = ["fedbandits", "run", "sweep.toml", "--out", "out"]
    with monkeypatch.context() as there:
        there.chdir(old)
        store.prepare(Path("out/sweep"), store.manifest_of(make_plan("sweep.toml"), command))
        assert rest(Path("out/sweep")) == "fedbandits run sweep.toml --out out"
    whole = "fedbandits run sweep.toml --out out"
    assert rest(old / "out" / "sweep") == f"cd {old} && {whole}"
    old.rename(new)
    assert rest(new / "out" / "sweep") == f"cd {new} && {whole}"
    monkeypatch.chdir(new)
    assert rest(Path("out/sweep")) == whole
