"""Rates: their values, their checks, and the theorem's."""

from __future__ import annotations

import math
import re
import warnings
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

import fedbandits as fb
from fedbandits.algorithms.base import Setting
from fedbandits.algorithms.exponential_weights import LossEstimates
from fedbandits.common.describe import describe
from fedbandits.engine.executors.program import compilations
from fedbandits.gossip.scatter import scatter

STATE = LossEstimates(np.zeros(20), np.float64(36))


def test_values() -> None:
    assert fb.schedules.constant(0.1)(7, STATE) == 0.1
    assert fb.schedules.power(0.01, 1 / 3)(27, STATE) == pytest.approx(0.01 / 3)
    expected = 1.5 * math.sqrt(math.log(20) / ((20 / 36 + 1) * 9))
    assert fb.schedules.anytime(1.5)(9, STATE) == pytest.approx(expected)
    below = STATE._replace(z=np.arange(20.0) - 9)  # as momentum may bring it
    assert fb.schedules.small_loss()(9, below) == fb.schedules.small_loss()(9, STATE)
    estimates = STATE._replace(z=np.arange(20.0) + 7)
    expected = 2 * math.sqrt(math.log(20) / ((20 / 36 + 1) * 7.5))
    assert fb.schedules.small_loss()(9, estimates) == pytest.approx(expected)


def test_the_rate_that_knows_the_network() -> None:
    """It is the small-loss rate, but for what slow gossip allows once the best arm has lost."""
    small, rate = fb.schedules.small_loss(1.5), fb.schedules.mixing_aware(1.5)
    estimates = STATE._replace(z=np.arange(20.0) + 7)
    slow = rate.knowing(34.0)
    allowed = 1.5 * (6 * math.log(20) / (19 * 34 * 7)) ** (1 / 3)
    assert slow(9, estimates) == pytest.approx(allowed)
    assert allowed < small(9, estimates)
    for state, told in (
        (estimates, rate),  # nobody told it
        (estimates, rate.knowing(0.0)),  # an agent alone
        (STATE, slow),  # the best arm has lost nothing
        (STATE._replace(z=np.arange(20.0) - 9), slow),  # as momentum may bring it
    ):
        assert told(9, state) == small(9, state)


def test_what_the_network_tells_is_no_part_of_the_rate() -> None:
    """So that a journal, or a result, is of the same game when a member joins."""
    rate, told = fb.schedules.mixing_aware(), fb.schedules.mixing_aware().knowing(34.0)
    assert rate == told
    assert repr(rate) == repr(told) == "mixing_aware(c=2.0)"
    assert describe(told) == {"name": "MixingAware", "c": 2.0}
    with pytest.raises(ValueError, match="mixing_aware is a learning rate, of no use as explor"):
        fb.FedExp3(exploration=rate)


def test_algorithms_are_told_of_the_network_they_gossip_on() -> None:
    gossip = fb.gossip.max_degree(fb.networks.star(36))
    setting = Setting(arms=20, agents=36, gossip=gossip)
    forgetting = (fb.FedExp3(memory=300), fb.TrackingFedExp3(), fb.SharingFedExp3())
    for algorithm in (fb.FedExp3(), *forgetting):
        assert algorithm.set_up(setting).learning_rate.scatter == scatter(gossip)  # type: ignore[attr-defined]
    fast = fb.AcceleratedFedExp3().set_up(setting)
    assert fast.momentum is not None
    assert fast.learning_rate.scatter == scatter(gossip, fast.momentum)  # type: ignore[attr-defined]
    # Told once, told again of another, and left alone by who knows of none.
    again = fb.FedExp3().set_up(setting).set_up(setting._replace(gossip=None))
    assert again.learning_rate.scatter == scatter(gossip)  # type: ignore[attr-defined]
    assert fb.FedExp3(0.1).set_up(setting) == fb.FedExp3(0.1)
    assert fb.Exp3().set_up(setting).learning_rate == fb.schedules.small_loss()
    # Who sends nothing has nothing to spread.
    assert fb.Exp3(fb.schedules.mixing_aware()).set_up(setting).learning_rate.scatter is None  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: fb.FedExp3(learning_rate=-0.1), "learning_rate must be .* >= 0, not -0.1"),
        (lambda: fb.FedExp3(exploration=-0.1), "exploration must be .* >= 0, not -0.1"),
        (lambda: fb.FedExp3(exploration=1.5), "exploration is a probability .* not 1.5"),
        (lambda: fb.Exp3(learning_rate=math.nan), "learning_rate must be a finite number"),
        (lambda: fb.FedHedge(learning_rate=-1), "learning_rate must be .* >= 0, not -1"),
        (lambda: fb.schedules.power(-1, 0.5), "c of power must be .* not -1"),
        (lambda: fb.schedules.power(1, -0.5), "a of power must be .* not -0.5"),
        (lambda: fb.schedules.small_loss(-1), "c of small_loss must be .* not -1"),
        (lambda: fb.schedules.mixing_aware(-1), "c of mixing_aware must be .* not -1"),
        (lambda: fb.schedules.anytime(math.inf), "c of anytime must be a finite number"),
    ],
)
def test_refused(make: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        make()


def test_refused_types() -> None:
    for rate in ("fast", dict, None):
        with pytest.raises(TypeError, match="must be a number, a schedule such as"):
            fb.FedExp3(learning_rate=rate)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="value of constant must be a number, not '1'"):
        fb.schedules.constant("1")  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="gossip must be a Gossip such as"):
        fb.FedExp3.from_theorem(fb.networks.ring(5), arms=3, horizon=9)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("maker", "call"),
    [
        (fb.schedules.power, "power(c=..., a=...)"),
        (fb.schedules.small_loss, "small_loss(c=...)"),
        (fb.schedules.anytime, "anytime(c=...)"),
    ],
)
def test_a_maker_of_schedules_is_no_schedule(maker: Any, call: str) -> None:
    with pytest.raises(TypeError, match=f"exploration must be .*: write {re.escape(call)}$"):
        fb.FedExp3(exploration=maker)
    with pytest.raises(TypeError, match=f"learning_rate must be .*: write {re.escape(call)}$"):
        fb.BlockGossip(learning_rate=maker)


@dataclass(frozen=True)
class RoundAlone:
    """A schedule of one's own that forgets the state."""

    c: float

    def __call__(self, t: Any) -> Any:
        return self.c / t


class NoDataclass:
    """Takes what a schedule takes, but JAX cannot see its numbers."""

    def __call__(self, t: Any, state: Any) -> Any:
        return 0.1 / t


@pytest.mark.parametrize(
    ("rate", "takes"), [(lambda t: 0.1 / t, "(t)"), (RoundAlone(0.1), "(t)"), (lambda: 0.1, "()")]
)
@pytest.mark.parametrize("make", [fb.FedExp3, fb.FedHedge, fb.BlockGossip, fb.Exp3Coop])
def test_a_rate_of_the_round_alone_is_refused_with_what_to_write(
    make: Any, rate: Any, takes: str
) -> None:
    with pytest.raises(TypeError) as caught:
        make(learning_rate=rate)
    said, _, example = str(caught.value).partition("\n")
    assert said.startswith("learning_rate is called as rate(t, state), but ")
    assert f" takes {takes}; write lambda t, state: ..., or " in said
    # What it tells to write works as it stands.
    names: dict[str, Any] = {"fb": fb}
    exec(example, names)
    own = names["Decaying"]
    made = make(learning_rate=own(0.3))
    assert made.learning_rate == own(0.3)
    assert float(made.learning_rate(4, STATE)) == pytest.approx(0.15)


def test_an_object_that_is_no_dataclass_is_refused_with_an_example() -> None:
    with pytest.raises(TypeError, match="learning_rate must be a number, a schedule such as") as e:
        fb.FedExp3(NoDataclass())
    assert "@dataclass(frozen=True)" in str(e.value)


def test_numpy_numbers_are_numbers() -> None:
    rates = np.logspace(-2, 0, 3, dtype=np.float32)
    assert [fb.Exp3(rate).learning_rate for rate in rates] == [
        fb.schedules.constant(float(rate)) for rate in rates
    ]
    assert fb.Exp3(np.int64(1)).learning_rate == fb.schedules.constant(1.0)  # type: ignore[arg-type]


@pytest.mark.slow
def test_a_function_is_a_schedule() -> None:
    problem = fb.problems.activated_bernoulli(agents=4, arms=3, horizon=60)
    by_function = fb.Exp3(lambda t, state: 0.3 / t**0.5)
    by_schedule = fb.Exp3(fb.schedules.power(0.3, 0.5))
    a, b = (
        fb.simulate(problem, x, runs=2, dtype="float64").dataset["regret"]
        for x in (by_function, by_schedule)
    )
    np.testing.assert_allclose(a, b, atol=1e-12)


@pytest.mark.slow
def test_a_rate_that_fails_is_named_with_its_round() -> None:
    import jax.numpy as jnp

    problem = fb.problems.activated_bernoulli(agents=4, arms=3, horizon=60)
    broken = fb.Exp3(lambda t, state: jnp.where(t > 30, jnp.nan, 0.1))
    with pytest.raises(ValueError, match=r"Exp3\.distribution is not finite at round 32"):
        fb.simulate(problem, broken, runs=2)


def test_round_one_uses_the_first_rate() -> None:
    """η_0 := η_1, and x_{t+1} uses η_t."""
    z = np.array([0.0, 1.0])
    algorithm = fb.FedHedge(fb.schedules.power(1.0, 1.0))
    for t, eta in ((1, 1.0), (2, 1.0), (3, 0.5), (5, 0.25)):
        p = algorithm.distribution(LossEstimates(z, np.float64(1)), t)
        assert p[1] / p[0] == pytest.approx(math.exp(-eta))


def test_theorem_rates_on_the_complete_graph() -> None:
    """(C_W + 1/2) K² ln K is about 18,600 for N=36, K=20 on the complete graph's own W."""
    gossip = fb.gossip.max_degree(fb.networks.complete(36), lazy=False)
    c_w = 6 / 1 + 3  # sqrt(N) below 2 ln T + ln N, and σ2 = 1 - 36/36 = 0
    assert gossip.c_w(3000) == pytest.approx(c_w)
    needed = fb.bounds.horizon_needed(gossip, arms=20)
    assert needed == math.ceil((c_w + 0.5) * 400 * math.log(20))
    rates = fb.bounds.theorem_rates(gossip, arms=20, horizon=30_000)
    gamma = ((c_w + 0.5) * 400 * math.log(20) / 30_000) ** (1 / 3)
    assert rates.exploration_at_horizon == pytest.approx(gamma)
    assert rates.learning_rate == pytest.approx(math.log(20) / (30_000 * gamma))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        fb.FedExp3.from_theorem(gossip, arms=20, horizon=30_000)


def test_horizon_needed_is_the_least() -> None:
    gossip = fb.gossip.max_degree(fb.networks.path(3))
    needed = int(fb.bounds.horizon_needed(gossip, arms=4))
    at = fb.bounds.theorem_rates(gossip, arms=4, horizon=needed)
    below = fb.bounds.theorem_rates(gossip, arms=4, horizon=needed - 1)
    assert at.exploration_at_horizon <= 1 < below.exploration_at_horizon


@pytest.mark.slow
def test_theorem_below_its_horizon_warns_and_plays_uniformly() -> None:
    gossip = fb.gossip.max_degree(fb.networks.grid(6, 6))
    needed = fb.bounds.horizon_needed(gossip, arms=5)
    with pytest.warns(UserWarning, match=f"falls to 1 at horizon {needed:,.0f}"):
        algorithm = fb.FedExp3.from_theorem(gossip, arms=5, horizon=3000)
    # Uniform play does not depend on how long it is played: a few rounds tell.
    problem = fb.problems.activated_bernoulli(agents=36, arms=5, horizon=60, seed=0)
    result = fb.simulate(problem, algorithm, gossip, runs=2)
    uniform = fb.simulate(problem, fb.Uniform(), gossip, runs=2)
    np.testing.assert_allclose(
        result.dataset["expected_regret"], uniform.dataset["expected_regret"], rtol=1e-5
    )


def test_no_gap_no_theorem() -> None:
    gossip = fb.gossip.none(fb.networks.ring(5))
    assert math.isinf(fb.bounds.horizon_needed(gossip, arms=3))
    with pytest.warns(UserWarning, match="falls to 1 at horizon inf"):
        fb.FedExp3.from_theorem(gossip, arms=3, horizon=100)


def test_full_information_rate() -> None:
    gossip = fb.gossip.max_degree(fb.networks.ring(5))
    algorithm = fb.FedHedge.from_theorem(gossip, arms=3, horizon=100)
    expected = math.sqrt(math.log(3) / ((gossip.c_w(100) + 0.5) * 100))
    assert algorithm.learning_rate(1, STATE) == pytest.approx(expected)


@pytest.mark.parametrize(("arms", "horizon"), [(1, 10), (2, 0)])
def test_theorem_needs_a_problem(arms: int, horizon: int) -> None:
    gossip = fb.gossip.max_degree(fb.networks.ring(5))
    with pytest.raises(ValueError, match="must be a whole number of at least"):
        fb.FedExp3.from_theorem(gossip, arms=arms, horizon=horizon)


@pytest.mark.slow
def test_another_network_is_no_other_program() -> None:
    """What a rate is told of the network is a number like any other, traced."""
    problem = fb.problems.bernoulli([0.2, 0.8], 29, agents=7)
    before = compilations()
    for network in (fb.networks.path(7), fb.networks.star(7), fb.networks.complete(7)):
        fb.simulate(problem, fb.FedExp3(), fb.gossip.max_degree(network), runs=2)
    assert compilations() == before + 1
