"""Runs and agents spread over devices: order free, as the design says."""

from __future__ import annotations

import os
import subprocess
import sys
from typing import Any

import jax
import pytest

import fedbandits as fb
from fedbandits.engine.devices import spread

PROBLEM = fb.problems.activated_bernoulli(agents=6, arms=3, horizon=20, seed=0)

# In a process of its own: the number of devices is fixed when JAX starts.
ON_FOUR_DEVICES = """
import sys

import jax
import numpy as np

import fedbandits as fb
from fedbandits.engine import devices

assert len(jax.devices()) == 4, jax.devices()
laid = []
original = devices.Spread.put
devices.Spread.put = lambda self, tree: laid.append(original(self, tree)) or laid[-1]

problem = fb.problems.activated_bernoulli(agents=300, arms=4, horizon=60, seed=1)
grid, dense = fb.networks.grid(20, 15), fb.networks.random_geometric(300, 0.5, seed=0)
split = {1: (1, 1), 4: (2, 2)}  # two runs: two devices by runs, then two by agents
for network, algorithm in (
    (grid, fb.FedExp3(0.7, 0.1)), (dense, fb.GossipUCB()),
):
    gossip = fb.gossip.max_degree(network)
    found = {}
    for count in split:
        found[count] = fb.simulate(
            problem, algorithm, gossip, runs=2, dtype="float64", devices=count
        ).dataset
        mesh = laid[-1].lead.sharding.mesh
        assert (mesh.shape["runs"], mesh.shape["agents"]) == split[count], mesh
        state = jax.tree.leaves(laid[-1].state)[0]
        assert state.sharding.shard_shape(state.shape) == (
            4, 2 // split[count][0], 300 // split[count][1]
        )
    for name in ("arm_frequency", "recommended_arm"):
        np.testing.assert_array_equal(found[4][name], found[1][name], err_msg=name)
    for name in ("regret", "expected_regret", "worst_regret", "agent_regret"):
        np.testing.assert_allclose(found[4][name], found[1][name], rtol=0, atol=1e-9)

# By default all devices of a CPU, as many as divide the runs.
fb.simulate(problem, fb.Exp3(), runs=6)
assert dict(laid[-1].lead.sharding.mesh.shape) == {"runs": 3, "agents": 1}

# float32: in round 1 all play uniformly; what is expected of round 2 no later arm can have moved.
narrow = [
    fb.simulate(problem, fb.FedExp3(0.7, 0.1), fb.gossip.max_degree(grid), runs=2, devices=count)
    for count in (1, 4)
]
one, four = (result.dataset["expected_regret"][:, :2] for result in narrow)
np.testing.assert_allclose(one, four, rtol=0, atol=1e-6)  # a few float32 numbers in [0, 1]
print("all the same")
"""


@pytest.mark.slow
def test_four_devices_play_as_one() -> None:
    """In float64 the same arms; how arrays are spread is decided before code is optimised."""
    flags = "--xla_force_host_platform_device_count=4 --xla_backend_optimization_level=0"
    environment = os.environ | {"XLA_FLAGS": f"{os.environ.get('XLA_FLAGS', '')} {flags}"}
    done = subprocess.run(
        [sys.executable, "-c", ON_FOUR_DEVICES],
        env=environment,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.stdout.strip() == "all the same", done.stderr[-3000:]


@pytest.mark.parametrize(
    ("devices", "error", "message"),
    [
        (0, ValueError, "devices must be"),
        (10**6, ValueError, "devices is 1000000, but JAX has"),
        ([], TypeError, "some of jax.devices()"),
        (["gpu"], TypeError, "some of jax.devices()"),
        ("gpu", TypeError, "some of jax.devices()"),
    ],
)
def test_refused(devices: Any, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message.replace("(", r"\(").replace(")", r"\)")):
        fb.simulate(PROBLEM, fb.Exp3(), runs=2, devices=devices)


@pytest.mark.slow
def test_a_device_may_be_named() -> None:
    last = jax.devices()[-1]
    named = fb.simulate(PROBLEM, fb.Exp3(), runs=2, devices=[last])
    assert named.dataset.identical(fb.simulate(PROBLEM, fb.Exp3(), runs=2, devices=1).dataset)


def test_devices_that_divide_nothing_are_left_idle() -> None:
    where = spread(None, runs=1, agents=7)
    assert dict(where.mesh.shape) == {"runs": 1, "agents": 1}
