"""Ten games whose results stay what they are, whatever is moved in the code.

`python -m tests.engine.fixed_configurations` writes them down anew, where a result is to change.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any, Literal

import numpy as np

import fedbandits as fb

KEPT = Path(__file__).with_name("fixed_configurations.json")


def _coins(agents: int, arms: int, horizon: int) -> fb.problems.Problem:
    return fb.problems.activated_bernoulli(agents, arms, horizon, seed=1)


def _tensor() -> fb.problems.Problem:
    return fb.problems.from_tensor(np.random.default_rng(2).uniform(size=(120, 9, 4)))


def _linear() -> fb.problems.Problem:
    return fb.problems.linear(dimension=3, agents=9, arms=8, horizon=200, seed=1)


GRID = fb.networks.grid(3, 3)

GAMES: dict[str, Callable[[Literal["float32", "float64"]], fb.Result]] = {
    "the default on the paper's instance": lambda dtype: fb.simulate(
        _coins(36, 20, 150), fb.FedExp3(), fb.gossip.max_degree(fb.networks.grid(6, 6)),
        runs=3, seed=3, dtype=dtype,
    ),
    "constant rates, a large grid": lambda dtype: fb.simulate(
        _coins(400, 3, 60), fb.FedExp3(0.3, 0.1), fb.gossip.max_degree(fb.networks.grid(20, 20)),
        runs=2, dtype=dtype,
    ),
    "no gossip": lambda dtype: fb.simulate(_tensor(), fb.Exp3(), runs=4, dtype=dtype),
    "full information": lambda dtype: fb.simulate(
        _tensor(), fb.FedHedge(0.4), fb.gossip.metropolis(fb.networks.ring(9)), dtype=dtype
    ),
    "upper confidence bounds, maximum by gossip": lambda dtype: fb.simulate(
        _coins(40, 4, 120), fb.GossipUCB(),
        fb.gossip.max_degree(fb.networks.random_geometric(40, 0.4, seed=0)), runs=2, dtype=dtype,
    ),
    "blocks": lambda dtype: fb.simulate(
        _coins(9, 4, 200), fb.BlockGossip(), fb.gossip.max_degree(fb.networks.path(9)),
        runs=3, seed=5, dtype=dtype,
    ),
    "arms that are vectors": lambda dtype: fb.simulate(
        _linear(), fb.LinearBlockGossip(), fb.gossip.metropolis(GRID), runs=2, dtype=dtype
    ),
    "acceleration, against the last best arm": lambda dtype: fb.simulate(
        _coins(9, 4, 150), fb.AcceleratedFedExp3(), fb.gossip.max_degree(fb.networks.star(9)),
        runs=2, dtype=dtype, against="final",
    ),
    "records that flood": lambda dtype: fb.simulate(
        _tensor(), fb.DelayedFTRL(), fb.gossip.max_degree(GRID), runs=2, dtype=dtype
    ),
    "losses that come late, a random edge a round": lambda dtype: fb.simulate(
        fb.problems.delayed_experts(11, 3, 150, cluster=4, block=4, seed=1),
        fb.FedExp3(0.2), fb.gossip.random_edge(fb.networks.path(11)),
        runs=2, seed=7, dtype=dtype,
    ),
}  # fmt: skip


ROUNDED = "arms that are vectors"
"""Its losses are products in float32, which processors round differently: arms may flip."""


def digest(result: fb.Result) -> dict[str, Any]:
    """Arms to the last one, which float64 gives on every machine; regrets to nine digits."""
    data = result.dataset
    plays = (data["arm_frequency"] * data["time"] * data.sizes["agent"]).round(3)
    arms = (
        plays.values.astype(np.int64).tobytes()
        + data["recommended_arm"].values.astype(np.int64).tobytes()
    )
    return {
        "arms": hashlib.sha256(arms).hexdigest()[:16],
        "regret": float(data["regret"].isel(time=-1).mean()),
        "expected_regret": float(data["expected_regret"].isel(time=-1).mean()),
        "worst_regret": float(data["worst_regret"].isel(time=-1).mean()),
    }


def main() -> None:
    kept = {name: digest(play("float64")) for name, play in GAMES.items()}
    KEPT.write_text(json.dumps(kept, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
