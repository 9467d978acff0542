"""One file per figure of the paper, reading like its caption, and what goes beyond the paper."""

from collections.abc import Callable

from . import (
    cdn,
    figure1,
    figure2,
    horizons,
    leaderboard,
    leaks,
    limits,
    linear,
    live,
    moving,
    robustness,
    suite,
    theory,
)
from .section import Options, Section, run_part

REGISTRY: dict[str, Callable[[Options], Section]] = {
    "figure1": figure1.reproduce,
    "figure2": figure2.reproduce,
    "theory": theory.reproduce,
    "suite": suite.reproduce,
    "moving": moving.reproduce,
    "leaderboard": leaderboard.reproduce,
    "horizons": horizons.reproduce,
    "linear": linear.reproduce,
    "live": live.reproduce,
    "leaks": leaks.reproduce,
    "limits": limits.reproduce,
    "robustness": robustness.reproduce,
    "cdn": cdn.reproduce,
}
"""What `fedbandits reproduce` can do."""

WITH = {"suite": ("moving",)}
"""Parts that are done with another, and alone by their own name."""

BEYOND = (
    *("suite", "moving", "leaderboard", "horizons", "linear"),
    *("live", "leaks", "limits", "robustness", "cdn"),
)
"""Parts beyond the paper, which take minutes each: done only when asked for by name."""

__all__ = [
    "BEYOND",
    "REGISTRY",
    "WITH",
    "Options",
    "Section",
    "cdn",
    "figure1",
    "figure2",
    "horizons",
    "leaderboard",
    "leaks",
    "limits",
    "linear",
    "live",
    "moving",
    "robustness",
    "run_part",
    "suite",
    "theory",
]
