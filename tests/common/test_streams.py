"""The streams are JAX's own default generator, bit for bit, however they are computed."""

from __future__ import annotations

import jax
import numpy as np
import pytest

from fedbandits.common.streams import ACTIONS, LOSSES, round_key, words
from fedbandits.problems.coins import Bernoulli


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
