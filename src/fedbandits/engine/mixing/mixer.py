"""Which form of the gossip matrix an algorithm's messages are combined with.

Up to 256 agents the matrix is dense, so that all networks of one size share one compiled program;
above, the form is chosen by the graph.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeVar
from weakref import WeakKeyDictionary

import jax
import jax.numpy as jnp
import numpy as np
from numpy.typing import DTypeLike

from fedbandits.algorithms.base import AnyAlgorithm
from fedbandits.arrays import Array
from fedbandits.common.backend import on_cpu
from fedbandits.engine import pytrees
from fedbandits.engine.executors.kernel_support import kernels
from fedbandits.gossip.base import Gossip
from fedbandits.networks.base import Network

from .clipped_form import Clipped
from .gather_kernel import NeighbourSums, neighbour_sums
from .link_forms import link_form
from .linked_maximum import LinkedMatrix
from .matrix_forms import (
    Averages,
    Complete,
    Dense,
    Edges,
    EqualWeights,
    Everyone,
    Maxima,
    Neighbours,
    RandomEdge,
    Shifts,
)
from .row_form import Rows, rows

Lists = TypeVar("Lists")

DENSE_AGENTS = 256
# Above that, a matrix product beats gathering neighbours from about this share of pairs linked.
_DENSE_SHARE = 0.05
_DENSE_MEMORY_AGENTS = 20_000
# Neighbour lists padded to the largest degree may be this many times longer than the edges.
_PADDING = 4
# Lists of more neighbours than these are read by rows on a CPU, 3 to 7 times as quickly (measured
# with 20 to 30); for few, as on a grid with 4, the rows take longer to make than the lists to read.
_FEW = 8
# Half of an agent's neighbours are within so many numbers where a GPU's one kernel gathers them.
_NEAR = 2**14
# Weights from here on lose a 130,000th at most when made multiples of 2^-24.
_LEAST_WEIGHT = 2.0**-7
_TILE = 128

# Forms of large graphs take as long to make as thousands of rounds to play: kept with the gossip.
_forms: WeakKeyDictionary[Gossip, dict[tuple[Any, ...], Any]] = WeakKeyDictionary()


@dataclass(frozen=True)
class Mixer:
    """The forms an algorithm's messages need: for averages, for maxima and for floods."""

    averages: Averages | None
    maxima: Maxima | None
    floods: Averages | None = None

    def draw(self, seed: Array, t: Array, runs: int, dtype: Any) -> Any:
        """What happens to the links in round t; None where they are always the same."""
        return None if self.averages is None else self.averages.draw(seed, t, runs, dtype)

    def first_memory(self, how: str, message: Array) -> Any:
        """What links remember before round 1 of the messages of one leaf; None for nothing."""
        if how != "average" or self.averages is None:
            return None
        return self.averages.first_memory(message)

    def combine(
        self,
        how: str,
        x: Array,
        sent: Array | None = None,
        drawn: Any = None,
        memory: Any = None,
    ) -> tuple[Array, Any]:
        """The combined messages of one leaf, `[K, R, N]`, and what links remember of them.

        Args:
            how: as the leaf declares.
            x: what the agents hold.
            sent: what they send to their neighbours; the same by default.
            drawn: from `draw`.
            memory: from the round before.
        """
        sent = x if sent is None else sent
        if how == "average":
            assert self.averages is not None
            return self.averages.exchange(x, sent, drawn, memory)
        if how == "flood":
            assert self.floods is not None
            return self.floods.exchange(sent, sent, None, None)
        assert self.maxima is not None
        return self.maxima.maximum(sent, drawn), None


def mixer(
    gossip: Gossip | None, algorithm: AnyAlgorithm, dtype: DTypeLike, devices: int = 1
) -> Mixer:
    """The forms of `gossip` that this algorithm's leaves need, ready for tracing.

    XLA spreads what it makes itself over several `devices`, and kernels of ours over none.
    """
    needed = {leaf.combine for leaf in algorithm.leaves.values()}
    forms: dict[str, Any] = {}
    if gossip is not None and gossip.faults is not None and gossip.network.agents > 1:
        # One form for both: maxima are lost with the message they are in.
        forms = dict.fromkeys(("average", "maximum"), _kept(gossip, dtype))
    elif gossip is not None:
        made = _forms.setdefault(gossip, {})
        makers: dict[str, Callable[[], Any]] = {
            "average": lambda: _form_of_averages(gossip, dtype, alone=devices == 1),
            "maximum": lambda: _form_of_maxima(gossip, dtype),
            "flood": lambda: _form_of_floods(gossip, algorithm.hops, dtype, alone=devices == 1),
        }
        for how in needed:
            what = f"flood {algorithm.hops}" if how == "flood" else how
            key = (what, np.dtype(dtype), on_cpu(), devices == 1)
            if key not in made:
                made[key] = jax.device_put(_registered(makers[how]()))
            forms[how] = made[key]
    mix: Mixer = _registered(Mixer(*(forms.get(how) for how in ("average", "maximum", "flood"))))
    return mix


def _kept(gossip: Gossip, dtype: DTypeLike) -> Any:
    """The form of a gossip over bad links."""
    made = _forms.setdefault(gossip, {})
    key = ("links", np.dtype(dtype), on_cpu())
    if key not in made:
        made[key] = jax.device_put(_registered(link_form(gossip, dtype)))
    return made[key]


def _registered(value: Any) -> Any:
    pytrees.register(value)
    return value


def _form_of_averages(gossip: Gossip, dtype: DTypeLike, *, alone: bool) -> Averages:
    network = gossip.network
    limited = gossip.limit < math.inf
    if gossip.random and network.agents > 1:
        ends = network.edges.astype(np.int32)
        if network.agents <= DENSE_AGENTS:  # one shape for all networks of a size
            most = network.agents * (network.agents - 1) // 2
            ends = np.concatenate([ends, np.zeros((most - len(ends), 2), np.int32)])
        edge = RandomEdge(ends, np.int32(len(network.edges)))
        return Clipped(edge, np.asarray(gossip.limit, dtype)) if limited else edge
    incoming = _summing_to_one(gossip.matrix.T.tocsr(), dtype)
    if limited:
        return Clipped(_lists(incoming, dtype), np.asarray(gossip.limit, dtype))
    if (compact := _compact(incoming, dtype, partial(_sums, alone=alone))) is not None:
        return compact
    diagonal, off = incoming.diagonal(), _off_diagonal(incoming)[2]
    tensor_cores = _tensor_cores(network.agents) and np.dtype(dtype) == np.float32
    if tensor_cores and np.ptp(off) < 1e-12:
        weight = np.asarray(off[0], dtype)
        adjacency = _zero_one(incoming, diagonal=False, dtype=jnp.float16)
        return EqualWeights(adjacency, weight, diagonal.astype(dtype))
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
    diagonal = 1.0 - np.bincount(target, rounded.data, minlength=incoming.shape[0])
    return (rounded + sp.diags_array(diagonal)).tocsr()


def _form_of_maxima(gossip: Gossip, dtype: DTypeLike) -> Maxima:
    """Maxima travel over every edge of the network, in each round, whatever the averages do."""
    import scipy.sparse as sp

    network = gossip.network
    linked = sp.eye_array(network.agents, format="csr")
    if not gossip.silent:
        linked = (network.adjacency + linked).tocsr()
    if (compact := _compact(linked, dtype, _lists)) is not None:
        return compact
    if _tensor_cores(network.agents):
        return LinkedMatrix(_zero_one(linked, diagonal=True))
    return LinkedMatrix((linked.toarray() > 0).astype(np.float32))


def _form_of_floods(gossip: Gossip, hops: int, dtype: DTypeLike, *, alone: bool) -> Averages:
    """Floods travel over every edge of the network, in each round, whatever the averages do."""
    network = gossip.network
    if network.agents > DENSE_AGENTS and not gossip.silent and _reach_everyone(network, hops):
        return Everyone()
    within = network.within(0 if gossip.silent else hops)
    if (compact := _compact(within, dtype, partial(_sums, alone=alone))) is not None:
        return compact
    return Dense(within.toarray().astype(dtype))


def _reach_everyone(network: Network, hops: int) -> bool:
    """Whether no two agents are farther apart; no list of all pairs, which fills a machine."""
    # One search tells most networks apart; the diameter may take many.
    near = network.connected and bool(network.distances(0).max() <= hops)
    return near and network.diameter <= hops


def _compact(
    incoming: Any, dtype: DTypeLike, lists: Callable[[Any, DTypeLike], Lists]
) -> Complete | Shifts | Lists | None:
    """A form smaller than the matrix `[N, N]`, whose row v holds the weights of what v hears.

    Args:
        incoming: that matrix, sparse.
        dtype: of the weights.
        lists: makes the form of a graph that follows no rule.

    Returns:
        the form; None where a matrix product is the way: small or dense.
    """
    agents = incoming.shape[0]
    if agents <= DENSE_AGENTS:
        return None
    diagonal = incoming.diagonal()
    target, source, weight = _off_diagonal(incoming)
    if len(weight) == agents * (agents - 1) and max(np.ptp(weight), np.ptp(diagonal)) < 1e-12:
        return Complete(np.asarray(weight[0], dtype), np.asarray(diagonal[0], dtype))
    if incoming.nnz > _DENSE_SHARE * agents**2 and agents <= _DENSE_MEMORY_AGENTS:
        return None
    if len(weight) and np.ptp(weight) < 1e-12:
        distances, bit = np.unique(source - target, return_inverse=True)
        if len(distances) <= 8 and np.abs(distances).max() <= agents // 8:
            linked = np.zeros(agents, np.uint8)
            np.bitwise_or.at(linked, target, np.uint8(1) << bit.astype(np.uint8))
            alike = np.asarray(weight[0], dtype)
            return Shifts(tuple(int(d) for d in distances), linked, alike, diagonal.astype(dtype))
    return lists(incoming, dtype)


def _sums(
    incoming: Any, dtype: DTypeLike, *, alone: bool
) -> Rows | NeighbourSums | Neighbours | Edges:
    """Rows on a CPU, a kernel on a GPU where there is one, else lists."""
    made = _lists(incoming, dtype)
    if on_cpu() and isinstance(made, Neighbours) and made.index.shape[0] > _FEW:
        return rows(incoming, dtype)
    float32 = np.dtype(dtype) == np.float32
    if alone and kernels() and float32 and isinstance(made, Neighbours):
        target, source, _ = _off_diagonal(incoming)
        # Far off, all arms of neighbours at once fit in no cache, where one arm of all agents does.
        if len(target) and np.median(np.abs(target - source)) <= _NEAR:
            return neighbour_sums(made) or made
    return made


def _lists(incoming: Any, dtype: DTypeLike) -> Neighbours | Edges:
    """Neighbours or edges, whichever lists are shorter."""
    agents, diagonal = incoming.shape[0], incoming.diagonal()
    target, source, weight = _off_diagonal(incoming)
    degrees = np.bincount(target, minlength=agents)
    if degrees.max(initial=0) * agents <= _PADDING * (len(weight) + agents):
        slot = np.arange(len(target)) - np.repeat(np.cumsum(degrees) - degrees, degrees)
        shape = (int(degrees.max(initial=0)), agents)
        index = np.broadcast_to(np.arange(agents, dtype=np.int32), shape).copy()
        padded = np.zeros(shape, dtype)
        index[slot, target] = source
        padded[slot, target] = weight
        return Neighbours(index, padded, diagonal.astype(dtype))
    ends = source.astype(np.int32), target.astype(np.int32)
    return Edges(*ends, weight.astype(dtype), diagonal.astype(dtype))


def _tensor_cores(agents: int) -> bool:
    return not on_cpu() and agents > DENSE_AGENTS


def _zero_one(incoming: Any, *, diagonal: bool, dtype: DTypeLike = jnp.bfloat16) -> Any:
    """Who hears whom in 16 bits, padded to what tensor cores take at once."""
    agents = incoming.shape[0]
    padded = -(-agents // _TILE) * _TILE
    linked = np.zeros((padded, padded), dtype)
    target, source, _ = _off_diagonal(incoming)
    linked[source, target] = 1
    if diagonal:
        linked[np.arange(agents), np.arange(agents)] = 1
    return linked


def _off_diagonal(incoming: Any) -> tuple[Any, Any, Any]:
    """Rows, columns and values beside the diagonal, sorted by row."""
    entries = incoming.tocoo()
    keep = (entries.row != entries.col) & (entries.data != 0)
    return entries.row[keep], entries.col[keep], entries.data[keep]
