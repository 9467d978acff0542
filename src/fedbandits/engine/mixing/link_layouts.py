"""How the links of a network lie in memory where each of them may fail on its own.

A layout has rows, and in each row places `[P]` at which one end of a link hears the other: a row of
neighbours of all agents, P = N, or the links of a graph with hubs one by one, P = E.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Protocol

import jax
import jax.numpy as jnp
import numpy as np

from fedbandits.arrays import Array
from fedbandits.common.backend import on_cpu

_UNROLLED_ROWS = 8
_DISTANCES = 8
# Neighbour lists padded to the largest degree may be this many times longer than the links.
_PADDING = 4

Step = Callable[[Array, Any, tuple[Any, ...]], tuple[Array, Any]]
"""`step(total, row, given)`: the total after a row, and what is kept of the row."""


class Layout(Protocol):
    """Where links lie."""

    @property
    def rows(self) -> Any:
        """What tells the rows apart: a tuple, or arrays whose first axis they are."""

    def own(self, x: Array, row: Any) -> Array:
        """Who hears: `[..., N]` at the places of a row, `[..., P]`."""

    def heard(self, x: Array, row: Any) -> Array:
        """Who is heard, `[..., P]`."""

    def add(self, total: Array, shares: Array, row: Any) -> Array:
        """Shares `[..., P]` added to those who hear, `[..., N]`."""

    def lift(self, largest: Array, values: Array, row: Any) -> Array:
        """Return the larger of what agents hold and what they receive."""


class _Rows:
    """A row is one neighbour of every agent."""

    def own(self, x: Array, row: Any) -> Array:  # noqa: ARG002
        """Everyone."""
        return x

    def add(self, total: Array, shares: Array, row: Any) -> Array:  # noqa: ARG002
        """To everyone."""
        return total + shares

    def lift(self, largest: Array, values: Array, row: Any) -> Array:  # noqa: ARG002
        """Of everyone."""
        return jnp.maximum(largest, values)


@dataclass(frozen=True)
class Shifted(_Rows):
    """Neighbours at a few distances in the numbering, as on a grid: no index is read."""

    distances: tuple[int, ...] = field(metadata={"static": True})

    @property
    def rows(self) -> tuple[int, ...]:
        """The distances."""
        return self.distances

    def heard(self, x: Array, row: int) -> Array:
        """Where the numbering ends someone else is heard, or nobody: such places are no links."""
        if on_cpu():
            return jnp.roll(x, -row, axis=-1)
        # As in `matrix_forms.Shifts`: an accelerator reads all distances from one padded array.
        reach, agents = max(map(abs, self.distances)), x.shape[-1]
        wide = jnp.pad(x, [(0, 0)] * (x.ndim - 1) + [(reach, reach)])
        return wide[..., reach + row : reach + row + agents]


@dataclass(frozen=True)
class Listed(_Rows):
    """Lists of neighbours, `[S, N]`; agents with fewer hear themselves, over no link."""

    index: Array

    @property
    def rows(self) -> Array:
        """The lists."""
        return self.index

    def heard(self, x: Array, row: Array) -> Array:
        """The neighbours in one list."""
        return x[..., row]


@dataclass(frozen=True)
class OneByOne:
    """Links as `[S, E]` of who is heard and who hears, for graphs with hubs."""

    source: Array
    target: Array

    @property
    def rows(self) -> tuple[Array, Array]:
        """Both ends."""
        return self.source, self.target

    def own(self, x: Array, row: tuple[Array, Array]) -> Array:
        """The targets."""
        return x[..., row[1]]

    def heard(self, x: Array, row: tuple[Array, Array]) -> Array:
        """The sources."""
        return x[..., row[0]]

    def add(self, total: Array, shares: Array, row: tuple[Array, Array]) -> Array:
        """Scatters every link's share to its target."""
        return total.at[..., row[1]].add(shares)

    def lift(self, largest: Array, values: Array, row: tuple[Array, Array]) -> Array:
        """Scatters every link's value to its target."""
        return largest.at[..., row[1]].max(values)


@dataclass(frozen=True)
class LinkLayout:
    """Links with a layout.

    Attributes:
        layout: where they lie.
        message: the number of the message that is heard, `[S, P]`; as in `BadLinks.loss`.
        there: whether there is a link at this place, `[S, P]`.
        weight: of the links, `[S, P]`; 0 where there is none.
    """

    layout: Layout
    message: Array
    there: Array
    weight: Array

    def of_messages(self, x: Array, message: Array | None = None) -> Array:
        """What is known of messages, `[R, 2E]`, at their places or those of others, `[S, R, P]`."""
        return jnp.moveaxis(x[:, self.message if message is None else message], 1, 0)

    @property
    def unrolled(self) -> bool:
        """Whether rows are few enough to be written out one after another."""
        return isinstance(self.layout, Shifted) or self.message.shape[0] <= _UNROLLED_ROWS

    def zeros(self, *batch: int, dtype: Any) -> Any:
        """A place `[*batch, P]` of memory for each row: apart where rows are written out."""
        rows, places = self.message.shape
        if self.unrolled:
            return tuple(np.zeros((*batch, places), dtype) for _ in range(rows))
        return np.zeros((rows, *batch, places), dtype)

    def each(self, step: Step, start: Array, given: tuple[Any, ...]) -> tuple[Array, Any]:
        """`step` over the rows.

        Args:
            step: takes the total, the row of the layout, and that of each of `given`.
            start: the total before.
            given: arrays whose first axis is the rows, or memory as made by `zeros`.

        Returns:
            the total, and what the steps keep, as memory.
        """
        rows = self.layout.rows
        if not self.unrolled:
            return jax.lax.scan(lambda total, now: step(total, *now), start, (rows, given))
        kept = []
        for j in range(self.message.shape[0]):
            row = _row(rows, j)
            start, keep = step(start, row, tuple(each[j] for each in given))
            kept.append(keep)
        return start, tuple(kept)


def _row(rows: Any, j: int) -> Any:
    """Row j of distances, of lists or of pairs of lists."""
    if isinstance(rows, tuple) and not isinstance(rows[0], int):
        return tuple(array[j] for array in rows)
    return rows[j]


def links(agents: int, pairs: Any, message: Any, weight: Any) -> LinkLayout:
    """Links over which u is heard by v, in the layout that costs least.

    Args:
        agents: N.
        pairs: `[M, 2]` of (u, v), u ≠ v.
        message: the number of each, `[M]`.
        weight: of each, `[M]`, in the type it is computed in.
    """
    order = np.lexsort((pairs[:, 0], pairs[:, 1]))
    (source, target), message, weight = pairs[order].T, message[order], weight[order]
    distances, slot = np.unique(source - target, return_inverse=True)
    layout: Layout
    if len(distances) <= _DISTANCES:
        layout = Shifted(tuple(int(d) for d in distances))
        return _padded(layout, len(distances), agents, slot, target, message, weight)
    degrees = np.bincount(target, minlength=agents)
    slot = np.arange(len(target)) - np.repeat(np.cumsum(degrees) - degrees, degrees)
    if degrees.max() * agents <= _PADDING * (len(target) + agents):
        index = np.broadcast_to(np.arange(agents, dtype=np.int32), (degrees.max(), agents)).copy()
        index[slot, target] = source
        return _padded(Listed(index), len(index), agents, slot, target, message, weight)
    ends = (array.astype(np.int32)[None] for array in (source, target))
    there = np.ones((1, len(source)), bool)
    return LinkLayout(OneByOne(*ends), message.astype(np.int32)[None], there, weight[None])


def _padded(
    layout: Layout, rows: int, agents: int, slot: Any, target: Any, message: Any, weight: Any
) -> LinkLayout:
    there = np.zeros((rows, agents), bool)
    there[slot, target] = True
    numbers = np.zeros((rows, agents), np.int32)
    numbers[slot, target] = message
    weights = np.zeros((rows, agents), weight.dtype)
    weights[slot, target] = weight
    return LinkLayout(layout, numbers, there, weights)
