"""Sweeps on one machine: nothing is lost, nothing is mixed, and a resumed one is the same."""

from __future__ import annotations

import errno
import functools
import io
import json
import logging
import os
import signal
import subprocess
import sys
import tempfile
import tomllib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import xarray as xr
from typer.testing import CliRunner, Result

import fedbandits as fb
from fedbandits import config
from fedbandits.cli.commands import app
from fedbandits.common import version
from fedbandits.config import building
from fedbandits.config.catalogue import REGISTRIES
from fedbandits.engine import several_algorithms
from fedbandits.sweeps import run, store
from fedbandits.sweeps.plan import Plan, make_plan
from fedbandits.sweeps.run import run_sweep
from fedbandits.sweeps.store import SweepError
from fedbandits.sweeps.workshop import Parcel, Workshop
from tests.instances import SMALL_CONFIG

# Two batches of two cells: one for each seed.
SWEEP = SMALL_CONFIG.replace("runs = 2", "runs = 2\nseed = [0, 1]").replace(
    'name = "FedExp3"', 'name = "FedExp3"\nlearning_rate = [0.1, 0.3]'
)
COMMAND = ["fedbandits", "run", "sweep.toml", "--set", "runs = 2"]
GO_ON = "to go on: fedbandits run sweep.toml --set 'runs = 2'"


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "sweep.toml"
    path.write_text(SWEEP)
    return path


@pytest.fixture
def plan(file: Path) -> Plan:
    return make_plan(file)


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory: pytest.TempPathFactory) -> dict[str, bytes]:
    folder = tmp_path_factory.mktemp("undisturbed")
    (folder / "sweep.toml").write_text(SWEEP)
    said = run_sweep(make_plan(folder / "sweep.toml"), folder / "out", COMMAND)
    assert len(said.done) == 4
    return cells(folder / "out")


@pytest.fixture
def finished(file: Path, plan: Plan, undisturbed: dict[str, bytes]) -> Path:
    """The folder of a finished sweep, to be damaged."""
    folder = file.parent / "out" / "sweep"
    store.prepare(folder, store.manifest_of(plan, ["fedbandits", "run", str(file)]))
    for name, content in undisturbed.items():
        (folder / "cells" / name).write_bytes(content)
    return folder


def cells(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in (folder / "cells").glob("*.nc")}


def said(folder: Path) -> store.Status:
    return store.status(folder, store.read_manifest(folder))


def call(*args: str | Path) -> Result:
    plain = {"COLUMNS": "120", "NO_COLOR": "1", "TERM": "dumb"}
    return CliRunner(env=plain).invoke(app, [str(arg) for arg in args])


def never(*args: Any, **kwargs: Any) -> Any:
    raise AssertionError("nothing should be played")


def before_cell(number: int, act: Callable[[], Any], monkeypatch: pytest.MonkeyPatch) -> None:
    """Do something before the result of the cell of that number is written."""
    original, count = store.save_cell, iter(range(100))

    def save(*args: Any) -> None:
        if next(count) == number:
            act()
        original(*args)

    monkeypatch.setattr(store, "save_cell", save)


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
    original = several_algorithms.simulate_each

    def simulate_each(problem: Any, algorithms: Any, *args: Any, **kwargs: Any) -> Any:
        found = original(problem, algorithms, *args, **kwargs)
        for place, result in enumerate(found):
            result.dataset["regret"] += 1e-6 * (10 * len(found) + place)
        return found

    monkeypatch.setattr(several_algorithms, "simulate_each", simulate_each)
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


def test_a_forced_run_that_is_interrupted_goes_on_without_force(
    finished: Path, plan: Plan, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupt(*args: Any) -> list[run.Outcome]:
        raise KeyboardInterrupt

    monkeypatch.setattr(run, "play_cells", interrupt)
    with pytest.raises(KeyboardInterrupt, match="0 of 4 cells are safe"):
        run_sweep(plan, finished, COMMAND, force=True)
    assert len(said(finished).missing) == 4


def test_interrupted_and_resumed(
    plan: Plan, tmp_path: Path, undisturbed: dict[str, bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    out = tmp_path / "out"
    original = run.play_cells

    def play(parcel: Parcel, *rest: Any) -> list[run.Outcome]:
        if plan.hashes[2] in parcel.hashes:
            raise KeyboardInterrupt("stopped after round 10 of 20")
        return original(parcel, *rest)

    with monkeypatch.context() as patched:
        patched.setattr(run, "play_cells", play)
        with pytest.raises(KeyboardInterrupt) as caught:
            run_sweep(plan, out, COMMAND)
    assert str(caught.value) == f"stopped; 2 of 4 cells are safe in {out}, 2 are missing; {GO_ON}"
    assert cells(out).items() < undisturbed.items()
    run_sweep(plan, out, COMMAND)
    assert cells(out) == undisturbed


@pytest.mark.parametrize("ignored", [False, True])  # Ctrl-C is, in a script's background jobs
def test_terminated_by_a_batch_system(
    file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, ignored: bool
) -> None:
    before = signal.getsignal(signal.SIGTERM)
    interrupt = signal.getsignal(signal.SIGINT)

    def play(*args: Any) -> list[run.Outcome]:
        signal.raise_signal(signal.SIGTERM)
        raise AssertionError("it goes on")

    monkeypatch.setattr(run, "play_cells", play)
    try:
        if ignored:
            signal.signal(signal.SIGINT, signal.SIG_IGN)
        stopped = call("run", file, "--out", tmp_path / "out")
    finally:
        signal.signal(signal.SIGINT, interrupt)
    assert stopped.exit_code == 128 + signal.SIGTERM
    assert stopped.stderr.startswith(f"stopped; 0 of 4 cells are safe in {tmp_path}")
    assert signal.getsignal(signal.SIGTERM) == before


def test_terminated_while_a_cell_is_written(
    file: Path, tmp_path: Path, undisturbed: dict[str, bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    """What was played together is written together."""
    original = store.save_cell

    def save(*args: Any) -> None:
        signal.raise_signal(signal.SIGTERM)
        original(*args)

    with monkeypatch.context() as patched:
        patched.setattr(store, "save_cell", save)
        stopped = call("run", file, "--out", tmp_path / "out")
    assert stopped.exit_code == 128 + signal.SIGTERM
    assert stopped.stderr.startswith("stopped; 2 of 4 cells are safe")
    assert cells(tmp_path / "out" / "sweep").items() < undisturbed.items()


@pytest.mark.slow
def test_killed_and_resumed(
    file: Path, plan: Plan, tmp_path: Path, undisturbed: dict[str, bytes]
) -> None:
    code = f"""
import os, signal
from pathlib import Path
from fedbandits.sweeps import store
from fedbandits.sweeps.plan import make_plan
from fedbandits.sweeps.run import run_sweep
from tests.salt import shift_every_seed
replace, count = Path.replace, iter(range(100))
def die(path, target):  # in the middle of writing the second cell
    if target.suffix == ".nc" and next(count) == 1:
        os.kill(os.getpid(), signal.SIGKILL)
    return replace(path, target)
Path.replace = die
shift_every_seed()
run_sweep(make_plan({str(file)!r}), Path({str(tmp_path / "out")!r}), ["fedbandits"])
"""
    here = Path(__file__).parents[2]
    killed = subprocess.run([sys.executable, "-c", code], check=False, cwd=here)
    assert killed.returncode == -signal.SIGKILL
    assert len(cells(tmp_path / "out")) == 1
    run_sweep(plan, tmp_path / "out", COMMAND)
    assert cells(tmp_path / "out") == undisturbed


@pytest.mark.slow
@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EROFS])
@pytest.mark.parametrize("step", ["fsync", "replace", "mkstemp", "write"])
def test_a_folder_that_can_no_longer_be_written(
    plan: Plan,
    tmp_path: Path,
    undisturbed: dict[str, bytes],
    monkeypatch: pytest.MonkeyPatch,
    step: str,
    code: int,
) -> None:
    def fail(*args: Any, **kwargs: Any) -> Any:
        raise OSError(code, os.strerror(code))

    out = tmp_path / "out"
    with monkeypatch.context() as patched:
        targets: dict[str, tuple[Any, str]] = {
            "fsync": (os, "fsync"),
            "replace": (Path, "replace"),
            "mkstemp": (tempfile, "mkstemp"),
            "write": (Path, "open"),
        }
        before_cell(3, lambda: patched.setattr(*targets[step], fail), patched)
        with pytest.raises(SweepError) as caught:
            run_sweep(plan, out, COMMAND)
    assert str(caught.value) == (
        f"{out} cannot be written ({os.strerror(code)}); 3 of 4 cells are safe in {out}, 1 is "
        f"missing; {GO_ON}"
    )
    # What is there is whole, nothing half-written lies about, and the rest is the same.
    assert cells(out).items() < undisturbed.items()
    assert len(list((out / "cells").iterdir())) == 3
    run_sweep(plan, out, COMMAND)
    assert cells(out) == undisturbed


def test_a_failed_write_keeps_nothing_of_the_buffer(
    finished: Path, plan: Plan, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The error's traceback holds the frames, and their variables, as long as it is looked at."""
    data = fb.load(store.cell_path(finished, plan.hashes[0])).dataset
    buffer = io.BytesIO(b"the file")
    monkeypatch.setattr(xr.Dataset, "to_netcdf", lambda *_, **__: buffer.getbuffer())
    (finished / "cells").rename(finished / "moved")
    (finished / "cells").write_text("")
    with pytest.raises(OSError, match="cells") as caught:
        store.save_cell(finished, plan.hashes[0], data)
    buffer.close()  # raises where a view of it is left
    assert caught.tb is not None


@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EROFS])
def test_a_folder_that_cannot_be_written_is_refused_before_the_run(
    plan: Plan, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, code: int
) -> None:
    def fail(*args: Any, **kwargs: Any) -> Any:
        raise OSError(code, os.strerror(code))

    monkeypatch.setattr(run, "play_cells", never)
    for name in ("TemporaryFile", "mkstemp"):
        with monkeypatch.context() as patched:
            patched.setattr(tempfile, name, fail)
            with pytest.raises(SweepError, match=r"cannot be written .*; nothing was") as caught:
                run_sweep(plan, tmp_path / "out", COMMAND)
            assert ("make room" in str(caught.value)) == (code == errno.ENOSPC)
    (tmp_path / "taken").write_text("")
    with pytest.raises(SweepError, match=r"taken cannot be written .* choose another --out"):
        run_sweep(plan, tmp_path / "taken", COMMAND)
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "cells").write_text("")
    with pytest.raises(SweepError) as caught:
        run_sweep(plan, tmp_path / "in", COMMAND)
    assert f"({tmp_path / 'in' / 'cells'}: {os.strerror(errno.EEXIST)})" in str(caught.value)


@pytest.mark.parametrize("length", [0, 100, -1])
def test_a_file_cut_off_counts_as_missing(
    finished: Path,
    plan: Plan,
    undisturbed: dict[str, bytes],
    length: int,
    caplog: pytest.LogCaptureFixture,
) -> None:
    path = store.cell_path(finished, plan.hashes[1])
    path.write_bytes(path.read_bytes()[:length])
    found = said(finished)
    assert [cell.hash for cell in found.missing] == [plan.hashes[1]]
    assert found.damaged[0][0] == path
    listed = call("results", finished).stdout
    assert f"{path} cannot be read" in listed
    assert "its cell counts as missing" in listed
    with pytest.warns(UserWarning, match=r"cannot be read .* counts as missing"):
        assert fb.load_experiment(finished).attrs["missing"] == 1
    with caplog.at_level(logging.WARNING, "fedbandits"):
        run_sweep(plan, finished, COMMAND)
    assert "its cell is played again" in caplog.text
    assert cells(finished) == undisturbed


def test_a_file_damaged_inside_counts_as_missing(
    finished: Path, plan: Plan, undisturbed: dict[str, bytes]
) -> None:
    path = store.cell_path(finished, plan.hashes[1])
    data = xr.load_dataset(path, engine="h5netcdf").drop_vars("regret")
    path.write_bytes(bytes(data.to_netcdf(engine="h5netcdf")))
    with pytest.warns(UserWarning, match=r"cannot be read .*regret.* counts as missing"):
        loaded = fb.load_experiment(finished)
    assert loaded.attrs["missing"] == 1
    assert np.isnan(loaded["regret"].isel(seed=0, learning_rate=1)).all()


def rewrite(folder: Path, **changes: Any) -> None:
    path = folder / "sweep.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), **changes}))


def test_a_folder_of_another_layout_is_refused(finished: Path, plan: Plan) -> None:
    for changes in ({"format": 0}, {"format": 1, "result_format": 9}):
        rewrite(finished, **changes)
        for attempt in (
            lambda: run_sweep(plan, finished, COMMAND),
            lambda: run_sweep(plan, finished, COMMAND, force=True),
            lambda: fb.load_experiment(finished),
            lambda: store.read_manifest(finished),
        ):
            with pytest.raises(SweepError, match=r"layout [01]\.[19] of sweeps, by fedbandits 0\."):
                attempt()
    assert "choose another --out" in call("results", finished).stderr


def test_a_folder_of_another_version_is_read_but_not_mixed(
    finished: Path, plan: Plan, undisturbed: dict[str, bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patched:
        patched.setattr(version, "__version__", "9.0")
        assert call("results", finished).stdout.count("4 done") == 1
        assert fb.load_experiment(finished).attrs["missing"] == 0
        with pytest.raises(SweepError, match=r"holds results of fedbandits 0\.1\.0, and this is 9"):
            run_sweep(plan, finished, COMMAND)
        assert cells(finished) == undisturbed
        run_sweep(plan, finished, COMMAND, force=True)
        assert fb.load_experiment(finished).attrs["version"] == "9.0"
    # One cell of the other version put back by hand is not taken for one of this.
    name = f"{plan.hashes[0]}.nc"
    (finished / "cells" / name).write_bytes(undisturbed[name])
    found = said(finished)
    assert (len(found.done), found.damaged[0][1]) == (3, "is of fedbandits 0.1.0, not 9.0")


@pytest.mark.parametrize("content", ["{", "[]", "{}", '{"format": 1, "result_format": 1}'])
def test_a_manifest_that_cannot_be_read(finished: Path, content: str) -> None:
    (finished / "sweep.json").write_text(content)
    with pytest.raises(ValueError, match=r"sweep\.json cannot be read .* delete it"):
        fb.load_experiment(finished)


def test_a_folder_that_is_none(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match=r"is not the folder of a sweep: it has no sweep"):
        fb.load_experiment(tmp_path)


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


def fails_at(rate: float) -> Callable[..., list[fb.Result]]:
    def simulate_each(problem: Any, algorithms: Any, *args: Any, **kwargs: Any) -> Any:
        if any(algorithm.learning_rate.value == rate for algorithm in algorithms):
            raise ValueError(f"no luck\nwith {rate}")
        return original(problem, algorithms, *args, **kwargs)

    original = several_algorithms.simulate_each
    return simulate_each


@pytest.mark.slow
def test_one_failing_cell_stops_no_other(
    file: Path, plan: Plan, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patched:
        patched.setattr(several_algorithms, "simulate_each", fails_at(0.3))
        done = call("run", file, "--out", tmp_path)
    assert done.exit_code == 1
    assert "2 cells failed; the same command tries again\n" in done.stderr
    for seed in (0, 1):
        named = f"failed: seed={seed}, learning_rate=0.3: ValueError: no luck with 0.3\n"
        assert done.stderr.count(named) == 1
    assert "no luck" not in done.stdout
    folder = tmp_path / "sweep"
    found = said(folder)
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
    original, sizes = several_algorithms.simulate_each, []

    def simulate_each(problem: Any, algorithms: Any, *args: Any, **kwargs: Any) -> Any:
        sizes.append(len(algorithms))
        if len(sizes) == 1:
            raise MemoryError
        return original(problem, algorithms, *args, **kwargs)

    monkeypatch.setattr(several_algorithms, "simulate_each", simulate_each)
    run_sweep(plan, tmp_path / "out", COMMAND)
    assert sizes == [2, 1, 1, 2, 2]
    assert cells(tmp_path / "out") == undisturbed


@pytest.mark.slow
def test_a_batch_that_is_too_large_is_played_one_by_one(
    plan: Plan, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    original = several_algorithms.simulate_each

    def simulate_each(problem: Any, algorithms: Any, *args: Any, **kwargs: Any) -> Any:
        if len(algorithms) > 1:
            raise MemoryError
        return original(problem, algorithms, *args, **kwargs)

    monkeypatch.setattr(several_algorithms, "simulate_each", simulate_each)
    assert len(run_sweep(plan, tmp_path / "out", COMMAND).done) == 4


@pytest.fixture
def losses(tmp_path: Path) -> Plan:
    """A sweep that names a file, which is another one by the time the sweep is played."""
    rows = ["time,agent,arm,loss", *(f"1,{v},{i},0.5" for v in "ab" for i in "xy")]
    (tmp_path / "losses.csv").write_text("\n".join(rows))
    text = '[problem]\nname = "from_table"\ntable = "losses.csv"\n[algorithm]\nname = "Exp3"\n'
    (tmp_path / "sweep.toml").write_text("seed = [0, 1]\n" + text)
    plan = make_plan(tmp_path / "sweep.toml")
    (tmp_path / "losses.csv").write_text("\n".join(rows).replace("0.5", "0.7"))
    return plan


@pytest.mark.slow
def test_a_file_that_changes_in_mid_sweep(losses: Plan, tmp_path: Path) -> None:
    found = run_sweep(losses, tmp_path / "out", COMMAND)
    assert len(found.failed) == 2
    assert f"{tmp_path / 'losses.csv'} is not here, or not what it was" in found.failed[0][1]
    # The changed file makes other cells.
    again = run_sweep(make_plan(losses.source), tmp_path / "out", COMMAND)
    assert len(again.done) == 2


def test_an_array_on_disk_that_changes_in_mid_sweep(tmp_path: Path) -> None:
    """It is read from the disk as it is played: another one must not get this one's name."""
    np.save(tmp_path / "losses.npy", np.full((3, 2, 2), 0.25))
    (tmp_path / "sweep.toml").write_text(
        'seed = [0, 1]\n[problem]\nname = "from_tensor"\ntensor = "losses.npy"\n'
        '[algorithm]\nname = "Exp3"\n'
    )
    plan = make_plan(tmp_path / "sweep.toml")
    np.save(tmp_path / "losses.npy", np.full((3, 2, 2), 0.75))
    found = run_sweep(plan, tmp_path / "out", COMMAND)
    assert (len(found.done), len(found.failed)) == (0, 2)


@pytest.mark.parametrize(("limit", "value"), [("MOST_BYTES_SHARED", 0), ("MOST_SHARED", 1)])
def test_what_is_shared_is_let_go_where_it_is_much(
    limit: str, value: int, plan: Plan, monkeypatch: pytest.MonkeyPatch
) -> None:
    workshop = Workshop(str(plan.source))
    first, again = (workshop(plan.parcel(0))[0] for _ in range(2))
    assert again.problem is first.problem
    monkeypatch.setattr(building, limit, value)
    small = Workshop(str(plan.source))
    first, again = (small(plan.parcel(0))[0] for _ in range(2))
    assert again.gossip is not first.gossip


def test_a_process_that_finds_another_file_than_was_planned_says_so(
    losses: Plan, tmp_path: Path
) -> None:
    configs = [cell.config for cell in losses.sweep.cells]
    sent = Parcel(str(losses.source), configs, list(losses.hashes))
    outcomes = run.play_cells(sent, Workshop(sent.source))
    assert [outcome.dataset for outcome in outcomes] == [None, None]
    assert f"{tmp_path / 'losses.csv'} is not here, or not what it was" in outcomes[0].error


@pytest.fixture
def made(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Every section that is made from here on, by name."""
    made: list[str] = []
    for section in ("problem", "network", "gossip", "algorithm"):
        registry: Any = REGISTRIES[section]
        for name, make in registry.items():

            def count(*args: Any, _make: Any = make, _section: str = section, **kwargs: Any) -> Any:
                made.append(_section)
                return _make(*args, **kwargs)

            # With what the class declares, such as its leaves.
            counted = functools.update_wrapper(count, make)
            monkeypatch.setitem(registry, name, counted)
    return made


def test_a_file_is_read_and_its_cells_are_built_once(
    file: Path, tmp_path: Path, made: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    read: list[Path] = []
    original = tomllib.loads

    def loads(text: str) -> dict[str, Any]:
        read.append(file)
        return original(text)

    monkeypatch.setattr(tomllib, "loads", loads)
    assert call("run", file, "--out", tmp_path / "out").exit_code == 0
    assert len(read) == 1
    # Of four cells; algorithms, which are a few numbers each, once more when they are played.
    assert sorted(made) == [*["algorithm"] * 8, "gossip", "network", "problem"]


def test_another_process_makes_what_batches_share_once(plan: Plan, made: list[str]) -> None:
    workshop = Workshop(str(plan.source))
    for numbers in plan.batches:
        configs = [plan.sweep.cells[i].config for i in numbers]
        workshop(Parcel(str(plan.source), configs, [plan.hashes[i] for i in numbers]))
    assert sorted(made) == [*["algorithm"] * 4, "gossip", "network", "problem"]
