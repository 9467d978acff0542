"""Small instances that tests share: connected graphs, losses, and one of every algorithm."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Self

import numpy as np
import numpy.typing as npt
import pytest
import xarray as xr
from hypothesis import strategies as st

import fedbandits as fb
from fedbandits.algorithms import REGISTRY, AnyAlgorithm
from fedbandits.algorithms.base import Setting
from fedbandits.results.communication import Communication, communication
from tests.engine.simulations import prepare

# A few sizes, so that compiled programs are used again: (agents, arms, horizon).
SIZES = [(1, 2, 1), (5, 3, 12), (8, 2, 12)]
ORACLE_SIZES = [(1, 3, 12), (5, 3, 12)]


class PlanarBlockGossip(fb.LinearBlockGossip):
    """Arms in the plane, as many as a problem without vectors has."""

    def set_up(self, setting: Setting) -> Self:
        return super().set_up(setting._replace(actions=planar(setting.arms)))


class FarFedFTRL(fb.FedFTRL):
    """Takes every network for as wide as one of its size can be, so that a size compiles once."""

    def set_up(self, setting: Setting) -> Self:
        ready, most = super().set_up(setting), setting.agents - 1
        return ready if ready.hops == 1 else ready.with_values(diameter=float(most), hops=most)


def planar(arms: int) -> np.ndarray[Any, np.dtype[np.float64]]:
    """Arms in the plane, `[K, 2]`; the first are the same for every K."""
    return np.random.default_rng(7).normal(size=(arms, 2))


ALGORITHMS: dict[str, AnyAlgorithm] = {name: kind() for name, kind in REGISTRY.items()} | {
    "FedExp3": fb.FedExp3(0.7, fb.schedules.power(0.2, 1 / 3)),
    "SharingFedExp3": fb.SharingFedExp3(exploration=fb.schedules.power(0.2, 1 / 3), share=0.05),
    "TrackingFedExp3": fb.TrackingFedExp3(exploration=fb.schedules.power(0.2, 1 / 3)),
    "Exp3": fb.Exp3(0.7, fb.schedules.power(0.2, 1 / 3)),
    "AcceleratedFedExp3": fb.AcceleratedFedExp3(0.7, fb.schedules.power(0.2, 1 / 3)),
    "BlockGossip": fb.BlockGossip(0.3, fb.schedules.power(0.5, 1 / 3), 3),
    "PrivateFedExp3": fb.PrivateFedExp3(2.0, 2.5, 3, 0.2, fb.schedules.power(0.5, 1 / 3)),
    "HeldFedExp3": fb.HeldFedExp3(2.0, 3, 0.2, fb.schedules.power(0.5, 1 / 3)),
    "FedHedge": fb.FedHedge(fb.schedules.anytime(1.5)),
    "FedFTRL": FarFedFTRL(entropy_scale=0.2),
    "Exp3Coop": fb.Exp3Coop(0.7, hops=2),
    "DelayedFTRL": fb.DelayedFTRL(hops=2),
    "LinearBlockGossip": PlanarBlockGossip(
        learning_rate=fb.schedules.power(0.5, 1 / 3), exploration=0.3, block=3, uniform=0.1
    ),
}
"""One of each: with rates of its own where a test, or its oracle, is sharper for them."""

# One of each way to learn and to send stays in `make quick`; the others have tests of their own.
QUICK = {"FedExp3", "GossipUCB"}
every_algorithm = pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, marks=() if name in QUICK else pytest.mark.slow)
        for name in sorted(REGISTRY)
    ],
)


def sent_by(
    problem: fb.Problem, algorithm: AnyAlgorithm, gossip: fb.Gossip | None
) -> Communication:
    """The `communication` of a result, counted without playing."""
    start = prepare(problem, algorithm, gossip, 1, 0, dtype="float32")
    return communication(gossip, start.algorithm, start.sent)


@st.composite
def connected_networks(draw: st.DrawFn, agents: int) -> fb.Network:
    """A path, a star, or a random tree with random further edges."""
    if agents == 1:
        return fb.networks.path(1)
    shape = draw(st.sampled_from(["path", "star", "tree"]))
    if shape == "path":
        return fb.networks.path(agents)
    if shape == "star":
        return fb.networks.star(agents)
    edges = {(draw(st.integers(0, v - 1)), v) for v in range(1, agents)}
    pairs = [(u, v) for v in range(agents) for u in range(v)]
    edges |= set(draw(st.lists(st.sampled_from(pairs), max_size=agents)))
    return fb.networks.from_edges(agents, sorted(edges))


def random_losses(agents: int, arms: int, horizon: int, seed: int) -> np.ndarray[Any, Any]:
    """Losses `[T, N, K]` with exact zeros and ones among them."""
    rng = np.random.default_rng(seed)
    losses = rng.uniform(size=(horizon, agents, arms))
    losses[rng.uniform(size=losses.shape) < 0.2] = 0.0
    losses[rng.uniform(size=losses.shape) < 0.2] = 1.0
    return losses


def hand_made(regret: npt.ArrayLike, changes: Mapping[str, Any] | None = None) -> fb.Result:
    """A result that nobody played: FedExp3 on a grid of nine agents, with three arms.

    Args:
        regret: `[run, time]`.
        changes: of the configuration, by path, such as `algorithm.learning_rate`.
    """
    config: dict[str, Any] = {
        "version": "0",
        "problem": {"name": "ActivatedBernoulli", "agents": 9, "seed": 0},
        "network": {"name": "grid", "rows": 3, "cols": 3},
        "gossip": {"name": "max_degree", "lazy": True},
        "algorithm": {
            "name": "FedExp3",
            "learning_rate": {"name": "Constant", "value": 0.1},
            "exploration": {"name": "Power", "c": 0.01, "a": 1 / 3},
        },
        "runs": 5,
        "seed": 0,
    }
    for path, value in (changes or {}).items():
        *tables, key = path.split(".")
        table = config
        for name in tables:
            table = table[name]
        table[key] = value
    values = np.asarray(regret, np.float64)
    times = np.arange(1, values.shape[1] + 1)
    data = xr.Dataset(
        {
            "regret": (("run", "time"), values),
            "arm_loss": (("time", "arm"), times[:, None] * [0.2, 0.5, 0.9]),
        },
        coords={"time": times, "agent": range(9), "arm": range(3)},
        attrs={"config": json.dumps(config), "against": "current"},
    )
    return fb.Result(data, fb.gossip.max_degree(fb.networks.grid(3, 3)))


SMALL_CONFIG = """
runs = 2

[problem]
name = "activated_bernoulli"
agents = 4
arms = 3
horizon = 20

[network]
name = "grid"
rows = 2
cols = 2

[gossip]
name = "max_degree"

[algorithm]
name = "FedExp3"
"""
