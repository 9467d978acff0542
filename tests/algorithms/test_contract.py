"""The four promises of the algorithm contract, for every registered algorithm.

Trajectories are compared in float64, arm by arm. Two programs that round differently would have to
meet a uniform within 1e-13 of a cumulative probability to play different arms: over all the draws
of this suite a chance below 1e-6.
"""

from __future__ import annotations

import jax
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import fedbandits as fb
from fedbandits.algorithms import REGISTRY
from fedbandits.algorithms.base import Setting
from fedbandits.arrays import sample
from fedbandits.common import streams
from fedbandits.engine import chunk_sizes, pytrees
from fedbandits.engine.executors.program import compilations
from fedbandits.engine.mixing import mixer as mixing
from fedbandits.engine.preparation import precision
from fedbandits.engine.stages import round as rounds
from fedbandits.engine.stages.stages import Stages
from fedbandits.engine.trajectory import trajectory
from fedbandits.networks.searches import Floats
from fedbandits.results.trajectory import Trajectory
from tests.instances import (
    ALGORITHMS,
    ORACLE_SIZES,
    SIZES,
    connected_networks,
    every_algorithm,
    planar,
    random_losses,
)
from tests.oracles import ORACLES, Game
from tests.oracles import paper as oracle

compiled_round = jax.jit(rounds.play_round)
RUNS = 2  # of every trajectory, so that a size and an algorithm compile once for all tests


def gossip_on(network: fb.Network, lazy: bool = True) -> fb.Gossip:
    return fb.gossip.max_degree(network, lazy=lazy)


def noise_of(run: Trajectory, arms: int) -> Floats:
    """The uniforms behind the noise, `[T, R, N, K]`; of no use where there is no noise."""
    rounds, runs, agents = run.action.shape
    if run.uniforms.noise is None:
        return np.full((rounds, runs, agents, arms), np.nan)
    with precision("float64"):
        drawn = [
            streams.uniforms(key, (runs, arms, agents), "float64")
            for key in zip(*run.uniforms.noise, strict=True)
        ]
    return np.moveaxis(np.asarray(drawn), 2, 3)


def played(name: str, losses: Floats, gossip: fb.Gossip, seed: int = 0) -> Trajectory:
    problem = fb.problems.from_tensor(losses)
    return trajectory(problem, ALGORITHMS[name], gossip, runs=RUNS, seed=seed)


# Federated: Definition 1 of the paper.


@pytest.mark.slow
@every_algorithm
@given(st.data())
def test_news_travels_one_hop_a_round(name: str, data: st.DataObject) -> None:
    agents, arms, horizon = data.draw(st.sampled_from(SIZES))
    network = data.draw(connected_networks(agents))
    u = data.draw(st.integers(0, agents - 1))
    s = data.draw(st.integers(1, horizon))
    losses = random_losses(agents, arms, horizon, data.draw(st.integers(0, 99)))
    changed = losses.copy()
    changed[s - 1, u] = 1 - changed[s - 1, u]
    before, after = (played(name, x, gossip_on(network)).distribution for x in (losses, changed))
    distance = network.distances(u)
    for v in range(agents):
        unknowing = s + int(distance[v])  # rounds 1, ..., s + d(u, v) cannot know
        np.testing.assert_array_equal(before[:unknowing, :, v], after[:unknowing, :, v])


@pytest.mark.parametrize("name", ["FedExp3", "FedHedge", "GossipUCB"])
def test_news_does_arrive(name: str) -> None:
    """Else the test above could not fail: along a path the news comes exactly on time."""
    agents, arms, horizon, s = 5, 3, 12, 6
    losses = np.full((horizon, agents, arms), 0.5)
    changed = losses.copy()
    changed[s - 1, 0] = [0.0, 0.9, 1.0]
    gossip = gossip_on(fb.networks.path(agents))
    before, after = (played(name, x, gossip).messages for x in (losses, changed))
    leaf = "theta" if name == "GossipUCB" else "z"
    for v in range(agents):
        differs = (before[leaf][:, 0, v] != after[leaf][:, 0, v]).any(axis=-1)
        assert int(np.argmax(differs)) + 1 == s + v + 1


# Honest about what leaves.


@pytest.mark.parametrize("name", sorted(REGISTRY))
def test_what_leaves_is_declared(name: str) -> None:
    gossip = gossip_on(fb.networks.path(2))
    algorithm = ALGORITHMS[name].set_up(Setting(3, 2, gossip))
    leaves = {leaf: (x.kind, x.combine) for leaf, x in algorithm.leaves.items()}
    assert leaves == ORACLES[name].leaves
    state = algorithm.init(3, 2)
    assert set(algorithm.message(state)) == set(leaves)


@every_algorithm
@given(st.data())
def test_nothing_else_leaves(name: str, data: st.DataObject) -> None:
    """With the declared messages withheld, an agent's play is its own affair."""
    agents, arms, horizon = data.draw(st.sampled_from(SIZES))
    network = data.draw(connected_networks(agents))
    losses = random_losses(agents, arms, horizon, data.draw(st.integers(0, 99)))
    changed = losses.copy()
    changed[:, 1:] = 1 - changed[:, 1:]
    before, after = (played(name, x, fb.gossip.none(network)) for x in (losses, changed))
    np.testing.assert_array_equal(before.distribution[:, :, 0], after.distribution[:, :, 0])


# One truth: the compiled engine equals the oracle, round for round.


def test_every_algorithm_has_an_oracle() -> None:
    assert list(ORACLES) == list(REGISTRY)


PLAIN = ("FedExp3", "Exp3", "FedHedge", "Uniform")
"""Sums and exponentials alone, which round little; the others have inverses, or bisect."""


def check_oracle(name: str, gossip: fb.Gossip, losses: Floats, seed: int) -> None:
    engine = played(name, losses, gossip, seed)
    noise = noise_of(engine, losses.shape[2])
    averaged = [
        leaf for leaf, declared in REGISTRY[name].leaves.items() if declared.combine == "average"
    ]
    for run in range(RUNS):
        game = Game(
            losses,
            gossip.matrix.toarray(),
            gossip.network.distances().astype(np.int64),
            planar(losses.shape[2]),
            engine.uniforms.action[:, run],
            noise[:, run],
        )
        truth = ORACLES[name].play(game)
        np.testing.assert_array_equal(engine.action[:, run], truth.action)
        rtol, atol = (1e-10, 1e-13) if name in PLAIN else (1e-9, 1e-12)
        np.testing.assert_allclose(engine.distribution[:, run], truth.p, rtol=rtol, atol=atol)
        rtol, atol = (1e-10, 1e-12) if name in PLAIN else (1e-8, 1e-9)
        if averaged:
            sent = np.concatenate([engine.messages[leaf][:, run] for leaf in averaged], axis=-1)
            np.testing.assert_allclose(sent, truth.z, rtol=rtol, atol=atol)


BISECTED = ("DelayedFTRL", "FedFTRL")
"""Their oracles bisect twice for every agent and round."""


@pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, marks=() if name == "FedExp3" else pytest.mark.slow)
        for name in ORACLES
        if name not in BISECTED
    ],
)
@given(st.data())
def test_engine_equals_oracle(name: str, data: st.DataObject) -> None:
    agents, arms, horizon = data.draw(st.sampled_from(ORACLE_SIZES))
    network = data.draw(connected_networks(agents))
    losses = random_losses(agents, arms, horizon, data.draw(st.integers(0, 99)))
    gossip = gossip_on(network, lazy=data.draw(st.booleans()))
    check_oracle(name, gossip, losses, data.draw(st.integers(0, 2**32 - 1)))


@pytest.mark.slow
@pytest.mark.parametrize("agents", [1, 5])
@pytest.mark.parametrize("name", BISECTED)
def test_engine_equals_an_oracle_that_takes_its_time(name: str, agents: int) -> None:
    losses = random_losses(agents, 3, 12, 4)
    check_oracle(name, gossip_on(fb.networks.path(agents)), losses, seed=0)


@pytest.mark.parametrize("name", ["FedExp3", pytest.param("Exp3", marks=pytest.mark.slow)])
@given(st.data())
def test_the_default_rate_equals_oracle(name: str, data: st.DataObject) -> None:
    """η from the agent's own estimates, and how far apart the network leaves them.

    Of a gossip that is so slow that both of its halves are met.
    """
    agents, arms, horizon = data.draw(st.sampled_from(ORACLE_SIZES))
    fast = gossip_on(data.draw(connected_networks(agents))).matrix.toarray()
    gossip = fb.gossip.from_matrix(0.9 * np.eye(agents) + 0.1 * fast)
    losses = random_losses(agents, arms, horizon, data.draw(st.integers(0, 99)))
    engine = trajectory(fb.problems.from_tensor(losses), REGISTRY[name](), gossip)
    alone = name == "Exp3"
    W = np.eye(agents) if alone else gossip.matrix.toarray()
    truth = oracle.fedexp3(
        losses,
        W,
        lambda t: 0.0,
        lambda t: 0.01 * t ** (-1 / 3),
        engine.uniforms.action[:, 0],
        oracle.default_rate(np.ones((1, 1)) if alone else W, arms),
    )
    np.testing.assert_array_equal(engine.action[:, 0], truth.action)
    np.testing.assert_allclose(engine.distribution[:, 0], truth.p, rtol=1e-10, atol=1e-13)


@pytest.mark.slow
@given(st.data())
def test_gossip_ucb_equals_oracle_step_by_step(data: st.DataObject) -> None:
    """From the oracle's state each time, since a tie broken otherwise changes all that follows."""
    agents, arms, _ = data.draw(st.sampled_from(ORACLE_SIZES))
    network = data.draw(connected_networks(agents))
    gossip = gossip_on(network)
    W = gossip.matrix.toarray()
    neighbours = [np.flatnonzero(row).tolist() for row in network.adjacency.toarray()]
    losses = random_losses(agents, arms, 25, data.draw(st.integers(0, 99)))
    algorithm = fb.GossipUCB()
    rng = np.random.default_rng(data.draw(st.integers(0, 99)))
    state = oracle.gossip_ucb_start(agents, arms)
    if data.draw(st.booleans()):  # far behind the neighbours: the catching-up branch
        state.n_most[rng.integers(agents), rng.integers(arms)] = 30 * agents
    with precision("float64"):
        met = Stages(mixing.mixer(gossip, algorithm, "float64"))
        pytrees.register(algorithm)
        pytrees.register(met)
        for t in range(1, 26):
            uniforms = rng.uniform(size=agents)
            now = algorithm.init(arms, agents, (1, agents), np.float64)._replace(
                **{name: x.T[:, None, :] for name, x in vars(state).items()}
            )
            after, play = compiled_round(
                algorithm,
                met,
                now,
                losses[t - 1].T,
                rounds.RoundUniforms(uniforms[None]),
                np.int32(t),
            )
            state, p, action = oracle.gossip_ucb_round(
                state, losses[t - 1], W, neighbours, uniforms, t
            )
            np.testing.assert_allclose(np.asarray(play.p)[:, 0].T, p, rtol=1e-12)
            np.testing.assert_array_equal(np.asarray(play.action)[0], action)
            for name, x in vars(state).items():
                np.testing.assert_allclose(
                    np.asarray(getattr(after, name))[:, 0].T, x, rtol=1e-10, atol=1e-12
                )


@every_algorithm
@pytest.mark.parametrize("seed", range(3))
def test_one_live_agent_on_numpy_is_the_same_agent(name: str, seed: int) -> None:
    """The very same lines, on `[K]` arrays, one object per agent, messages passed by hand."""
    agents, arms, horizon = 5, 3, 12
    network = fb.networks.star(agents)
    gossip = gossip_on(network)
    W = gossip.matrix.toarray()
    linked = network.adjacency.toarray() + np.eye(agents)
    losses = random_losses(agents, arms, horizon, seed)
    algorithm = ALGORITHMS[name].set_up(Setting(arms, agents, gossip))
    engine = played(name, losses, gossip, seed)
    noise = noise_of(engine, arms)
    states = [algorithm.init(arms, agents, (), np.float64) for _ in range(agents)]
    near = network.distances() <= algorithm.hops
    past = [[algorithm.message(state) for state in states]] * (algorithm.hops - 1)  # of zeros
    for t in range(1, horizon + 1):
        past.append([algorithm.message(state) for state in states])
        sent, old = past[-1], past[-algorithm.hops]
        for v in range(agents):
            received = {}
            for leaf, declared in algorithm.leaves.items():
                now, then = (np.stack([m[leaf] for m in x], axis=-1) for x in (sent, old))
                received[leaf] = {
                    "average": now @ W[:, v],
                    "maximum": now[..., linked[v] > 0].max(axis=-1),
                    "flood": then[..., near[v]].sum(axis=-1),
                }[declared.combine]
            p = algorithm.distribution(states[v], t)
            np.testing.assert_allclose(engine.distribution[t - 1, 0, v], p, rtol=1e-9, atol=1e-12)
            action = sample(p, engine.uniforms.action[t - 1, 0, v])
            assert action == engine.action[t - 1, 0, v]
            seen = losses[t - 1, v] if algorithm.feedback == "full" else losses[t - 1, v, action]
            states[v] = algorithm.update(states[v], received, action, seen, p, t)
            if algorithm.noised and algorithm.noise_due(t):
                states[v] = algorithm.disturb(states[v], noise[t - 1, 0, v], t)


@every_algorithm
def test_no_agent_reaches_beyond_its_largest_estimate(name: str) -> None:
    """Alone, with the largest losses and the rarest plays; live agents rely on the bound."""
    arms, rounds = 3, 60
    network = fb.networks.path(1)
    algorithm = ALGORITHMS[name].set_up(Setting(arms, 1, gossip_on(network)))
    bound = algorithm.largest_estimate(arms, rounds)
    averages = [leaf for leaf, how in algorithm.leaves.items() if how.combine == "average"]
    noise = np.full(arms, 0.5)
    state = algorithm.init(arms, 1, (), np.float64)
    for t in range(1, rounds + 1):
        p = algorithm.distribution(state, t)
        rarest = np.int64(np.where(p > 0, p, 2.0).argmin())
        seen = np.ones(arms) if algorithm.feedback == "full" else np.float64(1.0)
        state = algorithm.update(state, algorithm.message(state), rarest, seen, p, t)
        if algorithm.noised and algorithm.noise_due(t):
            state = algorithm.disturb(state, noise, t)
        sent = algorithm.message(state)
        assert all(np.abs(sent[leaf]).max() <= bound for leaf in averages)


# Order free: chunks, batches and layouts change nothing.


@pytest.mark.slow
@every_algorithm
@given(st.data())
def test_a_run_does_not_depend_on_its_companions(name: str, data: st.DataObject) -> None:
    agents, arms, horizon = 5, 3, 12  # of SIZES
    gossip = gossip_on(data.draw(connected_networks(agents)))
    problem = fb.problems.from_tensor(random_losses(agents, arms, horizon, 7))
    seed = data.draw(st.integers(0, 2**32 - 1))
    alone, among = (
        trajectory(problem, ALGORITHMS[name], gossip, runs=runs, seed=seed) for runs in (1, RUNS)
    )
    np.testing.assert_array_equal(alone.uniforms.action, among.uniforms.action[:, :1])
    np.testing.assert_array_equal(alone.action, among.action[:, :1])
    np.testing.assert_allclose(
        alone.distribution, among.distribution[:, :1], rtol=1e-10, atol=1e-13
    )


@pytest.mark.slow
@every_algorithm
def test_simulate_plays_the_same_arms(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Three runs in chunks of four rounds, with losses made round by round, are two runs in one.

    A sum of 12 numbers in [0, 1] rounds by less than 12² · 2^-53 = 2e-14.
    """
    agents, arms, horizon = 5, 3, 12
    gossip = gossip_on(fb.networks.path(agents))
    problem = fb.problems.activated_bernoulli(agents, arms, horizon, seed=5)
    losses = problem.block(1, horizon).astype(np.float64)
    run = played(name, losses, gossip, seed=9)
    monkeypatch.setattr(chunk_sizes, "MOST_ROUNDS", 4)
    monkeypatch.setattr(chunk_sizes, "MOST_LOSSES_HELD", 1)
    assert chunk_sizes.chunking(problem, 3) == chunk_sizes.Chunking(12, 4, 4, ahead=False)
    data = fb.simulate(problem, ALGORITHMS[name], gossip, runs=3, seed=9, dtype="float64").dataset
    mean = losses.mean(axis=1)  # [T, K]
    np.testing.assert_allclose(data["arm_loss"], mean.cumsum(axis=0), rtol=0, atol=1e-13)
    plays = (run.action[..., None] == np.arange(arms)).sum(axis=2).cumsum(axis=0)  # [T, R, K]
    found = data["arm_frequency"][:RUNS] * data["time"] * agents
    np.testing.assert_array_equal(found.round(6), plays.transpose(1, 0, 2))
    expected = np.einsum("trvk,tk->rt", run.distribution, mean) / agents
    best = mean.cumsum(axis=0).min(axis=1)
    regret = data["expected_regret"][:RUNS]
    np.testing.assert_allclose(regret, expected.cumsum(axis=1) - best, rtol=0, atol=1e-11)


@pytest.mark.pinned
def test_published_numbers_do_not_change() -> None:
    """Golden values: another release of JAX, or another global flag, must not move a result."""
    import jax

    from fedbandits.common.streams import ACTIONS, LOSSES, round_key, words

    def drawn() -> list[int]:
        keys = [round_key(ACTIONS, 0, 1), round_key(ACTIONS, 7, 3000), round_key(LOSSES, 0, 1)]
        return [int(word) for key in keys for word in words(key, (2, 2)).ravel()[2:]]

    golden = [3821344151, 4122970919, 3767871144, 1780793841, 2497208264, 1554082365]
    assert drawn() == golden
    with jax.threefry_partitionable(False):
        assert drawn() == golden


def test_problem_and_simulation_of_one_seed_are_independent() -> None:
    """The stream is part of the key: else a problem seeded 0 would predict the arms of seed 0.

    Null: 2,000 independent pairs, whose correlation has the standard deviation 1/sqrt(2000). Five
    of them are exceeded with probability 6e-7.
    """
    from fedbandits.common.streams import ACTIONS, LOSSES, round_key, uniforms

    a, b = (
        np.concatenate([np.asarray(uniforms(round_key(s, 0, t), (50,))) for t in range(1, 41)])
        for s in (ACTIONS, LOSSES)
    )
    assert abs(np.corrcoef(a, b)[0, 1]) < 5 / np.sqrt(a.size)


# One compilation.


@pytest.mark.slow
def test_rates_networks_and_seeds_share_a_program() -> None:
    networks = [fb.networks.ring(7), fb.networks.path(7), fb.networks.star(7)]
    gossips = [fb.gossip.max_degree, fb.gossip.metropolis, fb.gossip.none]
    before = compilations()
    for seed, rate in enumerate((0.03, 0.1, 1)):
        problem = fb.problems.switching(agents=7, arms=3, horizon=95, seed=seed)
        algorithm = fb.FedExp3(rate, fb.schedules.power(rate / 10, 1 / 3))
        for network in networks:
            fb.simulate(problem, algorithm, gossips[seed](network), runs=2, seed=seed)
    assert compilations() == before + 1
