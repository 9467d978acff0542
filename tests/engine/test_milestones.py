"""The callback of a simulation: what it is told, and what happens if it raises."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import fedbandits as fb

PROBLEM = fb.problems.activated_bernoulli(agents=6, arms=3, horizon=2000)
GOSSIP = fb.gossip.max_degree(fb.networks.grid(2, 3))


def play(callback: Any = None, **told: Any) -> fb.Result:
    return fb.simulate(PROBLEM, fb.FedExp3(), GOSSIP, runs=2, callback=callback, **told)


@pytest.mark.slow
def test_every_chunk_is_told_and_nothing_changes() -> None:
    told: list[fb.Milestone] = []
    result = play(told.append)
    assert result.dataset.identical(play().dataset)
    assert [m.round for m in told] == [500, 1000, 1500, 2000]
    assert {(m.horizon, m.draw) for m in told} == {(2000, None)}
    assert all(a.seconds <= b.seconds for a, b in itertools.pairwise(told))
    for milestone in told:
        there = result.dataset.sel(time=milestone.round)
        np.testing.assert_array_equal(milestone.regret, there["regret"])
        np.testing.assert_array_equal(milestone.expected_regret, there["expected_regret"])


@pytest.mark.slow
@pytest.mark.parametrize("at", [500, 1500, 2000])
@pytest.mark.parametrize("error", [RuntimeError, KeyboardInterrupt])
def test_an_exception_ends_the_run_and_what_is_done_is_kept(
    at: int, error: type[BaseException], tmp_path: Path
) -> None:
    undisturbed = play()

    def fails(milestone: fb.Milestone) -> None:
        if milestone.round == at:
            raise error("the tracker is away")

    with pytest.raises(error, match="the tracker is away"):
        play(fails, checkpoint=tmp_path)
    assert len(list(tmp_path.iterdir())) == 1
    told: list[int] = []
    resumed = play(lambda m: told.append(m.round), checkpoint=tmp_path)
    assert told[0] >= at  # where it stands, then what follows
    assert told == list(range(told[0], 2001, 500))
    assert resumed.dataset.identical(undisturbed.dataset)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.slow
def test_an_exception_without_a_checkpoint_is_the_callers() -> None:
    def fails(milestone: fb.Milestone) -> None:
        raise RuntimeError("no")

    with pytest.raises(RuntimeError, match="no"):
        play(fails)


@pytest.mark.slow
def test_draws_are_told_apart() -> None:
    told: list[fb.Milestone] = []
    play(told.append, draws=2)
    assert [(m.draw, m.round) for m in told] == [
        (draw, done) for draw in (0, 1) for done in (500, 1000, 1500, 2000)
    ]


def test_what_cannot_be_called_is_refused() -> None:
    with pytest.raises(TypeError, match="callback must be a function of one milestone"):
        play("print")
