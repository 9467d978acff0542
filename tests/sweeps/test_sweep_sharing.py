"""Several processes play one sweep: each batch once, the same bits, and whoever is killed."""

from __future__ import annotations

import logging
import os
import re
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fedbandits.engine import checkpoint, chunk_sizes
from fedbandits.results.record import Record
from fedbandits.sweeps import jobs, run, store
from fedbandits.sweeps.plan import Plan, make_plan
from fedbandits.sweeps.run import run_sweep
from fedbandits.sweeps.sharing import Task, claimed, kept_for_cluster
from fedbandits.sweeps.store import SweepError
from fedbandits.sweeps.workshop import Parcel
from tests.sweeps.small_sweep import COMMAND, SWEEP, call, cells, never


@pytest.fixture(scope="module")
def plan(tmp_path_factory: pytest.TempPathFactory) -> Plan:
    """Two batches of two cells."""
    path = tmp_path_factory.mktemp("config") / "sweep.toml"
    path.write_text(SWEEP)
    return make_plan(path)


@pytest.fixture
def short(monkeypatch: pytest.MonkeyPatch) -> None:
    """Chunks of five rounds, a checkpoint after each."""
    monkeypatch.setattr(chunk_sizes, "MOST_ROUNDS", 5)
    monkeypatch.setattr(checkpoint, "SECONDS", 0.0)


def tasks(plan: Plan, folder: Path) -> list[Task]:
    traces = {name: store.trace(folder, name) for name in plan.hashes}
    return list(run.tasks_of(plan, folder, traces).values())


def files(folder: Path, ending: str) -> list[Path]:
    return list((folder / "under_way").glob(f"*/*{ending}"))


@pytest.fixture
def held(plan: Plan, tmp_path: Path) -> Iterator[tuple[Task, Callable[[], None]]]:
    """The first batch, held by a process, and what kills that."""
    task = tasks(plan, tmp_path / "out")[0]
    code = (
        "import sys; from pathlib import Path; from fedbandits.sweeps.sharing import claimed\n"
        "with claimed(Path(sys.argv[1])): print('held', flush=True); sys.stdin.read()"
    )
    with subprocess.Popen(
        [sys.executable, "-c", code, str(task.place)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "held\n"

        def kill() -> None:
            process.kill()
            process.wait()

        yield task, kill
        kill()


def when_waiting(monkeypatch: pytest.MonkeyPatch, act: Callable[[], Any]) -> None:
    """Do something, once, where a sweep waits for other processes."""

    def sleep(seconds: float) -> None:
        monkeypatch.undo()
        act()

    monkeypatch.setattr(time, "sleep", sleep)


def test_what_another_process_plays_is_left_to_it(
    plan: Plan,
    tmp_path: Path,
    held: tuple[Task, Callable[[], None]],
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    run_sweep(plan, tmp_path / "whole", COMMAND)
    whole = cells(tmp_path / "whole")
    task, kill = held
    first, second = task.parcel.hashes

    def other() -> None:
        """One cell is done and one has failed, and then it is killed."""
        store.cell_path(task.folder, first).write_bytes(whole[f"{first}.nc"])
        store.save_failure(task.folder, second, "", "no luck")
        kill()

    when_waiting(monkeypatch, other)
    played: list[list[str]] = []
    original = run.play_cells

    def play(parcel: Parcel, *rest: Any) -> list[run.Outcome]:
        played.append(parcel.hashes)
        return original(parcel, *rest)

    with pytest.MonkeyPatch.context() as patched, caplog.at_level(logging.INFO, "fedbandits"):
        patched.setattr(run, "play_cells", play)
        caplog.clear()
        status = run_sweep(plan, task.folder, COMMAND)
    assert played == [tasks(plan, task.folder)[1].parcel.hashes]
    assert [cell.hash for cell in status.done] == [first, *played[0]]
    assert caplog.messages[1:3] == [
        "waiting for cells that other processes play",
        "failed: seed=0, learning_rate=0.3: no luck",
    ]
    assert caplog.messages[3].startswith("4 of 4 cells")
    # Given again, what failed is tried again.
    assert len(run_sweep(plan, task.folder, COMMAND).done) == 4
    assert cells(task.folder) == whole
    assert not (task.folder / "under_way").exists()


def test_what_a_killed_process_held_is_played(
    plan: Plan,
    tmp_path: Path,
    held: tuple[Task, Callable[[], None]],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    when_waiting(monkeypatch, held[1])
    assert len(run_sweep(plan, tmp_path / "out", COMMAND).done) == 4


TOGETHER = """
import sys, time
from pathlib import Path
from fedbandits.sweeps import run
from fedbandits.sweeps.plan import make_plan
file, folder, me = sys.argv[1:]
original = run.play_cells
def play(parcel, *rest):  # once both have begun to play
    with Path(folder, f"{me}.begun").open("a") as log:
        log.write(parcel.hashes[0] + "\\n")
    while len(list(Path(folder).glob("*.begun"))) < 2:
        time.sleep(0.01)
    return original(parcel, *rest)
run.play_cells = play
run.run_sweep(make_plan(file), Path(folder, "out"), ["fedbandits"])
"""


@pytest.mark.slow
def test_who_sends_batches_away_in_the_same_instant_is_seen(
    plan: Plan, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Between the look and the claim of a process that plays here."""
    folder = tmp_path / "out"
    with ExitStack() as other:
        original = claimed

        def late(place: Path) -> Any:
            monkeypatch.setattr(run, "claimed", original)
            other.enter_context(kept_for_cluster(folder, tasks(plan, folder)))
            return original(place)

        monkeypatch.setattr(run, "claimed", late)
        monkeypatch.setattr(run, "play_cells", never)
        with pytest.raises(SweepError, match=f"process {os.getpid()} on .* plays .* on a Dask"):
            run_sweep(plan, folder, COMMAND)


@pytest.mark.soak
def test_two_processes_play_each_batch_once(plan: Plan, tmp_path: Path) -> None:
    both = [
        subprocess.Popen([sys.executable, "-c", TOGETHER, plan.source, tmp_path, str(me)])
        for me in range(2)
    ]
    assert [process.wait() for process in both] == [0, 0]
    played = [(tmp_path / f"{me}.begun").read_text().split() for me in range(2)]
    assert sorted(map(len, played)) == [1, 1]
    assert set(played[0] + played[1]) == {plan.hashes[0], plan.hashes[2]}
    assert len(cells(tmp_path / "out")) == 4


# Checkpoints.


def interrupted(plan: Plan, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The sweep, stopped in the first batch, of which ten rounds of twenty are safe."""
    original, count = Record.add, iter(range(100))

    def add(*args: Any) -> None:
        if next(count) == 4:  # the third chunk, of the first of two cells
            raise KeyboardInterrupt
        original(*args)

    with monkeypatch.context() as patched:
        patched.setattr(Record, "add", add)
        message = (
            r"0 of 4 cells are safe in .*, 4 are missing; 1 batch goes on from its checkpoint; "
        )
        with pytest.raises(KeyboardInterrupt, match=message):
            run_sweep(plan, folder, COMMAND)
    assert len(files(folder, ".npz")) == 1


@pytest.mark.slow
@pytest.mark.usefixtures("short")
def test_a_batch_goes_on_where_it_was(
    plan: Plan, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "fedbandits")
    run_sweep(plan, tmp_path / "whole", COMMAND)
    whole = cells(tmp_path / "whole")
    assert not (tmp_path / "whole" / "under_way").exists()
    resumed = "going on after round 10 of 20"
    for name, damaged, force, found in [
        ("again", False, False, 1),
        ("damaged", True, False, 0),
        ("forced", False, True, 0),
    ]:
        out = tmp_path / name
        interrupted(plan, out, monkeypatch)
        if damaged:
            (path,) = files(out, ".npz")
            path.write_bytes(path.read_bytes()[:1000])
        caplog.clear()
        run_sweep(plan, out, COMMAND, force=force)
        assert caplog.messages.count(resumed) == found
        assert cells(out) == whole
        assert not (out / "under_way").exists()


@pytest.mark.slow
@pytest.mark.usefixtures("short")
def test_a_checkpoint_that_cannot_be_written_fails_no_cell(
    plan: Plan, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*args: Any, **kwargs: Any) -> Any:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patched:
        patched.setattr(np, "savez", full)
        with pytest.raises(SweepError, match=r"checkpoint .* cannot be written \(No space left .*"):
            run_sweep(plan, tmp_path / "out", COMMAND)
    assert list((tmp_path / "out" / "failed").iterdir()) == []
    assert len(run_sweep(plan, tmp_path / "out", COMMAND).done) == 4


# --jobs.

WORKER = """
import os, sys, time
from pathlib import Path
from fedbandits.engine import checkpoint, chunk_sizes
from fedbandits.sweeps import jobs
folder, act = Path(sys.argv[1]), sys.argv[2]
chunk_sizes.MOST_ROUNDS, checkpoint.SECONDS = 5, 0.0
save = checkpoint.Checkpoint.save
def noted(self, done, *rest):
    save(self, done, *rest)
    with (folder / "saved").open("a") as log:
        log.write(f"{self.path.stem} {done}\\n")
    if act == "wait" and done == 10:
        while not (folder / "go").exists():
            time.sleep(0.01)
    if act == "die" and done == 10:
        try:
            (folder / "died").touch(exist_ok=False)
        except FileExistsError:
            return  # one is enough
        os.kill(os.getpid(), 9)
checkpoint.Checkpoint.save = noted
sys.exit(jobs.main())
"""


def workers(monkeypatch: pytest.MonkeyPatch, folder: Path, act: str) -> None:
    """Have the processes of --jobs take short chunks, note what they save, and do something."""
    monkeypatch.setattr(jobs, "COMMAND", (sys.executable, "-c", WORKER, str(folder), act))


def saved(folder: Path) -> Counter[str]:
    """How often five rounds of a batch were saved: once, if none was begun anew."""
    lines = (folder / "saved").read_text().splitlines()
    return Counter(line.split()[0] for line in lines if line.endswith(" 5"))


@pytest.fixture(scope="module")
def whole(plan: Plan, tmp_path_factory: pytest.TempPathFactory) -> dict[str, bytes]:
    """The cells as one such process plays them."""
    folder = tmp_path_factory.mktemp("one")
    store.prepare(folder, store.manifest_of(plan, COMMAND))
    with pytest.MonkeyPatch.context() as patched:
        workers(patched, folder, "")
        every = dict(enumerate(tasks(plan, folder)))
        assert sorted(jobs.play_in_processes(every, 1)) == [0, 1]
    return cells(folder)


@pytest.mark.slow
def test_jobs_give_the_same_bits_even_if_one_is_killed(
    plan: Plan,
    whole: dict[str, bytes],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    monkeypatch.setattr(run, "play_cells", never)  # not in this process
    workers(monkeypatch, tmp_path, "die")
    status = run_sweep(plan, tmp_path / "out", COMMAND, jobs=2)
    assert (tmp_path / "died").exists()
    [ended] = [message for message in caplog.messages if "ended" in message]
    # Whichever it is when this process looks.
    assert re.fullmatch(
        r"a process of --jobs was ended by SIGKILL; the others (go on with|have done) what it held",
        ended,
    )
    assert len(status.done) == 4
    assert cells(tmp_path / "out") == whole
    # The other process went on from the checkpoint of the killed one.
    assert sorted(saved(tmp_path).values()) == [1, 1]


@pytest.mark.slow
@pytest.mark.filterwarnings("default:missing=")
def test_what_was_filled_is_told_once_whatever_the_jobs(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    """The process that plans has read the table, and those that play read it again."""
    (tmp_path / "losses.csv").write_text("time,agent,arm,loss\n1,a,x,1\n1,a,y,0\n1,b,x,1\n")
    (tmp_path / "sweep.toml").write_text(
        'seed = [0, 1]\n[problem]\nname = "from_table"\ntable = "losses.csv"\nmissing = 0.5\n'
        '[algorithm]\nname = "Exp3"\n'
    )
    done = call("run", tmp_path / "sweep.toml", "--out", tmp_path, "--jobs", "2")
    assert done.exit_code == 0, done.stderr
    assert done.stderr.count("warning: missing=0.5 filled 1 of 4 cells") == 1
    assert "missing" not in capfd.readouterr().err  # of the processes that play


@pytest.mark.soak
def test_ctrl_c_ends_all_jobs_and_they_go_on(
    plan: Plan, whole: dict[str, bytes], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    out = tmp_path / "out"

    class Popen(subprocess.Popen[str]):
        def terminate(self) -> None:
            super().terminate()
            terminated.append(self.pid)
            if len(terminated) == 2:
                (tmp_path / "go").touch()

    terminated: list[int] = []
    original = time.sleep

    def sleep(seconds: float) -> None:
        lines = (tmp_path / "saved").read_text() if (tmp_path / "saved").exists() else ""
        if lines.count(" 10\n") == 2 and not terminated:
            signal.raise_signal(signal.SIGINT)
        original(seconds / 20)

    workers(monkeypatch, tmp_path, "wait")
    with monkeypatch.context() as patched:
        patched.setattr(subprocess, "Popen", Popen)
        patched.setattr(time, "sleep", sleep)
        with pytest.raises(KeyboardInterrupt, match="stopped; 0 of 4 cells are safe"):
            run_sweep(plan, out, COMMAND, jobs=2)
    # Both are gone, and nobody holds a batch; what they had played is there.
    for task in tasks(plan, out):
        with claimed(task.place) as free:
            assert free
    assert len(files(out, ".npz")) == 2
    assert len(run_sweep(plan, out, COMMAND, jobs=2).done) == 4
    assert cells(out) == whole
    assert sorted(saved(tmp_path).values()) == [1, 1]


def test_jobs_end_with_the_process_that_started_them(plan: Plan, tmp_path: Path) -> None:
    code = (
        "import sys, time; from fedbandits.sweeps import jobs\n"
        "def forever(tasks, experiments):\n"
        "    assert len(tasks) == 2\n"
        "    while True: yield time.sleep(0.01)\n"
        "jobs.play_here = forever\n"
        "sys.exit(jobs.main())"
    )
    given = jobs._written(dict(enumerate(tasks(plan, tmp_path))))
    done = subprocess.run([sys.executable, "-c", code], input=f"{given}\n", text=True, check=False)
    assert done.returncode == 130


@pytest.mark.parametrize(
    ("act", "message"),
    [
        ("sys.exit(3)", r"a process of --jobs was ended with exit status 3, and none is left"),
        ("print('the disk is full'); sys.exit(1)", "the disk is full; 0 of 4 cells are safe"),
    ],
)
def test_jobs_that_cannot_go_on(
    plan: Plan, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, act: str, message: str
) -> None:
    monkeypatch.setattr(jobs, "COMMAND", (sys.executable, "-c", f"import sys; {act}"))
    with pytest.raises(SweepError, match=message):
        run_sweep(plan, tmp_path / "out", COMMAND, jobs=2)


def test_a_second_ctrl_c_kills_jobs_that_do_not_stop(
    plan: Plan, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    deaf = (
        "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); "
        f"open({str(tmp_path / 'deaf')!r}, 'a').write('x'); time.sleep(600)"
    )
    monkeypatch.setattr(jobs, "COMMAND", (sys.executable, "-c", deaf))
    begun: list[Popen] = []

    class Popen(subprocess.Popen[str]):
        def __init__(self, *args: Any, **kwargs: Any) -> None:
            super().__init__(*args, **kwargs)
            begun.append(self)

        def wait(self, timeout: float | None = None) -> int:
            if not pressed:
                pressed.append(True)
                raise KeyboardInterrupt
            return super().wait(timeout)

    pressed: list[bool] = []

    original = time.sleep

    def sleep(seconds: float) -> None:
        if (tmp_path / "deaf").exists() and (tmp_path / "deaf").read_text() == "xx":
            raise KeyboardInterrupt
        original(seconds / 20)

    monkeypatch.setattr(subprocess, "Popen", Popen)
    monkeypatch.setattr(time, "sleep", sleep)
    with pytest.raises(KeyboardInterrupt, match="stopped"):
        run_sweep(plan, tmp_path / "out", COMMAND, jobs=2)
    assert [process.returncode for process in begun] == [-signal.SIGKILL] * 2


def test_jobs_on_the_command_line(
    plan: Plan, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(jobs, "COMMAND", (sys.executable, "-c", "import sys; sys.exit(3)"))
    failed = call("run", plan.source, "--out", tmp_path, "--jobs", "2")
    assert failed.exit_code == 2
    again = f"to go on: fedbandits run {plan.source} --out {tmp_path} --jobs 2"
    assert again in failed.stderr
    failed = call("run", plan.source, "--jobs", "2", "--scheduler", "tcp://127.0.0.1:1")
    assert "--jobs is for this machine" in failed.stderr
    single = ("--set", "seed=1", "--set", "algorithm.learning_rate=1")
    failed = call("run", plan.source, *single, "--jobs", "2")
    assert "--scheduler and --jobs are for sweeps" in failed.stderr


# A cluster.


def test_nobody_joins_a_process_that_sent_all_to_a_cluster(plan: Plan, tmp_path: Path) -> None:
    address = "tcp://127.0.0.1:1"
    who = rf"process {os.getpid()} on \S+ plays {tmp_path} on a Dask scheduler; wait for it"
    with kept_for_cluster(tmp_path, []):
        for scheduler in (None, address):
            with pytest.raises(SweepError, match=who):
                run_sweep(plan, tmp_path, COMMAND, scheduler=scheduler)
    task = tasks(plan, tmp_path)[0]
    with claimed(task.place) as mine:
        assert mine
        with pytest.raises(SweepError, match="another process plays batches of"):
            run_sweep(plan, tmp_path, COMMAND, scheduler=address)
    # One that was killed left its place behind, and nobody holds that.
    place = tmp_path / "under_way" / "cluster"
    place.mkdir(parents=True, exist_ok=True)
    (place / "process").write_text("1 on nowhere")
    assert len(run_sweep(plan, tmp_path, COMMAND).done) == 4
