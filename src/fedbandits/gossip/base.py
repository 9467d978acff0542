"""A gossip matrix: a doubly stochastic matrix on a network, with the numbers the theory needs."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from fedbandits.common.checks import whole
from fedbandits.networks import Network
from fedbandits.networks.base import call
from fedbandits.networks.searches import Floats, laplacian_of, symmetric
from fedbandits.networks.spectra import connectivity, gap_of_square, rough_modes

from .bad_links import BadLinks
from .scatter import modes

if TYPE_CHECKING:
    from fedbandits.networks.searches import Sparse

SUM_TOLERANCE = 1e-8
_ROUNDING = 1e-13


@dataclass(frozen=True, eq=False, repr=False)
class Gossip:
    """A doubly stochastic matrix W on a network. Made by the functions of `fb.gossip`.

    Arguments:
        network: the graph W lives on.
        rule: the constructor's name.
        parameters: its arguments as plain data.
        weights: the weights of W: a number w for W = I - w L; [E] one weight per edge of the
            network, for W = I - A diag(w) Aᵀ; or W itself, [N, N] sparse.
        silent: whether nothing is ever sent.
        random: whether the matrix is drawn again in every round; W is its mean.
        limit: the largest difference to a neighbour that counts. σ2, gap and C_W are those of W,
            which applies to differences below it.
        faults: the faults of the links; None if every message arrives. W is then the matrix of a
            round without faults.

    Example:
        >>> from fedbandits import networks
        >>> from fedbandits.gossip import max_degree
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
    silent: bool = False
    random: bool = False
    limit: float = math.inf
    faults: BadLinks | None = None

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
        diagonal = np.maximum(1 - sides.sum(axis=1), 0)  # rounding must not make it negative
        return csr_array(diags_array(diagonal) + sides)

    @property
    def edge_weights(self) -> Floats:
        """[E] weights of the network's edges; `from_matrix` has none (see `matrix`)."""
        if not isinstance(self.weights, float | np.ndarray):
            raise ValueError(f"{self.name} may differ by direction; read gossip.matrix instead")
        weights: Floats = np.asarray(self.weights)
        return np.broadcast_to(weights, len(self.network.edges))

    @cached_property
    def gap(self) -> float:
        """1 - σ2, the spectral gap; 0 when messages never agree.

        If the matrix is drawn again in every round, σ2² is λ_2(E WᵀW): after k rounds the share
        σ2^k of a disagreement is left in the mean square. For bad links see `unreliable`.
        """
        network, weight = self.network, self.weights
        if network.agents == 1:
            return 1.0
        if self.silent:
            return 0.0
        if self.faults is not None:
            return self.faults.gap(network, self.edge_weights)
        if not isinstance(weight, float):
            return min(_gap(self.matrix), 1.0)
        # W = I - wL: the network knows the eigenvalues of L, often in closed form
        slowest = weight * network.algebraic_connectivity
        if self.random:  # of one edge whose ends average W² = W, so that E WᵀW is this W
            return gap_of_square(slowest)
        if slowest <= 2 - 2 * weight * network.max_degree:  # since λ_1 ≤ 2 d_max
            return slowest
        return min(slowest, 2 - weight * network.largest_laplacian_eigenvalue)

    @cached_property
    def sigma2(self) -> float:
        """σ2, the second largest singular value of W (the largest of W - 11ᵀ/N); see `gap`."""
        return 1 - self.gap

    @cached_property
    def modes(self) -> tuple[Floats, Floats]:
        """The modes of W and the share of noise in each; see `scatter`."""
        return modes(self)

    def c_w(self, horizon: int) -> float:
        """Return the paper's C_W = min{2 ln T + ln N, √N} / (1 - σ2) + 3, the price of the network.

        Arguments:
            horizon: T, the number of rounds.

        Returns:
            C_W; infinite when the spectral gap is 0.

        Example:
            >>> from fedbandits import gossip, networks
            >>> gossip.max_degree(networks.path(1)).c_w(100)
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


def metropolis_weights(network: Network) -> Floats:
    """Return 1 / (1 + the larger degree) for each edge."""
    larger: Floats = network.degrees[network.edges].max(axis=1).astype(np.float64)
    return 1 / (1 + larger)


def _gap(W: Sparse) -> float:
    """Return 1 - σ2 of any doubly stochastic matrix."""
    if abs(W - W.T).max() <= _ROUNDING:
        slowest = connectivity(W)
        if slowest <= 2 * W.diagonal().min():  # Gershgorin: no eigenvalue below 2 min W_vv - 1
            return slowest
        negative = 2 - float(rough_modes(laplacian_of(W))[0][0])
        return min(slowest, negative if negative > _ROUNDING else 0.0)
    # W Wᵀ is symmetric, doubly stochastic, and has the squares σ² as its eigenvalues
    return gap_of_square(connectivity((W @ W.T).tocsr()))
