"""What float32 costs on long horizons: regret beside float64's, on the same losses and uniforms.

    for dtype in float32 float64; do
        python benchmarks/precision.py --algorithm FedExp3 --horizon 1000000 --dtype $dtype
    done >> benchmarks/results/precision.jsonl

A pair of runs is the same until rounding flips an arm for the first time, and chance alone tells
them apart after that. `python docs/fill.py` makes the table.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterable, Sequence
from time import perf_counter
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

import fedbandits as fb
from fedbandits.algorithms import REGISTRY
from fedbandits.common.statistics import Interval, interval

if TYPE_CHECKING:
    from fedbandits.arrays import Array
    from fedbandits.simulation.simulation import DType

AGENTS, ARMS = 4, 4
FLOAT32_ROUNDS = 1_000_000
"""Where `fb.simulate` begins to warn; a test holds the two together."""
COLUMNS = ("algorithm", "losses", "T", "runs", "regret, float64", "float32 less float64, %")


def coins(horizon: int) -> fb.Problem:
    """Losses of 0 and 1 whose means differ by agent; one arm is better by 0.05 on average."""
    return fb.problems.heterogeneous(AGENTS, ARMS, horizon, gap=0.05, spread=0.3, seed=1)


def small(horizon: int) -> fb.Problem:
    """Losses far below 1, as those of rare events are: up to 0.1, one arm better by 0.01."""
    import jax
    import jax.numpy as jnp

    means = 0.06 - 0.01 * (jnp.arange(ARMS) == 1)

    def losses(t: Array) -> Array:
        key = jax.random.fold_in(jax.random.key(1), t)
        return means + jax.random.uniform(key, (AGENTS, ARMS), minval=-0.04, maxval=0.04)

    return fb.problems.from_function(losses, agents=AGENTS, arms=ARMS, horizon=horizon)


PROBLEMS = {"coins": coins, "small": small}


def regrets(name: str, problem: str, horizon: int, runs: int, dtype: DType) -> list[float]:
    """Expected regret at T of every run, the mean over agents."""
    gossip = fb.gossip.max_degree(fb.networks.ring(AGENTS))
    algorithm = (
        fb.LinearBlockGossip(actions=np.eye(ARMS))
        if name == "LinearBlockGossip"
        else REGISTRY[name]()
    )
    losses = PROBLEMS[problem](horizon)
    result = fb.simulate(losses, algorithm, gossip, runs=runs, dtype=dtype, progress=False)
    by_run: list[float] = result.dataset["agent_expected_regret"].mean("agent").to_numpy().tolist()
    return by_run


class Pair(NamedTuple):
    """Both precisions on the same losses and uniforms.

    Attributes:
        algorithm: its name.
        problem: one of `PROBLEMS`.
        horizon: T.
        runs: of each.
        regret: of float64, with its 95% interval.
        apart: float32's less float64's, in % of that.
    """

    algorithm: str
    problem: str
    horizon: int
    runs: int
    regret: Interval
    apart: Interval


def pairs(cells: Iterable[dict[str, Any]]) -> list[Pair]:
    """What was measured in both precisions."""
    found: dict[tuple[str, str, int], dict[str, Any]] = {}
    for cell in cells:
        place = cell["algorithm"], cell["problem"], cell["horizon"]
        found.setdefault(place, {})[cell["dtype"]] = np.array(cell["regret"])
    both = [(place, pair) for place, pair in sorted(found.items()) if len(pair) == 2]
    return [
        Pair(
            *(*place, len(pair["float64"]), interval(pair["float64"])),
            interval(100 * (pair["float32"] - pair["float64"]) / pair["float64"].mean()),
        )
        for place, pair in both
    ]


def half(found: Interval) -> float:
    """Half the width of an interval."""
    return found.high - found.mean


def row(pair: Pair) -> list[str]:
    """A row of the table."""
    return [
        *(pair.algorithm, pair.problem, f"{pair.horizon:,}", str(pair.runs)),
        f"{pair.regret.mean:,.1f} ± {half(pair.regret):,.1f}",
        f"{pair.apart.mean:+.2f} ± {half(pair.apart):.2f}",
    ]


def finding(measured: Sequence[Pair]) -> str:
    """Up to where float32 can be told from float64."""
    short = [p for p in measured if p.horizon <= FLOAT32_ROUNDS]
    sharp = [p for p in short if half(p.apart) <= 1]
    vague = [p for p in short if half(p.apart) > 1]
    most = max(abs(p.apart.mean) for p in sharp)
    widest = max(half(p.apart) for p in vague)
    seen = sum(abs(p.apart.mean) > half(p.apart) for p in vague)
    off = [p for p in measured if p not in short and abs(p.apart.mean) > max(1, half(p.apart))]
    beyond = "; ".join(
        f"{p.algorithm}, {p.problem}, T = {p.horizon:,}: {p.apart.mean:+.1f}%" for p in off
    )
    return (
        f"Up to {FLOAT32_ROUNDS:,} rounds float32 is off by at most {most:.2f}% in the "
        f"{len(sharp)} cases whose interval is at most ± 1%; in the other {len(vague)}, with up to "
        f"± {widest:.0f}%, {seen} intervals leave out 0. Beyond, off by more than 1% and more than "
        f"chance: {beyond}."
    )


def main() -> None:
    """One measurement as a line of JSON."""
    parser = argparse.ArgumentParser(description="What float32 costs on long horizons.")
    parser.add_argument("--algorithm", choices=list(REGISTRY), default="FedExp3")
    parser.add_argument("--problem", choices=list(PROBLEMS), default="coins")
    parser.add_argument("--horizon", type=int, default=100_000)
    parser.add_argument("--runs", type=int, default=64)
    parser.add_argument("--dtype", choices=["float32", "float64"], default="float32")
    cell = vars(parser.parse_args())
    began = perf_counter()
    regret = regrets(*(cell[k] for k in ("algorithm", "problem", "horizon", "runs", "dtype")))
    said = cell | {"regret": regret, "seconds": round(perf_counter() - began, 1)}
    sys.stdout.write(json.dumps(said) + "\n")


if __name__ == "__main__":
    main()
