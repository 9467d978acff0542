"""FedExp3 for a best arm that changes: a memory, several memories, and fixed share."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

import fedbandits as fb
from fedbandits.algorithms.base import Setting
from fedbandits.algorithms.exponential_weights import softmax
from fedbandits.algorithms.sharing_fedexp3 import shared
from fedbandits.common.describe import describe
from fedbandits.config.document import load_config
from fedbandits.engine.executors.program import compilations
from fedbandits.engine.trajectory import trajectory
from fedbandits.live.protocol.suitability import UnsuitableError, check_suitable
from fedbandits.theory.theorems import RunFacts, theorem_of
from fedbandits.tuning import knobs
from tests.instances import ORACLE_SIZES, SMALL_CONFIG, connected_networks, random_losses
from tests.oracles import paper as oracle
from tests.pages.source import ROOT
from tests.tiers import soak_but

GRID = fb.gossip.max_degree(fb.networks.grid(2, 3))


@pytest.mark.parametrize("forever", [0.0, 1.0, -0.1, float("nan"), True, "long"])
def test_a_weight_is_between_0_and_1(forever: object) -> None:
    with pytest.raises((TypeError, ValueError), match="forever"):
        fb.TrackingFedExp3(forever=forever)  # type: ignore[arg-type]  # no weight: the point


def test_who_trusts_one_memory_plays_as_it() -> None:
    """With nearly all weight on remembering forever it is FedExp3, until another wins by far."""
    tracker, plain = fb.TrackingFedExp3(0.5, forever=1 - 1e-12), fb.FedExp3(0.5)
    z = np.array([0.3, 2.0, 0.1, 5.0])
    state = tracker.init(4, 6, dtype=np.float64)._replace(z=z, z30=z[::-1])
    alone = plain.init(4, 6, dtype=np.float64)
    for lost, trusted in (([0.0, 1.0, 2.0, 3.0, 4.0], z), ([0.0, 50.0, 50.0, 50.0, 50.0], z[::-1])):
        found = tracker.distribution(state._replace(lost=np.array(lost)), np.int64(9))
        expected = plain.distribution(alone._replace(z=trusted), np.int64(9))
        np.testing.assert_allclose(found, expected, rtol=1e-6)


@pytest.mark.parametrize("arms", soak_but([5], [2, 5, 20]))
def test_the_bytes_are_those_that_pages_name(arms: int) -> None:
    """5 K + 5 numbers where FedExp3 sends K: 5.25 times the bytes with 20 arms."""
    problem = fb.problems.activated_bernoulli(agents=6, arms=arms, horizon=5)
    tracker, plain = (
        fb.simulate(problem, algorithm, GRID, runs=1).communication["bytes"]
        for algorithm in (fb.TrackingFedExp3(), fb.FedExp3())
    )
    assert tracker / plain == pytest.approx(5 + 5 / arms, rel=1e-12)
    for page in ("moving", "algorithms", "learning-rate"):
        text = (ROOT / f"docs/understand/{page}.md").read_text(encoding="utf-8")
        assert "`5 K + 5`" in text, page
        assert "five times" not in text, page


@pytest.mark.parametrize(("t", "rounds"), [(1, 300), (3000, 300), (3001, 300.1), (20_000, 2000)])
def test_what_memories_lost_is_forgotten_in_a_tenth_of_the_time(t: int, rounds: float) -> None:
    """And in no fewer than 300 rounds; oracles play fewer than that takes to differ."""
    algorithm = fb.TrackingFedExp3()
    state = algorithm.init(3, 6, dtype=np.float64)
    received = dict(algorithm.message(state)) | {"lost": np.full(5, 60.0)}
    p, nothing = np.full(3, 1 / 3), np.float64(0.0)
    after = algorithm.update(state, received, np.int64(0), nothing, p, np.int64(t))
    np.testing.assert_allclose(after.lost, 60 * (1 - 1 / rounds), rtol=1e-12)


@pytest.mark.slow
def test_weights_share_a_program() -> None:
    problem = fb.problems.bernoulli([0.2, 0.8], 23, agents=6)
    before = compilations()
    for forever in (0.2, 0.9):
        fb.simulate(problem, fb.TrackingFedExp3(forever=forever), GRID, runs=2)
    assert compilations() == before + 1


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
    assert load_config(path).simulation.algorithm == fb.FedExp3(memory=300)


@pytest.mark.slow
def test_memories_share_a_program() -> None:
    problem = fb.problems.bernoulli([0.2, 0.8], 23, agents=5)
    before = compilations()
    for memory in (2, 30.5, 400):
        fb.simulate(problem, fb.FedExp3(0.1, memory=memory), RING, runs=2)
    assert compilations() == before + 1


Float = np.ndarray[Any, np.dtype[np.float64]]
estimates = arrays(np.float64, 5, elements=st.floats(0, 1e6))
rates, shares = st.floats(1e-4, 10), st.floats(1e-12, 0.9)


def span(x: Float) -> float:
    return float(x.max() - x.min())


@given(estimates, rates, shares)
def test_weights_are_mixed_with_uniform_ones(
    y: Float,
    eta: float,
    share: float,
) -> None:
    """And the least estimate stays, above which none is further than ln(K/α)/η."""
    z = shared(y, eta, share)
    mixed = (1 - share) * softmax(y, eta) + share / 5
    np.testing.assert_allclose(softmax(z, eta), mixed, rtol=1e-6, atol=0)
    assert z.min() == y.min()
    assert span(z) <= np.log(5 / share) / eta * (1 + 1e-9) + 1e-9 * y.max()


@given(estimates, estimates, rates, shares)
def test_sharing_moves_no_two_agents_apart(
    one: Float,
    other: Float,
    eta: float,
    share: float,
) -> None:
    """Of one rate, in what counts: differences between arms."""
    after = shared(one, eta, share) - shared(other, eta, share)
    assert span(after) <= span(one - other) * (1 + 1e-9) + 1e-6


def test_a_rate_of_0_shares_nothing() -> None:
    y = np.array([1.0, 3.0])
    np.testing.assert_array_equal(shared(y, np.float64(0.0), 0.1), y)


@pytest.mark.parametrize("share", [0.0, 1.0, -1e-3, float("nan"), True, "some"])
def test_a_share_is_between_0_and_1(share: object) -> None:
    with pytest.raises((TypeError, ValueError), match="share"):
        fb.SharingFedExp3(share=share)  # type: ignore[arg-type]  # no share: the point


def test_it_cannot_live_apart_whatever_its_rate() -> None:
    """With a constant one it would pass for a sum: all arms more are all arms more."""
    with pytest.raises(UnsuitableError, match="ledger"):
        check_suitable(fb.SharingFedExp3(0.1), 3, 4)
