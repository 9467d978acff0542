"""Extreme eigenvalues of Laplacians: dense for few agents, multigrid for up to millions.

Without pyamg, which has no wheel for small machines, a factorisation by SciPy takes multigrid's
place. Its memory grows faster than the graph.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from fedbandits.common.extras import install_command, installed
from fedbandits.networks.searches import count_components, laplacian_of

from .searches import Floats, hops

if TYPE_CHECKING:
    from .searches import Sparse

DENSE_AGENTS = 500
"""Up to here eigenvalues are computed densely."""


def smooth_modes(
    laplacian: Sparse, count: int = 1, accuracy: float = 3e-4
) -> tuple[Floats, Floats]:
    """Return the smallest non-zero eigenvalues of a connected graph's (weighted) Laplacian.

    Above `DENSE_AGENTS` by LOBPCG, preconditioned by algebraic multigrid, or by the diagonal
    on graphs without large distances: there multigrid fills in, and the diagonal suffices.
    Without pyamg multigrid is replaced by a factorisation.

    Arguments:
        laplacian: [N, N] sparse, of a connected graph.
        count: how many, at most N - 1.
        accuracy: residual over eigenvalue; an eigenvalue's own error is about its square.

    Returns:
        ascending eigenvalues [count] and unit eigenvectors [N, count].
    """
    n = laplacian.shape[0]
    if n <= DENSE_AGENTS:
        return _dense_modes(laplacian, 1, count)
    distance = hops(laplacian, 0)
    start = np.random.default_rng(0).standard_normal((n, count + 1))
    start[:, 0] = distance - distance.mean()  # already smooth, and its quotient sets the scale
    shallow = distance.max() <= 2 * math.log2(n)
    thorough = _multigrid if installed("pyamg") else _factorised
    for preconditioner in (_inverse_diagonal, thorough) if shallow else (thorough,):
        values, vectors, converged = _lobpcg(laplacian, start, count, accuracy, preconditioner)
        if converged:
            return values, vectors
    fix = f"; pyamg may find it: {install_command('solvers')}" if thorough is _factorised else ""
    raise RuntimeError(f"no eigenvalue within accuracy {accuracy} on a graph of {n} agents{fix}")


def rough_modes(laplacian: Sparse, count: int = 1) -> tuple[Floats, Floats]:
    """Return the largest eigenvalues of a Laplacian: descending [count], vectors [N, count]."""
    from scipy.sparse.linalg import eigsh

    n = laplacian.shape[0]
    if n <= DENSE_AGENTS:
        values, vectors = _dense_modes(laplacian, n - count, n - 1)
        return values[::-1], vectors[:, ::-1]
    start = np.random.default_rng(0).standard_normal(n)
    found: Any = eigsh(laplacian, count, which="LA", tol=1e-7, v0=start)
    order = np.argsort(-found[0])
    return found[0][order], found[1][:, order]


def _dense_modes(laplacian: Sparse, first: int, last: int) -> tuple[Floats, Floats]:
    # all of them: LAPACK's range solver can return none of a repeated eigenvalue
    values, vectors = np.linalg.eigh(laplacian.toarray())
    return values[first : last + 1], vectors[:, first : last + 1]


def _lobpcg(
    laplacian: Sparse,
    start: Floats,
    count: int,
    accuracy: float,
    preconditioner: Callable[[Sparse, float], Any],
) -> tuple[Floats, Floats, bool]:
    from scipy.sparse.linalg import lobpcg

    n = laplacian.shape[0]
    scale = float(start[:, 0] @ (laplacian @ start[:, 0])) / float(start[:, 0] @ start[:, 0])
    inverse = preconditioner(laplacian, scale)
    vectors, ones = start, np.ones((n, 1))
    for _ in range(12):
        with warnings.catch_warnings():  # it warns when it stops early; checked just below
            warnings.simplefilter("ignore")
            found: Any = lobpcg(
                laplacian, vectors, M=inverse, Y=ones, largest=False, maxiter=40,
                tol=accuracy * scale / 5,
            )  # fmt: skip
        order = np.argsort(found[0])
        values, vectors = found[0][order], found[1][:, order]
        residual = np.linalg.norm(laplacian @ vectors - vectors * values, axis=0)
        if (residual <= accuracy * values)[:count].all():
            return values[:count], vectors[:, :count], True
        scale = min(scale, float(values[0]))
    return values[:count], vectors[:, :count], False


# Each takes the Laplacian and about its smallest non-zero eigenvalue.


def _inverse_diagonal(laplacian: Sparse, _: float) -> Any:
    from scipy.sparse import diags_array

    return diags_array(1 / laplacian.diagonal())


def _factorised(laplacian: Sparse, smallest: float) -> Any:
    """Return (L + λI)⁻¹: L is singular, and the shift keeps every mode within a factor of two."""
    from scipy.sparse import csc_array, eye_array
    from scipy.sparse.linalg import LinearOperator, splu

    n = laplacian.shape[0]
    shifted = csc_array(laplacian + smallest * eye_array(n))
    solve: Any = splu(shifted, permc_spec="MMD_AT_PLUS_A", options={"SymmetricMode": True}).solve
    return LinearOperator((n, n), matvec=solve, matmat=solve, dtype=np.float64)


def _multigrid(laplacian: Sparse, _: float) -> Any:
    from pyamg import smoothed_aggregation_solver
    from scipy.sparse import csr_matrix

    return smoothed_aggregation_solver(
        csr_matrix(laplacian),  # pyamg takes matrices, not arrays
        max_coarse=300,
        coarse_solver="pinv",  # a Laplacian is singular
        presmoother=("gauss_seidel", {"sweep": "forward"}),
        postsmoother=("gauss_seidel", {"sweep": "backward"}),
    ).aspreconditioner()


def connectivity(W: Sparse) -> float:
    """Return 1 - λ_2 of a symmetric doubly stochastic matrix; exactly 0 on a disconnected graph."""
    return float(smooth_modes(laplacian_of(W))[0][0]) if count_components(W) == 1 else 0.0


def gap_of_square(squared: float) -> float:
    """Return 1 - σ2 from 1 - σ2², without the cancellation of 1 - sqrt(σ2²).

    Example:
        >>> gap_of_square(0.75), gap_of_square(1.0)
        (0.5, 1.0)
    """
    squared = min(squared, 1.0)
    return squared / (1 + math.sqrt(1 - squared))
