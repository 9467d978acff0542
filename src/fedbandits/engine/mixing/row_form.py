"""The form of a large graph that follows no rule, on a CPU: lists of neighbours, read by rows.

With agents first, `[N, R, K]`, the whole message of a neighbour lies in one place, and a term of

    y^v = W_vv x^v + Σ_u W_uv x^u

is a few vector instructions, where with arms first every number is looked up by itself. XLA makes
such code of a few neighbours at a time: lists are cut into groups. They need not be as long as the
longest: of those who hear more, what is left over is summed up before.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from numpy.typing import DTypeLike

from fedbandits.arrays import Array

from .matrix_forms import Reliable

GROUP = 12
"""Neighbours added at once, measured: a core has too few registers for the places of more."""

REST = 4
"""A place in the lists of the rest takes as long as so many in those of all, measured with a
million agents; probably since those of the rest lie far apart, and share no cache."""

_CELLS = 2**18
"""Numbers that are summed up at a time, so that they stay in a cache."""


class Prepared(NamedTuple):
    """The messages of all agents, prepared for averages over any of them.

    Attributes:
        rows: the messages, `[N, R, K]`.
        rest: sums over the neighbours that the rows leave out, `[M + 1, R, K]`; the last row is 0.
    """

    rows: Array
    rest: Array


@dataclass(frozen=True)
class Rows(Reliable):
    """Lists of G groups of D neighbours, and of the M agents who hear more, G' of D' others."""

    index: Array
    """`[G, N, D]`; padding points at the agent itself."""
    weight: Array
    """`[G, N, D]`; padding weighs 0."""
    rest_index: Array
    """`[G', M, D']`."""
    rest_weight: Array
    """`[G', M, D']`."""
    rest: Array
    """Which of the M everyone is, `[N]`; M for those who are not."""
    diagonal: Array

    def average(self, x: Array) -> Array:
        """Of as many agents at a time as stay in a cache; the last of them may come twice."""
        *others, agents = x.shape
        prepared, some = self.prepared(x), min(agents, max(1, _CELLS // math.prod(others)))

        def step(i: Array, y: Array) -> Array:
            first = jnp.minimum(i * some, agents - some)
            own = jax.lax.dynamic_slice_in_dim(x, first, some, axis=-1)
            heard = self.average_of(prepared, own, first)
            return jax.lax.dynamic_update_slice_in_dim(y, heard, first, axis=-1)

        if some == agents:
            return self.average_of(prepared, x, 0)
        return jax.lax.fori_loop(0, -(-agents // some), step, jnp.zeros_like(x))

    def prepared(self, x: Array) -> Prepared:
        """Return messages x, `[K, R, N]`, prepared for `average_of`."""
        rows = x.T
        nothing = jnp.zeros((self.rest_index.shape[1], *rows.shape[1:]), x.dtype)
        rest = _added(nothing, rows, self.rest_index, self.rest_weight, 0)
        return Prepared(rows, jnp.pad(rest, [(0, 1), (0, 0), (0, 0)]))

    def average_of(self, prepared: Prepared, own: Array, first: Array | int) -> Array:
        """Return Σ_u W_uv x^u, `[K, R, n]`, of the n agents from `first` on, which hold `own`."""
        rest, diagonal = (
            jax.lax.dynamic_slice_in_dim(each, first, own.shape[-1])
            for each in (self.rest, self.diagonal)
        )
        heard = _added(_taken(prepared.rest, rest), prepared.rows, self.index, self.weight, first)
        return diagonal * own + heard.T


def _added(total: Array, rows: Array, index: Array, weight: Array, first: Array | int) -> Array:
    """To totals `[n, R, K]` the weighted rows in the lists from `first` on.

    What comes out of a loop is written down before it is transposed. XLA would otherwise add up
    arm by arm, and read every row for each of its numbers: hence two groups or more.
    """
    groups, _, deep = index.shape

    def add(group: Array, total: Array) -> Array:
        listed, weighs = (
            jax.lax.dynamic_slice(x, (group, first, 0), (1, total.shape[0], deep))[0]
            for x in (index, weight)
        )
        for j in range(deep):
            total = total + weighs[:, j, None, None] * _taken(rows, listed[:, j])
        return total

    return jax.lax.fori_loop(0, groups, add, total)


def _taken(rows: Array, index: Array) -> Array:
    """Rows by their numbers, none of which is negative: to ask would cost what the row does."""
    return rows.at[index].get(mode="promise_in_bounds", wrap_negative_indices=False)


def rows(incoming: Any, dtype: DTypeLike) -> Rows:
    """The form of a sparse matrix whose row v holds the weights of what v hears.

    Args:
        incoming: W transposed, in rows (CSR).
        dtype: of the weights.
    """
    agents, entries = incoming.shape[0], incoming.tocoo()
    beside = (entries.row != entries.col) & (entries.data != 0)
    target, source, weight = (
        each[beside] for each in (entries.row, entries.col, entries.data.astype(dtype))
    )
    degrees = np.bincount(target, minlength=agents)
    place = np.arange(len(target)) - np.repeat(np.cumsum(degrees) - degrees, degrees)
    length = _length(degrees)
    longer = degrees > length
    rest = np.where(longer, np.cumsum(longer) - 1, longer.sum()).astype(np.int32)

    def lists(whose: Any, length: int, some: Any, row: Any, column: Any) -> tuple[Any, Any]:
        groups, deep = _shape(length)
        weights = np.zeros((groups, len(whose), deep), dtype)
        index = np.broadcast_to(whose.astype(np.int32)[:, None], weights.shape).copy()
        places = column[some] % groups, row[some], column[some] // groups
        index[places], weights[places] = source[some], weight[some]
        return index, weights

    fits, left = place < length, int(degrees.max(initial=0)) - length
    return Rows(
        *lists(np.arange(agents), length, fits, target, place),
        *lists(np.flatnonzero(longer), left, ~fits, rest[target], place - length),
        rest,
        incoming.diagonal().astype(dtype),
    )


def _shape(length: int) -> tuple[int, int]:
    """How many groups a list of so many neighbours is cut into, and how many places each has."""
    groups = max(2, -(-length // GROUP))
    return groups, -(-length // groups)


def _length(degrees: Any) -> int:
    """Of the lists of all agents, such that these and those of the rest take the least time."""
    longest = int(degrees.max(initial=0))
    lengths = np.arange(longest + 1)
    longer = len(degrees) - np.searchsorted(np.sort(degrees), lengths, side="right")
    places = np.array([math.prod(_shape(int(length))) for length in lengths])
    of_rest = places[::-1]  # whose lists are for longest - length
    return int(np.argmin(len(degrees) * places + REST * longer * of_rest))
