"""The command `python -m studies`: run studies and write their report."""

from __future__ import annotations

import sys
from collections.abc import Callable

import typer

from fedbandits.cli.commands import Commands
from fedbandits.cli.commands import main as set_up
from fedbandits.cli.options import Force
from fedbandits.cli.reproduce import PartsOut, Quick, Runs, Seed, parts_folder, play_parts

from . import REGISTRY, WITH, Options

app = typer.Typer(
    cls=Commands,
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)


@app.callback()
def main() -> None:
    """Run a study beyond the paper: figures, tables and a report of all parts in the folder.

    A study that was made with other options is replaced with --force only. make studies runs those
    that fill the pages of the docs.
    """
    set_up()


def _command(name: str) -> Callable[..., None]:
    def run(
        runs: Runs = None,
        seed: Seed = 0,
        out: PartsOut = None,
        quick: Quick = False,
        force: Force = False,
    ) -> None:
        options = Options(parts_folder(out, quick), runs, seed, quick=quick)
        chosen = {each: REGISTRY[each] for each in (name, *WITH.get(name, ()))}
        play_parts(chosen, options, force)

    return run


for _name, _study in REGISTRY.items():
    _about = (sys.modules[_study.__module__].__doc__ or "").partition("\n")[0]
    app.command(_name, help=_about)(_command(_name))

if __name__ == "__main__":
    app(prog_name="python -m studies")
