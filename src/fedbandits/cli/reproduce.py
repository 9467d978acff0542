"""The commands that recompute the paper and fetch its data."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from fedbandits import config
from fedbandits.common.files import data_folder

from . import messages, tables
from .messages import say, say_written, terminal
from .options import Force

if TYPE_CHECKING:
    from fedbandits.experiments import Options


def reproduce(
    what: Annotated[
        str | None,
        typer.Argument(
            metavar="PART",
            help="figure1, figure2 or theory; default: these three. Beyond the paper, in minutes "
            "each: suite, with moving; leaderboard, horizons, linear, live, leaks, limits, "
            "robustness, cdn.",
        ),
    ] = None,
    runs: Annotated[
        int | None, typer.Option(min=1, max=1_000_000, help="Runs of each curve.")
    ] = None,
    seed: Annotated[int, typer.Option(min=0, max=10_000_000, help="Of losses and agents.")] = 0,
    out: Annotated[
        Path | None,
        typer.Option("--out", help="Folder for the files written; out, or out/quick if --quick."),
    ] = None,
    data: Annotated[
        str | None,
        typer.Option(
            help="For figure 2: embedded (default), generated at the paper's full size, or a "
            "MovieLens release (.zip or folder)."
        ),
    ] = None,
    quick: Annotated[
        bool, typer.Option("--quick", help="Few runs, to see that everything works.")
    ] = False,
    force: Force = False,
) -> None:
    """Recompute the paper's figures and compare them.

    Writes figures, tables and results, and a report of all parts found in the folder. A part that
    was done with other options is replaced with --force only.

    \b
    Examples:
      fedbandits reproduce
      fedbandits reproduce figure1 --runs 100
      fedbandits reproduce figure2 --data ml-latest.zip
    """  # noqa: D301
    from fedbandits.experiments import BEYOND, REGISTRY, WITH, Options, run_part
    from fedbandits.experiments.report import write_report

    out = out or (Path("out/quick") if quick else Path("out"))
    options = Options(out, runs, seed, data, quick)
    chosen = config.choose(REGISTRY, "theory" if what == "figure3" else what)
    if what is None:
        chosen = {name: part for name, part in chosen.items() if name not in BEYOND}
    else:
        chosen |= {name: REGISTRY[name] for name in WITH.get(what, ())}
    # What can be refused is refused before the runs rather than after them.
    options.check(chosen)
    if not force:
        options.refuse_other(chosen)
    messages.make_folder(out)
    for name, part in chosen.items():
        try:
            section = run_part(name, part, options)
        except KeyboardInterrupt as stop:
            raise KeyboardInterrupt(
                f"stopped in {name}{_next_time(name, options)}; parts done are kept in {out}"
            ) from stop
        for table in section.tables:
            terminal().print(tables.section_table(table))
        for paragraph in section.paragraphs:
            terminal().print(paragraph, markup=False, highlight=False)
        say(f"{name}: {sum(section.seconds.values()):.0f} s, written to {out}/", "dim")
        report = write_report(out, list(REGISTRY))
    say_written([report])


def _next_time(name: str, options: Options) -> str:
    """Return how a stopped part goes on: from its finished cells, or from the beginning.

    The command names the part alone: those that are done before it would be played again.
    """
    from fedbandits.experiments.kept_cells import cells_folder

    folder = cells_folder(options, name)
    if not (folder.is_dir() and any(folder.iterdir())):
        return ", which starts anew next time"
    command = f"{options.command(name)} {shlex.join(['--out', str(options.out)])}"
    return f", whose cells that are done are kept; to go on from there: {command}"


def fetch_movielens(
    release: Annotated[
        str, typer.Argument(help="ml-latest, ml-latest-small, ml-32m, ml-25m, ml-20m, ...")
    ] = "ml-latest",
    folder: Annotated[
        Path | None,
        typer.Option(help="Where the zip goes; your data folder, which fedbandits doctor names."),
    ] = None,
) -> None:
    """Download a MovieLens release, or resume its download.

    The releases are for research, not for revenue; each says so in its README.

    \b
    Examples:
      fedbandits data movielens ml-latest-small
      fedbandits data movielens ml-latest --folder data
      fedbandits reproduce figure2 --data data/ml-latest.zip
    """  # noqa: D301
    from fedbandits.data.download import download

    file = download(release, folder or data_folder())
    say(f"to use it: {shlex.join(['fedbandits', 'reproduce', 'figure2', '--data', str(file)])}")
