"""What float32 costs on long horizons: regret in float32 beside float64, paired.

    for dtype in float32 float64; do
        python benchmarks/precision.py --algorithm FedExp3 --horizon 1000000 --dtype $dtype
    done > a
    python benchmarks/precision.py --table a

Same losses and same uniforms in both: a pair of runs is the same until rounding flips an arm
for the first time, and chance alone tells them apart after that.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence
from pathlib import Path
from time import perf_counter
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

import fedbandits as fb
from fedbandits.algorithms import REGISTRY
from fedbandits.arrays import Array
from fedbandits.engine.simulate import DType
from fedbandits.results import interval

AGENTS, ARMS = 4, 4


def coins(horizon: int) -> fb.Problem:
    """Losses of 0 and 1 whose means differ by agent; one arm is better by 0.05 on average."""
    return fb.problems.heterogeneous(AGENTS, ARMS, horizon, gap=0.05, spread=0.3, seed=1)


def small(horizon: int) -> fb.Problem:
    """Losses far below 1, as those of rare events are: up to 0.1, one arm better by 0.01."""
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


def table(files: Sequence[Path]) -> str:
    """A row for each pair of measurements in files of JSON lines."""
    found: dict[tuple[str, str, int], dict[str, Any]] = {}
    for line in (line for file in files for line in file.read_text().splitlines()):
        cell = json.loads(line)
        place = cell["algorithm"], cell["problem"], cell["horizon"]
        found.setdefault(place, {})[cell["dtype"]] = np.array(cell["regret"])
    rows = [
        "| algorithm | losses | T | runs | regret, float64 | ± | bias of float32, % | ± |",
        "|---|---|---:|---:|---:|---:|---:|---:|",
    ]
    for place, pair in sorted(found.items()):
        if len(pair) == 2:
            narrow, wide = pair["float32"], pair["float64"]
            level, by = interval(wide), interval(100 * (narrow - wide) / wide.mean())
            rows.append(
                f"| {place[0]} | {place[1]} | {place[2]:,} | {len(wide)} "
                f"| {level.mean:,.1f} | {level.high - level.mean:,.1f} "
                f"| {by.mean:+.2f} | {by.high - by.mean:.2f} |"
            )
    return "\n".join(rows)


def main() -> None:
    """One measurement as a line of JSON, or the table of many."""
    parser = argparse.ArgumentParser(description="What float32 costs on long horizons.")
    parser.add_argument("--algorithm", choices=list(REGISTRY), default="FedExp3")
    parser.add_argument("--problem", choices=list(PROBLEMS), default="coins")
    parser.add_argument("--horizon", type=int, default=100_000)
    parser.add_argument("--runs", type=int, default=64)
    parser.add_argument("--dtype", choices=["float32", "float64"], default="float32")
    parser.add_argument("--table", type=Path, nargs="+", help="files of such lines")
    asked = parser.parse_args()
    if asked.table:
        print(table(asked.table))  # noqa: T201
        return
    cell = {k: v for k, v in vars(asked).items() if k != "table"}
    began = perf_counter()
    regret = regrets(*(cell[k] for k in ("algorithm", "problem", "horizon", "runs", "dtype")))
    print(json.dumps(cell | {"regret": regret, "seconds": perf_counter() - began}))  # noqa: T201


if __name__ == "__main__":
    main()
