"""Arms are drawn as defined, on NumPy as under JAX; random words are those of JAX."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import jax
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fedbandits.arrays import sample
from fedbandits.common.backend import playing_on
from fedbandits.common.streams import ACTIONS, LOSSES, round_key, words
from fedbandits.problems.coins import Bernoulli

DTYPES = ("float32", "float64")


def in_numpy(p: Any, u: Any) -> Any:
    return sample(p, u)


@jax.jit
def _compiled(p: Any, u: Any) -> Any:
    return sample(p, u)


@jax.jit
def _compiled_for_an_accelerator(p: Any, u: Any) -> Any:
    with playing_on("accelerator"):
        return sample(p, u)


def in_jax(p: Any, u: Any) -> Any:
    with jax.enable_x64(p.dtype == np.float64):
        return np.asarray(_compiled(p, u))


def on_an_accelerator(p: Any, u: Any) -> Any:
    with jax.enable_x64(p.dtype == np.float64):
        return np.asarray(_compiled_for_an_accelerator(p, u))


WAYS = [in_numpy, in_jax, on_an_accelerator]


@pytest.mark.slow
@pytest.mark.parametrize("way", WAYS)
@settings(max_examples=25, deadline=None)
@given(
    # Few lengths, so that few programs are compiled: below and above what is written out, whole
    # stretches of arms and not.
    arms=st.sampled_from([5, 64, 65, 80, 200]),
    dtype=st.sampled_from(DTYPES),
    seed=st.integers(0, 2**32 - 1),
    zeros=st.sampled_from([0.0, 0.5, 0.98]),
)
def test_the_first_arm_whose_sum_is_above_the_mark(
    way: Any, arms: int, dtype: str, seed: int, zeros: float
) -> None:
    """Against fractions, but where a sum is within rounding of the mark; and never one of zero."""
    rng = np.random.default_rng(seed)
    p = (rng.exponential(size=(arms, 7)) * (rng.uniform(size=(arms, 7)) >= zeros)).astype(dtype)
    p[rng.integers(arms, size=7), np.arange(7)] = 1
    u = rng.uniform(size=7).astype(dtype)
    u[:2] = 0, 1 - np.finfo(dtype).eps / 2
    drawn = way(p, u)
    for v, arm in enumerate(drawn):
        assert p[arm, v] > 0
        sums = np.cumulative_sum([Fraction(float(chance)) for chance in p[:, v]])
        mark = Fraction(float(u[v])) * sums[-1]
        rounding = Fraction(2 * arms * float(np.finfo(dtype).eps)) * sums[-1]
        if all(abs(total - mark) > rounding for total in sums):
            assert arm == next(k for k, total in enumerate(sums) if total > mark)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("arms", [65, 96, 200])
def test_many_arms_are_drawn_on_a_cpu_as_in_numpy_to_the_last_bit(arms: int, dtype: str) -> None:
    """Marks are set on the sums themselves, where another order of adding would show."""
    rng = np.random.default_rng(arms)
    p = rng.exponential(size=(arms, 3, 400)).astype(dtype)
    sums = np.cumulative_sum(p, axis=0)
    u = (sums[rng.integers(arms - 1, size=(3, 400)), *np.indices((3, 400))] / sums[-1]).astype(
        dtype
    )
    np.testing.assert_array_equal(in_jax(p, u), in_numpy(p, u))


@pytest.mark.parametrize("way", WAYS)
def test_what_is_no_distribution_gives_an_arm_that_there_is(way: Any) -> None:
    """Whoever looks for NaN finds it later: an index out of range would hide it."""
    for wrong in (0.0, np.nan):
        drawn = way(np.full((70, 2), wrong, np.float32), np.full(2, 0.5, np.float32))
        assert ((drawn >= 0) & (drawn < 70)).all()


@pytest.mark.pinned
@pytest.mark.parametrize("shape", [(7,), (1,), (3, 5), (2, 3, 4), (36, 21)])
def test_words_are_those_of_jax_random(shape: tuple[int, ...]) -> None:
    for which, seed, t in ((LOSSES, 0, 1), (ACTIONS, 7, 12_800), (ACTIONS, 2**32 - 1, 2**31 - 1)):
        pair = jax.numpy.array([which, seed], np.uint32)
        key = jax.random.fold_in(jax.random.wrap_key_data(pair, impl="threefry2x32"), t)
        with jax.threefry_partitionable(True):
            theirs = jax.random.bits(key, shape, "uint32")
        ours = words(round_key(which, np.uint32(seed), np.int32(t)), shape)
        np.testing.assert_array_equal(ours, theirs)


def test_more_numbers_than_can_be_counted_are_refused() -> None:
    key = round_key(LOSSES, np.uint32(0), np.int32(1))
    with pytest.raises(ValueError, match="32 bits"):
        jax.eval_shape(lambda: words(key, (2**20, 2**13)))
    means = np.full((1, 2**13), 0.5, np.float32)
    many = Bernoulli(2**20 + 1, 2**13, 10, means, np.uint32(0))  # two of each hash
    with pytest.raises(ValueError, match="32 bits"):
        jax.eval_shape(many.losses, np.int32(1))
