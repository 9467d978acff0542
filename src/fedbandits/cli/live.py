"""`fedbandits live`: agents that live apart, looked at."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Annotated

import typer

from . import tables
from .messages import say, terminal

live_app = typer.Typer(no_args_is_help=True)


@live_app.callback()
def live() -> None:
    """Look at agents that live apart."""


@live_app.command()
def show(
    journal: Annotated[Path, typer.Argument(metavar="JOURNAL.db", help="What an agent keeps.")],
    json: Annotated[bool, typer.Option("--json", help="For machines, with all tickets.")] = False,
) -> None:
    """What the journal of a live agent holds, also while the agent runs.

    Counts, open tickets, the values of the leaves by arm, and the ledger: for each neighbour the
    incarnations of both ends, the number of the last flow and how large it is.

    \b
    Examples:
      fedbandits live show shop3.db
      fedbandits live show shop3.db --json
    """  # noqa: D301
    import msgspec

    from fedbandits.live.journal import read_journal
    from fedbandits.live.journal.summary import summary

    found = summary(read_journal(journal), time.time())
    if json:
        typer.echo(msgspec.json.encode(found).decode())
        return
    for line in tables.journal_lines(found):
        say(line)
    console = terminal()
    for table in tables.journal_tables(found):
        console.print(table)
