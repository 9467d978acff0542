"""The paper's own size: 36 agents on a 6 × 6 grid, 20 arms, 3000 rounds."""

from __future__ import annotations

from collections import deque
from functools import cache, partial
from itertools import islice

import jax
import numpy as np

import fedbandits as fb
from benchmarks import baseline, floor
from benchmarks.rows import Measure, Measured
from benchmarks.timing import repeated

SIDE = 6
AGENTS = SIDE * SIDE
ARMS = 20
GOAL_MS = 8.0
"""On a CPU: an accelerator is not for 36 agents."""


def measures(quick: bool) -> list[Measure]:
    """Whole calls of `fb.simulate`, 10 and 100 runs, with a constant rate and the default one."""
    horizon, some, many = (100, 10, 20) if quick else (3000, 10, 100)
    cases = {
        f"small/{some} runs": (some, fb.FedExp3(0.1)),
        f"small/{many} runs": (many, fb.FedExp3(0.1)),
        f"small/{many} runs, default rate": (many, fb.FedExp3()),
    }
    return [
        Measure(name, "ms a run", partial(_simulate, runs, algorithm, horizon, quick))
        for name, (runs, algorithm) in cases.items()
    ]


def _simulate(runs: int, algorithm: fb.FedExp3, horizon: int, quick: bool) -> Measured:
    gossip = fb.gossip.max_degree(fb.networks.grid(SIDE, SIDE))
    problem = fb.problems.activated_bernoulli(AGENTS, ARMS, horizon, seed=0)
    calls = repeated(
        lambda: fb.simulate(problem, algorithm, gossip, runs=runs, progress=False),
        2 if quick else 9,
    )
    values = tuple(1e3 * seconds / runs for seconds in calls)
    return Measured(
        min(values),
        values,
        GOAL_MS if jax.default_backend() == "cpu" else None,
        1e3 * numpy_run(horizon, 1 if quick else 3) if algorithm == fb.FedExp3(0.1) else None,
        1e3 * floor_run(runs, horizon),
        f"whole call, N={AGENTS}, K={ARMS}, T={horizon}",
    )


@cache
def numpy_run(horizon: int = 3000, n: int = 3) -> float:
    """Seconds of one run of the baseline, its losses included as they are in `fb.simulate`."""
    W = fb.gossip.max_degree(fb.networks.grid(SIDE, SIDE)).matrix.toarray()
    means = np.linspace(0, 1, ARMS)

    def run() -> None:
        losses = baseline.activated_coins(means, AGENTS)
        rounds = baseline.fedexp3(losses, W, ARMS, baseline.luck(AGENTS))
        deque(islice(rounds, horizon), maxlen=0)

    return min(repeated(run, n))


def floor_run(runs: int, horizon: int = 3000) -> float:
    """Seconds a run, `runs` of them being played at once."""
    return floor.a_round(ARMS * runs * AGENTS) * horizon / runs
