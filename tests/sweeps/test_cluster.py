"""Sweeps on a real Dask cluster: the same bits as on one machine, whoever dies on the way."""

from __future__ import annotations

import socket
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from fedbandits.sweeps import cluster, store
from fedbandits.sweeps.plan import Plan, make_plan
from fedbandits.sweeps.run import run_sweep
from fedbandits.sweeps.store import SweepError
from tests.instances import SMALL_CONFIG
from tests.sweeps.machines import Cluster
from tests.without import run_without

# Six batches of two cells.
SWEEP = SMALL_CONFIG.replace("runs = 2", "runs = 2\nseed = [0, 1, 2, 3, 4, 5]").replace(
    'name = "FedExp3"', 'name = "FedExp3"\nlearning_rate = [0.1, 0.3]'
)
COMMAND = ["fedbandits", "run", "sweep.toml"]


@pytest.fixture(scope="module")
def plan(tmp_path_factory: pytest.TempPathFactory) -> Plan:
    path = tmp_path_factory.mktemp("config") / "sweep.toml"
    path.write_text(SWEEP)
    return make_plan(path)


@pytest.fixture(scope="module")
def undisturbed(plan: Plan, tmp_path_factory: pytest.TempPathFactory) -> dict[str, bytes]:
    folder = tmp_path_factory.mktemp("undisturbed")
    run_sweep(plan, folder, COMMAND)
    return cells(folder)


def cells(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in (folder / "cells").iterdir()}


def after_the_first_cell(monkeypatch: pytest.MonkeyPatch, act: Callable[[], Any]) -> None:
    """Do something once the first result has been written."""
    original = store.save_cell

    def save(*args: Any) -> None:
        original(*args)
        monkeypatch.setattr(store, "save_cell", original)
        act()

    monkeypatch.setattr(store, "save_cell", save)


@pytest.mark.slow
def test_a_worker_killed_in_mid_sweep(
    plan: Plan,
    undisturbed: dict[str, bytes],
    machines: Cluster,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    machines.scheduler()
    only = machines.worker()

    def replace() -> None:
        assert len(cells(tmp_path)) == 1
        only.kill()
        machines.worker()

    after_the_first_cell(monkeypatch, replace)
    status = run_sweep(plan, tmp_path, COMMAND, scheduler=machines.address)
    assert len(status.done) == 12
    assert cells(tmp_path) == undisturbed


@pytest.mark.soak
def test_the_scheduler_killed_and_restarted(
    plan: Plan,
    undisturbed: dict[str, bytes],
    machines: Cluster,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
) -> None:
    scheduler = machines.scheduler()
    machines.worker()
    monkeypatch.setattr(cluster, "PATIENCE", 5)  # also to connect, on a busy machine
    after_the_first_cell(monkeypatch, scheduler.kill)
    command = [*COMMAND, "--scheduler", machines.address]
    with pytest.raises(SweepError) as caught:
        run_sweep(plan, tmp_path, command, scheduler=machines.address)
    assert "reconnect" not in capfd.readouterr().err
    safe = cells(tmp_path)
    assert 0 < len(safe) < 12
    assert f"lost the connection to the scheduler at {machines.address}" in str(caught.value)
    assert f"{len(safe)} of 12 cells are safe in {tmp_path}" in str(caught.value)
    assert str(caught.value).endswith(f"to go on: {' '.join(command)}")

    monkeypatch.setattr(cluster, "PATIENCE", 10)
    before = {name: (tmp_path / "cells" / name).stat().st_mtime_ns for name in safe}
    machines.scheduler()
    machines.worker()
    assert len(run_sweep(plan, tmp_path, command, scheduler=machines.address).done) == 12
    assert cells(tmp_path) == undisturbed
    kept = {name: (tmp_path / "cells" / name).stat().st_mtime_ns for name in safe}
    assert kept == before


@pytest.mark.slow
def test_a_worker_of_another_version_is_refused(
    plan: Plan, machines: Cluster, tmp_path: Path
) -> None:
    old = tmp_path / "packages" / "fedbandits-0.0.9.dist-info"
    old.mkdir(parents=True)
    (old / "METADATA").write_text("Metadata-Version: 2.1\nName: fedbandits\nVersion: 0.0.9\n")
    machines.scheduler()
    machines.worker(path=str(old.parent))
    with pytest.raises(SweepError, match=r"the worker tcp://\S+ has fedbandits 0\.0\.9, and this"):
        run_sweep(plan, tmp_path / "out", COMMAND, scheduler=machines.address)
    assert cells(tmp_path / "out") == {}


def test_a_late_worker_of_another_version_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(cluster.VersionError, match=r"a worker has fedbandits \S+, and this is 9\."):
        cluster.play_on_worker({}, "9.0")

    class Refused:
        def result(self) -> None:
            raise cluster.VersionError("a worker has fedbandits 0.1.0, and this is 9.0")

    refused: Any = Refused()  # all of a future that is looked at
    with pytest.raises(SweepError, match="install the same on all workers"):
        cluster._outcome(refused, 2, "tcp://nowhere:1")


def test_a_batch_that_kills_every_worker_fails_alone() -> None:
    class Killed:
        def result(self) -> None:
            raise RuntimeError("Attempted to run task on 4 different workers,\n all died")

    killed: Any = Killed()
    outcomes = cluster._outcome(killed, 2, "tcp://nowhere:1")
    assert [played.dataset for played in outcomes] == [None, None]
    assert outcomes[0].error == (
        "RuntimeError: Attempted to run task on 4 different workers, all died"
    )


def test_no_scheduler(plan: Plan, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cluster, "PATIENCE", 0.5)
    with socket.socket() as taken:  # bound, and nobody listens
        taken.bind(("127.0.0.1", 0))
        address = f"tcp://127.0.0.1:{taken.getsockname()[1]}"
        with pytest.raises(SweepError) as caught:
            run_sweep(plan, tmp_path, COMMAND, scheduler=address)
    assert str(caught.value).startswith(f"no Dask scheduler answers at {address}")
    assert "start one with dask scheduler" in str(caught.value)
    assert "0 of 12 cells are safe" in str(caught.value)


@pytest.mark.parametrize(
    "address",
    ["127.0.0.1:notaport", "http://localhost", "tcp://h", "h", "tcp://:1", "h:99999", "h:0", ""],
)
def test_a_malformed_address_is_refused_at_once(plan: Plan, tmp_path: Path, address: str) -> None:
    with pytest.raises(SweepError) as caught:
        run_sweep(plan, tmp_path / "out", COMMAND, scheduler=address)
    assert str(caught.value) == f"--scheduler {address}: write tcp://HOST:PORT"
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    "address", ["tcp://10.0.0.1:8786", "tls://a-b.c_d:1", "ucx://[::1]:8786", "localhost:8786"]
)
def test_addresses(address: str) -> None:
    cluster.check_address(address)


def test_without_dask(tmp_path: Path) -> None:
    code = "from fedbandits.sweeps import cluster; cluster._connect('tcp://127.0.0.1:1')"
    done = run_without(["distributed"], tmp_path, ["-c", code])
    assert done.stderr.splitlines()[-1].endswith(
        "distributed is not installed; it is needed for sweeps on many machines (--scheduler): "
        "pip install 'fedbandits[cluster]'"
    )
