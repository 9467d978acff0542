"""One file per figure of the paper, reading like its caption, and what goes beyond the paper."""

from collections.abc import Callable

from . import figure1, figure2, horizons, leaderboard, linear, suite, theory
from .section import Options, Section, run_part

PAPER: dict[str, Callable[[Options], Section]] = {
    "figure1": figure1.reproduce,
    "figure2": figure2.reproduce,
    "theory": theory.reproduce,
}
"""What `fedbandits reproduce` does without a name."""

REGISTRY: dict[str, Callable[[Options], Section]] = PAPER | {
    "suite": suite.reproduce,
    "leaderboard": leaderboard.reproduce,
    "horizons": horizons.reproduce,
    "linear": linear.reproduce,
}
"""What it can do by name: beyond the paper each takes minutes."""

__all__ = [
    "PAPER",
    "REGISTRY",
    "Options",
    "Section",
    "figure1",
    "figure2",
    "horizons",
    "leaderboard",
    "linear",
    "run_part",
    "suite",
    "theory",
]
