"""Pictures of results other than their regret."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from fedbandits.common import checks
from fedbandits.common.files import save_figure
from fedbandits.results.plots import figure_of

from .agents import plot_agents, plot_arms, plot_disagreement
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
"""Kinds that show what agents play, and so do not depend on what regret is against."""


def picture(
    kind: str, results: Mapping[str, Result], ax: Axes | None, path: str | Path | None
) -> Axes:
    """Draw a picture, and write it if a path is given; see `fb.plot`."""
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
