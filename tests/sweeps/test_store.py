"""The folder of a sweep: it cannot be written, or its files are damaged or of another version."""

from __future__ import annotations

import errno
import json
import logging
import os
import re
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import xarray as xr

import fedbandits as fb
from fedbandits.common import version
from fedbandits.sweeps import run, store
from fedbandits.sweeps.plan import Plan
from fedbandits.sweeps.run import run_sweep
from fedbandits.sweeps.store import SweepError
from tests.sweeps.small_sweep import COMMAND, GO_ON, before_cell, call, cells, never, status_of


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
    why = re.escape(os.strerror(code))
    if code == errno.ENOSPC:
        path = re.escape(str(out / "cells"))
        why = rf"{path}/\w+\.nc: {why}: the file needs [\d,]+ bytes, and [\d,]+ bytes are free; .*"
    rest = re.escape(f"; 3 of 4 cells are safe in {out}, 1 is missing; {GO_ON}")
    assert re.fullmatch(
        rf"{re.escape(str(out))} cannot be written \({why}\){rest}", str(caught.value)
    )
    # What is there is whole, nothing half-written lies about, and the rest is the same.
    assert cells(out).items() < undisturbed.items()
    assert len(list((out / "cells").iterdir())) == 3
    run_sweep(plan, out, COMMAND)
    assert cells(out) == undisturbed


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
    found = status_of(finished)
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
    found = status_of(finished)
    assert (len(found.done), found.damaged[0][1]) == (3, "is of fedbandits 0.1.0, not 9.0")


@pytest.mark.parametrize("content", ["{", "[]", "{}", '{"format": 1, "result_format": 1}'])
def test_a_manifest_that_cannot_be_read(finished: Path, content: str) -> None:
    (finished / "sweep.json").write_text(content)
    with pytest.raises(ValueError, match=r"sweep\.json cannot be read .* delete it"):
        fb.load_experiment(finished)


def test_a_folder_that_is_none(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match=r"is not the folder of a sweep: it has no sweep"):
        fb.load_experiment(tmp_path)
