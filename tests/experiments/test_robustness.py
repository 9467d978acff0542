"""`fedbandits reproduce robustness`: what its numbers are, and what its notes must say."""

from __future__ import annotations

import numpy as np
import pytest

import fedbandits as fb
from fedbandits.experiments import leaderboard, robustness
from fedbandits.experiments.robustness import CONDITIONS, Case, Entry, Sizes

TINY = Sizes(side=2, arms=3, horizon=20, draws=2)
CASE = Case(
    robustness.problems(TINY, 0)["paper"], fb.gossip.max_degree(fb.networks.complete(TINY.agents))
)


def test_a_share_is_of_uniform_play_and_its_interval_over_draws() -> None:
    """Draws that agree leave no interval; cases count alike."""
    alike = Entry(np.array([1.0, 2.0]), np.array([2.0, 4.0]))
    other = Entry(np.array([3.0, 3.0]), np.array([2.0, 2.0]))
    assert robustness.share([alike, other]) == (1.0, 1.0, 1.0)
    apart = Entry(np.array([1.0, 3.0]), np.array([4.0, 4.0]))
    mean, low, high = robustness.share([apart])
    assert mean == 0.5
    assert (low, high) == (0.25, 0.75)


@pytest.mark.slow
def test_what_is_refused_is_a_dash_and_ranks_are_without_faults() -> None:
    one, two = (Entry(np.array([x]), np.array([2.0])) for x in (1.0, 0.5))
    found = {
        ("no fault", "paper", "ring", "A"): one,
        ("a liar", "paper", "ring", "A"): None,
        ("no fault", "paper", "ring", "B"): two,
        ("a liar", "paper", "ring", "B"): one,
    }
    assert robustness.board(found).rows == [["B", "25.0", "50.0"], ["A", "50.0", "-"]]


@pytest.mark.slow
def test_entries_are_what_simulate_finds() -> None:
    """Of a watched game, whose uniform play is on the losses as they came."""
    found = robustness.entry(CONDITIONS["watched"].play, CASE, fb.FedExp3(), 2)
    problem = fb.problems.hit_favourite(CASE.problem)
    result = fb.simulate(problem, fb.FedExp3(), CASE.gossip, 1, draws=2, progress=False)
    np.testing.assert_allclose(found.regret, result.dataset["expected_regret"].isel(time=-1, run=0))
    assert found.uniform.mean() == pytest.approx(result.uniform_regret)


def test_every_sentence_about_noise_names_epsilon_unit_and_adversary() -> None:
    """And says where there is no guarantee."""
    entry = Entry(np.array([1.0]), np.array([2.0]))
    note = robustness.board({("no fault", "paper", "ring", "A"): entry}).note
    for said in (robustness.NOTE, CONDITIONS["ε = 1"].what, note):
        for words in ("ε = 1 per round", "of one agent", "(event level)", "all others collude"):
            assert words in said
    assert "no guarantee for arms where watched" in robustness.NOTE
    assert CONDITIONS["ε = 1"].what in note


def test_what_is_left_blank_is_what_simulate_refuses() -> None:
    """An error is none: it ends the experiment."""
    refused = 0
    for condition in CONDITIONS.values():
        for algorithm in leaderboard.players(robustness.LEFT_OUT).values():
            if not condition.takes(algorithm):
                refused += 1
                with pytest.raises(ValueError, match=r"floods|sends nothing|losses of all arms"):
                    condition.play(CASE, algorithm, 2)
    assert refused == 14  # three that flood, on three kinds of bad links; two that send nothing
