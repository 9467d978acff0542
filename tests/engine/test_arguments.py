"""Arguments of the wrong kind: an error that names the argument, before anything is played."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import fedbandits as fb

MADE: Any = fb  # takes arguments that its type hints exclude


def simulate(**options: Any) -> Any:
    problem = fb.problems.activated_bernoulli(agents=4, arms=3, horizon=20)
    return MADE.simulate(problem, fb.Exp3(), runs=1, **options)


@pytest.mark.parametrize("dtype", ["f4", np.float32, np.dtype("float64")])
def test_precision_is_a_name(dtype: Any) -> None:
    with pytest.raises(ValueError, match="dtype must be 'float32' or 'float64', not"):
        simulate(dtype=dtype)


def test_losses_of_a_function_are_numbers() -> None:
    words = [["high"] * 3] * 4
    problem = fb.problems.from_function(lambda _: words, agents=4, arms=3, horizon=5, host=True)
    with pytest.raises(TypeError, match="the losses of round 1 are of type <U4"):
        fb.simulate(problem, fb.Exp3(), runs=1)


@pytest.mark.parametrize(
    "values", [[[[0.5, 0.5]], [[0.5]]], [[[0.5, 0.5]], None]], ids=["ragged", "None"]
)
def test_a_tensor_of_different_lengths(values: Any) -> None:
    with pytest.raises(ValueError, match="the tensor's rows have different lengths"):
        fb.problems.from_tensor(values)


@pytest.mark.parametrize("means", [[[0.5, 0.5], [0.5]], [["high", "low"]]])
def test_means_are_numbers(means: Any) -> None:
    with pytest.raises(TypeError, match="means must be numbers in rows of one length, not"):
        fb.problems.bernoulli(means, 5)
