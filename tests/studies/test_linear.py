"""Linear losses, quickly: the comparison, and findings made from numbers."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import xarray as xr

from fedbandits.paper import Section
from studies import Options, linear
from tests.sections import Made

pytestmark = pytest.mark.slow  # the experiment, if only a quick one


def make(out: Path) -> Section:
    return linear.reproduce(Options(out, quick=True))


@pytest.mark.soak
def test_arms_hardly_matter_where_losses_are_linear(made: Made) -> None:
    """20 times as many arms: at most 1.5 times the regret, while FedExp3's more than doubles.

    Both ratios are of two draws, and lie further from their limits than draws lie apart.
    """
    table = pd.read_csv(made[0] / "linear.csv")
    expected = ["network", "algorithm", "time", "mean", "low", "high", "runs"]
    assert list(table)[:7] == expected
    data = xr.load_dataset(made[0] / "linear.nc")
    growth = linear.regret_growth(data)
    assert growth[linear.LINEAR].mean < 1.5
    assert growth[linear.FIGURE1].mean > 2
    assert float(data["linear"][-1].mean()) < float(data["uniform"][-1].mean()) / 2
    assert "goal of at most 1.5 is met" in made[1].paragraphs[0]
    assert int(data["numbers"]) == 15


@pytest.mark.soak
def test_every_set_of_actions_has_the_best(made: Made) -> None:
    small, large = (linear.problem_of(arms, 400, 1000, seed=1) for arms in (20, 400))
    assert small.actions is not None
    assert large.actions is not None
    np.testing.assert_allclose(small.actions, large.actions[:20], atol=1e-6)  # of length 1
    assert np.asarray(large.block(1, 1000)).mean(axis=(0, 1)).argmin() == 0
    best = xr.load_dataset(made[0] / "linear.nc")["best_loss"]
    np.testing.assert_allclose(best[0], best[1], atol=1e-4)


def test_a_missed_goal_is_said() -> None:
    """Words come from numbers: a regret that doubles misses the goal by a half."""
    ones = np.ones((2, 2))
    regret = xr.Dataset(
        {
            "linear": (("arms", "draw"), ones * [[10.0], [20.0]]),
            "default": (("arms", "draw"), ones * 6),
            "fedexp3": (("constant", "arms", "draw"), ones[None] * 5),
            "uniform": (("arms", "draw"), ones * 100),
            "best_loss": (("arms", "draw"), ones * 0.3),
            "numbers": 15,
            "block": 6,
        },
        coords={"constant": [0.1], "arms": [50, 5000], "draw": [0, 1]},
        attrs={"horizon": 10},
    )
    words = linear.findings(regret, linear.regret_growth(regret))
    assert "is missed by 0.50" in words[0]
    assert "at K = 50, 5,000 with its best constant" in words[1]
