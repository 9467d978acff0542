"""The study of a CDN, quickly: what it counts, and sentences made from numbers."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import fedbandits as fb
from fedbandits.paper import Section
from studies import Options, cdn
from tests.sections import Made

MEANS = cdn.Means(
    ("A", "B", "C"),
    ("north", "east", "south"),
    ("shop", "shop", "news"),
    np.array([[0.2, 0.1, 0.3], [0.2, 0.1, 0.3], [0.3, 0.9, 0.2]]),
)
"""B is the favourite of two, and A is best for all."""
ONE, NONE = np.eye(3), np.empty(0)


def make(out: Path) -> Section:
    return cdn.reproduce(Options(out, quick=True))


@pytest.mark.slow
def test_rows(made: Made) -> None:
    out, section = made
    assert len(pd.read_csv(out / "cdn.csv")) == 4 * 16 * 7
    misses, choices = section.tables
    assert tuple(row[0] for row in misses.rows) == fb.problems.cdn().arm_names
    assert [row[0] for row in choices.rows] == [cdn.TOGETHER, cdn.ALONE, cdn.VOTE, cdn.HINDSIGHT]


@pytest.mark.slow
@pytest.mark.soak
def test_fedexp3_finds_the_fleets_best_and_exp3_does_not() -> None:
    problem, runs = fb.problems.cdn(), 20
    gossip, means = fb.gossip.metropolis(cdn.network()), cdn.means_of(problem)
    results, missed = cdn.play(problem, gossip, (fb.FedExp3(), fb.Exp3()), runs, seed=0)
    choices = cdn.decided(results, missed, means)
    # Null: all edges of a run are right with a probability of at least 0.96. Ten of 20 runs or
    # fewer are then less likely than 1e-9.
    assert choices[cdn.TOGETHER].everywhere(means.best) > 10
    # Alone one edge in seven is right: for all 16 of a run 3e-14, and for half of the 320 edges,
    # which share nothing, less than 1e-40.
    assert choices[cdn.ALONE].everywhere(means.best) == 0
    assert choices[cdn.ALONE].right(means.best) < 0.5
    # Nor does knowing everything of oneself help.
    assert choices[cdn.HINDSIGHT].right(means.best) == 0
    # Each for itself misses less than one for all, and no less than all favourites would. Runs
    # differ by less than 0.01.
    alone, together = (missed[name].mean() for name in (cdn.ALONE, cdn.TOGETHER))
    assert means.ratios.min(axis=1).mean() < alone < together
    time, shares = cdn.played(results[cdn.TOGETHER])
    np.testing.assert_allclose(shares.sum(axis=1), 1)
    assert time[-1] == problem.horizon


def test_who_is_best_and_whose_favourite() -> None:
    assert MEANS.best == 0
    assert MEANS.votes == [("B", 2), ("C", 1)]
    np.testing.assert_allclose(MEANS.by_kind()["shop"], [0.2, 0.1, 0.3])
    # B misses 11/30 of all requests, A 7/30.
    assert MEANS.extra(ONE[1]) == pytest.approx(1e6 * 4 / 30)
    assert MEANS.extra(ONE[[0, 1]]) == pytest.approx(1e6 * 2 / 30)


def test_a_choice_counts_edges_and_runs() -> None:
    choice = cdn.Choice(ONE[[[0, 0, 0], [0, 1, 0]]], NONE, NONE)
    assert choice.right(0) == pytest.approx(5 / 6)
    assert choice.everywhere(0) == 1
    assert choice._replace(chosen=cdn.vote(choice.chosen)).everywhere(0) == 2
    tied = cdn.vote(ONE[[[0, 1, 2]]])
    assert choice._replace(chosen=tied).everywhere(0) == 0


def test_words_come_from_numbers() -> None:
    regret, missed = np.array([10.0, 30.0]), np.array([0.2, 0.3])
    choices = {
        cdn.TOGETHER: cdn.Choice(ONE[[[0, 0, 0], [0, 1, 0]]], regret, missed),
        cdn.ALONE: cdn.Choice(ONE[[[1, 1, 2], [0, 1, 2]]], 2 * regret, missed - 0.1),
        cdn.VOTE: cdn.Choice(ONE[[[1, 1, 1], [1, 1, 1]]], 2 * regret, missed - 0.1),
        cdn.HINDSIGHT: cdn.Choice(ONE[[[1, 1, 1]]], NONE, NONE),
    }
    first, second, third, last = cdn.findings(choices, MEANS, {"messages": 2.0, "bytes": 24.0})
    assert first == (
        "Favourites of the 3 edges: B of 2, C of 1. Over the fleet A misses least, 23.3% of all "
        "requests, 3.3 points below C and 13.3 below B. It is the favourite of no edge."
    )
    assert "at every edge in 1 of 2 runs" in second
    assert "In the others most edges settle on A (1). Exp3" in second
    assert "at 17% of the edges, and at all of them in 0 runs" in second
    assert "elects A in 0% of the runs" in second
    assert "133,333 more are missed with B than with A" in third
    assert "sends 2 messages, 24 bytes in all" in third
    assert "would miss 13.3% of all requests" in last
    assert "missed 15.0% in the rounds played, and FedExp3's 25.0%, where A from the start" in last
    rows = cdn.choice_table(choices, MEANS).rows
    assert rows[0] == (
        cdn.TOGETHER,
        "83.3",
        "50.0 (1.3 to 98.7)",
        "22,222",
        "20 ± 127",
        "25.00 ± 63.53",
    )
    assert rows[3] == (cdn.HINDSIGHT, "0.0", "0.0", "133,333", "-", "-")
