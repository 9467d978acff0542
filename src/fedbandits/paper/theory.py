"""Figure 3, ours: the paper's theorems against measured regret.

(Left and middle) The lower bound's own instance: two cliques joined by a path. Only the first
clique sees fair-coin losses, and they repeat in blocks of Δ + 1 rounds, where Δ is the distance of
the cliques. The regret of the far clique's agents against T and against Δ + 1, for FedExp3,
FedHedge and uniform play, with the exact value for every algorithm and Theorem 1's asymptotic
formula.

(Right) The upper bound: FedExp3 with the rates of Theorem 3, the worst agent's regret against T,
below 5 (C_W K² ln K)^(1/3) T^(2/3), at sizes where the theorem's γ_T is below 1.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product
from typing import TYPE_CHECKING

import numpy as np

import fedbandits as fb
from fedbandits.common.statistics import interval
from fedbandits.simulation.simulation import Simulation

from . import figure1
from .cells import in_threads
from .figure1 import EXPLORATION, LEARNING_RATE
from .intervals import exponent, span
from .pictures import Picture, draw_points, finished
from .section import Options, Section, Table

if TYPE_CHECKING:
    import pandas as pd
    import xarray as xr
    from matplotlib.figure import Figure

ARMS = 20
CLUSTER = 4
"""Agents in a clique while T varies: N = 16, Δ = 9."""
HORIZON = 4000
"""T while Δ varies, or the longest horizon played if that is shorter."""
SHARE = 1 / 4
UPPER_ARMS = 2


@dataclass(frozen=True)
class Sizes:
    """Sizes of the instances of the two bounds.

    Attributes:
        draws: of the losses under the lower bound, where only the losses are random.
        horizons: T under the lower bound.
        clusters: agents in a clique while Δ varies, including `CLUSTER`; the path has twice as
            many, so that a quarter of the agents sees losses, as in the proof.
        runs: under the upper bound.
        upper_horizons: T under the upper bound.
    """

    draws: int
    horizons: tuple[int, ...]
    clusters: tuple[int, ...]
    runs: int
    upper_horizons: tuple[int, ...]


FULL = Sizes(
    draws=200,
    horizons=(500, 1000, 2000, 4000, 8000),
    clusters=(2, 4, 8, 16),
    runs=10,
    upper_horizons=(1000, 3000, 10_000, 30_000, 100_000),
)
QUICK = Sizes(draws=20, horizons=(500, 1000), clusters=(2, 4), runs=2, upper_horizons=(30_000,))


def reproduce(options: Options) -> Section:
    """Play, draw and write figure 3.

    Writes three `figure3_*` as .png, .pdf and .svg, `figure3.csv`, `figure3_upper.csv` and
    `figure3_lower.nc` into `options.out`. `options.runs` are the runs under the upper bound.
    """
    sizes = QUICK if options.quick else FULL
    runs, draws = options.runs or sizes.runs, sizes.draws
    section = options.section(
        "theory",
        "Figure 3, ours: the theorems, measured",
        {
            "lower bound": f"two_clusters(c, 2 c) and delayed_experts(4 c, {ARMS}, T, cluster=c, "
            f"block=2 c + 2), {draws} draws of the losses, seeds {options.seed * draws} on; "
            f"FedExp3 with the constants of figure 1, FedHedge() with its defaults; gossip "
            "max_degree",
            "upper bound": f"activated_bernoulli(16, {UPPER_ARMS}, T, seed={options.seed}), "
            f"FedExp3.from_theorem, gossip max_degree, {runs} runs, seed {options.seed}",
        },
    )
    with section.timed(f"lower bound: {draws} draws, three algorithms"):
        lower = play_lower(sizes.horizons, sizes.clusters, draws, options.seed)
    section.add_netcdf(options.out, "figure3_lower", lower)
    points = lower_points(lower)
    section.add_csv(options.out, "figure3.csv", points)
    exponents = fit_exponents(lower)
    section.tables += [lower_table(points), exponent_table(exponents)]
    for against, picture in PICTURES.items():
        section.add_picture(options.out, draw_lower(points, exponents, against), picture)
    with section.timed("upper bound: three networks"):
        upper = play_upper(sizes.upper_horizons, runs, options.seed)
    section.add_csv(options.out, "figure3_upper.csv", upper)
    section.tables.append(upper_table(upper))
    section.add_picture(options.out, draw_upper(upper), UPPER)
    section.paragraphs += findings(points, exponents, upper)
    return section


def play_lower(
    horizons: Sequence[int], clusters: Sequence[int], draws: int, seed: int
) -> xr.Dataset:
    """Return the expected regret of the far agent on the lower bound's instance, for each draw.

    The far agent belongs to the second clique and is closest to the first, Δ hops away.

    Returns:
        `by_horizon`, `[algorithm, horizon, draw]`, and `by_distance`, `[algorithm, distance,
        draw]`.
    """
    import xarray as xr

    from fedbandits.engine.totals import play_totals

    players: dict[str, fb.algorithms.AnyAlgorithm] = {
        "FedExp3": fb.FedExp3(LEARNING_RATE, EXPLORATION),
        "FedHedge": fb.FedHedge(),
        "uniform play": fb.Uniform(),
    }
    at = min(HORIZON, max(horizons))
    longest = {c: max(horizons) if c == CLUSTER else at for c in clusters}

    def far_regret(cell: tuple[str, int]) -> xr.DataArray:
        name, cluster = cell
        network = fb.networks.two_clusters(cluster, 2 * cluster)
        problems = [
            fb.problems.delayed_experts(
                network.agents,
                ARMS,
                longest[cluster],
                cluster=cluster,
                block=2 * cluster + 2,
                seed=seed * draws + draw,
            )
            for draw in range(draws)
        ]
        gossip, times = fb.gossip.max_degree(network), sorted({*horizons, at})
        simulation = Simulation(problems[0], players[name], gossip, runs=1, seed=seed * draws)
        found = play_totals(
            simulation.on(problems), times=[t for t in times if t <= longest[cluster]]
        )
        return found["expected_regret"].isel(run=0, agent=3 * cluster)

    cells = [(name, cluster) for name in players for cluster in clusters]
    played = dict(zip(cells, in_threads(far_regret, cells, "figure 3, lower bound"), strict=True))
    by_horizon = [played[name, CLUSTER].sel(time=list(horizons)) for name in players]
    by_distance = [
        xr.concat([played[name, c].sel(time=at, drop=True) for c in clusters], "distance")
        for name in players
    ]
    return xr.Dataset(
        {
            "by_horizon": xr.concat(by_horizon, "algorithm").rename(time="horizon"),
            "by_distance": xr.concat(by_distance, "algorithm"),
        },
        coords={
            "algorithm": list(players),
            "distance": [2 * c + 1 for c in clusters],
            "draw": np.arange(seed * draws, (seed + 1) * draws),
        },
        attrs={"horizon": at},
    )


def lower_points(lower: xr.Dataset) -> pd.DataFrame:
    """Return every point: mean, simultaneous 95% band, exact value and Theorem 1's formula."""
    import pandas as pd

    at, fixed = lower.attrs["horizon"], 2 * CLUSTER + 1
    cells = []
    for panel, variable, axis in (("T", "by_horizon", "horizon"), ("Δ", "by_distance", "distance")):
        for name, x in product(lower["algorithm"].values, lower[axis].values.tolist()):
            distance, horizon = (fixed, x) if panel == "T" else (x, at)
            values = lower[variable].sel({"algorithm": name, axis: x})
            cells.append((name, panel, distance, horizon, values))
    points = {cell[:1] + cell[2:4] for cell in cells}  # one point is in both panels
    level = 1 - 0.05 / len(points)  # all at once (Bonferroni)
    rows = []
    for name, panel, distance, horizon, values in cells:
        cluster = (distance - 1) // 2
        network = fb.networks.two_clusters(cluster, 2 * cluster)
        exact = fb.bounds.delayed_experts_regret(
            arms=ARMS, horizon=horizon, block=distance + 1, share=SHARE
        )
        theorem = fb.bounds.lower_bound_full_information(
            network, arms=ARMS, horizon=horizon, distance=distance
        )
        found = interval(values, level)
        rows.append(
            (network.name, name, horizon, *found, values.size, panel, distance, exact, theorem)
        )
    columns = ["network", "algorithm", "time", "mean", "low", "high", "runs"]
    return pd.DataFrame(rows, columns=[*columns, "against", "distance", "exact", "theorem1"])


def fit_exponents(lower: xr.Dataset) -> pd.DataFrame:
    """Fit the growth in T and in Δ + 1 of the far agent's regret, both 1/2 in theory."""
    import pandas as pd

    rows = []
    for name in lower["algorithm"].values:
        of = lower.sel(algorithm=name)
        for variable, x in (("T", of["horizon"]), ("Δ + 1", of["distance"] + 1)):
            samples = of["by_horizon" if variable == "T" else "by_distance"]
            rows.append((name, variable, *exponent(x, list(samples.to_numpy()))))
    return pd.DataFrame(rows, columns=["algorithm", "variable", "exponent", "low", "high"])


def play_upper(horizons: Sequence[int], runs: int, seed: int) -> pd.DataFrame:
    """Return regret of FedExp3's worst agent with Theorem 3's rates, and the bound, if γ_T < 1."""
    import pandas as pd

    networks = {
        "complete(16)": fb.networks.complete(16),
        "grid(4, 4)": fb.networks.grid(4, 4),
        "path(16)": fb.networks.path(16),
    }
    gossips = {name: fb.gossip.max_degree(network) for name, network in networks.items()}

    def one(cell: tuple[str, int]) -> tuple[object, ...]:
        name, horizon = cell
        gossip, sizes = gossips[name], {"arms": UPPER_ARMS, "horizon": horizon}
        rates = fb.bounds.theorem_rates(gossip, **sizes)
        algorithm = fb.FedExp3.from_theorem(gossip, **sizes)
        problem = fb.problems.activated_bernoulli(16, UPPER_ARMS, horizon, seed=seed)
        result = fb.simulate(problem, algorithm, gossip, runs, seed, progress=False)
        worst = result.dataset["agent_expected_regret"].isel(agent=result.worst_index)
        bound = fb.bounds.upper_bound(gossip, **sizes)
        found = (name, "FedExp3", horizon, *interval(worst), runs)
        return (*found, rates.exploration_at_horizon, bound, result.uniform_regret)

    needed = {name: fb.bounds.horizon_needed(g, arms=UPPER_ARMS) for name, g in gossips.items()}
    cells = [(name, t) for t in horizons for name in gossips if t > needed[name]]
    columns = ["network", "algorithm", "time", "mean", "low", "high", "runs"]
    rows = in_threads(one, cells, "figure 3, upper bound")
    return pd.DataFrame(rows, columns=[*columns, "gamma", "bound", "uniform"])


def lower_table(points: pd.DataFrame) -> Table:
    """Compare the far agent's regret with its exact value."""
    return Table.of(
        "Lower bound: the far agent",
        points.drop_duplicates(["algorithm", "time", "distance"]).to_dict("records"),
        [
            (
                "far agent",
                lambda row: f"{row['algorithm']}, T = {row['time']:,}, Δ = {row['distance']}",
            ),
            ("exact", lambda row: f"{row['exact']:.2f}"),
            ("measured", lambda row: f"{row['mean']:.2f}"),
            ("95% band", lambda row: span(row["low"], row["high"])),
            ("covers", lambda row: "yes" if row["low"] <= row["exact"] <= row["high"] else "no"),
            ("Theorem 1", lambda row: f"{row['theorem1']:.2f}"),
        ],
        f"{points['runs'].iloc[0]} draws of the losses. The bands hold all at once (Bonferroni). "
        "The exact value is the same for every algorithm; Theorem 1 is asymptotic in T and K and "
        "lies above it.",
    )


def exponent_table(exponents: pd.DataFrame) -> Table:
    """Return the fitted growth in T and in the distance."""
    return Table.of(
        "Lower bound: growth",
        exponents.to_dict("records"),
        [
            ("far agent's regret", lambda row: f"{row['algorithm']}, in {row['variable']}"),
            ("theory", lambda _: "0.500"),
            ("fitted exponent", lambda row: f"{row['exponent']:.3f}"),
            ("95% interval", lambda row: span(row["low"], row["high"], 3)),
        ],
        "Least squares on log axes; bootstrap over draws of the losses.",
    )


def upper_table(upper: pd.DataFrame) -> Table:
    """Compare the worst agent's regret with Theorem 3."""
    return Table.of(
        "Upper bound: the worst agent",
        upper.to_dict("records"),
        [
            ("network", lambda row: f"{row['network']}, T = {row['time']:,}"),
            ("γ_T", lambda row: f"{row['gamma']:.3f}"),
            ("worst agent", lambda row: f"{row['mean']:,.1f}"),
            ("95% band", lambda row: span(row["low"], row["high"], 1)),
            ("Theorem 3", lambda row: f"{row['bound']:,.0f}"),
            ("ratio", lambda row: f"{row['mean'] / row['bound']:.3f}"),
            ("uniform play", lambda row: f"{row['uniform']:,.0f}"),
        ],
        "FedExp3 with the theorem's rates; only where γ_T < 1. Uniform play's regret is exact. A "
        "bound above T says nothing.",
    )


def findings(points: pd.DataFrame, exponents: pd.DataFrame, upper: pd.DataFrame) -> list[str]:
    """Return the findings in sentences made from the numbers."""
    points = points.drop_duplicates(["algorithm", "time", "distance"])
    covered = int(((points["low"] <= points["exact"]) & (points["exact"] <= points["high"])).sum())
    half = int(((exponents["low"] <= 0.5) & (exponents["high"] >= 0.5)).sum())
    below = int((upper["high"].fillna(upper["mean"]) < upper["bound"]).sum())  # one run: no band
    meaningful = int((upper["bound"] < upper["time"]).sum())
    of_figure1 = fb.gossip.max_degree(fb.networks.grid(figure1.ROWS, figure1.COLS), lazy=False)
    there = fb.bounds.upper_bound(of_figure1, arms=figure1.ARMS, horizon=figure1.HORIZON)
    return [
        f"Lower bound. The far agent's regret equals the exact value within its interval at "
        f"{covered} of {len(points)} points, for FedHedge, which sees all losses, as for FedExp3 "
        f"and uniform play. The interval of the exponent holds 1/2 in {half} of {len(exponents)} "
        "fits.",
        f"Upper bound. The worst agent's regret is below Theorem 3 at {below} of {len(upper)} "
        f"points (the bound is {(upper['bound'] / upper['mean']).min():.1f} times it or more). At "
        f"{meaningful} of them the bound is below T; above T it says nothing, as for figure 1, "
        f"left: {there:,.0f} at T = {figure1.HORIZON:,}.",
    ]


PICTURES = {
    "T": Picture(
        "figure3_horizon",
        "The far agent's expected regret on the lower bound's instance against T, with the exact "
        "value for every algorithm, Theorem 1's asymptotic formula, and fitted exponents. Theorem "
        "1 is asymptotic in T and K: at these sizes it lies above. Bars are 95%, all at once; "
        "points of one T are drawn next to each other.",
        "Regret of three algorithms with bars, the exact line and Theorem 1's line, on log axes.",
    ),
    "Δ": Picture(
        "figure3_distance",
        "The same against the distance Δ of the clusters.",
        "Regret of three algorithms with bars, the exact line and Theorem 1's line, on log axes.",
    ),
}
UPPER = Picture(
    "figure3_upper",
    "The worst agent's regret of FedExp3 with the theorem's rates (solid) and Theorem 3 (dashed), "
    "at sizes where γ_T < 1.",
    "Measured regret on three networks and three dashed upper bounds, on log axes.",
)


def draw_lower(points: pd.DataFrame, exponents: pd.DataFrame, against: str) -> Figure:
    """Draw the far agent's regret against T or against Δ + 1."""
    from fedbandits.results.plots import new_axes, plain_log

    ax = new_axes()
    shown = points[points["against"] == against].assign(block=points["distance"] + 1)
    x, variable = ("time", "T") if against == "T" else ("block", "Δ + 1")
    fitted = exponents[exponents["variable"] == variable].set_index("algorithm")["exponent"]
    for i, (name, rows) in enumerate(shown.groupby("algorithm", sort=False)):
        apart = rows[x] * 1.06 ** (i - 1)  # equal points would hide each other
        label = f"{name}, exponent {fitted[name]:.2f}"
        draw_points(ax, apart, rows[["mean", "low", "high"]], i, label, linestyle="none")
    ax.plot(rows[x], rows["exact"], "k-", linewidth=1, label="exact, every algorithm")
    ax.plot(rows[x], rows["theorem1"], "k--", linewidth=1, label="Theorem 1, asymptotic")
    plain_log(ax)
    fixed = f"Δ = {2 * CLUSTER + 1}" if against == "T" else f"T = {rows['time'].iloc[0]:,}"
    return finished(ax, variable, "cumulative regret\nof the far agent", f"{fixed}, {ARMS} arms")


def draw_upper(upper: pd.DataFrame) -> Figure:
    """Draw the worst agent's regret and the bound, network by network."""
    from fedbandits.results.plots import COLOURS, new_axes, plain_log

    ax = new_axes()
    for i, (name, rows) in enumerate(upper.groupby("network", sort=False)):
        draw_points(ax, rows["time"], rows[["mean", "low", "high"]], i, str(name))
        ax.plot(rows["time"], rows["bound"], "--", color=COLOURS[i])
    horizons = sorted(upper["time"].unique())
    ax.plot(horizons, horizons, ":", color="0.5", label="T")
    plain_log(ax)
    title = f"Theorem 3 dashed, {UPPER_ARMS} arms"
    return finished(ax, "T", "cumulative regret\nof the worst agent", title)
