"""Spectral gaps of doubly stochastic matrices."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from fedbandits.networks.searches import count_components, laplacian_of
from fedbandits.networks.spectra import smooth_modes

if TYPE_CHECKING:
    from fedbandits.networks.searches import Sparse


def connectivity(W: Sparse) -> float:
    """1 - λ_2 of a symmetric doubly stochastic matrix; exactly 0 on a disconnected graph."""
    return float(smooth_modes(laplacian_of(W))[0][0]) if count_components(W) == 1 else 0.0


def gap_of_square(squared: float) -> float:
    """1 - σ2, from 1 - σ2²; without the cancellation of 1 - sqrt(σ2²).

    Example:
        >>> gap_of_square(0.75), gap_of_square(1.0)
        (0.5, 1.0)
    """
    squared = min(squared, 1.0)
    return squared / (1 + math.sqrt(1 - squared))
