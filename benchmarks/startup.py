"""What a user waits for before anything happens: the import and the command's help."""

from __future__ import annotations

from importlib.util import find_spec

from benchmarks.processes import python
from benchmarks.rows import Measure, Measured, NotInstalled

GOAL_IMPORT = 0.3
GOAL_HELP = 0.5


def measures(quick: bool) -> list[Measure]:
    """Whole processes, the start of the interpreter included."""
    n = 2 if quick else 7
    return [
        Measure("import fedbandits", "s", lambda: _import(n)),
        Measure("fedbandits --help", "s", lambda: _help(n)),
    ]


def _import(n: int) -> Measured:
    taken = _processes(n, "-c", "import fedbandits")
    numpy = min(_processes(n, "-c", "import numpy"))
    note = "whole process; floor: one that imports NumPy"
    return Measured(min(taken), taken, GOAL_IMPORT, None, numpy, note)


def _help(n: int) -> Measured:
    if find_spec("typer") is None:
        raise NotInstalled("typer, on which the command line rests")
    taken = _processes(n, "-m", "fedbandits", "--help")
    bare = min(_processes(n, "-c", "pass"))
    note = "whole process; floor: one that does nothing"
    return Measured(min(taken), taken, GOAL_HELP, None, bare, note)


def _processes(n: int, *arguments: str) -> tuple[float, ...]:
    python(*arguments)  # reads the files once, so that the disk is not measured
    return tuple(python(*arguments).seconds for _ in range(n))
