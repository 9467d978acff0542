"""Plays a sweep: batch by batch, each cell's result written as soon as it is there.

Any number of processes may play one sweep in one folder: they share its batches, see `sharing`.
"""

from __future__ import annotations

import logging
import shlex
import time
from collections.abc import Generator, Mapping, Sequence
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from fedbandits.common.interrupts import calm
from fedbandits.config.experiment import Experiment
from fedbandits.simulation.options import Options

from . import store
from .plan import Plan
from .progress import CellProgress
from .sharing import (
    Missing,
    Task,
    claimed,
    kept_for_cluster,
    kept_in,
    leave,
    refuse_if_kept_for_cluster,
)
from .store import SweepError
from .workshop import Parcel, Unpack

if TYPE_CHECKING:
    import xarray as xr

    from fedbandits.results.result import Result

logger = logging.getLogger("fedbandits")

POLL = 0.2
"""Seconds between two looks at what other processes have done."""


class Outcome(NamedTuple):
    """What came of a cell: its dataset, or why it failed."""

    dataset: xr.Dataset | None
    error: str = ""


def run_sweep(
    plan: Plan,
    folder: Path,
    command: Sequence[str],
    *,
    force: bool = False,
    scheduler: str | None = None,
    jobs: int = 1,
    progress: bool | None = None,
) -> store.Status:
    """Play what is missing of a sweep.

    Args:
        plan: the sweep, from `make_plan`.
        folder: where its files are.
        command: what the user may type to play what is missing.
        force: play everything anew.
        scheduler: address of a Dask scheduler whose workers play; this machine by default.
        jobs: how many processes of this machine play; this process alone if it is one.
        progress: show a progress bar; by default on a terminal only.

    Returns:
        how far it is now: everything is done, but for cells that fail whenever they are played.
    """
    if scheduler is not None:
        from .cluster import check_address

        check_address(scheduler)
    manifest = store.manifest_of(plan, list(command))
    store.prepare(folder, manifest, force=force)
    # First, so that what another process writes from here on is either done or news.
    traces = {name: store.trace(folder, name) for name in plan.hashes}
    before = store.status(folder, manifest)
    for path, fault in before.damaged:
        logger.warning("%s %s; its cell is played again", path, fault)
    done = {cell.hash for cell in before.done}
    if done:
        logger.info("%d of %d cells are there already", len(done), len(manifest.cells))
    tasks = tasks_of(plan, folder, {k: trace for k, trace in traces.items() if k not in done})
    if force:
        for task in tasks.values():
            task.forget()
    try:
        with (
            CellProgress(len(manifest.cells), len(done), progress) as bar,
            closing(_play(plan, tasks, folder, scheduler, jobs)) as played,
        ):
            for number in played:
                missing = tasks[number].missing
                for name, cell in missing.items():
                    error = store.failure_of(folder, name)
                    if error is not None:
                        logger.warning("failed: %s: %s", cell.title, error)
                bar.advance(len(missing))
    except KeyboardInterrupt as stop:
        raise KeyboardInterrupt(f"stopped; {_safe(manifest, tasks, folder, command)}") from stop
    except OSError as error:
        raise SweepError(f"{error}; {_safe(manifest, tasks, folder, command)}") from error
    return store.status(folder, manifest)


def tasks_of(plan: Plan, folder: Path, missing: Mapping[str, store.Trace]) -> dict[int, Task]:
    """The batches that have a cell which is missing, by number.

    Whole even if one cell alone is missing: a cell's last bits may depend on what is beside it.
    """
    tasks = {}
    for number, numbers in enumerate(plan.batches):
        titles = {plan.hashes[i]: plan.sweep.cells[i].title for i in numbers}
        wanted = {k: Missing(title, missing[k]) for k, title in titles.items() if k in missing}
        if wanted:
            tasks[number] = Task(folder, plan.parcel(number), wanted)
    return tasks


def _play(
    plan: Plan, tasks: Mapping[int, Task], folder: Path, scheduler: str | None, jobs: int
) -> Generator[int]:
    """The numbers of batches, each as soon as all its cells are done or have failed."""
    if not tasks:
        return
    if scheduler is not None:
        from .cluster import play_on_cluster

        parcels = {number: task.parcel for number, task in tasks.items()}
        with kept_for_cluster(folder, tasks.values()):
            for number, outcomes in play_on_cluster(parcels, scheduler):
                _save(tasks[number], outcomes)
                yield number
        return
    refuse_if_kept_for_cluster(folder)
    if min(jobs, len(tasks)) > 1:
        from .jobs import play_in_processes

        yield from play_in_processes(tasks, min(jobs, len(tasks)))
    else:
        yield from play_here(tasks, plan.workshop)


def play_here(tasks: Mapping[int, Task], unpack: Unpack) -> Generator[int]:
    """Play, in this process, batches that no other process plays; wait for those that others do.

    Args:
        tasks: batches by number.
        unpack: gives what their cells describe.

    Yields:
        the number of each batch as soon as all its cells are done or have failed.
    """
    left = dict(tasks)
    waiting = False
    while left:
        before = len(left)
        for number, task in tasks.items():
            if number in left:
                with claimed(task.place) as free:
                    # After the claim: whoever sends batches to a scheduler keeps the sweep first
                    # and looks for claims then, so that one of the two sees the other.
                    refuse_if_kept_for_cluster(task.folder)
                    if not free:
                        continue
                    if not task.settled():
                        _save(task, play_cells(task.parcel, unpack, task.place))
                    leave(task.place)
                del left[number]
                yield number
        if len(left) == before:
            if not waiting:
                logger.info("waiting for cells that other processes play")
            waiting = True
            time.sleep(POLL)


def _save(task: Task, outcomes: Sequence[Outcome]) -> None:
    """Write those cells of a batch that are missing, all of them whatever signal comes."""
    found = zip(task.parcel.hashes, outcomes, strict=True)
    try:
        with calm():
            for name, outcome in ((n, outcome) for n, outcome in found if n in task.missing):
                if outcome.dataset is None:
                    store.save_failure(task.folder, name, task.missing[name].title, outcome.error)
                else:
                    store.save_cell(task.folder, name, outcome.dataset)
    except OSError as error:
        raise SweepError(store.unwritable(task.folder, error)) from error


def _safe(
    manifest: store.Manifest, tasks: Mapping[int, Task], folder: Path, command: Sequence[str]
) -> str:
    """What is kept and how to go on."""
    total, safe = len(manifest.cells), len(store.status(folder, manifest).done)
    kept = sum(any(kept_in(task.place)) for task in tasks.values())
    under_way = (
        "1 batch goes on from its checkpoint"
        if kept == 1
        else f"{kept} batches go on from their checkpoints"
    )
    return (
        f"{safe} of {total} cells {'is' if safe == 1 else 'are'} safe in {folder}, {total - safe} "
        f"{'is' if total - safe == 1 else 'are'} missing; {f'{under_way}; ' if kept else ''}"
        f"to go on: {shlex.join(command)}"
    )


def play_cells(parcel: Parcel, unpack: Unpack, checkpoint: Path | None = None) -> list[Outcome]:
    """Play the cells of a batch by one call; if it fails, one by one to find which of them does.

    Args:
        parcel: cells that differ in numbers of their algorithms alone.
        unpack: gives what they describe.
        checkpoint: folder from which it goes on if it was interrupted. If it then fails, it starts
            anew: that may be the checkpoint's fault.

    Returns:
        what came of each, in their order.
    """
    try:
        cells = unpack(parcel)
    except Exception as error:  # whatever it is, other batches may be fine
        return [Outcome(None, in_one_line(error))] * len(parcel.hashes)
    resumed = checkpoint is not None and any(kept_in(checkpoint))
    together = _attempt(cells, checkpoint)
    if together[0].dataset is None and checkpoint is not None and resumed:
        for file in kept_in(checkpoint):
            file.unlink()
        together = _attempt(cells, checkpoint)
    if together[0].dataset is not None or len(cells) == 1:
        return together
    alone = [_attempt([cell])[0] for cell in cells]
    if all(outcome.dataset is not None for outcome in alone):
        # No cell's fault. If it has passed, they are played as an undisturbed sweep plays them.
        together = _attempt(cells)
        return together if together[0].dataset is not None else alone
    return alone


def _attempt(cells: Sequence[Experiment], checkpoint: Path | None = None) -> list[Outcome]:
    """The results of all cells, or for all of them the same error."""
    from fedbandits.engine.checkpoint import CheckpointError

    try:
        return [Outcome(result.dataset) for result in _simulate(cells, checkpoint)]
    except CheckpointError:  # no cell's fault, and no other batch would fare better
        raise
    except Exception as error:  # as above
        return [Outcome(None, in_one_line(error))] * len(cells)


def in_one_line(error: Exception) -> str:
    """The kind of error and what it says."""
    return " ".join(f"{type(error).__name__}: {error}".split())


def _simulate(cells: Sequence[Experiment], checkpoint: Path | None) -> list[Result]:
    from fedbandits.engine.play import play

    first = cells[0]
    options = Options(
        checkpoint=checkpoint,
        keep_checkpoint=True,  # until the results are files
        progress=False,
        record=first.record,
    )
    results = play([cell.simulation for cell in cells], options)
    return [result.against(first.against) for result in results]
