"""FedExp3 whose arms give a share of their weights to all."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

import fedbandits as fb
from fedbandits.algorithms.exponential_weights import softmax
from fedbandits.algorithms.sharing_fedexp3 import shared
from fedbandits.live.protocol.suitability import UnsuitableError, check_suitable

Float = np.ndarray[Any, np.dtype[np.float64]]
estimates = arrays(np.float64, 5, elements=st.floats(0, 1e6))
rates, shares = st.floats(1e-4, 10), st.floats(1e-12, 0.9)


def span(x: Float) -> float:
    return float(x.max() - x.min())


@given(estimates, rates, shares)
def test_weights_are_mixed_with_uniform_ones(
    y: Float,
    eta: float,
    share: float,
) -> None:
    """And the least estimate stays, above which none is further than ln(K/α)/η."""
    z = shared(y, eta, share)
    mixed = (1 - share) * softmax(y, eta) + share / 5
    np.testing.assert_allclose(softmax(z, eta), mixed, rtol=1e-6, atol=0)
    assert z.min() == y.min()
    assert span(z) <= np.log(5 / share) / eta * (1 + 1e-9) + 1e-9 * y.max()


@given(estimates, estimates, rates, shares)
def test_sharing_moves_no_two_agents_apart(
    one: Float,
    other: Float,
    eta: float,
    share: float,
) -> None:
    """Of one rate, in what counts: differences between arms."""
    after = shared(one, eta, share) - shared(other, eta, share)
    assert span(after) <= span(one - other) * (1 + 1e-9) + 1e-6


def test_a_rate_of_0_shares_nothing() -> None:
    y = np.array([1.0, 3.0])
    np.testing.assert_array_equal(shared(y, np.float64(0.0), 0.1), y)


@pytest.mark.parametrize("share", [0.0, 1.0, -1e-3, float("nan"), True, "some"])
def test_a_share_is_between_0_and_1(share: object) -> None:
    with pytest.raises((TypeError, ValueError), match="share"):
        fb.SharingFedExp3(share=share)  # type: ignore[arg-type]  # no share: the point


def test_it_cannot_live_apart_whatever_its_rate() -> None:
    """With a constant one it would pass for a sum: all arms more are all arms more."""
    with pytest.raises(UnsuitableError, match="ledger"):
        check_suitable(fb.SharingFedExp3(0.1), 3, 4)
