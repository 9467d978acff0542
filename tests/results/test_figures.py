"""Every figure of the library and of the report: legends over nothing, no label cut off."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import matplotlib as mpl
import matplotlib.pyplot as plt
import numpy as np
import numpy.typing as npt
import pandas as pd
import pytest
from matplotlib.axes import Axes
from matplotlib.figure import Figure

import fedbandits as fb
from fedbandits.paper import figure1, figure2, theory
from fedbandits.results.plots import figure_of
from studies import horizons, leaderboard, linear, suite
from studies.entries import Entry
from studies.leaderboard import DEFAULT as PLAIN
from studies.leaderboard import TUNED
from studies.suite import AUTHORS, BEST, DEFAULT, Case
from tests.figures import check_figure
from tests.instances import hand_made

mpl.use("agg")

GOSSIP = fb.gossip.max_degree(fb.networks.grid(3, 3))
T = np.arange(1, 301)
SHAPES: dict[str, npt.NDArray[np.floating]] = {
    "flat": np.sqrt(T),
    "straight": 0.3 * T,
    "falling": -0.2 * T,
    "turning": 40 * np.sin(T / 30),
    "everywhere": 60 * np.sin(T / 3),
}
"""Together they leave no corner of the axes free."""


def made(curve: npt.NDArray[np.floating], learning_rate: float = 0.1) -> fb.Result:
    """A result with this regret and a wide band."""
    rate = {"name": "Constant", "value": learning_rate}
    return hand_made(curve + np.linspace(-4, 4, 5)[:, None], {"algorithm.learning_rate": rate})


@pytest.mark.slow
@pytest.mark.parametrize("shape", SHAPES)
def test_one_curve(shape: str) -> None:
    check_figure(figure_of(made(SHAPES[shape]).plot()))


def test_a_curve_with_its_bounds() -> None:
    check_figure(figure_of(made(SHAPES["straight"]).plot(bounds=True)))


@pytest.mark.slow
@pytest.mark.parametrize("rates", [2, 5, 9])
def test_curves_everywhere(rates: int) -> None:
    curves = [made(curve, rate) for rate in range(rates) for curve in SHAPES.values()][:rates]
    check_figure(figure_of(fb.plot(*curves)))


def test_long_names_are_broken_rather_than_cut_off() -> None:
    names = ["learning rate and exploration as in the paper, " * 3, "the same on a ring " * 4]
    ax = fb.plot(*(made(SHAPES["flat"], rate) for rate in (0.1, 0.2)), label=names)
    check_figure(figure_of(ax))
    legend = ax.get_legend()
    assert legend is not None
    shown = [" ".join(text.get_text().split()) for text in legend.get_texts()]
    assert shown == [name.strip() for name in names]


@pytest.mark.slow
def test_a_long_legend_makes_the_figure_taller_and_leaves_the_axes() -> None:
    def inches(ax: Axes) -> float:
        check_figure(figure_of(ax))
        return ax.get_window_extent().height / figure_of(ax).dpi

    names = [f"learning rate {i} with exploration as in the paper, on a ring" for i in range(12)]
    curves = [made(SHAPES["flat"], rate) for rate in range(12)]
    alone = inches(fb.plot(curves[0]))
    assert inches(fb.plot(*curves, label=names)) == pytest.approx(alone, abs=0.1)
    assert inches(curves[0].plot(bounds=True)) == pytest.approx(alone, abs=0.1)
    grown = fb.plot(*curves[:6], label=names[:6])
    assert inches(fb.plot(*curves[6:], label=names[6:], ax=grown)) == pytest.approx(alone, abs=0.1)


@pytest.mark.parametrize("horizon", [20_000, 60_000, 99_000, 200_000, 1_750_000])
def test_many_rounds_have_short_numbers(horizon: int) -> None:
    result = made(SHAPES["flat"])
    times = np.linspace(1, horizon, len(T)).astype(int)
    ax = fb.plot(fb.Result(result.dataset.assign_coords(time=times), result.gossip))
    check_figure(figure_of(ax))
    assert any(text.get_text().endswith(("k", "M")) for text in ax.get_xticklabels())


@pytest.mark.parametrize("days", [0.5, 20, 45, 180, 1200])
@pytest.mark.parametrize("start", ["2013-01-15T06", "2013-11-20"])
def test_every_date_says_its_month_and_year(start: str, days: float) -> None:
    result = made(SHAPES["flat"])
    minutes = np.linspace(0, 24 * 60 * days, len(T)).astype(int).astype("timedelta64[m]")
    dates = np.datetime64(start, "ns") + minutes
    ax = fb.plot(fb.Result(result.dataset.assign_coords(date=("time", dates)), result.gossip))
    check_figure(figure_of(ax))
    shown = [text.get_text() for text in ax.get_xticklabels() if text.get_text()]
    assert len(shown) == len({*shown}) > 1
    for text in shown:
        assert re.search(r"\b[A-Z][a-z]{2}\b", text) or re.fullmatch(r"\d{4}", text)
        assert re.search(r"\b201\d\b", text)


@pytest.mark.slow
def test_panels_of_ones_own() -> None:
    """Also in a figure that was made without a layout."""
    figure, axes = plt.subplots(1, 2, figsize=(8, 3))
    fb.plot(made(SHAPES["everywhere"]), made(SHAPES["flat"], 0.2), ax=axes[0])
    made(SHAPES["falling"]).plot(axes[1])
    made(SHAPES["everywhere"], 0.2).plot(axes[1], label="another")
    check_figure(figure)
    inset = Figure().add_axes((0.1, 0.1, 0.8, 0.8))  # no layout can move these
    assert fb.plot(made(SHAPES["flat"]), ax=inset).get_legend() is not None


def figure1_left() -> Figure:
    names = ("FedExp3", "Exp3", "uniform play")
    return figure1.draw_left({name: made(SHAPES["straight"]) for name in names})


def figure1_right() -> Figure:
    published = pd.DataFrame(figure1.PUBLISHED_RIGHT, index=["published_x", "published"]).T
    means = published["published"] - 0.2
    panel = published.assign(
        x=published["published_x"], mean=means, above_low=-0.05, above_high=0.05
    )
    return figure1.draw_right(
        panel.rename_axis("network").reset_index(),
        figure1.Line(0.2, 32.7, 0.924, 0.868, 0.958, 0.1, 0.3, 0.2),
    )


def figure2_grid() -> Figure:
    names = ("FedExp3", "GossipUCB")
    return figure2.draw({name: made(SHAPES["turning"]) for name in names}, "grid")


def lower() -> Figure:
    names = ("FedExp3", "FedHedge", "uniform play")
    rows = [
        ("T", name, t, 9, np.sqrt(t), np.sqrt(t) - 1, np.sqrt(t) + 1, np.sqrt(t), 2 * np.sqrt(t))
        for name in names
        for t in (500, 1000, 2000, 8000)
    ]
    columns = ["against", "algorithm", "time", "distance", "mean", "low", "high", "exact"]
    exponents = pd.DataFrame({"variable": "T", "algorithm": names, "exponent": 0.5})
    return theory.draw_lower(pd.DataFrame(rows, columns=[*columns, "theorem1"]), exponents, "T")


def upper() -> Figure:
    rows = [
        (name, t, t**0.6 * c, t**0.6 * c - 1, t**0.6 * c + 1, 60 * t**0.6 * c)
        for c, name in enumerate(("complete(16)", "grid(4, 4)", "path(16)"), 1)
        for t in (10_000, 100_000, 1_000_000)
    ]
    columns = ["network", "time", "mean", "low", "high", "bound"]
    return theory.draw_upper(pd.DataFrame(rows, columns=columns))


def suite_ratios() -> Figure:
    noise = np.linspace(-0.5, 0.5, 10)
    regret = {DEFAULT: 10 + noise, AUTHORS: 60 + noise, BEST: 9 + noise}
    cases = [
        Case(family, network, 0.1, False, regret, np.full(10, 100.0))
        for family in list(suite.families())[:4]
        for network in suite.networks()
    ]
    return suite.draw(cases)


def board() -> Figure:
    uniform = np.array([10.0, 10.0])
    return leaderboard.draw(
        [
            Entry(name, setting, "1 paper", "grid", np.full((2, 2), regret), uniform)
            for name, regret in (("LinearBlockGossip", 3.0), ("FedExp3", 1.0), ("Uniform", 10.0))
            for setting in (PLAIN, TUNED)
        ]
    )


def growth() -> Figure:
    at = [2000, 20_000, 200_000]
    regret = {
        name: (i + 1) * np.sqrt(at)[:, None] * [1.0, 1.1] for i, name in enumerate(horizons.PLAYERS)
    }
    exponents = pd.DataFrame(
        {
            "network": GOSSIP.network.name,
            "horizons": "all",
            "algorithm": list(regret),
            "exponent": 0.5,
        }
    )
    return horizons.draw(horizons.Played(GOSSIP, at, regret, [], {}), exponents)


def linear_arms() -> Figure:
    names = [linear.LINEAR, linear.DEFAULT, linear.FIGURE1, linear.TUNED, linear.UNIFORM]
    rows = [
        (name, arms, 1000, 100.0 - i, 95.0 - i, 105.0 - i)
        for i, name in enumerate(names)
        for arms in linear.FULL.arms
    ]
    columns = ["algorithm", "arms", "time", "mean", "low", "high"]
    return linear.draw_arms(pd.DataFrame(rows, columns=columns))


REPORT: list[Callable[[], Figure]] = [
    *(figure1_left, figure1_right, figure2_grid, lower, upper),
    *(suite_ratios, board, growth, linear_arms),
]


@pytest.mark.slow
@pytest.mark.parametrize("draw", REPORT, ids=lambda draw: draw.__name__)
def test_every_figure_of_the_report(draw: Callable[..., Any]) -> None:
    check_figure(draw())
