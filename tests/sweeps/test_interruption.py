"""A sweep that is interrupted, terminated or killed: what is safe stays, and it goes on."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from fedbandits.sweeps import run, store
from fedbandits.sweeps.plan import Plan
from fedbandits.sweeps.run import run_sweep
from fedbandits.sweeps.workshop import Parcel
from tests.sweeps.small_sweep import COMMAND, GO_ON, call, cells, status_of


def test_a_forced_run_that_is_interrupted_goes_on_without_force(
    finished: Path, plan: Plan, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupt(*args: Any) -> list[run.Outcome]:
        raise KeyboardInterrupt

    monkeypatch.setattr(run, "play_cells", interrupt)
    with pytest.raises(KeyboardInterrupt, match="0 of 4 cells are safe"):
        run_sweep(plan, finished, COMMAND, force=True)
    assert len(status_of(finished).missing) == 4


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
