"""Exponents: the slope of log time against log size, 1 where the cost is linear.

Whole warmed calls, at sizes where what is done once per call does not count. One size changes, the
others stay. Edges are the only size that a round also costs without: from their times that of Exp3,
which has no use for edges, is taken off.
"""

from __future__ import annotations

from collections.abc import Callable

import jax
import numpy as np

import fedbandits as fb
from benchmarks import million
from benchmarks.rows import Measure, Measured
from benchmarks.timing import in_turns

GOAL = 1.1
"""Linear, with room for caches that larger arrays fall out of."""
LONGER = 10
"""Times as many rounds on a CPU: with fewer, the set-up of a call moved slopes."""

Play = Callable[[], object]
Sizes = dict[int, Play]
"""What to time, by size; size 0 is what to take off the others."""


def measures(quick: bool) -> list[Measure]:
    """Edges, agents, arms, rounds and runs."""
    large = 1 if quick or jax.default_backend() == "cpu" else 10
    cases: dict[str, Callable[[], Sizes]] = {
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
            lambda of=of, sizes=sizes: _slope(of, sizes(), 2 if quick else 5),  # type: ignore[misc]
        )
        for of, sizes in cases.items()
    ]


def _slope(of: str, sizes: Sizes, n: int) -> Measured:
    taken = {size: sorted(seconds) for size, seconds in in_turns(sizes, n).items()}
    without = taken.pop(0, [0.0])[0]
    if min(min(seconds) for seconds in taken.values()) <= without:
        raise RuntimeError(f"{of} cost nothing measurable: too few, or too much noise")
    # The k-th fastest of every size: how far the slope moves if all points are noisy alike.
    ranks = zip(*taken.values(), strict=False)
    slopes = tuple(_fit(list(taken), [s - without for s in rank]) for rank in ranks)
    points = ", ".join(f"{size:,}: {1e3 * seconds[0]:.3g}" for size, seconds in taken.items())
    off = f", less {1e3 * without:.3g} without any" if without else ""
    if slopes[0] <= 0:
        raise RuntimeError(
            f"{points} ms a call: more {of} took no longer, so noise is all there is"
        )
    return Measured(slopes[0], slopes, GOAL, None, None, f"ms a call by {of}, {points}{off}")


def _fit(sizes: list[int], seconds: list[float]) -> float:
    return float(np.polyfit(np.log(sizes), np.log(seconds), 1)[0])


def _edges(quick: bool, large: int) -> Sizes:
    agents, horizon = (2500, 10) if quick else (10_000 * large, 60)
    problem = million.problem(agents, horizon)
    made = [
        million.geometric(agents, degree) for degree in ((20, 40, 80) if quick else (50, 100, 200))
    ]
    return {
        0: lambda: fb.simulate(problem, fb.Exp3(), made[0], runs=1, progress=False),
        **{len(gossip.network.edges): _play(problem, gossip) for gossip in made},
    }


def _agents(quick: bool, large: int) -> Sizes:
    sides, horizon = ((20, 30, 40), 2) if quick else ((200, 350, 600), 60)
    if large > 1:
        sides, horizon = (500, 1000, 2000), 100
    return {s * s: _play(million.problem(s * s, horizon), million.grid(s)) for s in sides}


def _arms(quick: bool, large: int) -> Sizes:
    side, horizon = (20, 2) if quick else (100, 200)
    if large > 1:
        side, horizon = 500, 100
    gossip = million.grid(side)

    def problem(arms: int) -> fb.Problem:
        return fb.problems.bernoulli(np.linspace(0.3, 0.7, arms), horizon, agents=side**2)

    return {arms: _play(problem(arms), gossip) for arms in (16, 32, 64)}


def _rounds(quick: bool) -> Sizes:
    first = 50 if quick else _more(2000)
    gossip = million.grid(6)
    horizons = (first, 2 * first, 4 * first)
    return {T: _play(million.problem(36, T), gossip, runs=10) for T in horizons}


def _runs(quick: bool, large: int) -> Sizes:
    first, horizon = (2, 20) if quick else (50 * large, _more(500))
    gossip, problem = million.grid(6), million.problem(36, horizon)
    return {R: _play(problem, gossip, runs=R) for R in (first, 2 * first, 4 * first)}


def _more(rounds: int) -> int:
    return LONGER * rounds if jax.default_backend() == "cpu" else rounds


def _play(problem: fb.Problem, gossip: fb.Gossip, runs: int = 1) -> Play:
    return lambda: fb.simulate(problem, fb.FedExp3(0.1), gossip, runs=runs, progress=False)
