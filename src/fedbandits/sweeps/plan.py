"""Before anything runs: every cell built and checked, and cells of one shape put together."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fedbandits.config.building import build
from fedbandits.config.experiment import ConfigError, Experiment
from fedbandits.config.grammar import Cell, Sweep, canonical, expand
from fedbandits.config.reading import read_config

from .identity import cell_hash, identity, made_here, shape_of

MOST_CELLS = 8
"""Cells of a batch: what is lost at most when a machine is."""

MOST_NUMBERS = 2**26
"""Arms × agents × runs × cells of a batch; an algorithm's state holds a few times as many."""


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
    """

    source: Path
    config: dict[str, Any]
    sweep: Sweep
    hashes: tuple[str, ...]
    batches: tuple[tuple[int, ...], ...]


def make_plan(path: str | Path, overrides: Sequence[str] = ()) -> Plan:
    """Read a sweep, build every cell once and refuse what cannot be played.

    Args:
        path: the configuration file.
        overrides: changes to it, as in `fb.config.load_config`.
    """
    source = Path(path)
    config = read_config(source, overrides)
    sweep = expand(config, str(source))
    hashes = tuple(cell_hash(cell.config, source.parent) for cell in sweep.cells)
    _refuse_twins(sweep.cells, hashes, source)
    groups = _groups(sweep.cells, source, overrides)
    return Plan(source, config, sweep, hashes, _batches(groups))


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


def _groups(cells: Sequence[Cell], source: Path, overrides: Sequence[str]) -> list[tuple[str, int]]:
    """For every cell what it must share with others to be played with them, and how many may be."""
    made = made_here.within(source.parent)
    # Those of one problem after one another: each is made once.
    problems: dict[str, list[int]] = {}
    for number, cell in enumerate(cells):
        key = canonical(identity({"problem": cell.config.get("problem")}, source.parent))
        problems.setdefault(key, []).append(number)
    found: dict[int, tuple[str, int]] = {}
    for number in (number for numbers in problems.values() for number in numbers):
        cell = cells[number]
        try:
            experiment = build(cell.config, source, overrides, made)
        except ConfigError as error:
            if not cell.title:
                raise
            raise ConfigError(f"{error} (cell {cell.title})") from error
        shared = {key: value for key, value in cell.config.items() if key != "algorithm"}
        shape = [identity(shared, source.parent), shape_of(experiment.algorithm)]
        found[number] = canonical(shape), _room(experiment)
    return [found[number] for number in range(len(cells))]


def _room(experiment: Experiment) -> int:
    """How many cells of this size are played at once."""
    problem = experiment.problem
    numbers = problem.agents * problem.arms * experiment.runs
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
