"""Groups of simulations that one compiled program can play together."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

import numpy as np

from fedbandits.common.describe import canonical, describe

from .simulation import Simulation

MOST_NUMBERS = 2**26
"""Arms × agents × runs × simulations of a group; an algorithm's state holds a few times as many."""


def groups(simulations: Sequence[Simulation]) -> list[list[int]]:
    """Return the places of simulations that differ in numbers of their algorithms alone.

    The answer depends on the simulations only, so every machine finds the same groups.

    Example:
        >>> import fedbandits as fb
        >>> problem = fb.problems.bernoulli([0.2, 0.8], horizon=10, agents=3)
        >>> algorithms = [fb.Exp3(0.1), fb.Uniform(), fb.Exp3(0.2)]
        >>> groups([Simulation(problem, algorithm) for algorithm in algorithms])
        [[0, 2], [1]]
    """
    alike: dict[Any, list[int]] = {}
    for place, simulation in enumerate(simulations):
        alike.setdefault(_key(simulation), []).append(place)
    return [part for places in alike.values() for part in _parts(places, simulations)]


def _key(simulation: Simulation) -> tuple[Any, ...]:
    others = simulation.runs, simulation.seed, simulation.dtype, simulation.draws
    conditions = [[each.name, each.describe()] for each in simulation.conditions]
    shape = canonical([shape_of(simulation.ready), list(others), conditions])
    return id(simulation.problem), id(simulation.gossip), shape


def _parts(places: Sequence[int], simulations: Sequence[Simulation]) -> list[list[int]]:
    """Cut a group into parts of about one size, none with too many numbers."""
    first = simulations[places[0]]
    room = max(1, MOST_NUMBERS // (first.problem.agents * first.problem.arms * first.runs))
    return [part.tolist() for part in np.array_split(places, -(-len(places) // room))]


def shape_of(value: Any) -> Any:
    """Return what two algorithms must share to be played by one program: all but numbers.

    Example:
        >>> from fedbandits import Exp3
        >>> shape_of(Exp3(0.1)) == shape_of(Exp3(0.2))
        True
        >>> shape_of(Exp3(0.1)) == shape_of(Exp3(0.1, exploration=0.2))  # no longer a power of t
        False
    """
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        kept = {
            field.name: describe(getattr(value, field.name))
            if field.metadata.get("static")
            else shape_of(getattr(value, field.name))
            for field in dataclasses.fields(value)
        }
        return {"type": type(value).__name__, **kept}
    if isinstance(value, int | float) and not isinstance(value, bool):
        return "number"
    if isinstance(value, np.ndarray):
        return f"{value.dtype}{list(value.shape)}"
    return describe(value)
