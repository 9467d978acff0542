"""Slow networks: the arithmetic of both tables and what is said of them."""

from __future__ import annotations

import numpy as np

from fedbandits.experiments import slow_networks
from fedbandits.experiments.slow_networks import RATES, SMALL_LOSS, Price
from fedbandits.experiments.suite import BEST, DEFAULT, Case


def case(network: str, horizon: int, small_loss: float, default: float) -> Case:
    paid = {SMALL_LOSS: small_loss, DEFAULT: default, BEST: 10.0}
    regret = {label: np.array([0.9, 1.1]) * value for label, value in paid.items()}
    return Case(f"T = {horizon:,}", network, 0.03, False, regret, np.array([99.0, 99.0]))


def price(network: str, spread: float, power: float, scale: float = 1.0) -> Price:
    costs = scale * np.array(RATES)[:, None] ** power * np.ones(3)
    return Price(network, spread, 7.0, RATES, costs)


def test_the_long_runs_are_judged() -> None:
    cases = [case("path", 240, 99, 99), case("path", 960, 20, 13)]
    cases += [case("star", 240, 99, 99), case("star", 960, 18, 14)]
    (words,) = slow_networks.findings(cases)
    assert words.startswith("At T = 960 on path and star")
    assert "the small-loss rate pays up to 2.00 times (95%: 2.00 to 2.00) what" in words
    assert "the default up to 1.40 times (95%: 1.40 to 1.40; goal 1.5: met)" in words
    worse = [*cases[:3], case("star", 960, 18, 16)]
    assert "1.60 times (95%: 1.60 to 1.60; goal 1.5: missed)" in slow_networks.findings(worse)[0]
    rows = slow_networks.long_table(cases).rows
    assert [row[0] for row in rows][1::2] == ["path, T = 960", "star, T = 960"]
    assert (rows[1][3], rows[1][5]) == ("2.00", "1.30")


def test_the_price_is_told_by_its_power_of_the_rate() -> None:
    prices = [price("complete", 0.4, 1), price("complete", 0.0, 1)]
    prices += [price("star", 0.4, 2, scale=3.0), price("star", 0.0, 2)]
    assert [row[-1] for row in slow_networks.price_table(prices).rows] == [
        *["1.00"] * 2,
        *["2.00"] * 2,
    ]
    (words,) = slow_networks.price_findings(prices)
    assert "of 1.00 to 1.00 on the complete graph and of 2.00 to 2.00 on path and star" in words
    assert "agents who disagree pay 3.0 to 3.0 times" in words


def test_the_picture_has_a_line_for_each_price_and_a_guide_for_each_power() -> None:
    prices = [price("complete", 0.4, 1), price("complete", 0.0, 1), price("star", 0.4, 2)]
    (ax,) = slow_networks.draw_prices(prices).axes
    names = ax.get_legend_handles_labels()[1]
    assert names == ["complete, disagree", "complete, agree", "star, disagree"]
    # Bars are no lines, and all lines but guides are those of prices.
    lines = sorted(ax.lines, key=lambda line: line.get_linestyle())
    assert [line.get_linestyle() for line in lines] == ["-"] * 3 + ["--"] * 2
    steps = [
        np.diff(np.log(np.array(line.get_data(), float)[:, [0, -1]])).ravel() for line in lines
    ]
    np.testing.assert_allclose([y / x for x, y in steps], [1, 1, 2, 1, 2], rtol=1e-9)
