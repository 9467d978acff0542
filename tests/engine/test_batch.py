"""A batch of algorithms gives what each gives alone, in one compilation."""

from __future__ import annotations

import errno
import os
from pathlib import Path
from typing import Any

import jax
import numpy as np
import pytest

import fedbandits as fb
from fedbandits.algorithms import AnyAlgorithm
from fedbandits.common import interrupts
from fedbandits.engine import checkpoint, chunk_sizes, devices
from fedbandits.engine.chunk_runner import play_chunks
from fedbandits.engine.executors.program import compilations
from fedbandits.engine.preparation import precision, prepare_draws
from fedbandits.engine.totals import play_totals
from fedbandits.simulation.simulation import Simulation
from tests.engine.simulations import simulate_draws, simulate_each

PROBLEM = fb.problems.activated_bernoulli(agents=9, arms=4, horizon=210, seed=5)
GOSSIP = fb.gossip.max_degree(fb.networks.grid(3, 3))


@pytest.mark.parametrize(
    "algorithms",
    [
        [fb.FedExp3(rate, fb.schedules.power(rate / 10, 1 / 3)) for rate in (0.1, 0.7, 2.0)],
        pytest.param([fb.FedHedge(rate) for rate in (0.1, 0.7)], marks=pytest.mark.soak),
        pytest.param([fb.GossipUCB()], marks=pytest.mark.soak),
    ],
)
def test_each_is_what_simulate_gives(algorithms: list[AnyAlgorithm]) -> None:
    """Sums of 210 losses in [0, 1] round by less than 210² · 2^-53 = 5e-12."""
    each = simulate_each(PROBLEM, algorithms, GOSSIP, runs=3, seed=2, dtype="float64")
    for algorithm, batched in zip(algorithms, each, strict=True):
        alone = fb.simulate(PROBLEM, algorithm, GOSSIP, runs=3, seed=2, dtype="float64")
        assert batched.config == alone.config
        assert batched.communication == alone.communication
        for name in ("arm_frequency", "recommended_arm"):
            np.testing.assert_array_equal(batched.dataset[name], alone.dataset[name])
        for name in ("regret", "worst_regret", "agent_expected_regret", "arm_loss"):
            np.testing.assert_allclose(
                batched.dataset[name], alone.dataset[name], rtol=0, atol=1e-11
            )


@pytest.mark.slow
def test_a_batch_compiles_once_and_asks_for_losses_once() -> None:
    asked: list[int] = []

    def losses(t: int) -> np.ndarray[tuple[int, int], np.dtype[np.float64]]:
        asked.append(t)
        return np.random.default_rng(t).uniform(size=(9, 4))

    problem = fb.problems.from_function(losses, agents=9, arms=4, horizon=200, host=True)
    before = compilations()
    simulate_each(problem, [fb.Exp3(0.1), fb.Exp3(0.2), fb.Exp3(0.3)], runs=2)
    # Three times 64 rounds to know the function by, 3 to check it, and every round once.
    assert len(asked) <= 3 * (64 + 3) + 200
    simulate_each(problem, [fb.Exp3(0.4), fb.Exp3(0.5), fb.Exp3(0.6)], runs=2)
    assert compilations() == before + 1


@pytest.mark.slow
def test_several_kinds_are_played_in_groups() -> None:
    """Each kind by a program of its own, and results in the order of the simulations."""
    algorithms: list[Any] = [fb.Exp3(0.1), fb.Uniform(), fb.Exp3(0.2)]
    together = simulate_each(PROBLEM, algorithms, runs=2, dtype="float64")
    for algorithm, result in zip(algorithms, together, strict=True):
        alone = fb.simulate(PROBLEM, algorithm, runs=2, dtype="float64")
        assert result.config == alone.config
        np.testing.assert_allclose(result.dataset["regret"], alone.dataset["regret"], rtol=1e-9)


@pytest.mark.soak
def test_the_accelerators_way_plays_the_same_arms(monkeypatch: pytest.MonkeyPatch) -> None:
    """Arms written out, coins as bytes, neighbours as shifts: all of it runs on a CPU too."""
    problem = fb.problems.bernoulli(np.linspace(0.1, 0.9, 3), 37, agents=17 * 19)
    gossip = fb.gossip.max_degree(fb.networks.grid(17, 19))
    algorithms: list[AnyAlgorithm] = [fb.FedExp3(0.5, 0.1), fb.GossipUCB()]

    def play(runs: int) -> list[fb.Result]:
        return [
            fb.simulate(problem, each, gossip, runs=runs, dtype="float64") for each in algorithms
        ]

    plain = play(runs=2)
    gossip = fb.gossip.max_degree(gossip.network)  # whose forms are yet to be made
    with monkeypatch.context() as elsewhere:
        elsewhere.setattr(devices.Spread, "platform", "accelerator")
        jax.clear_caches()
        accelerated = play(runs=2)
    jax.clear_caches()
    for one, other in zip(plain, accelerated, strict=True):
        np.testing.assert_array_equal(one.dataset["arm_frequency"], other.dataset["arm_frequency"])
        np.testing.assert_allclose(
            one.dataset["worst_regret"], other.dataset["worst_regret"], rtol=0, atol=1e-9
        )


@pytest.mark.slow
@pytest.mark.parametrize("ending", [KeyboardInterrupt, RuntimeError])
def test_a_batch_goes_on_from_its_checkpoint(
    ending: type[BaseException], tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    fails_at, asked = [-1], []

    def losses(t: int) -> np.ndarray[Any, Any]:
        asked.append(t)
        if t == fails_at[0]:
            fails_at[0] = -1
            raise ending("the machine went away")
        return np.random.default_rng(t).uniform(size=(9, 4))

    problem = fb.problems.from_function(losses, agents=9, arms=4, horizon=1500, host=True)
    algorithms = [fb.FedExp3(0.1), fb.FedExp3(0.3)]
    undisturbed = simulate_each(problem, algorithms, GOSSIP, runs=2)
    fails_at[0] = 1234
    with pytest.raises(ending, match="went away"):
        simulate_each(problem, algorithms, GOSSIP, runs=2, checkpoint=tmp_path)
    asked.clear()
    caplog.set_level("INFO", logger="fedbandits")
    kept = {"checkpoint": tmp_path, "keep_checkpoint": True}
    resumed = simulate_each(problem, algorithms, GOSSIP, runs=2, **kept)
    assert "going on after round 1000 of 1500" in caplog.messages
    # For each algorithm 64 rounds are asked for, to know the function by.
    assert sum(t <= 1000 for t in asked) <= 2 * 64
    for one, other in zip(undisturbed, resumed, strict=True):
        assert one.dataset.identical(other.dataset)
    # Kept until the results are safe; another batch does not take it for its own.
    assert [path.suffix for path in tmp_path.iterdir()] == [".npz"]
    caplog.clear()
    simulate_each(problem, algorithms[::-1], GOSSIP, runs=2, checkpoint=tmp_path)
    assert not any("going on" in message for message in caplog.messages)


@pytest.mark.slow
def test_a_checkpoint_that_cannot_be_written_is_the_disks_fault(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*args: Any, **kwargs: Any) -> Any:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(checkpoint, "SECONDS", 0.0)
    monkeypatch.setattr(np, "savez", full)
    monkeypatch.setattr(chunk_sizes, "MOST_ROUNDS", 105)
    with pytest.raises(checkpoint.CheckpointError, match=r"\.npz cannot be written \(No space"):
        simulate_each(PROBLEM, [fb.Exp3(1.0), fb.Exp3(0.3)], runs=2, checkpoint=tmp_path)


def test_against_is_checked_before_anything_is_played() -> None:
    with pytest.raises(ValueError, match="against must be 'current' or 'final', not 'foo'"):
        # A word that types forbid, and that a configuration file may still hold.
        simulate_each(PROBLEM, [fb.Exp3(0.1)], runs=2, against="foo")


@pytest.mark.parametrize("times", [[], [0, 5], [5, 5], [7, 5], [10**6]])
def test_times_are_rounds_in_order(times: list[int]) -> None:
    with pytest.raises(ValueError, match="times must be rounds from 1 to"):
        simulate_draws([PROBLEM], fb.FedExp3(), GOSSIP, times=times)


@pytest.mark.slow
def test_the_losses_of_every_round_are_kept_where_they_are_asked_for(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(chunk_sizes, "MOST_ROUNDS", 105)  # in more than one chunk
    draws = [PROBLEM, PROBLEM.redraw(6)]
    found = simulate_draws(draws, fb.FedExp3(), GOSSIP, times=[50, 210], rounds=True)
    assert found["round_loss"].dims == ("draw", "round", "arm")
    for d, problem in enumerate(draws):
        losses = problem.block(1, 210).mean(axis=1)
        np.testing.assert_allclose(found["round_loss"][d], losses, atol=1e-6)
    assert "round_loss" not in simulate_draws(draws, fb.FedExp3(), GOSSIP)


@pytest.mark.slow
def test_draws_make_no_curves_that_nobody_reads() -> None:
    found: list[Any] = []
    with interrupts.calm(), precision("float32"):
        group = prepare_draws(Simulation(PROBLEM, fb.FedExp3(), GOSSIP, 1).on([PROBLEM, PROBLEM]))
        play_chunks(group, record=lambda _, curves, __: found.append(curves))
    assert found[0].incurred is None  # which is made of the frequencies
    assert found[0].frequency is None
    assert found[0].worst_excess is None


@pytest.mark.slow
def test_the_draw_whose_losses_leave_the_range_is_found() -> None:
    """Coins scaled to [0, 1 / high]: only the second of three draws goes beyond 1."""
    draws = [fb.problems.scaled(PROBLEM, low=0, high=high) for high in (1.0, 0.5, 2.0)]
    with pytest.raises(ValueError, match=r"round 1, agent 0, arm 1 .* = \[0, 0\.5\]"):
        simulate_draws(draws, fb.FedExp3(), GOSSIP)


def test_draws_with_different_algorithms_are_refused() -> None:
    """The algorithm of the first would play them all."""
    each = [Simulation(PROBLEM, algorithm, GOSSIP, 1) for algorithm in (fb.FedExp3(), fb.FedExp3())]
    with pytest.raises(ValueError, match="have different algorithms"):
        play_totals(each)


def test_draws_of_another_kind_are_refused() -> None:
    other = fb.problems.activated_bernoulli(agents=9, arms=5, horizon=210)
    with pytest.raises(ValueError, match="in more than seeds and arrays"):
        simulate_draws([PROBLEM, other], fb.FedExp3(), GOSSIP)
