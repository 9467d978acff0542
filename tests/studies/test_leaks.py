"""Leaks: every algorithm that sends messages, and what its neighbours reconstruct."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import fedbandits as fb
from fedbandits.paper import Section
from studies import Options, leaks
from studies.entries import Sizes
from tests.sections import Made

TINY = Sizes(agents=4, arms=3, horizon=40, draws=2)


def make(out: Path) -> Section:
    return leaks.reproduce(Options(out, quick=True), TINY)


@pytest.mark.slow
@pytest.mark.soak
def test_every_algorithm_that_sends_is_in_the_tables(made: Made) -> None:
    _, section = made
    *tables, behind = section.tables
    for table in tables:
        assert [row[0] for row in table.rows] == list(leaks.SENDERS)
        assert table.columns[1:] == tuple(leaks.pairs(TINY))
    assert [row[0] for row in behind.rows] == ["0.1", "1", "3", "10"]
    assert not any(fb.algorithms.REGISTRY[name].noised for name in leaks.SENDERS)
    assert "LinearBlockGossip" not in leaks.SENDERS
    assert {"FedExp3", "GossipUCB", "BlockGossip"} <= set(leaks.SENDERS)
    [row] = [row for row in section.tables[0].rows if row[0] == "FedExp3"]
    assert row[1].startswith("100.0")  # complete: the neighbour hears all
    assert "nothing here is a privacy guarantee" in section.paragraphs[-1]


def test_pairs_are_neighbours_and_differ_in_what_is_unseen() -> None:
    looks = leaks.pairs(leaks.FULL)
    for network, attacker, victim in looks.values():
        assert network.adjacency.toarray()[attacker, victim]
    assert looks["star, hub looks"].attacker == looks["star, leaf looks"].victim


@pytest.mark.parametrize("losses", [leaks.COINS, leaks.GRADED])
def test_losses_have_means_from_03_to_07(losses: str) -> None:
    """Null: means as said; |mean of 4,000 losses in [0, 1] - mean| < 5 / (2 sqrt(4,000))."""
    sizes = Sizes(agents=40, arms=5, horizon=100, draws=1)
    problem = leaks.problem_of(losses, 40, sizes, seed=3)
    means = np.sort(problem.block(1, 100).mean(axis=(0, 1)))
    np.testing.assert_allclose(means, np.linspace(0.3, 0.7, 5), atol=5 / (2 * 4000**0.5))
    values = np.unique(problem.block(1, 100))
    assert (len(values) == 2) == (losses == leaks.COINS)
    assert isinstance(problem, fb.Problem)
