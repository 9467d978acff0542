"""The forms in which a gossip matrix, or who is linked, can be held.

Each takes `x` of shape `[K, R, N]` and gives `average`, Σ_u W_uv x^u, or `maximum`, over an agent
and its neighbours. Floods are averages too, with a matrix of zeros and ones.
"""

from __future__ import annotations

import functools
import operator
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Protocol

import jax
import jax.numpy as jnp

from fedbandits.arrays import Array
from fedbandits.common import streams
from fedbandits.common.backend import on_cpu

from .parts import two_float16

_UNROLLED_DEGREE = 8


class Averages(Protocol):
    """One way to combine estimates with the neighbours'."""

    def draw(self, seed: Array, t: Array, runs: int, dtype: Any) -> Any:
        """What happens to the links in round t, a function of (seed, run, round); None: nothing."""

    def first_memory(self, message: Array) -> Any:
        """What links remember before round 1 of messages such as this one; None: nothing."""

    def exchange(self, x: Array, sent: Array, drawn: Any, memory: Any) -> tuple[Array, Any]:
        """W_vv x^v + Σ_{u ≠ v} W_uv sent^u, `[K, R, N]`, and what links remember of it.

        `x` and `sent` are the same array but where agents lie.
        """

    def unused(self, memory: Any) -> Any:
        """What links remember of a round after which everyone overwrote what it received."""


class Maxima(Protocol):
    """One way to hold who is linked."""

    def maximum(self, x: Array, drawn: Any) -> Array:
        """Largest of the agent's own and its neighbours' values, `[K, R, N]`."""


class Some(Protocol):
    """Some agents, to whoever combines messages for them alone."""

    agent: Array
    """Their numbers, `[n]`."""

    def beside(self, distance: int, there: Array) -> Array:
        """Return what agents so many numbers further on hold, `[K, n]`: where `there`, else 0."""

    def of_run(self, values: Array) -> Array:
        """Of values `[K, R]` those of their runs, `[K, n]`."""


class Near(Protocol):
    """What combines messages for some agents alone."""

    def average_near(self, some: Some, own: Array) -> Array:
        """Σ_u W_uv x^u of some agents v, which hold `own`, `[K, n]`."""


class Reliable:
    """A form whose links are the same in every round and remember nothing."""

    diagonal: Any
    """W_vv, where an agent may tell something else than it holds."""

    @property
    def reach(self) -> int | None:
        """How far off in the numbering neighbours are, where `average_within` is to be had."""
        return None

    def draw(self, seed: Array, t: Array, runs: int, dtype: Any) -> Any:  # noqa: ARG002
        """Nothing happens to them."""
        return None

    def first_memory(self, message: Array) -> Any:  # noqa: ARG002
        """Nothing."""
        return None

    def exchange(
        self,
        x: Array,
        sent: Array,
        drawn: Any,  # noqa: ARG002
        memory: Any,  # noqa: ARG002
    ) -> tuple[Array, Any]:
        """Σ_u W_uv sent^u, but that an agent knows its own x."""
        if sent is x:
            return self.average(x), None
        return self.average(sent) + self.diagonal * (x - sent), None  # 0 where it tells the truth

    def unused(self, memory: Any) -> Any:
        """Nothing, as ever."""
        return memory

    def average(self, x: Array) -> Array:
        """Σ_u W_uv x^u, `[K, R, N]`."""
        raise NotImplementedError

    def near(self, x: Array) -> Near | None:  # noqa: ARG002
        """What gives the average of x for some agents alone; None where only all have it."""
        return None

    def average_within(self, window: Array, first: Array) -> Array:
        """Σ_u W_uv x^u for the agents inside a window, where there is a `reach`.

        Args:
            window: x of n agents and of `reach` more on either side, `[K, R, n + 2 reach]`;
                anything where there are no agents.
            first: the first of the n.

        Returns:
            `[K, R, n]`.
        """
        raise NotImplementedError


@dataclass(frozen=True)
class Dense(Reliable):
    """A full matrix `[N, N]`."""

    matrix: Array

    def average(self, x: Array) -> Array:
        """One matrix product, at full precision: no TF32."""
        return jnp.matmul(x, self.matrix, precision=jax.lax.Precision.HIGHEST)

    @property
    def diagonal(self) -> Array:
        """W_vv."""
        return jnp.diagonal(self.matrix)


@dataclass(frozen=True)
class EqualWeights(Reliable):
    """A dense graph whose edges all weigh the same, for tensor cores: W = diagonal + w A.

    A is 0 or 1, hence exact in 16 bits, and float32 is a sum of two numbers of 16 bits to its last
    digit, where it is not tiny beside the largest of all agents (`parts.two_float16`). So one
    product of such matrices has the accuracy of float32.
    """

    adjacency: Array
    """`[P, P]` of float16, N padded with zeros to P, a multiple of 128."""
    weight: Array
    diagonal: Array

    def average(self, x: Array) -> Array:
        """The diagonal · x + w · (A x)."""
        parts, scale = two_float16(x)
        heard = scale * product_with(jnp.stack(parts), self.adjacency).sum(axis=0)
        return self.diagonal * x + self.weight * heard


@dataclass(frozen=True)
class Complete(Reliable):
    """All agents linked with one weight: W = (1 - N w) I + w 11ᵀ."""

    weight: Array
    diagonal: Array

    def average(self, x: Array) -> Array:
        """(1 - N w) x + w Σ_u x^u."""
        return (1 - x.shape[-1] * self.weight) * x + self.weight * x.sum(-1, keepdims=True)

    def near(self, x: Array) -> Total:
        """The sum over all agents, with which each has its average."""
        return Total(1 - x.shape[-1] * self.weight, self.weight, x.sum(-1))

    def maximum(self, x: Array, drawn: Any = None) -> Array:  # noqa: ARG002
        """The largest of all."""
        return jnp.broadcast_to(x.max(-1, keepdims=True), x.shape)


class Total(NamedTuple):
    """What an agent needs to know for its average where all are linked.

    Attributes:
        rest: 1 - N w.
        weight: w.
        total: Σ_u x^u, `[K, R]`.
    """

    rest: Array
    weight: Array
    total: Array

    def average_near(self, some: Some, own: Array) -> Array:
        """(1 - N w) x + w Σ_u x^u."""
        return self.rest * own + self.weight * some.of_run(self.total)


@dataclass(frozen=True)
class Everyone(Reliable):
    """A flood that reaches all agents."""

    def average(self, x: Array) -> Array:
        """Σ_u x^u."""
        return jnp.broadcast_to(x.sum(-1, keepdims=True), x.shape)


@dataclass(frozen=True)
class Neighbours(Reliable):
    """Neighbour lists padded to the largest degree D, `[D, N]`, and the diagonal of W, `[N]`."""

    index: Array
    weight: Array
    diagonal: Array

    def average(self, x: Array) -> Array:
        """Gathers one neighbour of everyone at a time; padding has weight 0."""

        def add(total: Array, row: tuple[Array, Array]) -> tuple[Array, None]:
            index, weight = row
            return total + weight * x[..., index], None

        return _over_rows(add, x * self.diagonal, (self.index, self.weight))

    def clipped(self, x: Array, sent: Array, limit: Array, drawn: Any) -> Array:  # noqa: ARG002
        """As the average, with agents first: whole rows are gathered, measured to be faster."""
        own, heard = jnp.moveaxis(x, -1, 0), jnp.moveaxis(sent, -1, 0)

        def add(total: Array, row: tuple[Array, Array]) -> tuple[Array, None]:
            index, weight = row
            difference = jnp.clip(heard[index] - own, -limit, limit)
            return total + weight[:, None, None] * difference, None

        return jnp.moveaxis(_over_rows(add, own, (self.index, self.weight)), 0, -1)

    def maximum(self, x: Array, drawn: Any = None) -> Array:  # noqa: ARG002
        """Padding points at the agent itself, which changes no maximum."""

        def lift(largest: Array, row: tuple[Array]) -> tuple[Array, None]:
            return jnp.maximum(largest, x[..., row[0]]), None

        return _over_rows(lift, x, (self.index,))


@dataclass(frozen=True)
class Shifts(Reliable):
    """Neighbours of one weight at a few fixed distances in the numbering, as on a grid.

    One byte is then read for the neighbours of an agent, not an index and a weight for each: on an
    accelerator that is most of the work of a million agents, on a CPU half of an average.
    """

    distances: tuple[int, ...] = field(metadata={"static": True})
    linked: Array
    """Bit j says whether there is a neighbour at distance j, `[N]` of bytes."""
    weight: Array
    diagonal: Array

    @property
    def reach(self) -> int:
        """The largest distance."""
        return max(map(abs, self.distances))

    def average(self, x: Array) -> Array:
        """The diagonal · x + w · (sum over neighbours)."""
        return self._average(x, self._neighbours(self._widened(x), self.linked), self.diagonal)

    def average_within(self, window: Array, first: Array) -> Array:
        """As the average: what is no neighbour is not looked at."""
        agents = window.shape[-1] - 2 * self.reach
        linked, diagonal = (
            jax.lax.dynamic_slice_in_dim(each, first, agents)
            for each in (self.linked, self.diagonal)
        )
        own = window[..., self.reach : self.reach + agents]
        return self._average(own, self._neighbours(window, linked), diagonal)

    def near(self, x: Array) -> Shifts:  # noqa: ARG002
        """Itself: nothing has to be known of all agents."""
        return self

    def average_near(self, some: Some, own: Array) -> Array:
        """The average at some agents alone."""
        linked = self.linked[some.agent].astype("int32")
        heard = [some.beside(d, (linked >> j) & 1 > 0) for j, d in enumerate(self.distances)]
        return self.diagonal[some.agent] * own + self.weight * functools.reduce(operator.add, heard)

    def maximum(self, x: Array, drawn: Any = None) -> Array:  # noqa: ARG002
        """One neighbour of everyone at a time."""
        neighbours = self._neighbours(self._widened(x), self.linked)
        return functools.reduce(jnp.maximum, [jnp.where(there, z, x) for there, z in neighbours], x)

    def _average(self, x: Array, neighbours: list[tuple[Array, Array]], diagonal: Array) -> Array:
        heard = [jnp.where(there, z, 0.0) for there, z in neighbours]
        return diagonal * x + self.weight * functools.reduce(jnp.add, heard)

    def _widened(self, x: Array) -> Array:
        return jnp.pad(x, [(0, 0)] * (x.ndim - 1) + [(self.reach, self.reach)])

    def _neighbours(self, window: Array, linked: Array) -> list[tuple[Array, Array]]:
        """For each distance, whether there is a neighbour, `[n]`, and its values, `[..., n]`."""
        agents = linked.shape[0]
        return [
            ((linked >> j) & 1 > 0, window[..., self.reach + d : self.reach + d + agents])
            for j, d in enumerate(self.distances)
        ]


@dataclass(frozen=True)
class Edges(Reliable):
    """Directed edges as lists `[M]`, for graphs with hubs, and the diagonal of W, `[N]`."""

    source: Array
    target: Array
    weight: Array
    diagonal: Array

    def average(self, x: Array) -> Array:
        """Scatters every edge's share to its target."""
        return (x * self.diagonal).at[..., self.target].add(self.weight * x[..., self.source])

    def clipped(self, x: Array, sent: Array, limit: Array, drawn: Any) -> Array:  # noqa: ARG002
        """As the average, edge by edge."""
        difference = sent[..., self.source] - x[..., self.target]
        return x.at[..., self.target].add(self.weight * jnp.clip(difference, -limit, limit))

    def maximum(self, x: Array, drawn: Any = None) -> Array:  # noqa: ARG002
        """Scatters every edge's value to its target."""
        return x.at[..., self.target].max(x[..., self.source])


@dataclass(frozen=True)
class RandomEdge(Reliable):
    """One uniformly random edge a round, drawn anew for each run; its ends average."""

    ends: Array
    """`[E or more, 2]`; rows beyond `count` are padding."""
    count: Array

    def draw(self, seed: Array, t: Array, runs: int, dtype: Any) -> Array:
        """A uniform number for each run, `[R]`."""
        return streams.uniforms(streams.round_key(streams.EDGES, seed, t), (runs,), dtype)

    def exchange(
        self,
        x: Array,
        sent: Array,
        drawn: Array,
        memory: Any,  # noqa: ARG002
    ) -> tuple[Array, Any]:
        """(x^u + x^v)/2 at both ends of the edge, everyone else unchanged."""
        runs, u, v = self._chosen(x, drawn)
        at_u = (x[:, runs, u] + sent[:, runs, v]) / 2
        at_v = (sent[:, runs, u] + x[:, runs, v]) / 2
        return x.at[:, runs, u].set(at_u).at[:, runs, v].set(at_v), None

    def clipped(self, x: Array, sent: Array, limit: Array, drawn: Array) -> Array:
        """The ends of the edge move by half of their difference."""
        runs, u, v = self._chosen(x, drawn)
        to_u = jnp.clip(sent[:, runs, v] - x[:, runs, u], -limit, limit) / 2
        to_v = jnp.clip(sent[:, runs, u] - x[:, runs, v], -limit, limit) / 2
        return x.at[:, runs, u].add(to_u).at[:, runs, v].add(to_v)

    def _chosen(self, x: Array, drawn: Array) -> tuple[Array, Array, Array]:
        """Every run, and the two ends of its edge."""
        chosen = jnp.minimum((drawn * self.count).astype("int32"), self.count - 1)
        u, v = self.ends[chosen].T
        return jnp.arange(x.shape[1]), u, v


def product_with(x: Array, matrix: Array) -> Array:
    """`[..., N]` times `[P, P]`, P >= N, summed in float32."""
    agents, padded = x.shape[-1], matrix.shape[0]
    wide = jnp.pad(x, [(0, 0)] * (x.ndim - 1) + [(0, padded - agents)])
    total = jnp.matmul(
        wide, matrix, preferred_element_type=jnp.float32, precision=jax.lax.Precision.HIGHEST
    )
    return total[..., :agents]


def _over_rows(step: Any, start: Array, rows: tuple[Array, ...]) -> Array:
    """`step` over the rows of the neighbour lists: unrolled while they are few."""
    if rows[0].shape[0] <= _UNROLLED_DEGREE:
        for j in range(rows[0].shape[0]):
            start, _ = step(start, tuple(row[j] for row in rows))
        return start
    # Four at a time halve what an accelerator reads and writes of the sum; a CPU gains nothing.
    return jax.lax.scan(step, start, rows, unroll=1 if on_cpu() else 4)[0]
