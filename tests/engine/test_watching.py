"""Problems that watch, played: one truth, runs apart from each other, nothing forgotten."""

from __future__ import annotations

import functools
from pathlib import Path
from typing import Any

import jax
import numpy as np
import pytest

import fedbandits as fb
from fedbandits.arrays import expectation
from fedbandits.engine import checkpoint, chunk_sizes
from fedbandits.engine.devices import spread
from fedbandits.engine.preparation import precision
from fedbandits.engine.stages.round import RoundUniforms
from fedbandits.engine.trajectory import play_rounds, trajectory
from fedbandits.results.trajectory import Trajectory
from tests.engine.simulations import prepare, simulate_draws, simulate_each
from tests.instances import ALGORITHMS, planar
from tests.oracles import ORACLES, Game
from tests.oracles.watching import WATCHERS, regret

slow = pytest.mark.slow
AGENTS, ARMS, ROUNDS, RUNS = 5, 3, 40, 4  # an even number of runs, so that two devices share them
BASE = fb.problems.bernoulli([0.2, 0.4, 0.6], horizon=ROUNDS, agents=AGENTS, seed=3)
NETWORK = fb.networks.star(AGENTS)
GOSSIP = fb.gossip.max_degree(NETWORK)
SHARES: dict[str, dict[str, float]] = {
    "hit_favourite": {"strength": 0.75},
    "crowded": {"strength": 0.5},
    "warming_cache": {"saving": 0.5, "warming": 0.25},
}
PROBLEMS: dict[str, fb.Problem] = {
    name: getattr(fb.problems, name)(BASE, **shares) for name, shares in SHARES.items()
}
CROWDED = PROBLEMS["crowded"]
_play = jax.jit(play_rounds)
every_problem = pytest.mark.parametrize("kind", PROBLEMS)


@functools.cache
def seen(kind: str, name: str = "FedExp3") -> Trajectory:
    return trajectory(PROBLEMS[kind], ALGORITHMS[name], GOSSIP, runs=RUNS, seed=7)


# One truth.


@slow
@pytest.mark.parametrize(
    ("kind", "name"),
    [*((kind, name) for kind in PROBLEMS for name in ("FedExp3", "Exp3")), ("crowded", "FedHedge")],
)
def test_engine_equals_plain_numpy(kind: str, name: str) -> None:
    """The losses follow from the arms before, and the arms from the losses before.

    Round by round that leaves nothing open: both together are the plain loop of the two.
    """
    engine = seen(kind, name)
    base = BASE.block(1, ROUNDS).astype(np.float64)
    for run in range(RUNS):
        losses = WATCHERS[kind](base, engine.action[:, run], **SHARES[kind])
        np.testing.assert_allclose(engine.losses[:, run], losses, rtol=0, atol=1e-12)
        uniforms = engine.uniforms.action[:, run]
        game = Game(
            losses,
            GOSSIP.matrix.toarray(),
            NETWORK.distances().astype(int),
            planar(ARMS),
            uniforms,
            np.zeros(losses.shape),
        )
        truth = ORACLES[name].play(game)
        np.testing.assert_array_equal(engine.action[:, run], truth.action)
        np.testing.assert_allclose(engine.distribution[:, run], truth.p, rtol=0, atol=1e-10)
    assert (engine.losses[:, 0] != engine.losses[:, 1]).any()  # the runs went apart


@slow
@every_problem
def test_regret_is_against_the_losses_as_they_came(
    kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In one go on one device, and in chunks on several."""
    engine = seen(kind)
    monkeypatch.setattr(chunk_sizes, "MOST_ROUNDS", 7)
    data = fb.simulate(
        PROBLEMS[kind], ALGORITHMS["FedExp3"], GOSSIP, runs=RUNS, seed=7, dtype="float64"
    ).dataset
    mean = engine.losses.mean(axis=2)  # [T, R, K]
    np.testing.assert_allclose(data["arm_loss"], mean.cumsum(axis=0).transpose(1, 0, 2), atol=1e-9)
    truth = np.stack(
        [regret(engine.distribution[:, run], engine.losses[:, run]) for run in range(RUNS)]
    )  # [R, T, N]
    np.testing.assert_allclose(data["expected_regret"], truth.mean(axis=2), atol=1e-9)
    np.testing.assert_allclose(data["agent_expected_regret"], truth[:, -1], atol=1e-9)
    np.testing.assert_allclose(data["worst_regret"], truth.mean(axis=0).max(axis=1), atol=1e-9)
    played = np.eye(ARMS)[engine.action]
    drawn = np.stack([regret(played[:, run], engine.losses[:, run]) for run in range(RUNS)])
    np.testing.assert_allclose(data["regret"], drawn.mean(axis=2), atol=1e-9)
    np.testing.assert_allclose(data["agent_regret"], drawn[:, -1], atol=1e-9)


@pytest.mark.parametrize("arms", [3, 70])  # from 65 on sums are written otherwise
def test_expectation_of_values_that_differ_between_runs(arms: int) -> None:
    rng = np.random.default_rng(0)
    p, mean = rng.uniform(size=(arms, 4, 5)), rng.uniform(size=(arms, 4))
    found = expectation(p, mean[..., None])
    np.testing.assert_allclose(found, np.einsum("krn,kr->rn", p, mean), rtol=1e-12)


@slow
def test_liars_are_watched_but_their_losses_are_nobodys() -> None:
    """Everyone plays and congests; regret is of the honest, on the mean of their losses."""
    problem, algorithm = PROBLEMS["warming_cache"], ALGORITHMS["FedExp3"]
    given: Any = {"dtype": "float64", "liars": {1: fb.attacks.swap()}}
    result = fb.simulate(problem, algorithm, GOSSIP, RUNS, 7, **given)
    uniforms = RoundUniforms(seen("warming_cache").uniforms.action)
    with precision("float64"):
        game = prepare(problem, algorithm, GOSSIP, RUNS, 7, devices=1, **given)
        played = _play(game.algorithm, game.stages, game.carry, problem, uniforms)
        p, _, _, losses = jax.tree.map(np.asarray, played)
    honest = [0, 2, 3, 4]
    mean = losses[..., honest].mean(axis=3)  # [T, K, R]
    np.testing.assert_allclose(
        result.dataset["arm_loss"], mean.cumsum(axis=0).transpose(2, 0, 1), atol=1e-9
    )
    expected = (
        np.einsum("tkrn,tkr->rn", p[..., honest], mean) - mean.sum(axis=0).min(axis=0)[:, None]
    )
    found = result.dataset["agent_expected_regret"].to_numpy()
    np.testing.assert_allclose(found[:, honest], expected, atol=1e-9)
    assert np.isnan(found[:, 1]).all()


# Runs know nothing of each other.


@slow
@every_problem
def test_a_run_alone_is_that_run_among_others(kind: str) -> None:
    together, run = seen(kind), 2
    algorithm = ALGORITHMS["FedExp3"]
    with precision("float64"):
        game = prepare(PROBLEMS[kind], algorithm, GOSSIP, 1, 7, dtype="float64", devices=1)
        uniforms = RoundUniforms(together.uniforms.action[:, [run]])
        alone = _play(game.algorithm, game.stages, game.carry, PROBLEMS[kind], uniforms)
        p, action, _, losses = (np.asarray(leaf) for leaf in (*alone[:2], alone[2]["z"], alone[3]))
    np.testing.assert_array_equal(action[:, 0], together.action[:, run])
    np.testing.assert_allclose(
        np.moveaxis(p[:, :, 0], 1, -1), together.distribution[:, run], atol=1e-12
    )
    np.testing.assert_allclose(
        np.moveaxis(losses[:, :, 0], 1, -1), together.losses[:, run], atol=1e-12
    )


@slow
def test_an_adversary_sees_all_and_so_joins_agents_who_never_meet() -> None:
    """Definition 1 is about what agents tell each other; a crowd needs no network."""
    given = trajectory(CROWDED, fb.Exp3(0.5), runs=1)
    uniforms = given.uniforms.action.copy()
    uniforms[0, 0, 0] = 1 - uniforms[0, 0, 0]  # another arm of agent 0 in round 1
    with precision("float64"):
        game = prepare(CROWDED, fb.Exp3(0.5), None, 1, 0, dtype="float64", devices=1)
        p, action, *_ = _play(
            game.algorithm, game.stages, game.carry, CROWDED, RoundUniforms(uniforms)
        )
    assert action[0, 0, 0] != given.action[0, 0, 0]
    others = np.moveaxis(np.asarray(p)[:, :, 0, 1:], 1, -1)
    assert (others[2] != given.distribution[2, 0, 1:]).any()


# Nothing is forgotten.


@pytest.mark.optimised
@slow
@pytest.mark.parametrize("batched", [False, True])
def test_resumed_is_bit_identical(
    batched: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(chunk_sizes, "MOST_ROUNDS", 10)
    monkeypatch.setattr(checkpoint, "SECONDS", 0.0)  # a checkpoint after every chunk
    problem = PROBLEMS["warming_cache"]

    def play(**more: Any) -> list[fb.Result]:
        if batched:
            return simulate_each(problem, [fb.Exp3(0.2), fb.Exp3(0.4)], runs=2, **more)
        return [fb.simulate(problem, fb.Exp3(0.2), runs=2, **more)]

    undisturbed = play()
    save, calls = checkpoint.Checkpoint.save, []

    def stops(self: Any, done: int, *args: Any) -> None:
        save(self, done, *args)
        calls.append(done)
        if len(calls) == 2:
            raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(checkpoint.Checkpoint, "save", stops)
        with pytest.raises(KeyboardInterrupt):
            play(checkpoint=tmp_path)
    assert calls == [10, 20]
    assert len(list(tmp_path.iterdir())) == 1
    for resumed, whole in zip(play(checkpoint=tmp_path), undisturbed, strict=True):
        assert resumed.dataset.identical(whole.dataset)


# Together, and apart.


@slow
def test_algorithms_played_together_are_as_alone() -> None:
    algorithms = [fb.FedExp3(rate) for rate in (0.1, 0.4)]
    each = simulate_each(CROWDED, algorithms, GOSSIP, runs=RUNS, dtype="float64")
    for algorithm, together in zip(algorithms, each, strict=True):
        alone = fb.simulate(CROWDED, algorithm, GOSSIP, runs=RUNS, dtype="float64")
        np.testing.assert_allclose(
            together.dataset["arm_loss"], alone.dataset["arm_loss"], atol=1e-9
        )
        np.testing.assert_allclose(together.dataset["regret"], alone.dataset["regret"], atol=1e-9)


@pytest.mark.soak
@slow
def test_draws_played_together_are_as_alone() -> None:
    problems = [CROWDED.redraw(seed) for seed in (5, 6)]
    found = simulate_draws(
        problems, fb.FedExp3(0.3), GOSSIP, times=[20, ROUNDS], runs=2, dtype="float64", rounds=True
    )
    assert found["arm_loss"].dims == ("time", "draw", "arm", "run")
    total = found["round_loss"].sum("round").transpose("draw", "arm", "run")
    np.testing.assert_allclose(total, found["arm_loss"].isel(time=-1), atol=1e-9)
    for d, problem in enumerate(problems):
        alone = fb.simulate(problem, fb.FedExp3(0.3), GOSSIP, runs=2, seed=d, dtype="float64")
        last = found.isel(draw=d, time=-1)
        for name in ("regret", "expected_regret"):
            np.testing.assert_allclose(last[name], alone.dataset[f"agent_{name}"], atol=1e-9)
        arm_loss = alone.dataset["arm_loss"].isel(time=-1)
        np.testing.assert_allclose(last["arm_loss"], arm_loss.T, atol=1e-9)


def test_memory_lies_with_its_runs() -> None:
    where = spread(1, runs=4, agents=6)
    for shape, axes in (
        ((4,), ("runs",)),
        ((4, 6, 3), ("runs",)),
        ((4, 6), ("runs", "agents")),
        ((3, 4, 6), (None, "runs", "agents")),
        ((6,), ("agents",)),
        ((3,), ()),
    ):
        assert tuple(where._sharding(np.zeros(shape)).spec) == axes, shape
