"""Problems that watch: what they remember of each run, and the losses that follow from it."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from numpy.typing import DTypeLike

from fedbandits.arrays import Array
from fedbandits.problems.adaptive import Adaptive, like
from fedbandits.problems.base import Problem


def first_memory(problem: Problem, runs: int, dtype: DTypeLike) -> Any:
    """What is remembered of each run before round 1, `[R, ...]`; None of a problem without eyes."""
    if not problem.adaptive:
        return None

    def of_all_runs(x: Any) -> np.ndarray[Any, Any]:
        array = np.asarray(x)
        kind = dtype if np.issubdtype(array.dtype, np.floating) else array.dtype
        return np.broadcast_to(array.astype(kind), (runs, *array.shape))

    return jax.tree.map(of_all_runs, _watching(problem).memory())


def losses_given(problem: Problem, t: Array, memory: Any) -> Array:
    """The losses of round t, in each run given what is remembered of it: `[K, R, N]`."""
    # Run by run, so that none can know of another.
    each = jax.vmap(_watching(problem).losses_given, in_axes=(None, 0))(t, memory)
    return jnp.moveaxis(each, 2, 0)


def watched(problem: Problem, memory: Any, action: Array, t: Array) -> Any:
    """What is remembered of each run after round t, in which these arms were played, `[R, N]`."""
    each = jax.vmap(_watching(problem).watch, in_axes=(0, 0, None))(memory, action, t)
    return like(each, memory)


def _watching(problem: Any) -> Adaptive:
    watching: Adaptive = problem
    return watching
