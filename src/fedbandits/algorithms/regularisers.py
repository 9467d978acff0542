"""Follow the regularised leader on the simplex, for regularisers that are sums over arms."""

from __future__ import annotations

import math
from typing import Any

from fedbandits.arrays import Array, over_arms, repeated


def regularised_leader(
    losses: Array, *, tsallis: Array = 0.0, entropy: Array = 0.0, barrier: Array = 0.0
) -> Array:
    """Return the point of the simplex where a regularised loss is smallest.

    It minimises ⟨x, L⟩ - 2a Σ sqrt(x_k) + b Σ x_k ln x_k - c Σ ln x_k.

    With u = ln x and f(u) = -a e^(-u/2) + b u - c e^(-u), increasing and concave, the optimum has
    f(u_k) = λ - L_k for all arms and Σ e^(u_k) = 1. Both are solved together by a fixed number of
    steps of third order: Halley's method in u, and in λ Newton's method on (Σ e^(u_k))^(-p) = 1
    with the p that makes it locally linear (1 for the barrier, 1/2 for Tsallis, 0 for the
    entropy).

    Args:
        losses: L, `[K, *batch]`; only differences between arms matter.
        tsallis: a >= 0, of the 1/2-Tsallis entropy; a number or `[*batch]`.
        entropy: b >= 0, of the negative entropy; a number or `[*batch]`.
        barrier: c >= 0, of the logarithmic barrier; a number or `[*batch]`. One of the three is
            above 0.

    Returns:
        distributions, `[K, *batch]`.

    Example:
        >>> import numpy as np
        >>> regularised_leader(np.log([1.0, 2.0, 5.0]), entropy=1.0) * 17
        array([10.,  5.,  2.])
        >>> x = regularised_leader(np.array([0.0, 1.0]), tsallis=1.0)
        >>> bool(abs(x[1] ** -0.5 - x[0] ** -0.5 - 1) < 1e-12)
        True

    Reference:
        Zimmert and Seldin, Tsallis-INF, 2021; An optimal algorithm for adversarial bandits with
        arbitrary delays, 2020.
    """
    xp = losses.__array_namespace__()
    dtype, arms = losses.dtype, losses.shape[0]
    a, b, c = (xp.asarray(value, dtype=dtype) for value in (tsallis, entropy, barrier))
    # In units of a + b + c no square below overflows, whatever the units of the losses.
    unit = 1.0 / (a + b + c)
    a, b, c = a * unit, b * unit, c * unit
    gaps = xp.minimum((losses - over_arms("min", losses)) * unit, 1e15)
    # The best arm has 1/K <= x <= 1.
    left = -a * math.sqrt(arms) - b * math.log(arms) - c * arms
    right = -(a + c)
    # Below this x counts as 0, and e^(-u) is still finite.
    lowest = 0.9 * math.log(float(xp.finfo(dtype).tiny))

    def step(before: tuple[Array, Array]) -> tuple[Array, Array]:
        u, level = before
        root = xp.exp(-0.5 * u)
        square = root * root
        f = b * u - a * root - c * square
        slope = 1.0 / (0.5 * a * root + b + c * square)
        bend = (0.25 * a * root + c * square) * slope
        # x, x' and x'' as functions of λ at the u with f(u) = λ - L, near the current u.
        off = xp.clip((level - gaps - f) * slope, -0.5, 3.0)
        x = (1.0 + off * (1.0 + 0.5 * off)) / square
        growth = x * slope * (1.0 + bend * off)
        total = over_arms("sum", x)
        first = over_arms("sum", growth) / total
        second = over_arms("sum", growth * slope * (1.0 + bend)) / total
        power = xp.clip(second / (first * first) - 1.0, 1e-3, 1.0)
        level = xp.clip(level - xp.expm1(power * xp.log(total)) / (power * first), left, right)
        off = (level - gaps - f) * slope
        return xp.clip(u + off / (1.0 - 0.5 * off * bend), lowest, 0.0), level

    level = right + 0.0 * gaps[0]
    u = xp.clip(_below(gaps - level, a, b, c), lowest, 0.0)
    u, _ = repeated(step, (u, level), _steps(arms, dtype))
    x = xp.exp(u)
    return x * (1.0 / over_arms("sum", x))


def _steps(arms: int, dtype: Any) -> int:
    """Return the steps until only rounding error is left; λ may start ln K too high in ln Σ x."""
    return 3 + math.ceil(math.log(arms)) + (1 if dtype.itemsize > 4 else 0)


def _below(y: Array, a: Array, b: Array, c: Array) -> Array:
    """Return a u below that with f(u) = -y: each term of f is above f, so its own u is below."""
    xp = y.__array_namespace__()

    def alone(weight: Array, of: Array) -> Array:
        return xp.where(weight > 0, of, -xp.inf)

    def safe(weight: Array) -> Array:
        return xp.where(weight > 0, weight, 1.0)

    size = xp.log(xp.maximum(y, float(xp.finfo(y.dtype).tiny)))
    by_powers = xp.maximum(
        alone(a, 2.0 * (xp.log(safe(a)) - size)), alone(c, xp.log(safe(c)) - size)
    )
    return xp.maximum(by_powers, alone(b, -y / safe(b)))
