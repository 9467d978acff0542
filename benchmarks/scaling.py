"""Exponents: the slope of log time against log size, 1 where the cost is linear.

Whole warmed calls, at sizes where what is done once per call does not count. One size changes, the
others stay.
"""

from __future__ import annotations

from collections.abc import Callable

import jax
import numpy as np

import fedbandits as fb
from benchmarks import million
from benchmarks.rows import Measure, Measured
from benchmarks.timing import repeated

GOAL = 1.1
"""Linear, with room for caches that larger arrays fall out of."""

Play = Callable[[], object]


def measures(quick: bool) -> list[Measure]:
    """Edges, agents, arms, rounds and runs."""
    large = 1 if quick or jax.default_backend() == "cpu" else 10
    cases: dict[str, Callable[[], dict[int, Play]]] = {
        "edges": lambda: _edges(quick, large),
        "agents": lambda: _agents(quick, large),
        "arms": lambda: _arms(quick, large),
        "rounds": lambda: _rounds(quick),
        "runs": lambda: _runs(quick, large),
    }
    return [
        Measure(
            f"exponent/{of}",
            "slope",
            lambda of=of, sizes=sizes: _slope(of, sizes(), 2 if quick else 3),  # type: ignore[misc]
        )
        for of, sizes in cases.items()
    ]


def _slope(of: str, sizes: dict[int, Play], n: int) -> Measured:
    taken = {size: repeated(play, n, seconds=4.0) for size, play in sizes.items()}
    best = [min(seconds) for seconds in taken.values()]
    slope = _fit(list(taken), best)
    # The k-th slowest of every size: how far the slope moves if all points are noisy alike.
    count = min(len(seconds) for seconds in taken.values())
    ranks = zip(*(sorted(seconds)[:count] for seconds in taken.values()), strict=True)
    slopes = tuple(_fit(list(taken), list(rank)) for rank in ranks)
    points = ", ".join(f"{size:,}: {1e3 * s:.3g}" for size, s in zip(taken, best, strict=True))
    return Measured(slope, slopes, GOAL, None, None, f"{of}: ms a call, {points}")


def _fit(sizes: list[int], seconds: list[float]) -> float:
    return float(np.polyfit(np.log(sizes), np.log(seconds), 1)[0])


def _edges(quick: bool, large: int) -> dict[int, Play]:
    """Degrees at which the edges cost more than everything else."""
    agents, horizon = (400, 2) if quick else (10_000 * large, 6)
    problem = million.problem(agents, horizon)
    made = [million.geometric(agents, degree) for degree in (50, 100, 200)]
    return {len(gossip.network.edges): _play(problem, gossip) for gossip in made}


def _agents(quick: bool, large: int) -> dict[int, Play]:
    sides, horizon = ((20, 30, 40), 2) if quick else ((100, 200, 400), 10)
    if large > 1:
        sides, horizon = (500, 1000, 2000), 100
    return {s * s: _play(million.problem(s * s, horizon), million.grid(s)) for s in sides}


def _arms(quick: bool, large: int) -> dict[int, Play]:
    side, horizon = (20, 2) if quick else (100, 20)
    if large > 1:
        side, horizon = 500, 100
    gossip = million.grid(side)

    def problem(arms: int) -> fb.Problem:
        return fb.problems.bernoulli(np.linspace(0.3, 0.7, arms), horizon, agents=side**2)

    return {arms: _play(problem(arms), gossip) for arms in (16, 32, 64)}


def _rounds(quick: bool) -> dict[int, Play]:
    first = 50 if quick else 2000
    gossip = million.grid(6)
    horizons = (first, 2 * first, 4 * first)
    return {T: _play(million.problem(36, T), gossip, runs=10) for T in horizons}


def _runs(quick: bool, large: int) -> dict[int, Play]:
    first, horizon = (2, 20) if quick else (50 * large, 500)
    gossip, problem = million.grid(6), million.problem(36, horizon)
    return {R: _play(problem, gossip, runs=R) for R in (first, 2 * first, 4 * first)}


def _play(problem: fb.Problem, gossip: fb.Gossip, runs: int = 1) -> Play:
    return lambda: fb.simulate(problem, fb.FedExp3(), gossip, runs=runs, progress=False)
