"""Snapshots of every agent: what they say, how much they take, and that nothing else changes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import fedbandits as fb
from fedbandits.engine.trajectory import trajectory
from fedbandits.results import snapshots
from fedbandits.results.snapshots import DIMENSIONS, bytes_each, snapshot_rounds
from tests.engine.simulations import simulate_each

GOSSIP = fb.gossip.max_degree(fb.networks.grid(2, 3))
LOSSES = np.random.default_rng(4).uniform(size=(60, 6, 3))
PROBLEM = fb.problems.from_tensor(LOSSES)


def recorded(**told: Any) -> fb.Result:
    call = {"runs": 2, "seed": 8, "dtype": "float64", **told}
    return fb.simulate(PROBLEM, fb.FedExp3(), GOSSIP, record="agents", **call)


@pytest.mark.slow
def test_snapshots_are_of_what_was_played_next() -> None:
    data = recorded().dataset
    # Against every round in full, with the round after each.
    run = trajectory(PROBLEM, fb.FedExp3(), GOSSIP, runs=2, seed=8)
    p = run.distribution[1:]  # [T - 1, R, N, K]
    mean = p.mean(axis=2)
    assert data["snapshot"].to_numpy().tolist() == list(range(1, 61))
    seen = data.isel(snapshot=slice(None, -1)).transpose("snapshot", ...)
    np.testing.assert_allclose(seen["mean_distribution"], mean, atol=1e-6)
    distance = np.abs(p - mean[:, :, None]).sum(axis=3) / 2
    np.testing.assert_allclose(seen["disagreement"], distance.mean(axis=2), atol=1e-6)
    ordered = np.sort(p, axis=3)
    clear = ordered[..., -1] > ordered[..., -2] * (1 + 1e-5)  # equals have no leader
    assert clear.mean() > 0.5
    np.testing.assert_array_equal(seen["leading_arm"].to_numpy()[clear], p.argmax(axis=3)[clear])
    expected = np.einsum("trnk,tk->trn", run.distribution, LOSSES.mean(axis=1)).cumsum(axis=0)
    excess = expected - expected.mean(axis=2, keepdims=True)
    np.testing.assert_allclose(
        data["agent_excess"].transpose("snapshot", ...), excess, rtol=1e-5, atol=1e-5
    )


@pytest.mark.slow
def test_the_last_snapshot_is_the_end_of_the_result() -> None:
    data = recorded().dataset
    last = data.isel(snapshot=-1)
    np.testing.assert_array_equal(last["leading_arm"], data["recommended_arm"])
    regret = data["expected_regret"].isel(time=-1) + last["agent_excess"]
    np.testing.assert_allclose(regret, data["agent_expected_regret"], atol=1e-4)


@pytest.mark.slow
def test_nothing_else_changes() -> None:
    plain = fb.simulate(PROBLEM, fb.FedExp3(), GOSSIP, runs=2, seed=8, dtype="float64")
    rich = recorded()
    assert rich.config == plain.config
    assert set(rich.dataset.data_vars) - set(plain.dataset.data_vars) == set(DIMENSIONS)
    for name, values in plain.dataset.data_vars.items():
        np.testing.assert_allclose(rich.dataset[name], values, atol=1e-9)
    for name in ("arm_frequency", "recommended_arm"):  # the very same arms
        assert rich.dataset[name].identical(plain.dataset[name])


class Failing:
    """Losses on the host that fail once."""

    def __init__(self, at: int) -> None:
        self.at = at

    def __call__(self, t: int) -> np.ndarray[Any, Any]:
        if t == self.at:
            self.at = -1
            raise RuntimeError("the machine went away")
        return np.random.default_rng(t).uniform(size=(6, 3))


@pytest.mark.soak
def test_resumed_is_bit_identical(tmp_path: Path) -> None:
    def play(losses: Failing, record: Any = "agents") -> fb.Result:
        made = fb.problems.from_function(losses, agents=6, arms=3, horizon=1200, host=True)
        return fb.simulate(
            made, fb.FedExp3(), GOSSIP, runs=2, record=record, checkpoint=tmp_path, progress=False
        )

    undisturbed = play(Failing(-1))
    with pytest.raises(RuntimeError, match="went away"):
        play(Failing(1001))
    [kept] = tmp_path.iterdir()
    play(Failing(-1), record=None)
    assert kept.exists()  # what keeps less is another simulation
    resumed = play(Failing(900))  # a round that is not played again
    assert resumed.dataset.identical(undisturbed.dataset)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.slow
def test_saved_and_loaded(tmp_path: Path) -> None:
    result = recorded()
    loaded = fb.load(result.save(tmp_path / "agents.nc"))
    assert loaded.dataset.identical(result.dataset)
    for name, dimensions in DIMENSIONS.items():
        assert loaded.dataset[name].dims == dimensions
    assert loaded.dataset["leading_arm"].dtype == np.uint8


@pytest.mark.soak
def test_with_draws_every_draw_has_its_own(tmp_path: Path) -> None:
    problem = fb.problems.activated_bernoulli(agents=6, arms=3, horizon=40)
    told: dict[str, Any] = {"runs": 2, "seed": 3, "record": "agents"}
    both = fb.simulate(problem, fb.FedExp3(), GOSSIP, draws=2, checkpoint=tmp_path, **told)
    alone = fb.simulate(problem, fb.FedExp3(), GOSSIP, **told)
    assert both.dataset["leading_arm"].dims == ("draw", *DIMENSIONS["leading_arm"])
    for name in DIMENSIONS:
        assert both.dataset[name].isel(draw=0, drop=True).identical(alone.dataset[name])


@pytest.mark.soak
def test_several_algorithms_have_one_each() -> None:
    rates = [fb.FedExp3(0.1), fb.FedExp3(0.5)]
    each = simulate_each(PROBLEM, rates, GOSSIP, runs=2, seed=8, dtype="float64", record="agents")
    for rate, result in zip(rates, each, strict=True):
        alone = fb.simulate(PROBLEM, rate, GOSSIP, runs=2, seed=8, dtype="float64", record="agents")
        for name in DIMENSIONS:
            np.testing.assert_allclose(result.dataset[name], alone.dataset[name], atol=1e-6)


@pytest.mark.slow
def test_liars_are_not_in_the_means() -> None:
    liars = {2: fb.attacks.promote(1, by=5.0)}
    data = recorded(liars=liars).dataset
    run = trajectory(PROBLEM, fb.FedExp3(), GOSSIP, runs=2, seed=8, liars=liars)
    p = np.delete(run.distribution[1:], 2, axis=2)  # of the honest, in the round after each
    mean = p.mean(axis=2)
    seen = data.isel(snapshot=slice(None, -1)).transpose("snapshot", ...)
    np.testing.assert_allclose(seen["mean_distribution"], mean, atol=1e-6)
    distance = np.abs(p - mean[:, :, None]).sum(axis=3) / 2
    np.testing.assert_allclose(seen["disagreement"], distance.mean(axis=2), atol=1e-6)
    assert data["agent_excess"].isel(agent=2).isnull().all()
    honest = data["agent_excess"].drop_isel(agent=2)
    assert honest.notnull().all()
    np.testing.assert_allclose(honest.mean("agent"), 0, atol=1e-5)


def test_as_many_as_fit() -> None:
    def problem(agents: int, horizon: int = 3000) -> fb.Problem:
        return fb.problems.activated_bernoulli(agents=agents, arms=20, horizon=horizon)

    times = snapshot_rounds(problem(3364), runs=10)
    assert (len(times), times[-1]) == (500, 3000)
    assert snapshot_rounds(problem(3364, horizon=7), runs=10).tolist() == list(range(1, 8))
    for agents, runs in ((3364, 20), (10**6, 1), (10**6, 2)):
        times = snapshot_rounds(problem(agents), runs)
        taken = len(times) * bytes_each(problem(agents), runs)
        assert snapshots.MOST_BYTES / 2 < taken <= snapshots.MOST_BYTES
        assert times[-1] == 3000
        assert len({*np.diff(times)}) == 1


def test_too_many_runs_are_refused_before_anything_is_made() -> None:
    problem = fb.problems.activated_bernoulli(agents=10**6, arms=20, horizon=3000)
    words = (
        r'record="agents" keeps at most 134,217,728 bytes, and 10 snapshots of 1,000,000 agents in '
        r"3 runs \(of all draws\) would take 150,002,520; choose runs of at most 2, or leave record"
    )
    with pytest.raises(ValueError, match=words):
        fb.simulate(problem, fb.Exp3(), runs=3, record="agents")
    with pytest.raises(ValueError, match=r"in 4 runs \(of all draws\)"):
        fb.simulate(problem, fb.Exp3(), runs=2, draws=2, record="agents")
    with pytest.raises(ValueError, match="record must be \"agents\" or None, not 'agent'"):
        fb.simulate(problem, fb.Exp3(), record="agent")  # type: ignore[arg-type]


def test_a_short_horizon_is_kept_whole_or_refused() -> None:
    problem = fb.problems.activated_bernoulli(agents=10**6, arms=20, horizon=3)
    assert snapshot_rounds(problem, runs=8).tolist() == [1, 2, 3]
    with pytest.raises(ValueError, match="keeps at most"):
        snapshot_rounds(problem, runs=40)
