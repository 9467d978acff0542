"""Simulations as tests write them: the arguments of `fb.simulate`, prepared or played."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import xarray as xr

import fedbandits as fb
from fedbandits.engine import play, preparation, totals
from fedbandits.engine.group import Group
from fedbandits.simulation.options import Options
from fedbandits.simulation.simulation import Simulation, conditions_of

OPTIONS = (
    *("devices", "checkpoint", "keep_checkpoint", "progress", "record", "callback", "executor"),
)


def simulation_of(problem: Any, algorithm: Any, *more: Any, **asked: Any) -> Simulation:
    """Return the simulation that these arguments of `fb.simulate` ask for."""
    conditions = conditions_of(asked.pop("privacy", None), asked.pop("liars", None))
    return replace(Simulation(problem, algorithm, *more, **asked), conditions=conditions)


def prepare(problem: Any, algorithm: Any, *more: Any, **given: Any) -> Group:
    """Return the prepared group of one simulation, in the scope of its precision."""
    options = Options(**{name: given.pop(name) for name in OPTIONS if name in given})
    return preparation.prepare([simulation_of(problem, algorithm, *more, **given)], options)


def simulate_each(
    problem: Any, algorithms: Sequence[Any], *more: Any, against: Any = "current", **given: Any
) -> list[fb.Result]:
    """Return the results of several algorithms on the same losses."""
    options = Options(**{name: given.pop(name) for name in OPTIONS if name in given})
    each = [simulation_of(problem, algorithm, *more, **given) for algorithm in algorithms]
    return [result.against(against) for result in play.play(each, options)]


def simulate_draws(
    problems: Sequence[Any], algorithm: Any, gossip: Any, *, runs: int = 1, **given: Any
) -> xr.Dataset:
    """Return the totals of one algorithm on several losses, played as one program."""
    kept = {name: given.pop(name) for name in ("times", "rounds") if name in given}
    first = simulation_of(problems[0], algorithm, gossip, runs, **given)
    return totals.play_totals(first.on(problems), **kept)


def in_float64(play: Callable[..., Any]) -> Callable[..., Any]:
    """Return a function that plays simulations in float64, whatever they ask for."""

    def wide(simulations: Sequence[Simulation], **more: Any) -> Any:
        return play([replace(each, dtype="float64") for each in simulations], **more)

    return wide
