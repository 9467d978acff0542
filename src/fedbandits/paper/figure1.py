"""Figure 1 of the paper: regret over time on the grid, and regret against the spectral gap.

(Left) The average cumulative regret versus T for FedExp3 and Exp3 on the grid graph: 36 agents on
a 6 × 6 grid, 20 arms, 3000 rounds, 10 runs.

(Right) The average cumulative regret versus (1 - σ2(W))^(-1/3) for FedExp3 on different networks
at T = 3000: the complete graph, the grid and random geometric graphs RGG(d), d = 0.3, ..., 0.9.

Both panels use the constants of the authors' code: learning rate 0.1, exploration
0.01 · t^(-1/3), W = I - (D - A)/(1 + d_max).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

import fedbandits as fb
from fedbandits.common.statistics import ONE_RUN, Interval, interval

from .cells import in_threads
from .intervals import resamples, span
from .pictures import Picture, finished
from .section import Options, Section, Table

if TYPE_CHECKING:
    import pandas as pd
    import xarray as xr
    from matplotlib.figure import Figure

ROWS, COLS = 6, 6
AGENTS = ROWS * COLS
ARMS = 20
HORIZON = 3000
LEARNING_RATE = 0.1
EXPLORATION = fb.schedules.power(0.01, 1 / 3)
UNIFORM = "uniform play"

RUNS, QUICK_RUNS = 10, 2
DRAWS, QUICK_DRAWS = 24, 4
"""Draws of the losses in the right panel. The networks differ by 2%: fewer draws hide the line."""

PUBLISHED_LEFT = {
    ("FedExp3", 500): 29.5,
    ("FedExp3", 3000): 33.6,
    ("Exp3", 500): 50.0,
    ("Exp3", 3000): 68.5,
}
"""Regret by algorithm and round, read off the published figure."""

PUBLISHED_RIGHT = {
    "complete": (1.00, 33.12),
    "RGG(0.9)": (1.10, 33.04),
    "RGG(0.8)": (1.18, 33.08),
    "RGG(0.7)": (1.28, 33.10),
    "RGG(0.6)": (1.52, 33.19),
    "RGG(0.5)": (1.74, 33.27),
    "RGG(0.4)": (2.10, 33.30),
    "grid": (2.65, 33.57),
    "RGG(0.3)": (3.08, 33.72),
}
"""(1 - σ2)^(-1/3) and regret by network, read off the published figure."""
PUBLISHED_R2 = 0.980


def reproduce(options: Options) -> Section:
    """Play, draw and write both panels.

    Writes `figure1_left` and `figure1_right` as .png, .pdf and .svg, `figure1.csv`,
    `figure1_right.csv` and the results as .nc into `options.out`.
    """
    runs = options.runs or (QUICK_RUNS if options.quick else RUNS)
    draws = QUICK_DRAWS if options.quick else DRAWS
    section = options.section(
        "figure1",
        "Figure 1: synthetic losses",
        {
            "problem": f"activated_bernoulli(agents={AGENTS}, arms={ARMS}, horizon={HORIZON})",
            "algorithm": f"learning_rate={LEARNING_RATE}, exploration={EXPLORATION}",
            "gossip": "max_degree(network, lazy=False): W = I - (D - A)/(1 + d_max)",
            "left": f"{runs} runs, loss seed {options.seed}, action seed {options.seed}",
            "right": f"{draws} loss seeds × {runs} runs; losses and uniforms the same on every "
            f"network; RGG(d) is networkx's random_geometric_graph({AGENTS}, d, seed=0)",
        },
    )
    with section.timed("left: three algorithms on the grid"):
        results = play_left(runs, options.seed)
    for name, result in results.items():
        section.add_result(options.out, f"figure1_left_{name.lower().replace(' ', '_')}", result)
    section.add_csv(options.out, "figure1.csv", curves(results, "grid"))
    section.tables.append(left_table(results))
    section.add_picture(options.out, draw_left(results), LEFT)

    with section.timed(f"right: {draws} draws of the losses on nine networks"):
        regret = play_right(draws, runs, options.seed)
    section.add_netcdf(options.out, "figure1_right", regret.to_dataset(name="expected_regret"))
    table, line = right_panel(regret), fit_line(regret)
    section.add_csv(options.out, "figure1_right.csv", table)
    section.tables += [right_table(table), line_table(line)]
    section.add_picture(options.out, draw_right(table, line), RIGHT)
    section.paragraphs += findings(results, table, line)
    return section


def play_left(runs: int, seed: int) -> dict[str, fb.Result]:
    """Play FedExp3, Exp3 and uniform play on the grid, with the same losses and seeds."""
    gossip = fb.gossip.max_degree(fb.networks.grid(ROWS, COLS), lazy=False)
    problem = fb.problems.activated_bernoulli(AGENTS, ARMS, HORIZON, seed=seed)
    players: dict[str, fb.algorithms.AnyAlgorithm] = {
        "FedExp3": fb.FedExp3(LEARNING_RATE, EXPLORATION),
        "Exp3": fb.Exp3(LEARNING_RATE, EXPLORATION),
        UNIFORM: fb.Uniform(),
    }
    return {
        name: fb.simulate(problem, algorithm, gossip, runs, seed)
        for name, algorithm in players.items()
    }


def curves(results: Mapping[str, fb.Result], network: str) -> pd.DataFrame:
    """Return regret as a tidy table: network, algorithm, time, mean, low, high, runs."""
    import pandas as pd

    return pd.concat(
        pd.DataFrame(
            {
                "network": network,
                "algorithm": name,
                "time": result.dataset["time"].to_numpy(),
                **{key: part.to_numpy() for key, part in result.band()._asdict().items()},
                "runs": result.dataset.sizes["run"],
            }
        )
        for name, result in results.items()
    )


def right_networks() -> dict[str, fb.Network]:
    """Return the nine networks of the right panel, in the order of their published σ2."""
    radii = (0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9)
    named = {
        "complete": fb.networks.complete(AGENTS),
        "grid": fb.networks.grid(ROWS, COLS),
        **{f"RGG({d})": fb.networks.random_geometric(AGENTS, d, seed=0) for d in radii},
    }
    return {name: named[name] for name in PUBLISHED_RIGHT}


def play_right(draws: int, runs: int, seed: int) -> xr.DataArray:
    """Return the expected regret of FedExp3 at T, mean over agents: `[network, draw, run]`.

    All networks face the same losses with the same uniforms; draw d has the seed draws · seed + d.
    """
    import xarray as xr

    gossips = {
        name: fb.gossip.max_degree(network, lazy=False)
        for name, network in right_networks().items()
    }

    def one(cell: tuple[str, int]) -> xr.DataArray:
        name, draw = cell
        problem = fb.problems.activated_bernoulli(AGENTS, ARMS, HORIZON, seed=draw)
        algorithm = fb.FedExp3(LEARNING_RATE, EXPLORATION)
        result = fb.simulate(problem, algorithm, gossips[name], runs, seed=draw, progress=False)
        return result.dataset["expected_regret"].isel(time=-1, drop=True)

    seeds = range(draws * seed, draws * (seed + 1))
    cells = [(name, draw) for name in gossips for draw in seeds]
    played = iter(in_threads(one, cells, "figure 1, right"))
    by_network = [xr.concat([next(played) for _ in seeds], "draw") for _ in gossips]
    x = [gossip.gap ** (-1 / 3) for gossip in gossips.values()]
    return xr.concat(by_network, "network").assign_coords(
        network=list(gossips), draw=list(seeds), x=("network", x)
    )


class Line(NamedTuple):
    """The regression of regret on (1 - σ2)^(-1/3).

    Attributes:
        slope: of the line through the nine means.
        intercept: its value at 0.
        r2: R² of the nine means.
        r2_low: lower 95% limit of R², by bootstrap over draws of the losses.
        r2_high: upper limit.
        slope_low: lower 95% limit of the slope, from one line for each draw of the losses.
        slope_high: upper limit.
        level_sd: standard deviation, between draws of the losses, of the mean over all networks.
    """

    slope: float
    intercept: float
    r2: float
    r2_low: float
    r2_high: float
    slope_low: float
    slope_high: float
    level_sd: float


def fit_line(regret: xr.DataArray) -> Line:
    """Fit the line through the nine means; its interval comes from the lines of single draws."""
    from scipy.stats import linregress

    x = regret["x"].to_numpy()
    fit = linregress(x, regret.mean(["draw", "run"]).to_numpy())
    by_draw = regret.mean("run").transpose("network", "draw").to_numpy()
    slopes = [linregress(x, of_draw).slope for of_draw in by_draw.T]
    again = by_draw[:, resamples(by_draw.shape[1])].mean(axis=-1)  # [network, B]
    r2_low, r2_high = np.quantile(np.corrcoef(x, again.T)[0, 1:] ** 2, [0.025, 0.975])
    _, low, high = interval(slopes)
    level = regret.mean(["network", "run"]).std("draw", ddof=1)
    r2 = (fit.rvalue**2, float(r2_low), float(r2_high))
    return Line(fit.slope, fit.intercept, *r2, low, high, float(level))


def right_panel(regret: xr.DataArray) -> pd.DataFrame:
    """Return a row for each network: x, the mean with its band, and the paired difference."""
    import pandas as pd

    means = regret.mean("run")
    rows = []
    for name in regret["network"].to_numpy():
        mean, low, high = interval(means.sel(network=name))
        apart = interval(means.sel(network=name) - means.sel(network="complete"))
        x, runs = float(means.sel(network=name)["x"]), regret.sizes["draw"] * regret.sizes["run"]
        published = PUBLISHED_RIGHT[name]
        rows.append((name, "FedExp3", HORIZON, mean, low, high, runs, x, *apart, *published))
    columns = ["network", "algorithm", "time", "mean", "low", "high", "runs", "x"]
    columns += ["above_complete", "above_low", "above_high", "published_x", "published"]
    return pd.DataFrame(rows, columns=columns)


def left_table(results: Mapping[str, fb.Result]) -> Table:
    """Compare published with measured regret, and uniform play with its exact regret."""
    exact = results[UNIFORM].uniform_regret
    references = [(name, t, value, "figure 1") for (name, t), value in PUBLISHED_LEFT.items()]
    rows = []
    for name, t, value, source in [*references, (UNIFORM, HORIZON, exact, "exact")]:
        mean, low, high = measured_left(results, name, t)
        apart = f"{round(mean / value - 1, 3) + 0.0:+.1%}"
        rows.append(
            (name, f"{t:,}", f"{value:,.1f}", f"{mean:,.2f}", span(low, high), apart, source)
        )
    columns = ("algorithm", "t", "reference", "measured", "95% band", "apart", "source")
    note = "Bands cover the agents' own randomness: all runs face the same losses."
    if results[UNIFORM].sample[1] == 1:
        note = f"{ONE_RUN.capitalize()}."
    return Table("Left: regret on the grid", columns, rows, note)


def measured_left(results: Mapping[str, fb.Result], name: str, t: int) -> Interval:
    """Return regret at round t with its band over runs."""
    # Curves hold every sixth round; regret between two of them is interpolated.
    return interval(results[name].dataset["regret"].interp(time=t))


def right_table(panel: pd.DataFrame) -> Table:
    """Compare published with measured regret for each network."""

    def difference(row: Mapping[Any, Any]) -> str:
        if row["network"] == "complete":
            return "-"
        return f"{row['above_complete']:+.3f} ({span(row['above_low'], row['above_high'], 3)})"

    return Table.of(
        f"Right: regret at T = {HORIZON} by network",
        panel.to_dict("records"),
        [
            ("network", lambda row: row["network"]),
            ("x", lambda row: f"{row['x']:.2f}"),
            ("published", lambda row: f"{row['published']:.2f}"),
            ("measured", lambda row: f"{row['mean']:.2f}"),
            ("95% band", lambda row: span(row["low"], row["high"])),
            ("above complete (95%)", difference),
        ],
        "x = (1 - σ2)^(-1/3). Bands are over draws of the losses. The differences from the "
        "complete graph are paired: same losses, same uniforms.",
    )


def line_table(line: Line) -> Table:
    """Return the regression through the nine networks."""
    rows = [
        ("R²", f"{PUBLISHED_R2:.3f}", f"{line.r2:.3f}", span(line.r2_low, line.r2_high, 3)),
        ("slope", "-", f"{line.slope:.3f}", span(line.slope_low, line.slope_high, 3)),
        ("regret at x = 0", "-", f"{line.intercept:.2f}", "-"),
    ]
    note = "R²: bootstrap over draws of the losses. Slope: each draw has its own line."
    return Table("Right: the line", ("of the line", "published", "measured", "95%"), rows, note)


def findings(results: Mapping[str, fb.Result], panel: pd.DataFrame, line: Line) -> list[str]:
    """Return the findings in sentences made from the numbers."""
    ends = {name: measured_left(results, name, HORIZON).mean for name in ("FedExp3", "Exp3")}
    apart = {name: end / PUBLISHED_LEFT[name, 3000] - 1 for name, end in ends.items()}
    by_network = panel.set_index("network")
    lower = float((by_network["published"] - by_network["mean"]).mean())
    within = "within" if abs(lower) < 2 * line.level_sd else "not within"
    ordered = by_network["mean"].loc[["complete", "RGG(0.5)", "grid"]].is_monotonic_increasing
    share = (by_network["mean"].max() - by_network["mean"].min()) / by_network["mean"].mean()
    return [
        f"Left. FedExp3 ends at {ends['FedExp3']:.2f} ({apart['FedExp3']:+.1%} from the published "
        f"value) and Exp3, which does not communicate, at {ends['Exp3']:.2f} "
        f"({apart['Exp3']:+.1%}).",
        f"Right. Regret {'rises' if ordered else 'does not rise'} from the complete graph over "
        f"RGG(0.5) to the grid; R² over the nine networks is {line.r2:.3f} (95%: "
        f"{span(line.r2_low, line.r2_high, 3)}; published {PUBLISHED_R2:.3f}). The published "
        f"points lie {abs(lower):.2f} {'higher' if lower > 0 else 'lower'} on average. This is "
        f"{within} two standard deviations of the level between draws of the losses "
        f"({line.level_sd:.2f}). All networks lie within {share:.1%} of each other. So the line "
        "shows only with many draws of the losses, and with the same losses and the same uniforms "
        "on every network.",
    ]


LEFT = Picture(
    "figure1_left",
    "The average cumulative regret versus T for FedExp3 and Exp3 on the grid graph. Crosses are "
    "read off the published figure.",
    "Two regret curves over 3000 rounds: FedExp3 flattens near half the height of Exp3.",
)
RIGHT = Picture(
    "figure1_right",
    "The average cumulative regret versus (1 - σ2)^(-1/3) for FedExp3 on different networks at "
    "T = 3000, with the regression line. Bars are 95% intervals of the paired difference from the "
    "complete graph. Crosses are read off the published figure.",
    "Nine networks: regret rises slowly along a straight line with (1 - σ2)^(-1/3).",
)


def draw_left(results: Mapping[str, fb.Result]) -> Figure:
    """Draw the curves, with published values as crosses; uniform play leaves the axes."""
    from fedbandits.results.plots import figure_of, legend_below, plot_regret

    ax = plot_regret(results)
    rounds = [t for _, t in PUBLISHED_LEFT]
    values = list(PUBLISHED_LEFT.values())
    ax.plot(rounds, values, "kx", label="published", clip_on=False, zorder=3)
    ax.set_xlim(0, HORIZON)
    ax.set_ylim(0, 1.3 * max(values))
    ax.set_title(f"{ROWS} × {COLS} grid, {ARMS} arms", fontsize="medium")
    legend_below(ax)
    return figure_of(ax)


def draw_right(panel: pd.DataFrame, line: Line) -> Figure:
    """Draw the nine networks, their line, and the published points as crosses."""
    from fedbandits.results.plots import COLOURS, new_axes

    ax = new_axes()
    half = (panel["above_high"] - panel["above_low"]) / 2
    ax.errorbar(
        panel["x"], panel["mean"], half.fillna(0), fmt="o", color=COLOURS[0], label="FedExp3"
    )
    ends = np.array([panel["x"].min(), panel["x"].max()])
    ax.plot(ends, line.intercept + line.slope * ends, color=COLOURS[0], label=f"R² {line.r2:.3f}")
    ax.plot(panel["published_x"], panel["published"], "kx", label="published")
    for row in panel.to_dict("records"):  # four points are close together on the left
        above = (row["published_x"], row["published"])
        ax.annotate(
            row["network"],
            above,
            xytext=(0, 6),
            textcoords="offset points",
            fontsize="x-small",
            rotation=90,
            ha="center",
        )
    ax.margins(x=0.08, y=0.08)
    low, high = ax.get_ylim()
    ax.set_ylim(top=high + 0.3 * (high - low))  # room for the names
    y = f"cumulative regret at $T = {HORIZON}$,\nmean over agents"
    return finished(ax, r"$(1 - \sigma_2(W))^{-1/3}$", y)
