"""Randomised response: its odds exactly, by enumeration, and what an attacker gets."""

from __future__ import annotations

import itertools
import math
from decimal import Decimal
from typing import Any

import jax
import numpy as np
import numpy.typing as npt
import pytest

import fedbandits as fb
from fedbandits.common import streams
from fedbandits.engine import pytrees
from fedbandits.engine.preparation import precision
from fedbandits.engine.trajectory import trajectory
from fedbandits.privacy.response import LEAST, flips, guarantee
from tests.instances import ALGORITHMS
from tests.privacy.transcripts import Floats, law, plays

DRAWN: dict[Any, int] = {"float32": 23, "float64": 32}
"""Bits of a number that is drawn."""
EPSILONS = [LEAST, 1e-4, 0.01, 0.1, 0.3, math.log(2), 1.0, 1.5, 3.0, 8.0, 10.0, 15.9, 16.0, 40.0]
NEAR_ONE = 1 - 2.0**-24
"""The largest number below 1 in float32."""

BANDITS = {
    name: algorithm.with_values(hops=1) if name in ("Exp3Coop", "DelayedFTRL") else algorithm
    for name, algorithm in ALGORITHMS.items()
    if algorithm.feedback == "bandit" and not algorithm.noised
}
AT_ONCE = ("FedExp3", "AcceleratedFedExp3", "FedFTRL", "Exp3Coop", "DelayedFTRL", "GossipUCB")
"""Those that send in the next round what shows the bit."""


_respond = jax.jit(
    lambda privacy, losses, words: privacy.respond(losses, streams.as_uniforms(words, losses.dtype))
)


def ones(epsilon: float, losses: Floats, dtype: Any) -> npt.NDArray[np.int64]:
    """Of how many of the numbers that can be drawn the bit is 1, for each loss: by bisection.

    It is asked of the compiled program, in which a smaller number never makes a 1 a 0.
    """
    bits = DRAWN[dtype]
    privacy = fb.privacy.randomised_response(epsilon)
    pytrees.register(privacy)
    low, high = np.zeros(losses.shape, np.int64), np.full(losses.shape, 2**bits, np.int64)
    with precision(dtype):
        while (low < high).any():  # all below `low` are ones, none from `high` on is
            middle = np.minimum((low + high) // 2, 2**bits - 1)
            words = middle.astype(np.uint32) << np.uint32(32 - bits)
            found = np.asarray(_respond(privacy, losses.astype(dtype), words)) > 0
            waiting = low < high
            low = np.where(waiting & found, middle + 1, low)
            high = np.where(waiting & ~found, middle, high)
    return low


def test_the_numbers_that_can_be_drawn_are_counted_rightly() -> None:
    for dtype, bits in DRAWN.items():
        words = np.arange(3, dtype=np.uint32) << np.uint32(32 - bits)
        with precision(dtype):
            drawn = np.asarray(streams.as_uniforms(words, dtype))
            between = np.asarray(
                streams.as_uniforms(words + np.uint32(2 ** (32 - bits) - 1), dtype)
            )
        np.testing.assert_array_equal(drawn, (np.arange(3) + 0.5) * 2.0**-bits)
        np.testing.assert_array_equal(drawn, between)


@pytest.mark.parametrize("dtype", DRAWN)
def test_no_two_losses_change_the_odds_of_a_bit_by_more_than_e_to_epsilon(dtype: str) -> None:
    """Exactly: by counting the numbers that lead to a 1 and to a 0."""
    inside = np.random.default_rng(1).uniform(size=200)
    losses = np.sort([0.0, 1e-45, 2.0**-24, 1e-7, 0.5, 0.999999, NEAR_ONE, 1.0, *inside])
    total = 2 ** DRAWN[dtype]
    for epsilon in EPSILONS:
        count = ones(epsilon, losses, dtype)
        most, least = int(count.max()), int(count.min())
        assert (np.diff(count) >= 0).all()
        assert (count[0], count[-1]) == (least, most) == (least, total - least)
        odds = Decimal(epsilon).exp()
        assert Decimal(most) <= odds * Decimal(least)
        assert Decimal(total - least) <= odds * Decimal(total - most)
        # E b = f + ℓ/c, but for the width of a number.
        f = flips(epsilon, 23) / 2**23
        np.testing.assert_allclose(
            count / total, f + (1 - 2 * f) * losses, rtol=0, atol=2 * 2.0**-23
        )


def test_the_noise_is_as_little_as_epsilon_allows() -> None:
    """With one flip in 2^23 less, and likewise in 2^64, the odds were too large."""
    for epsilon, bits in itertools.product(EPSILONS, (23, 64)):
        odds, count = Decimal(epsilon).exp(), flips(epsilon, bits)
        assert Decimal(2**bits - count) <= odds * Decimal(count)
        assert Decimal(2**bits - count + 1) > odds * Decimal(count - 1)
    assert flips(math.inf, 23) == 0


@pytest.mark.slow
def test_flip_rates_follow_the_formula() -> None:
    """Null: flips are Bernoulli(f), independent; five standard errors."""
    problem = fb.problems.bernoulli([0.0, 1.0], horizon=2000, agents=5)
    for epsilon in (0.1, 1.0, 3.0):
        played = trajectory(
            problem, fb.Uniform(), runs=2, privacy=fb.privacy.randomised_response(epsilon)
        )
        assert played.uniforms.conditions[0] is not None
        loss = played.action.astype(np.float64)  # arm 1 always loses, arm 0 never
        bits = fb.privacy.randomised_response(epsilon).respond(loss, played.uniforms.conditions[0])
        rate, f = (bits != loss).mean(), 1 / (1 + math.exp(epsilon))
        assert abs(rate - f) < 5 * math.sqrt(f * (1 - f) / loss.size)
        ones_of_action = (played.uniforms.action < 0.5) == (played.uniforms.conditions[0] < 0.5)
        assert abs(ones_of_action.mean() - 0.5) < 5 * 0.5 / math.sqrt(loss.size)


@pytest.mark.parametrize("name", BANDITS)
def test_whatever_is_seen_is_at_most_e_to_epsilon_times_as_likely(name: str) -> None:
    """N = K = T = 2, all arms, bits and messages: neighbours differ in one agent's round."""
    privacy = fb.privacy.randomised_response(1.0)
    others = np.array([[[0.0, 1.0], [1.0, 0.3]], [[1.0, 0.0], [0.6, 0.0]]])  # [T, N, K]
    largest = 0.0
    for s in (0, 1):
        laws = []
        for losses in ([0.0, 0.0], [1.0, 1.0], [0.0, 1.0]):
            changed = others.copy()
            changed[s, 0] = losses
            laws.append(law(BANDITS[name], changed, privacy))
        for one, other in itertools.permutations(laws, 2):
            assert one.keys() == other.keys()
            assert sum(one.values()) == pytest.approx(1, abs=1e-12)
            largest = max(largest, *(math.log(one[seen] / other[seen]) for seen in one))
    assert largest <= 1 + 1e-9
    if name in AT_ONCE:
        # f is rounded up by less than 2^-23, which is less than 1e-6 of either probability.
        assert largest >= 1 - 1e-6


def test_expected_regret_on_bits_is_that_on_losses_divided_by_c() -> None:
    privacy = fb.privacy.randomised_response(0.5)
    losses = np.random.default_rng(3).uniform(size=(2, 2, 2))
    every = list(plays(BANDITS["FedExp3"], losses, privacy))
    incurred = sum(play.probability * play.losses for play in every)
    told = sum(play.probability * play.bits for play in every)
    for arm in range(2):
        best = losses[:, :, arm].sum()
        best_told = 4 * privacy.flip + best / privacy.cost  # E b = f + ℓ/c, four times
        assert told - best_told == pytest.approx((incurred - best) / privacy.cost, abs=1e-12)
    e = math.exp(0.5)
    assert privacy.cost == pytest.approx((e + 1) / (e - 1), rel=1e-6)


@pytest.mark.soak
def test_regret_is_below_c_times_the_bound() -> None:
    """Null: the expected regret is at most c times Theorem 3's bound; five standard errors."""
    problem = fb.problems.bernoulli([0.3, 0.7], horizon=2000, agents=2)
    gossip = fb.gossip.max_degree(fb.networks.complete(2))
    algorithm = fb.FedExp3.from_theorem(gossip, arms=2, horizon=2000)
    plain, blurred = (
        fb.simulate(problem, algorithm, gossip, runs=20, privacy=privacy)
        for privacy in (None, fb.privacy.randomised_response(1.0))
    )
    value = {result: result.bounds()["value"] for result in (plain, blurred)}
    name = "Theorem 3, upper bound"
    c = fb.privacy.randomised_response(1.0).cost
    assert value[blurred][name] == pytest.approx(c * value[plain][name])
    assert "times c = 2.164" in blurred.bounds()["remark"][name]
    at_end = blurred.dataset["regret"].to_numpy()[:, -1]
    assert at_end.mean() - 5 * at_end.std(ddof=1) / math.sqrt(20) < value[blurred][name]
    assert at_end.mean() > plain.dataset["regret"].to_numpy()[:, -1].mean()


@pytest.mark.slow
@pytest.mark.parametrize("name", ["FedExp3", "BlockGossip", "GossipUCB", "Exp3Coop"])
def test_an_algorithm_sees_the_bit_and_nothing_else(name: str) -> None:
    """The run is the plain one on bits, of all arms from the same number, round for round."""
    rng = np.random.default_rng(5)
    losses = rng.uniform(size=(12, 5, 3))
    gossip = fb.gossip.max_degree(fb.networks.ring(5))
    algorithm, privacy = ALGORITHMS[name], fb.privacy.randomised_response(1.0)
    blurred = trajectory(fb.problems.from_tensor(losses), algorithm, gossip, privacy=privacy)
    assert blurred.uniforms.conditions[0] is not None
    bits = privacy.respond(losses, blurred.uniforms.conditions[0][:, 0, :, None])
    plain = trajectory(fb.problems.from_tensor(bits), algorithm, gossip)
    np.testing.assert_array_equal(blurred.action, plain.action)
    for leaf, sent in plain.messages.items():
        np.testing.assert_array_equal(blurred.messages[leaf], sent)
    if algorithm.leaves:  # else nothing of it is seen
        other = trajectory(fb.problems.from_tensor(losses), algorithm, gossip)
        assert any((other.messages[leaf] != sent).any() for leaf, sent in plain.messages.items())


def attack(played: Any, W: Floats) -> npt.NDArray[np.bool_]:
    """The bits that a neighbour finds in z_{t+1} - Σ W z, who knows p and the arms: `[T-1, R, N]`.

    On a complete network nothing is unseen.
    """
    z, p = played.messages["z"], played.distribution
    news = z[1:] - np.einsum("truk,uv->trvk", z[:-1], W)
    arms = played.action[:-1, ..., None]
    found: npt.NDArray[np.bool_] = np.take_along_axis(news * p[:-1], arms, -1)[..., 0] > 0.5
    return found


@pytest.mark.slow
def test_an_attacker_finds_no_more_fair_coins_than_epsilon_allows() -> None:
    """Null: each is found with probability e^ε/(1+e^ε), independently; five standard errors.

    From below too, so that it is the attack that is held to this, and not a weaker one.
    """
    coins = np.random.default_rng(0).integers(2, size=(1500, 6, 2)).astype(float)
    problem = fb.problems.from_tensor(coins)
    gossip = fb.gossip.max_degree(fb.networks.complete(6))
    W = gossip.matrix.toarray()
    algorithm = fb.FedExp3(0.01, 0.2)
    for privacy in (None, fb.privacy.randomised_response(1.0)):
        played = trajectory(problem, algorithm, gossip, privacy=privacy)
        t, v = np.ogrid[: len(coins) - 1, :6]
        hits = attack(played, W)[:, 0] == coins[t, v, played.action[:-1, 0]]
        if privacy is None:
            assert hits.all()
            continue
        limit = math.e / (1 + math.e)
        assert abs(hits.mean() - limit) < 5 * math.sqrt(limit * (1 - limit) / hits.size)


def test_what_cannot_be_is_refused_and_what_is_said_names_unit_and_adversary() -> None:
    for epsilon in (0, -1, 1e-7, -math.inf):
        with pytest.raises(ValueError, match="at least 1e-06"):
            fb.privacy.randomised_response(epsilon)
    for wrong in ("1", True, None):
        with pytest.raises(TypeError, match="epsilon must be a number"):
            fb.privacy.randomised_response(wrong)  # type: ignore[arg-type]  # the point
    assert guarantee(1.0) == (
        "ε = 1 per round for the losses of one agent (event level); arms are public; "
        "holds even if all other agents collude"
    )
    assert guarantee(math.inf) == guarantee(None) == "no guarantee"


def test_full_information_is_refused() -> None:
    problem = fb.problems.bernoulli([0.3, 0.7], horizon=5, agents=3)
    gossip = fb.gossip.max_degree(fb.networks.ring(3))
    privacy = fb.privacy.randomised_response(1.0)
    with pytest.raises(ValueError, match="FedHedge sees the losses of all arms"):
        fb.simulate(problem, fb.FedHedge(), gossip, privacy=privacy)
    with pytest.raises(TypeError, match=r"randomised_response\(1\.0\), not 1\.0"):
        fb.simulate(problem, fb.FedExp3(), gossip, privacy=1.0)  # type: ignore[arg-type]  # the point
