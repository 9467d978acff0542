"""Figure 2 of the paper: recommending movie genres, FedExp3 against GossipUCB.

The average cumulative regret versus horizon time for FedExp3 and GossipUCB in the movie
recommendation setting with the communication networks: (left) complete graph, (mid) the grid
network, and (right) RGG(0.5).

The paper's release has N = 3,364 users with a rating in all of K = 20 genres, and T = 12,800. This
part plays the ratings in the source tree, a generated instance at the paper's full size, or any
MovieLens release. The constants are the same as in figure 1.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np

import fedbandits as fb
from fedbandits.common.statistics import Interval, interval

from .figure1 import EXPLORATION, LEARNING_RATE, QUICK_RUNS, RUNS, curves
from .intervals import span
from .pictures import Picture
from .section import Options, Section, Table

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from fedbandits.problems.movielens import RatingSequences

ALGORITHMS: dict[str, fb.algorithms.AnyAlgorithm] = {
    "FedExp3": fb.FedExp3(LEARNING_RATE, EXPLORATION),
    "GossipUCB": fb.GossipUCB(),
}
SLOWER = {"FedExp3, η = 0.01": fb.FedExp3(0.01, EXPLORATION)}
"""Also played at full size, because the published level of FedExp3 fits a lower rate."""
FULL_SIZE = (3364, 20, 12_800)
PUBLISHED = {
    ("complete", "FedExp3"): 255,
    ("grid", "FedExp3"): 400,
    ("RGG(0.5)", "FedExp3"): 255,
    ("complete", "GossipUCB"): 600,
    ("grid", "GossipUCB"): 600,
    ("RGG(0.5)", "GossipUCB"): 600,
}
"""Regret at T, read off the published figure."""

Cell = tuple[str, str]
"""A network and an algorithm."""


def reproduce(options: Options) -> Section:
    """Play, draw and write figure 2 on `options.data`.

    Writes a `figure2_NETWORK` as .png, .pdf and .svg, `figure2.csv` and a result as .nc for each
    network and algorithm into `options.out`.
    """
    import pandas as pd

    runs = options.runs or (QUICK_RUNS if options.quick else RUNS)
    problem = load(options.data)
    shape = (problem.agents, problem.arms, problem.horizon)
    section = options.section(
        "figure2",
        "Figure 2: MovieLens",
        {
            "data": problem.source,
            "agents, arms, rounds": "{:,}, {:,}, {:,}".format(*shape),
            "rounds held at the last rating": f"{problem.undefined:.2%} of (round, agent, genre)",
            "algorithm": f"FedExp3({LEARNING_RATE}, 0.01 · t^(-1/3)) and GossipUCB()",
            "gossip": "max_degree(network, lazy=False), every edge in every round",
            "networks": "complete; grid of ⌈√N⌉ columns; random_geometric(N, 0.5, seed=0)",
            "runs and seed": f"{runs} runs, action seed {options.seed}",
        },
    )
    players = ALGORITHMS | SLOWER if shape == FULL_SIZE else ALGORITHMS
    results: dict[Cell, fb.Result] = {}
    for network, gossip in gossips(problem.agents).items():
        for name, algorithm in players.items():
            with section.timed(f"{name} on {network}"):
                result = fb.simulate(problem, algorithm, gossip, runs, options.seed)
            results[network, name] = result
            section.add_result(options.out, stem(network, name), result)
        panel = {name: results[network, name] for name in players}
        section.add_picture(options.out, draw(panel, network), picture(network))
    frames = [curves({name: result}, network) for (network, name), result in results.items()]
    section.add_csv(options.out, "figure2.csv", pd.concat(frames))
    section.tables += [regret_table(results, problem), genre_table(results)]
    section.paragraphs += findings(problem, results)
    return section


def load(data: str | None) -> RatingSequences:
    """Return the ratings: `embedded` (or None), `generated`, or the path of a release."""
    if data in (None, "embedded"):
        return fb.problems.movielens()
    if data == "generated":
        return fb.problems.movielens_generated()
    return fb.problems.movielens(data)


def gossips(agents: int) -> dict[str, fb.Gossip]:
    """Return the three networks with the matrix behind the paper's figures."""
    networks = {
        "complete": fb.networks.complete(agents),
        "grid": fb.networks.square_grid(agents),
        "RGG(0.5)": fb.networks.random_geometric(agents, 0.5, seed=0),
    }
    return {name: fb.gossip.max_degree(network, lazy=False) for name, network in networks.items()}


def stem(network: str, algorithm: str = "") -> str:
    """Return the name of a file without its ending."""
    plain = "rgg" if network.startswith("RGG") else network
    return "_".join(filter(None, ["figure2", plain, re.sub(r"[^a-z0-9]+", "_", algorithm.lower())]))


def at_end(result: fb.Result) -> Interval:
    """Return regret at T with its band over runs."""
    return interval(result.dataset["regret"].isel(time=-1))


def regret_table(results: Mapping[Cell, fb.Result], problem: RatingSequences) -> Table:
    """Return regret at T by network and algorithm, with published values if the sizes agree."""
    full_size = (problem.agents, problem.arms, problem.horizon) == FULL_SIZE
    columns = ["regret at T", "measured", "95% band"]
    rows = []
    for (network, name), result in results.items():
        found = at_end(result)
        row = [f"{name}, {network}", f"{found.mean:,.2f}", span(found.low, found.high)]
        if full_size:
            row.insert(1, f"{PUBLISHED[network, name]:,}" if name in ALGORITHMS else "-")
        rows.append(row)
    note = "The published figure has N = 3,364 and T = 12,800: regret is not comparable."
    if full_size:
        columns.insert(1, "published")
        note = "Published values are read off the figure, drawn from ml-latest of 2018."
    if full_size and problem.source.startswith("generated"):
        note += " These ratings are generated: of the same size, not the same data."
    return Table("Regret at T", columns, rows, note)


def genre_table(results: Mapping[Cell, fb.Result]) -> Table:
    """Return the genres that agents recommend after T, and the best genre in hindsight."""
    rows = []
    for (network, name), result in results.items():
        shares = result.recommended_arm.to_series().value_counts(normalize=True)
        (first, share), *others = shares.items()
        second = f"{others[0][0]} ({others[0][1]:.0%})" if others else "-"
        rows.append((f"{name}, {network}", f"{first} ({share:.0%})", second))
    arm_loss = next(iter(results.values())).dataset["arm_loss"].isel(time=-1)
    best = arm_loss.sortby(arm_loss)
    apart = float(best[1] - best[0])
    note = (
        f"Share of agents and runs. Best in hindsight: {best['arm'].item(0)}, {apart:,.1f} ahead "
        f"of {best['arm'].item(1)} at T."
    )
    columns = ("final recommendation", "most often", "then")
    return Table("Genres recommended after the last round", columns, rows, note)


def findings(problem: RatingSequences, results: Mapping[Cell, fb.Result]) -> list[str]:
    """Return the findings in sentences made from the numbers."""
    comparisons = []
    networks = list(dict.fromkeys(network for network, _ in results))
    for network in networks:
        ours, theirs = (at_end(results[network, name]) for name in ALGORITHMS)
        how = "below" if ours.mean < theirs.mean else "above"
        bands = "bands overlapping"
        if ours.high < theirs.low or theirs.high < ours.low:
            bands = "bands apart"
        elif np.isnan(ours.low):
            bands = "one run, no bands"
        comparisons.append(
            f"{how} on {network}, {ours.mean:.1f} against {theirs.mean:.1f} ({bands})"
        )
    paragraphs = [
        f"{problem.source}: {problem.agents:,} agents, {problem.arms} genres, "
        f"{problem.horizon:,} rounds. FedExp3's regret at T is, against GossipUCB's, "
        f"{'; '.join(comparisons)}."
    ]
    if any(name in SLOWER for _, name in results):
        paragraphs.append(disagreement(results, networks))
    return paragraphs


def disagreement(results: Mapping[Cell, fb.Result], networks: list[str]) -> str:
    """Compare FedExp3's published regret with that at the rate of figure 1 and at a lower one."""
    compared = [
        f"{network} {PUBLISHED[network, 'FedExp3']}, "
        + " and ".join(
            f"{at_end(results[network, name]).mean:.0f} ({rate})"
            for name, rate in zip(("FedExp3", *SLOWER), ("η = 0.1", "η = 0.01"), strict=True)
        )
        for network in networks
    ]
    return (
        f"FedExp3, published and measured at two learning rates: {'; '.join(compared)}. "
        "Exponential weights pay about ln K/η before they settle, which is 30 and 300. The "
        "published level is closer to the level of the lower rate."
    )


def picture(network: str) -> Picture:
    """Return the caption of one panel."""
    return Picture(
        stem(network),
        f"The average cumulative regret versus horizon time for FedExp3 and GossipUCB in the movie "
        f"recommendation setting with the communication network {network}.",
        f"Regret of FedExp3 and of GossipUCB over time on the network {network}, with 95% bands.",
    )


def draw(panel: Mapping[str, fb.Result], network: str) -> Figure:
    """Draw one panel."""
    from fedbandits.results.plots import figure_of, plot_regret

    ax = plot_regret(panel)
    ax.set_title(network, fontsize="medium")
    ax.set_ylim(bottom=min(0.0, float(np.min(ax.dataLim.y0))))
    return figure_of(ax)
