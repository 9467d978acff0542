"""The commands that show results: cells of a sweep, figures and bounds."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from fedbandits import config
from fedbandits.common.files import atomic_write

from . import messages, tables
from .messages import say, say_written, terminal
from .options import Changes, Config, SequenceChanges, SequenceParts, sequence

if TYPE_CHECKING:
    from fedbandits.results.result import Result


def results(
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="What a sweep wrote.")],
    csv: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Write all cells into this file; - prints them instead."),
    ] = None,
    changes: SequenceChanges = None,
    parts: SequenceParts = None,
) -> None:
    """Print the finished, failed and missing cells of a sweep.

    The output also has the command that plays the missing cells.

    \b
    Examples:
      fedbandits results out/sweep
      fedbandits results out/sweep --csv cells.csv
      fedbandits results out/sweep --changes 3
      fedbandits results out/sweep --parts 4
    """  # noqa: D301
    from fedbandits.sweeps import listing, store

    against = sequence(changes, parts)
    manifest = store.read_manifest(folder)
    status = store.status(folder, manifest)
    if csv == Path("-"):
        typer.echo(listing.as_csv(folder, manifest, status, against), nl=False)
        return
    console = terminal()
    for table in tables.sweep_tables(folder, manifest, status, console.width, against):
        console.print(table)
    for path, fault in status.damaged:
        say(f"{path} {fault}; its cell counts as missing", "yellow")
    for line in tables.sweep_privacy(manifest):
        say(line)
    say(tables.sweep_line(folder, status))
    if status.others:
        more = "1 more result is" if status.others == 1 else f"{status.others} more results are"
        say(f"{more} of cells that are no longer in the sweep")
    if status.failed or status.missing:
        say(f"to play the rest: {store.shown_command(manifest, folder)}")
    if csv is not None:
        with atomic_write(csv) as file:
            file.write(listing.as_csv(folder, manifest, status, against).encode())
        say_written([csv])


def bounds(
    file: Config,
    changes: Changes = None,
) -> None:
    """Compare the regret of a configuration with the bounds.

    \b
    Examples:
      fedbandits bounds examples/grid.toml
      fedbandits bounds grid.toml --set problem.arms=2 --set problem.horizon=30000
    """  # noqa: D301
    experiment = config.load_config(file, changes or ())
    if experiment.simulation.gossip is None:
        raise config.ConfigError(f"{file}: bounds need a [network] and a [gossip]; add them")
    terminal().print(tables.bounds_table(experiment.simulate()))


def plot(
    files: Annotated[
        list[Path], typer.Argument(metavar="RESULT.nc|DIR", help="Saved results, and sweeps.")
    ],
    out: Annotated[
        Path | None,
        typer.Option(
            help="The figure to write (.pdf, .png, .svg; the network as .html, .gif or .mp4 too). "
            "By default KIND.pdf, or network.html, in the folder of the first argument."
        ),
    ] = None,
    label: Annotated[
        list[str] | None, typer.Option(help="Name of a curve: one per result, in their order.")
    ] = None,
    kind: Annotated[
        str,
        typer.Option(
            help="regret, pareto, disagreement, agents, arms or network. Those after pareto need "
            'record = "agents" in the configuration that was run.'
        ),
    ] = "regret",
    changes: SequenceChanges = None,
    parts: SequenceParts = None,
) -> None:
    """Draw the regret of several results, or another figure.

    Without labels, results of one algorithm are told apart by what differs in their configurations.
    The folder of a sweep stands for all its cells that are done, named by their values.

    \b
    Examples:
      fedbandits plot out/grid.nc out/ring.nc --label grid --label ring
      fedbandits plot out/sweep
      fedbandits plot out/sweep --changes 3
      fedbandits plot out/grid.nc --kind network --out grid.html
    """  # noqa: D301
    from fedbandits.results.pictures import WITHOUT_REGRET
    from fedbandits.results.plots import plot as drawn
    from fedbandits.sweeps.listing import curves
    from fedbandits.sweeps.load import load_against

    against = sequence(changes, parts)
    if against and kind in WITHOUT_REGRET:
        raise ValueError(f"a picture of kind {kind} has no regret; leave --{min(against)} out")
    shown = curves(files)
    results = [load_against(file, against) for file, _ in shown]
    folder = files[0] if files[0].is_dir() else files[0].parent
    target = out or folder / ("network.html" if kind == "network" else f"{kind}.pdf")
    ax = drawn(*results, kind=kind, label=label or _labels(shown, results), path=target)
    messages.close_plot(ax)
    say_written([target])


def _labels(shown: list[tuple[Path, str]], results: list[Result]) -> list[str]:
    """Name cells of a sweep by their values, and other results by their differences."""
    from fedbandits.results.comparison import named

    both = list(zip(shown, results, strict=True))
    others = [(file.stem, result) for (file, name), result in both if not name]
    if not others:
        return [name for _, name in shown]
    told = iter(named([result for _, result in others], None, [stem for stem, _ in others]))
    return [name or next(told) for _, name in shown]
