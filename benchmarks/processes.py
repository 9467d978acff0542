"""Fresh processes of this Python, for what only a start can show: compile times, imports, peaks."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from time import perf_counter
from typing import NamedTuple

import fedbandits
from benchmarks import ROOT

# The same library as in this process, wherever it was found.
_LIBRARY = str(Path(fedbandits.__file__).resolve().parents[1])
_LIMIT = 240


class Ended(NamedTuple):
    """A process that ended well.

    Attributes:
        seconds: from before its start until after its end.
        output: what it printed.
    """

    seconds: float
    output: str


def environment(settings: Mapping[str, str] | None = None) -> dict[str, str]:
    """As here, with the same library."""
    paths = [str(ROOT), _LIBRARY, os.environ.get("PYTHONPATH", "")]
    return {
        **os.environ,
        "PYTHONPATH": os.pathsep.join(path for path in paths if path),
        **(settings or {}),
    }


def python(*arguments: str, settings: Mapping[str, str] | None = None) -> Ended:
    """Run this Python with `arguments`; raises with the last line it wrote if it fails."""
    began = perf_counter()
    done = subprocess.run(
        [sys.executable, *arguments],
        env=environment(settings),
        capture_output=True,
        text=True,
        timeout=_LIMIT,
    )
    seconds = perf_counter() - began
    if done.returncode:
        last = (done.stderr.strip().splitlines() or ["no message"])[-1]
        raise RuntimeError(f"a process ended with {done.returncode}: {last}")
    return Ended(seconds, done.stdout)
