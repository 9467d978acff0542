"""What a user waits for before anything happens: the import, the command's help, a first result."""

from __future__ import annotations

import tempfile
from importlib.util import find_spec
from time import time
from typing import NamedTuple

import jax

from benchmarks.processes import python
from benchmarks.rows import Measure, Measured, NotInstalled

GOAL_IMPORT = 0.3
GOAL_HELP = 0.5
GOAL_FIRST = 2.5
GOAL_SECOND = 1.5

_README = """
from time import time

import fedbandits as fb

imported = time()
problem = fb.problems.activated_bernoulli(agents=36, arms=20, horizon=3000, seed=0)
gossip = fb.gossip.max_degree(fb.networks.grid(6, 6))
together = fb.simulate(problem, fb.FedExp3(), gossip)
print(together)
printed = time()
fb.simulate(problem, fb.FedExp3(), gossip)
print(imported, printed, time() - printed)
"""
"""The first lines of the README's example; and once more, for what it takes when compiled."""


def measures(quick: bool) -> list[Measure]:
    """Whole processes, the start of the interpreter included."""
    n = 2 if quick else 7
    return [
        Measure("import fedbandits", "s", lambda: _import(n)),
        Measure("fedbandits --help", "s", lambda: _help(n)),
        Measure("README example/first result", "s", lambda: _first_result(1 if quick else 5)),
        Measure("README example/second process", "s", lambda: _second_process(1 if quick else 5)),
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


class _Waited(NamedTuple):
    """Seconds of a process until its first result was printed.

    Attributes:
        total: from before its start.
        imported: of them, until the library was there.
        played: of them, playing and making the result: what a second simulation took.
    """

    total: float
    imported: float
    played: float


def _first_result(n: int) -> Measured:
    _waited_for_new_folder()  # reads the files once
    return _row([_waited_for_new_folder() for _ in range(n)], GOAL_FIRST, "nothing compiled before")


def _second_process(n: int) -> Measured:
    with tempfile.TemporaryDirectory() as folder:
        _waited(folder)
        waited = [_waited(folder) for _ in range(n)]
    return _row(waited, GOAL_SECOND, "compiled programs kept by a process before")


def _row(waited: list[_Waited], goal: float, known: str) -> Measured:
    best = min(waited)
    first = best.total - best.imported - best.played
    note = (
        f"from the start of the process until the result is printed, {known}: "
        f"{best.imported:.2f} s import, {first:.2f} s until compiled (with JAX, which is "
        f"loaded then), {best.played:.2f} s play"
    )
    goal_here = goal if jax.default_backend() == "cpu" else None
    return Measured(best.total, tuple(each.total for each in waited), goal_here, note=note)


def _waited_for_new_folder() -> _Waited:
    with tempfile.TemporaryDirectory() as folder:
        return _waited(folder)


def _waited(folder: str) -> _Waited:
    """The README's example in a process that keeps compiled programs in this folder."""
    settings = {
        "JAX_COMPILATION_CACHE_DIR": folder,
        "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": "0.1",  # as the library has it
    }
    began = time()
    output = python("-c", _README, settings=settings).output
    imported, printed, played = (float(word) for word in output.splitlines()[-1].split())
    return _Waited(printed - began, imported - began, played)
