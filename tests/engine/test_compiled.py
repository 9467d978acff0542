"""What XLA is told when rounds are compiled for a CPU."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import fedbandits as fb
from fedbandits.engine import compiled as module
from fedbandits.engine import group
from fedbandits.engine.compiled import compiled


@pytest.fixture(autouse=True)
def afresh() -> Iterator[None]:
    """As in a new process, and so that none of it is left to others."""
    for cached in (module._options, compiled):
        cached.cache_clear()
    yield
    for cached in (module._options, compiled):
        cached.cache_clear()


def summed(x: Any, *, times: int) -> Any:
    """Fractions of a sum over arms."""
    weights = jnp.exp(-times * x)
    return weights / weights.sum(axis=0)


def program(monkeypatch: pytest.MonkeyPatch, flags: str = "") -> str:
    monkeypatch.setenv("XLA_FLAGS", flags)
    made: Any = compiled(summed, ("times",), "x", large=True)
    return _text(made)


def _text(made: Any) -> str:
    return str(made.lower(jnp.ones((20, 5000)), times=2).compile().as_text())


def test_sums_are_not_left_to_a_library(monkeypatch: pytest.MonkeyPatch) -> None:
    if "__ynn_fusion" not in _text(jax.jit(summed, static_argnames="times")):
        pytest.skip("this version of XLA, or what XLA_FLAGS says here, leaves nothing to it")
    assert "__ynn_fusion" not in program(monkeypatch)
    assert "__ynn_fusion" in _text(compiled(summed, ("times",), "x", large=False))


@pytest.mark.optimised
@pytest.mark.slow
def test_large_states_are_compiled_so(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[bool] = []

    def watched(*how: Any, large: bool) -> Any:
        asked.append(large)
        return compiled(*how, large=large)

    monkeypatch.setattr(group, "compiled", watched)
    for agents in (36, 7000):
        problem = fb.problems.bernoulli(np.linspace(0, 1, 20), 2, agents=agents)
        fb.simulate(problem, fb.Exp3(), None, progress=False)
    assert (asked[0], asked[-1]) == (False, True)


def test_a_user_may_have_it_otherwise(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XLA_FLAGS", f"--{module._LIBRARY}=LIBRARY_FUSION_TYPE_REDUCE")
    assert module._options() is None


def test_an_option_that_xla_does_not_know_is_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_LIBRARY", "xla_no_such_option")
    assert module._options() is None
    assert "exponential" in program(monkeypatch)
