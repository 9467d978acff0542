"""Studies beyond the paper, one per file: `python -m studies` in a source checkout.

They use the public functions of `fedbandits` and the sections of `fedbandits.paper`. Each study is
a function from options to a section. Its sizes are `FULL`, or `QUICK` with `--quick`.
"""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

from fedbandits import paper
from fedbandits.paper.section import Section

from . import (
    cdn,
    horizons,
    leaderboard,
    leaks,
    limits,
    linear,
    live,
    robustness,
    suite,
)
from .moving import trackers


@dataclass(frozen=True)
class Options(paper.Options):
    """The options of `python -m studies`."""

    program: ClassVar[tuple[str, ...]] = ("python", "-m", "studies")
    sources: ClassVar[tuple[Path, ...]] = (*paper.Options.sources, Path(__file__).parent)


REGISTRY: dict[str, Callable[[paper.Options], Section]] = {
    "suite": suite.reproduce,
    "moving": trackers.reproduce,
    "leaderboard": leaderboard.reproduce,
    "horizons": horizons.reproduce,
    "linear": linear.reproduce,
    "live": live.reproduce,
    "leaks": leaks.reproduce,
    "limits": limits.reproduce,
    "robustness": robustness.reproduce,
    "cdn": cdn.reproduce,
}
"""The studies by name."""

WITH = {"suite": ("moving",)}
"""Studies that run after another one, and alone by their own name."""
