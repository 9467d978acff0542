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
from collections.abc import Iterable
from time import perf_counter
from typing import TYPE_CHECKING, Any

import numpy as np

import fedbandits as fb
from fedbandits.algorithms import REGISTRY
from fedbandits.results import interval

if TYPE_CHECKING:
    from fedbandits.arrays import Array
    from fedbandits.engine.simulate import DType

AGENTS, ARMS = 4, 4
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


def rows(cells: Iterable[dict[str, Any]]) -> list[list[str]]:
    """A row of the table for each pair of measurements, with 95% intervals."""
    found: dict[tuple[str, str, int], dict[str, Any]] = {}
    for cell in cells:
        place = cell["algorithm"], cell["problem"], cell["horizon"]
        found.setdefault(place, {})[cell["dtype"]] = np.array(cell["regret"])
    table = []
    for (name, problem, horizon), pair in sorted(found.items()):
        if len(pair) == 2:
            narrow, wide = pair["float32"], pair["float64"]
            level, by = interval(wide), interval(100 * (narrow - wide) / wide.mean())
            table.append(
                [
                    *(name, problem, f"{horizon:,}", str(len(wide))),
                    f"{level.mean:,.1f} ± {level.high - level.mean:,.1f}",
                    f"{by.mean:+.2f} ± {by.high - by.mean:.2f}",
                ]
            )
    return table


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
