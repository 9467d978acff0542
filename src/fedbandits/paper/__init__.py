"""The paper's figures and theorems, one part per file: `fedbandits reproduce`."""

from collections.abc import Callable

from . import figure1, figure2, theory
from .section import Options, Section, run_part

REGISTRY: dict[str, Callable[[Options], Section]] = {
    "figure1": figure1.reproduce,
    "figure2": figure2.reproduce,
    "theory": theory.reproduce,
}
"""The parts of `fedbandits reproduce`, by name."""

STUDIES = (
    *("suite", "moving", "leaderboard", "horizons", "linear"),
    *("live", "leaks", "limits", "robustness", "cdn"),
)
"""Names of the studies beyond the paper. They run from a source checkout: `python -m studies`."""

__all__ = ["REGISTRY", "STUDIES", "Options", "Section", "figure1", "figure2", "run_part", "theory"]
