"""FedExp3 that forgets: z ← λ W z + g, λ = 1 - 1/memory."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import fedbandits as fb
from fedbandits.algorithms.base import Setting
from fedbandits.common.describe import describe
from fedbandits.config.document import load_config
from fedbandits.engine.executors.chunk import compilations
from fedbandits.engine.trajectory import trajectory
from fedbandits.theory.theorems import RunFacts, theorem_of
from fedbandits.tuning import knobs
from tests.instances import ORACLE_SIZES, SMALL_CONFIG, connected_networks, random_losses
from tests.oracles import paper as oracle

RING = fb.gossip.max_degree(fb.networks.ring(5))


@pytest.mark.parametrize("memory", [1.0, 4.0, 1e4])
@given(st.data())
def test_engine_equals_oracle(memory: float, data: st.DataObject) -> None:
    """With the default rate, which reads the z that forgets."""
    agents, arms, horizon = data.draw(st.sampled_from(ORACLE_SIZES))
    gossip = fb.gossip.max_degree(data.draw(connected_networks(agents)))
    losses = random_losses(agents, arms, horizon, data.draw(st.integers(0, 99)))
    engine = trajectory(fb.problems.from_tensor(losses), fb.FedExp3(memory=memory), gossip)
    W = gossip.matrix.toarray()
    truth = oracle.fedexp3(
        losses,
        W,
        lambda t: 0.0,
        lambda t: 0.01 * t ** (-1 / 3),
        engine.uniforms.action[:, 0],
        oracle.default_rate(W, arms),
        kept=1 - 1 / memory,
    )
    np.testing.assert_array_equal(engine.action[:, 0], truth.action)
    np.testing.assert_allclose(engine.distribution[:, 0], truth.p, rtol=1e-10, atol=1e-13)
    np.testing.assert_allclose(engine.messages["z"][:, 0], truth.z, rtol=1e-10, atol=1e-12)


def test_who_remembers_forever_is_described_as_before() -> None:
    assert list(describe(fb.FedExp3(0.1))) == ["name", "learning_rate", "exploration"]
    assert "memory" not in repr(fb.FedExp3())
    assert describe(fb.FedExp3(memory=300))["memory"] == 300


@pytest.mark.parametrize("memory", [0, 0.5, -3, float("inf"), float("nan"), True, "long"])
def test_a_memory_is_a_number_of_rounds(memory: object) -> None:
    with pytest.raises((TypeError, ValueError), match="memory"):
        fb.FedExp3(memory=memory)  # type: ignore[arg-type]  # no number: the point


def test_no_theorem_speaks_of_who_forgets() -> None:
    for algorithm, speaks in ((fb.FedExp3(0.1), True), (fb.FedExp3(0.1, memory=300), False)):
        assert (theorem_of(RunFacts(RING, 3, 400, describe(algorithm))) is not None) == speaks


def test_a_memory_is_tuned_where_it_is_set() -> None:
    setting = Setting(3, 5, RING)
    names = [knob.name for knob in knobs.grid(fb.FedExp3(), setting, 1000, 24)]
    assert names == ["learning_rate", "exploration"]
    *_, memory = knobs.grid(fb.FedExp3(memory=40), setting, 200, 48)
    assert memory.name == "memory"
    assert memory.limits == (1.0, 200.0)
    assert (memory.numbers[0], memory.numbers[-1]) == (5, 200)
    ranges = {"memory": (10, 90)}
    *_, memory = knobs.grid(fb.FedExp3(), setting, 200, 48, ranges)
    assert memory.values == (10, 30, 90)


def test_a_configuration_has_a_memory(tmp_path: Path) -> None:
    path = tmp_path / "forgets.toml"
    path.write_text(f"{SMALL_CONFIG}memory = 300\n", encoding="utf-8")
    assert load_config(path).algorithm == fb.FedExp3(memory=300)


@pytest.mark.slow
def test_memories_share_a_program() -> None:
    problem = fb.problems.bernoulli([0.2, 0.8], 23, agents=5)
    before = compilations()
    for memory in (2, 30.5, 400):
        fb.simulate(problem, fb.FedExp3(0.1, memory=memory), RING, runs=2)
    assert compilations() == before + 1
