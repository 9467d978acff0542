"""One file per figure of the paper, each reading like the figure's caption."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from . import figure1

if TYPE_CHECKING:
    import pandas as pd

REGISTRY: dict[str, Callable[[int, int, Path], pd.DataFrame]] = {"figure1": figure1.left}
"""What `fedbandits reproduce` can do: (runs, seed, out) -> published against measured."""

__all__ = ["REGISTRY", "figure1"]
