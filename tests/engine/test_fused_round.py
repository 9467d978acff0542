"""Rounds as one kernel each are the rounds that XLA makes: played step by step, without a GPU."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import fedbandits as fb
from fedbandits.common.backend import playing_on
from fedbandits.engine import chunk_runner, chunk_sizes, group, preparation
from fedbandits.engine.executors import choice
from fedbandits.engine.executors import kernel_round as fused_round
from fedbandits.engine.executors import kernel_support as kernels_there
from fedbandits.engine.executors.choice import ExecutorChoice
from fedbandits.engine.executors.kernels import Kernels
from fedbandits.engine.pytrees import register
from fedbandits.engine.recording import summing_kernel, summing_up
from fedbandits.engine.stages.pending_messages import relay
from fedbandits.problems.coins import Bernoulli
from tests.engine.simulations import prepare
from tests.tiers import soak_but

ARMS = 5
FUSED = {
    "AcceleratedFedExp3",
    "BlockGossip",
    "Exp3",
    "FedExp3",
    "GossipUCB",
    "SharingFedExp3",
    "Uniform",
}
"""Algorithms whose own lines can be followed with the arms in registers."""

Played = Callable[..., fb.Result]


@pytest.fixture
def kernels(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[bool]]:
    """Simulations are played as on an accelerator, kernels step by step; tells which were."""
    fused: list[bool] = []
    choose = choice.choose

    def asked(*arguments: Any) -> ExecutorChoice:
        chosen = choose(*arguments)
        fused.append(isinstance(chosen.executor, Kernels))
        return chosen

    for name in ("fused_round", "mean_losses"):
        monkeypatch.setattr(fused_round, name, partial(getattr(fused_round, name), interpret=True))
    monkeypatch.setattr(group, "choose", asked)
    for module in (chunk_runner, group, preparation):
        monkeypatch.setattr(module, "playing_on", lambda _: playing_on("gpu"))
    monkeypatch.setattr(fused_round, "TYPES", ("float32", "float64"))
    jax.clear_caches()
    with playing_on("gpu"):
        yield fused
    jax.clear_caches()


def coins(network: fb.Network, horizon: int = 12) -> fb.Problem:
    means = np.random.default_rng(0).random((network.agents, ARMS))
    return fb.problems.bernoulli(means, horizon, seed=5)


def game(algorithm: Any, network: fb.Network, runs: int = 2, **more: Any) -> fb.Result:
    gossip = fb.gossip.max_degree(network)
    problem = more.pop("problem", None) or coins(network)
    return fb.simulate(
        problem, algorithm, gossip, runs, dtype="float64", devices=1, progress=False, **more
    )


def the_same(one: fb.Result, other: fb.Result) -> None:
    """The same arms throughout, and sums to rounding."""
    assert set(one.dataset) == set(other.dataset)
    for name in one.dataset:
        a, b = (np.asarray(result.dataset[name]) for result in (one, other))
        np.testing.assert_allclose(a, b, rtol=1e-9, atol=1e-9, err_msg=str(name))


NETWORKS = {
    "near in the numbering": fb.networks.grid(20, 17),  # 340 agents: three blocks, one not full
    "all with all": fb.networks.complete(300),
    "by a product": fb.networks.random_geometric(270, 0.5, seed=0),
    "by lists": fb.networks.star(300),
}


@pytest.mark.slow
@pytest.mark.parametrize("network", NETWORKS.values(), ids=NETWORKS)
@pytest.mark.parametrize("runs", soak_but([3], [1, 3]))
def test_kernels_play_the_same_arms(
    network: fb.Network, runs: int, request: pytest.FixtureRequest
) -> None:
    """Any of its lines for the gossip, whether agents of several runs share a block or not."""
    plain = game(fb.FedExp3(), network, runs)
    fused: list[bool] = request.getfixturevalue("kernels")
    the_same(game(fb.FedExp3(), network, runs), plain)
    assert fused == [True]


@pytest.mark.slow
@pytest.mark.parametrize("name", soak_but(["FedExp3", "GossipUCB"], sorted(FUSED)))
def test_kernels_follow_the_algorithms_own_lines(name: str, request: pytest.FixtureRequest) -> None:
    kind: Any = fb.algorithms.REGISTRY[name]
    network = fb.networks.grid(17, 17)
    algorithm = kind(block=2) if name == "BlockGossip" else kind()
    plain = game(algorithm, network)
    fused: list[bool] = request.getfixturevalue("kernels")
    the_same(game(algorithm, network), plain)
    assert fused == [True]


@pytest.mark.slow
def test_losses_that_are_made_before_are_read_and_others_drawn(
    monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest
) -> None:
    network = fb.networks.grid(20, 17)
    plain = game(fb.FedExp3(0.3), network)
    request.getfixturevalue("kernels")
    drawn: list[Any] = []
    draw = fused_round.Drawn

    def drawing(*given: Any) -> Any:
        drawn.append(given)
        return draw(*given)

    monkeypatch.setattr(fused_round, "Drawn", drawing)
    the_same(game(fb.FedExp3(0.3), network), plain)
    assert not drawn
    monkeypatch.setattr(chunk_sizes, "MOST_LOSSES_HELD", 1)
    jax.clear_caches()
    the_same(game(fb.FedExp3(0.3), network), plain)
    assert drawn


@pytest.mark.slow
def test_what_kernels_leave_is_summed_up_in_one_pass(
    monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest
) -> None:
    network = fb.networks.grid(20, 17)
    plain = game(fb.FedExp3(0.3), network, runs=1)
    request.getfixturevalue("kernels")
    passes: list[Any] = []

    def one_pass(*given: Any) -> Any:
        passes.append(given)
        return summing_kernel.in_one_pass(*given, interpret=True)

    monkeypatch.setattr(summing_up, "in_one_pass", one_pass)
    monkeypatch.setattr(summing_kernel, "LEAST", 1)
    the_same(game(fb.FedExp3(0.3), network, runs=1), plain)
    assert passes


@pytest.mark.parametrize("agents", [5, 16, 32, 40, 64, 71])
@pytest.mark.parametrize("arms", [2, 5])
def test_losses_that_no_kernel_writes_down_are_added_up(
    agents: int, arms: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of blocks that are full or begun, of arms with and without another."""
    monkeypatch.setattr(fused_round, "COUNTED", 16)
    means = np.random.default_rng(2).random((agents, arms))
    problem = fb.problems.bernoulli(means, 9, seed=4)
    register(problem)
    times = jnp.array([1, 3, 9], "int32")
    drawn = fused_round.Drawn(problem, jax.vmap(problem.key_of)(times))
    found = fused_round.mean_losses(drawn, "float32", interpret=True)
    expected = [np.asarray(problem.losses(t)).sum(axis=0) for t in times]
    np.testing.assert_array_equal(np.round(found * agents), expected)


DRAWN = {
    "the same means": fb.problems.bernoulli([0.1, 0.4, 0.5, 0.8, 0.9], 12, agents=340, seed=5),
    "activated": fb.problems.activated_bernoulli(340, ARMS, 12, seed=5),
    "switching": fb.problems.switching(340, ARMS, 12, seed=5),
}


@pytest.mark.slow
@pytest.mark.parametrize("problem", soak_but(["activated"], DRAWN))
def test_losses_of_every_kind_that_can_be_had_alone_are_drawn(
    problem: fb.Problem, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest
) -> None:
    network = fb.networks.grid(20, 17)
    plain = game(fb.FedExp3(0.3), network, problem=problem)
    fused: list[bool] = request.getfixturevalue("kernels")
    monkeypatch.setattr(chunk_sizes, "MOST_LOSSES_HELD", 1)
    the_same(game(fb.FedExp3(0.3), network, problem=problem), plain)
    assert fused == [True]


@pytest.mark.slow
def test_losses_that_triton_does_not_take_are_left_to_xla() -> None:
    """Known before, they are read; drawn by a kernel, it would have to follow their lines."""

    class Sorted(Bernoulli):
        def loss_with(self, key: Any, agent: Any, arm: Any) -> Any:
            return jnp.sort(super().loss_with(key, agent, arm))

    made = coins(fb.networks.grid(17, 17))
    assert isinstance(made, Bernoulli)
    problem = Sorted(made.agents, made.arms, made.horizon, made.means, made.seed)
    assert suitable(fb.FedExp3(), problem=problem, ahead=True)
    assert not suitable(fb.FedExp3(), problem=problem)


@pytest.mark.slow
def test_losses_of_a_table_are_read(request: pytest.FixtureRequest) -> None:
    network = fb.networks.grid(17, 17)
    losses = np.random.default_rng(1).random((12, network.agents, ARMS))
    problem = fb.problems.from_tensor(losses)
    plain = game(fb.FedExp3(), network, problem=problem)
    fused: list[bool] = request.getfixturevalue("kernels")
    the_same(game(fb.FedExp3(), network, problem=problem), plain)
    assert fused == [True]


@pytest.mark.slow
def test_stopped_and_gone_on_is_bit_identical(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kernels: list[bool]
) -> None:
    monkeypatch.setattr(chunk_sizes, "MOST_ROUNDS", 4)
    network, file = fb.networks.grid(17, 17), tmp_path / "checkpoint.npz"
    whole = game(fb.FedExp3(), network)

    def stop(milestone: fb.Milestone) -> None:
        if milestone.round == 4:
            raise InterruptedError

    with pytest.raises(InterruptedError):
        game(fb.FedExp3(), network, checkpoint=file, callback=stop)
    resumed = game(fb.FedExp3(), network, checkpoint=file)
    for name in whole.dataset:
        np.testing.assert_array_equal(whole.dataset[name], resumed.dataset[name])
    assert kernels == [True] * 3


def suitable(algorithm: Any, **more: Any) -> bool:
    network = fb.networks.grid(17, 17)
    problem = more.pop("problem", None) or coins(network)
    ahead = more.pop("ahead", False)
    with playing_on("gpu"):
        ready = prepare(problem, algorithm, fb.gossip.max_degree(network), 1, 0, **more)
        return Kernels().supports(replace(ready.plan, ahead=ahead)) is None


def test_which_algorithms_are_played_so() -> None:
    arms = np.eye(ARMS)
    kinds: dict[str, Any] = fb.algorithms.REGISTRY
    every = {
        name: kind(actions=arms) if name == "LinearBlockGossip" else kind()
        for name, kind in kinds.items()
    }
    assert {name for name, algorithm in every.items() if suitable(algorithm)} == FUSED


def test_what_is_played_as_xla_makes_it() -> None:
    assert suitable(fb.FedExp3())
    assert not suitable(fb.FedExp3(), dtype="float64")
    many = fb.problems.bernoulli(np.linspace(0, 1, fused_round.MOST_ARMS + 1), 9, agents=289)
    assert not suitable(fb.FedExp3(), problem=many)
    at_once = fb.problems.linear(289, ARMS, 9, dimension=2)
    assert not suitable(fb.FedExp3(), problem=at_once)
    assert suitable(fb.FedExp3(), problem=at_once, ahead=True)
    assert not suitable(fb.FedExp3(), privacy=fb.privacy.randomised_response(1.0))
    liars = {3: fb.attacks.promote(1)}  # whose losses are not counted
    assert not suitable(fb.FedExp3(), liars=liars)
    assert suitable(fb.FedExp3(), liars=liars, ahead=True)


@dataclass(frozen=True, init=False)
class Doubled(fb.FedExp3):
    """What it tells is not what it holds."""

    def message(self, state: Any) -> dict[str, Any]:
        return {"z": 2 * state.z}


def test_a_message_that_is_computed_is_taken_too() -> None:
    assert suitable(Doubled())


def test_no_batch_and_not_on_a_cpu(monkeypatch: pytest.MonkeyPatch) -> None:
    def asked(*_: Any) -> bool:
        raise AssertionError("a CPU has no such kernels")

    monkeypatch.setattr(fused_round, "triton_takes_round", asked)
    game(fb.FedExp3(), fb.networks.grid(3, 3), 1)


def test_a_gpu_without_triton_plays_as_xla_makes_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(jax, "default_backend", lambda: "gpu")
    kernels_there._tried.cache_clear()
    with playing_on("gpu"):  # there is none here, and so Triton makes nothing for it
        assert not kernels_there.kernels()
    kernels_there._tried.cache_clear()
    monkeypatch.undo()
    with playing_on("gpu"):
        assert kernels_there.kernels()
    for other in ("cpu", "tpu"):
        with playing_on(other):
            assert not kernels_there.kernels()


@pytest.mark.slow
@pytest.mark.parametrize("name", sorted(FUSED))
def test_an_accelerator_can_be_given_the_kernels(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Made for CUDA, which needs none: a function that Triton does not know is refused here."""
    algorithm, network = fb.algorithms.REGISTRY[name](), fb.networks.grid(17, 17)
    problem, gossip = coins(network), fb.gossip.max_degree(network)
    for module in (group, preparation):
        monkeypatch.setattr(module, "playing_on", lambda _: playing_on("gpu"))
    with playing_on("gpu"):
        ready = prepare(problem, algorithm, gossip, 2, 0)

        def play(ready_algorithm: Any, conditions: Any, problem: Any, state: Any) -> Any:
            times = jnp.arange(1, 3, dtype="int32")
            stretch = fused_round.stretch_of(
                ready_algorithm, problem, None, jnp.uint32(0), times, "float32"
            )

            def receive(state: Any, t: Any) -> Any:
                return relay(ready_algorithm, conditions, state, None, t)

            return fused_round.play_stretch(stretch, conditions, state, 2, network.agents, receive)

        given = (ready.algorithm, ready.stages, problem, ready.carry.state)
        made = jax.jit(play).trace(*given).lower(lowering_platforms=("cuda",))
    assert "fused_round" in made.as_text()
