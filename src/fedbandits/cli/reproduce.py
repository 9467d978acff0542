"""The command that recomputes the paper, and the command that downloads its data."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from fedbandits import config
from fedbandits.common.files import data_folder

from . import messages, tables
from .messages import say, say_written, terminal
from .options import Force

if TYPE_CHECKING:
    from fedbandits.paper import Options, Section

Runs = Annotated[int | None, typer.Option(min=1, max=1_000_000, help="Runs of each curve.")]
Seed = Annotated[int, typer.Option(min=0, max=10_000_000, help="Seed of losses and agents.")]
PartsOut = Annotated[
    Path | None,
    typer.Option("--out", help="Folder for the files written; out, or out/quick if --quick."),
]
Quick = Annotated[bool, typer.Option("--quick", help="Few runs, to check that everything works.")]


def reproduce(
    what: Annotated[
        str | None,
        typer.Argument(metavar="PART", help="figure1, figure2 or theory; by default all three."),
    ] = None,
    runs: Runs = None,
    seed: Seed = 0,
    out: PartsOut = None,
    data: Annotated[
        str | None,
        typer.Option(
            help="For figure 2: embedded (default), generated at the paper's full size, or a "
            "MovieLens release (.zip or folder)."
        ),
    ] = None,
    quick: Quick = False,
    force: Force = False,
) -> None:
    """Recompute the paper's figures and compare them.

    Writes figures, tables and results, and a report of all parts in the folder. A part that was
    made with other options is replaced with --force only. Studies beyond the paper run from a
    source checkout: python -m studies.

    \b
    Examples:
      fedbandits reproduce
      fedbandits reproduce figure1 --runs 100
      fedbandits reproduce figure2 --data ml-latest.zip
    """  # noqa: D301
    from fedbandits.paper import REGISTRY, STUDIES, Options

    if what in STUDIES:
        raise ValueError(
            f"{what} is a study beyond the paper and no part of the package; run "
            f"`python -m studies {what}` in a source checkout"
        )
    options = Options(parts_folder(out, quick), runs, seed, data, quick)
    chosen = config.choose(REGISTRY, "theory" if what == "figure3" else what)
    options.check(chosen)  # before anything is played
    play_parts(chosen, options, force)


def parts_folder(out: Path | None, quick: bool) -> Path:
    """Return the folder of --out, or its default."""
    return out or (Path("out/quick") if quick else Path("out"))


def play_parts(
    parts: Mapping[str, Callable[[Options], Section]], options: Options, force: bool
) -> None:
    """Play parts one after the other, print their tables and write the report of the folder."""
    from fedbandits.paper import REGISTRY, STUDIES, run_part
    from fedbandits.paper.report import write_report

    if not force:
        options.refuse_other(parts)
    messages.make_folder(options.out)
    for name, part in parts.items():
        try:
            section = run_part(name, part, options)
        except KeyboardInterrupt as stop:
            raise KeyboardInterrupt(
                f"stopped in {name}{_next_time(name, options)}; parts done are kept in "
                f"{options.out}"
            ) from stop
        for table in section.tables:
            terminal().print(tables.section_table(table))
        for paragraph in section.paragraphs:
            terminal().print(paragraph, markup=False, highlight=False)
        say(f"{name}: {sum(section.seconds.values()):.0f} s, written to {options.out}/", "dim")
        report = write_report(options.out, [*REGISTRY, *STUDIES])
    say_written([report])


def _next_time(name: str, options: Options) -> str:
    """Return whether a stopped part continues or starts again, and the command to continue.

    The command names the part alone, because parts before it are done.
    """
    from fedbandits.paper.cells import cells_folder

    folder = cells_folder(options, name)
    if not (folder.is_dir() and any(folder.iterdir())):
        return ", which starts again next time"
    command = f"{options.command(name)} {shlex.join(['--out', str(options.out)])}"
    return f", whose finished cells are kept; to continue: {command}"


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
