"""Tuning: candidates, one compilation, seeds that are never the same, and an honest report."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from typing import Any, ClassVar, NamedTuple, Self

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import DTypeLike

import fedbandits as fb
from fedbandits import tuning
from fedbandits.algorithms import REGISTRY, AnyAlgorithm, Tunable
from fedbandits.algorithms.base import Setting
from fedbandits.algorithms.tunable import BLOCK, EXPLORATION
from fedbandits.arrays import Array, over_arms, played
from fedbandits.common.describe import describe
from fedbandits.common.statistics import interval
from fedbandits.engine import play as engine
from fedbandits.engine.executors.program import compilations
from fedbandits.schedules import Constant, Power, anytime, power
from fedbandits.tuning import knobs, seeds
from tests.instances import ALGORITHMS, every_algorithm, random_losses
from tests.test_imports import HEAVY, loaded_after

PROBLEM = fb.problems.activated_bernoulli(agents=5, arms=3, horizon=60, seed=4)
GOSSIP = fb.gossip.max_degree(fb.networks.ring(5))
SETTING = Setting(3, 5, GOSSIP)
GIVEN = fb.FedExp3(0.001, power(0.05, 1 / 3))


class CommitState(NamedTuple):
    """Cumulative loss estimates of the first block, `[K, *batch]`."""

    z: Array


@dataclass(frozen=True)
class Commit(fb.Algorithm[CommitState]):
    """Uniform play for a block of rounds, then the arm of the smallest loss estimate."""

    block: int | None = None
    power: int = field(default=1, metadata={"static": True})

    leaves: ClassVar[Mapping[str, fb.Leaf]] = {"z": fb.Leaf(kind="estimate", combine="average")}
    tunable: ClassVar[Mapping[str, Tunable]] = {"block": BLOCK}

    def set_up(self, setting: Setting) -> Self:
        return replace(self, block=2 * setting.agents) if self.block is None else self

    def init(
        self, arms: int, agents: int, batch: tuple[int, ...] = (), dtype: DTypeLike = np.float32
    ) -> CommitState:
        return CommitState(np.zeros((arms, *batch), dtype))

    def distribution(self, state: CommitState, t: Array) -> Array:
        xp = state.z.__array_namespace__()
        best = (state.z == over_arms("min", state.z)).astype(state.z.dtype)
        uniform = xp.ones_like(best) / best.shape[0]
        return xp.where(t <= self.block, uniform, best / over_arms("sum", best))

    def message(self, state: CommitState) -> dict[str, Array]:
        return {"z": state.z}

    def update(
        self,
        state: CommitState,
        received: Mapping[str, Array],
        action: Array,
        feedback: Array,
        p: Array,
        t: Array,
    ) -> CommitState:
        xp = p.__array_namespace__()
        estimate = xp.where(played(action, like=p), feedback / p, 0.0)
        return CommitState(received["z"] + xp.where(t <= self.block, estimate, 0.0))


@pytest.fixture(scope="module")
def chosen() -> tuple[tuning.Choice, int, list[dict[str, Any]]]:
    """A tuning in float64, the compilations it took, and what was asked of the engine."""
    calls: list[dict[str, Any]] = []
    original = engine.play

    def spy(simulations: Any, options: Any) -> Any:
        first, size = simulations[0], len(simulations)
        calls.append({"losses": int(first.problem.seed), "agents": first.seed, "size": size})
        return original(simulations, options)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(engine, "play", spy)
        before = compilations()
        choice = tuning.choose(
            PROBLEM, GIVEN, GOSSIP, budget=10, runs=3, seed=11, dtype="float64", progress=False
        )
        return choice, compilations() - before, calls


@pytest.mark.slow
def test_all_candidates_are_compiled_once(
    chosen: tuple[tuning.Choice, int, list[dict[str, Any]]],
) -> None:
    choice, compiled, calls = chosen
    assert compiled == 1
    assert len(choice.candidates) == 9  # 4 rates, 2 explorations, and what was given
    assert [call["size"] for call in calls] == [9] * tuning.choice.DRAWS


def test_what_is_compared_is_expected_regret_at_the_horizon(
    chosen: tuple[tuning.Choice, int, list[dict[str, Any]]],
) -> None:
    choice, _, calls = chosen
    assert [(call["losses"], call["agents"]) for call in calls] == [(s, s) for s in choice.seeds]
    for d, seed in enumerate(choice.seeds):
        problem = fb.problems.activated_bernoulli(agents=5, arms=3, horizon=60, seed=seed)
        alone = fb.simulate(
            problem, choice.candidates[3], GOSSIP, runs=3, seed=seed, dtype="float64"
        )
        expected = float(alone.dataset["agent_expected_regret"].mean())
        assert choice.regret[3, d] == pytest.approx(expected, abs=1e-9)
    assert choice.winner is choice.candidates[choice.regret.mean(axis=1).argmin()]


def test_the_table_has_what_candidates_differ_in(
    chosen: tuple[tuning.Choice, int, list[dict[str, Any]]],
) -> None:
    choice, _, _ = chosen
    table = choice.table()
    draws = [f"regret, seed {seed}" for seed in choice.seeds]
    assert list(table) == ["learning_rate", "exploration.c", "regret", *draws, "given"]
    assert table["given"].tolist() == [False] * 8 + [True]
    assert table.iloc[-1][["learning_rate", "exploration.c"]].tolist() == [0.001, 0.05]
    np.testing.assert_allclose(table["regret"], table[draws].mean(axis=1))


@pytest.mark.slow
def test_the_winner_is_better_on_fresh_seeds(
    chosen: tuple[tuning.Choice, int, list[dict[str, Any]]],
) -> None:
    """Nearly uniform play, which was given, is far worse: seeds are fixed, the margin is wide."""
    choice, _, _ = chosen
    report = tuning.report(PROBLEM, choice.winner, GIVEN, GOSSIP, runs=2, draws=4, seed=11)
    assert report.unit == "draw"
    assert report.difference().high < 0
    assert not set(report.seeds) & set(choice.seeds)
    for tuned, own, seed in zip(report.tuned, report.given, report.seeds, strict=True):
        assert tuned.config["seed"] == own.config["seed"] == seed
        assert tuned.config["problem"]["seed"] == own.config["problem"]["seed"] == seed
        np.testing.assert_array_equal(tuned.dataset["arm_loss"], own.dataset["arm_loss"])
    # The intervals are over draws, of which the table has one row each.
    table, summary = report.table(), report.summary()
    for agent in ("mean agent", "worst agent"):
        by_draw = table[f"tuned, {agent}"] - table[f"given, {agent}"]
        row = list(summary.loc[f"tuned - given, {agent}"])
        assert row == pytest.approx(interval(by_draw.to_numpy()))
    worst = [float(result.dataset["worst_regret"][-1]) for result in report.given]
    np.testing.assert_allclose(table["given, worst agent"], worst, atol=1e-4)  # float32 sums


@pytest.mark.slow
def test_what_was_given_is_played_apart_where_it_is_of_another_kind() -> None:
    """Its learning rate decays, and no constant does."""
    given = fb.FedExp3(anytime(1.0), power(0.05, 1 / 3))
    choice = tuning.choose(PROBLEM, given, GOSSIP, budget=4, runs=2, draws=1)
    assert choice.given == 3
    assert [x["learning_rate"]["name"] for x in choice.settings] == ["Constant"] * 3 + ["Anytime"]
    alone = tuning.choose(PROBLEM, given, GOSSIP, candidates=[given], runs=2, draws=1)
    np.testing.assert_array_equal(choice.regret[3], alone.regret[0])
    report = tuning.report(PROBLEM, choice.candidates[0], given, GOSSIP, runs=2, draws=2)
    assert report.given[0].config["algorithm"]["learning_rate"]["name"] == "Anytime"
    assert report.tuned[0].config["algorithm"]["learning_rate"]["name"] == "Constant"


@dataclass(frozen=True)
class Decaying:
    """A rate of one's own."""

    c: float

    def __call__(self, t: Array, state: Any) -> Array:
        return self.c / t**0.5


def halving(t: Array, state: Any) -> Array:
    return 1.0 / t


def choice_of(*candidates: AnyAlgorithm) -> tuning.Choice:
    """As if they had been played."""
    settings = tuple(describe(candidate.set_up(SETTING)) for candidate in candidates)
    regret = np.zeros((len(candidates), 1))
    return tuning.Choice(candidates[0], candidates, settings, None, regret, (2,), (), True)


SPREAD = 2 / 4 + 3 / 5  # B/4 + d/N


@pytest.mark.parametrize(
    ("given", "shown"),
    [
        (fb.FedExp3(), "mixing_aware(c=2)"),
        (fb.FedExp3(anytime(0.5)), "anytime(c=0.5)"),
        (fb.FedExp3(Decaying(0.25)), "Decaying(c=0.25)"),
        (fb.FedExp3(halving), f"{__name__}.halving"),
        (fb.BlockGossip(block=2), "default"),
        (
            fb.LinearBlockGossip(np.eye(3), block=2),
            f"power(c={math.sqrt(2 * math.log(3) / SPREAD):g}, a=0.5)",
        ),
    ],
)
def test_rates_of_several_kinds_share_a_column_under_their_own_names(
    given: AnyAlgorithm, shown: str
) -> None:
    rates = [given.with_values(learning_rate=Constant(rate)) for rate in (0.1, 2.0)]
    table = choice_of(*rates, given).table()
    assert list(table)[:2] == ["learning_rate", "regret"]
    assert table["learning_rate"].tolist() == [0.1, 2.0, shown]


def test_rates_of_one_kind_have_a_column_for_each_number_that_differs() -> None:
    both = [fb.FedExp3(anytime(0.5), power(0.1, a)) for a in (0.5, 1.0)]
    assert list(choice_of(*both).table())[:2] == ["exploration.a", "regret"]


def test_algorithms_of_several_kinds_are_named() -> None:
    table = choice_of(fb.Exp3(0.5), fb.BlockGossip(0.5, block=2)).table()
    assert table["algorithm"].tolist() == ["Exp3", "BlockGossip"]
    assert table["block"].tolist() == [None, 2]


@pytest.mark.slow
def test_the_worst_agents_are_called_by_their_names() -> None:
    losses = random_losses(5, 3, 12, seed=1)
    problem = replace(fb.problems.from_tensor(losses), agent_names=tuple("abcde"))
    report = tuning.report(problem, fb.Exp3(0.5), fb.Exp3(0.1), runs=2)
    for name, results in (("tuned", report.tuned), ("given", report.given)):
        worst = results[0].dataset["agent_expected_regret"].mean("run").idxmax("agent")
        assert report.table()[f"{name}, worst agent is"].tolist() == [worst.item()]
        assert worst.item() in "abcde"


@pytest.mark.slow
def test_of_equals_what_was_given_stays() -> None:
    problem = fb.problems.from_tensor(np.zeros((12, 5, 3)))  # nobody has any regret
    choice = tuning.choose(problem, GIVEN, GOSSIP, budget=4, runs=2)
    assert not choice.regret.any()
    assert choice.given == 3
    assert choice.winner is choice.candidates[3]


@pytest.mark.slow
def test_who_wins_is_better_on_fresh_seeds_beyond_doubt() -> None:
    """The whole interval of the paired difference is below 0."""
    problem = fb.problems.from_tensor(np.tile([0.0, 1.0, 1.0], (12, 5, 1)))
    good, bad = fb.FedExp3(2.0), fb.FedExp3(0.001)
    report = tuning.report(problem, good, bad, GOSSIP, runs=10)
    assert report.difference().high < 0
    assert report.wins
    assert not replace(report, tuned=report.given, given=report.tuned).wins
    assert not replace(report, given=report.tuned).wins
    alone = tuning.report(problem, good, bad, GOSSIP, runs=1)
    assert math.isnan(alone.difference().high)  # one run has no interval
    assert not alone.wins


@pytest.mark.slow
def test_nothing_better_than_what_was_given() -> None:
    given = fb.FedExp3(2.0, power(0.05, 1 / 3))
    worse = [replace(given, learning_rate=Constant(rate)) for rate in (0.0, 0.001)]
    choice = tuning.choose(PROBLEM, given, GOSSIP, candidates=[*worse, given], runs=2, draws=2)
    assert choice.winner is given
    assert choice.given == 2
    report = tuning.report(PROBLEM, choice.winner, given, GOSSIP, runs=2, draws=2)
    assert report.difference() == (0.0, 0.0, 0.0)


@pytest.mark.slow
def test_too_many_numbers_for_one_call_are_several(monkeypatch: pytest.MonkeyPatch) -> None:
    from fedbandits.sweeps import plan

    rates = [fb.FedExp3(rate) for rate in (0.1, 0.5, 2.0)]

    def play() -> tuning.Choice:
        return tuning.choose(
            *(PROBLEM, GIVEN, GOSSIP), candidates=rates, runs=2, draws=1, dtype="float64"
        )

    together = play()
    monkeypatch.setattr(plan, "MOST_NUMBERS", 5 * 3 * 2 * 2)  # two candidates
    np.testing.assert_allclose(play().regret, together.regret, rtol=1e-9)


@pytest.mark.slow
def test_stored_losses_are_the_same_and_the_agents_are_not() -> None:
    problem = fb.problems.from_tensor(random_losses(5, 3, 12, seed=1))
    rates = [fb.Exp3(rate) for rate in (0.1, 1.0)]
    choice = tuning.choose(problem, fb.Exp3(), candidates=rates, runs=3)
    report = tuning.report(problem, choice.winner, fb.Exp3(), runs=3)
    assert not choice.redrawn
    assert not report.redrawn
    assert len(choice.seeds) == len(report.seeds) == 1
    assert choice.seeds != report.seeds
    assert report.unit == "run"
    by_run = report.tuned[0].dataset["expected_regret"][:, -1]
    assert list(report.summary().loc["tuned, mean agent"]) == pytest.approx(interval(by_run))


@pytest.mark.slow
def test_a_block_length_comes_from_the_network_and_is_tuned() -> None:
    """The grid is around 2 N = 10, which `set_up` fills in; no field but `block` is tuned."""
    (knob,) = knobs.grid(Commit(), SETTING, 60, 8)
    assert knob.name == "block"
    assert knob.values == (1, 2, 4, 7, 11, 20, 35, 60)  # from 10/8 to T: 80 is beyond
    before = compilations()
    choice = tuning.choose(PROBLEM, Commit(), GOSSIP, budget=9, runs=3, draws=2)
    assert compilations() == before + 1
    assert choice.given == 8
    assert choice.table()["block"].tolist() == [1, 2, 4, 7, 11, 20, 35, 60, 10]
    # One round of news decides for ever, and 60 of 60 never decide: the best is between.
    assert 1 < choice.settings[int(choice.regret.mean(axis=1).argmin())]["block"] < 60
    assert not choice.edges


@pytest.mark.parametrize("algorithm", [fb.GossipUCB(), fb.Uniform()])
def test_nothing_to_tune(algorithm: AnyAlgorithm) -> None:
    name = type(algorithm).__name__
    with pytest.raises(ValueError, match=f"{name} has nothing to tune: it declares"):
        tuning.choose(PROBLEM, algorithm, GOSSIP)


def test_every_argument_is_checked() -> None:
    wrong: list[tuple[dict[str, Any], str]] = [
        ({"budget": 1}, "budget must be a whole number of at least 2, not 1"),
        ({"runs": 0}, "runs must be a whole number of at least 1, not 0"),
        ({"draws": 0}, "draws must be a whole number of at least 1, not 0"),
        ({"seed": 2**32}, "seed must be below"),
        ({"candidates": []}, "there are no candidates to choose from; give at least one"),
        ({"candidates": [GIVEN], "ranges": {"block": (1, 9)}}, "leave one of the two out"),
        ({"ranges": {"block": (1, 9)}}, "has no block to tune, only learning_rate, exploration"),
        ({"ranges": {"learning_rate": (3, 1)}}, "must have 0 < low < high, not 3.0 and 1.0"),
        ({"ranges": {"learning_rate": (0, 1)}}, "must have 0 < low < high, not 0.0 and 1.0"),
    ]
    for more, message in wrong:
        with pytest.raises(ValueError, match=message):
            tuning.choose(PROBLEM, GIVEN, GOSSIP, **more)


# The grid.


def test_a_knob_keeps_the_kind_of_its_field() -> None:
    @dataclass(frozen=True)
    class Plain(Commit):
        share: float = 0.1
        learning_rate: float = 0.1

        tunable: ClassVar[Mapping[str, Tunable]] = {"block": BLOCK, "share": EXPLORATION}

    block, exploration = knobs.grid(Plain(), SETTING, 60, 9)  # what is not declared is not tuned
    assert exploration.name == "share"
    assert [type(value) for value in block.values] == [int, int, int]
    assert exploration.values == (0.001, 0.0173, 0.3)
    rates, exploration = knobs.grid(fb.FedExp3(anytime(1.0), 0.5), SETTING, 60, 9)
    assert rates.values[0] == Constant(0.003)
    assert exploration.values[0] == Power(0.00416, 1 / 3)
    (_, exploration) = knobs.grid(fb.FedExp3(0.1, power(0.2, 0.5)), SETTING, 60, 9)
    assert {value.a for value in exploration.values} == {0.5}  # the decay that was chosen stays


@given(st.integers(1, 300), st.integers(1, 5), st.integers(0, 4))
def test_no_grid_is_larger_than_the_budget(size: int, many: int, favoured: int) -> None:
    weights = [2.0 if k == favoured else 1.0 for k in range(many)]
    counts = knobs.share(size, weights)
    assert 1 <= math.prod(counts) <= size
    assert counts[favoured if favoured < many else 0] == max(counts)


@every_algorithm
def test_what_is_declared_as_tunable_is_a_traced_field(name: str) -> None:
    algorithm: Any = ALGORITHMS[name]
    traced = {f.name for f in fields(algorithm) if not f.metadata.get("static")}
    assert set(algorithm.tunable) <= traced


def test_grids_of_the_algorithms_that_are_tuned() -> None:
    """In the order in which a budget is shared, which results that were kept depend on."""
    kept = {
        "FedExp3": ["learning_rate", "exploration", "memory"],
        "SharingFedExp3": ["learning_rate", "exploration", "share"],
        "TrackingFedExp3": ["learning_rate", "exploration"],
        "Exp3": ["learning_rate", "exploration"],
        "AcceleratedFedExp3": ["learning_rate", "exploration"],
        "BlockGossip": ["learning_rate", "block", "exploration"],
        "LinearBlockGossip": ["learning_rate", "block", "exploration"],
        "FedFTRL": ["entropy_scale", "tsallis_scale"],
        "FedHedge": ["learning_rate"],
        "Exp3Coop": ["learning_rate"],
        "DelayedFTRL": [],
        "GossipUCB": [],
        "Uniform": [],
    }
    assert {name: [*REGISTRY[name].tunable] for name in kept} == kept


def test_edges_of_the_grid() -> None:
    tried = knobs.grid(replace(Commit(), block=1), SETTING, 60, 3, {"block": (1, 16)}) + knobs.grid(
        fb.FedHedge(0.1), SETTING, 60, 3
    )
    assert [knob.numbers for knob in tried] == [(1, 4, 16), (0.003, 0.0949, 3)]
    assert knobs.edges(tried, 4) == ()  # in the middle
    low, high = knobs.edges(tried, 6)  # 16 and 0.003
    assert high == knobs.Edge("learning_rate", 0.003, "smallest", (9.49e-05, 0.0949))
    assert low == knobs.Edge("block", 16, "largest", (4, 60))  # no block is longer than T
    (only,) = knobs.edges(tried, 2)  # a block of 1 has nothing beyond
    assert only.name == "learning_rate"
    assert only.side == "largest"
    assert knobs.edges(knobs.grid(fb.FedHedge(0.1), SETTING, 60, 2), 0) == ()


@pytest.mark.parametrize("text", ["learning_rate", "learning_rate=1", "block=a:b"])
def test_a_range_that_is_none(text: str) -> None:
    with pytest.raises(ValueError, match=f"--range {text}: "):
        knobs.parse_range(text)


# Seeds and losses.


@given(st.integers(0, 2**32 - 1), st.integers(0, 2**32 - 1), st.integers(1, 40))
def test_seeds_are_disjoint_distinct_and_of_32_bits(seed: int, other: int, count: int) -> None:
    problem = fb.problems.activated_bernoulli(agents=2, arms=2, horizon=1, seed=other)
    for_tuning = seeds.stage_seeds("tuning", count, seed, problem)
    fresh = seeds.stage_seeds("fresh", count, other, problem)  # whatever the seed they come from
    assert len({*for_tuning, *fresh}) == 2 * count
    assert not {seed, other} & set(for_tuning)
    assert other not in fresh
    assert all(0 <= each < 2**32 for each in (*for_tuning, *fresh))
    assert for_tuning == seeds.stage_seeds("tuning", count + 5, seed, problem)[:count]


def test_a_seed_that_was_given_is_not_drawn() -> None:
    free = seeds.stage_seeds("tuning", 3, 0, PROBLEM)
    taken = replace(PROBLEM, seed=np.uint32(free[1]))
    assert seeds.stage_seeds("tuning", 2, 0, taken) == (free[0], free[2])


@pytest.mark.slow
@pytest.mark.parametrize(
    ("problem", "kept"),
    [
        (fb.problems.activated_bernoulli(6, 4, 9, seed=1), "means"),
        (fb.problems.fixed_activation(6, 4, 9, seed=1), "means"),
        (fb.problems.switching(6, 4, 9, seed=1), "best_arms"),
        (fb.problems.delayed_experts(6, 4, 9, cluster=3, block=1), "length"),
    ],
)
def test_losses_are_drawn_anew_from_the_same_instance(problem: Any, kept: str) -> None:
    other: Any = tuning.redraw(problem, 77)
    assert seeds.draws_losses(problem)
    np.testing.assert_array_equal(getattr(other, kept), getattr(problem, kept))
    assert type(other.seed) is type(problem.seed)  # so that nothing is compiled anew
    assert any((problem.losses(t) != other.losses(t)).any() for t in range(1, 10))


def test_the_problem_inside_another_is_drawn_anew() -> None:
    outer: Any = tuning.redraw(fb.problems.scaled(PROBLEM, 0, 2), 77)
    assert outer.problem.seed == 77
    assert outer.high == 2.0
    for problem in (
        fb.problems.scaled(fb.problems.from_tensor(np.zeros((2, 2, 2))), 0, 2),
        fb.problems.from_function(lambda t: t, agents=1, arms=2, horizon=3),
    ):
        assert not seeds.draws_losses(problem)
        assert tuning.redraw(problem, 77) is problem


@dataclass(frozen=True, eq=False)
class Tides(fb.Problem):
    """A user's own, whose seed has a name of its own; its field `seed` is of something else."""

    agents: int = field(metadata={"static": True})
    arms: int = field(metadata={"static": True})
    horizon: int = field(metadata={"static": True})
    moon: int
    seed: int = 5

    def losses(self, t: Any) -> Any:
        raise NotImplementedError

    @property
    def loss_seed(self) -> int:
        return self.moon

    def redraw(self, seed: int) -> Tides:
        return replace(self, moon=seed)


def test_a_problem_says_itself_what_draws_it() -> None:
    problem = Tides(2, 2, 3, moon=7)
    drawn: Any = tuning.redraw(fb.problems.scaled(problem, 0, 2), 77)
    assert (drawn.loss_seed, drawn.problem.moon, drawn.problem.seed) == (77, 77, 5)
    free = seeds.stage_seeds("tuning", 2, 0, problem)
    assert seeds.stage_seeds("tuning", 1, 0, replace(problem, moon=free[0])) == free[1:]


def test_import_loads_numpy_only() -> None:
    loaded = loaded_after("import fedbandits.tuning, fedbandits.tuning.files")
    assert not loaded & set(HEAVY.split())
