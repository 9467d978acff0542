"""Live agents under faults and with a liar, quickly: comparisons, and findings from numbers."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import fedbandits as fb
from fedbandits.paper import Section
from studies import Options, limits, live
from studies.entries import Sizes
from tests.sections import Made


def make(out: Path) -> Section:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("os.cpu_count", lambda: 1)  # losses of other processes are not salted
        patch.setattr(live, "QUICK", Sizes(agents=4, arms=3, horizon=30, draws=1))
        return live.reproduce(Options(out, quick=True))


@pytest.mark.slow
@pytest.mark.soak
def test_everything_is_compared(made: Made) -> None:
    table = pd.read_csv(made[0] / "live.csv")
    assert list(table)[:6] == ["losses", "faults", "mean", "low", "high", "draws"]
    assert len(table) == 3 * 11
    assert set(table["draws"]) == {1}

    regret, ratios, sent = made[1].tables
    assert [row[0] for row in regret.rows] == [*live.CONDITIONS, live.TOGETHER, live.ALONE]
    assert [row[0] for row in ratios.rows] == [*list(live.CONDITIONS)[1:], live.TOGETHER]
    numbers = {row[0]: (float(row[1]), row[2]) for row in sent.rows}
    assert numbers[live.ALONE] == (0, "0")
    assert numbers["50% lost"][0] > numbers["no faults"][0]  # what is not answered is repeated


def test_faults_are_those_that_are_named() -> None:
    faults = live.faults(live.FULL)
    assert list(faults) == list(live.CONDITIONS)
    assert faults["30% lost"].describe() == {"loss": 0.3, "delay": [0.0, 0.3], "repeat": 0.1}
    assert faults["late, 5 rounds"].describe() == {"delay": [0.0, 5.0]}
    [away] = faults["one away"].away
    assert (away.end - away.start, away.disk_lost) == (200, False)
    [lost] = faults["one lost its disk"].away
    assert (lost.start, lost.disk_lost) == (500, True)
    [cut] = faults["halves apart"].partitions
    assert (cut.end - cut.start, len(cut.members)) == (333, 18)
    members = live.federation_of(live.FULL, fb.FedExp3()).members
    for each in faults.values():
        each.check(members, live.FULL.horizon)


def found(lossy: float, alone: float) -> dict[str, dict[str, live.Played]]:
    """Numbers of which all but two are 10."""
    numbers = dict.fromkeys([*live.CONDITIONS, live.TOGETHER, live.ALONE], 10.0)
    numbers |= {live.LOSSY: lossy, live.ALONE: alone}
    played = {
        name: live.Played(np.full(3, value), np.full(3, 2 * value), 1.0, 8.0)
        for name, value in numbers.items()
    }
    return {"paper": played, "flat": played}


def test_words_come_from_numbers() -> None:
    good = live.findings(found(12.0, 20.0))
    assert "pay 1.20 (paper, 1.20 to 1.20), 1.20 (flat, 1.20 to 1.20) times" in good[0]
    assert "goal of at most 1.25 is met on all" in good[0]
    assert (
        "On the mean over draws no faults make it worse than Exp3 alone: the most is 0.60"
        in good[1]
    )
    assert "Nor was any of the 54 single draws." in good[1]
    bad = live.findings(found(15.0, 14.0))
    assert "is missed on paper and flat" in bad[0]
    assert "Worse than Exp3 alone: 30% lost (paper), 30% lost (flat): the most is 1.07" in bad[1]
    assert "Of the 54 single draws 6 were, by 1.07 times at most (30% lost, paper)" in bad[1]
    assert "Most is paid for 30% lost (paper): 1.50 times (1.50 to 1.50)" in bad[1]


@pytest.mark.slow
@pytest.mark.soak
def test_a_liar_shows_in_the_table_of_limits(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("os.cpu_count", lambda: 1)
    monkeypatch.setattr(limits, "QUICK", Sizes(agents=9, arms=3, horizon=60, draws=1))
    monkeypatch.setattr(limits, "MULTIPLES", (1.0, np.inf))
    section = limits.reproduce(Options(tmp_path, quick=True))
    [table] = section.tables
    assert [row[0] for row in table.rows] == ["1", "none"]
    small, unlimited = ([float(cell) for cell in row[1:]] for row in table.rows)
    uniform, worst = 12.0, 24.0
    assert f"regret {uniform:.0f}" in table.note
    assert f"has {worst:.0f}" in table.note
    for place in (1, 3, 5):  # with a liar
        assert unlimited[place] > 0.8 * worst
        assert small[place] < 0.8 * unlimited[place]
