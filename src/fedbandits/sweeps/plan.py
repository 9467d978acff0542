"""Before anything runs: every cell built and checked, and cells of one shape put together."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fedbandits.common.describe import canonical
from fedbandits.config.document import Document, read_document
from fedbandits.config.expansion import Cell, Sweep
from fedbandits.config.experiment import ConfigError, Experiment
from fedbandits.config.identity import Contents, own_names
from fedbandits.config.own import looking_beside
from fedbandits.config.own_contract import check_own
from fedbandits.simulation.grouping import MOST_NUMBERS, shape_of
from fedbandits.simulation.simulation import rounding_doubts

from .identity import cell_hash
from .workshop import Parcel, Workshop

MOST_CELLS = 8
"""Cells of a batch: what is lost at most when a machine is."""


@dataclass(frozen=True)
class Plan:
    """A sweep that can be played.

    Attributes:
        source: the configuration file.
        config: what is in it, lists and all.
        sweep: its axes and cells.
        hashes: the name of every cell.
        batches: numbers of the cells that are played together. They depend on the whole sweep and
            on nothing else, so that a cell's numbers do not depend on what was done before.
        workshop: gives what the cells of a parcel describe.
    """

    source: Path
    config: dict[str, Any]
    sweep: Sweep
    hashes: tuple[str, ...]
    batches: tuple[tuple[int, ...], ...]
    workshop: Workshop

    def parcel(self, number: int) -> Parcel:
        """The cells of a batch, as plain data."""
        cells = self.batches[number]
        configs = [self.sweep.cells[i].config for i in cells]
        return Parcel(str(self.source.resolve()), configs, [self.hashes[i] for i in cells])


def make_plan(path: str | Path, overrides: Sequence[str] = ()) -> Plan:
    """The plan of a configuration file.

    Args:
        path: the configuration file.
        overrides: changes to it, as in `fb.config.load_config`.
    """
    return plan_of(read_document(path, overrides))


def plan_of(document: Document) -> Plan:
    """Build every cell of a sweep once and refuse what cannot be played.

    Args:
        document: the configuration file; where it sweeps nothing, it has one cell.
    """
    with looking_beside(document.config, document.source):
        return _planned(document)


def _planned(document: Document) -> Plan:
    source, sweep = document.source, document.sweep
    workshop = Workshop(str(source))
    contents = workshop.contents
    hashes = tuple(cell_hash(cell.config, contents) for cell in sweep.cells)
    _refuse_twins(sweep.cells, hashes, source)
    groups = []
    checked: set[str] = set()
    doubts: dict[str, None] = {}
    for cell in sweep.cells:
        experiment = _built(cell, document, workshop, checked)
        simulation = experiment.simulation
        doubts |= dict.fromkeys(rounding_doubts(simulation.problem, simulation.dtype))
        groups.append((_kind(cell, experiment, contents), _room(experiment)))
    for doubt in doubts:
        warnings.warn(doubt, stacklevel=4)
    return Plan(source, document.config, sweep, hashes, _batches(groups), workshop)


def _refuse_twins(cells: Sequence[Cell], hashes: Sequence[str], source: Path) -> None:
    """Two files with the same content, for example."""
    first: dict[str, Cell] = {}
    for cell, name in zip(cells, hashes, strict=True):
        if name in first:
            raise ConfigError(
                f"{source}: the cells {first[name].title} and {cell.title} are the same "
                "experiment; remove one"
            )
        first[name] = cell


def _built(cell: Cell, document: Document, workshop: Workshop, checked: set[str]) -> Experiment:
    """What a cell describes. Own things are held to the contract, once for all their numbers."""
    try:
        experiment = workshop.build(cell.config, document.overrides)
        kind = canonical([own_names(cell.config), shape_of(experiment.simulation.algorithm)])
        if kind not in checked:
            check_own(cell.config, experiment, document.source)
            checked.add(kind)
        return experiment
    except ConfigError as error:
        if not cell.title:
            raise
        raise ConfigError(f"{error} (cell {cell.title})") from error


def _kind(cell: Cell, experiment: Experiment, contents: Contents) -> str:
    """What a cell must share with others to be played with them."""
    others = {key: value for key, value in cell.config.items() if key != "algorithm"}
    return canonical([contents.identity(others), shape_of(experiment.simulation.algorithm)])


def _room(experiment: Experiment) -> int:
    """How many cells of this size are played at once."""
    problem, runs = experiment.simulation.problem, experiment.simulation.runs
    numbers = problem.agents * problem.arms * runs
    return min(MOST_CELLS, max(1, MOST_NUMBERS // numbers))


def _batches(groups: Sequence[tuple[str, int]]) -> tuple[tuple[int, ...], ...]:
    """Consecutive cells of a group, at most as many as there is room for.

    Example:
        >>> _batches([("a", 2), ("b", 2), ("a", 2), ("a", 2)])
        ((0, 2), (1,), (3,))
    """
    full: list[list[int]] = []
    open_: dict[str, list[int]] = {}
    for number, (key, room) in enumerate(groups):
        batch = open_.get(key)
        if batch is None or len(batch) >= room:
            batch = open_[key] = []
            full.append(batch)
        batch.append(number)
    return tuple(tuple(batch) for batch in full)
