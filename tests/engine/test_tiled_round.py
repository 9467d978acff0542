"""A round played in tiles is the round played at once."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import fedbandits as fb
from fedbandits.algorithms import AnyAlgorithm
from fedbandits.arrays import expectation
from fedbandits.common import interrupts
from fedbandits.engine import chunk_runner, chunk_sizes, group, pytrees
from fedbandits.engine.compiled import compiled
from fedbandits.engine.devices import spread
from fedbandits.engine.executors import choice, tiled_round
from fedbandits.engine.executors.choice import ExecutorChoice
from fedbandits.engine.executors.program import Chunk
from fedbandits.engine.executors.tiled_round import (
    MOST,
    agents_in_cache,
    losses_of_round,
    round_in_tiles,
)
from fedbandits.engine.executors.tiles import Tiles
from fedbandits.engine.group import Group
from fedbandits.engine.preparation import precision
from fedbandits.engine.stages import round as rounds
from fedbandits.engine.stages.pending_messages import relay
from fedbandits.problems.coins import Bernoulli
from tests.engine.simulations import prepare, simulate_each
from tests.tiers import soak_but

ARMS, AGENTS = 5, 299
GRID = fb.gossip.max_degree(fb.networks.grid(23, 13))
NEARBY = fb.gossip.metropolis(fb.networks.random_geometric(AGENTS, 0.11, seed=4))


def coins(*, horizon: int = 40, own: bool = False, kind: str = "") -> fb.Problem:
    """Independent coins; with means of each agent's `own`, or those of all; or of another kind."""
    means = np.linspace(0.8, 0.2, ARMS)
    if kind == "activated":
        return fb.problems.activated_bernoulli(AGENTS, ARMS, horizon, seed=3)
    if kind == "switching":
        return fb.problems.switching(AGENTS, ARMS, horizon, parts=10, seed=3)
    if own:
        return fb.problems.bernoulli(np.stack([np.roll(means, v) for v in range(AGENTS)]), horizon)
    return fb.problems.bernoulli(means, horizon, agents=AGENTS, seed=3)


@pytest.fixture
def tiled(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever can be is played in tiles, of 60 agents of one run or fewer."""
    monkeypatch.setattr(tiled_round, "LEAST", 1)
    monkeypatch.setattr(tiled_round, "NARROWEST", 1)
    monkeypatch.setattr(tiled_round, "CELLS", 60 * ARMS)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("algorithm", "gossip", "runs", "own", "tile"),
    [
        (fb.FedExp3(), GRID, 1, False, 1),
        (fb.FedExp3(), GRID, 1, False, 59),
        (fb.FedExp3(), GRID, 2, False, 298),
        (fb.FedExp3(), GRID, 1, False, 299),
        (fb.FedExp3(0.5, 0.1), GRID, 3, False, 100),
        (fb.FedExp3(memory=20), GRID, 2, True, 59),
        (fb.AcceleratedFedExp3(), GRID, 1, False, 60),
        # From here on neighbours may be anywhere: each tile gathers what it hears, ...
        (fb.FedExp3(), NEARBY, 2, False, 59),
        (fb.AcceleratedFedExp3(), NEARBY, 1, False, 100),
        # ... or all of it is combined before the tiles.
        (fb.FedExp3(), GRID, 2, False, 5),
        (fb.FedExp3(), fb.gossip.max_degree(fb.networks.star(AGENTS)), 2, False, 100),
        (fb.FedExp3(), fb.gossip.max_degree(fb.networks.complete(AGENTS)), 1, False, 100),
        (fb.FedExp3(), fb.gossip.random_edge(fb.networks.ring(AGENTS)), 2, False, 59),
        (fb.FedExp3(), fb.gossip.clipped(GRID, 2.0), 2, False, 59),
        (fb.FedExp3(), fb.gossip.unreliable(GRID, 0.5), 2, False, 59),
        (fb.GossipUCB(), GRID, 2, False, 100),
        (fb.Exp3(), None, 2, False, 100),
        (fb.Exp3(), None, 1, True, 13),
    ],
)
def test_the_same_arms_are_played(
    algorithm: AnyAlgorithm, gossip: fb.Gossip | None, runs: int, own: bool, tile: int
) -> None:
    _play_the_same(coins(own=own), algorithm, gossip, runs, tile)


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["activated", "switching"])
def test_the_same_arms_are_played_where_losses_depend_on_the_round(kind: str) -> None:
    _play_the_same(coins(kind=kind), fb.FedExp3(), GRID, 2, 59)


def test_what_a_round_needs_of_all_agents_is_found_once() -> None:
    """Who is activated is found by a sort, not by one in every tile."""
    with precision("float64"):
        game = prepare(coins(kind="activated"), fb.FedExp3(), GRID, 1, 7, dtype="float64")
        play = _in_tiles(game, 59)
        state = jax.tree.map(jnp.asarray, game.carry.state)
        program = play.func.lower(*play.args, state, 1).as_text()
    assert program.count('"stablehlo.sort"') == 1


@pytest.mark.parametrize(("gossip", "most"), [(GRID, 1.0), (NEARBY, 1.9)], ids=["windows", "rows"])
def test_no_copy_of_the_state_is_kept(gossip: fb.Gossip, most: float) -> None:
    """Beside it there is what a small tile needs and, of a graph without a rule, what all tell."""
    with precision("float64"):
        game = prepare(coins(), fb.FedExp3(), gossip, 1, 7, dtype="float64")
        play = _in_tiles(game, 13)
        state = jax.tree.map(jnp.asarray, game.carry.state)
        large: Any = compiled(play.func.__wrapped__, (), "state", large=True)
        memory = large.lower(*play.args, state, 1).compile().memory_analysis()
    assert memory is not None
    assert memory.temp_size_in_bytes < most * sum(leaf.nbytes for leaf in jax.tree.leaves(state))


def test_a_tile_is_worked_out_apart_from_writing_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """On a condition: what XLA fuses with writing in place, it leaves to one core."""
    assert _worked_out_on_no_condition() == set()
    monkeypatch.setattr(tiled_round, "_apart", lambda make, _: make())
    assert _worked_out_on_no_condition() == {59, 299 - 3 * 59}


def _worked_out_on_no_condition() -> set[int]:
    """How many agents the tiles have whose exponentials stand outside of one."""
    with precision("float64"):
        game = prepare(coins(), fb.FedExp3(), GRID, 1, 7, dtype="float64")
        play = _in_tiles(game, 59)
        program = jax.make_jaxpr(play.func)(*play.args, game.carry.state, 1)

    def outside(program: Any) -> set[int]:
        found: set[int] = set()
        for equation in program.eqns:
            shapes: list[tuple[int, ...]] = [x.aval.shape for x in equation.outvars]
            if equation.primitive.name == "exp":
                found.update(agents for arms, *_, agents in filter(None, shapes) if arms == ARMS)
            # One that is known, and so stands as a literal, XLA drops.
            if equation.primitive.name != "cond" or hasattr(equation.invars[0], "val"):
                inside = (x for x in jax.tree.leaves(equation.params) if hasattr(x, "eqns"))
                found.update(*map(outside, inside))
        return found

    return outside(program)


@pytest.mark.parametrize("tile", [1, 6, 59, 300])
@pytest.mark.parametrize("agents", [299, 300, 304])
@pytest.mark.parametrize("binary", [True, False])
def test_mean_losses_are_those_of_all_agents(
    agents: int, tile: int, binary: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Hashed side by side or one after the other, in whole tiles or what is left of them."""
    monkeypatch.setattr(Bernoulli, "binary", binary)
    problem = fb.problems.bernoulli(np.linspace(0.8, 0.2, ARMS), 40, agents=agents, seed=3)
    pytrees.register(problem)
    with precision("float64"):
        found = jax.jit(lambda p, t: losses_of_round(p, t, tile, "float64").mean)(problem, 7)
    losses = np.asarray(problem.losses(7), "float64")
    np.testing.assert_allclose(found, losses.mean(axis=0), rtol=1e-12)


def _play_the_same(
    problem: fb.Problem, algorithm: AnyAlgorithm, gossip: fb.Gossip | None, runs: int, tile: int
) -> None:
    """By every agent in every round, in float64; what comes of them differs by rounding alone."""
    with precision("float64"):
        game = prepare(problem, algorithm, gossip, runs, 7, dtype="float64")
        at_once, in_tiles = _at_once(game), _in_tiles(game, tile)
        one = other = jax.tree.map(jnp.asarray, game.carry.state)
        for t in range(1, 9):
            one, arms, expected = at_once(one, t)
            other, arms_in_tiles, expected_in_tiles = in_tiles(other, t)
            np.testing.assert_array_equal(arms_in_tiles, arms)
            np.testing.assert_allclose(expected_in_tiles, expected, rtol=1e-12)
            for a, b in zip(jax.tree.leaves(other), jax.tree.leaves(one), strict=True):
                np.testing.assert_allclose(a, b, rtol=1e-12, atol=1e-12)
    assert len(np.unique(arms)) == ARMS


def _at_once(game: Group) -> Any:
    runs = game.where.runs

    def play(told: tuple[Any, ...], state: Any, t: Any) -> tuple[Any, Any, Any]:
        algorithm, conditions, problem = told
        uniforms = rounds.draw_uniforms(algorithm, conditions, 7, t, (runs, AGENTS), "float64")
        losses = problem.losses(t).T.astype("float64")
        state, play = rounds.play_round(algorithm, conditions, state, losses, uniforms, t)
        return state, play.action, expectation(play.p, losses.mean(axis=1))

    return partial(jax.jit(play), (game.algorithm, game.stages, game.problem))


def _in_tiles(game: Group, tile: int) -> Any:
    seed = game.seed

    def play(told: tuple[Any, ...], state: Any, t: Any) -> tuple[Any, Any, Any]:
        algorithm, conditions, problem = told
        losses = losses_of_round(problem, t, tile, "float64")
        sizes = game.where.runs, tile
        return round_in_tiles(algorithm, conditions, losses, state, seed, t, sizes)

    return partial(jax.jit(play), (game.algorithm, game.stages, game.problem))


@pytest.mark.optimised
@pytest.mark.slow
@pytest.mark.usefixtures("tiled")
@pytest.mark.parametrize("gossip", soak_but(["windows"], {"windows": GRID, "rows": NEARBY}))
@pytest.mark.parametrize("rates", [[0.1], [0.1, 0.3]])
def test_a_simulation_is_the_same(
    rates: list[float], gossip: fb.Gossip, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In all that is recorded of it, to 1e-12, one game or several together."""
    found: list[int | None] = []

    choose = choice.choose

    def spied(*told: Any) -> ExecutorChoice:
        chosen = choose(*told)
        found.append(tile_of(chosen.executor))
        return chosen

    def datasets() -> list[Any]:
        algorithms = [fb.FedExp3(rate) for rate in rates]
        played = simulate_each(coins(), algorithms, gossip, runs=2, dtype="float64")
        return [result.dataset for result in played]

    monkeypatch.setattr(group, "choose", spied)
    in_tiles = datasets()
    monkeypatch.setattr(tiled_round, "LEAST", 2**40)
    at_once = datasets()
    assert found == [36 if len(rates) == 1 else 30, None]
    for tiled, plain in zip(in_tiles, at_once, strict=True):
        for name, values in plain.data_vars.items():
            np.testing.assert_allclose(tiled[name], values, rtol=1e-12, atol=1e-12)


@pytest.mark.soak
@pytest.mark.usefixtures("tiled")
def test_float32_is_float64_but_for_chance() -> None:
    """With the same losses and uniforms.

    Rounding flips an arm now and then, after which two runs are two draws of one law: null, the 40
    paired differences have the mean 0. Six standard errors, Student's t: below 1e-6.
    """
    problem = coins(horizon=400)
    narrow, wide = (
        fb.simulate(problem, fb.FedExp3(), GRID, runs=40, dtype=dtype).dataset
        for dtype in ("float32", "float64")
    )
    for name in ("regret", "expected_regret"):
        apart = (narrow[name] - wide[name]).isel(time=-1).to_numpy()
        assert abs(apart.mean()) < 6 * apart.std(ddof=1) / np.sqrt(40) + 1e-3, name


@pytest.mark.slow
@pytest.mark.usefixtures("tiled")
@pytest.mark.parametrize("gossip", [GRID, NEARBY], ids=["windows", "rows"])
def test_resumed_is_bit_identical(
    gossip: fb.Gossip, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(chunk_sizes, "_UPDATES_CPU", 10 * ARMS * AGENTS)  # chunks of ten rounds
    undisturbed = fb.simulate(coins(), fb.FedExp3(), gossip, runs=1)
    played: list[int | None] = []

    def watched(*how: Any, large: bool) -> Any:
        def play(*told: Any, chunk: Chunk) -> Any:
            played.append(tile_of(chunk.executor))
            return compiled(*how, large=large)(*told, chunk=chunk)

        return play

    with monkeypatch.context() as patch:
        patch.setattr(group, "compiled", watched)
        patch.setattr(interrupts, "requested", lambda: len(played) == 2)
        with pytest.raises(KeyboardInterrupt, match="stopped after round 20 of 40"):
            fb.simulate(coins(), fb.FedExp3(), gossip, runs=1, checkpoint=tmp_path)
    resumed = fb.simulate(coins(), fb.FedExp3(), gossip, runs=1, checkpoint=tmp_path)
    assert resumed.dataset.identical(undisturbed.dataset)
    assert played == [36, 36]


@pytest.mark.usefixtures("tiled")
def test_a_program_has_two_rounds_of_many_agents_only_in_tiles(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Played at once they would take more memory."""
    played: list[tuple[int | None, int]] = []

    def spied(*told: Any) -> Chunk:
        chunk = Chunk(*told)
        played.append((tile_of(chunk.executor), chunk.rounds))
        return chunk

    monkeypatch.setattr(chunk_runner, "Chunk", spied)
    monkeypatch.setattr(chunk_sizes, "_UPDATES_CPU", ARMS * AGENTS)
    fb.simulate(coins(horizon=4), fb.FedExp3(), GRID, runs=1)
    monkeypatch.setattr(tiled_round, "LEAST", 2**40)
    fb.simulate(coins(horizon=4), fb.FedExp3(), GRID, runs=1)
    assert played == [(36, 2)] * 2 + [(None, 1)] * 4


@pytest.mark.usefixtures("tiled")
def test_what_is_played_in_tiles(monkeypatch: pytest.MonkeyPatch) -> None:
    """As many agents as fit, an even number, and a divisor of N where one is near."""
    assert _tile(coins(), fb.FedExp3(), GRID) == 36  # of 299 / 8 = 37 at most
    assert _tile(coins(), fb.Exp3(), None, runs=20, devices=1) == 2
    even, row = fb.problems.bernoulli([0.1] * ARMS, 40, agents=300), fb.networks.path(300)
    assert _tile(even, fb.FedExp3(), fb.gossip.max_degree(row)) == 30
    monkeypatch.setattr(tiled_round, "MOST", 15)
    assert _tile(coins(), fb.FedExp3(), GRID) == 14
    monkeypatch.setattr(tiled_round, "MOST", 12)
    assert _tile(coins(), fb.FedExp3(), GRID) == 12  # though neighbours are 13 apart
    assert _tile(coins(), fb.Exp3(), None) == 12


@pytest.mark.parametrize(
    ("algorithm", "gossip", "before"),
    [
        (fb.FedExp3(), GRID, False),
        (fb.FedExp3(), NEARBY, False),
        (fb.GossipUCB(), NEARBY, True),
        (fb.FedExp3(), fb.gossip.clipped(NEARBY, 2.0), True),
        (fb.Exp3(), None, False),
    ],
)
def test_messages_are_combined_before_the_tiles_only_where_they_must_be(
    algorithm: AnyAlgorithm,
    gossip: fb.Gossip | None,
    before: bool,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Else they would be written to memory and read again."""
    relayed: list[Any] = []

    def spied(*told: Any) -> Any:
        relayed.append(told)
        return relay(*told)

    monkeypatch.setattr(tiled_round, "relay", spied)
    with precision("float64"):
        game = prepare(coins(), algorithm, gossip, 1, 7, dtype="float64")
        _in_tiles(game, 59)(jax.tree.map(jnp.asarray, game.carry.state), 1)
    assert bool(relayed) == before


@pytest.mark.usefixtures("tiled")
@pytest.mark.parametrize(
    ("problem", "algorithm", "gossip", "told"),
    [
        (fb.problems.linear(AGENTS, ARMS, 40, dimension=2), fb.FedExp3(), GRID, {}),
        (coins(), fb.FedHedge(), GRID, {}),
        (coins(), fb.Exp3Coop(hops=2), GRID, {}),
        (coins(), fb.FedExp3(), fb.gossip.unreliable(GRID, 0.5, rule="flow"), {}),
        (coins(), fb.FedExp3(), GRID, {"liars": {1: fb.attacks.promote(2)}}),
        (coins(), fb.FedExp3(), GRID, {"privacy": fb.privacy.randomised_response(1.0)}),
    ],
    ids=[
        "losses made at once",
        "losses of all arms",
        "floods",
        "what links owe",
        "liars",
        "privacy",
    ],
)
def test_what_is_played_at_once(
    problem: fb.Problem, algorithm: AnyAlgorithm, gossip: fb.Gossip, told: dict[str, Any]
) -> None:
    assert _tile(problem, algorithm, gossip, **told) is None


@pytest.mark.usefixtures("tiled")
def test_agents_on_several_devices_are_played_at_once() -> None:
    problem = fb.problems.bernoulli([0.1] * ARMS, 40, agents=300)
    gossip = fb.gossip.max_degree(fb.networks.grid(20, 15))
    assert len(jax.devices()) > 1
    assert _tile(problem, fb.FedExp3(), gossip, devices=2) is None


def test_few_agents_are_played_at_once_however_many_runs() -> None:
    assert _tile(coins(), fb.FedExp3(), GRID) is None
    assert _tile(coins(), fb.FedExp3(), GRID, runs=1000) is None


@pytest.mark.parametrize("arms", [2, 5, 10, 16, 20])
@pytest.mark.parametrize("agents", [10**6, 15_625 * 9, 317**2])
def test_tiles_are_even_and_divide_the_agents_where_such_are_to_be_had(
    agents: int, arms: int
) -> None:
    size = agents_in_cache(arms, spread(1, 1, agents))
    assert size is not None
    assert size % 2 == 0
    even_divisors = [n for n in range(2, MOST + 1, 2) if agents % n == 0]
    assert agents % size == 0 or not any(size // 2 < n <= size for n in even_divisors)


def _tile(
    problem: fb.Problem,
    algorithm: AnyAlgorithm,
    gossip: fb.Gossip | None,
    runs: int = 1,
    **told: Any,
) -> int | None:
    game = prepare(problem, algorithm, gossip, runs, 7, **told)
    return tile_of(game.choice.executor)


def tile_of(executor: Any) -> int | None:
    """Return the agents of a tile; None for another executor."""
    return executor.tile if isinstance(executor, Tiles) else None
