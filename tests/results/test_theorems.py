"""A result's bounds: beside the measured regret, in a plot, and after loading."""

from pathlib import Path

import matplotlib as mpl
import numpy as np
import pytest

import fedbandits as fb
from fedbandits.theory import bounds

mpl.use("agg")

GRID = fb.networks.grid(3, 3)
GOSSIP = fb.gossip.max_degree(GRID)
SLOW = fb.gossip.max_degree(fb.networks.path(9))
PROBLEM = fb.problems.activated_bernoulli(agents=9, arms=3, horizon=400, seed=0)


def play(algorithm: fb.algorithms.AnyAlgorithm, gossip: fb.Gossip | None = GOSSIP) -> fb.Result:
    return fb.simulate(PROBLEM, algorithm, gossip, runs=2)


@pytest.fixture(scope="module")
def fedexp3() -> fb.Result:
    return play(fb.FedExp3(0.1))


@pytest.mark.slow
def test_every_theorem_beside_the_measured(fedexp3: fb.Result) -> None:
    table = fedexp3.bounds()
    value = table["value"]
    sizes = {"arms": 3, "horizon": 400}
    assert value["mean agent"] == pytest.approx(float(fedexp3.band().mean[-1]))
    assert value["Theorem 1, lower bound, full information"] == (
        bounds.lower_bound_full_information(GRID, **sizes)
    )
    assert value["Theorem 3, upper bound"] == bounds.upper_bound(GOSSIP, **sizes)
    assert value["Theorem 3 before tuning"] == pytest.approx(
        bounds.upper_bound_before_tuning(
            GOSSIP, **sizes, learning_rate=0.1, exploration=fb.schedules.power(0.01, 1 / 3)
        )
    )
    assert table["remark"]["Theorem 3 before tuning"].endswith("vacuous: above T")
    assert "γ_T <= 1 holds" in table["remark"]["Theorem 3, upper bound"]
    needed = bounds.horizon_needed(SLOW, arms=3)
    assert needed > 400
    remark = play(fb.FedExp3(), SLOW).bounds()["remark"]["Theorem 3, upper bound"]
    assert f"γ_T <= 1 does not hold before T = {needed:,.0f}" in remark


def test_what_is_printed_is_whole(fedexp3: fb.Result) -> None:
    table = fedexp3.bounds()
    assert table["remark"].str.len().max() > 50  # where pandas cuts off
    printed = " ".join(str(table).split())
    for name, _, remark in table.itertuples():
        assert name in printed
        assert remark in printed
    assert max(map(len, str(table).splitlines())) <= 110
    assert "..." not in table._repr_html_()


@pytest.mark.slow
def test_before_tuning_only_for_rates_of_the_round_alone() -> None:
    table = play(fb.FedExp3(fb.schedules.anytime(1.0))).bounds()
    assert "Theorem 3, upper bound" in table.index
    assert "Theorem 3 before tuning" not in table.index


@pytest.mark.slow
@pytest.mark.parametrize(
    ("algorithm", "uppers"),
    [
        (fb.FedHedge(), ["upper bound, full information"]),
        (fb.BlockGossip(), ["upper bound of BlockGossip"]),
        (fb.GossipUCB(), []),
        (fb.Exp3(), []),
    ],
)
def test_only_bounds_that_exist(algorithm: fb.algorithms.AnyAlgorithm, uppers: list[str]) -> None:
    names = list(play(algorithm).bounds().index)
    assert [name for name in names if "upper" in name] == uppers
    assert sum("lower" in name for name in names) == 2


def test_plot(fedexp3: fb.Result) -> None:
    ax = fedexp3.plot(bounds=True)
    assert ax.get_yscale() == "log"
    lines = {line.get_label(): line for line in ax.get_lines()}
    x, y = (np.asarray(part) for part in lines["upper bound (Theorem 3, its rates)"].get_data())
    assert x[-1] == 400
    assert y[-1] == pytest.approx(bounds.upper_bound(GOSSIP, arms=3, horizon=400))
    assert "lower bound (Theorem 1, worst losses)" in lines
    assert fedexp3.plot().get_yscale() == "linear"


def test_a_loaded_result_makes_its_network_anew(fedexp3: fb.Result, tmp_path: Path) -> None:
    loaded = fb.load(fedexp3.save(tmp_path / "r.nc"))
    assert loaded.gossip is None
    assert loaded.bounds().equals(fedexp3.bounds())
    assert fedexp3.against("final").gossip is fedexp3.gossip


@pytest.mark.slow
def test_a_loaded_network_without_a_name_must_be_given(tmp_path: Path) -> None:
    gossip = fb.gossip.metropolis(fb.networks.from_edges(9, GRID.edges))
    result = play(fb.FedExp3(), gossip)
    loaded = fb.load(result.save(tmp_path / "r.nc"))
    with pytest.raises(ValueError, match=r"names the network from_edges .* pass the gossip"):
        loaded.bounds()
    assert loaded.bounds(gossip).equals(result.bounds())
    assert len(loaded.plot(bounds=gossip).get_lines()) == len(result.plot(bounds=True).get_lines())


@pytest.mark.slow
def test_another_gossip_is_refused(fedexp3: fb.Result) -> None:
    for other, what in (
        (fb.gossip.metropolis(GRID), "the gossip"),
        (fb.gossip.max_degree(fb.networks.ring(9)), "the network"),
    ):
        with pytest.raises(ValueError, match=f"simulated with {what}"):
            fedexp3.bounds(other)
        with pytest.raises(ValueError, match=f"simulated with {what}"):
            fedexp3.plot(bounds=other)
    alone = play(fb.Exp3(), None)
    with pytest.raises(ValueError, match="has 9 agents but the network has 4"):
        alone.bounds(fb.gossip.max_degree(fb.networks.ring(4)))
    assert "uniform play" in alone.bounds(GOSSIP).index


@pytest.mark.slow
def test_no_network_no_bounds() -> None:
    with pytest.raises(ValueError, match="Exp3 was simulated without a gossip"):
        play(fb.Exp3(), None).bounds()


@pytest.mark.slow
def test_no_gap_no_upper_bound() -> None:
    result = play(fb.FedExp3(), fb.gossip.none(GRID))
    assert result.bounds()["value"]["Theorem 3, upper bound"] == np.inf
    labels = [line.get_label() for line in result.plot(bounds=True).get_lines()]
    assert "upper bound (Theorem 3, its rates)" not in labels
