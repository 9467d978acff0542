"""The command line: its commands, and what all of them do with errors, warnings and signals."""

from __future__ import annotations

import errno
import logging
import os
import warnings
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from fedbandits.common import extras, interrupts
from fedbandits.common.version import __version__

from .doctor import doctor
from .live import live_app
from .messages import Lines, in_words, one_line, say, show_warning
from .network import list_, network
from .options import Command
from .reproduce import fetch_movielens, reproduce
from .results import bounds, plot, results
from .run import run
from .schema import schema
from .tune import tune


class Commands(TyperGroup):
    """A group that prints errors and warnings as one line each and stops cleanly on signals."""

    def invoke(self, ctx: Any) -> Any:
        """Run the command."""
        with warnings.catch_warnings(), interrupts.command():
            warnings.showwarning = show_warning
            try:
                done = super().invoke(ctx)
                interrupts.stop_if_requested()  # what was swallowed on the way
                return done
            except KeyboardInterrupt as stop:
                say(str(stop) or "stopped", "yellow", err=True)
                raise typer.Exit(interrupts.exit_status()) from stop
            except (ValueError, OSError) as error:
                if isinstance(error, OSError) and error.errno == errno.EPIPE:
                    raise  # the reader of a pipe went away, as in `fedbandits list | head`
                say(f"error: {in_words(error)}", "red", err=True)
                for note in getattr(error, "__notes__", ()):  # lines to copy
                    say(note, err=True)
                raise typer.Exit(2) from error
            except (MemoryError, RuntimeError) as error:
                if isinstance(error, RuntimeError) and "RESOURCE_EXHAUSTED" not in str(error):
                    raise  # not JAX's way to say the same
                say(f"error: out of memory: {one_line(error)}", "red", err=True)
                raise typer.Exit(2) from error
            except ImportError as error:
                if not interrupts.requested():
                    if (missing := extras.advice(error)) is None:
                        raise
                    say(f"error: {missing}", "red", err=True)
                    raise typer.Exit(2) from error
                # An import that was interrupted may fail with its own error.
                say(f"stopped ({one_line(error)})", "yellow", err=True)
                raise typer.Exit(interrupts.exit_status()) from error


app = typer.Typer(
    cls=Commands,
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,  # in markup, the [sections] of files would disappear
)

data_app = typer.Typer(no_args_is_help=True)
app.add_typer(data_app, name="data", help="Fetch the data that figure 2 can use.")
app.add_typer(live_app, name="live")


def _version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"fedbandits {__version__}")
        raise typer.Exit


@app.callback()
def main(
    version: Annotated[  # noqa: ARG001
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    """Federated adversarial bandits: simulate, look at networks, reproduce the paper."""
    logger = logging.getLogger("fedbandits")
    logger.setLevel(logging.INFO)
    logger.handlers = [Lines()]
    logging.getLogger("fedbandits.executors").setLevel(logging.WARNING)  # `doctor FILE` says it
    os.environ.setdefault("MPLBACKEND", "agg")  # figures go to files; no window is wanted


for _command in (run, results, tune, bounds, network, list_, schema, plot, reproduce, doctor):
    app.command(name=_command.__name__.strip("_"), cls=Command)(_command)
data_app.command("movielens")(fetch_movielens)
