"""The commands `network` and `list`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from fedbandits import config
from fedbandits.common import checks
from fedbandits.config import catalogue

from . import messages, tables
from .messages import say, say_written, terminal


def network(
    spec: Annotated[str, typer.Argument(metavar="SPEC", help="NAME:VALUES or a .graphml file.")],
    picture: Annotated[
        Path | None, typer.Option(help="Draw the network into this file (.png, .pdf, .svg).")
    ] = None,
    horizon: Annotated[
        int, typer.Option(min=1, max=checks.ROUNDS, help="T, which C_W depends on.")
    ] = 3000,
    fastest: Annotated[
        bool, typer.Option("--fastest", help="Also the fastest gossip, which takes a solver.")
    ] = False,
) -> None:
    """Print a network's size, degrees, diameter and mixing speed.

    \b
    Examples:
      fedbandits network grid:6,6
      fedbandits network random_geometric:36,0.5,seed=0 --picture rgg.png
      fedbandits network friends.graphml --fastest
    """  # noqa: D301
    graph = config.parse_network(spec)
    with terminal(err=True).status("distances and eigenvalues (minutes for a million agents)"):
        shown: list[Any] = [tables.network_table(graph, spec)]
        if graph.connected:
            shown.append(tables.gossip_table(graph, horizon, fastest))
    for table in shown:
        terminal().print(table)
    if not graph.connected:
        say(
            "no gossip: information cannot reach everyone; add edges until it is connected",
            "yellow",
        )
    if picture is None:
        say("for a picture: --picture FILE.png")
    else:
        messages.save_plot(graph.draw(), picture)
        say_written([picture])


def list_() -> None:
    """List what configuration files can name, with all parameters.

    \b
    Example:
      fedbandits list
    """  # noqa: D301
    for section in catalogue.REGISTRIES:
        tables.print_catalogue(section, terminal())
    terminal().print(
        "What leaves an agent is a declaration, not a privacy guarantee: neighbours can "
        "reconstruct arms and losses from estimates.",
        style="yellow",
    )
