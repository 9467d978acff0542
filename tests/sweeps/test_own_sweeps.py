"""Sweeps over own things: in one process, in several, and on the workers of a cluster."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from fedbandits.cli.commands import app
from fedbandits.common.version import __version__
from fedbandits.config.experiment import ConfigError
from fedbandits.sweeps import cluster
from fedbandits.sweeps.plan import Plan, make_plan
from fedbandits.sweeps.run import play_cells, run_sweep
from fedbandits.sweeps.store import SweepError
from fedbandits.sweeps.workshop import Workshop
from tests.own_things import LEADER, OTHERS, forgotten, own_folder
from tests.sweeps.machines import Cluster
from tests.sweeps.small_sweep import COMMAND, call, cells

SWEPT = ["algorithm.exploration=[0.1, 0.2]"]


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Path]:
    with own_folder(tmp_path) as made:
        yield made


def changed(folder: Path) -> None:
    (folder / "leaders.py").write_text(LEADER + OTHERS + "# another\n")
    forgotten("leaders")


@pytest.mark.slow
def test_a_changed_algorithm_makes_other_cells(folder: Path) -> None:
    first = run_sweep(make_plan(folder / "own.toml", SWEPT), folder / "out", COMMAND)
    assert len(first.done) == 2
    changed(folder)
    again = run_sweep(make_plan(folder / "own.toml", SWEPT), folder / "out", COMMAND)
    assert (len(again.done), again.others) == (2, 2)


@pytest.mark.slow
def test_who_lists_and_draws_imports_nothing(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(folder)
    monkeypatch.syspath_prepend(folder)
    run_sweep(make_plan(folder / "own.toml", SWEPT), folder / "out", COMMAND)
    (folder / "leaders.py").write_text("raise SystemExit('imported')\n")
    forgotten("leaders")
    for words in (["list"], ["schema"], ["results", "out"], ["plot", "out", "--out", "a.png"]):
        done = CliRunner().invoke(app, words)
        assert done.exit_code == 0, done.output
        assert "leaders" not in sys.modules


@pytest.mark.soak
def test_several_processes(folder: Path) -> None:
    plan = make_plan(folder / "own.toml", [*SWEPT, "seed=[0, 1]"])
    alone = run_sweep(plan, folder / "alone", COMMAND)
    together = run_sweep(plan, folder / "together", COMMAND, jobs=2)
    assert len(alone.done) == len(together.done) == 4
    assert cells(folder / "together") == cells(folder / "alone")


def planned(folder: Path, *overrides: str) -> Plan:
    return make_plan(folder / "own.toml", [*SWEPT, *overrides])


@pytest.mark.slow
def test_a_module_that_changes_in_mid_sweep(folder: Path) -> None:
    plan = planned(folder)
    sent = plan.parcel(0)
    changed(folder)  # as another process finds it
    [outcome, _] = play_cells(sent, Workshop(sent.source))
    assert f"{folder / 'leaders.py'} is not here, or not what it was" in outcome.error
    (folder / "leaders.py").write_text(LEADER)  # as this process has not imported it
    [outcome, _] = play_cells(sent, Workshop(sent.source))
    assert "was changed after this process had imported it" in outcome.error


@pytest.mark.slow
def test_the_contract_is_checked_before_the_first_cell_and_once(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from fedbandits.config import own_contract

    played: list[Any] = []
    monkeypatch.setattr(own_contract, "_play", played.append)
    planned(folder, "seed=[0, 1, 2]")
    assert len(played) == 1
    monkeypatch.undo()
    broken = LEADER.replace('return {"z": state.z}', 'return {"y": state.z}')
    (folder / "leaders.py").write_text(broken)
    forgotten("leaders")
    with pytest.raises(ConfigError, match=r"its leaves declare \['z'\] \(cell exploration=0.1\)"):
        planned(folder)


@pytest.mark.slow
def test_results_import_nothing(folder: Path) -> None:
    config = folder / "own.toml"
    done = call("run", config, "--out", folder / "out", "--set", SWEPT[0])
    assert done.exit_code == 0, done.output
    forgotten("leaders")
    (folder / "leaders.py").write_text("raise SystemExit('imported')\n")
    drawn = call("plot", folder / "out" / "own", "--out", folder / "x.png")
    listed = call("results", folder / "out" / "own")
    assert (drawn.exit_code, listed.exit_code) == (0, 0), drawn.output + listed.output


@pytest.mark.soak
def test_workers_import_own_things(
    folder: Path, machines: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Beside the configuration, in PYTHONPATH, and neither; the answer names worker and fix."""
    machines.scheduler()
    worker = machines.worker()
    plan = planned(folder)
    alone = run_sweep(plan, folder / "alone", COMMAND)
    status = run_sweep(plan, folder / "cluster", COMMAND, scheduler=machines.address)
    assert len(alone.done) == len(status.done) == 2
    assert cells(folder / "cluster") == cells(folder / "alone")

    # Only this process finds it.
    (folder / "here").mkdir()
    (folder / "leaders.py").rename(folder / "here" / "strays.py")
    monkeypatch.syspath_prepend(folder / "here")
    plan = planned(folder, "algorithm.name=strays:FedLeader")
    with pytest.raises(SweepError) as caught:
        run_sweep(plan, folder / "out", COMMAND, scheduler=machines.address)
    words = str(caught.value)
    assert words.startswith("the worker tcp://127.0.0.1:")
    assert "cannot import strays:FedLeader: there is no module strays in" in words
    assert "in the PYTHONPATH that it is started with" in words
    assert "0 of 2 cells are safe" in words

    # A worker that finds another one of that name.
    worker.kill()
    (folder / "there").mkdir()
    (folder / "there" / "strays.py").write_text(LEADER)
    worker = machines.worker(path=str(folder / "there"))
    with pytest.raises(SweepError, match=r"tcp://\S+ has another strays:FedLeader \(\S+strays\.py"):
        run_sweep(plan, folder / "out", COMMAND, scheduler=machines.address)

    worker.kill()
    machines.worker(path=str(folder / "here"))
    status = run_sweep(plan, folder / "out", COMMAND, scheduler=machines.address)
    assert len(status.done) == 2


@pytest.mark.slow
def test_a_late_worker_that_cannot_import_is_named(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import distributed

    class Worker:
        address = "tcp://10.0.0.7:1"

    monkeypatch.setattr(distributed, "get_worker", Worker)
    parcel = planned(folder).parcel(0)
    own = cluster.own_of([parcel])._asdict()
    forgotten("leaders")
    (folder / "leaders.py").unlink()
    with pytest.raises(cluster.OwnModuleError, match=r"worker tcp://10\.0\.0\.7:1 cannot import"):
        cluster.play_on_worker(parcel._asdict(), __version__, own)

    class Refused:
        def result(self) -> None:
            raise cluster.OwnModuleError("the worker w cannot import leaders:FedLeader")

    refused: Any = Refused()
    with pytest.raises(SweepError, match="the worker w cannot import"):
        cluster._outcome(refused, 2, "tcp://nowhere:1")
