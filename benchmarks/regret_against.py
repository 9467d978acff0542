"""Regret against the best sequence with 50 changes, of a long result: no run, one pass."""

from __future__ import annotations

import fedbandits as fb
from benchmarks.rows import Measure, Measured
from benchmarks.timing import repeated

ARMS = 20
GOAL_S = 1.0


def measures(quick: bool) -> list[Measure]:
    """A whole call of `Result.regret_against`."""
    sizes = (300, 5) if quick else (30_000, 50)
    return [Measure("regret_against/changes", "s", lambda: _regret_against(*sizes))]


def _regret_against(horizon: int, changes: int) -> Measured:
    problem = fb.problems.switching(agents=4, arms=ARMS, horizon=horizon, seed=0)
    result = fb.simulate(problem, fb.Uniform(), runs=1, progress=False)
    values = repeated(lambda: result.regret_against(changes=changes), 9)
    note = f"K={ARMS}, T={horizon}, S={changes}"
    return Measured(min(values), values, GOAL_S, note=note)
