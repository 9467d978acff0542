"""Liars: what they tell, whose regret it is, what one of them ruins and what a limit bounds."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

import jax.numpy as jnp
import networkx as nx
import numpy as np
import pytest
import xarray as xr
from hypothesis import given, settings
from hypothesis import strategies as st

import fedbandits as fb
from fedbandits.algorithms import REGISTRY
from fedbandits.arrays import Array
from fedbandits.engine.executors.program import compilations
from fedbandits.engine.mixing import matrix_forms
from fedbandits.engine.mixing import mixer as mixing
from fedbandits.engine.preparation import precision
from fedbandits.engine.stages.stages import Stages
from fedbandits.engine.trajectory import trajectory
from fedbandits.simulation.liars import Liars
from tests.engine.simulations import simulate_draws, simulate_each
from tests.oracles.liars import Lie, fedexp3_among_liars, honest_regret

GRID = fb.gossip.max_degree(fb.networks.grid(2, 3))
LOSSES = np.random.default_rng(7).uniform(size=(40, 6, 3))
PROBLEM = fb.problems.from_tensor(LOSSES)


def moved(arm: int, by: float) -> Lie:
    return lambda z: z + by * (np.arange(len(z)) == arm)


LIARS: dict[str, tuple[dict[int | str, Any], dict[int, Lie]]] = {
    "promote": ({2: fb.attacks.promote(1)}, {2: moved(1, -1e6)}),
    "defame": ({2: fb.attacks.defame(0, by=3.0)}, {2: moved(0, 3.0)}),
    "swap": ({5: fb.attacks.swap()}, {5: lambda z: z[::-1]}),
    "two": (
        {4: fb.attacks.swap(), 1: fb.attacks.promote(2, by=5.0)},
        {1: moved(2, -5.0), 4: lambda z: z[::-1]},
    ),
}


@pytest.mark.slow
@pytest.mark.parametrize("limit", [np.inf, 1.0])
@pytest.mark.parametrize("name", LIARS)
def test_the_engine_is_plain_numpy_among_liars(name: str, limit: float) -> None:
    liars, lies = LIARS[name]
    gossip = fb.gossip.clipped(GRID, limit)
    algorithm = fb.FedExp3(0.1, fb.schedules.power(0.2, 1 / 3))
    run = trajectory(PROBLEM, algorithm, gossip, runs=2, seed=3, liars=liars)
    W = GRID.matrix.toarray()
    for r in range(2):
        oracle = fedexp3_among_liars(
            LOSSES,
            W,
            lambda _: 0.1,
            lambda t: 0.2 * t ** (-1 / 3),
            run.uniforms.action[:, r],
            lies,
            limit,
        )
        np.testing.assert_array_equal(run.action[:, r], oracle.action)
        np.testing.assert_allclose(run.distribution[:, r], oracle.p, rtol=1e-8, atol=1e-12)
        np.testing.assert_allclose(run.messages["z"][:, r], oracle.z, rtol=1e-8, atol=1e-8)


@pytest.mark.slow
def test_regret_is_of_the_honest_against_what_is_best_for_them() -> None:
    losses = LOSSES.copy()
    losses[:, 2] = [0.0, 1.0, 1.0]  # best for all, were the liar one of them
    losses[:, :2, 0] = losses[:, 3:, 0] = 0.6
    losses[:, :2, 1] = losses[:, 3:, 1] = 0.5
    losses[:, :2, 2] = losses[:, 3:, 2] = 0.7
    problem, liars = fb.problems.from_tensor(losses), {2: fb.attacks.swap()}
    result = fb.simulate(problem, fb.FedExp3(), GRID, 2, dtype="float64", liars=liars)
    run = trajectory(problem, fb.FedExp3(), GRID, runs=2, liars=liars)
    data = result.dataset
    for r in range(2):
        expected = honest_regret(losses, run.action[:, r], {2})
        np.testing.assert_allclose(data["regret"][r], expected, rtol=0, atol=1e-9)
    assert result.best_arm.arm == 1
    honest = np.delete(np.arange(6), 2)
    by_agent = data["agent_expected_regret"]
    assert np.isnan(by_agent[:, 2]).all()
    np.testing.assert_allclose(by_agent[:, honest].mean("agent"), data["expected_regret"][:, -1])
    worst = by_agent[:, honest].mean("run").max()
    np.testing.assert_allclose(data["worst_regret"][-1], worst)
    assert result.worst_index != 2
    np.testing.assert_allclose(
        data["arm_frequency"][:, -1],
        [[(run.action[:, r, honest] == k).mean() for k in range(3)] for r in range(2)],
    )
    assert result.best_arm.agreement == (data["recommended_arm"][:, honest] == 1).mean()
    assert result.config["liars"] == {"2": {"name": "Swap"}}
    said = "liars: agent 2 by swap; regret is of the honest, against the arm best for them"
    assert repr(result).splitlines()[-1] == said
    assert "none is known where agents lie" in repr(result.bounds())


@pytest.mark.parametrize(
    ("network", "form"),
    [
        (fb.networks.grid(4, 5), matrix_forms.Dense),
        (fb.networks.complete(300), matrix_forms.Complete),
        (fb.networks.grid(20, 15), matrix_forms.Neighbours),
        (fb.networks.star(300), matrix_forms.Edges),
    ],
)
def test_in_every_form_a_liar_knows_what_it_holds(network: fb.Network, form: type) -> None:
    gossip = fb.gossip.metropolis(network)
    x = np.random.default_rng(0).normal(size=(3, 2, network.agents))
    told = x.copy()
    told[..., 3] = 7.0
    W = gossip.matrix.toarray()
    with precision("float64"):
        averages = mixing.mixer(gossip, fb.FedExp3(), "float64").averages
        assert averages is not None
        assert isinstance(averages, form)
        found = np.asarray(averages.exchange(jnp.asarray(x), jnp.asarray(told), None, None)[0])
    expected = told @ W + np.diag(W) * (x - told)
    np.testing.assert_allclose(found, expected, rtol=1e-12, atol=1e-12)


@dataclass(frozen=True)
class Anything:
    """Whatever the adversary likes, round by round: `[T, K]`."""

    values: Array

    def lie(self, x: Array, t: Array) -> Array:
        return jnp.asarray(self.values)[t - 1][:, None] + 0 * x


LIES = st.lists(st.floats(-1e8, 1e8), min_size=120, max_size=120)


@pytest.mark.slow
@settings(max_examples=12, deadline=None)
@given(LIES, LIES, st.floats(0.01, 50))
def test_what_liars_move_is_bounded(one: list[float], other: list[float], limit: float) -> None:
    """Beside what they put in, the honest sum moves by limit · Σ W_u,liar at most, per entry."""
    gossip = fb.gossip.clipped(GRID, limit)
    lies = {v: Anything(np.reshape(x, (40, 3))) for v, x in ((1, one), (5, other))}
    run = trajectory(PROBLEM, fb.FedExp3(0.1), gossip, seed=2, liars=lies)
    honest = [0, 2, 3, 4]
    z = run.messages["z"][:, 0, honest]
    chosen = np.arange(3) == run.action[:, 0, honest, None]
    g = np.where(chosen, LOSSES[:, honest] / run.distribution[:, 0, honest], 0)
    drift = np.abs((z[1:] - g[:-1] - z[:-1]).sum(axis=1))
    most = limit * GRID.matrix.toarray()[np.ix_(honest, [1, 5])].sum()
    assert drift.max() <= most * (1 + 1e-9) + 1e-9
    # The first lie is told to agents that know nothing: clipped, unless it is small.
    small = max(abs(x) for x in one[:3] + other[:3]) < limit
    assert small or drift[0].max() > 0


@pytest.mark.slow
def test_one_liar_ruins_the_average_and_not_the_clipped_one() -> None:
    """Null: the other way round. Means over 50 runs that are eight standard errors apart."""
    problem = fb.problems.activated_bernoulli(9, 4, 400, seed=3)
    worst = int(problem.block(1, 400).mean(axis=(0, 1)).argmax())
    plain = fb.gossip.max_degree(fb.networks.grid(3, 3))
    found = {}
    for limit in (np.inf, 1.0):
        gossip = fb.gossip.clipped(plain, limit)
        liars = {4: fb.attacks.promote(worst)}
        result = fb.simulate(problem, fb.FedExp3(), gossip, 50, liars=liars, progress=False)
        at_end = result.dataset["expected_regret"][:, -1].to_numpy()
        found[limit] = at_end.mean(), 8 * at_end.std(ddof=1) / np.sqrt(50), result.uniform_regret
    mean, margin, uniform = found[np.inf]
    assert mean - margin > 1.2 * uniform
    mean, margin, uniform = found[1.0]
    assert mean + margin < 0.5 * uniform


@pytest.mark.slow
def test_promoting_is_the_same_to_whoever_averages_rewards() -> None:
    """A leaf says which values attract; else a liar would keep GossipUCB from its arm."""
    problem = fb.problems.bernoulli([0.1, 0.9], horizon=60, agents=6)
    liars = {0: fb.attacks.promote(1)}
    result = fb.simulate(problem, fb.GossipUCB(), GRID, 2, liars=liars, progress=False)
    assert float(result.dataset["arm_frequency"][:, -1, 1].mean()) > 0.8


@pytest.mark.parametrize("name", ["FedFTRL", "Exp3Coop", "GossipUCB"])
def test_a_lie_is_told_in_every_leaf(name: str) -> None:
    """Averages, floods and maxima alike, in the direction that makes others play the arm."""
    leaves = REGISTRY[name].leaves
    stages = Stages(mixing.Mixer(None, None), (Liars((2,), (fb.attacks.promote(1, by=2.0),)),))
    for leaf in leaves.values():
        told = np.asarray(stages.outgoing(leaf, jnp.zeros((3, 1, 4)), jnp.int32(1)))
        expected = np.zeros((3, 1, 4))
        expected[1, 0, 2] = 2.0 if name == "GossipUCB" else -2.0
        np.testing.assert_array_equal(told, expected)


NAMED = fb.gossip.max_degree(
    fb.networks.from_networkx(nx.relabel_nodes(nx.path_graph(6), dict(enumerate("abcdef"))))
)


def test_agents_go_by_name_too() -> None:
    results = [
        fb.simulate(PROBLEM, fb.FedExp3(), NAMED, 1, liars={who: fb.attacks.swap()}, progress=False)
        for who in (3, "d")
    ]
    xr.testing.assert_identical(results[0].dataset, results[1].dataset)
    assert "liars: agent d by swap" in repr(results[0])


@pytest.mark.parametrize(
    ("gossip", "liars", "error", "why"),
    [
        (GRID, {6: fb.attacks.swap()}, ValueError, "an agent in liars must be at most 5, not 6"),
        (GRID, {"d": fb.attacks.swap()}, ValueError, "these agents have no names"),
        (NAMED, {"dd": fb.attacks.swap()}, ValueError, "'dd'; did you mean 'd'? No such agent"),
        (NAMED, {"d": fb.attacks.swap(), 3: fb.attacks.swap()}, ValueError, "agent 3 twice"),
        (GRID, {0: "swap"}, TypeError, "such as fb.attacks.swap(), not 'swap'"),
        (GRID, [0], TypeError, "liars must be like {0: fb.attacks.swap()}"),
        (GRID, {0: fb.attacks.promote(3)}, ValueError, "lies about arm 3, but there are 3"),
        (GRID, dict.fromkeys(range(6), fb.attacks.swap()), ValueError, "all 6 agents lie"),
    ],
)
def test_what_is_no_lie_is_refused(
    gossip: fb.Gossip, liars: Any, error: type[Exception], why: str
) -> None:
    with pytest.raises(error, match=re.escape(why)):
        fb.simulate(PROBLEM, fb.FedExp3(), gossip, 1, liars=liars)


def test_a_lie_about_what_is_not_sent_is_refused() -> None:
    """A linear message has as many entries as the losses have dimensions, not one for each arm."""
    problem = fb.problems.linear(6, 12, 20, dimension=2)
    with pytest.raises(ValueError, match="liar 1 lies about entry 11, but 'x' in the message has"):
        fb.simulate(
            problem, fb.LinearBlockGossip(block=5), GRID, 1, liars={1: fb.attacks.promote(11)}
        )


def test_who_sends_nothing_cannot_lie() -> None:
    with pytest.raises(ValueError, match="Exp3 sends nothing, so nobody can lie"):
        fb.simulate(PROBLEM, fb.Exp3(), GRID, 1, liars={0: fb.attacks.swap()})


@pytest.mark.parametrize("by", [0, -1.0, float("inf"), float("nan"), "much"])
def test_amounts_are_positive_numbers(by: Any) -> None:
    with pytest.raises((TypeError, ValueError), match="by must be"):
        fb.attacks.promote(0, by)


@pytest.mark.slow
def test_other_amounts_and_arms_compile_nothing() -> None:
    problem = fb.problems.bernoulli([0.2, 0.8, 0.5], horizon=41, agents=6)
    before, seen = None, set()
    for arm, by in ((0, 10.0), (1, 10.0), (1, 1e6)):
        liars = {2: fb.attacks.promote(arm, by)}
        result = fb.simulate(problem, fb.FedExp3(), GRID, 2, liars=liars, progress=False)
        seen.add(float(result.dataset["expected_regret"][0, -1]))
        assert before in (None, compilations())
        before = compilations()
    assert len(seen) == 3


@pytest.mark.slow
def test_batches_and_draws_have_liars_too() -> None:
    problem = fb.problems.heterogeneous(6, 3, 30, seed=1)
    liars: dict[int | str, Any] = {1: fb.attacks.promote(2)}
    algorithms = [fb.FedExp3(0.1), fb.FedExp3(0.5)]
    alone = [
        fb.simulate(problem, each, GRID, 2, dtype="float64", liars=liars, progress=False)
        for each in algorithms
    ]
    each = simulate_each(problem, algorithms, GRID, 2, dtype="float64", liars=liars)
    for a, b in zip(alone, each, strict=True):
        assert a.config == b.config
        xr.testing.assert_allclose(a.dataset, b.dataset, rtol=1e-9, atol=1e-9)
    draws = fb.simulate(
        problem, algorithms[0], GRID, 2, dtype="float64", liars=liars, draws=2, progress=False
    )
    xr.testing.assert_identical(
        draws.dataset["regret"][0].drop_vars("draw"), alone[0].dataset["regret"]
    )
    together = simulate_draws([problem], algorithms[0], GRID, runs=2, dtype="float64", liars=liars)
    np.testing.assert_allclose(
        together["expected_regret"][0, 0], alone[0].dataset["agent_expected_regret"], rtol=1e-9
    )


@pytest.mark.slow
def test_results_of_other_honest_agents_are_not_compared_and_results_name_their_gossip() -> None:
    problem = fb.problems.bernoulli([0.2, 0.5, 0.8], horizon=20, agents=4)
    plain = fb.gossip.max_degree(fb.networks.ring(4))
    clipped = fb.gossip.clipped(plain, 1.0)
    honest, lied = (
        fb.simulate(problem, fb.FedExp3(), clipped, 2, liars=liars, progress=False)
        for liars in (None, {3: fb.attacks.swap()})
    )
    with pytest.raises(
        ValueError, match=r"those that lie are nobody and 3\. Look at both summaries"
    ):
        fb.compare(honest, lied)
    assert "\ngossip: clipped(" in repr(honest)
    assert "gossip:" not in repr(fb.simulate(problem, fb.FedExp3(), plain, 2, progress=False))


def test_the_worst_agent_is_an_honest_one() -> None:
    """Agents 2 and 3 lie and lose most; the worst agent of the result is one of the others."""
    problem = fb.problems.bernoulli([0.1, 0.9], horizon=60, agents=4, seed=1)
    gossip = fb.gossip.max_degree(fb.networks.path(4))
    liars = {v: fb.attacks.swap() for v in (2, 3)}
    data = fb.simulate(problem, fb.FedExp3(), gossip, 2, dtype="float64", liars=liars).dataset
    worst = data["agent_expected_regret"].mean("run").max("agent")  # NaN for liars
    assert float(data["worst_regret"][-1]) == pytest.approx(float(worst), rel=1e-9)
