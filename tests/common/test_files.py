"""Files are written whole or not at all, and a full disk is reported as one."""

from __future__ import annotations

import errno
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any, NamedTuple

import platformdirs
import pytest

from fedbandits.common import files
from fedbandits.common.files import atomic_path, atomic_write

ROOT = Path(__file__).parents[2]
OLD, NEW = b"what was there before", b"what replaces it"


class Usage(NamedTuple):
    free: int


@pytest.fixture
def full(monkeypatch: pytest.MonkeyPatch) -> None:
    """A disk on which 1,234 bytes are free: the file is written, and is one byte too long."""

    def fail(_: int) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "fsync", fail)
    monkeypatch.setattr(shutil, "disk_usage", lambda _: Usage(1234))


@pytest.mark.usefixtures("full")
def test_the_error_of_a_full_disk_has_path_bytes_and_fix(tmp_path: Path) -> None:
    path = tmp_path / "file.nc"
    path.write_bytes(OLD)
    with pytest.raises(OSError, match="No space") as caught, atomic_write(path) as file:
        file.write(b"x" * 1235)
    assert caught.value.errno == errno.ENOSPC
    assert caught.value.filename == str(path)
    assert caught.value.strerror == (
        f"{os.strerror(errno.ENOSPC)}: the file needs 1,235 bytes, and 1,234 bytes are free; "
        "make room there, or choose another folder"
    )
    assert path.read_bytes() == OLD
    assert list(tmp_path.iterdir()) == [path]
    assert file.closed  # the traceback keeps no copy of the content


@pytest.mark.usefixtures("full")
def test_the_error_says_what_is_free_where_the_size_is_unknown(tmp_path: Path) -> None:
    path = tmp_path / "file.db"
    with pytest.raises(OSError, match="No space") as caught, atomic_path(path) as temporary:
        temporary.write_bytes(NEW)
    assert f"{os.strerror(errno.ENOSPC)}: 1,234 bytes are free; make" in str(caught.value)
    assert caught.value.filename == str(path)
    assert not list(tmp_path.iterdir())


def test_other_errors_stay_as_they_are(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    mine = OSError(errno.EROFS, os.strerror(errno.EROFS))

    def fail(*_: Any) -> None:
        raise mine

    monkeypatch.setattr(Path, "replace", fail)
    with pytest.raises(OSError, match="Read-only") as caught, atomic_write(tmp_path / "a") as file:
        file.write(NEW)
    assert caught.value is mine
    assert not list(tmp_path.iterdir())


def test_an_error_in_the_block_touches_nothing(tmp_path: Path) -> None:
    path = tmp_path / "deep" / "file.nc"
    with pytest.raises(TypeError, match="bytes-like"), atomic_write(path) as file:
        file.write("text")  # type: ignore[arg-type]
    assert not list(tmp_path.iterdir())


def test_a_file_replaces_another_whole(tmp_path: Path) -> None:
    path = tmp_path / "deep" / "file.nc"
    for content in (OLD, NEW):
        with atomic_write(path) as file:
            file.write(content)
            file.seek(0)  # as HDF5 leaves it
        assert path.read_bytes() == content
    assert list(path.parent.iterdir()) == [path]


WRITERS = """
import json, os, resource, sys
from pathlib import Path

import matplotlib
import networkx as nx
import pandas as pd

import fedbandits as fb
from fedbandits.engine import checkpoint
from fedbandits.paper.cells import KeptCells
from fedbandits.paper.report import write_report
from fedbandits.paper.section import Section
from fedbandits.sweeps.store import save_cell

matplotlib.use("agg")
folder, limit = Path(sys.argv[1]), int(sys.argv[2])
network = fb.networks.grid(5, 5)
problem = fb.problems.activated_bernoulli(agents=25, arms=10, horizon=600)
gossip = fb.gossip.max_degree(network)
result = fb.simulate(problem, fb.FedExp3(), gossip, runs=5, record="agents")
section = Section("figure1", "A title", "a command", paragraphs=["long " * 50_000])
section.save(folder / "before")


def report():
    (folder / "before" / "report.html").unlink(missing_ok=True)
    write_report(folder / "before", ["figure1"])


def picture(name, kind="regret"):
    return lambda: fb.plot(result, kind=kind, path=folder / name)


def keep():
    KeptCells(folder, "about").keeping(str, lambda _: "long " * 50_000)(0)


def keep_simulation(seconds=30.0, **options):
    checkpoint.SECONDS = seconds
    try:
        fb.simulate(problem, fb.FedExp3(), gossip, runs=50, checkpoint=folder, **options)
    except checkpoint.CheckpointError as error:
        raise error.__cause__ from error


writers = {
    "result.nc": lambda: result.save(folder / "result.nc"),
    "result.csv": lambda: result.to_csv(folder / "result.csv"),
    "regret.pdf": picture("regret.pdf"),
    "regret.png": picture("regret.png"),
    "regret.svg": picture("regret.svg"),
    "network.html": picture("network.html", "network"),
    "network.gif": picture("network.gif", "network"),
    "graph.png": lambda: network.draw(path=folder / "graph.png"),
    "section.nc": lambda: section.add_netcdf(folder, "section", result.dataset),
    "section.csv": lambda: section.add_csv(folder, "section.csv", result.to_pandas()),
    "figure1.json": lambda: section.save(folder),
    "before/report.html": report,
    "cells/cell.nc": lambda: save_cell(folder, "cell", result.dataset),
    "*.json": keep,
    "*-0-0.nc": lambda: keep_simulation(draws=2),
    "*.npz": lambda: keep_simulation(seconds=0.0),
}
for name, write in writers.items():
    before = sorted(map(str, folder.rglob("*.*")))
    resource.setrlimit(resource.RLIMIT_FSIZE, (limit, resource.RLIM_INFINITY))
    try:
        write()
        found = None
    except OSError as error:
        found = [error.errno, error.filename, error.strerror]
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY,) * 2)
    left = [path for path in sorted(map(str, folder.rglob("*.*"))) if path not in before]
    print(json.dumps([name, found, left]), flush=True)
assert fb.load(result.save(folder / "later.nc")).dataset.identical(result.dataset)
"""


@pytest.mark.soak
@pytest.mark.skipif(os.name != "posix", reason="limits are POSIX")
@pytest.mark.parametrize("limit", [512, 9000])
def test_every_writer_reports_a_file_that_has_no_room(tmp_path: Path, limit: int) -> None:
    """A file may not grow beyond a limit: the system fails in the middle, as on a full disk."""
    done = subprocess.run(
        [sys.executable, "-c", WRITERS, str(tmp_path), str(limit)],
        capture_output=True,
        text=True,
        check=False,
        cwd=ROOT,
        env=os.environ | {"FEDBANDITS_COMPILE_CACHE": "off"},
    )
    assert done.returncode == 0, done.stderr
    for line in done.stdout.splitlines():
        name, found, left = json.loads(line)
        assert found is not None, f"{name} was written"
        code, filename, strerror = found
        assert code == errno.EFBIG, (name, found)
        assert Path(filename).match(str(tmp_path / name)), (name, filename)
        assert strerror.startswith(f"{os.strerror(errno.EFBIG)}: the file needs "), name
        assert left == [], name


def test_the_folders_are_the_users(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "caches"))
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    assert files.cache_folder() == tmp_path / "caches" / "fedbandits"
    assert files.data_folder() == tmp_path / "data" / "fedbandits"
    assert not list(tmp_path.iterdir())  # asking makes nothing


def test_no_home_is_no_folder_called_tilde(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("user_cache_path", "user_data_path"):
        monkeypatch.setattr(platformdirs, name, lambda *_, **__: Path("~/.cache/fedbandits"))
    with pytest.raises(OSError, match="has no home folder; set HOME"):
        files.data_folder()
    assert not list(tmp_path.iterdir())
