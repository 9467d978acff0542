"""What 16 edges of a made-up CDN are asked for: four kinds of traffic, drawn from one seed.

Objects are numbers and all of one size. README.md says what the four kinds are; what an edge has of
its kind is drawn from the ranges below.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

SEED = 2026
ROUNDS = 2000
REQUESTS = 250
"""To an edge in a round: few enough for a byte to count the misses."""
WARM_UP = 100
"""Rounds that are played before the first that counts."""
DAY = 250
"""Rounds of one day: what is born, and when crawlers visit, follows it."""
CACHE = 1000
"""Objects that an edge can hold, one in twenty of the catalogue."""
CATALOGUE = 20_000

Requests = npt.NDArray[np.int64]


class Edge(NamedTuple):
    """One edge: where it is, and what it is asked for."""

    name: str
    kind: str


# As on a map: rows from north to south. Every row and every column has each kind once, so that
# neighbours on a grid have little in common.
CITIES = (
    ("oslo", "stockholm", "helsinki", "riga"),
    ("amsterdam", "hamburg", "berlin", "warsaw"),
    ("paris", "zurich", "munich", "vienna"),
    ("madrid", "marseille", "milan", "rome"),
)
KINDS = ("steady", "drifting", "crawled", "looping")
EDGES = tuple(
    Edge(name, KINDS[(row + col) % len(KINDS)])
    for row, cities in enumerate(CITIES)
    for col, name in enumerate(cities)
)


def steady(rng: np.random.Generator, number: int) -> Requests:
    """A catalogue whose popularity stays as it is."""
    return _zipf(rng, rng.uniform(0.8, 1.0), number)


def drifting(rng: np.random.Generator, number: int) -> Requests:
    """The newer an object, the more it is asked for; more are born by day than by night."""
    law, births = rng.uniform(0.95, 1.05), rng.uniform(0.2, 0.3)
    day = 1 + 0.5 * np.sin(2 * np.pi * np.arange(number) / (DAY * REQUESTS))
    born = np.cumsum(rng.random(number) < births * day)
    return CATALOGUE + born - _zipf(rng, law, number)


def crawled(rng: np.random.Generator, number: int) -> Requests:
    """A catalogue, and a crawler that visits for half of every day and asks for nothing twice."""
    share, start = rng.uniform(0.3, 0.4), rng.uniform()
    visits = (np.arange(number) / (DAY * REQUESTS) + start) % 1 < 0.5
    return _mixed(rng, _zipf(rng, rng.uniform(0.8, 1.0), number), visits * share, number)


def looping(rng: np.random.Generator, number: int) -> Requests:
    """A catalogue, and a series longer than the cache, asked for in order, over and over."""
    share, length = rng.uniform(0.5, 0.7), int(rng.uniform(1.2, 2.0) * CACHE)
    return _mixed(rng, _zipf(rng, rng.uniform(0.8, 1.0), number), share, length)


TRAFFIC: dict[str, Callable[[np.random.Generator, int], Requests]] = {
    "steady": steady,
    "drifting": drifting,
    "crawled": crawled,
    "looping": looping,
}


def requests(edge: int, seed: int = SEED) -> Requests:
    """All that an edge is asked for, warm-up first: objects, numbered from 1."""
    rng = np.random.default_rng([seed, edge])
    return 1 + TRAFFIC[EDGES[edge].kind](rng, (WARM_UP + ROUNDS) * REQUESTS)


def _zipf(rng: np.random.Generator, law: float, number: int) -> Requests:
    """Ranks from 0 in the catalogue, rank k with a probability ∝ (k + 1)^-law."""
    weights = np.cumsum(np.arange(1.0, CATALOGUE + 1) ** -law)
    return np.searchsorted(weights / weights[-1], rng.random(number))


def _mixed(
    rng: np.random.Generator,
    base: Requests,
    share: float | npt.NDArray[np.floating[Any]],
    length: int,
) -> Requests:
    """Some requests replaced by the next of a series of so many, which starts again at its end."""
    others = rng.random(len(base)) < share
    return np.where(others, CATALOGUE + (np.cumsum(others) - 1) % length, base)
