"""Volumetric spanners: few members, every action a combination of them with ‖λ‖ <= 1."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedbandits.algorithms.spanner import _swapped as swapped
from fedbandits.algorithms.spanner import volumetric_spanner

Float = np.ndarray[Any, np.dtype[np.float64]]


def holds(actions: Float) -> None:
    """The definition itself, from the actions as they were given."""
    spanner = volumetric_spanner(actions)
    rank = np.linalg.matrix_rank(actions)
    members = spanner.members
    assert len(set(members.tolist())) == len(members) == min(len(actions), 3 * rank)
    S = actions[members].T  # [d, |S|]
    coefficients = np.linalg.pinv(S) @ actions.T  # the shortest λ, Sᵀ (S Sᵀ)^{-1} a
    np.testing.assert_allclose(S @ coefficients, actions.T, atol=1e-9 * np.abs(actions).max())
    assert (np.sum(coefficients**2, axis=0) <= 1 + 1e-8).all()
    # What the spanner offers is the same.
    np.testing.assert_allclose(spanner.vectors @ spanner.basis.T, coefficients.T, atol=1e-8)
    np.testing.assert_allclose(spanner.basis.T @ spanner.basis, np.eye(rank), atol=1e-10)
    assert spanner.share.sum() == pytest.approx(1)
    assert set(np.flatnonzero(spanner.share)) == set(members.tolist())


@given(st.integers(0, 10**6), st.integers(1, 8), st.integers(1, 200), st.floats(0, 3))
def test_random_actions(seed: int, dimension: int, arms: int, stretch: float) -> None:
    """Of lengths and directions as uneven as e^±3 makes them."""
    rng = np.random.default_rng(seed)
    actions = rng.normal(size=(arms, dimension)) * np.exp(stretch * rng.normal(size=(arms, 1)) / 3)
    holds(actions * np.exp(stretch * rng.uniform(-1, 1, dimension)))


def test_swaps_lead_from_any_start_to_a_spanner() -> None:
    """From twelve actions of a tight cluster, with a few far away that are needed."""
    rng = np.random.default_rng(0)
    actions = np.concatenate([rng.normal(size=(500, 4)) * 0.01 + 1, 5 * np.eye(4)])
    holds(actions)

    def longest(members: Any) -> float:
        S = actions[members].T
        return float(np.sum((np.linalg.pinv(S) @ actions.T) ** 2, axis=0).max())

    start = np.arange(12)
    assert longest(start) > 100
    assert longest(swapped(actions, start)) <= 1 + 1e-8


@pytest.mark.parametrize("arms", [2, 3, 8, 9, 40])
def test_degenerate_sets(arms: int) -> None:
    rng = np.random.default_rng(arms)
    twice = np.repeat(rng.normal(size=(arms, 3)), 2, axis=0)  # duplicated
    holds(twice)
    flat = rng.normal(size=(arms, 2)) @ rng.normal(size=(2, 6))  # a plane in R^6
    holds(flat)
    holds(np.vstack([flat, np.zeros(6)]))  # an action that never costs anything
    holds(np.ones((arms, 4)))  # all the same


def test_rounding_is_no_direction() -> None:
    flat = np.random.default_rng(1).normal(size=(30, 2)) @ np.ones((2, 3))
    flat[:, 0] *= 2
    assert volumetric_spanner(flat.astype(np.float32)).vectors.shape == (30, 1)


@pytest.mark.parametrize(
    ("actions", "message"),
    [
        ([1.0, 2.0], r"shape \(2,\); expected \(arms, d\)"),
        (np.zeros((3, 0)), r"shape \(3, 0\); expected"),
        ([[1.0, np.inf], [0.0, 1.0]], "at arm 0 coordinate 1 is inf"),
        (np.zeros((3, 2)), "actions are all 0"),
    ],
)
def test_refused(actions: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        volumetric_spanner(actions)
