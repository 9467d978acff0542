"""Plays a sweep: batch by batch, each cell's result written as soon as it is there."""

from __future__ import annotations

import logging
import shlex
from collections.abc import Generator, Sequence
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from fedbandits.config import Experiment, build
from fedbandits.interrupts import calm

from . import store
from .identity import cell_hash, files_of, made_here
from .plan import Plan
from .progress import CellProgress
from .store import SweepError

if TYPE_CHECKING:
    import xarray as xr

    from fedbandits.results import Result

logger = logging.getLogger("fedbandits")


class Batch(NamedTuple):
    """Cells that are played together, as plain data that travels.

    Attributes:
        source: the configuration file, an absolute path.
        configs: the configuration of every cell.
        hashes: their names, which say what is in the files that the configurations name.
    """

    source: str
    configs: list[dict[str, Any]]
    hashes: list[str]


class Played(NamedTuple):
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
    progress: bool | None = None,
) -> store.Status:
    """Play what is missing of a sweep.

    Args:
        plan: the sweep, from `make_plan`.
        folder: where its files are.
        command: what the user may type to play what is missing.
        force: play everything anew.
        scheduler: address of a Dask scheduler whose workers play; this process by default.
        progress: show a progress bar; by default on a terminal only.

    Returns:
        how far it is now: everything is done, but for cells that fail whenever they are played.
    """
    if scheduler is not None:
        from .cluster import check_address

        check_address(scheduler)
    manifest = store.manifest_of(plan, list(command))
    store.prepare(folder, manifest, force=force)
    before = store.status(folder, manifest)
    for path, fault in before.damaged:
        logger.warning("%s %s; its cell is played again", path, fault)
    done = {cell.hash for cell in before.done}
    if done:
        logger.info("%d of %d cells are there already", len(done), len(manifest.cells))
    batches = {
        number: _batch(plan, numbers)
        for number, numbers in enumerate(plan.batches)
        # Whole even if one cell is missing: a cell's last bits may depend on what is beside it.
        if not done.issuperset(plan.hashes[i] for i in numbers)
    }
    try:
        with (
            CellProgress(len(manifest.cells), len(done), progress) as bar,
            closing(_play(batches, scheduler)) as played,
        ):
            for number, outcomes in played:
                numbered = zip(plan.batches[number], outcomes, strict=True)
                fresh = [(i, outcome) for i, outcome in numbered if plan.hashes[i] not in done]
                with calm():
                    for i, outcome in fresh:
                        _save(folder, manifest.cells[i], outcome, done)
                bar.advance(len(fresh))
    except KeyboardInterrupt as stop:
        raise KeyboardInterrupt(f"stopped; {_safe(done, plan, folder, command)}") from stop
    except OSError as error:
        raise SweepError(f"{error}; {_safe(done, plan, folder, command)}") from error
    return store.status(folder, manifest)


def _batch(plan: Plan, numbers: Sequence[int]) -> Batch:
    return Batch(
        str(plan.source.resolve()),
        [plan.sweep.cells[i].config for i in numbers],
        [plan.hashes[i] for i in numbers],
    )


def _play(batches: dict[int, Batch], scheduler: str | None) -> Generator[tuple[int, list[Played]]]:
    """The outcomes of batches by number, as they come."""
    if not batches:
        return
    if scheduler is None:
        for number, batch in batches.items():
            yield number, play_batch(batch)
    else:
        from .cluster import play_on_cluster

        yield from play_on_cluster(batches, scheduler)


def _save(folder: Path, cell: store.StoredCell, outcome: Played, done: set[str]) -> None:
    try:
        if outcome.dataset is None:
            store.save_failure(folder, cell, outcome.error)
            logger.warning("failed: %s: %s", cell.title, outcome.error)
        else:
            store.save_cell(folder, cell.hash, outcome.dataset)
            done.add(cell.hash)
    except OSError as error:
        raise SweepError(store.unwritable(folder, error)) from error


def _safe(done: set[str], plan: Plan, folder: Path, command: Sequence[str]) -> str:
    """What is kept and how to go on."""
    total, safe = len(plan.hashes), len(done)
    return (
        f"{safe} of {total} cells {'is' if safe == 1 else 'are'} safe in {folder}, {total - safe} "
        f"{'is' if total - safe == 1 else 'are'} missing; to go on: {shlex.join(command)}"
    )


def play_batch(batch: Batch) -> list[Played]:
    """Play the cells of a batch by one call; if it fails, one by one to find which of them does.

    Args:
        batch: cells that differ in numbers of their algorithms alone.

    Returns:
        what came of each, in their order.
    """
    together = _attempt(batch)
    if together[0].dataset is not None or len(batch.configs) == 1:
        return together
    alone = [
        _attempt(Batch(batch.source, [config], [name]))[0]
        for config, name in zip(batch.configs, batch.hashes, strict=True)
    ]
    if all(outcome.dataset is not None for outcome in alone):
        # No cell's fault. If it has passed, they are played as an undisturbed sweep plays them.
        together = _attempt(batch)
        return together if together[0].dataset is not None else alone
    return alone


def _attempt(batch: Batch) -> list[Played]:
    """The results of all cells, or for all of them the same error."""
    try:
        return [Played(result.dataset) for result in _simulate(batch)]
    except Exception as error:  # whatever it is, other batches may be fine
        return [Played(None, in_one_line(error))] * len(batch.configs)


def in_one_line(error: Exception) -> str:
    """The kind of error and what it says."""
    return " ".join(f"{type(error).__name__}: {error}".split())


def _simulate(batch: Batch) -> list[Result]:
    from fedbandits.engine.batch import simulate_each

    experiments = _built(batch)
    first = experiments[0]
    return simulate_each(
        first.problem,
        [experiment.algorithm for experiment in experiments],
        first.gossip,
        first.runs,
        first.seed,
        against=first.against,
        dtype=first.dtype,
        progress=False,
    )


def _built(batch: Batch) -> list[Experiment]:
    """The experiments of a batch; what they share with each other and with others is made once."""
    source = Path(batch.source)
    for config, name in zip(batch.configs, batch.hashes, strict=True):
        if cell_hash(config, source.parent) != name:
            files = ", ".join(str(source.parent / file) for file in files_of(config))
            raise ValueError(
                f"{files} is not here, or not what it was when the sweep began; put it back, or "
                "run the sweep again"
            )
    made = made_here.within(source.parent)
    return [build(config, source, made=made) for config in batch.configs]
