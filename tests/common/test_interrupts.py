"""Ctrl-C and SIGTERM at chosen moments: never lost, nothing half written, and how to go on."""

from __future__ import annotations

import os
import pty
import re
import signal
import subprocess
import sys
import threading
import weakref
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import jax
import numpy as np
import pytest

import fedbandits as fb
from fedbandits import config
from fedbandits.cli import messages, tables
from fedbandits.common import interrupts
from fedbandits.engine import play as engine
from fedbandits.engine import preparation
from fedbandits.engine.checkpoint import Checkpoint
from fedbandits.engine.stages import round as rounds
from fedbandits.results.record import Record
from tests.cli.test_cli import call
from tests.engine.simulations import simulate_draws, simulate_each
from tests.instances import SMALL_CONFIG

SIGNALS = [signal.SIGINT, signal.SIGTERM]
# Three chunks.
CONFIG = SMALL_CONFIG.replace("horizon = 20", "horizon = 1500")


def press(signum: int) -> None:
    """A signal in the callback of a weak reference: what its handler raises there is lost."""

    class Thing:
        pass

    thing = Thing()
    watched = weakref.ref(thing, lambda _: signal.raise_signal(signum))
    del thing
    assert watched() is None


@pytest.fixture
def lost(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """What was raised where nobody could catch it."""
    found: list[Any] = []
    monkeypatch.setattr(sys, "unraisablehook", lambda said: found.append(said.exc_type))
    return found


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "small.toml"
    path.write_text(CONFIG)
    return path


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("undisturbed")
    (folder / "small.toml").write_text(CONFIG)
    done = call("run", folder / "small.toml", "--out", folder)
    assert done.exit_code == 0, done.stderr
    return folder / "small.nc"


@contextmanager
def pressed_in(owner: Any, name: str, signum: int, time: int = 1) -> Iterator[list[int]]:
    """The signal comes when this function is called for the so-many-th time."""
    original, calls = getattr(owner, name), list[int]()

    def watched(*args: Any, **more: Any) -> Any:
        calls.append(len(calls) + 1)
        if len(calls) == time:
            press(signum)
        return original(*args, **more)

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(owner, name, watched)
        yield calls
    assert len(calls) >= time, f"{name} was called {len(calls)} times"


# On the command line.

EARLY = {
    "checking the contract": (preparation, "check_contract"),
    "tracing": (rounds, "play_block"),
}
BETWEEN: dict[str, tuple[Any, str, int]] = {
    "recording a chunk": (Record, "add", 1),
    "recording the last chunk": (Record, "add", 3),
    "finishing": (engine, "finish", 1),
}
AFTER = {"writing": (fb.Result, "save"), "drawing": (messages, "save_plot")}


@pytest.mark.slow
@pytest.mark.parametrize("signum", SIGNALS)
@pytest.mark.parametrize("moment", EARLY)
def test_a_run_is_stopped_before_it_has_begun(
    moment: str, signum: int, file: Path, tmp_path: Path, lost: list[Any]
) -> None:
    out = tmp_path / "out"
    new_size = f"problem.horizon={30 + signum}"  # so that there is something to trace
    with pressed_in(*EARLY[moment], signum):
        stopped = call("run", file, "--out", out, "--set", new_size)
    assert stopped.exit_code == 128 + signum
    assert stopped.stderr.startswith("stopped")
    assert stopped.stderr.endswith("; nothing is kept without --checkpoint FOLDER\n")
    assert stopped.stderr.count("\n") == 1
    assert list(out.iterdir()) == []
    assert lost == []


@pytest.mark.slow
@pytest.mark.parametrize("signum", SIGNALS)
@pytest.mark.parametrize("moment", BETWEEN)
def test_a_run_is_stopped_and_goes_on_from_its_checkpoint(
    moment: str, signum: int, file: Path, tmp_path: Path, undisturbed: Path, lost: list[Any]
) -> None:
    out, folder = tmp_path / "out", tmp_path / "kept"
    args = ("run", file, "--out", out, "--checkpoint", folder)
    owner, name, time = BETWEEN[moment]
    with pressed_in(owner, name, signum, time):
        stopped = call(*args)
    assert stopped.exit_code == 128 + signum
    assert re.fullmatch(r"stopped after round (1000|1500) of 1500; .*\n", stopped.stderr)
    assert f"to go on from there: fedbandits run {file}" in stopped.stderr
    assert list(out.iterdir()) == []
    assert lost == []
    assert [path.suffix for path in folder.iterdir()] == [".npz"]
    done = call(*args)
    assert done.exit_code == 0, done.stderr
    assert fb.load(out / "small.nc").dataset.identical(fb.load(undisturbed).dataset)
    assert list(folder.iterdir()) == []


@pytest.mark.slow
@pytest.mark.parametrize("signum", SIGNALS)
@pytest.mark.parametrize("moment", AFTER)
def test_what_was_played_is_written_before_the_command_ends(
    moment: str, signum: int, file: Path, tmp_path: Path, undisturbed: Path, lost: list[Any]
) -> None:
    out = tmp_path / "out"
    with pressed_in(*AFTER[moment], signum):
        stopped = call("run", file, "--out", out, "--quiet")
    assert stopped.exit_code == 128 + signum
    assert stopped.stderr == "stopped\n"
    assert stopped.stdout.split() == [str(out / f"small.{end}") for end in ("nc", "png", "pdf")]
    assert fb.load(out / "small.nc").dataset.identical(fb.load(undisturbed).dataset)
    assert lost == []


@pytest.mark.slow
@pytest.mark.parametrize("signum", SIGNALS)
def test_a_signal_while_jax_compiles(
    signum: int, file: Path, tmp_path: Path, lost: list[Any]
) -> None:
    compiled: list[str] = []

    def listen(event: str, duration_secs: float, **more: Any) -> None:
        if "backend_compile" in event and not compiled:
            compiled.append(event)
            press(signum)

    jax.monitoring.register_event_duration_secs_listener(listen)
    new_size = f"problem.horizon={50 + signum}"
    stopped = call("run", file, "--out", tmp_path / "out", "--set", new_size)
    assert compiled
    assert stopped.exit_code == 128 + signum
    assert "nothing is kept without --checkpoint FOLDER" in stopped.stderr
    assert lost == []


def test_a_signal_that_was_swallowed_elsewhere_is_found_later(
    file: Path, tmp_path: Path, lost: list[Any]
) -> None:
    """Outside of the engine it is raised at once; where that is lost, the note is not."""
    with pressed_in(config, "read_document", signal.SIGTERM):
        stopped = call("run", file, "--out", tmp_path / "out")
    assert lost == [KeyboardInterrupt]
    assert stopped.exit_code == 128 + signal.SIGTERM
    assert list((tmp_path / "out").iterdir()) == []
    with pressed_in(tables, "print_catalogue", signal.SIGTERM):
        stopped = call("list")  # which never looks at the note
    assert lost == [KeyboardInterrupt] * 2
    assert stopped.exit_code == 128 + signal.SIGTERM
    assert stopped.stderr == "stopped\n"


def test_an_import_that_was_interrupted_may_fail_in_its_own_words(
    monkeypatch: pytest.MonkeyPatch, lost: list[Any]
) -> None:
    def breaks(*args: Any) -> None:
        press(signal.SIGINT)
        raise ImportError("initialization failed")

    monkeypatch.setattr(tables, "print_catalogue", breaks)
    stopped = call("list")
    assert stopped.exit_code == 130
    assert stopped.stderr == "stopped (initialization failed)\n"


@pytest.mark.slow
@pytest.mark.parametrize("signum", SIGNALS)
def test_a_checkpoint_that_is_being_written_is_written_whole(
    signum: int, file: Path, tmp_path: Path, undisturbed: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from fedbandits.engine import checkpoint

    args = ("run", file, "--out", tmp_path / "out", "--checkpoint", tmp_path / "kept")
    monkeypatch.setattr(checkpoint, "SECONDS", 0.0)  # one after every chunk
    with pressed_in(Checkpoint, "save", signum):
        stopped = call(*args)
    assert stopped.exit_code == 128 + signum
    assert "stopped after round 500 of 1500; to go on from there" in stopped.stderr
    assert call(*args).exit_code == 0
    resumed = fb.load(tmp_path / "out" / "small.nc").dataset
    assert resumed.identical(fb.load(undisturbed).dataset)


@pytest.mark.slow
def test_an_error_on_the_way_out_is_said(
    file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Not that one could go on from there."""

    def full(*args: Any) -> None:
        raise OSError("no space left on device")

    monkeypatch.setattr(Checkpoint, "save", full)
    with pressed_in(Record, "add", signal.SIGTERM):
        failed = call("run", file, "--out", tmp_path, "--checkpoint", tmp_path / "kept")
    assert failed.exit_code == 2
    assert failed.stderr == "error: no space left on device\n"


# The mechanism.


def test_handlers_are_given_back() -> None:
    before = [signal.getsignal(signum) for signum in SIGNALS]
    with interrupts.command():
        assert [signal.getsignal(signum) for signum in SIGNALS] != before
    with pytest.raises(KeyboardInterrupt), interrupts.command():
        signal.raise_signal(signal.SIGTERM)
    assert [signal.getsignal(signum) for signum in SIGNALS] == before
    assert not interrupts.requested()


def test_signals_that_come_together_are_one() -> None:
    """`timeout` sends one to the process and one to its group."""
    went_on = []

    def work() -> None:
        with interrupts.command(), interrupts.calm():
            for _ in range(3):
                signal.raise_signal(signal.SIGTERM)
            went_on.append(interrupts.requested())

    with pytest.raises(KeyboardInterrupt):
        work()
    assert went_on == [True]


def test_blocks_inside_each_other_wait_for_the_outermost() -> None:
    went_on = []

    def work() -> None:
        with interrupts.calm():
            with interrupts.calm():
                signal.raise_signal(signal.SIGINT)
            went_on.append("after the first")
            with interrupts.calm():  # begins nothing new
                went_on.append("in the second")

    with pytest.raises(KeyboardInterrupt, match="stopped"):
        work()
    assert went_on == ["after the first"]
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


AT_ONCE = """
import signal, sys, weakref
from fedbandits.common import interrupts

class Thing: pass

def press(signum):
    thing = Thing()
    watched = weakref.ref(thing, lambda _: signal.raise_signal(signum))
    del thing

interrupts.TOGETHER = 0.0
with interrupts.command(), interrupts.calm():
    press(signal.SIGINT)
    print("one", flush=True)
    press(signal.SIGTERM)
    print("two", flush=True)
"""


@pytest.mark.parametrize("terminal", [False, True])
def test_a_second_signal_ends_the_process_at_once(terminal: bool) -> None:
    reader, writer = pty.openpty() if terminal else os.pipe()
    done = subprocess.run(
        [sys.executable, "-c", AT_ONCE], stdout=subprocess.PIPE, stderr=writer, check=False
    )
    os.close(writer)
    said = os.read(reader, 10_000)
    os.close(reader)
    assert done.returncode == 128 + signal.SIGTERM
    assert done.stdout == b"one\n"
    assert b"stopped at once" in said
    assert (b"\x1b[?25h" in said) == terminal  # a bar may have hidden the cursor


def test_what_is_ignored_stays_ignored() -> None:
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)  # as in a script's background jobs
    try:
        with interrupts.calm(), interrupts.command():
            signal.raise_signal(signal.SIGINT)
            assert not interrupts.requested()
        assert signal.getsignal(signal.SIGINT) is signal.SIG_IGN
    finally:
        signal.signal(signal.SIGINT, before)


def test_other_threads_are_left_alone() -> None:
    seen: list[bool] = []

    def work() -> None:
        with interrupts.command(), interrupts.calm():  # only the main thread may have a handler
            interrupts.stop_if_requested()
            seen.append(interrupts.requested())

    def main() -> None:
        with interrupts.calm():
            signal.raise_signal(signal.SIGINT)
            thread = threading.Thread(target=work)
            thread.start()
            thread.join()

    with pytest.raises(KeyboardInterrupt):
        main()
    assert seen == [False]


# From Python.

GOSSIP = fb.gossip.max_degree(fb.networks.ring(6))
# Sizes of their own, so that each is traced anew.
PROBLEMS = [fb.problems.activated_bernoulli(agents=6, arms=3, horizon=t) for t in (43, 47, 53)]
CALLS: dict[str, Callable[[], Any]] = {
    "simulate": lambda: fb.simulate(PROBLEMS[0], fb.FedExp3(), GOSSIP, runs=1),
    "several algorithms": lambda: simulate_each(PROBLEMS[1], [fb.FedExp3()] * 2, GOSSIP, 1),
    "several draws": lambda: simulate_draws(PROBLEMS[2:], fb.FedExp3(), GOSSIP),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", CALLS)
def test_ctrl_c_while_tracing_is_raised(name: str, lost: list[Any]) -> None:
    with (
        pytest.raises(KeyboardInterrupt, match="stopped"),
        pressed_in(rounds, "play_block", signal.SIGINT),
    ):
        CALLS[name]()
    assert lost == []
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


@pytest.mark.slow
def test_a_second_ctrl_c_is_raised_at_once() -> None:
    asked: list[int] = []

    def losses(t: int) -> np.ndarray[Any, Any]:
        asked.append(t)
        if asked.count(3) == 2:  # 40 rounds are asked for to know the function by
            signal.raise_signal(signal.SIGINT)
            signal.raise_signal(signal.SIGINT)
        return np.full((6, 3), t / 40)

    problem = fb.problems.from_function(losses, agents=6, arms=3, horizon=40, host=True)
    with pytest.raises(KeyboardInterrupt):
        fb.simulate(problem, fb.Exp3(), runs=1)
    assert asked[-1] == 3
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


@pytest.mark.slow
def test_ctrl_c_at_the_very_end_keeps_a_checkpoint(tmp_path: Path) -> None:
    whole = fb.simulate(PROBLEMS[0], fb.FedExp3(), GOSSIP, runs=1)
    with (
        pytest.raises(KeyboardInterrupt, match="stopped after round 43 of 43"),
        pressed_in(engine, "finish", signal.SIGINT),
    ):
        fb.simulate(PROBLEMS[0], fb.FedExp3(), GOSSIP, runs=1, checkpoint=tmp_path)
    assert len(list(tmp_path.iterdir())) == 1
    resumed = fb.simulate(PROBLEMS[0], fb.FedExp3(), GOSSIP, runs=1, checkpoint=tmp_path)
    assert resumed.dataset.identical(whole.dataset)
    assert list(tmp_path.iterdir()) == []
