"""How messages are combined: the gossip matrix in whichever form the graph makes fast.

Every form takes `x` of shape `[K, R, N]` and gives `average`, Σ_u W_uv x^u, and `maximum`, over an
agent and its neighbours. Up to 256 agents the matrix is dense, so that all networks of one size
share one compiled program; above, the form is chosen by the graph.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol
from weakref import WeakKeyDictionary

import jax
import jax.numpy as jnp
import numpy as np
from numpy.typing import DTypeLike

from fedbandits.algorithms.base import AnyAlgorithm
from fedbandits.arrays import Array
from fedbandits.gossip import Gossip

from . import pytrees

DENSE_AGENTS = 256
# Above that, a matrix product beats gathering neighbours from about this share of pairs linked.
_DENSE_SHARE = 0.05
_DENSE_MEMORY_AGENTS = 20_000
# Neighbour lists padded to the largest degree may be this many times longer than the edges.
_PADDING = 4
_UNROLLED_DEGREE = 8
# Largest values looked at one by one before a maximum over a dense matrix goes over all agents.
_LEVELS = 8
_TILE = 128


# Forms of large graphs take as long to make as thousands of rounds to play: kept with the gossip.
_forms: WeakKeyDictionary[Gossip, dict[tuple[str, Any], Form]] = WeakKeyDictionary()


class Form(Protocol):
    """One way to hold a matrix."""

    def average(self, x: Array, uniform: Array) -> Array:
        """Σ_u W_uv x^u, `[K, R, N]`; `uniform` `[R]` chooses the edge where it is random."""

    def maximum(self, x: Array) -> Array:
        """Largest of the agent's own and its neighbours' values, `[K, R, N]`."""


@dataclass(frozen=True)
class Dense:
    """A full matrix `[N, N]`; for the maximum its support and diagonal are what counts."""

    matrix: Array

    def average(self, x: Array, uniform: Array) -> Array:  # noqa: ARG002
        """One matrix product, at full precision: no TF32."""
        return jnp.matmul(x, self.matrix, precision=jax.lax.Precision.HIGHEST)

    def maximum(self, x: Array) -> Array:
        """Level by level: who hears the largest value, who of the rest the next, and so on.

        Play counts of well-linked agents have few levels, each one matrix product. Where some
        agents have heard nothing after a few levels, a pass over all agents settles it.
        """
        linked = (self.matrix > 0).astype(x.dtype)

        def spread(before: tuple[Array, Array, Array]) -> tuple[Array, Array, Array]:
            step, rest, heard = before
            level = rest.max(axis=-1, keepdims=True)
            bearers = rest == level
            # Only whether the sum is positive matters, so any precision does.
            reached = jnp.matmul(bearers.astype(x.dtype), linked) > 0
            heard = jnp.where(reached & jnp.isneginf(heard), level, heard)
            return step + 1, jnp.where(bearers, -jnp.inf, rest), heard

        def waiting(before: tuple[Array, Array, Array]) -> Array:
            return (before[0] < _LEVELS) & jnp.isneginf(before[2]).any()

        start = (jnp.int32(0), x, jnp.full_like(x, -jnp.inf))
        _, _, heard = jax.lax.while_loop(waiting, spread, start)
        return jax.lax.cond(jnp.isneginf(heard).any(), self._pass_over_agents, lambda _: heard, x)

    def _pass_over_agents(self, x: Array) -> Array:
        """Every agent in turn lifts its neighbours."""

        def lift(u: Array, largest: Array) -> Array:
            heard = jnp.where(self.matrix[u] > 0, x[:, :, u, None], -jnp.inf)
            return jnp.maximum(largest, heard)

        return jax.lax.fori_loop(0, x.shape[-1], lift, x)


@dataclass(frozen=True)
class EqualWeights:
    """A dense graph whose edges all weigh the same, for tensor cores: W = diag(own) + w A.

    A is 0 or 1, hence exact in bfloat16; float32 is the sum of three bfloat16 numbers. So one
    product of bfloat16 matrices has the accuracy of float32.
    """

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
        return self.own * x + self.weight * self._heard(jnp.stack(parts)).sum(axis=0)

    def _heard(self, x: Array) -> Array:
        """Σ over neighbours, `[..., N]`, summed in float32."""
        agents, padded = x.shape[-1], self.adjacency.shape[0]
        wide = jnp.pad(x, [(0, 0)] * (x.ndim - 1) + [(0, padded - agents)])
        total = jnp.matmul(wide, self.adjacency, preferred_element_type=jnp.float32)
        return total[..., :agents]

    def maximum(self, x: Array) -> Array:
        """Never used: see `Mixer`."""
        raise NotImplementedError


@dataclass(frozen=True)
class Complete:
    """All agents linked with one weight: W = (1 - N w) I + w 11ᵀ."""

    weight: Array

    def average(self, x: Array, uniform: Array) -> Array:  # noqa: ARG002
        """(1 - N w) x + w Σ_u x^u."""
        return (1 - x.shape[-1] * self.weight) * x + self.weight * x.sum(-1, keepdims=True)

    def maximum(self, x: Array) -> Array:
        """The largest of all."""
        return jnp.broadcast_to(x.max(-1, keepdims=True), x.shape)


@dataclass(frozen=True)
class Neighbours:
    """Neighbour lists padded to the largest degree D: `[D, N]` indices and weights, own `[N]`."""

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
class Edges:
    """Directed edges as lists, for graphs with hubs: from, to `[M]`, weight `[M]`, own `[N]`."""

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

    def maximum(self, x: Array) -> Array:
        """Never used: see `Mixer`."""
        raise NotImplementedError


@dataclass(frozen=True)
class Mixer:
    """The forms an algorithm's messages need: one for averages, one for maxima."""

    averages: Form | None
    maxima: Form | None

    def combine(self, how: str, x: Array, uniform: Array) -> Array:
        """The combined messages of one leaf, `[K, R, N]`."""
        if how == "average":
            assert self.averages is not None
            return self.averages.average(x, uniform)
        assert self.maxima is not None
        return self.maxima.maximum(x)


def mixer(gossip: Gossip | None, algorithm: AnyAlgorithm, dtype: DTypeLike) -> Mixer:
    """The forms of `gossip` that this algorithm's leaves need, ready for tracing."""
    needed = {leaf.combine for leaf in algorithm.leaves.values()}
    if gossip is None or not needed:
        return _registered(Mixer(None, None))
    made = _forms.setdefault(gossip, {})
    makers = {"average": _form_of_averages, "maximum": _form_of_maxima}
    for how in needed:
        if (how, np.dtype(dtype)) not in made:
            made[how, np.dtype(dtype)] = makers[how](gossip, dtype)
    averages, maxima = (
        made[how, np.dtype(dtype)] if how in needed else None for how in ("average", "maximum")
    )
    return _registered(Mixer(averages, maxima))


def _registered(value: Mixer) -> Mixer:
    pytrees.register(value)
    return value


def _form_of_averages(gossip: Gossip, dtype: DTypeLike) -> Form:
    network = gossip.network
    if gossip.rule == "random_edge" and network.agents > 1:
        ends = network.edges.astype(np.int32)
        if network.agents <= DENSE_AGENTS:  # one shape for all networks of a size
            most = network.agents * (network.agents - 1) // 2
            ends = np.concatenate([ends, np.zeros((most - len(ends), 2), np.int32)])
        return RandomEdge(ends, np.int32(len(network.edges)))
    return _form(gossip.matrix, network.family == "complete", dtype, averages=True)


def _form_of_maxima(gossip: Gossip, dtype: DTypeLike) -> Form:
    """Maxima travel over every edge of the network, in each round, whatever the averages do."""
    import scipy.sparse as sp

    network = gossip.network
    identity = sp.eye_array(network.agents, format="csr")
    if gossip.rule == "none":
        return _form(identity, False, dtype)
    return _form((network.adjacency + identity).tocsr(), network.family == "complete", dtype)


def _form(matrix: Any, complete: bool, dtype: DTypeLike, *, averages: bool = False) -> Form:
    """The form for a sparse matrix `[N, N]` whose column v holds the weights of what v hears."""
    agents = matrix.shape[0]
    if agents <= DENSE_AGENTS:
        return Dense(matrix.toarray().astype(dtype))
    incoming = matrix.T.tocsr()
    own = incoming.diagonal()
    if complete and incoming.nnz == agents**2 and np.ptp(off := _off_diagonal(incoming)[2]) < 1e-12:
        return Complete(np.asarray(off[0], dtype))
    if incoming.nnz > _DENSE_SHARE * agents**2 and agents <= _DENSE_MEMORY_AGENTS:
        off = _off_diagonal(incoming)[2]
        tensor_cores = jax.default_backend() != "cpu" and np.dtype(dtype) == np.float32
        if averages and tensor_cores and np.ptp(off) < 1e-12:
            return _equal_weights(incoming, own.astype(dtype), np.asarray(off[0], dtype))
        return Dense(matrix.toarray().astype(dtype))
    target, source, weight = _off_diagonal(incoming)
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


def _equal_weights(incoming: Any, own: Any, weight: Any) -> EqualWeights:
    """The adjacency in bfloat16, padded to what tensor cores take at once."""
    agents = incoming.shape[0]
    padded = -(-agents // _TILE) * _TILE
    adjacency = np.zeros((padded, padded), jnp.bfloat16)
    target, source, _ = _off_diagonal(incoming)
    adjacency[source, target] = 1
    return EqualWeights(adjacency, weight, own)


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
    return jax.lax.scan(step, start, rows)[0]
