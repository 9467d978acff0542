"""PrivateFedExp3 and HeldFedExp3: the noise, what it stands before, and an audit of ε.

Everywhere: event level, one agent's round; the adversary is all other agents together.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import beta

import fedbandits as fb
from fedbandits.algorithms import REGISTRY, AnyAlgorithm
from fedbandits.algorithms.noised_blocks import laplace
from fedbandits.algorithms.private_fedexp3 import bounded
from fedbandits.common import streams
from fedbandits.engine.executors.program import compilations
from fedbandits.engine.preparation import precision
from fedbandits.engine.stages.round import RoundUniforms
from fedbandits.engine.trajectory import play_given
from tests.engine.simulations import prepare
from tests.instances import ALGORITHMS, random_losses

Floats = np.ndarray[Any, np.dtype[np.float64]]
NOISED = [name for name, kind in REGISTRY.items() if kind.noised]
FALSE_ALARM = 1e-6


class Seen(NamedTuple):
    """Of every round: distributions `[T, K, R, N]`, arms `[T, R, N]`, messages z `[T, K, R, N]`."""

    p: Floats
    action: np.ndarray[Any, np.dtype[np.int64]]
    z: Floats


def play(
    algorithm: AnyAlgorithm, gossip: fb.Gossip, losses: Floats, uniforms: Floats, seed: int = 0
) -> Seen:
    """The engine's rounds with these losses `[T, N, K]` and uniforms for arms `[T, R, N]`."""
    with precision("float64"):
        problem, runs = fb.problems.from_tensor(losses), uniforms.shape[1]
        game = prepare(problem, algorithm, gossip, runs, 0, dtype="float64", devices=1)
        times = np.arange(1, len(losses) + 1)
        keys = jax.vmap(lambda t: streams.round_key(streams.NOISE, seed, t))(times)
        drawn = RoundUniforms(uniforms, noise=keys)
        p, action, sent = _play(game.algorithm, game.stages, game.carry.state, losses, drawn)
    return Seen(np.asarray(p), np.asarray(action), np.asarray(sent["z"]))


_play = jax.jit(play_given)

# The noise.


def test_noise_is_where_the_distribution_function_says() -> None:
    u = (np.arange(2**12) + 0.5) / 2**12
    x = laplace(u)
    distribution = np.where(x < 0, np.exp(np.minimum(x, 0)) / 2, 1 - np.exp(-np.maximum(x, 0)) / 2)
    np.testing.assert_allclose(distribution, u, rtol=1e-13)
    np.testing.assert_array_equal(laplace(1 - u), -x)


@pytest.mark.parametrize(("dtype", "bits"), [("float32", 23), ("float64", 32)])
def test_noise_is_finite_and_cut_off_where_the_grid_ends(dtype: str, bits: int) -> None:
    with precision("float64"):
        words = np.array([0, 2**32 - 1], np.uint32)
        x = np.asarray(laplace(streams.as_uniforms(jax.numpy.asarray(words), dtype)))
    np.testing.assert_allclose(x, [-bits * np.log(2), bits * np.log(2)], rtol=1e-6)


def added(name: str, losses: float, blocks: int, runs: int) -> tuple[AnyAlgorithm, Floats, Seen]:
    """What blocks of three rounds add to z, `[blocks, K, R, N]`, where nobody hears anyone."""
    algorithm, agents, arms, rounds = ALGORITHMS[name], 4, 5, 3 * blocks + 1
    uniforms = np.random.default_rng(1).uniform(size=(rounds, runs, agents))
    silent = fb.gossip.none(fb.networks.path(agents))
    seen = play(algorithm, silent, np.full((rounds, agents, arms), losses), uniforms)
    np.testing.assert_array_equal(seen.z[1::3], seen.z[::3][:-1])  # nothing within a block
    return algorithm, np.diff(seen.z[::3], axis=0), seen


def check_laplace(noise: Floats, scale: float) -> None:
    """Null: independent and of density exp(-|x|/b)/2b.

    E|x| = b with deviation b; five standard errors. Kolmogorov's sqrt(n) D is above 2.7 with
    probability 2 exp(-2 · 2.7²) < 1e-6.
    """
    n, x = noise.size, np.sort(noise.ravel()) / scale
    assert abs(np.abs(x).mean() - 1) < 5 / np.sqrt(n)
    distribution = np.where(x < 0, np.exp(-np.abs(x)) / 2, 1 - np.exp(-np.abs(x)) / 2)
    assert np.abs(distribution - (np.arange(n) + 0.5) / n).max() * np.sqrt(n) < 2.7


@pytest.mark.slow
def test_every_entry_of_a_block_has_noise_of_its_own() -> None:
    """Losses of 1/2, which is b in the first block, are estimated as 0: what is added is noise.

    Its scale is 2 max(b, 1 - b) C/ε = C/ε. In later blocks the oracle has the same noise.
    """
    algorithm, noise, _ = added("PrivateFedExp3", 0.5, blocks=1, runs=1000)
    scale = algorithm.bound / algorithm.epsilon  # type: ignore[attr-defined]  # an Algorithm by name
    check_laplace(noise, scale)
    for axis in (1, 2, 3):  # arms, runs, agents: uncorrelated with the next
        one, other = (np.delete(noise, end, axis) / scale for end in (0, -1))
        assert abs((one * other).mean()) < 5 * 2 / np.sqrt(one.size)  # E x² = 2


@pytest.mark.slow
def test_the_sum_of_a_held_arm_has_noise() -> None:
    """Losses of 0: the held arm's entry gets Laplace(1/ε)/p, the others nothing."""
    algorithm, grown, seen = added("HeldFedExp3", 0.0, blocks=100, runs=10)
    held = seen.action[:-1:3, None] == np.arange(5)[:, None, None]
    assert not grown[~held].any()
    for later in (1, 2):
        np.testing.assert_array_equal(seen.action[later::3], seen.action[:-1:3])
    noise = (grown * seen.p[:-1:3])[held]
    check_laplace(noise, 1 / algorithm.epsilon)  # type: ignore[attr-defined]  # an Algorithm by name


# Sensitivity.


@given(st.data())
def test_one_event_moves_a_sum_by_the_bound_at_most(data: st.DataObject) -> None:
    arms = data.draw(st.integers(2, 5))
    weights = data.draw(st.lists(st.floats(1e-6, 1), min_size=arms, max_size=arms))
    p = np.array(weights) / np.sum(weights)
    C, b = data.draw(st.floats(1, 50)), data.draw(st.floats(0, 1))
    losses = st.one_of(st.sampled_from([0.0, 1.0]), st.floats(0, 1))
    one, other = (
        bounded(
            np.float64(data.draw(losses) - b), np.int64(data.draw(st.integers(0, arms - 1))), p, C
        )
        for _ in range(2)
    )
    assert np.abs(one - other).sum() <= 2 * max(b, 1 - b) * C * (1 + 1e-12)


@pytest.mark.parametrize("b", [0.2, 0.5, 0.9])
def test_noise_is_in_proportion_to_what_one_event_can_do(b: float) -> None:
    """The worst two events are as far apart as is allowed, and noise has that scale over ε."""
    p, C, epsilon = np.array([0.1, 0.1, 0.8]), 10.0, 0.5
    worst = 1.0 if b < 0.5 else 0.0
    one, other = (bounded(np.float64(worst - b), np.int64(arm), p, C) for arm in (0, 1))
    apart = np.abs(one - other).sum()
    assert apart == pytest.approx(2 * max(b, 1 - b) * C)
    algorithm = fb.PrivateFedExp3(epsilon, C, 1, 0.1)
    state = algorithm.init(3, 1, (), np.float64)._replace(baseline=np.array([b]))
    u = np.array([0.1, 0.5, 0.7])
    np.testing.assert_allclose(
        algorithm.disturb(state, u, np.int64(1)).z, apart / epsilon * laplace(u), atol=1e-12
    )


def test_the_baseline_follows_the_losses() -> None:
    """Without noise, which u = 1/2 means, b ends at the loss of all arms, from 1/2 on."""
    algorithm, arms = fb.PrivateFedExp3(1.0, 9.0, 4, 0.1), 3
    for loss in (0.0, 0.8, 1.0):
        state = algorithm.init(arms, 1, (), np.float64)
        for t in map(np.int64, range(1, 201)):
            p = algorithm.distribution(state, t)
            state = algorithm.update(state, {"z": state.z}, t % arms, np.float64(loss), p, t)
            if algorithm.noise_due(t):
                state = algorithm.disturb(state, np.full(arms, 0.5), t)
                assert 0 <= state.baseline[0] <= 1
        assert state.baseline[0] == pytest.approx(loss, abs=0.05)


@pytest.mark.parametrize("name", NOISED)
def test_one_event_touches_one_block(name: str) -> None:
    """The same arms, distributions, noise and public state: only the loss's own block differs."""
    algorithm, arms, rounds, place = ALGORITHMS[name], 3, 12, 4
    rng = np.random.default_rng(3)
    p = np.repeat(rng.dirichlet(np.ones(arms), rounds // 3), 3, axis=0)
    action = np.repeat(rng.integers(arms, size=rounds // 3), 3)
    noise = rng.uniform(size=(rounds, arms))

    def sums(losses: Floats) -> list[Floats]:
        state, found = algorithm.init(arms, 1, (), np.float64), []
        for t in range(1, rounds + 1):
            nothing = {"z": np.zeros(arms)}
            state = algorithm.update(
                state, nothing, action[t - 1], losses[t - 1], p[t - 1], np.int64(t)
            )
            assert not state.z.any()
            if algorithm.noise_due(np.int64(t)):
                state = algorithm.disturb(state, noise[t - 1], np.int64(t))
                found.append(state.z)
                assert not state.gathered.any()
                state = algorithm.init(arms, 1, (), np.float64)  # all else is public
        return found

    losses = rng.uniform(size=rounds)
    changed = losses.copy()
    changed[place] = 1 - changed[place]
    for block, (one, other) in enumerate(zip(sums(losses), sums(changed), strict=True)):
        assert (one != other).any() == (block == place // 3)


# Nothing but the noised state is played from or sent.


class PlaysRaw(fb.PrivateFedExp3):
    """Breaks the promise: its arms carry the raw losses of the block."""

    def distribution(self, state: Any, t: Any) -> Any:
        return super().distribution(state._replace(z=state.z + state.gathered), t)


class SendsRaw(fb.PrivateFedExp3):
    """Breaks the promise: neighbours get the raw losses of the block."""

    def message(self, state: Any) -> Any:
        return {"z": state.z + state.gathered}


def check_silence(algorithm: AnyAlgorithm) -> None:
    """Another loss of agent 2 in round 5, of block 4 to 6: nothing differs up to round 6.

    Before round 7 its z differs by what the block's noised sum differs by, and nobody else's does.
    """
    agents, arms, rounds, s, u = 5, 3, 12, 5, 2
    gossip = fb.gossip.max_degree(fb.networks.path(agents))
    uniforms = np.random.default_rng(4).uniform(size=(rounds, 1, agents))
    losses = random_losses(agents, arms, rounds, 8)
    changed = losses.copy()
    changed[s - 1, u] = np.where(losses[s - 1, u] > 0.5, 0.0, 1.0)
    before, after = (play(algorithm, gossip, x, uniforms) for x in (losses, changed))
    for one, other in zip(before, after, strict=True):
        np.testing.assert_array_equal(one[:6], other[:6])
    arm = before.action[s - 1, 0, u]
    drawn = 4 if isinstance(algorithm, fb.HeldFedExp3) else s  # in which round
    weight = 1 / before.p[drawn - 1, arm, 0, u]
    if isinstance(algorithm, fb.PrivateFedExp3):
        weight = min(weight, algorithm.bound or np.inf)
    expected = np.zeros((arms, agents))
    expected[arm, u] = (changed - losses)[s - 1, u, arm] * weight
    np.testing.assert_allclose((after.z - before.z)[6, :, 0], expected, rtol=0, atol=1e-12)
    assert (after.p != before.p)[6, :, 0, u].any()


@pytest.mark.parametrize("name", NOISED)
def test_a_loss_shows_only_in_the_noised_sum_of_its_block(name: str) -> None:
    check_silence(ALGORITHMS[name])


@pytest.mark.parametrize("broken", [PlaysRaw, SendsRaw])
def test_what_shows_the_raw_state_is_found(broken: Callable[..., AnyAlgorithm]) -> None:
    with pytest.raises(AssertionError):
        check_silence(broken(2.0, 2.5, 3, 0.2, fb.schedules.power(0.5, 1 / 3)))


# An audit: how well can two inputs be told apart?


def least_epsilon(first: int, second: int, trials: int) -> float:
    """ln(P1/P2) is at least this, with probability 1 - FALSE_ALARM (Clopper and Pearson)."""
    low = beta.ppf(FALSE_ALARM / 2, first, trials - first + 1)
    high = beta.ppf(1 - FALSE_ALARM / 2, second + 1, trials - second)
    return float(np.log(low / high))


def first_round(algorithm: AnyAlgorithm, arm: int, loss: float, seed: int) -> Floats:
    """z of agent 0 after a block of two rounds that began with this event, `[K, trials]`.

    The other agent, the adversary, sees just this of it; N = K = 2. All else is the same.
    """
    gossip = fb.gossip.max_degree(fb.networks.path(2))
    losses = np.full((3, 2, 2), 0.5)
    losses[0, 0] = loss
    uniforms = np.full((3, TRIALS, 2), 0.25)
    uniforms[0, :, 0] = 0.25 + 0.5 * arm  # the first is played from (1/2, 1/2)
    seen = play(algorithm, gossip, losses, uniforms, seed)
    assert (seen.action[0, :, 0] == arm).all()
    return seen.z[2, :, :, 0]


TRIALS = 50_000


def audit(algorithm: AnyAlgorithm) -> float:
    """The largest ε that is certain, from the event that tells two inputs apart best.

    PrivateFedExp3, C = 2: the arm is 0 or 1 and its loss 1, which adds 1 to one of two entries.
    HeldFedExp3: arm 0 has the loss 1 or 0, which adds 2 (p = 1/2) or nothing; the second
    round adds 1.
    """
    if isinstance(algorithm, fb.HeldFedExp3):
        inputs = ((0, 1.0), (0, 0.0))
        one, other = (
            int((first_round(algorithm, *event, seed)[0] > 2 * 1.5).sum())
            for seed, event in enumerate(inputs)
        )
    else:
        inputs = ((0, 1.0), (1, 1.0))
        one, other = (
            int(((z[0] > 1) & (z[1] < 0)).sum())
            for z in (first_round(algorithm, *event, seed) for seed, event in enumerate(inputs))
        )
    return least_epsilon(one, other, TRIALS)


@pytest.mark.slow
@pytest.mark.parametrize("epsilon", [0.5, 1.0])
@pytest.mark.parametrize("name", NOISED)
def test_an_audit_finds_no_more_than_epsilon(name: str, epsilon: float) -> None:
    """Null: ε-differential privacy; a false alarm has probability FALSE_ALARM.

    The event has the likelihood ratio e^ε exactly. P1 >= 1/4 and P2 >= e^(-1)/4 of 50,000 trials
    have standard errors below 0.8% and 1.4% of themselves: the bound of ln(P1/P2) lies 4.9 of each,
    0.11, below what is counted, which lies within five of both together, 0.08, of ε. So the audit
    is sharp to 0.2, and would have found any mechanism whose ε is 0.2 too large.
    """
    assert epsilon - 0.2 < audit(made(name, epsilon)) <= epsilon


@pytest.mark.slow
@pytest.mark.parametrize("name", NOISED)
def test_an_audit_finds_half_the_noise(name: str) -> None:
    """Half the noise has 2ε, and the bound that is found is above ε.

    Power: as above with P2 >= e^(-2)/4, whose standard error is below 2.4% of itself: the bound is
    above 2 - 0.3 but for a probability of 1e-6.
    """
    claimed = 1.0
    assert audit(made(name, 2 * claimed)) > claimed


def made(name: str, epsilon: float) -> AnyAlgorithm:
    if name == "HeldFedExp3":
        return fb.HeldFedExp3(epsilon, 2, 0.1, 1.0)
    return fb.PrivateFedExp3(epsilon, 2.0, 2, 0.1, 1.0)


# What else is promised.


@pytest.mark.slow
def test_a_sweep_over_epsilon_bound_and_block_compiles_once() -> None:
    problem = fb.problems.activated_bernoulli(agents=6, arms=3, horizon=70)
    gossip = fb.gossip.max_degree(fb.networks.ring(6))
    before = compilations()
    for epsilon, bound, block in ((0.1, 3.0, 5), (1.0, 2.0, 7), (10.0, 9.0, 30)):
        algorithm = fb.PrivateFedExp3(epsilon, bound, block)
        fb.simulate(problem, algorithm, gossip, runs=2, progress=False)
    assert compilations() == before + 1


@pytest.mark.slow
@pytest.mark.parametrize("name", NOISED)
def test_news_that_comes_with_the_noise_is_checked(name: str) -> None:
    """A check that never reached the end of a block could find nothing."""
    fb.check_federated(ALGORITHMS[name], fb.networks.path(4))

    class Tells(type(ALGORITHMS[name])):  # type: ignore[misc]  # a class by value
        """All agents of a network in one array, and their sums for everybody."""

        def disturb(self, state: Any, uniforms: Any, t: Any) -> Any:
            after = super().disturb(state, uniforms, t)
            return after._replace(z=after.z + after.z.sum(axis=-1, keepdims=True))

    with pytest.raises(fb.NotFederatedError):
        fb.check_federated(Tells(block=30), fb.networks.path(4))


@pytest.mark.parametrize("name", sorted(REGISTRY))
def test_a_guarantee_has_epsilon_unit_and_adversary(name: str) -> None:
    said, noised = REGISTRY[name].guarantee, name in NOISED
    assert (said is not None) == noised
    for words in ("ε = {epsilon} per round", "(event level)", "even if all other agents collude"):
        assert said is None or words in said


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"epsilon": 0}, "epsilon must be in \\(0, inf\\), not 0"),
        ({"epsilon": -1.0}, "epsilon must be in \\(0, inf\\), not -1.0"),
        ({"epsilon": float("inf")}, "epsilon must be in \\(0, inf\\), not inf"),
        ({"epsilon": float("nan")}, "epsilon must be a number, not nan"),
        ({"block": 0}, "block must be a whole number of at least 1, not 0"),
    ],
)
@pytest.mark.parametrize("name", NOISED)
def test_what_means_nothing_is_refused(name: str, arguments: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        REGISTRY[name](**arguments)


@pytest.mark.parametrize("bound", [0, 0.5, -1.0, float("inf")])
def test_a_bound_below_one_is_refused(bound: float) -> None:
    with pytest.raises(ValueError, match="bound must be in \\[1, inf\\), not"):
        fb.PrivateFedExp3(bound=bound)


def test_what_it_takes_from_the_network_is_asked_for() -> None:
    algorithm = fb.PrivateFedExp3()
    with pytest.raises(ValueError, match="PrivateFedExp3 takes what was not given"):
        algorithm.distribution(algorithm.init(3, 2), 1)


@pytest.mark.parametrize("name", NOISED)
def test_live_agents_refuse_simulated_noise(name: str) -> None:
    from fedbandits.live.protocol.suitability import UnsuitableError, check_suitable

    with pytest.raises(UnsuitableError, match="its noise comes from a simulator"):
        check_suitable(ALGORITHMS[name], 3, 4)
