"""FedExp3 that weighs several memories."""

from __future__ import annotations

import numpy as np
import pytest

import fedbandits as fb
from fedbandits.engine.executors.chunk import compilations
from tests.pages.source import ROOT
from tests.tiers import soak_but

GRID = fb.gossip.max_degree(fb.networks.grid(2, 3))


@pytest.mark.parametrize("forever", [0.0, 1.0, -0.1, float("nan"), True, "long"])
def test_a_weight_is_between_0_and_1(forever: object) -> None:
    with pytest.raises((TypeError, ValueError), match="forever"):
        fb.TrackingFedExp3(forever=forever)  # type: ignore[arg-type]  # no weight: the point


def test_who_trusts_one_memory_plays_as_it() -> None:
    """With nearly all weight on remembering forever it is FedExp3, until another wins by far."""
    tracker, plain = fb.TrackingFedExp3(0.5, forever=1 - 1e-12), fb.FedExp3(0.5)
    z = np.array([0.3, 2.0, 0.1, 5.0])
    state = tracker.init(4, 6, dtype=np.float64)._replace(z=z, z30=z[::-1])
    alone = plain.init(4, 6, dtype=np.float64)
    for lost, trusted in (([0.0, 1.0, 2.0, 3.0, 4.0], z), ([0.0, 50.0, 50.0, 50.0, 50.0], z[::-1])):
        found = tracker.distribution(state._replace(lost=np.array(lost)), np.int64(9))
        expected = plain.distribution(alone._replace(z=trusted), np.int64(9))
        np.testing.assert_allclose(found, expected, rtol=1e-6)


@pytest.mark.parametrize("arms", soak_but([5], [2, 5, 20]))
def test_the_bytes_are_those_that_pages_name(arms: int) -> None:
    """5 K + 5 numbers where FedExp3 sends K: 5.25 times the bytes with 20 arms."""
    problem = fb.problems.activated_bernoulli(agents=6, arms=arms, horizon=5)
    tracker, plain = (
        fb.simulate(problem, algorithm, GRID, runs=1).communication["bytes"]
        for algorithm in (fb.TrackingFedExp3(), fb.FedExp3())
    )
    assert tracker / plain == pytest.approx(5 + 5 / arms, rel=1e-12)
    for page in ("moving", "algorithms", "learning-rate"):
        text = (ROOT / f"docs/understand/{page}.md").read_text(encoding="utf-8")
        assert "`5 K + 5`" in text, page
        assert "five times" not in text, page


@pytest.mark.parametrize(("t", "rounds"), [(1, 300), (3000, 300), (3001, 300.1), (20_000, 2000)])
def test_what_memories_lost_is_forgotten_in_a_tenth_of_the_time(t: int, rounds: float) -> None:
    """And in no fewer than 300 rounds; oracles play fewer than that takes to differ."""
    algorithm = fb.TrackingFedExp3()
    state = algorithm.init(3, 6, dtype=np.float64)
    received = dict(algorithm.message(state)) | {"lost": np.full(5, 60.0)}
    p, nothing = np.full(3, 1 / 3), np.float64(0.0)
    after = algorithm.update(state, received, np.int64(0), nothing, p, np.int64(t))
    np.testing.assert_allclose(after.lost, 60 * (1 - 1 / rounds), rtol=1e-12)


@pytest.mark.slow
def test_weights_share_a_program() -> None:
    problem = fb.problems.bernoulli([0.2, 0.8], 23, agents=6)
    before = compilations()
    for forever in (0.2, 0.9):
        fb.simulate(problem, fb.TrackingFedExp3(forever=forever), GRID, runs=2)
    assert compilations() == before + 1
