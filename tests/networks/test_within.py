"""Who is within so many hops: the same by steps of everyone together and by a search from each."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import fedbandits as fb
from fedbandits.networks import base


@given(
    st.sampled_from(
        [
            fb.networks.path(1),
            fb.networks.star(9),
            fb.networks.grid(4, 5),
            fb.networks.ring(11),
            fb.networks.erdos_renyi(24, 0.08, seed=3),  # in several parts
        ]
    ),
    st.integers(0, 12),
)
def test_both_ways_agree_with_the_distances(network: fb.Network, hops: int) -> None:
    distances = network.distances()
    expected = (distances >= 0) & (distances <= hops)
    for few in (0, 10**6):  # never by searches, and from two hops on
        with pytest.MonkeyPatch.context() as patched:
            patched.setattr(base, "_FEW", few)
            np.testing.assert_array_equal(network.within(hops).toarray(), expected)
            np.testing.assert_array_equal(network.reached(hops), expected.sum(axis=1))


def test_far_floods_are_counted_by_searches(monkeypatch: pytest.MonkeyPatch) -> None:
    """Step by step, all pairs of 3,364 agents took half a minute before the first round."""
    network = fb.networks.square_grid(3364)
    monkeypatch.setattr(base, "near_by_steps", None)
    assert network.reached(network.diameter - 1).tolist().count(3363) == 4  # the corners
