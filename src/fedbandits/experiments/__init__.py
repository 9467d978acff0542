"""One file per figure of the paper, each reading like the figure's caption."""

from collections.abc import Callable

from . import figure1, figure2, linear, theory
from .section import Options, Section, run_part

REGISTRY: dict[str, Callable[[Options], Section]] = {
    "figure1": figure1.reproduce,
    "figure2": figure2.reproduce,
    "theory": theory.reproduce,
    "linear": linear.reproduce,
}
"""What `fedbandits reproduce` can do."""

__all__ = ["REGISTRY", "Options", "Section", "figure1", "figure2", "linear", "run_part", "theory"]
