"""The floor: the memory and the products of a round, at the speed this device was measured to have.

A round needs every number of the state (loss estimates, float32, K·R·N of them) and replaces it:

    state     one read and one write of K·R·N·4 bytes, at the speed of a pass over an array of
              that very size: one that fits in a cache is passed at the cache's speed
    graph     where the neighbours follow no rule, one read of a 4-byte index per directed edge
    product   on a dense graph K·R rows times an N × N matrix, 2·K·R·N² operations at the measured
              rate of such products; of bfloat16 ones on an accelerator, three of which give
              float32 accuracy. The engine makes do with two of float16: this part could be less

Random numbers, exponentials and losses cost no memory and are left out, so that where there is no
product no program reaches the floor, and the ratio says how much is left to gain at most. On a CPU
they take longer than the memory: `parts` adds them, each at the speed of an XLA loop over an array
that stays in the cache, shared by all cores. That is what a plain program has, not the least
possible: the engine keeps no words of the coins it counts, and hashes four side by side. Each speed
is measured once in a process.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from time import perf_counter
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from fedbandits.common import streams

_LARGE = 2**28
"""Bytes that fit in no cache; on an accelerator a smaller pass would measure its own launch."""


_CACHED = 2**17
"""Numbers that fit in a cache, and are enough for all cores to have some."""


class Parts(NamedTuple):
    """Seconds of what a round on a CPU is made of.

    Attributes:
        memory: to read and write the state once.
        exponentials: of every number of the state.
        words: to draw the losses of all arms, two with a hash, and an arm for each agent.
    """

    memory: float
    exponentials: float
    words: float


def parts(arms: int, agents: int) -> Parts:
    """The parts of a round of one run."""
    cells = arms * agents
    return Parts(
        pass_seconds(4 * cells),
        cells * exponential_seconds(),
        (cells / 2 + agents) * hash_seconds(),
    )


@cache
def exponential_seconds() -> float:
    """Seconds of one exponential among many."""
    x = jnp.linspace(0, 1, _CACHED, dtype=jnp.float32)
    return _loop_seconds(lambda _, x: jnp.exp(-x), x, 200) / _CACHED


@cache
def hash_seconds() -> float:
    """Seconds of one hash among many."""
    place = jnp.arange(_CACHED, dtype=jnp.uint32)
    key = jnp.uint32(1), jnp.uint32(2)
    return _loop_seconds(lambda _, place: streams.words_at(key, place), place, 200) / _CACHED


def a_round(
    cells: int, *, arrays: int = 1, directed_edges: int = 0, dense_agents: int = 0
) -> float:
    """Seconds of a round's memory and products.

    Args:
        cells: K·R·N.
        arrays: how many numbers of each arm an agent has to remember.
        directed_edges: 2E, where the graph follows no rule.
        dense_agents: N, where the graph is dense.
    """
    seconds = pass_seconds(4 * cells * arrays)
    if directed_edges:
        seconds += 4 * directed_edges / copy_bandwidth()
    if dense_agents:
        products = 1 if jax.default_backend() == "cpu" else 3
        seconds += products * 2 * cells * dense_agents / product_rate()
    return seconds


@cache
def pass_seconds(size: int) -> float:
    """Seconds to read and write `size` bytes once: the better of XLA's loop and NumPy's copy."""
    if jax.default_backend() != "cpu":
        return _xla_pass(_LARGE) * size / _LARGE
    return min(_xla_pass(size), _numpy_pass(size))


def copy_bandwidth() -> float:
    """Bytes read and written in a second, of an array too large for any cache."""
    return 2 * _LARGE / pass_seconds(_LARGE)


@cache
def product_rate() -> float:
    """Operations a second of a matrix product, 2·m·n² for m × n by n × n: the best library's."""
    if jax.default_backend() != "cpu":
        return _xla_rate(8192, 8192, jnp.bfloat16)
    return max(_xla_rate(200, 2048, jnp.float32), _numpy_rate(200, 2048))


def _xla_pass(size: int) -> float:
    times = int(np.clip(_LARGE // size, 4, 2000))
    x = jnp.zeros(size // 4, jnp.float32)
    return _loop_seconds(lambda _, x: x + 1, x, times)


def _numpy_pass(size: int) -> float:
    # Not zeros, of which there is one page, always in the cache.
    a, b = np.ones(size // 4, np.float32), np.ones(size // 4, np.float32)
    times = int(np.clip(_LARGE // size, 1, 1000))

    def copies() -> None:
        for _ in range(times):
            np.copyto(b, a)

    return _best(copies) / times


def _xla_rate(rows: int, size: int, kind: Any) -> float:
    W = jnp.full((size, size), 1 / size, kind)
    x = jnp.ones((rows, size), kind)
    highest = jax.lax.Precision.HIGHEST if kind == jnp.float32 else None

    def product(_: Any, x: Any) -> Any:
        y = jnp.matmul(x, W, precision=highest, preferred_element_type=jnp.float32)
        return y.astype(kind)

    return 2 * rows * size**2 / _loop_seconds(product, x, 4)


def _numpy_rate(rows: int, size: int) -> float:
    W, x = np.full((size, size), 1 / size, np.float32), np.ones((rows, size), np.float32)
    return 2 * rows * size**2 / _best(lambda: x @ W)


def _loop_seconds(step: Any, start: Any, times: int) -> float:
    """Seconds of a step inside a compiled loop."""
    loop = jax.jit(lambda x: jax.lax.fori_loop(0, times, step, x))
    return _best(lambda: jax.block_until_ready(loop(start))) / times


def _best(call: Callable[[], object]) -> float:
    """The best of five calls or more, for half a second: a floor must not be a noisy moment's."""
    call()
    began = perf_counter()
    best, calls = np.inf, 0
    while calls < 5 or perf_counter() - began < 0.5:
        start = perf_counter()
        call()
        best, calls = min(best, perf_counter() - start), calls + 1
    return float(best)
