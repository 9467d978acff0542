"""A small sweep: its file, its plan, what it gives undisturbed, its folder when it is finished."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from fedbandits.sweeps import store
from fedbandits.sweeps.plan import Plan, make_plan
from fedbandits.sweeps.run import run_sweep
from tests.sweeps.machines import Cluster
from tests.sweeps.small_sweep import COMMAND, SWEEP, cells


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "sweep.toml"
    path.write_text(SWEEP)
    return path


@pytest.fixture
def plan(file: Path) -> Plan:
    return make_plan(file)


@pytest.fixture(scope="session")
def undisturbed(tmp_path_factory: pytest.TempPathFactory) -> dict[str, bytes]:
    folder = tmp_path_factory.mktemp("undisturbed")
    (folder / "sweep.toml").write_text(SWEEP)
    status = run_sweep(make_plan(folder / "sweep.toml"), folder / "out", COMMAND)
    assert len(status.done) == 4
    return cells(folder / "out")


@pytest.fixture
def finished(file: Path, plan: Plan, undisturbed: dict[str, bytes]) -> Path:
    """The folder of a finished sweep, to be damaged."""
    folder = file.parent / "out" / "sweep"
    store.prepare(folder, store.manifest_of(plan, ["fedbandits", "run", str(file)]))
    for name, content in undisturbed.items():
        (folder / "cells" / name).write_bytes(content)
    return folder


@pytest.fixture
def machines() -> Iterator[Cluster]:
    with ExitStack() as stack:
        yield Cluster(stack)
