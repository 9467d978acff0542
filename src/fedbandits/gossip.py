"""Gossip: doubly stochastic matrices on a network, and how fast they mix.

Each round every agent replaces its message by the weighted mean Σ_u W_uv z^u over itself and its
neighbours. σ2, the second largest singular value of W, says how slowly that reaches agreement.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from .checks import explained, whole
from .describe import array_hash
from .networks import Network, from_edges
from .networks.base import call
from .networks.given import square
from .sparse_graphs import Floats, count_components, laplacian_of, symmetric
from .spectra import rough_modes, smooth_modes

if TYPE_CHECKING:
    from .sparse_graphs import Sparse

_SUM_TOLERANCE = 1e-8
_ROUNDING = 1e-13


@dataclass(frozen=True, eq=False, repr=False)
class Gossip:
    """A doubly stochastic matrix W on a network. Made by the functions of this module.

    Arguments:
        network: the graph W lives on.
        rule: the constructor's name.
        parameters: its arguments as plain data.
        weights: what W is made of: a number w for W = I - w L; [E] one weight per edge of the
            network, for W = I - A diag(w) Aᵀ; or W itself, [N, N] sparse.

    Example:
        >>> from fedbandits import networks
        >>> gossip = max_degree(networks.grid(6, 6))
        >>> gossip
        max_degree(lazy=True) on grid(rows=6, cols=6)
        >>> round(gossip.sigma2, 4), round(gossip.c_w(3000), 1)
        (0.9732, 226.9)
    """

    network: Network
    rule: str
    parameters: Mapping[str, Any]
    weights: float | Floats | Sparse

    @cached_property
    def name(self) -> str:
        """The calls that made it."""
        rule = call(self.rule, self.parameters) if self.parameters else self.rule
        return f"{rule} on {self.network.name}"

    def __repr__(self) -> str:
        return self.name

    @cached_property
    def matrix(self) -> Sparse:
        """W: [N, N] sparse. For `random_edge` the expectation of the random matrix."""
        from scipy.sparse import csr_array, diags_array

        if not isinstance(self.weights, float | np.ndarray):
            return self.weights
        sides = symmetric(self.network.agents, self.network.edges, self.edge_weights)
        own = np.maximum(1 - sides.sum(axis=1), 0)  # rounding must not make it negative
        return csr_array(diags_array(own) + sides)

    @property
    def edge_weights(self) -> Floats:
        """[E] weights of the network's edges; `from_matrix` has none (see `matrix`)."""
        if not isinstance(self.weights, float | np.ndarray):
            raise ValueError(f"{self.name} may differ by direction; read gossip.matrix instead")
        weights: Floats = np.asarray(self.weights)
        return np.broadcast_to(weights, len(self.network.edges))

    @cached_property
    def gap(self) -> float:
        """1 - σ2, the spectral gap; 0 when messages never agree."""
        network, weight = self.network, self.weights
        if network.agents == 1:
            return 1.0
        if self.rule == "none":
            return 0.0
        if not isinstance(weight, float):
            return min(_gap(self.matrix), 1.0)
        # W = I - wL: the network knows the eigenvalues of L, often in closed form
        slowest = weight * network.algebraic_connectivity
        if slowest <= 2 - 2 * weight * network.max_degree:  # since λ_1 ≤ 2 d_max
            return slowest
        return min(slowest, 2 - weight * network.largest_laplacian_eigenvalue)

    @cached_property
    def sigma2(self) -> float:
        """σ2, the second largest singular value of W (the largest of W - 11ᵀ/N)."""
        return 1 - self.gap

    def c_w(self, horizon: int) -> float:
        """The paper's C_W = min{2 ln T + ln N, √N} / (1 - σ2) + 3, the price of the network.

        Arguments:
            horizon: T, the number of rounds.

        Returns:
            C_W; infinite when the spectral gap is 0.

        Example:
            >>> from fedbandits import networks
            >>> max_degree(networks.path(1)).c_w(100)
            4.0
        """
        rounds = whole(horizon, "horizon", least=1)
        if self.gap == 0:
            return math.inf
        agents = self.network.agents
        return min(2 * math.log(rounds) + math.log(agents), math.sqrt(agents)) / self.gap + 3

    @cached_property
    def directed_edges(self) -> int:
        """The number of pairs u ≠ v with W_uv > 0: who sends to whom."""
        if isinstance(self.weights, float | np.ndarray):
            return 2 * int(np.count_nonzero(self.edge_weights))
        return int(self.matrix.count_nonzero() - np.count_nonzero(self.matrix.diagonal()))


@explained
def max_degree(network: Network, lazy: bool = True) -> Gossip:
    """W = I - L / (2 (1 + d_max)), the paper's matrix.

    Arguments:
        network: a connected network.
        lazy: the paper's, positive semi-definite; False is the one behind the paper's figures,
            I - L / (1 + d_max).

    Example:
        >>> from fedbandits import networks
        >>> max_degree(networks.complete(4), lazy=False).sigma2
        0.0
    """
    _require_connected(network, "max_degree")
    if not isinstance(lazy, bool | np.bool):
        raise TypeError(f"lazy must be True or False, not {lazy!r}")
    weight = 1 / ((2 if lazy else 1) * (1 + network.max_degree))
    return Gossip(network, "max_degree", {"lazy": bool(lazy)}, weight)


@explained
def metropolis(network: Network) -> Gossip:
    """W_uv = 1 / (1 + max(d_u, d_v)) on edges, the rest on the diagonal.

    Example:
        >>> from fedbandits import networks
        >>> metropolis(networks.path(3)).matrix.toarray().round(2)
        array([[0.67, 0.33, 0.  ],
               [0.33, 0.33, 0.33],
               [0.  , 0.33, 0.67]])
    """
    _require_connected(network, "metropolis")
    if network.degrees.min() == network.max_degree:  # regular: W = I - L / (1 + d)
        return Gossip(network, "metropolis", {}, 1 / (1 + network.max_degree))
    return Gossip(network, "metropolis", {}, _metropolis_weights(network))


@explained
def fastest(network: Network) -> Gossip:
    """The symmetric W on this network with the smallest σ2.

    Up to 50 agents the optimum, by a semidefinite program. Then, up to 5,000 edges, by cutting
    planes, which on the graphs tested lose at most 0.5% of the optimal gap; above that, by a
    subgradient method, which loses more. Never worse than `max_degree` or `metropolis`.

    Example:
        >>> from fedbandits import networks
        >>> round(fastest(networks.path(4)).sigma2, 4)
        0.7071
    """
    from .fastest import fastest_weights

    _require_connected(network, "fastest")
    known = [max_degree(network, lazy=False), max_degree(network), metropolis(network)]
    best = max(known, key=lambda gossip: gossip.gap)
    if best.gap < 1:  # not N = 1 or a complete graph, where nothing is left to gain
        start = best.edge_weights
        weights = fastest_weights(network.agents, network.edges, start)
        best = max(best, Gossip(network, "fastest", {}, weights), key=lambda gossip: gossip.gap)
    return Gossip(network, "fastest", {}, best.weights)


@explained
def random_edge(network: Network) -> Gossip:
    """One edge a round, drawn uniformly: its two agents average, all others keep.

    So messages are averaged; what is combined by the maximum or flooded travels over every edge in
    every round. E[W_t] = I - L / (2 |E|); σ2, gap and C_W are those of this expectation.

    Example:
        >>> from fedbandits import networks
        >>> random_edge(networks.path(2)).matrix.toarray()
        array([[0.5, 0.5],
               [0.5, 0.5]])
    """
    _require_connected(network, "random_edge")
    return Gossip(network, "random_edge", {}, 1 / (2 * max(len(network.edges), 1)))


@explained
def none(network: Network) -> Gossip:
    """W = I: no communication. The only rule that takes a disconnected network.

    Example:
        >>> from fedbandits import networks
        >>> none(networks.path(3)).c_w(10)
        inf
    """
    _require_network(network, "none")
    return Gossip(network, "none", {}, 0.0)


@explained
def from_matrix(matrix: Any, network: Network | None = None) -> Gossip:
    """A matrix of your own, checked: doubly stochastic, and zero where there is no edge.

    Arguments:
        matrix: [N, N], NumPy or SciPy sparse; need not be symmetric.
        network: the graph it must respect; None takes the graph of its non-zero entries.

    Example:
        >>> gossip = from_matrix([[0.5, 0.5], [0.5, 0.5]])
        >>> gossip.network.edges.tolist(), round(gossip.gap, 12)
        ([[0, 1]], 1.0)
    """
    W = square(matrix, "gossip matrix")
    W.sum_duplicates()
    W.eliminate_zeros()
    _require_doubly_stochastic(W)
    entries = W.tocoo()
    rows, cols = entries.coords
    links = np.sort(np.column_stack([rows, cols])[rows != cols], axis=1)
    if network is None:
        network = from_edges(W.shape[0], np.unique(links, axis=0))
    _require_connected(network, "from_matrix")
    if network.agents != W.shape[0]:
        raise ValueError(
            f"the gossip matrix is for {W.shape[0]} agents but {network.name} has "
            f"{network.agents}; give the matrix and the network the same number"
        )
    _require_supported(W, network)
    content = np.concatenate([rows, cols, entries.data]).astype(np.float64)
    return Gossip(network, "from_matrix", {"matrix_sha256": array_hash(content)}, W)


REGISTRY: dict[str, Callable[..., Gossip]] = {
    make.__name__: make for make in (max_degree, metropolis, fastest, random_edge, none)
}
"""The rules a configuration can name; `from_matrix` takes a matrix, which it cannot."""


def _metropolis_weights(network: Network) -> Floats:
    larger: Floats = network.degrees[network.edges].max(axis=1).astype(np.float64)
    return 1 / (1 + larger)


def _gap(W: Sparse) -> float:
    """1 - σ2 of any doubly stochastic matrix."""
    if abs(W - W.T).max() <= _ROUNDING:
        slowest = _connectivity(W)
        if slowest <= 2 * W.diagonal().min():  # Gershgorin: no eigenvalue below 2 min W_vv - 1
            return slowest
        negative = 2 - float(rough_modes(laplacian_of(W))[0][0])
        return min(slowest, negative if negative > _ROUNDING else 0.0)
    # W Wᵀ is symmetric, doubly stochastic, and has the squares σ² as its eigenvalues
    squared = min(_connectivity((W @ W.T).tocsr()), 1.0)  # 1 - σ2²
    return squared / (1 + math.sqrt(1 - squared))


def _connectivity(W: Sparse) -> float:
    """1 - λ_2 of a symmetric doubly stochastic matrix; exactly 0 on a disconnected graph."""
    return float(smooth_modes(laplacian_of(W))[0][0]) if count_components(W) == 1 else 0.0


def _require_network(network: Any, rule: str) -> None:
    if not isinstance(network, Network):
        raise TypeError(
            f"gossip.{rule} takes a network such as networks.grid(6, 6), "
            f"not {type(network).__name__} {network!r}"
        )


def _require_connected(network: Any, rule: str) -> None:
    _require_network(network, rule)
    if not network.connected:
        raise ValueError(
            f"gossip.{rule} needs a connected network, but {network.name} has "
            f"{network.components} components; take a larger radius or more edges, another seed, "
            "or gossip.none for agents that do not communicate"
        )


def _require_doubly_stochastic(W: Sparse) -> None:
    entries = W.tocoo()
    for i in np.flatnonzero(~(entries.data >= 0))[:1]:  # NaN is not ≥ 0
        raise ValueError(
            f"gossip matrix entry [{entries.row[i]}, {entries.col[i]}] is {entries.data[i]:g}; "
            "entries must be 0 or more"
        )
    for axis, line in ((1, "row"), (0, "column")):
        sums = W.sum(axis=axis)
        for i in np.flatnonzero(~(np.abs(sums - 1) <= _SUM_TOLERANCE))[:1]:
            raise ValueError(
                f"gossip matrix {line} {i} sums to {sums[i]:.10g}, not 1; rows and columns must "
                f"each sum to 1 within {_SUM_TOLERANCE:g} (doubly stochastic)"
            )


def _require_supported(W: Sparse, network: Network) -> None:
    outside = (W - W.multiply(network.adjacency)).tocoo()
    for i in np.flatnonzero((outside.row != outside.col) & (outside.data != 0))[:1]:
        raise ValueError(
            f"gossip matrix entry [{outside.row[i]}, {outside.col[i]}] is {outside.data[i]:g}, but "
            f"{network.name} has no such edge; entries off the edges must be 0"
        )
