"""How messages are combined: the gossip matrix in whichever form the graph makes fast.

Every form takes `x` of shape `[K, R, N]` and gives `average`, Σ_u W_uv x^u, or `maximum`, over an
agent and its neighbours. Floods are averages too, with a matrix of zeros and ones. Up to 256
agents the matrix is dense, so that all networks of one size share one compiled program; above,
the form is chosen by the graph.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, ClassVar, Protocol
from weakref import WeakKeyDictionary

import jax
import jax.numpy as jnp
import numpy as np
from numpy.typing import DTypeLike

from fedbandits.algorithms.base import AnyAlgorithm
from fedbandits.arrays import Array
from fedbandits.common.backend import on_cpu
from fedbandits.gossip.base import Gossip

from . import pytrees

DENSE_AGENTS = 256
# Above that, a matrix product beats gathering neighbours from about this share of pairs linked.
_DENSE_SHARE = 0.05
_DENSE_MEMORY_AGENTS = 20_000
# Neighbour lists padded to the largest degree may be this many times longer than the edges.
_PADDING = 4
_UNROLLED_DEGREE = 8
# Weights from here on lose a 130,000th at most when made multiples of 2^-24.
_LEAST_WEIGHT = 2.0**-7
# Powers of two below 1 that float32 and bfloat16 hold with all their bits.
_EXPONENTS = 126
_TILE = 128


# Forms of large graphs take as long to make as thousands of rounds to play: kept with the gossip.
_forms: WeakKeyDictionary[Gossip, dict[tuple[str, Any, bool], Any]] = WeakKeyDictionary()


class Averages(Protocol):
    """One way to hold a matrix."""

    random: ClassVar[bool]
    """Whether it averages over an edge that is drawn in every round."""

    def average(self, x: Array, uniform: Array) -> Array:
        """Σ_u W_uv x^u, `[K, R, N]`; `uniform` `[R]` chooses the edge where it is random."""


class Maxima(Protocol):
    """One way to hold who is linked."""

    def maximum(self, x: Array) -> Array:
        """Largest of the agent's own and its neighbours' values, `[K, R, N]`."""


@dataclass(frozen=True)
class Dense:
    """A full matrix `[N, N]`."""

    random: ClassVar[bool] = False
    matrix: Array

    def average(self, x: Array, uniform: Array) -> Array:  # noqa: ARG002
        """One matrix product, at full precision: no TF32."""
        return jnp.matmul(x, self.matrix, precision=jax.lax.Precision.HIGHEST)


@dataclass(frozen=True)
class Links:
    """Who hears whom in a dense graph, everyone also themselves: 0 or 1, `[P, P]`, P >= N."""

    linked: Array

    def maximum(self, x: Array) -> Array:
        """The largest whole-numbered values by one matrix product, others by a pass over agents.

        A value d below the largest of all weighs B^(-d), B above twice the number of agents, so
        what an agent hears sums to between B^(-d) and B^(1-d) for the smallest d among its
        neighbours: the exponent tells d. Float32 has room for 8 values of d at 20,000 agents.
        Play counts are whole numbers, and what agents have heard of them differs by no more than
        news can be late, the diameter; dense graphs have small ones. Exact to the last bit of the
        largest value of all.
        """
        agents = x.shape[-1]
        bits = agents.bit_length() + 1
        levels = _EXPONENTS // bits
        top = x.max(axis=-1, keepdims=True)
        below = top - x
        depth = jnp.minimum(below, levels + 1.0).round().astype("int32")
        weight = jnp.where(depth <= levels, jnp.ldexp(jnp.float32(1), -bits * depth), 0.0)
        heard = _product(weight.astype(self.linked.dtype), self.linked)
        _, exponent = jnp.frexp(heard)  # heard in [2^(exponent - 1), 2^exponent)
        level = -((exponent - 1) // bits)
        exact = ((below == depth) | (depth > levels)).all() & (heard > 0).all()
        return jax.lax.cond(
            exact, lambda: top - level.astype(x.dtype), lambda: self._pass_over_agents(x)
        )

    def _pass_over_agents(self, x: Array) -> Array:
        """Every agent in turn lifts its neighbours."""

        def lift(u: Array, largest: Array) -> Array:
            heard = jnp.where(self.linked[u, : x.shape[-1]] > 0, x[:, :, u, None], -jnp.inf)
            return jnp.maximum(largest, heard)

        return jax.lax.fori_loop(0, x.shape[-1], lift, x)


@dataclass(frozen=True)
class EqualWeights:
    """A dense graph whose edges all weigh the same, for tensor cores: W = diag(own) + w A.

    A is 0 or 1, hence exact in bfloat16; float32 is the sum of three bfloat16 numbers. So one
    product of bfloat16 matrices has the accuracy of float32.
    """

    random: ClassVar[bool] = False
    adjacency: Array
    """`[P, P]` of bfloat16, N padded with zeros to P, a multiple of 128."""
    weight: Array
    own: Array

    def average(self, x: Array, uniform: Array) -> Array:  # noqa: ARG002
        """Own · x + w · (A x)."""
        parts, rest = [], x
        for _ in range(3):
            # A plain cast there and back is what XLA takes out.
            part = jax.lax.reduce_precision(rest, exponent_bits=8, mantissa_bits=7)
            parts.append(part.astype(jnp.bfloat16))
            rest = rest - part
        return self.own * x + self.weight * _product(jnp.stack(parts), self.adjacency).sum(axis=0)


@dataclass(frozen=True)
class Complete:
    """All agents linked with one weight: W = (1 - N w) I + w 11ᵀ."""

    random: ClassVar[bool] = False
    weight: Array

    def average(self, x: Array, uniform: Array) -> Array:  # noqa: ARG002
        """(1 - N w) x + w Σ_u x^u."""
        return (1 - x.shape[-1] * self.weight) * x + self.weight * x.sum(-1, keepdims=True)

    def maximum(self, x: Array) -> Array:
        """The largest of all."""
        return jnp.broadcast_to(x.max(-1, keepdims=True), x.shape)


@dataclass(frozen=True)
class Everyone:
    """A flood that reaches all agents."""

    random: ClassVar[bool] = False

    def average(self, x: Array, uniform: Array) -> Array:  # noqa: ARG002
        """Σ_u x^u."""
        return jnp.broadcast_to(x.sum(-1, keepdims=True), x.shape)


@dataclass(frozen=True)
class Neighbours:
    """Neighbour lists padded to the largest degree D: `[D, N]` indices and weights, own `[N]`."""

    random: ClassVar[bool] = False
    index: Array
    weight: Array
    own: Array

    def average(self, x: Array, uniform: Array) -> Array:  # noqa: ARG002
        """Gathers one neighbour of everyone at a time; padding has weight 0."""

        def add(total: Array, row: tuple[Array, Array]) -> tuple[Array, None]:
            index, weight = row
            return total + weight * x[..., index], None

        return _over_rows(add, x * self.own, (self.index, self.weight))

    def maximum(self, x: Array) -> Array:
        """Padding points at the agent itself, which changes no maximum."""

        def lift(largest: Array, row: tuple[Array]) -> tuple[Array, None]:
            return jnp.maximum(largest, x[..., row[0]]), None

        return _over_rows(lift, x, (self.index,))


@dataclass(frozen=True)
class Shifts:
    """Neighbours of one weight at a few fixed distances in the numbering, as on a grid.

    An accelerator then reads one byte for the neighbours of an agent, not an index and a weight
    for each: at a million agents that is most of the work.
    """

    random: ClassVar[bool] = False
    distances: tuple[int, ...] = field(metadata={"static": True})
    linked: Array
    """Bit j says whether there is a neighbour at distance j, `[N]` of bytes."""
    weight: Array
    own: Array

    def average(self, x: Array, uniform: Array) -> Array:  # noqa: ARG002
        """Own · x + w · (sum over neighbours)."""
        heard = [jnp.where(there, z, 0.0) for there, z in self._neighbours(x)]
        return self.own * x + self.weight * functools.reduce(jnp.add, heard)

    def maximum(self, x: Array) -> Array:
        """One neighbour of everyone at a time."""
        heard = [jnp.where(there, z, x) for there, z in self._neighbours(x)]
        return functools.reduce(jnp.maximum, heard, x)

    def _neighbours(self, x: Array) -> list[tuple[Array, Array]]:
        """For each distance, whether there is a neighbour, `[N]`, and its values, `[..., N]`."""
        reach, agents = max(map(abs, self.distances)), x.shape[-1]
        wide = jnp.pad(x, [(0, 0)] * (x.ndim - 1) + [(reach, reach)])
        return [
            ((self.linked >> j) & 1 > 0, wide[..., reach + d : reach + d + agents])
            for j, d in enumerate(self.distances)
        ]


@dataclass(frozen=True)
class Edges:
    """Directed edges as lists, for graphs with hubs: from, to `[M]`, weight `[M]`, own `[N]`."""

    random: ClassVar[bool] = False
    source: Array
    target: Array
    weight: Array
    own: Array

    def average(self, x: Array, uniform: Array) -> Array:  # noqa: ARG002
        """Scatters every edge's share to its target."""
        return (x * self.own).at[..., self.target].add(self.weight * x[..., self.source])

    def maximum(self, x: Array) -> Array:
        """Scatters every edge's value to its target."""
        return x.at[..., self.target].max(x[..., self.source])


@dataclass(frozen=True)
class RandomEdge:
    """One uniformly random edge a round, drawn anew for each run; its ends average."""

    random: ClassVar[bool] = True
    ends: Array
    """`[E or more, 2]`; rows beyond `count` are padding."""
    count: Array

    def average(self, x: Array, uniform: Array) -> Array:
        """(x^u + x^v)/2 at both ends of the edge, everyone else unchanged."""
        chosen = jnp.minimum((uniform * self.count).astype("int32"), self.count - 1)
        u, v = self.ends[chosen].T
        runs = jnp.arange(x.shape[1])
        middle = (x[:, runs, u] + x[:, runs, v]) / 2
        return x.at[:, runs, u].set(middle).at[:, runs, v].set(middle)


@dataclass(frozen=True)
class Mixer:
    """The forms an algorithm's messages need: for averages, for maxima and for floods."""

    averages: Averages | None
    maxima: Maxima | None
    floods: Averages | None = None

    @property
    def random(self) -> bool:
        """Whether averages need a uniform number for each run and round."""
        return self.averages is not None and self.averages.random

    def combine(self, how: str, x: Array, uniform: Array) -> Array:
        """The combined messages of one leaf, `[K, R, N]`."""
        if how == "average":
            assert self.averages is not None
            return self.averages.average(x, uniform)
        if how == "flood":
            assert self.floods is not None
            return self.floods.average(x, uniform)
        assert self.maxima is not None
        return self.maxima.maximum(x)


def mixer(gossip: Gossip | None, algorithm: AnyAlgorithm, dtype: DTypeLike) -> Mixer:
    """The forms of `gossip` that this algorithm's leaves need, ready for tracing."""
    needed = {leaf.combine for leaf in algorithm.leaves.values()}
    forms: dict[str, Any] = {}
    if gossip is not None:
        made = _forms.setdefault(gossip, {})
        makers: dict[str, Callable[[], Any]] = {
            "average": lambda: _form_of_averages(gossip, dtype),
            "maximum": lambda: _form_of_maxima(gossip, dtype),
            "flood": lambda: _form_of_floods(gossip, algorithm.hops, dtype),
        }
        for how in needed:
            what = f"{how} {algorithm.hops}" if how == "flood" else how
            key = (what, np.dtype(dtype), on_cpu())
            if key not in made:
                made[key] = jax.device_put(_registered(makers[how]()))
            forms[how] = made[key]
    mix: Mixer = _registered(Mixer(*(forms.get(how) for how in ("average", "maximum", "flood"))))
    return mix


def _registered(value: Any) -> Any:
    pytrees.register(value)
    return value


def _form_of_averages(gossip: Gossip, dtype: DTypeLike) -> Averages:
    network = gossip.network
    if gossip.random and network.agents > 1:
        ends = network.edges.astype(np.int32)
        if network.agents <= DENSE_AGENTS:  # one shape for all networks of a size
            most = network.agents * (network.agents - 1) // 2
            ends = np.concatenate([ends, np.zeros((most - len(ends), 2), np.int32)])
        return RandomEdge(ends, np.int32(len(network.edges)))
    incoming = _summing_to_one(gossip.matrix.T.tocsr(), dtype)
    if (compact := _compact(incoming, dtype)) is not None:
        return compact
    own, off = incoming.diagonal(), _off_diagonal(incoming)[2]
    tensor_cores = _tensor_cores(network.agents) and np.dtype(dtype) == np.float32
    if tensor_cores and np.ptp(off) < 1e-12:
        weight = np.asarray(off[0], dtype)
        return EqualWeights(_zero_one(incoming, diagonal=False), weight, own.astype(dtype))
    return Dense(incoming.T.toarray().astype(dtype))


def _summing_to_one(incoming: Any, dtype: DTypeLike) -> Any:
    """Row v, what v hears, with weights that sum to 1 in `dtype` too, not to 1 + 3e-8.

    A million rounds would make 3% of that. Beside the diagonal weights become multiples of 2^-24,
    which takes a 130,000th off at most, and the diagonal what is missing to 1: float32 then
    holds and adds all of them exactly. Matrices with smaller weights stay as they are.
    """
    import scipy.sparse as sp

    target, source, weight = _off_diagonal(incoming)
    if np.dtype(dtype) != np.float32 or weight.min(initial=1.0) < _LEAST_WEIGHT:
        return incoming
    rounded = sp.coo_array((np.floor(weight * 2.0**24) / 2.0**24, (target, source)), incoming.shape)
    own = 1.0 - np.bincount(target, rounded.data, minlength=incoming.shape[0])
    return (rounded + sp.diags_array(own)).tocsr()


def _form_of_maxima(gossip: Gossip, dtype: DTypeLike) -> Maxima:
    """Maxima travel over every edge of the network, in each round, whatever the averages do."""
    import scipy.sparse as sp

    network = gossip.network
    linked = sp.eye_array(network.agents, format="csr")
    if not gossip.silent:
        linked = (network.adjacency + linked).tocsr()
    if (compact := _compact(linked, dtype)) is not None:
        return compact
    if _tensor_cores(network.agents):
        return Links(_zero_one(linked, diagonal=True))
    return Links((linked.toarray() > 0).astype(np.float32))


def _form_of_floods(gossip: Gossip, hops: int, dtype: DTypeLike) -> Averages:
    """Floods travel over every edge of the network, in each round, whatever the averages do."""
    network = gossip.network
    within = network.within(0 if gossip.silent else hops)
    if network.agents > DENSE_AGENTS and within.nnz == network.agents**2:
        return Everyone()
    if (compact := _compact(within, dtype)) is not None:
        return compact
    return Dense(within.toarray().astype(dtype))


def _compact(incoming: Any, dtype: DTypeLike) -> Complete | Shifts | Neighbours | Edges | None:
    """A form smaller than the matrix `[N, N]`, whose row v holds the weights of what v hears.

    None where a matrix product is the way: small or dense.
    """
    agents = incoming.shape[0]
    if agents <= DENSE_AGENTS:
        return None
    own = incoming.diagonal()
    target, source, weight = _off_diagonal(incoming)
    if len(weight) == agents * (agents - 1) and max(np.ptp(weight), np.ptp(own)) < 1e-12:
        return Complete(np.asarray(weight[0], dtype))
    if incoming.nnz > _DENSE_SHARE * agents**2 and agents <= _DENSE_MEMORY_AGENTS:
        return None
    if not on_cpu() and len(weight) and np.ptp(weight) < 1e-12:
        distances, bit = np.unique(source - target, return_inverse=True)
        if len(distances) <= 8 and np.abs(distances).max() <= agents // 8:
            linked = np.zeros(agents, np.uint8)
            np.bitwise_or.at(linked, target, np.uint8(1) << bit.astype(np.uint8))
            alike = np.asarray(weight[0], dtype)
            return Shifts(tuple(int(d) for d in distances), linked, alike, own.astype(dtype))
    degrees = np.bincount(target, minlength=agents)
    if degrees.max(initial=0) * agents <= _PADDING * (len(weight) + agents):
        slot = np.arange(len(target)) - np.repeat(np.cumsum(degrees) - degrees, degrees)
        shape = (int(degrees.max(initial=0)), agents)
        index = np.broadcast_to(np.arange(agents, dtype=np.int32), shape).copy()
        padded = np.zeros(shape, dtype)
        index[slot, target] = source
        padded[slot, target] = weight
        return Neighbours(index, padded, own.astype(dtype))
    return Edges(
        source.astype(np.int32), target.astype(np.int32), weight.astype(dtype), own.astype(dtype)
    )


def _tensor_cores(agents: int) -> bool:
    return not on_cpu() and agents > DENSE_AGENTS


def _zero_one(incoming: Any, *, diagonal: bool) -> Any:
    """Who hears whom in bfloat16, padded to what tensor cores take at once."""
    agents = incoming.shape[0]
    padded = -(-agents // _TILE) * _TILE
    linked = np.zeros((padded, padded), jnp.bfloat16)
    target, source, _ = _off_diagonal(incoming)
    linked[source, target] = 1
    if diagonal:
        linked[np.arange(agents), np.arange(agents)] = 1
    return linked


def _product(x: Array, matrix: Array) -> Array:
    """`[..., N]` times `[P, P]`, P >= N, summed in float32."""
    agents, padded = x.shape[-1], matrix.shape[0]
    wide = jnp.pad(x, [(0, 0)] * (x.ndim - 1) + [(0, padded - agents)])
    total = jnp.matmul(
        wide, matrix, preferred_element_type=jnp.float32, precision=jax.lax.Precision.HIGHEST
    )
    return total[..., :agents]


def _off_diagonal(incoming: Any) -> tuple[Any, Any, Any]:
    """Rows, columns and values beside the diagonal, sorted by row."""
    entries = incoming.tocoo()
    keep = (entries.row != entries.col) & (entries.data != 0)
    return entries.row[keep], entries.col[keep], entries.data[keep]


def _over_rows(step: Any, start: Array, rows: tuple[Array, ...]) -> Array:
    """`step` over the rows of the neighbour lists: unrolled while they are few."""
    if rows[0].shape[0] <= _UNROLLED_DEGREE:
        for j in range(rows[0].shape[0]):
            start, _ = step(start, tuple(row[j] for row in rows))
        return start
    # Four at a time halve what an accelerator reads and writes of the sum; a CPU gains nothing.
    return jax.lax.scan(step, start, rows, unroll=1 if on_cpu() else 4)[0]
