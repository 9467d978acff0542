"""Bad links in the engine: every rule is the plain loop, and keeps what it must."""

from __future__ import annotations

from typing import Any

import jax
import numpy as np
import pytest

import fedbandits as fb
from fedbandits.common import streams
from fedbandits.common.backend import playing_on
from fedbandits.engine import pytrees
from fedbandits.engine.executors.program import compilations
from fedbandits.engine.mixing import link_layouts
from fedbandits.engine.mixing.link_forms import link_form
from fedbandits.engine.preparation import precision
from fedbandits.engine.trajectory import trajectory
from fedbandits.gossip.bad_links import RULES, BadLinks
from tests.instances import random_losses, sent_by
from tests.oracles import bad_links, paper

GRID = fb.networks.grid(2, 3)
PLAIN = fb.gossip.metropolis(GRID)


def unequal(u: int, v: int) -> float:
    """Another loss for every message."""
    return ((3 * u + 5 * v) % 7) / 10


def drawn(gossip: fb.Gossip, horizon: int, runs: int, seed: int = 0) -> Any:
    """Which messages arrive, `[T, R, 2E]`, and how old they are, by the stream that is theirs."""
    faults, edges = gossip.faults, gossip.network.edges
    assert faults is not None
    count = len(edges)
    parts = 2 + (faults.active < 1) + (2 if faults.delay else 0)
    arrive = np.zeros((horizon, runs, 2 * count), bool)
    age = np.zeros((horizon, runs, 2 * count), int)
    with precision("float64"):
        draw = jax.jit(
            lambda t: streams.uniforms(
                streams.round_key(streams.LINKS, np.uint32(seed), t),
                (runs, parts * count),
                "float64",
            )
        )
        first = streams.round_key(streams.PHASES, np.uint32(seed), np.int32(0))
        phase = np.asarray(streams.uniforms(first, (runs, gossip.network.agents)))
        for t in range(1, horizon + 1):
            u = np.asarray(draw(np.int32(t)))
            arrive[t - 1] = u[:, : 2 * count] >= faults.loss
            if faults.active < 1:
                arrive[t - 1] &= np.tile(u[:, 2 * count : 3 * count] < faults.active, 2)
            if faults.up is not None and faults.down is not None:
                period = faults.up + faults.down
                up = (t + (phase * np.float32(period)).astype(int)) % period < faults.up
                arrive[t - 1] &= np.tile(up[:, edges].all(axis=2), 2)
            age[t - 1] = u[:, -2 * count :] * min(t, faults.delay + 1) if faults.delay else 0
    return arrive, age


def played(gossip: fb.Gossip, x: Any, horizon: int, put_in: Any = 0.0) -> tuple[Any, Any, Any]:
    """Values `[T + 1, M, R, N]` averaged over bad links, their memory, and maxima of each round."""
    with precision("float64"):
        form = link_form(gossip, "float64")
        pytrees.register(form)
        form = jax.device_put(form)

        @jax.jit
        def step(form: Any, x: Any, memory: Any, t: Any) -> Any:
            happens = form.draw(np.uint32(0), t, x.shape[1], "float64")
            after, memory = form.exchange(x, x, happens, memory)
            return after, memory, form.maximum(x, happens)

        values, maxima, memory = [x], [], form.first_memory(x)
        for t in range(1, horizon + 1):
            after, memory, largest = step(form, values[-1], memory, np.int32(t))
            values.append(np.asarray(after) + put_in)
            maxima.append(np.asarray(largest))
        return np.stack(values), jax.tree.map(np.asarray, memory), np.stack(maxima)


def oracles(gossip: fb.Gossip, horizon: int, runs: int) -> list[bad_links.Links]:
    arrive, age = drawn(gossip, horizon, runs)
    faults = gossip.faults
    assert faults is not None
    W, edges = gossip.matrix.toarray(), gossip.network.edges
    return [
        bad_links.Links(faults.rule, W, edges, arrive[:, r], age[:, r] if faults.delay else None)
        for r in range(runs)
    ]


LAYOUTS = {
    "Shifted": fb.networks.grid(3, 4),
    "Listed": fb.networks.random_geometric(40, 0.35, seed=1),
    "OneByOne": fb.networks.star(80),
}


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("layout", LAYOUTS)
def test_every_rule_is_the_loop_in_every_layout(layout: str, rule: str) -> None:
    network = LAYOUTS[layout]
    gossip = fb.gossip.unreliable(fb.gossip.metropolis(network), unequal, rule)
    form = link_form(gossip, "float64")
    links = form.links if rule != "flow" else form.others  # type: ignore[union-attr]  # a form of either kind
    # The leaves of a star hear one neighbour each over 79 distances; for its hub nothing is padded.
    assert isinstance(links.layout, getattr(link_layouts, layout)) or (layout, rule) == (
        "OneByOne",
        "flow",
    )
    x = np.random.default_rng(0).normal(size=(2, 2, network.agents))
    values, _, maxima = played(gossip, x, 4)
    for r, oracle in enumerate(oracles(gossip, 4, 2)):
        z = x[:, r].T
        for t in range(1, 5):
            for v in range(network.agents):
                heard = z[[v, *oracle.heard(t, v)]].max(axis=0)
                np.testing.assert_allclose(maxima[t - 1, :, r, v], heard, rtol=0, atol=1e-12)
            z = oracle.mix(t, z)
            np.testing.assert_allclose(values[t, :, r].T, z, rtol=0, atol=1e-12)


@pytest.mark.parametrize("rule", RULES)
def test_an_accelerator_is_told_the_same(rule: str) -> None:
    gossip = fb.gossip.unreliable(fb.gossip.metropolis(LAYOUTS["Shifted"]), unequal, rule)
    x = np.random.default_rng(0).normal(size=(2, 2, 12))
    with playing_on("accelerator"):
        there = played(gossip, x, 4)
    for one, other in zip(there[::2], played(gossip, x, 4)[::2], strict=True):
        np.testing.assert_allclose(one, other, rtol=0, atol=1e-12)


BAD = {
    "symmetric": {"loss": unequal, "rule": "symmetric", "up": 4, "down": 2},
    "receiver": {"loss": 0.3, "rule": "receiver", "delay": 3},
    "flow": {"loss": unequal, "rule": "flow", "active": 0.8},
    "lost": {"loss": {(0, 1): 0.5}, "rule": "lost", "delay": 1, "active": 0.7},
}


@pytest.mark.slow
@pytest.mark.parametrize("rule", RULES)
def test_fedexp3_and_gossip_ucb_are_the_oracles_round_for_round(rule: str) -> None:
    gossip = fb.gossip.unreliable(PLAIN, **BAD[rule])  # type: ignore[arg-type]  # a table of mixed values
    horizon, runs = 30, 2
    losses = random_losses(6, 3, horizon, seed=1)
    problem = fb.problems.from_tensor(losses)
    eta, gamma = 0.4, 0.1
    engine = trajectory(problem, fb.FedExp3(eta, gamma), gossip, runs=runs)
    ucb = trajectory(problem, fb.GossipUCB(), gossip, runs=runs)
    W = gossip.matrix.toarray()
    uniforms = engine.uniforms.action
    for r, oracle in enumerate(oracles(gossip, horizon, runs)):
        mine = paper.fedexp3(
            losses, W, lambda _: eta, lambda _: gamma, uniforms[:, r], mix=oracle.mix
        )
        np.testing.assert_array_equal(engine.action[:, r], mine.action)
        np.testing.assert_allclose(engine.messages["z"][:, r], mine.z, rtol=0, atol=1e-9)
    for r, oracle in enumerate(oracles(gossip, horizon, runs)):
        state = paper.gossip_ucb_start(6, 3)
        for t in range(1, horizon + 1):
            np.testing.assert_allclose(
                ucb.messages["theta"][t - 1, r], state.theta, rtol=0, atol=1e-9
            )
            np.testing.assert_array_equal(ucb.messages["n_most"][t - 1, r], state.n_most)
            heard = [oracle.heard(t, v) for v in range(6)]
            mixed = oracle.mix(t, state.theta)
            if t <= 3:  # first every arm is played once, and estimates are the agent's own
                oracle.unused()
            state, _, action = paper.gossip_ucb_round(
                state, losses[t - 1], W, heard, uniforms[t - 1, r], t, mixed
            )
            np.testing.assert_array_equal(ucb.action[t - 1, r], action)


@pytest.mark.parametrize(
    "bad",
    [
        {"rule": "symmetric", "loss": unequal},
        {"rule": "symmetric", "loss": 0.3, "up": 5, "down": 3},
        {"rule": "flow", "loss": unequal},
        {"rule": "flow", "loss": 0.5, "up": 5, "down": 3, "active": 0.5},
    ],
)
def test_the_sum_is_kept_whatever_is_lost(bad: dict[str, Any]) -> None:
    """Of all that was put in, with what is under way: to 1e-12 of it."""
    gossip = fb.gossip.unreliable(PLAIN, **bad)
    rng = np.random.default_rng(1)
    x, g = rng.uniform(size=(2, 3, 6)), rng.uniform(size=(2, 3, 6))
    values, memory, _ = played(gossip, x, 60, put_in=g)
    total = values[-1].sum(axis=-1)
    if bad["rule"] == "flow":
        pending = np.asarray(memory.pending)
        assert (pending != 0).any()  # something is under way, and counts
        total = total + pending.sum(axis=(0, -1))
    np.testing.assert_allclose(total, (x + 60 * g).sum(axis=-1), rtol=1e-12)
    assert np.ptp(values[-1], axis=-1).max() < np.ptp(x + 60 * g, axis=-1).max()  # and it mixes


@pytest.mark.parametrize("rule", RULES)
def test_links_that_lose_nothing_are_the_matrix(rule: str) -> None:
    """With weights and values that floating point holds exactly, to the last bit."""
    gossip = fb.gossip.max_degree(fb.networks.ring(6), lazy=False)  # 1/3: rounded
    exact = fb.gossip.from_matrix(np.where(gossip.matrix.toarray() > 0, 0.25, 0) + np.eye(6) / 4)
    loss = np.zeros(12)
    x = np.random.default_rng(0).integers(-1000, 1000, size=(3, 2, 6)).astype(float)
    u, v = exact.network.edges.T
    form_of = fb.Gossip(
        exact.network, "links", {}, exact.matrix[u, v].ravel(), faults=BadLinks(rule, loss)
    )
    values, _, _ = played(form_of, x, 1)
    np.testing.assert_array_equal(values[1], x @ exact.matrix.toarray())
    rounded = fb.Gossip(gossip.network, "links", {}, gossip.weights, faults=BadLinks(rule, loss))
    values, _, _ = played(rounded, x, 1)
    np.testing.assert_allclose(values[1], x @ gossip.matrix.toarray(), rtol=0, atol=1e-12)


@pytest.mark.slow
def test_without_loss_the_run_is_the_plain_one_bit_for_bit() -> None:
    problem = fb.problems.activated_bernoulli(agents=6, arms=3, horizon=50)
    plain, bad = (
        fb.simulate(problem, fb.FedExp3(), gossip, runs=2).dataset
        for gossip in (PLAIN, fb.gossip.unreliable(PLAIN, loss=0, rule="lost"))
    )
    for name in plain.data_vars:
        np.testing.assert_array_equal(plain[name], bad[name])


@pytest.mark.slow
def test_a_sweep_over_rates_compiles_once() -> None:
    problem = fb.problems.activated_bernoulli(agents=6, arms=3, horizon=50)
    regret = []
    losses: list[Any] = [0.1, 0.5, [0.1, 0.2, 0.3, 0.4, 0.5, 0.6]]
    for i, loss in enumerate(losses):
        gossip = fb.gossip.unreliable(PLAIN, loss, "flow", up=3 + i, down=2, active=0.9 - i / 10)
        before = compilations()
        found = fb.simulate(problem, fb.FedExp3(), gossip, runs=2)
        assert i == 0 or compilations() == before
        regret.append(found.dataset["expected_regret"].values)
    assert not np.array_equal(regret[0], regret[1])


@pytest.mark.slow
def test_messages_are_lost_as_often_as_said_and_links_are_down_as_long_as_said() -> None:
    """Each of 14 messages in 4000 draws: 5.5 standard errors, 5e-7 for all of them together."""
    gossip = fb.gossip.unreliable(PLAIN, unequal, "receiver")
    arrive, _ = drawn(gossip, 40, 100)
    assert gossip.faults is not None
    kept, loss = arrive.mean(axis=(0, 1)), gossip.faults.loss
    assert (abs(kept - (1 - loss)) <= 5.5 * np.sqrt(loss * (1 - loss) / 4000)).all()
    churn = fb.gossip.unreliable(PLAIN, rule="receiver", up=5, down=3)
    with precision("float64"):
        chances = link_form(churn, "float64").chances
        pytrees.register(chances)
        up = np.stack([chances._awake(np.uint32(0), np.int32(t), 9) for t in range(1, 17)])
    assert (up[:8].sum(axis=0) == 5).all()
    np.testing.assert_array_equal(up[:8], up[8:])
    assert len({tuple(line) for line in up.reshape(16, -1).T}) > 1  # phases differ
    assert (abs(np.diff(up[:9].astype(int), axis=0)).sum(axis=0) == 2).all()  # one turn a period


# What the rules are worth, on values of the agents whose messages are lost at 0.9.


def kept_share(rule: str, loss: Any, rounds: int = 150) -> tuple[float, float]:
    """Mean over agents, where every second agent began with 1 and the others with 0.

    Returns:
        the mean over runs, and its standard error.
    """
    network = fb.networks.ring(6)
    gossip = fb.gossip.unreliable(fb.gossip.metropolis(network), loss, rule)
    x = np.broadcast_to(np.arange(6) % 2.0, (1, 200, 6))
    mean = played(gossip, np.array(x), rounds)[0][-1, 0].mean(axis=-1)
    return float(mean.mean()), float(mean.std(ddof=1) / np.sqrt(len(mean)))


UNEQUAL = [0.0, 0.9] * 3


@pytest.mark.slow
def test_receiver_is_biased_where_losses_are_unequal_and_the_others_are_not() -> None:
    """Null: the mean, 1/2, is kept in expectation. Five standard errors, of 200 runs.

    The expected matrix says where `receiver` ends: at the share π of those who are lost, with
    0.1 π_lost = π_heard, that is 1/11.
    """
    mean, error = kept_share("receiver", 0.3)
    assert abs(mean - 0.5) <= 5 * error  # equal loss: not refuted
    mean, error = kept_share("receiver", UNEQUAL)
    assert abs(mean - 0.5) > 5 * error
    assert abs(mean - 1 / 11) <= 5 * error
    for rule in ("symmetric", "flow"):
        mean, _ = kept_share(rule, UNEQUAL)
        tolerance = 1e-12 if rule == "symmetric" else 0.05  # what is under way is missing
        assert abs(mean - 0.5) < tolerance


def test_lost_loses_everything() -> None:
    """A third of the weights is a neighbour's: of the sum 0.8 is left a round, at 30% loss."""
    mean, error = kept_share("lost", 0.3, rounds=5)
    assert abs(mean - 0.5) > 5 * error  # null: the sum is kept
    assert abs(mean - 0.5 * 0.8**5) <= 5 * error
    assert kept_share("lost", 0.3)[0] < 1e-12


@pytest.mark.slow
def test_regret_over_bad_links() -> None:
    """`lost` is worse than `symmetric` at 30%, `receiver` where losses are unequal: paired runs.

    Null: they are not. Five standard errors of the difference of 20 runs.
    """
    horizon, network = 1000, fb.networks.grid(4, 4)
    plain = fb.gossip.max_degree(network)
    kinds = np.array([[0.3, 0.5, 0.9], [0.9, 0.3, 0.9]])  # those who are heard prefer another arm
    losses = np.random.default_rng(0).uniform(size=(horizon, 16, 3)) < kinds[np.arange(16) % 2]
    problem = fb.problems.from_tensor(losses.astype(float))

    def regret(rule: str, loss: Any) -> Any:
        gossip = fb.gossip.unreliable(plain, loss, rule)
        found = fb.simulate(problem, fb.FedExp3(0.05), gossip, runs=20)
        return found.dataset["expected_regret"].isel(time=-1).values

    muted = np.where(np.arange(16) % 2 == 1, 0.9, 0.0)
    for worse, loss in (("lost", np.full(16, 0.3)), ("receiver", muted)):
        difference = regret(worse, loss) - regret("symmetric", loss)
        error = difference.std(ddof=1) / np.sqrt(len(difference))
        assert difference.mean() > 5 * error, worse


# What is refused, and what is counted.


def test_floods_and_rounds_in_common_are_refused() -> None:
    problem = fb.problems.activated_bernoulli(agents=6, arms=3, horizon=50)
    with pytest.raises(ValueError, match=r"FedFTRL floods .* no answer to lost messages"):
        fb.simulate(problem, fb.FedFTRL(), fb.gossip.unreliable(PLAIN, 0.1))
    with pytest.raises(ValueError, match=r"BlockGossip needs a round in common.*'symmetric'"):
        fb.simulate(problem, fb.BlockGossip(), fb.gossip.unreliable(PLAIN, 0.1, "flow"))


def test_messages_are_counted_as_sent() -> None:
    problem = fb.problems.activated_bernoulli(agents=6, arms=3, horizon=50)
    bad = fb.gossip.unreliable(PLAIN, 0.5, "flow")
    assert sent_by(problem, fb.FedExp3(), bad) == sent_by(problem, fb.FedExp3(), PLAIN)
