"""Array helpers that serve one NumPy agent and every JAX agent alike.

Arms are always the first axis: `[K]` for one agent, `[K, N]` for all agents, `[K, R, N]` for all
runs. On a CPU with N=36, K=20 and 10 runs this is 1.6 to 1.9 times faster than arms last
(benchmarks/layout.py), because K is too short for a SIMD axis.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, Literal, TypeAlias, TypeVar

import numpy as np

from .common.backend import on_cpu

Array: TypeAlias = Any
"""A NumPy array, a JAX array or a traced JAX value: whatever `__array_namespace__` answers for."""

Carried = TypeVar("Carried", bound=tuple[Array, ...])

_UNROLLED_ARMS = 64
_STRETCH = 32
"""Arms in one turn of a loop over more than those."""
_LARGE = 2**18


def played(action: Array, like: Array) -> Array:
    """Return which arm was played, `[...] -> [K, ...]` of booleans, K being the arms of `like`.

    Example:
        >>> import numpy as np
        >>> played(np.array([2, 0]), like=np.zeros((3, 2))).astype(int)
        array([[0, 1],
               [0, 0],
               [1, 0]])
    """
    xp = like.__array_namespace__()
    arms = xp.arange(like.shape[0]).reshape((-1,) + (1,) * (like.ndim - 1))
    return arms == action


def sample(p: Array, uniform: Array) -> Array:
    """Draw an arm from each distribution: the first k with p_1 + ... + p_k > u · Σp.

    An arm of probability zero is never drawn, since u < 1.

    Args:
        p: distributions, `[K, ...]`.
        uniform: numbers in [0, 1), `[...]`.

    Returns:
        arms counted from 0, `[...]`.

    Example:
        >>> import numpy as np
        >>> p = np.array([0.0, 0.25, 0.75, 0.0])
        >>> [int(sample(p, np.float64(u))) for u in (0, 0.2, 0.25, 0.99)]
        [1, 1, 2, 2]
    """
    xp = p.__array_namespace__()
    if p.shape[0] > _UNROLLED_ARMS:
        return materialised(_sampled_of_many(p, uniform))
    # JAX's cumulative sum is a windowed reduction on a CPU, and slow (benchmarks/layout.py).
    sums = [p[0]]
    for k in range(1, p.shape[0]):
        sums.append(sums[-1] + p[k])
    mark = uniform * sums[-1]
    return materialised(
        functools.reduce(xp.add, [(below <= mark).astype(xp.int32) for below in sums[:-1]])
    )


def _sampled_of_many(p: Array, uniform: Array) -> Array:
    """Draw as `sample` does, with loops over the arms and the same result.

    Sums are made arm by arm, so that an arm of probability 0 does not change them.
    """
    xp = p.__array_namespace__()
    if isinstance(p, np.ndarray):
        sums = xp.cumulative_sum(p, axis=0)
        return (sums[:-1] <= uniform * sums[-1]).sum(axis=0, dtype=xp.int32)
    if not on_cpu():
        # Few kernels, not one for each stretch of arms. Sums of such a scan may move by rounding
        # where an arm adds nothing: those are taken back.
        sums = xp.where(p > 0, xp.cumulative_sum(p, axis=0), -xp.inf)
        sums = xp.maximum.accumulate(sums, axis=0)
        return (sums[:-1] <= uniform * sums[-1]).sum(axis=0, dtype=xp.int32)
    # That scan is a windowed reduction on a CPU, and five to ten times as slow as passing twice.
    zero = xp.zeros_like(uniform)
    mark = uniform * _arm_by_arm(xp.add, zero, p)

    def count(so_far: tuple[Array, Array], chance: Array) -> tuple[Array, Array]:
        below, total = so_far[0], so_far[1] + chance
        return below + (total <= mark).astype(xp.int32), total

    below, _ = _arm_by_arm(count, (zero.astype(xp.int32), zero), p)
    return xp.minimum(below, p.shape[0] - 1)  # where all are NaN


def _arm_by_arm(step: Callable[[Any, Array], Any], start: Any, x: Array) -> Any:
    """Return the fold `step(so_far, x[k])` over the arms, compiled for a stretch of arms alone."""
    import jax

    whole = x.shape[0] // _STRETCH * _STRETCH

    def stretch(i: Array, so_far: Any) -> Any:
        arms = jax.lax.dynamic_slice_in_dim(x, i * _STRETCH, _STRETCH)
        return functools.reduce(step, [arms[j] for j in range(_STRETCH)], so_far)

    start = jax.lax.fori_loop(0, whole // _STRETCH, stretch, start)
    return functools.reduce(step, [x[k] for k in range(whole, x.shape[0])], start)


def over_arms(how: Literal["sum", "min", "max", "any"], x: Array) -> Array:
    """Return the sum, minimum, maximum or any over the arms, `[K, ...] -> [...]`.

    Example:
        >>> import numpy as np
        >>> over_arms("sum", np.array([[1.0, 2.0], [3.0, 4.0]]))
        array([4., 6.])
    """
    xp = x.__array_namespace__()
    if not _written_out(x, if_large=True):
        return getattr(xp, how)(x, axis=0)
    pair = {"sum": xp.add, "min": xp.minimum, "max": xp.maximum, "any": xp.logical_or}[how]
    return materialised(functools.reduce(pair, [x[k] for k in range(x.shape[0])]))


def expectation(p: Array, values: Array) -> Array:
    """Return ⟨p, values⟩ for one number per arm: `[K, ...]` and `[K]` -> `[...]`.

    The values may have further axes, up to those of p, such as `[K, R, 1]`.

    Example:
        >>> import numpy as np
        >>> float(expectation(np.array([0.25, 0.75]), np.array([1.0, 2.0])))
        1.75
    """
    xp = p.__array_namespace__()
    if p.shape[0] > _UNROLLED_ARMS:
        return (p * values.reshape(values.shape + (1,) * (p.ndim - values.ndim))).sum(axis=0)
    return materialised(functools.reduce(xp.add, [p[k] * values[k] for k in range(p.shape[0])]))


def product(matrix: Array, x: Array) -> Array:
    """Return a matrix times the first axis, `[M, K]`, `[K, ...]` -> `[M, ...]`, in x's precision.

    Accelerators multiply with fewer digits by default.

    Example:
        >>> import numpy as np
        >>> product(np.array([[1, 1], [0, 2]]), np.array([1.0, 3.0]))
        array([4., 6.])
    """
    xp = x.__array_namespace__()
    matrix = xp.asarray(matrix, dtype=x.dtype)
    if isinstance(x, np.ndarray):
        return xp.tensordot(matrix, x, axes=1)
    return xp.tensordot(matrix, x, axes=1, precision="highest")


def taken(x: Array, action: Array) -> Array:
    """Return the entry of the arm played, `[K, ...] -> [...]`.

    Example:
        >>> import numpy as np
        >>> taken(np.array([[1.0, 2.0], [3.0, 4.0]]), np.array([1, 0]))
        array([3., 2.])
    """
    xp = x.__array_namespace__()
    if not _written_out(x):
        return materialised(xp.take_along_axis(x, action[None], axis=0)[0])
    value = x[0]
    for k in range(1, x.shape[0]):
        value = xp.where(action == k, x[k], value)
    return value


def repeated(step: Callable[[Carried], Carried], start: Carried, times: int) -> Carried:
    """Apply `step` repeatedly; under JAX it is compiled once.

    Example:
        >>> import numpy as np
        >>> repeated(lambda pair: (pair[1], pair[0] + pair[1]), (np.int64(0), np.int64(1)), 10)
        (np.int64(55), np.int64(89))
    """
    if isinstance(start[0], np.ndarray | np.generic):
        for _ in range(times):
            start = step(start)
        return start
    import jax

    after: Carried = jax.lax.fori_loop(0, times, lambda _, carried: step(carried), start)
    return after


def _written_out(x: Array, *, if_large: bool = False) -> bool:
    """Return whether to unroll the loop over the arms.

    On an accelerator, unrolled code between two exchanges of messages becomes few kernels, while
    every reduction would be a separate kernel. On a CPU reductions are faster; with `if_large` only
    for small x, since XLA shares unrolled code among cores better.
    """
    if isinstance(x, np.ndarray | np.generic) or x.shape[0] > _UNROLLED_ARMS:
        return False
    return not on_cpu() or (if_large and x.size // x.shape[0] >= _LARGE)


def materialised(x: Array) -> Array:
    """Prevent XLA from recomputing x, `[...]` without arms, for every number that needs it.

    Accelerators recompute small values faster than they store them, so only large x count. On a CPU
    XLA drops a barrier before it decides what to recompute, but never splits a sum. Therefore whole
    numbers, which stay exact, become the sum of themselves and zeros.
    """
    if isinstance(x, np.ndarray | np.generic):
        return x
    import jax
    import jax.numpy as jnp

    if on_cpu() and jnp.issubdtype(x.dtype, jnp.integer):
        itself = jax.lax.broadcasted_iota("int32", (2, *x.shape), 0) == 0
        return jnp.where(itself, x, 0).sum(axis=0, dtype=x.dtype)
    held = on_cpu() or x.size >= _LARGE
    return jax.lax.optimization_barrier(x) if held else x
