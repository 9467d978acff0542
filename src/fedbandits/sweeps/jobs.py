"""Several processes of this machine play one sweep: they share its batches as any processes do.

Each sees as many devices as one process alone would, so that it computes the same numbers; the
operating system shares the cores out among them. They are in sessions of their own: Ctrl-C reaches
this process, which tells them once, and waits until their checkpoints are written. If this process
is killed they stop too, because their standard input ends.
"""

from __future__ import annotations

import json
import logging
import os
import signal
import subprocess
import sys
import threading
import time
import warnings
from collections.abc import Generator, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from tempfile import TemporaryFile
from typing import IO, NamedTuple

from fedbandits.common import interrupts
from fedbandits.config.experiment import Experiment

from .run import POLL, play_here
from .sharing import Missing, Task
from .store import SweepError, Trace
from .workshop import Parcel, Unpack, Workshop

logger = logging.getLogger("fedbandits")

COMMAND = (sys.executable, "-m", "fedbandits.sweeps.jobs")
"""What each process runs."""


class Worker(NamedTuple):
    """A process that plays, and the file where it says why it stopped."""

    process: subprocess.Popen[str]
    output: IO[str]


def play_in_processes(tasks: Mapping[int, Task], jobs: int) -> Generator[int]:
    """Have so many processes play batches.

    Args:
        tasks: batches by number.
        jobs: how many processes.

    Yields:
        the number of each batch as soon as all its cells are done or have failed.
    """
    left = dict(tasks)
    with _workers(tasks, jobs) as workers:
        running = list(workers)
        while left:
            ended = [worker for worker in running if worker.process.poll() is not None]
            running = [worker for worker in running if worker not in ended]
            # After the processes, so that nothing is missed that the last of them did.
            for number in [number for number, task in left.items() if task.settled()]:
                del left[number]
                yield number
            _look_at(ended, left, running)
            if left:
                time.sleep(POLL)


def _look_at(ended: Sequence[Worker], left: Mapping[int, Task], running: Sequence[Worker]) -> None:
    """Stop where a process says why it could not go on, or where none is left."""
    for worker in ended:
        worker.output.seek(0)
        reason = worker.output.read().strip()
        if reason:
            raise SweepError(reason)
        if worker.process.returncode and (running or not left):
            rest = "go on with" if left else "have done"
            logger.warning("%s; the others %s what it held", _end(worker), rest)
    if left and not running:
        why = _end(ended[-1]) if ended else "all processes have ended"
        raise SweepError(f"{why}, and none is left; with fewer --jobs each has more memory")


def _end(worker: Worker) -> str:
    code = worker.process.returncode
    how = f"by {signal.Signals(-code).name}" if code < 0 else f"with exit status {code}"
    return f"a process of --jobs was ended {how}"


@contextmanager
def _workers(tasks: Mapping[int, Task], jobs: int) -> Iterator[list[Worker]]:
    """Processes at work; all of them have ended when the `with` block has."""
    workers: list[Worker] = []
    given = _written(tasks) + "\n"
    with ExitStack() as files:
        try:
            for _ in range(jobs):
                output = files.enter_context(TemporaryFile("w+"))
                process = subprocess.Popen(
                    COMMAND, stdin=subprocess.PIPE, stdout=output, text=True, start_new_session=True
                )
                workers.append(Worker(process, output))
            for worker in workers:
                assert worker.process.stdin is not None
                with suppress(BrokenPipeError):  # it is gone already, which is noticed later
                    worker.process.stdin.write(given)
                    worker.process.stdin.flush()
            yield workers
        except BaseException:
            for worker in workers:
                worker.process.terminate()
            raise
        finally:
            _wait_for([worker.process for worker in workers])


def _wait_for(processes: Sequence[subprocess.Popen[str]]) -> None:
    try:
        for process in processes:
            process.wait()
    except KeyboardInterrupt:  # a second Ctrl-C: at once
        for process in processes:
            process.kill()
        raise
    finally:
        for process in processes:
            process.wait()
            assert process.stdin is not None
            with suppress(BrokenPipeError):
                process.stdin.close()


def _written(tasks: Mapping[int, Task]) -> str:
    plain = {
        number: [str(task.folder.resolve()), task.parcel, task.missing]
        for number, task in tasks.items()
    }
    return json.dumps(plain)


def _read(text: str) -> dict[int, Task]:
    """The tasks that `_written` wrote down."""
    return {
        int(number): Task(
            Path(folder),
            Parcel(*parcel),
            {name: Missing(title, Trace(*before)) for name, (title, before) in missing.items()},
        )
        for number, (folder, parcel, missing) in json.loads(text).items()
    }


def main() -> int:
    """A process that plays: tasks come by standard input, results go to the folder."""
    tasks = _read(sys.stdin.readline())
    (source,) = {task.parcel.source for task in tasks.values()}
    try:
        with interrupts.command():
            threading.Thread(target=_stop_with_parent, daemon=True).start()
            for _ in play_here(tasks, _silent(Workshop(source))):
                pass
    except KeyboardInterrupt:
        return 130
    except OSError as error:
        sys.stdout.write(str(error))
        return 1
    return 0


def _silent(unpack: Unpack) -> Unpack:
    """Without warnings: the process that planned has built the same cells, and has given them."""

    def silently(parcel: Parcel) -> Sequence[Experiment]:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return unpack(parcel)

    return silently


def _stop_with_parent() -> None:
    """Standard input ends when the process that started this one does."""
    while os.read(0, 1):
        pass
    os.kill(os.getpid(), signal.SIGTERM)


if __name__ == "__main__":
    sys.exit(main())
