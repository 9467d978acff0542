"""One file per figure of the paper, each reading like the figure's caption; and what goes on."""

from collections.abc import Callable

from . import figure1, figure2, horizons, theory
from .section import Options, Section, run_part

REGISTRY: dict[str, Callable[[Options], Section]] = {
    "figure1": figure1.reproduce,
    "figure2": figure2.reproduce,
    "theory": theory.reproduce,
    "horizons": horizons.reproduce,
}
"""What `fedbandits reproduce` can do."""

BY_NAME = frozenset({"horizons"})
"""Parts beyond the paper, which take minutes: done only when asked for by name."""

__all__ = [
    "BY_NAME",
    "REGISTRY",
    "Options",
    "Section",
    "figure1",
    "figure2",
    "horizons",
    "run_part",
    "theory",
]
