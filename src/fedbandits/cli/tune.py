"""`fedbandits tune`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from . import messages, tables
from .messages import say_written, terminal
from .options import Changes, Config, Force, Out


def tune(
    file: Config,
    changes: Changes = None,
    budget: Annotated[int, typer.Option(min=2, help="The most candidates.")] = 25,
    runs: Annotated[int | None, typer.Option(min=1, help="Of each candidate and draw.")] = None,
    ranges: Annotated[
        list[str] | None,
        typer.Option("--range", metavar="KNOB=LOW:HIGH", help="Where to look; may be repeated."),
    ] = None,
    out: Out = Path("out"),
    force: Force = False,
) -> None:
    """Tune parameters on some seeds and report on fresh seeds.

    What the algorithm has of learning_rate, exploration, block, share,
    entropy_scale, tsallis_scale; memory only where the file sets one or
    --range names it.

    Writes a configuration with the setting that wins (.tuned.toml), tables (.csv), a result (.nc).

    \b
    Examples:
      fedbandits tune examples/grid.toml
      fedbandits tune grid.toml --budget 50 --range learning_rate=0.1:30
      fedbandits tune grid.toml --budget 75 --range memory=30:3000
    """  # noqa: D301
    from fedbandits.tuning.files import request

    asked = request(file, changes or (), out=out, ranges=ranges or (), force=force)
    messages.make_folder(out)
    found = asked.tune(budget, runs)
    tables.print_tuning(found, terminal())
    say_written(list(found.files))
