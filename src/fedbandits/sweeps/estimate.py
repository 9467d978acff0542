"""How long a sweep will take, from a few rounds of one batch of each kind, played now."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from fedbandits.common.describe import canonical
from fedbandits.config.experiment import ConfigError, Experiment
from fedbandits.simulation.grouping import shape_of
from fedbandits.simulation.options import Options

from . import store
from .plan import Plan
from .progress import duration
from .run import tasks_of

PATIENCE = 10.0
"""Seconds after which no further kind is measured."""

MOST_CHUNKS = 4
"""Chunks of rounds that a measurement takes, at most."""


class Cost(NamedTuple):
    """Seconds of a kind: once, to compile it; of each batch, beside its rounds; of a round."""

    once: float
    batch: float
    round: float


class Kind(NamedTuple):
    """Batches that one compiled program plays.

    Attributes:
        titles: names of the cells in the first batch.
        cells: the cells in the first batch.
        batches: how many they are, one for each draw of the losses.
        horizon: T.
        numbers: what a round updates: arms × agents × runs × cells.
    """

    titles: Sequence[str]
    cells: Sequence[Experiment]
    batches: int
    horizon: int
    numbers: int


class Estimate(NamedTuple):
    """What is still to be done.

    Attributes:
        manifest: of the sweep.
        missing: the cells that would be played.
        done: how many are there already.
        batches: in how many calls the missing ones are played.
        seconds: about how long one process takes.
        kinds: how many kinds of batches there are.
        measured: how many of them were played.
        rounds: how many rounds of one of them, at most.
    """

    manifest: store.Manifest
    missing: list[store.StoredCell]
    done: int
    batches: int
    seconds: float
    kinds: int
    measured: int
    rounds: int

    def __str__(self) -> str:
        total = len(self.missing) + self.done
        cells = f"{total} cells: {self.done} done, {len(self.missing)} to play"
        if not self.missing:
            return cells
        kinds = f"{self.kinds} kind{'s' * (self.kinds != 1)} of batches"
        measured = kinds if self.measured == self.kinds else f"{self.measured} of {kinds}"
        of_which = f" of {measured}" if total > 1 else ""
        seconds = (
            f"about {duration(self.seconds)} by one process of this machine, judging by up to "
            f"{self.rounds} rounds{of_which}, played now; nothing was written"
        )
        batches = f"{self.batches} batch{'es' * (self.batches != 1)}"
        return f"{cells} in {batches}\n{seconds}" if total > 1 else seconds


def estimate(plan: Plan, folder: Path, *, force: bool = False) -> Estimate:
    """What playing a sweep would take. Nothing is written.

    Args:
        plan: the sweep, from `make_plan`.
        folder: where its files are, or would be.
        force: as if nothing were done yet.
    """
    manifest = store.manifest_of(plan, [])
    store.check(folder, manifest, force=force)
    done = set() if force else {cell.hash for cell in store.status(folder, manifest).done}
    traces = {name: store.Trace("", "") for name in plan.hashes if name not in done}
    titles = {name: cell.title for name, cell in zip(plan.hashes, plan.sweep.cells, strict=True)}
    parcels = [task.parcel for task in tasks_of(plan, folder, traces).values()]
    batches = [([titles[name] for name in each.hashes], plan.workshop(each)) for each in parcels]
    kinds = _kinds(batches)
    costs, rounds = _costs(kinds)
    return Estimate(
        manifest,
        [cell for cell in manifest.cells if cell.hash not in done],
        len(done),
        len(batches),
        _total(kinds, costs),
        len(kinds),
        len(costs),
        rounds,
    )


def _kinds(batches: Sequence[tuple[Sequence[str], Sequence[Experiment]]]) -> list[Kind]:
    """Those with the most to do first."""
    kinds: dict[str, Kind] = {}
    for titles, cells in batches:
        first = cells[0]
        key = _kind_of(first, len(cells))
        problem, runs = first.simulation.problem, first.simulation.runs
        numbers = problem.arms * problem.agents * runs * len(cells)
        fresh = Kind(titles, cells, 0, problem.horizon, numbers)
        known = kinds.get(key, fresh)
        kinds[key] = known._replace(batches=known.batches + (first.simulation.draws or 1))
    return sorted(kinds.values(), key=lambda kind: -kind.batches * kind.horizon * kind.numbers)


def _kind_of(experiment: Experiment, cells: int) -> str:
    simulation = experiment.simulation
    problem, gossip, network = simulation.problem, simulation.gossip, experiment.network
    sizes = [problem.agents, problem.arms, problem.horizon, simulation.runs, cells]
    names = [type(problem).__name__, network and network.family, gossip and gossip.rule]
    shapes = [shape_of(simulation.algorithm), *map(shape_of, simulation.conditions)]
    return canonical([sizes, names, simulation.dtype, shapes, experiment.record])


def _costs(kinds: Sequence[Kind]) -> tuple[dict[int, Cost], int]:
    """What the first kinds cost, as many as there is patience for, and the most rounds played."""
    begun = time.monotonic()
    costs: dict[int, Cost] = {}
    most = 0
    for number, kind in enumerate(kinds):
        if costs and time.monotonic() - begun > PATIENCE:
            break
        try:
            costs[number], rounds = _measured(kind.cells)
        except (ValueError, TypeError) as error:
            raise _of_a_cell(kind, error) from error
        most = max(most, rounds)
    return costs, most


def _of_a_cell(kind: Kind, error: Exception) -> Exception:
    """Return the error of a batch with the name of the first cell that raises it alone."""
    for title, cell in zip(kind.titles, kind.cells, strict=True):
        try:
            _measured([cell])
        except (ValueError, TypeError) as alone:
            return ConfigError(f"{alone} (cell {title})") if title else alone
    return error


def _total(kinds: Sequence[Kind], costs: Mapping[int, Cost]) -> float:
    """Seconds of all; a kind that was not measured costs what the others do for its size."""
    measured = [(kinds[number], cost) for number, cost in costs.items()]
    if not measured:
        return 0.0
    once = sum(cost.once for _, cost in measured) / len(measured)
    batch = sum(cost.batch for _, cost in measured) / len(measured)
    number = sum(c.round for _, c in measured) / sum(kind.numbers for kind, _ in measured)
    total = 0.0
    for place, kind in enumerate(kinds):
        cost = costs.get(place, Cost(once, batch, number * kind.numbers))
        total += cost.once + kind.batches * (cost.batch + kind.horizon * cost.round)
    return total


def _measured(cells: Sequence[Experiment]) -> tuple[Cost, int]:
    """Return what a batch of cells costs, and the rounds that were played to find out."""
    from fedbandits.engine.chunk_runner import play_chunks
    from fedbandits.engine.chunk_sizes import chunking
    from fedbandits.engine.preparation import precision, prepare
    from fedbandits.engine.recording.finish import finish

    first = cells[0].simulation
    draws, options = first.draws or 1, Options(record=cells[0].record)

    def play(rounds: int, folder: Path) -> tuple[float, float]:
        """Return the seconds of so many rounds, and of what comes before and after them."""
        begun = time.perf_counter()
        drawn = [cell.simulation.draw(0) for cell in cells]
        group = prepare(drawn, options, draws)
        ready = time.perf_counter()
        carry = play_chunks(group, progress=False, enough=rounds)
        played = time.perf_counter()
        for place in range(len(cells)):
            result = finish(group, place, carry.state).against(cells[place].against)
            store.save_cell(folder, str(place), result.dataset)
        return played - ready, ready - begun + time.perf_counter() - played

    with precision(first.dtype), tempfile.TemporaryDirectory() as folder:
        chunk = chunking(first.problem, first.runs * len(cells)).rounds
        cold = play(chunk, Path(folder))
        few = chunk if sum(cold) > PATIENCE / 2 else min(first.problem.horizon, MOST_CHUNKS * chunk)
        rounds, beside = play(few, Path(folder))
    return Cost(max(0.0, sum(cold) - beside - rounds * chunk / few), beside, rounds / few), few
