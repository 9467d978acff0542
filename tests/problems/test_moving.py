"""Problems whose best arm moves: when it does, to which arm, and for whom."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import fedbandits as fb
from fedbandits.results.dynamic_regret import best_of_parts, best_sequences

Make = Callable[..., fb.Problem]
KINDS: list[Make] = [
    fb.problems.switching_at_random,
    fb.problems.taking_turns,
    fb.problems.drifting,
    fb.problems.newcomer,
]


def certain(make: Make, horizon: int, **given: Any) -> np.ndarray[Any, Any]:
    """The best arm of every round, where it never loses and all others always do."""
    problem = make(2, 5, horizon, best=0.0, other=1.0, seed=4, **given)
    losses = problem.block(1, horizon)
    assert (losses.sum(axis=2) == 4).all()
    assert (losses[:, 0] == losses[:, 1]).all()
    best: np.ndarray[Any, Any] = losses[:, 0].argmin(axis=1)
    return best


@pytest.mark.parametrize("changes", [0, 1, 7, 99])
def test_as_many_changes_as_asked_for_at_rounds_of_the_seed(changes: int) -> None:
    best = certain(fb.problems.switching_at_random, 100, changes=changes)
    assert (np.diff(best) != 0).sum() == changes
    problem = fb.problems.switching_at_random(2, 5, 100, changes=changes, seed=4)
    np.testing.assert_array_equal(problem.starts, [1, *np.flatnonzero(np.diff(best)) + 2])


def test_other_seeds_change_at_other_rounds() -> None:
    starts = {
        tuple(fb.problems.switching_at_random(2, 3, 1000, changes=2, seed=s).starts)
        for s in range(20)
    }
    assert len(starts) == 20


@pytest.mark.parametrize(("period", "contestants"), [(10, 2), (30, 3), (7, 5), (100, 2)])
def test_turns_are_of_equal_length_and_in_order(period: int, contestants: int) -> None:
    best = certain(fb.problems.taking_turns, 100, period=period, contestants=contestants)
    order = fb.problems.taking_turns(2, 5, 100, contestants=contestants, seed=4).order
    assert len({*order.tolist()}) == contestants
    wanted = order[np.arange(100) // period % contestants]
    np.testing.assert_array_equal(best, wanted)


def test_the_newcomer_is_like_the_others_until_it_arrives() -> None:
    problem = fb.problems.newcomer(400, 3, 90, arrives=31, best=0.4, better=0.0, other=1.0, seed=1)
    losses = problem.block(1, 90)
    arm = int(losses[30:].sum(axis=(0, 1)).argmin())
    assert losses[:30, :, arm].all()
    assert not losses[30:, :, arm].any()
    # The old best arm keeps its mean, within six standard errors: 2e-9.
    [old] = [i for i in range(3) if 0 < losses[:, :, i].mean() < 1 and i != arm]
    for part in (losses[:30, :, old], losses[30:, :, old]):
        assert abs(part.mean() - 0.4) < 6 * np.sqrt(0.24 / part.size)
    assert fb.problems.newcomer(2, 3, 90).starts.tolist() == [1, 61]
    assert fb.problems.newcomer(2, 3, 2).starts.tolist() == [1, 2]


def test_a_drift_makes_every_arm_the_best_in_its_time() -> None:
    problem = fb.problems.drifting(4000, 4, 40, cycles=2, swing=0.5, seed=2)
    mean = problem.block(1, 40).mean(axis=1)
    time = np.arange(40) / 40
    wanted = 0.5 - 0.5 * np.cos(2 * np.pi * (2 * time[:, None] - problem.phases))
    assert np.abs(mean - wanted).max() < 6 * 0.5 / np.sqrt(4000)  # six standard errors
    assert mean[10].argmin() == mean[30].argmin() == problem.phases.tolist().index(0.5)


@pytest.mark.parametrize("make", KINDS)
def test_agents_disagree_around_the_same_means(make: Make) -> None:
    same, apart = make(50, 3, 300, seed=3), make(50, 3, 300, spread=0.1, seed=3)
    assert np.shape(same.apart) == (1, 1)  # type: ignore[attr-defined]
    added = apart.apart  # type: ignore[attr-defined]
    assert added.shape == (50, 3)
    assert np.abs(added.mean(axis=0)).max() < 1e-6
    assert np.abs(added).max() == pytest.approx(0.1)
    seen = apart.block(1, 300).mean(axis=0) - same.block(1, 300).mean(axis=0)
    # The same coins with other means: a difference of 600 losses, six standard errors at most.
    assert np.abs(seen - added).max() < 6 * np.sqrt(0.1 / 300)
    assert np.abs(seen).max() > 0.05


@pytest.mark.parametrize("make", KINDS)
def test_a_redraw_keeps_everything_but_the_losses(make: Make) -> None:
    problem = make(3, 4, 60, seed=1)
    again = problem.redraw(2)
    told, retold = problem.describe(), again.describe()
    assert {key for key in told if told[key] != retold[key]} == {"seed"}
    assert (problem.block(1, 60) != again.block(1, 60)).any()
    assert (problem.block(1, 60) == make(3, 4, 60, seed=1).block(1, 60)).all()
    assert (problem.block(11, 20) == problem.block(1, 60)[10:20]).all()


@pytest.mark.parametrize(
    ("make", "given", "yardstick"),
    [
        (fb.problems.switching_at_random, {"changes": 4}, {"changes": 4}),
        (fb.problems.taking_turns, {"period": 20, "contestants": 3}, {"parts": 5}),
        (fb.problems.newcomer, {"better": 0.0, "best": 0.0}, {"changes": 1}),
    ],
)
def test_the_best_sequence_is_the_one_that_was_drawn(
    make: Make, given: dict[str, Any], yardstick: dict[str, int]
) -> None:
    """Where the best arm never loses, and all others always do, it loses nothing."""
    problem = make(2, 5, 100, **({"best": 0.0, "other": 1.0} | given))
    losses = problem.block(1, 100).mean(axis=1)
    if "changes" in yardstick:
        found = best_sequences(losses, yardstick["changes"], [100])[0, -1]
    else:
        found = best_of_parts(losses, yardstick["parts"], 100, [100])[0]
    assert found == 0


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: fb.problems.switching_at_random(2, 3, 10, changes=10), "changes must be at most"),
        (lambda: fb.problems.switching_at_random(2, 3, 10, best=1.5), r"best must be in \[0, 1\]"),
        (lambda: fb.problems.taking_turns(2, 3, 10, period=11), "period must be at most 10"),
        (lambda: fb.problems.taking_turns(2, 3, 10, contestants=4), "contestants .* at most 3"),
        (lambda: fb.problems.taking_turns(2, 3, 10, contestants=1), "contestants .* at least 2"),
        (lambda: fb.problems.drifting(2, 3, 10, swing=0.6), "swing must be at most 1/2, not 0.6"),
        (lambda: fb.problems.drifting(2, 3, 10, cycles=-1), "cycles must be a finite number >= 0"),
        (lambda: fb.problems.newcomer(2, 3, 10, arrives=1), "arrives must be .* at least 2"),
        (lambda: fb.problems.newcomer(2, 3, 1), "horizon must be .* at least 2"),
        (lambda: fb.problems.newcomer(2, 3, 10, spread=0.2), "means lie between -0.1 and 0.7;"),
        (lambda: fb.problems.taking_turns(1, 3, 10, spread=0.2), "agents must be .* at least 2"),
    ],
)
def test_what_cannot_be_is_refused(make: Callable[[], Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        make()
