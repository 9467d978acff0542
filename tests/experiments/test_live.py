"""The experiment with faults, quickly: its files, what it compares, and what it finds."""

from __future__ import annotations

from pathlib import Path

import matplotlib as mpl
import numpy as np
import pandas as pd
import pytest

import fedbandits as fb
from fedbandits.experiments import Options, Section, live

mpl.use("agg")


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Section]:
    out = tmp_path_factory.mktemp("live")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("os.cpu_count", lambda: 1)  # losses of other processes are not salted
        patch.setattr(live, "QUICK", live.Sizes(rows=2, cols=2, arms=3, horizon=30, draws=1))
        return out, live.reproduce(Options(out, quick=True))


@pytest.mark.slow
def test_files(made: tuple[Path, Section]) -> None:
    out, section = made
    assert sorted(path.name for path in out.iterdir()) == sorted(section.files)
    assert {"live.csv", "live.png"} < set(section.files)
    table = pd.read_csv(out / "live.csv")
    assert list(table)[:6] == ["losses", "faults", "mean", "low", "high", "draws"]
    assert len(table) == 3 * 11
    assert set(table["draws"]) == {1}


@pytest.mark.slow
def test_everything_is_compared(made: tuple[Path, Section]) -> None:
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
