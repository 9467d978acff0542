"""Arms side by side are what an array of them is."""

from __future__ import annotations

import operator
from typing import Any

import jax.numpy as jnp
import numpy as np
import pytest

from fedbandits.arrays import expectation, over_arms, played, sample, taken
from fedbandits.common.backend import playing_on
from fedbandits.engine.executors.arms_in_registers import Arms, Late

X, Y = (np.random.default_rng(seed).random((5, 8)).astype(np.float32) for seed in (0, 1))


def arms(x: Any) -> Arms:
    return Arms([jnp.asarray(row) for row in x])


def as_array(x: Any) -> Any:
    return np.stack([np.asarray(row) for row in x.each]) if isinstance(x, Arms) else np.asarray(x)


@pytest.mark.parametrize("name", ["add", "sub", "mul", "truediv", "pow", "lt", "le", "gt", "ge"])
def test_operators_go_arm_by_arm_whatever_is_on_the_other_side(name: str) -> None:
    how = getattr(operator, name)
    agents, number = jnp.asarray(Y[0]), np.float32(0.7)
    for other, plain in ((arms(Y), Y), (agents, Y[0]), (number, number), (2, np.float32(2))):
        np.testing.assert_allclose(as_array(how(arms(X), other)), how(X, plain), rtol=1e-5)
        if name != "pow":
            np.testing.assert_allclose(as_array(how(other, arms(X))), how(plain, X), rtol=1e-5)


def test_comparisons_and_logic() -> None:
    whole = np.array([[0, 1], [2, 1]])
    same = arms(whole) == jnp.asarray([0, 1])
    np.testing.assert_array_equal(as_array(same), whole == [0, 1])
    np.testing.assert_array_equal(as_array(arms(whole) != 1), whole != 1)
    np.testing.assert_array_equal(as_array(same & ~jnp.asarray([True, False])), [[0, 1], [0, 1]])
    np.testing.assert_array_equal(as_array(same | jnp.asarray([True, False])), [[1, 1], [1, 1]])
    np.testing.assert_array_equal(as_array(-arms(X)), -X)


def test_it_has_the_shape_of_an_array() -> None:
    x = arms(X)
    assert (x.shape, x.ndim, x.size, x.dtype) == (X.shape, 2, X.size, np.float32)
    assert x.astype("int32").dtype == np.int32
    np.testing.assert_array_equal(x[3], X[3])


@pytest.mark.parametrize("how", ["sum", "min", "max", "any"])
@pytest.mark.parametrize("platform", ["cpu", "gpu"])
def test_reductions_are_over_the_arms(how: Any, platform: str) -> None:
    plain = X > 0.8 if how == "any" else X
    with playing_on(platform):
        found = over_arms(how, arms(plain))
    np.testing.assert_allclose(found, getattr(plain, how)(axis=0), rtol=1e-6)
    with pytest.raises(NotImplementedError, match="axis 1 of arms"):
        getattr(arms(plain).__array_namespace__(), how)(arms(plain), axis=1)


def test_the_helpers_of_algorithms_take_it() -> None:
    uniform, action = Y[0], np.array([0, 4, 2, 1, 1, 3, 0, 4])
    with playing_on("gpu"):
        np.testing.assert_array_equal(sample(arms(X), jnp.asarray(uniform)), sample(X, uniform))
        np.testing.assert_array_equal(taken(arms(X), jnp.asarray(action)), taken(X, action))
        found = played(jnp.asarray(action), like=arms(X))
    np.testing.assert_array_equal(as_array(found), played(action, like=X))
    values = Y[:, 0]
    np.testing.assert_allclose(
        expectation(arms(X), arms(values)), expectation(X, values), rtol=1e-6
    )


def test_what_is_late_is_made_when_it_is_asked_for_and_once() -> None:
    made: list[int] = []

    def make(k: int) -> Any:
        made.append(k)
        return jnp.asarray(X[k])

    late = Arms(Late(len(X), make))
    twice = 2 * late + arms(Y).astype("float32")
    again = twice.astype("float32") - late
    assert not made
    np.testing.assert_array_equal(twice[3], 2 * X[3] + Y[3])
    assert made == [3]
    np.testing.assert_array_equal(late[-1], X[4])
    np.testing.assert_array_equal(late.each[3:], X[3:])
    assert made == [3, 4]
    np.testing.assert_allclose(as_array(again), X + Y, rtol=1e-6)
    np.testing.assert_allclose(over_arms("sum", late), X.sum(axis=0), rtol=1e-6)
    assert sorted(made) == list(range(len(X)))


def test_what_a_kernel_cannot_do_is_not_there() -> None:
    assert not hasattr(arms(X).__array_namespace__(), "sort")
