"""Losses linear in the arms: linear, in [0, 1], of many kinds of agents, and nested in K."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import fedbandits as fb

MAKE = fb.problems.linear


@pytest.mark.slow
def test_losses_are_linear_in_the_actions() -> None:
    problem = MAKE(6, 40, 30, dimension=4, seed=3)
    losses = problem.block(1, 30).astype(np.float64)
    actions = np.asarray(problem.actions, np.float64)
    assert actions.shape == (40, 4)
    flat = losses.reshape(-1, 40).T  # [K, T · N]: all of it in the span of the d columns
    theta, *_ = np.linalg.lstsq(actions, flat, rcond=None)
    np.testing.assert_allclose(actions @ theta, flat, atol=2e-6)  # float32
    expected = np.stack([np.asarray(problem.parameters(t)) for t in range(1, 31)])
    np.testing.assert_allclose(theta.T.reshape(30, 6, 4), expected, atol=2e-6)


@pytest.mark.slow
@pytest.mark.parametrize("common", [0.0, 0.5, 1.0])
def test_losses_lie_in_the_unit_interval(common: float) -> None:
    """Without the clipping, which only rounding may need: a matter of 1e-6."""
    problem = MAKE(7, 300, 400, common=common, seed=1)
    theta = np.stack([np.asarray(problem.parameters(t)) for t in range(1, 401)])
    losses = theta @ np.asarray(problem.actions).T
    assert losses.min() > -1e-6
    assert losses.max() < 1 + 1e-6
    assert problem.block(1, 400).min() >= 0


def test_agents_differ_and_rounds_change_but_one_action_is_best_for_all() -> None:
    problem = MAKE(8, 60, 2000, seed=2)
    losses = problem.block(1, 2000)
    by_agent = losses.mean(axis=0).argmin(axis=1)
    assert len(set(by_agent.tolist())) > 1
    best = int(losses.mean(axis=(0, 1)).argmin())
    assert best == int((np.asarray(problem.actions)[:, 1:] @ problem.mean).argmin())
    halves = losses.mean(axis=1).reshape(40, 50, 60).mean(axis=1)  # half periods
    swing = halves[::2] - halves[1::2]
    assert np.abs(swing.mean(axis=0)).max() > 0.05
    # Half a period of sines has the mean ±2/π; (1 - c)/4/2 of it is in the loss.
    along = np.asarray(problem.actions)[:, 1:] @ problem.drift
    np.testing.assert_allclose(swing.mean(axis=0), along * 4 / np.pi * 0.6 / 8, atol=0.01)


@pytest.mark.slow
def test_smaller_sets_of_actions_are_the_first_of_larger_ones() -> None:
    small, large = (MAKE(3, arms, 10, seed=5) for arms in (20, 500))
    np.testing.assert_array_equal(small.actions, large.actions[:20])
    np.testing.assert_allclose(small.losses(7), np.asarray(large.losses(7))[:, :20], atol=1e-6)


@pytest.mark.slow
def test_given_features_are_scaled_into_the_unit_ball() -> None:
    problem = MAKE(2, 3, 10, features=[[3.0, 4.0], [0.0, 1.0], [0.0, 0.0]])
    np.testing.assert_allclose(problem.actions, np.array([[1, 0.6, 0.8], [1, 0, 0.2], [1, 0, 0]]))
    np.testing.assert_allclose(np.asarray(problem.losses(4))[:, 2], 0.5)
    assert fb.problems.linear(1, 2, 3, seed=1).own.tolist() == [[0, 0, 0, 0]]


@pytest.mark.slow
def test_it_is_a_function_of_seed_and_round() -> None:
    a, b, other = (MAKE(3, 4, 10, seed=s) for s in (3, 3, 4))
    np.testing.assert_array_equal(a.losses(7), b.losses(7))
    assert (np.asarray(a.losses(7)) != np.asarray(a.losses(8))).any()
    assert (np.asarray(a.actions) != np.asarray(other.actions)).any()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"dimension": 1}, "dimension must be a whole number of at least 2, not 1"),
        ({"common": 1.5}, r"common must be in \[0, 1\]"),
        ({"period": 0}, "period must be in \\(0, inf\\), not 0"),
        ({"features": [[1.0], [2.0]]}, r"shape \(2, 1\); expected \(arms, d - 1\) = \(3, d - 1\)"),
        ({"features": [[1.0], [2.0], [np.nan]]}, "finite, but at arm 2 feature 0 is not"),
        ({"features": [[0.0], [0.0], [0.0]]}, "features are all 0"),
        ({"features": [[1.0], [2.0], [3.0]], "dimension": 5}, "leave dimension out"),
        ({"seed": -1}, "seed must be .* at least 0, not -1"),
    ],
)
def test_refused(change: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        MAKE(2, 3, 10, **change)
