"""Array helpers that serve one NumPy agent and every JAX agent alike.

Arms are always the first axis: `[K]` for one agent, `[K, N]` for all agents, `[K, R, N]` for all
runs. Arms first was measured against arms last, and is 1.6 to 1.9 times faster on a CPU at N=36,
K=20 and 10 runs (benchmarks/layout.py): K is too short for a SIMD axis, and the agents are not.
"""

from __future__ import annotations

from typing import Any, TypeAlias

Array: TypeAlias = Any
"""A NumPy array, a JAX array or a traced JAX value: whatever `__array_namespace__` answers for."""

_UNROLLED_ARMS = 64


def played(action: Array, like: Array) -> Array:
    """Which arm was played, `[...] -> [K, ...]` of booleans, K being the arms of `like`.

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
    if p.shape[0] <= _UNROLLED_ARMS:
        # JAX's cumulative sum is a windowed reduction on a CPU, and slow (benchmarks/layout.py).
        sums = [p[0]]
        for k in range(1, p.shape[0]):
            sums.append(sums[-1] + p[k])
        cumulative = xp.stack(sums)
    else:
        cumulative = xp.cumulative_sum(p, axis=0)
    return (cumulative[:-1] <= uniform * cumulative[-1]).sum(axis=0)
