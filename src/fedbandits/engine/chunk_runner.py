"""The rounds of a group, chunk after chunk: recorded, reported and kept in checkpoints."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import jax
import numpy as np

from fedbandits.common import interrupts
from fedbandits.common.backend import on_cpu, playing_on
from fedbandits.problems.base import Problem, check_losses
from fedbandits.results.record import Record
from fedbandits.results.snapshots import Snapshots

from .checkpoint import Checkpoint
from .executors.program import Carry, Chunk
from .group import Group
from .recording.progress import Progress
from .recording.recorder import Outcome, Recorder, into_records

logger = logging.getLogger("fedbandits")
executors = logging.getLogger("fedbandits.executors")
"""A separate logger: commands do not print it, except `fedbandits doctor FILE`."""

_BYTES_TO_WAIT_FOR = 2**24
"""Bytes of a state from which on, on a CPU, a chunk waits until the one before is recorded."""


def play_chunks(
    group: Group,
    checkpoint: Checkpoint | None = None,
    progress: bool | None = None,
    *,
    enough: int | None = None,
    ends: Sequence[int] = (),
    record: Callable[..., None] | None = None,
    report: Callable[[int], None] | None = None,
) -> Carry:
    """Play all chunks, from the checkpoint's last one on; call this inside `interrupts.calm`.

    Args:
        group: the simulations.
        checkpoint: where to resume from, and where to save; the caller removes it in the end.
        progress: show a progress bar; by default on a terminal only.
        enough: play no chunk after so many rounds; by default all T are played.
        ends: rounds at which a chunk ends, in order; snapshots end chunks too.
        record: takes the outcome of each chunk; by default the records of the group are filled.
        report: called with the last round of each recorded chunk, and first with that of a
            checkpoint. An exception that it raises reaches the caller after a checkpoint is saved.

    Returns:
        the carry after the last round.
    """
    problem, where = group.first.problem, group.where
    due = tuple(group.snapshots[0].times.tolist()) if group.snapshots else ()
    ends = due or ends  # a snapshot is taken between two chunks
    last = problem.horizon if enough is None else enough
    with playing_on(where.platform):
        chunks, executor, program = group.chunks, group.choice.executor, group.program
        executors.info("%s: %s", type(group.algorithm).__name__, group.choice)
        run = _Run(group, checkpoint, report)
        bar = Progress(type(group.algorithm).__name__, problem.horizon, run.done, progress)
        run.recorder = Recorder(record or partial(into_records, group), bar.update, run.done)
        # To the devices once, not with every chunk.
        traced = group.problem if problem.traced else None
        stages, drawn_losses = where.put_whole((group.stages, traced))
        # A CPU reserves the memory of a chunk when it is asked for it, not when it plays it.
        waits = on_cpu() and run.size >= _BYTES_TO_WAIT_FOR
        checked = problem.traced and problem.check == "during"
        try:
            run.report_recorded()
            while run.done < last:
                run.stop_if_requested()
                end = next((end for end in ends if end > run.done), None)
                rounds, stretch = chunks.after(run.done, end)
                losses = drawn_losses if problem.traced else run.host_losses(rounds)
                if waits:
                    run.recorder.settle()
                size = where.runs, rounds, stretch, chunks.ahead, checked
                chunk = Chunk(*size, where, executor)
                first = np.int32(run.done + 1)
                asked = (group.algorithm, stages, losses, run.carry, first, group.seed)
                run.carry, *outcome = program(*asked, chunk=chunk)
                if run.done + rounds in due:
                    outcome.append(group.look(stages, run.carry, run.done + rounds))
                run.finish_chunk(rounds, tuple(outcome))
            run.recorder.settle()
            run.report_recorded()
        finally:
            bar.close()
        return run.carry


class _Run:
    """The rounds that are done, with the carry after them.

    Attributes:
        done: the last round that was played.
        carry: the carry after it, on the devices.
        recorder: records chunks, one behind the devices.
    """

    recorder: Recorder

    def __init__(
        self,
        group: Group,
        checkpoint: Checkpoint | None,
        report: Callable[[int], None] | None,
    ) -> None:
        self._problem, self._checkpoint, self._report = group.first.problem, checkpoint, report
        self._records: list[Record | Snapshots] = [*group.records, *group.snapshots]
        self._reported = 0
        self.done, carry = 0, group.carry
        if checkpoint is not None:
            self.done, carry = checkpoint.load(carry, self._records)
        if self.done:
            logger.info("going on after round %d of %d", self.done, self._problem.horizon)
        # A copy, since the program may overwrite the arrays that it is given.
        self.carry: Carry = group.where.put(jax.tree.map(_copied, carry))

    @property
    def size(self) -> int:
        """The bytes of the carry."""
        return sum(leaf.nbytes for leaf in jax.tree.leaves(self.carry))

    def finish_chunk(self, rounds: int, outcome: Outcome) -> None:
        """Record the chunk before this one, report it, and save a checkpoint if one is due."""
        self.recorder.add(self.done + 1, rounds, outcome)
        self.done += rounds
        self.report_recorded()
        if self._checkpoint is not None and self._checkpoint.due():
            self.save()

    def save(self) -> None:
        """Save a checkpoint.

        Call this only where `done`, `carry` and the recorder belong to one moment. After an error
        anywhere else, or a second Ctrl-C, the last file stands.
        """
        if self._checkpoint is not None and self.done:
            self.recorder.settle()
            self._checkpoint.save(self.done, self.carry, self._records)

    def stop_if_requested(self) -> None:
        """Save a checkpoint and raise KeyboardInterrupt after a Ctrl-C."""
        if interrupts.requested():
            self.save()
            raise KeyboardInterrupt(stopped(self.done, self._problem))

    def report_recorded(self) -> None:
        """Call the caller's function after a chunk is recorded."""
        if self._report is None or self.recorder.done == self._reported:
            return
        self._reported = self.recorder.done
        try:
            self._report(self._reported)
        except BaseException:  # a user's function may raise anything
            self.save()
            raise

    def host_losses(self, rounds: int) -> np.ndarray[Any, Any]:
        """Return the losses of the next rounds, computed on the host: `[rounds, N, K]`."""
        first = self.done + 1
        try:
            losses = self._problem.block(first, first + rounds - 1)
            if self._problem.check == "during":
                check_losses(losses, first, self._problem)
        except BaseException:  # a user's function may raise anything
            self.save()
            raise
        return losses.astype(jax.numpy.result_type(float), copy=False)


def _copied(x: Any) -> Any:
    """Return a copy; NumPy's arrays are copied by NumPy, which compiles nothing."""
    return jax.numpy.array(x, copy=True) if isinstance(x, jax.Array) else np.array(x)


def stopped(done: int, problem: Problem) -> str:
    """Return the message of a simulation that was asked to stop."""
    return f"stopped after round {done} of {problem.horizon}"
