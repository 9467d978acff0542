"""JAX calls a function of the round once: what would freeze then is refused, by fb.simulate."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, ClassVar

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import fedbandits as fb
from fedbandits.engine.checks.purity import check_called
from tests.engine.simulations import prepare

rng = np.random.default_rng(0)
counter = itertools.count()
VALUES = np.linspace(0, 1, 6).reshape(2, 3)


def problem_of(function: Callable[[Any], Any], **options: Any) -> fb.Problem:
    sizes = {"agents": 2, "arms": 3, "horizon": 12} | options
    return fb.problems.from_function(function, **sizes)


def play(problem: fb.Problem) -> fb.Result:
    return fb.simulate(problem, fb.Uniform(), runs=1)


def ready(problem: fb.Problem) -> None:
    """What `fb.simulate` checks, without playing."""
    prepare(problem, fb.Uniform(), None, runs=1, seed=0, dtype="float32")


@dataclass(frozen=True, eq=False)
class Own(fb.Problem):
    """A problem of a user's own, as in CONTRIBUTING, whose losses forget the round."""

    agents: int = field(metadata={"static": True})
    arms: int = field(metadata={"static": True})
    horizon: int = field(metadata={"static": True})
    values: Any

    def losses(self, t: Any) -> Any:
        return self.values


@dataclass(frozen=True, eq=False)
class Drawing(Own):
    def losses(self, t: Any) -> Any:
        return rng.uniform(size=(2, 3))


class OnPurpose(Own):
    constant: ClassVar[bool] = True


@pytest.mark.parametrize(
    "function",
    [
        lambda t: rng.uniform(size=(2, 3)),
        lambda t: jnp.asarray(rng.uniform(size=(2, 3))),
        # The round is used, but not for what is drawn.
        lambda t: rng.uniform(size=(2, 3)) * (t % 2),
        lambda t: jnp.full((2, 3), (t % 2) * rng.uniform()),
        lambda t: jnp.where(t > 3, VALUES, next(counter) / 1e6),
        lambda t: jax.lax.cond(t > 3, lambda: VALUES, lambda: rng.uniform(size=(2, 3))),
        lambda t: jax.jit(lambda s: VALUES * (s % 2) * rng.uniform())(t),
    ],
)
@pytest.mark.parametrize("constant", [False, True])
def test_what_is_drawn_outside_jax_is_refused(
    function: Callable[[Any], Any], constant: bool
) -> None:
    """Also as a constant: which of the draws would it be?"""
    message = r"TracedFunction\(12 rounds, 2 agents, 3 arms\): .*fold_in\(key, t\).*host=True"
    with pytest.raises(ValueError, match=message):
        play(problem_of(function, constant=constant))


@pytest.mark.slow
@pytest.mark.parametrize("function", [lambda t: VALUES, jax.jit(lambda t: jnp.asarray(VALUES))])
def test_losses_without_the_round_are_refused_unless_meant(function: Callable[[Any], Any]) -> None:
    message = r"do not depend on the round t.* of all 12 rounds.*host=True.*constant=True"
    with pytest.raises(ValueError, match=message):
        play(problem_of(function))
    with pytest.raises(ValueError, match=message):
        play(fb.problems.scaled(problem_of(function), 0, 2))
    totals = [
        play(problem).dataset["arm_loss"][-1].to_numpy()
        for problem in (
            problem_of(function, constant=True),
            problem_of(lambda t: VALUES, host=True, constant=True),
            fb.problems.scaled(problem_of(function, constant=True), 0, 1),
        )
    ]
    for total in totals:
        np.testing.assert_allclose(total, 12 * VALUES.mean(axis=0), rtol=1e-5)


def refilled() -> Callable[[Any], Any]:
    """A function that gives the same array in every round, with other values."""
    array = np.zeros((2, 3))

    def losses(t: Any) -> Any:
        array[:] = rng.uniform(size=(2, 3))
        return array

    return losses


@pytest.mark.parametrize(
    "function",
    [
        lambda t: rng.uniform(size=(2, 3)),
        lambda t: np.full((2, 3), next(counter) / 1e6),
        refilled(),
    ],
)
@pytest.mark.parametrize("constant", [False, True])
def test_what_changes_from_call_to_call_is_refused_on_the_host_too(
    function: Callable[[Any], Any], constant: bool
) -> None:
    message = r"HostFunction.*round 1 differ when asked for again.*default_rng\(\(seed, t\)\)"
    with pytest.raises(ValueError, match=message):
        play(problem_of(function, host=True, constant=constant))


def test_the_same_losses_in_every_round_are_refused_on_the_host_unless_meant() -> None:
    def frozen(t: Any) -> Any:
        return np.random.default_rng(3).uniform(size=(2, 3))

    message = r"rounds 1, 2, 6, 12 are all the same.*default_rng\(\(seed, t\)\).*constant=True"
    with pytest.raises(ValueError, match=message):
        play(problem_of(frozen, host=True))
    with pytest.raises(ValueError, match=message):
        play(fb.problems.scaled(problem_of(frozen, host=True), 0, 2))
    ready(problem_of(frozen, host=True, constant=True))
    ready(problem_of(frozen, host=True, horizon=1))


def test_the_host_is_asked_a_few_times_more_at_most() -> None:
    asked: list[int] = []

    def late(t: int) -> Any:
        asked.append(t)
        return VALUES * (t > 6)

    check_called(problem_of(late, host=True))
    assert asked == [1, 1, 2, 6, 12]


def test_a_problem_of_ones_own_is_held_to_the_same() -> None:
    with pytest.raises(ValueError, match=r"Own.*do not depend on the round.*`constant = True`"):
        play(Own(2, 3, 12, VALUES))
    with pytest.raises(ValueError, match=r"Drawing.*when asked for again"):
        play(Drawing(2, 3, 12, VALUES))
    assert play(OnPurpose(2, 3, 12, VALUES)).dataset["arm_loss"][-1, 2] == pytest.approx(
        12 * VALUES[:, 2].mean(), rel=1e-5
    )


@pytest.mark.slow
def test_a_key_folded_with_the_round_is_a_function_of_it() -> None:
    key = jax.random.key(3)
    problem = problem_of(lambda t: jax.random.uniform(jax.random.fold_in(key, t), (2, 3)))
    drawn = play(problem).dataset["arm_loss"].diff("time").to_numpy()
    assert np.ptp(drawn, axis=0).min() > 1e-3  # what is frozen differs by rounding alone


@pytest.mark.parametrize(
    "problem",
    [
        problem_of(lambda t: VALUES, horizon=1),
        problem_of(lambda t: VALUES * (t == 12)),  # the same in most rounds
        fb.problems.bernoulli([[0.0, 1.0, 1.0], [0.0, 1.0, 0.0]], horizon=12),
        fb.problems.switching(2, 3, 12, parts=1, best=0.0, other=1.0),
        fb.problems.delayed_experts(2, 3, 12, cluster=1, block=12),
        fb.problems.from_tensor(np.full((1, 2, 3), 0.5)),
        fb.problems.from_tensor(np.full((12, 2, 3), 0.5)),
    ],
)
def test_losses_that_happen_to_be_the_same_are_welcome(problem: fb.Problem) -> None:
    ready(problem)


def test_constant_is_yes_or_no() -> None:
    with pytest.raises(TypeError, match="constant must be True or False, not 1"):
        problem_of(lambda t: VALUES, constant=1)


def test_losses_that_are_computed_again_for_their_gradient_are_welcome() -> None:
    """jax.checkpoint has a program inside whose constants are arguments."""
    losses = jax.checkpoint(lambda t: jnp.asarray(VALUES) * (t % 2))
    play(problem_of(losses))
