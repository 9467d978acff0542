"""Numbers of fewer digits add up to the float32 number that they are parts of."""

from __future__ import annotations

import jax
import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from fedbandits.engine.mixing.parts import two_float16

from .half_precision import needs_float16

# No subnormal numbers, which XLA takes for 0; and 0.
sizes = st.floats(2.0**-80, 2.0**80, width=32)
values = arrays(np.float32, (2, 5), elements=st.one_of(sizes, sizes.map(lambda v: -v), st.just(0)))

_two = jax.jit(two_float16)


@needs_float16
@given(values)
def test_two_of_float16_are_the_number_to_its_last_digit(x: np.ndarray) -> None:
    parts, scale = _two(x)
    first, second = (np.asarray(part).astype(np.float64) for part in parts)
    exact = x.astype(np.float64)
    largest = np.abs(exact).max(axis=-1, keepdims=True)
    error = np.abs(exact - np.asarray(scale, np.float64) * (first + second))
    assert (error <= 2.0**-23 * np.abs(exact) + 2.0**-38 * largest).all()
    assert np.isfinite(first).all()
