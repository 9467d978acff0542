"""Noise of the Laplace distribution, as a simulator draws it."""

from __future__ import annotations

import math

from fedbandits.arrays import Array
from fedbandits.common import checks


def laplace(uniforms: Array) -> Array:
    """Laplace(1), of density exp(-|x|)/2, by its inverse distribution function: finite always.

    ln(2u) below the median, -ln(2(1 - u)) above it. The simulator's uniforms are the middles of
    2^23 equal intervals in float32 (2^32 in float64), so no |x| is above 23 ln 2, about 16 (or
    32 ln 2, about 22): what lies beyond has probability 2^-23 (2^-32) in all and is never drawn.

    The noise is therefore a simulation. A mechanism that adds real numbers of this distribution has
    the ε that is claimed; sums of floating-point numbers on a grid do not, since their last digits
    can tell what was added to (Mironov, On significance of the least significant bits for
    differential privacy, CCS 2012).

    Args:
        uniforms: in (0, 1), `[...]`.

    Returns:
        as many numbers, `[...]`.

    Example:
        >>> import numpy as np
        >>> laplace(np.array([0.125, 0.5, 0.875])).round(3) + 0.0
        array([-1.386,  0.   ,  1.386])
    """
    xp = uniforms.__array_namespace__()
    tail = xp.log(2.0 * xp.minimum(uniforms, 1.0 - uniforms))
    return xp.where(uniforms < 0.5, tail, -tail)


def checked_epsilon(epsilon: float) -> float:
    """ε as a number above 0.

    Example:
        >>> checked_epsilon(0)
        Traceback (most recent call last):
            ...
        ValueError: epsilon must be a finite number above 0, not 0
    """
    found = checks.number(epsilon, "epsilon")
    if not (math.isfinite(found) and found > 0):
        raise ValueError(f"epsilon must be a finite number above 0, not {epsilon}")
    return found
