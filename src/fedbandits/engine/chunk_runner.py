"""The rounds of a game, or of a batch of them, chunk after chunk: watched, recorded, kept."""

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
from .chunk_sizes import chunking
from .executors.chunk import Carry, Chunk
from .executors.kernel_round import suitable
from .executors.kernel_support import kernels
from .executors.tiled_round import tile_size
from .group import Group
from .recording.progress import Progress
from .recording.recorder import Outcome, Recorder, into_records

logger = logging.getLogger("fedbandits")

_BYTES_TO_WAIT_FOR = 2**24
"""Of a state: from here on a chunk waits, on a CPU, for the one before to be recorded."""


def play_chunks(
    group: Group,
    checkpoint: Checkpoint | None = None,
    progress: bool | None = None,
    *,
    enough: int | None = None,
    ends: Sequence[int] = (),
    record: Callable[..., None] | None = None,
    tell: Callable[[int], None] | None = None,
) -> Carry:
    """All chunks, from the checkpoint's last if there is one; within `interrupts.calm`.

    Args:
        group: the simulations.
        checkpoint: where to go on from and to save; left to the caller in the end.
        progress: show a progress bar; by default on a terminal only.
        enough: play no chunk after so many rounds; by default all T are played.
        ends: rounds at which a chunk ends, in order.
        record: takes what came of each chunk; by default the records of the group are filled.
        tell: called with the last round of each chunk when that is recorded, and first with that
            of a checkpoint. What it raises goes on to the caller once a checkpoint is written.

    Returns:
        the carry after the last round.
    """
    with playing_on(group.where.platform):
        into = record or partial(into_records, group)
        return _play_chunks(group, checkpoint, progress, enough, ends, into, tell)


def _play_chunks(
    group: Group,
    checkpoint: Checkpoint | None,
    progress: bool | None,
    enough: int | None,
    ends: Sequence[int],
    record: Callable[..., None],
    tell: Callable[[int], None] | None,
) -> Carry:
    first, where, count = group.first, group.where, len(group.simulations)
    problem, algorithm = first.problem, first.ready
    records: list[Record | Snapshots] = [*group.records, *group.snapshots]
    due = tuple(group.snapshots[0].times.tolist()) if group.snapshots else ()
    ends = due or ends  # a snapshot is taken between two chunks
    draws = count if group.over == "draws" else 1
    gossip = first.gossip
    drawn = 0 if gossip is None or gossip.faults is None else len(gossip.faults.loss)
    sizes = where.runs * count, draws, drawn
    tile = tile_size(algorithm, group.conditions, problem, group.carry, where, count)
    chunks = chunking(problem, *sizes, tiled=tile is not None)
    fused = (
        kernels()
        and group.over is None
        and where.mesh.size == 1
        and suitable(algorithm, group.conditions, problem, chunks.ahead, group.carry.state)
    )
    if fused:
        chunks = chunking(problem, *sizes, fused=True)
    last = problem.horizon if enough is None else enough
    done, carry = (0, group.carry) if checkpoint is None else checkpoint.load(group.carry, records)
    if done:
        logger.info("going on after round %d of %d", done, problem.horizon)
    # A copy on the devices: the caller's arrays are not ours to donate.
    carry = where.put(jax.tree.map(_copied, carry))
    # To the devices once, not with every chunk.
    conditions, traced = where.put_whole(
        (group.conditions, group.problem if problem.traced else None)
    )
    bar = Progress(type(algorithm).__name__, problem.horizon, done, progress)
    recorder = Recorder(record, bar.update, done)
    # A CPU sets a chunk's memory aside as soon as it is asked for it, not when it comes to it.
    size = sum(leaf.nbytes for leaf in jax.tree.leaves(carry))
    waits = on_cpu() and size >= _BYTES_TO_WAIT_FOR

    def save() -> None:
        """Keep what is done so far.

        Called where `done`, `carry` and the recorder are of one moment. After an error anywhere
        else, or a second Ctrl-C, the last file stands.
        """
        if checkpoint is not None and done:
            recorder.settle()
            checkpoint.save(done, carry, records)

    told = 0

    def tell_recorded() -> None:
        nonlocal told
        if tell is None or recorder.done == told:
            return
        told = recorder.done
        try:
            tell(told)
        except BaseException:  # a user's function may do anything
            save()
            raise

    try:
        tell_recorded()
        while done < last:
            if interrupts.requested():
                save()
                raise KeyboardInterrupt(stopped(done, problem))
            rounds, stretch = chunks.after(done, next((end for end in ends if end > done), None))
            losses = traced
            if traced is None:
                try:
                    losses = _host_losses(problem, done + 1, rounds)
                except BaseException:  # a user's function may do anything
                    save()
                    raise
            if waits:
                recorder.settle()
            checked = problem.traced and problem.check == "during"
            chunk = Chunk(where.runs, rounds, stretch, chunks.ahead, checked, where, fused, tile)
            carry, curves, totals = group.play(conditions, losses, carry, done + 1, chunk)
            outcome: Outcome = (curves, totals)
            if done + rounds in due:
                outcome = (*outcome, group.look(conditions, carry, done + rounds))
            recorder.add(done + 1, rounds, outcome)
            done += rounds
            tell_recorded()
            if checkpoint is not None and checkpoint.due():
                save()
        recorder.settle()
        tell_recorded()
    finally:
        bar.close()
    return carry


def _copied(x: Any) -> Any:
    """A copy, of NumPy's arrays by NumPy: JAX would compile a program to take one apart."""
    return jax.numpy.array(x, copy=True) if isinstance(x, jax.Array) else np.array(x)


def stopped(done: int, problem: Problem) -> str:
    """Where a run was when it was asked to stop."""
    return f"stopped after round {done} of {problem.horizon}"


def _host_losses(problem: Problem, first: int, rounds: int) -> np.ndarray[Any, Any]:
    """The losses of a chunk, made on the host: `[rounds, N, K]`."""
    losses = problem.block(first, first + rounds - 1)
    if problem.check == "during":
        check_losses(losses, first, problem)
    return losses.astype(jax.numpy.result_type(float), copy=False)
