"""Gossip: doubly stochastic matrices on a network, and how fast they mix.

Each round every agent replaces its message by the weighted mean Σ_u W_uv z^u over itself and its
neighbours. σ2, the second largest singular value of W, says how slowly that reaches agreement.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from fedbandits.common.checks import INT32, whole, within
from fedbandits.common.describe import array_hash, describe
from fedbandits.networks import Network, from_edges
from fedbandits.networks.conversion import square

from .bad_links import BadLinks, Loss, checked_churn, checked_loss, checked_rule
from .base import SUM_TOLERANCE, Gossip, metropolis_weights
from .limits import clipped

if TYPE_CHECKING:
    from fedbandits.networks.searches import Floats, Sparse


def max_degree(network: Network, lazy: bool = True) -> Gossip:
    """Return W = I - L / (2 (1 + d_max)), the paper's matrix.

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


def metropolis(network: Network) -> Gossip:
    """Return W_uv = 1 / (1 + max(d_u, d_v)) on edges, with the rest on the diagonal.

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
    return Gossip(network, "metropolis", {}, metropolis_weights(network))


def fastest(network: Network) -> Gossip:
    """Return the symmetric W on this network with the smallest σ2.

    Up to 50 agents the optimum, by a semidefinite program. Then, up to 5,000 edges, by cutting
    planes, which on the graphs tested lose at most 0.5% of the optimal gap; above that, by a
    subgradient method, which loses more. Never worse than `max_degree` or `metropolis`.

    Example:
        >>> from fedbandits import networks
        >>> round(fastest(networks.path(4)).sigma2, 4)
        0.7071
    """
    from .fastest_weights import fastest_weights

    _require_connected(network, "fastest")
    known = [max_degree(network, lazy=False), max_degree(network), metropolis(network)]
    best = max(known, key=lambda gossip: gossip.gap)
    if best.gap < 1:  # not N = 1 or a complete graph, where nothing is left to gain
        start = best.edge_weights
        weights = fastest_weights(network.agents, network.edges, start)
        best = max(best, Gossip(network, "fastest", {}, weights), key=lambda gossip: gossip.gap)
    return Gossip(network, "fastest", {}, best.weights)


def random_edge(network: Network) -> Gossip:
    """Draw one edge per round, uniformly; its two agents average, all others keep their values.

    So messages are averaged; what is combined by the maximum or flooded travels over every edge in
    every round. E[W_t] = I - L / (2 |E|), which is E WᵀW too: σ2 is the square root of its second
    largest eigenvalue, with which Theorem 3 holds in expectation over the edges.

    Example:
        >>> from fedbandits import networks
        >>> random_edge(networks.path(2)).matrix.toarray()
        array([[0.5, 0.5],
               [0.5, 0.5]])
    """
    _require_connected(network, "random_edge")
    weight = 1 / (2 * max(len(network.edges), 1))
    return Gossip(network, "random_edge", {}, weight, random=True)


def none(network: Network) -> Gossip:
    """Return W = I, no communication; the only rule for disconnected networks.

    Example:
        >>> from fedbandits import networks
        >>> none(networks.path(3)).c_w(10)
        inf
    """
    _require_network(network, "none")
    return Gossip(network, "none", {}, 0.0, silent=True)


def unreliable(
    gossip: Gossip,
    loss: Loss = 0.0,
    rule: str = "symmetric",
    *,
    delay: int = 0,
    up: int | None = None,
    down: int | None = None,
    active: float = 1.0,
) -> Gossip:
    """Use the same weights over links that lose messages, are late, or are down.

    In every round and run each message is lost independently of all others. Leaves combined by the
    maximum are lost with their message, but never late. Agents continue to play when their links
    are down. Messages count as sent, whether they arrive or not.

    For rule `symmetric` σ2 is sqrt(λ_2(E WᵀW)), and the theorems about plain averages hold in
    expectation over the links. No theorem covers the other rules, or links that are down for
    several rounds; σ2 is then that of the expected matrix.

    Arguments:
        gossip: a gossip with symmetric weights: `max_degree`, `metropolis` or `fastest`.
        loss: the probability in [0, 1) that a message is lost. A number; one for each sender, [N];
            one for each message, [2E], first those from the lower to the higher number of every
            edge of `network.edges`, then those back; a mapping {(sender, receiver): loss}, in which
            others lose nothing; or a function of both.
        rule: `symmetric`: an edge counts in a round if both its messages arrive, else at neither
            end. `receiver`: an agent uses its own value in place of a missing message; biased if
            losses differ by direction. `flow`: the ledger of live agents, which makes up for lost
            messages. `lost`: lost messages are left out; biased, for comparison.
        delay: messages are from 0 to so many rounds old, each as likely; rules `receiver`, `lost`.
        up: rounds for which an agent's links are up at a time, with a random phase in each run.
        down: rounds for which they are down then.
        active: the probability that an edge is used in a round at all, known to both ends.

    Example:
        >>> from fedbandits import networks
        >>> plain = max_degree(networks.grid(6, 6))
        >>> round(plain.sigma2, 4), round(unreliable(plain, 0.3).sigma2, 4)
        (0.9732, 0.9875)
    """
    if not isinstance(gossip, Gossip):
        raise TypeError(
            f"gossip.unreliable takes a gossip such as gossip.max_degree(network), not {gossip!r}"
        )
    weights = _symmetric_weights(gossip)
    active = within(active, "active", "(0, 1]")
    late = whole(delay, "delay", least=0, most=INT32)
    faults = BadLinks(
        checked_rule(rule, late),
        checked_loss(loss, gossip.network),
        late,
        *checked_churn(up, down),
        active,
    )
    alike = isinstance(loss, int | float | np.number)
    parameters: dict[str, Any] = {
        "gossip": {"name": gossip.rule, **gossip.parameters},
        "loss": float(loss) if alike else describe(faults.loss),  # type: ignore[arg-type]
        "rule": faults.rule,
    }
    plain = BadLinks(faults.rule, faults.loss)
    for key in ("delay", "up", "down", "active"):
        if (value := getattr(faults, key)) != getattr(plain, key):
            parameters[key] = value
    if faults.nothing:  # the plain form, bit for bit
        return Gossip(gossip.network, "unreliable", parameters, gossip.weights)
    return Gossip(gossip.network, "unreliable", parameters, weights, faults=faults)


def from_matrix(matrix: Any, network: Network | None = None) -> Gossip:
    """Return the gossip of your own matrix, doubly stochastic, and zero off its edges.

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
    make.__name__: make
    for make in (max_degree, metropolis, fastest, random_edge, none, clipped, unreliable)
}
"""The rules a configuration can name; `from_matrix` takes a matrix, which it cannot."""


def _symmetric_weights(gossip: Gossip) -> float | Floats:
    """Return the weights of a gossip that is constant and symmetric."""
    if gossip.random or gossip.silent or gossip.faults is not None:
        raise ValueError(
            f"gossip.unreliable takes weights that are the same in every round, not {gossip.name}; "
            "take gossip.max_degree, metropolis or fastest"
        )
    if gossip.limit < math.inf:
        raise ValueError(
            f"bad links of {gossip.name}: clipped differences over links that lose messages are "
            "not there; take one of the two"
        )
    if isinstance(gossip.weights, float | np.ndarray):
        return gossip.weights
    W = gossip.matrix
    if abs(W - W.T).max() > SUM_TOLERANCE:
        raise ValueError(
            f"gossip.unreliable takes symmetric weights, and {gossip.name} has others; take "
            "gossip.max_degree, metropolis or fastest"
        )
    u, v = gossip.network.edges.T
    return np.asarray(W[u, v], np.float64).ravel()


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
        for i in np.flatnonzero(~(np.abs(sums - 1) <= SUM_TOLERANCE))[:1]:
            raise ValueError(
                f"gossip matrix {line} {i} sums to {sums[i]:.10g}, not 1; rows and columns must "
                f"each sum to 1 within {SUM_TOLERANCE:g} (doubly stochastic)"
            )


def _require_supported(W: Sparse, network: Network) -> None:
    outside = (W - W.multiply(network.adjacency)).tocoo()
    for i in np.flatnonzero((outside.row != outside.col) & (outside.data != 0))[:1]:
        raise ValueError(
            f"gossip matrix entry [{outside.row[i]}, {outside.col[i]}] is {outside.data[i]:g}, but "
            f"{network.name} has no such edge; entries off the edges must be 0"
        )
