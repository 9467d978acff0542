"""Accelerated gossip: agreement in about 1/sqrt(1 - σ2) exchanges instead of 1/(1 - σ2).

One step is x^{b+1} = ω W x^b + (1 - ω) x^{b-1}, with x^{-1} = x^0. Each step extrapolates away from
the value of two exchanges ago. It sends the same messages as plain gossip and keeps the mean, since
ω + (1 - ω) = 1. A constant ω = 1 + κ is gossip with momentum κ. With Chebyshev's ω_1 = 1, ω_2, ...
the worst-case disagreement after a given number of steps is the smallest possible. W must be
symmetric.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from fedbandits.arrays import Array
from fedbandits.common.checks import within

if TYPE_CHECKING:
    from .base import Gossip

__all__ = ["steps"]
"""The public name, as `fb.accelerated.steps`. The others serve authors of algorithms."""


def __dir__() -> list[str]:
    return __all__


_ROUNDING = 1e-12


def theorem_momentum(sigma2: float) -> float:
    """Return κ = 1/(1 + sqrt(1 - σ2²)), of Qiu, Zhang and Cesa-Bianchi.

    For positive semi-definite W the disagreement after b steps is at most √14 ·
    (1 - (1 - 1/√2) sqrt(1 - σ2))^b times the initial one. With a dominant negative eigenvalue it
    can be several times as large.

    Example:
        >>> theorem_momentum(0.0), theorem_momentum(1.0)
        (0.5, 1.0)
    """
    return 1 / (1 + math.sqrt(1 - _sigma(sigma2) ** 2))


def best_momentum(sigma2: float) -> float:
    """Return κ* = (1 - s)/(1 + s), s = sqrt(1 - σ2²), whose rate sqrt(κ*) per step is the fastest.

    Example:
        >>> best_momentum(0.0), best_momentum(0.6)
        (0.0, 0.111...)
    """
    s = math.sqrt(1 - _sigma(sigma2) ** 2)
    return (1 - s) / (1 + s)


def next_weight(weight: Array, sigma2: Array) -> Array:
    """Return Chebyshev's ω_{b+1} = 1/(1 - σ2² ω_b / 4); ω_2 = 2/(2 - σ2²) follows from ω_1 := 2."""
    return 1.0 / (1.0 - sigma2**2 * weight / 4.0)


def chebyshev_steps(sigma2: float, tolerance: float) -> int:
    """Return the fewest steps with 1/T_steps(1/σ2) <= tolerance, T the Chebyshev polynomial.

    The left side is the largest factor by which the disagreement, in the Euclidean norm over
    agents, shrinks. The number is arcosh(1/tolerance)/arcosh(1/σ2), rounded up. It is 1 if agents
    agree after one step (σ2 = 0), or never (σ2 = 1).

    Args:
        sigma2: σ2 of a symmetric W, from 0 to 1.
        tolerance: above 0, below 1.

    Example:
        >>> chebyshev_steps(0.9732, 0.1), chebyshev_steps(0.0, 0.1), chebyshev_steps(1.0, 0.1)
        (13, 1, 1)
    """
    sigma2, tolerance = _sigma(sigma2), _tolerance(tolerance)
    if sigma2 == 0 or sigma2 >= 1 - _ROUNDING:
        return 1
    return max(1, math.ceil(math.acosh(1 / tolerance) / math.acosh(1 / sigma2) - _ROUNDING))


def plain_steps(sigma2: float, tolerance: float) -> int:
    """Return the fewest steps of plain gossip with σ2^steps <= tolerance; see `chebyshev_steps`.

    Example:
        >>> plain_steps(0.9732, 0.1)
        85
    """
    sigma2, tolerance = _sigma(sigma2), _tolerance(tolerance)
    if sigma2 == 0 or sigma2 >= 1 - _ROUNDING:
        return 1
    return max(1, math.ceil(math.log(tolerance) / math.log(sigma2) - _ROUNDING))


def theorem_steps(sigma2: float, *, arms: int, agents: int, horizon: int) -> float:
    """Return B = ⌈ln((KT)⁶ sqrt(14 N)) / ((1 - 1/√2) sqrt(1 - σ2))⌉ of Qiu, Zhang, Cesa-Bianchi.

    After B steps the remaining disagreement, (KT)^(-6), is negligible. B is infinite if σ2 = 1.

    Example:
        >>> theorem_steps(0.9732, arms=20, agents=36, horizon=3000)
        1442
    """
    gap = 1 - _sigma(sigma2)
    if gap <= 0:
        return math.inf
    accuracy = 6 * math.log(arms * horizon) + math.log(14 * agents) / 2
    return math.ceil(accuracy / ((1 - 1 / math.sqrt(2)) * math.sqrt(gap)))


def accelerable(gossip: Gossip) -> bool:
    """Return whether acceleration helps: W is symmetric, constant, and has a spectral gap."""
    same = not gossip.random and gossip.faults is None
    return same and gossip.gap > 0 and _symmetric(gossip)


def usable_sigma(gossip: Gossip | None) -> float:
    """Return σ2 if W can be accelerated, else 0, which makes every weight 1."""
    return gossip.sigma2 if gossip is not None and accelerable(gossip) else 0.0


def steps(gossip: Gossip | None, tolerance: float) -> int:
    """Return the fewest steps that leave at most the share `tolerance` of the disagreement.

    Gossip has Chebyshev's weights if W can be accelerated, else it is plain. If W is drawn again in
    every round, the share is in the mean square.

    Example:
        >>> from fedbandits import gossip, networks
        >>> grid = networks.grid(6, 6)
        >>> steps(gossip.max_degree(grid), 0.1), steps(gossip.max_degree(grid), 0.01)
        (13, 23)
    """
    if gossip is None:
        return 1
    if accelerable(gossip):
        return chebyshev_steps(gossip.sigma2, tolerance)
    return plain_steps(gossip.sigma2, tolerance)


def positive_semidefinite(gossip: Gossip) -> bool:
    """Return whether W is symmetric without negative eigenvalues, as the paper assumes."""
    from fedbandits.networks.searches import laplacian_of
    from fedbandits.networks.spectra import rough_modes

    if not _symmetric(gossip):
        return False
    if gossip.network.agents == 1 or 2 * gossip.matrix.diagonal().min() >= 1:  # Gershgorin
        return True
    return float(rough_modes(laplacian_of(gossip.matrix))[0][0]) <= 1 + _ROUNDING


def _symmetric(gossip: Gossip) -> bool:
    if isinstance(gossip.weights, float) or gossip.weights.ndim == 1:
        return True
    return bool(abs(gossip.matrix - gossip.matrix.T).max() <= _ROUNDING)


def _sigma(sigma2: float) -> float:
    return within(sigma2, "sigma2", "[0, 1]")


def _tolerance(tolerance: float) -> float:
    return within(tolerance, "tolerance", "(0, 1)")
