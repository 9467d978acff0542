"""A float32 number as a sum of numbers that tensor cores multiply, each with fewer digits.

float32 has 24 binary digits and float16 has 11. Two of them hold 23, since rounding to nearest
leaves a rest with a sign, which is worth one digit more. What is lost, a unit in the last place at
most, is less than what sums over many neighbours round. Three of bfloat16 hold all, but take
longer.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np

from fedbandits.arrays import Array

_LEAST = np.float32(2.0**-100)


def two_float16(x: Array) -> tuple[list[Array], Array]:
    """Parts a, b and s with x = s (a + b) to 2^-23 |x| + 2^-38 max |x|, along the last axis.

    float16 reaches from 2^-24 to 2^16 only, so that s, a power of two, brings the largest near
    2^14.

    Args:
        x: `[..., N]`.

    Returns:
        a and b; and s, `[..., 1]`.
    """
    largest = jnp.abs(x).max(axis=-1, keepdims=True)
    nearest = jax.lax.reduce_precision(largest, exponent_bits=8, mantissa_bits=0)
    scale = jnp.maximum(nearest, _LEAST) * np.float32(2.0**-14)
    scaled = x * (1 / scale)
    # A plain cast there and back is what XLA takes out.
    first = jax.lax.reduce_precision(scaled, exponent_bits=5, mantissa_bits=10)
    return [first.astype(jnp.float16), (scaled - first).astype(jnp.float16)], scale
