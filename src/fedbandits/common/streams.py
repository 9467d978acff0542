"""Counter-based randomness: every number is a function of the seed and of where it is used.

For given N and K, losses are a function of (problem seed, round, agent, arm) and action uniforms
of (seed, run, round, agent), so they are bit-identical however rounds are chunked and runs are
batched, on every device. Streams keep apart what shares a seed: a problem and a simulation both
seeded 0 stay independent.
"""

from __future__ import annotations

import functools
import math
import zlib
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from fedbandits.arrays import Array, materialised

if TYPE_CHECKING:
    from numpy.typing import DTypeLike

LOSSES, ACTIONS, EDGES, RESPONSES, NOISE, LINKS, PHASES = range(7)

_TURNS = np.array([[13, 15, 26, 6], [17, 29, 16, 24]], np.uint32)


Key: TypeAlias = tuple[Array, Array]
"""Two 32-bit words."""


def named(name: str) -> int:
    """Return a stream that belongs to a name, apart from those above.

    Example:
        >>> named("lost_observations")
        2461390679
    """
    return zlib.crc32(name.encode()) | 2**31


def round_key(which: int, seed: Array, t: Array) -> Key:
    """Return the key of a round: the round, hashed with the stream and the seed."""
    import jax
    import jax.numpy as jnp

    stream = (jnp.uint32(which), jnp.asarray(seed, "uint32"))
    # The barrier keeps XLA from working the round's key out again for every number drawn from it.
    first, second = jax.lax.optimization_barrier(
        _threefry(stream, jnp.uint32(0), jnp.asarray(t).astype("uint32"))
    )
    return materialised(first), materialised(second)


def words(key: Key, shape: tuple[int, ...]) -> Array:
    """Return random 32-bit words; word i, counted along the last axis first, hashes key and i."""
    import jax
    import jax.numpy as jnp

    check_count(shape)
    index = jnp.zeros(shape, "uint32")
    for axis in range(len(shape)):
        stride = np.uint32(math.prod(shape[axis + 1 :]))
        index = index + jax.lax.broadcasted_iota("uint32", shape, axis) * stride
    return words_at(key, index)


def check_count(shape: tuple[int, ...]) -> None:
    """Refuse more places than there are words."""
    if math.prod(shape) > 2**32:
        raise ValueError(f"{shape} are more random numbers in a round than 32 bits can count")


def words_at(key: Key, index: Array) -> Array:
    """Return the words of `words` at these places, in the shape of `index`."""
    first, second = two_words_at(key, index)
    return first ^ second


def two_words_at(key: Key, index: Array) -> tuple[Array, Array]:
    """Return two independent random words per place, at the cost of one."""
    return _threefry(key, np.uint32(0), index)


def _threefry(key: Key, first: Array, second: Array) -> tuple[Array, Array]:
    """Return two words hashed with a key, traced once per shape."""
    hashed: tuple[Array, Array] = _traced_threefry()(key, first, second)
    return hashed


@functools.cache
def _traced_threefry() -> Any:
    import jax

    return jax.jit(_threefry_written_out)


def _threefry_written_out(key: Key, first: Array, second: Array) -> tuple[Array, Array]:
    """Return two words hashed with a key by Threefry-2x32, 20 rounds (Salmon et al., 2011).

    Bit for bit what `jax.random` draws from its default keys (a test says so), but written out:
    JAX has a loop here on a CPU and a separate kernel on a GPU, and XLA fuses neither.
    """
    parity = key[0] ^ key[1] ^ np.uint32(0x1BD11BDA)
    schedule = (*key, parity)
    first, second = first + key[0], second + key[1]
    for group in range(5):
        for turn in _TURNS[group % 2]:
            first = first + second
            second = (second << turn | second >> np.uint32(32 - turn)) ^ first
        first = first + schedule[(group + 1) % 3]
        second = second + schedule[(group + 2) % 3] + np.uint32(group + 1)
    return first, second


def as_uniforms(drawn: Array, dtype: DTypeLike = "float32") -> Array:
    """Return words as numbers in (0, 1): of 23 bits in float32, of all 32 in float64.

    Each is the middle of its interval, and u · s < s for every float32 s > 0.
    """
    import jax.numpy as jnp

    if jnp.dtype(dtype) == jnp.float64:
        return (drawn.astype("float64") + 0.5) * 2.0**-32
    return ((drawn >> 9).astype(dtype) * 2.0 + 1.0) * 2.0**-24


def uniforms(key: Key, shape: tuple[int, ...], dtype: DTypeLike = "float32") -> Array:
    """Return numbers in (0, 1)."""
    return as_uniforms(words(key, shape), dtype)
