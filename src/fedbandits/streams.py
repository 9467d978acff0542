"""Counter-based randomness: every number is a function of the seed and of where it is used.

For given N and K, losses are a function of (problem seed, round, agent, arm) and action uniforms
of (seed, run, round, agent), so they are bit-identical however rounds are chunked and runs are
batched, on every device. Streams keep apart what shares a seed: a problem and a simulation both
seeded 0 stay independent.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from .arrays import Array

if TYPE_CHECKING:
    from numpy.typing import DTypeLike

LOSSES, ACTIONS, EDGES = range(3)


def round_key(which: int, seed: Array, t: Array) -> Array:
    """The JAX key of one round: the stream and the seed are the key, the round is folded in.

    One hash per round and one per number: longer chains of keys take XLA seconds to compile.
    """
    import jax
    import jax.numpy as jnp

    # The implementation is named: a user's global default must not change published numbers.
    pair = jnp.stack([jnp.uint32(which), jnp.asarray(seed, "uint32")])
    key = jax.random.fold_in(jax.random.wrap_key_data(pair, impl="threefry2x32"), t)
    # The barrier keeps XLA from working the round's key out again for every number drawn from it.
    data = jax.lax.optimization_barrier(jax.random.key_data(key))
    return jax.random.wrap_key_data(data, impl="threefry2x32")


def words(key: Array, shape: tuple[int, ...]) -> Array:
    """Random 32-bit words; word i of a key depends on the key and i alone."""
    import jax

    # JAX's default, but a global flag: turned off, word i would depend on how many are drawn.
    with jax.threefry_partitionable(True):
        return jax.random.bits(key, shape, "uint32")


def as_uniforms(drawn: Array, dtype: DTypeLike = "float32") -> Array:
    """Words as numbers in (0, 1): of 23 bits in float32, of all 32 in float64.

    Each is the middle of its interval, and u · s < s for every float32 s > 0.
    """
    import jax.numpy as jnp

    if jnp.dtype(dtype) == jnp.float64:
        return (drawn.astype("float64") + 0.5) * 2.0**-32
    return ((drawn >> 9).astype(dtype) * 2.0 + 1.0) * 2.0**-24


def uniforms(key: Array, shape: tuple[int, ...], dtype: DTypeLike = "float32") -> Array:
    """Numbers in (0, 1)."""
    return as_uniforms(words(key, shape), dtype)
