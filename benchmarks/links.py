"""Bad links beside good ones: how many times as long a run takes that loses 30% of its messages.

On the paper's 6 × 6 grid, and on the 58 × 58 grid of its MovieLens experiment. Calls over good and
bad links take turns, so that whatever else the machine does meets both.
"""

from __future__ import annotations

from functools import cache
from time import perf_counter

import jax

import fedbandits as fb
from benchmarks.rows import Measure, Measured
from fedbandits.gossip.bad_links import RULES

ARMS = 20
RUNS = 10
LOSS = 0.3
GOAL, FLOW_GOAL = 2.0, 3.0
SMALL, LARGE = 6, 58


def measures(quick: bool) -> list[Measure]:
    """Each rule on both grids."""
    return [
        Measure(
            f"links/{side}x{side}/{rule}",
            "times plain",
            lambda side=side, rule=rule: _row(side, rule, quick),  # type: ignore[misc]
        )
        for side in ((SMALL,) if quick else (SMALL, LARGE))
        for rule in RULES
    ]


def _row(side: int, rule: str, quick: bool) -> Measured:
    cpu = jax.default_backend() == "cpu"
    horizon = _horizon(side, quick, cpu)
    problem = fb.problems.activated_bernoulli(side * side, ARMS, horizon, seed=0)
    plain = _plain(side)
    bad = fb.gossip.unreliable(plain, LOSS, rule)

    def seconds(gossip: fb.Gossip) -> float:
        began = perf_counter()
        fb.simulate(problem, fb.FedExp3(0.1), gossip, runs=RUNS, progress=False)
        return perf_counter() - began

    turns = [(seconds(plain), seconds(bad)) for _ in range(1 + (2 if quick else _turns(side, cpu)))]
    turns = turns[1:]  # the first compiles
    best = min(good for good, _ in turns)
    values = tuple(other / best for _, other in turns)
    held = cpu == (side == SMALL)  # the small grid is for a CPU, the large one for an accelerator
    goal = FLOW_GOAL if rule == "flow" else GOAL
    return Measured(
        min(values),
        values,
        goal if held else None,
        note=f"whole call, N={side * side}, K={ARMS}, T={horizon}, {RUNS} runs; good links took "
        f"{1e6 * best / horizon:.3g} µs a round",
    )


def _horizon(side: int, quick: bool, cpu: bool) -> int:
    if quick:
        return 100
    return 3000 if side == SMALL else 100 if cpu else 12_800


def _turns(side: int, cpu: bool) -> int:
    return 3 if cpu and side == LARGE else 9


@cache  # what the engine makes of it is kept with it
def _plain(side: int) -> fb.Gossip:
    return fb.gossip.max_degree(fb.networks.grid(side, side))
