"""Runs and agents spread over devices: order free, as the design says."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import jax
import numpy as np
import pytest

import fedbandits as fb
from fedbandits.engine.devices import spread

# How arrays are spread is decided before code is optimised, which takes half of the time.
PLAIN = "--xla_backend_optimization_level=0"

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
            problem, algorithm, gossip, runs=2, dtype="float64", devices=count, record="agents"
        ).dataset
        mesh = laid[-1].excess.sharding.mesh
        assert (mesh.shape["runs"], mesh.shape["agents"]) == split[count], mesh
        state = jax.tree.leaves(laid[-1].state)[0]
        assert state.sharding.shard_shape(state.shape) == (
            4, 2 // split[count][0], 300 // split[count][1]
        )
    for name in ("arm_frequency", "recommended_arm", "leading_arm"):
        np.testing.assert_array_equal(found[4][name], found[1][name], err_msg=name)
    for name in ("regret", "expected_regret", "worst_regret", "agent_regret"):
        np.testing.assert_allclose(found[4][name], found[1][name], rtol=0, atol=1e-9)
    for name in ("mean_distribution", "disagreement", "agent_excess"):
        np.testing.assert_allclose(found[4][name], found[1][name], rtol=0, atol=1e-5)

# By default all devices of a CPU, as many as divide the runs.
fb.simulate(problem, fb.Exp3(), runs=6)
assert dict(laid[-1].excess.sharding.mesh.shape) == {"runs": 3, "agents": 1}

# float32: in round 1 all play uniformly; what is expected of round 2 no later arm can have moved.
narrow = [
    fb.simulate(problem, fb.FedExp3(0.7, 0.1), fb.gossip.max_degree(grid), runs=2, devices=count)
    for count in (1, 4)
]
one, four = (result.dataset["expected_regret"][:, :2] for result in narrow)
np.testing.assert_allclose(one, four, rtol=0, atol=1e-6)  # a few float32 numbers in [0, 1]
print("all the same")
"""


def run_with(devices: int, code: str, *arguments: str, flags: str = "") -> str:
    """What a process in which JAX has so many devices prints."""
    environment = os.environ | {
        "JAX_NUM_CPU_DEVICES": str(devices),
        "XLA_FLAGS": f"{os.environ.get('XLA_FLAGS', '')} {flags}".strip(),
    }
    done = subprocess.run(
        [sys.executable, "-c", code, *arguments],
        env=environment,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    return done.stdout.strip()


@pytest.mark.soak
def test_four_devices_play_as_one() -> None:
    assert run_with(4, ON_FOUR_DEVICES, flags=PLAIN) == "all the same"


# What each number of devices in use finds, as files.
USED = """
import sys
from pathlib import Path

import jax
import numpy as np

import fedbandits as fb

# Large enough that on another number of devices sums round differently.
losses = np.random.default_rng(0).uniform(size=(60, 36, 6))
problem = fb.problems.from_tensor(losses)
gossip = fb.gossip.metropolis(fb.networks.grid(6, 6))
for used in (None, *(number for number in (1, 2) if number < len(jax.devices()))):
    result = fb.simulate(problem, fb.FedExp3(0.1, 0.1), gossip, runs=4, devices=used)
    result.save(Path(sys.argv[1], f"{used or len(jax.devices())}.nc"))
"""


@pytest.mark.soak
def test_the_same_bits_on_as_many_devices_however_many_there_are(tmp_path: Path) -> None:
    found: dict[int, list[fb.Result]] = {}
    for available in (1, 2, 4):
        run_with(available, USED, str(tmp_path / str(available)))
        for path in (tmp_path / str(available)).iterdir():
            found.setdefault(int(path.stem), []).append(fb.load(path))
    assert {used: len(results) for used, results in found.items()} == {1: 3, 2: 2, 4: 1}
    for first, *others in found.values():
        for other in others:
            assert other.dataset.identical(first.dataset)
    losses = {used: results[0].dataset["arm_loss"] for used, results in found.items()}
    for used in (2, 4):  # of 36 float32 numbers the sums in two orders
        np.testing.assert_allclose(losses[used], losses[1], rtol=36 * 2**-23)


ODD_AND_EVEN = """
import jax
import numpy as np

import fedbandits as fb
from fedbandits.engine import devices

problem = fb.problems.activated_bernoulli(agents=9, arms=5, horizon=60, seed=1)
gossip = fb.gossip.max_degree(fb.networks.grid(3, 3))
everything = jax.devices()
for algorithm in (fb.FedExp3(), fb.BlockGossip(0.3, 0.1, 3), fb.FedHedge(0.5)):
    for runs in (3, 4):
        found = {}
        for count in (1, 2, 4):  # as a machine with so many cores spreads them by itself
            devices._chosen = lambda _: everything[:count]
            found[count] = fb.simulate(problem, algorithm, gossip, runs, dtype="float64").dataset
        for other in (found[2], found[4]):
            for name in ("arm_frequency", "recommended_arm"):
                np.testing.assert_array_equal(other[name], found[1][name], err_msg=name)
            for name in found[1].data_vars:
                np.testing.assert_allclose(other[name], found[1][name], rtol=0, atol=1e-9)
print("all the same")
"""


@pytest.mark.soak
def test_in_float64_any_number_of_devices_plays_the_same_arms() -> None:
    assert run_with(4, ODD_AND_EVEN, flags=PLAIN) == "all the same"


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


@pytest.mark.slow
@pytest.mark.parametrize("runs", [1, len(jax.devices("cpu"))])
def test_all_devices_of_this_process_play_as_one(runs: int) -> None:
    """Spread by agents or by runs."""
    gossip = fb.gossip.metropolis(fb.networks.grid(2, 3))
    one, all_ = (
        fb.simulate(PROBLEM, fb.FedExp3(), gossip, runs, dtype="float64", devices=count).dataset
        for count in (1, len(jax.devices()))
    )
    np.testing.assert_array_equal(all_["arm_frequency"], one["arm_frequency"])
    np.testing.assert_allclose(all_["regret"], one["regret"], rtol=0, atol=1e-9)


def test_devices_that_divide_nothing_are_left_idle() -> None:
    where = spread(None, runs=1, agents=7)
    assert dict(where.mesh.shape) == {"runs": 1, "agents": 1}


def test_this_process_has_the_devices_that_any_other_has() -> None:
    """Whatever test started JAX here: cells of other processes are compared bit by bit."""
    assert len(jax.devices("cpu")) == jax.config.jax_num_cpu_devices  # type: ignore[attr-defined]
