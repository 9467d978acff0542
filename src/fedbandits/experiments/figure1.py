"""Figure 1 of the paper.

(Left) The average cumulative regret versus T for FedExp3 and Exp3 on the grid graph: 36 agents on
a 6 × 6 grid, 20 arms, 3000 rounds, 10 runs, with the constants of the authors' code: learning rate
0.1, exploration 0.01 · t^(-1/3), W = I - (D - A)/(1 + d_max).
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import fedbandits as fb
from fedbandits.files import atomic_path

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.figure import Figure

ROWS, COLS = 6, 6
ARMS = 20
HORIZON = 3000
LEARNING_RATE = 0.1
EXPLORATION = fb.schedules.power(0.01, 1 / 3)

PUBLISHED = {
    ("FedExp3", 500): 29.5,
    ("FedExp3", HORIZON): 33.6,
    ("Exp3", 500): 50.0,
    ("Exp3", HORIZON): 68.5,
}
"""Regret by algorithm and round, read off the published figure."""

UNIFORM = "uniform play"


def left(runs: int = 10, seed: int = 0, out: Path = Path("out")) -> pd.DataFrame:
    """Play, draw and write the left panel.

    Args:
        runs: R.
        seed: of the losses and of the agents' randomness.
        out: the folder for `figure1_left.png`, `.pdf`, `figure1.csv` and a `.nc` per algorithm.

    Returns:
        published against measured, as `against_paper` gives it.
    """
    import matplotlib.pyplot as plt

    from fedbandits.plots import save_figure

    out.mkdir(parents=True, exist_ok=True)  # refused before the runs rather than after them
    results = play_left(runs, seed)
    for name, result in results.items():
        result.save(out / f"figure1_left_{name.lower().replace(' ', '_')}.nc")
    with atomic_path(out / "figure1.csv") as file:
        curves(results).to_csv(file, index=False)
    figure = draw_left(results)
    save_figure(figure, out / "figure1_left.png", out / "figure1_left.pdf")
    plt.close(figure)
    return against_paper(results)


def play_left(runs: int = 10, seed: int = 0) -> dict[str, fb.Result]:
    """FedExp3, Exp3 and uniform play on the grid, facing the same losses with the same luck."""
    gossip = fb.gossip.max_degree(fb.networks.grid(ROWS, COLS), lazy=False)
    problem = fb.problems.activated_bernoulli(
        agents=ROWS * COLS, arms=ARMS, horizon=HORIZON, seed=seed
    )
    players: dict[str, fb.algorithms.AnyAlgorithm] = {
        "FedExp3": fb.FedExp3(LEARNING_RATE, EXPLORATION),
        "Exp3": fb.Exp3(LEARNING_RATE, EXPLORATION),
        UNIFORM: fb.Uniform(),
    }
    return {
        name: fb.simulate(problem, algorithm, gossip, runs, seed)
        for name, algorithm in players.items()
    }


def curves(results: Mapping[str, fb.Result], network: str = "grid") -> pd.DataFrame:
    """The curves as a tidy table: network, algorithm, time, mean, low, high, runs."""
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


def against_paper(results: Mapping[str, fb.Result]) -> pd.DataFrame:
    """Published against measured: algorithm, time, reference, measured, low, high, source.

    The reference is read off the published figure; for uniform play, which the figure does not
    show, it is the exact expected regret.
    """
    import pandas as pd

    arm_loss = results[UNIFORM].dataset["arm_loss"].isel(time=-1)
    exact = float(arm_loss.mean() - arm_loss.min())
    expected = [(name, t, value, "figure 1") for (name, t), value in PUBLISHED.items()]
    rows = []
    for name, t, value, source in [*expected, (UNIFORM, HORIZON, exact, "exact")]:
        # Curves are kept at every sixth round; between two of them a straight line does.
        measured = fb.results.band(results[name].dataset["regret"].interp(time=t))
        rows.append((name, t, value, *map(float, measured), source))
    columns = ["algorithm", "time", "reference", "measured", "low", "high", "source"]
    return pd.DataFrame(rows, columns=columns)


def draw_left(results: Mapping[str, fb.Result]) -> Figure:
    """The curves, the published values as crosses, and uniform play leaving through the top."""
    from fedbandits.plots import plot_regret

    ax = plot_regret(results)
    legend = ax.get_legend()
    bands = legend.get_title().get_text() if legend else None
    rounds = [t for _, t in PUBLISHED]
    ax.plot(rounds, list(PUBLISHED.values()), "kx", label="published", clip_on=False, zorder=3)
    ax.set_xlim(0, HORIZON)
    ax.set_ylim(0, 1.3 * max(PUBLISHED.values()))
    ax.set_title(f"{ROWS} × {COLS} grid, {ARMS} arms", fontsize="medium")
    ax.legend(title=bands, title_fontsize="small", frameon=False, ncols=2)
    figure = ax.get_figure(root=True)
    assert figure is not None
    return figure
