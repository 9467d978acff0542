"""An algorithm that JAX cannot trace is told its method, its line and what to write instead."""

from __future__ import annotations

import linecache
import re
from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest

import fedbandits as fb
from fedbandits.algorithms import AnyAlgorithm
from fedbandits.algorithms.exponential_weights import LossEstimates
from fedbandits.arrays import Array

PROBLEM = fb.problems.activated_bernoulli(agents=5, arms=3, horizon=12)
NETWORK = fb.networks.ring(5)


class Ordinary(fb.Exp3):
    """Each of its children does one thing in Python or NumPy that an array under JAX forbids."""


class Branches(Ordinary):
    def update(
        self,
        state: LossEstimates,
        received: Mapping[str, Array],
        action: Array,
        feedback: Array,
        p: Array,
        t: Array,
    ) -> LossEstimates:
        if feedback.sum() > 1:  # here: update
            return state
        return state._replace(z=2 * state.z)


class AsksPython(Ordinary):
    def distribution(self, state: LossEstimates, t: Array) -> Array:
        p = super().distribution(state, t)
        return p if max(t, 3) == 3 else 1 * p  # here: distribution


class AsksNumpy(Ordinary):
    def distribution(self, state: LossEstimates, t: Array) -> Array:
        return np.exp(-state.z) / 3  # here: distribution


class AsksForANumber(Ordinary):
    def message(self, state: LossEstimates) -> dict[str, Array]:
        return {"z": state.z * float(state.agents)}  # here: message


class AsksForSome(Ordinary):
    def distribution(self, state: LossEstimates, t: Array) -> Array:
        return state.z[state.z > 0]  # here: distribution


def own_rate(t: Array, state: Any) -> Array:
    return 0.1 if t < 10 else 0.2  # here: distribution


def halved(x: Array) -> Array:
    return x / 2 if x.sum() > 0 else x  # here: distribution


class BranchesElsewhere(Ordinary):
    def distribution(self, state: LossEstimates, t: Array) -> Array:
        return halved(super().distribution(state, t))


WHERE = "xp.where(condition, this, that)"


@pytest.mark.parametrize(
    ("algorithm", "line", "advice"),
    [
        (Branches(), "if feedback.sum() > 1:", WHERE),
        (AsksPython(), "return p if max(t, 3) == 3", WHERE),
        (AsksNumpy(), "return np.exp(-state.z) / 3", "xp.exp(x), not np.exp(x)"),
        (AsksForANumber(), 'return {"z": state.z * float(', "int(), float(), range() and"),
        (AsksForSome(), "return state.z[state.z > 0]", WHERE),
        (fb.Exp3(own_rate), "return 0.1 if t < 10 else 0.2", WHERE),
        (BranchesElsewhere(), "return x / 2 if x.sum() > 0 else x", WHERE),
    ],
    ids=lambda value: type(value).__name__ if isinstance(value, fb.Algorithm) else "",
)
def test_the_method_and_the_line_are_named_with_what_to_write(
    algorithm: AnyAlgorithm, line: str, advice: str
) -> None:
    number, text = next((n, x) for n, x in enumerate(source(), 1) if x.strip().startswith(line))
    method = text.rpartition("# here: ")[2].strip()
    with pytest.raises(TypeError) as caught:
        fb.simulate(PROBLEM, algorithm, runs=1)
    said = str(caught.value)
    assert said.startswith(f"{type(algorithm).__name__}.{method} ")
    assert f"{__file__}, line {number}: {text.strip()}" in said
    assert advice in said
    assert caught.value.__cause__ is not None  # JAX's own, for those who want more


def test_the_check_of_definition_1_says_the_same() -> None:
    with pytest.raises(TypeError, match=re.escape(WHERE)):
        fb.check_federated(Branches(), NETWORK)


def source() -> list[str]:
    return linecache.getlines(__file__)


class Mistaken(Ordinary):
    def distribution(self, state: LossEstimates, t: Array) -> Array:
        nothing: Any = None
        return nothing + 1


def test_a_mistake_that_is_not_jaxs_stays_what_it_is() -> None:
    with pytest.raises(TypeError, match="unsupported operand") as caught:
        fb.simulate(PROBLEM, Mistaken(), runs=1)
    assert any("Mistaken must be traceable by JAX" in note for note in caught.value.__notes__)
