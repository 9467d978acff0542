"""What is kept of a stretch: the kernel's one pass and the plain sums are the same."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from fedbandits.engine.recording import summing_kernel, summing_up
from fedbandits.engine.recording.summing_up import Plays, Summary, sum_up
from fedbandits.engine.stages.stages import Stages
from fedbandits.results.record import AgentTotals
from fedbandits.simulation.liars import Liars
from tests.tiers import soak_but


def plays(rounds: int, agents: int, arms: int) -> Plays:
    draw = np.random.default_rng(rounds * agents + arms)
    return Plays(
        jnp.asarray(draw.integers(arms, size=(rounds, 1, agents)), "int8"),
        jnp.asarray(draw.random((rounds, 1, agents)), "float32"),
        jnp.asarray(draw.random((rounds, arms)), "float32"),
        jnp.ones(rounds, bool),
        None,
    )


def summed(
    found: Plays, monkeypatch: pytest.MonkeyPatch, *, kernels: bool, liars: tuple[int, ...] = ()
) -> Summary:
    draw, agents = np.random.default_rng(1), found.action.shape[2]
    excess = jnp.asarray(draw.normal(size=agents), "float32")
    totals = AgentTotals(*jnp.asarray(draw.random((2, 1, agents)), "float32"))
    monkeypatch.setattr(summing_kernel, "LEAST", 1)
    passes: list[Any] = []

    def one_pass(*given: Any) -> Any:
        passes.append(given)
        return summing_kernel.in_one_pass(*given, interpret=True)

    monkeypatch.setattr(summing_up, "in_one_pass", one_pass)
    nobody: Any = None
    stages = Stages(nobody, (Liars(liars, (nobody,) * len(liars)),))
    summary = sum_up(found, excess, totals, stages, kernels=kernels)
    assert len(passes) == (kernels and not liars)
    return summary


@pytest.mark.parametrize("agents", [7, 128, 300])
@pytest.mark.parametrize(
    ("rounds", "arms"), soak_but([(1, 1), (3, 5)], [(1, 1), (3, 5), (3, 20), (16, 32)])
)
def test_one_pass_finds_the_same(
    agents: int, rounds: int, arms: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of blocks that are full or begun, of arms that fill what they are counted in or do not."""
    found = plays(rounds, agents, arms)
    plain, passed = (summed(found, monkeypatch, kernels=way) for way in (False, True))
    np.testing.assert_array_equal(passed.curves.frequency, plain.curves.frequency)
    for field in ("incurred", "expected", "worst_excess"):
        one, other = (np.asarray(getattr(each.curves, field)) for each in (passed, plain))
        np.testing.assert_allclose(one, other, rtol=1e-5, atol=1e-5, err_msg=field)
    for one, other in zip(
        (passed.excess, *passed.totals), (plain.excess, *plain.totals), strict=True
    ):
        np.testing.assert_allclose(one, other, rtol=1e-5, atol=1e-5)


def test_the_kernel_is_for_many_agents_of_one_run() -> None:
    worth = summing_kernel.worth_a_kernel
    assert worth((4, 1, 10**6), 20)
    assert not worth((4, 2, 10**6), 20)
    assert not worth((4, 1, 1000), 20)
    assert not worth((400, 1, 10**6), 20)


def test_where_triton_refuses_there_is_none(monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(*_: Any) -> Any:
        raise NotImplementedError("not in this version")

    summing_kernel._triton_takes_it.cache_clear()
    with monkeypatch.context() as patch:
        patch.setattr(summing_kernel, "in_one_pass", refused)
        assert not summing_kernel.worth_a_kernel((4, 1, 10**6), 20)
    summing_kernel._triton_takes_it.cache_clear()
    assert summing_kernel.worth_a_kernel((4, 1, 10**6), 20)


@pytest.mark.soak
def test_liars_are_summed_up_without_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """Their arms and losses count in no curve, and their totals stay their own."""
    found = plays(3, 40, 5)
    with_liar = summed(found, monkeypatch, kernels=True, liars=(7,))
    honest = np.delete(np.asarray(found.expected), 7, axis=2)
    np.testing.assert_allclose(with_liar.curves.expected, honest.mean(axis=2), rtol=1e-5)
    arms = np.delete(np.asarray(found.action), 7, axis=2)[:, 0]
    shares = [np.bincount(row, minlength=5) / 39 for row in arms]
    np.testing.assert_allclose(with_liar.curves.frequency[..., 0], shares, rtol=1e-5)
    without = summed(found, monkeypatch, kernels=False)
    for one, other in zip(with_liar.totals, without.totals, strict=True):
        np.testing.assert_array_equal(one, other)


def test_an_accelerator_can_be_given_the_kernel() -> None:
    """Made for CUDA, which needs none: what Triton does not know is refused here."""
    found = plays(10, 4000, 20)
    excess = jnp.zeros(4000, "float32")
    totals = AgentTotals(excess[None], excess[None])
    traced = jax.jit(summing_kernel.in_one_pass).trace(*found[:3], excess, totals)
    assert "in_one_pass" in traced.lower(lowering_platforms=("cuda",)).as_text()
