"""Pictures of results beside their regret, one kind a file."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from fedbandits.common import checks
from fedbandits.common.figures import save_figure
from fedbandits.results.plots import figure_of

from .agents import plot_agents
from .arms import plot_arms
from .disagreement import plot_disagreement
from .network import plot_network, save_network
from .pareto import plot_pareto

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from fedbandits.results.result import Result

KINDS: dict[str, Callable[[Mapping[str, Result], Axes | None], Axes]] = {
    "network": plot_network,
    "arms": plot_arms,
    "disagreement": plot_disagreement,
    "agents": plot_agents,
    "pareto": plot_pareto,
}

WITHOUT_REGRET = ("network", "arms", "disagreement")
"""Kinds that show what agents play: to them it is all the same what regret is against."""


def picture(
    kind: str, results: Mapping[str, Result], ax: Axes | None, path: str | Path | None
) -> Axes:
    """A picture of a kind, written where a path is given; see `fb.plot`."""
    if kind not in KINDS:
        names = ["regret", *KINDS]
        raise ValueError(
            f"unknown kind {kind!r}{checks.did_you_mean(kind, names)} There are {', '.join(names)}"
        )
    ax = KINDS[kind](results, ax)
    if path is not None:
        if kind == "network":
            save_network(results, ax, Path(path))
        else:
            save_figure(figure_of(ax), path)
    return ax
