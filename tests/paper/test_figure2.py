"""Figure 2 on the ratings that come with the package: files, order, recommendations."""

import shutil
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import fedbandits as fb
from fedbandits.paper import PartOptions, Section, figure2
from fedbandits.paper.report import write_report
from tests.chromium import Browser, needs_chromium
from tests.sections import Made


def make(out: Path) -> Section:
    return figure2.reproduce(PartOptions(out, quick=True))


@pytest.mark.slow
@pytest.mark.soak
def test_fedexp3_is_below_gossip_ucb_with_bands_apart(made: Made) -> None:
    """Null: the levels of 16 other runs, FedExp3's 29.5 to 30.0 and GossipUCB's 74.3 to 74.4.

    Runs have a standard deviation of 1.5 and of 0.05. So means of two are 44.4 to 44.8 apart, with
    one of 1.05, and the tolerance is 5.6 of them away.
    """
    table = pd.read_csv(made[0] / "figure2.csv")
    assert list(table) == ["network", "algorithm", "time", "mean", "low", "high", "runs"]
    networks = ("complete", "grid", "rgg")
    results = {f"figure2_{name}_{a}.nc" for name in networks for a in ("fedexp3", "gossipucb")}
    assert results < set(made[1].files)
    end = {(row["network"], row["algorithm"]): row for row in table.to_dict("records")}
    assert len(end) == 6
    for network in ("complete", "grid", "RGG(0.5)"):
        ours, theirs = (end[network, name] for name in ("FedExp3", "GossipUCB"))
        assert ours["time"] == theirs["time"] == 1478
        assert ours["mean"] < theirs["low"] - 20
        assert ours["mean"] - theirs["mean"] == pytest.approx(-45, abs=6.5)
    assert made[1].paragraphs[0].count("below on") == 3


@pytest.mark.slow
@pytest.mark.soak
def test_recommendations_are_genres(made: Made) -> None:
    """Null: by six other seeds, the agent least sure of Film-Noir prefers it by log-odds of 1.9.

    Their standard deviation is 0.27: seven of them to no preference. On the grid they are 0.96 and
    0.18, and one agent in ten may differ.
    """
    out, section = made
    result = fb.load(out / "figure2_grid_fedexp3.nc")
    assert float((result.recommended_arm == "Film-Noir").mean()) > 0.9
    assert result.dataset.sizes["agent"] == 129
    assert result.config["problem"]["source"] == "ml-latest-small-2016-10.zip"
    rows = {row[0]: row[1] for row in section.tables[1].rows}
    assert rows["FedExp3, complete"] == "Film-Noir (100%)"
    assert section.tables[1].note.startswith("Share of agents and runs. Best in hindsight: Film-N")


def test_what_is_played_on() -> None:
    gossips = figure2.gossips(129)
    grid = gossips["grid"].network
    assert grid.connected
    assert grid.positions is not None
    # ⌈√129⌉ = 12 columns, ten full rows and nine agents in the last.
    assert len(np.unique(grid.positions[:, 0])) == 12
    assert int((grid.positions[:, 1] == grid.positions[:, 1].min()).sum()) == 9
    square = figure2.gossips(36)["grid"].network
    np.testing.assert_array_equal(square.edges, fb.networks.grid(6, 6).edges)


@pytest.mark.slow
@pytest.mark.soak
def test_published_values_stand_only_beside_the_same_size(made: Made) -> None:
    out, section = made
    assert "published" not in section.tables[0].columns
    results = {
        (network, name): fb.load(out / f"{figure2.stem(network, name)}.nc")
        for network, name in figure2.PUBLISHED
    }
    problem = replace(figure2.load(None), agents=3364, arms=20, horizon=12_800)
    table = figure2.regret_table(results, problem)
    assert {row[0]: row[1] for row in table.rows}["FedExp3, grid"] == "400"
    assert table.note.endswith("ml-latest of 2018.")
    table = figure2.regret_table(results, replace(problem, source="generated(...)"))
    assert table.note.endswith("not the same data.")


@pytest.mark.slow
def test_data_by_name_or_path(tmp_path: Path) -> None:
    from fedbandits.data import embedded

    assert figure2.load("embedded").describe() == figure2.load(None).describe()
    assert figure2.load(str(embedded())).arms == 20  # as the paper: all labels
    with pytest.raises(FileNotFoundError, match=r"nowhere\.zip"):
        figure2.load(str(tmp_path / "nowhere.zip"))


@pytest.mark.slow
@needs_chromium
@pytest.mark.soak
def test_the_real_report_in_a_real_browser(made: Made, tmp_path: Path) -> None:
    out, section = made
    copy = tmp_path / "out"
    shutil.copytree(out, copy)
    section.save(copy)
    page = write_report(copy, ["figure1", "figure2"])
    with Browser(tmp_path) as browser:
        tab = browser.visit(page)
    assert tab.console == "[]"
    assert tab.outside == []
