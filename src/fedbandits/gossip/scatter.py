"""The scatter of gossiped sums around their mean.

If every agent adds noise of variance 1 in every round, agent v's sum is the mean over agents plus
the noise that has not spread yet, of variance Σ_k (‖W^k e_v‖² - 1/N) in the long run. The scatter
of a gossip is the mean of these variances over agents, (1/N) Σ_j 1/(1 - λ_j²) over the eigenvalues
of W except that of agreement. It is about 1 on a complete graph, N/2 on a short path, N on a star.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from fedbandits.networks.searches import Floats
from fedbandits.networks.spectra import DENSE_AGENTS

if TYPE_CHECKING:
    from .base import Gossip

_OLDEST = 1e4
"""The most rounds for which a slow difference counts, so that no sum is infinite."""
_STEPS = 50
"""The steps of Lanczos' method, each two exchanges."""
_EDGES = 50_000_000
"""The most edges over all its steps, so that a million agents start in seconds."""
_VECTORS = 16
"""The most start vectors: one vector may have almost no share of a single slow mode."""
_ENOUGH = 0.01
"""Relative change of the scatter at which Lanczos' method ends."""
_ROUNDS = 100_000
_LEFT = 1e-9
_ROUNDING = 1e-13


def scatter(gossip: Gossip, momentum: float = 0.0) -> float:
    """Return the variance of gossiped sums about their mean, for noise of variance 1 per round.

    Up to 500 agents it is exact where W is symmetric and always the same, but that a difference
    which takes more than 10,000 rounds to dissolve is counted for so many. Of more agents it is
    estimated with random vectors, the same each time, and may be a few times too small where some
    differences dissolve much later than all others. Where W has no symmetry it is what WWᵀ says;
    of one random edge a round it is exact where all edges are alike, and on trees; of bad links it
    is what would be if every message arrived.

    Args:
        gossip: the network and its matrix.
        momentum: κ, where gossip has one: x^{b+1} = (1 + κ) W x^b - κ x^{b-1}.

    Returns:
        the scatter; 0 for one agent and for a silent gossip.

    Example:
        >>> from fedbandits import gossip, networks
        >>> graphs = (networks.complete(36), networks.path(36), networks.star(36))
        >>> [round(scatter(gossip.max_degree(graph)), 1) for graph in graphs]
        [1.3, 18.3, 34.3]
    """
    if gossip.silent or gossip.network.agents == 1:
        return 0.0
    modes, shares = gossip.modes
    if momentum != 0:
        return float(shares @ _with_momentum(modes, momentum))
    rounds = 1 / (1 - modes**2)
    if gossip.random:
        # Two ends that average are wholly of one mind, which E WᵀW does not know. With R_e the
        # resistance between the ends of edge e, and L⁺ the pseudoinverse of the Laplacian,
        # N S = |E| (tr L⁺ + (N - 1) R_e / 2) where all R_e are the same; their mean is (N - 1)/|E|.
        rounds = (rounds + gossip.network.agents - 1) / 2
    return float(shares @ rounds)


def modes(gossip: Gossip) -> tuple[Floats, Floats]:
    """Return the eigenvalues of W except that of agreement, and the share of noise in each.

    They are within (-1, 1). If W is random or asymmetric, they are the roots of the eigenvalues of
    E WᵀW, without signs. For many agents they are the few values of Lanczos' method, without signs,
    whose integrals equal those of all eigenvalues.
    """
    agents = gossip.network.agents
    if agents > DENSE_AGENTS:
        starts = min(max(_EDGES // (2 * len(gossip.network.edges) * _STEPS), 1), _VECTORS)
        found = [_lanczos(gossip, seed) for seed in range(starts)]
        squares, shares = (np.concatenate(each) for each in zip(*found, strict=True))
        return np.sqrt(squares), shares / starts
    W, shares = _dense(gossip), np.full(agents - 1, 1 / agents)
    signed = not gossip.random and np.abs(W - W.T).max() <= _ROUNDING
    values = np.linalg.eigvalsh(W if signed or gossip.random else W @ W.T)[:-1]
    squares = _below_one(np.asarray(values**2 if signed else values, np.float64))
    return np.copysign(np.sqrt(squares), values if signed else 1.0), shares


def _with_momentum(modes: Floats, momentum: float) -> Floats:
    """Return Σ_b (x^b)² of each mode, from x^0 = x^{-1} = 1."""
    before, now = np.ones_like(modes), np.ones_like(modes)
    total = np.zeros_like(modes)
    for _ in range(_ROUNDS):
        total += now**2
        before, now = now, (1 + momentum) * modes * now - momentum * before
        if max(np.abs(now).max(), np.abs(before).max()) ** 2 < _LEFT:
            break
    return total


def _lanczos(gossip: Gossip, seed: int) -> tuple[Floats, Floats]:
    """Return Lanczos quadrature of squared modes, from a random vector without mean."""
    agents = gossip.network.agents
    start = np.random.default_rng(seed).choice([-1.0, 1.0], agents)
    start -= start.mean()
    norm = float(np.linalg.norm(start))
    before, now = np.zeros(agents), start / norm
    diagonal: list[float] = []
    beside: list[float] = []
    values, shares, found = np.zeros(1), np.ones(1), 0.0
    affordable = _EDGES // (2 * len(gossip.network.edges)) + 2
    for _ in range(min(_STEPS, agents - 1, affordable)):
        after = _exchanged(gossip, now) - (beside[-1] if beside else 0.0) * before
        diagonal.append(float(now @ after))
        after -= diagonal[-1] * now
        after -= after.mean()  # rounding must not bring agreement back
        values, vectors = np.linalg.eigh(
            np.diag(diagonal) + np.diag(beside, 1) + np.diag(beside, -1)
        )
        values, shares, last = _below_one(values), vectors[0] ** 2, found
        found = float(shares @ (1 / (1 - values)))
        beside.append(float(np.linalg.norm(after)))
        if abs(found - last) <= _ENOUGH * found or beside[-1] < _LEFT:
            break
        before, now = now, after / beside[-1]
    return values, shares * (norm**2 / agents)


def _exchanged(gossip: Gossip, x: Floats) -> Floats:
    """Return E WᵀW x."""
    if isinstance(gossip.weights, float | np.ndarray):
        once = _mixed(gossip, x)
        return once if gossip.random else _mixed(gossip, once)
    found: Floats = gossip.weights.T @ (gossip.weights @ x)
    return found


def _mixed(gossip: Gossip, x: Floats) -> Floats:
    """Return W x, edge by edge: a live agent has no sparse matrices."""
    (u, v), agents = gossip.network.edges.T, len(x)
    flows = gossip.edge_weights * (x[u] - x[v])
    found: Floats = x - np.bincount(u, flows, agents) + np.bincount(v, flows, agents)
    return found


def _dense(gossip: Gossip) -> Floats:
    """Return W as a dense matrix, without sparse matrices."""
    if not isinstance(gossip.weights, float | np.ndarray):
        given: Floats = gossip.weights.toarray()
        return given
    (u, v), agents = gossip.network.edges.T, gossip.network.agents
    W = np.zeros((agents, agents))
    W[u, v] = W[v, u] = gossip.edge_weights
    return W + np.diag(1 - W.sum(axis=1))


def _below_one(squares: Floats) -> Floats:
    """Return squares clipped so that differences dissolve within `_OLDEST` rounds."""
    return np.clip(squares, 0.0, 1 - 1 / _OLDEST)
