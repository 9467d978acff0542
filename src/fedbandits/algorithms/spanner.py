"""Volumetric spanners: a few actions; every other action is a short combination of them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from fedbandits.arrays import Array

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]

_RANK = 1e-6
"""Directions below this share of the longest count as rounding errors: float32 has 1e-7."""
_ROUNDING = 1e-9


@dataclass(frozen=True, eq=False)
class Spanner:
    """Actions S with, for every action, a_k = Σ_j λ^(k)(j) b_j and ‖λ^(k)‖ <= 1.

    Attributes:
        members: indices of the actions in S, `[|S|]`.
        share: the uniform distribution over S, `[K]`.
        vectors: the actions in coordinates with Σ_j b_j b_jᵀ = I, `[K, d]`. Linear losses and their
            estimates do not depend on coordinates. In these λ^(k)(j) is ⟨a_k, b_j⟩, and short or
            similar actions make no matrix nearly singular.
        basis: b_j in the same coordinates, `[|S|, d]`.
    """

    members: Array
    share: Array
    vectors: Array
    basis: Array


def volumetric_spanner(actions: Any) -> Spanner:
    """Return a volumetric spanner of at most 3 d actions, d being the dimension of their span.

    While an action a outside S has ‖λ‖² = aᵀ (S Sᵀ)^{-1} a > 1, it replaces the member b for which
    det(S Sᵀ) grows most. The determinant grows by the factor

        (1 + aᵀ G a)(1 - bᵀ G b) + (aᵀ G b)²,  G = (S Sᵀ)^{-1}.

    The bᵀ G b sum to d, so one of 3 d members has at most 1/3, and the factor is above 4/3.
    Therefore the loop ends. If there are fewer than 3 d actions, S contains all of them.

    Args:
        actions: `[K, d]`; they may span less than R^d, and one may occur more than once.

    Example:
        >>> spanner = volumetric_spanner([[1.0, 0.0], [0.0, 2.0], [1.0, 1.0]])
        >>> spanner.members.tolist(), spanner.vectors.shape
        ([0, 1, 2], (3, 2))

    Reference:
        Hazan and Karnin, Volumetric Spanners: An Efficient Exploration Basis for Learning, 2016.
    """
    vectors = _in_their_span(checked_actions(actions))
    arms, dimension = vectors.shape
    size = min(arms, 3 * dimension)
    members = np.arange(arms) if size == arms else _swapped(vectors, _spread(vectors, size))
    basis = vectors[members]
    # In the coordinates L^{-1} a, with S Sᵀ = L Lᵀ, the members have S Sᵀ = I.
    lower = np.linalg.cholesky(basis.T @ basis)
    vectors = np.linalg.solve(lower, vectors.T).T
    share = np.zeros(arms)
    share[members] = 1 / size
    return Spanner(members, share, vectors, vectors[members])


def checked_actions(actions: Any) -> Floats:
    """Return actions as an array `[K, d]`; reject actions that are not finite or all zero."""
    vectors = np.asarray(actions, np.float64)
    if vectors.ndim != 2 or 0 in vectors.shape:
        raise ValueError(f"actions has shape {vectors.shape}; expected (arms, d), a row for each")
    bad = ~np.isfinite(vectors)
    if bad.any():
        arm, column = (int(i) for i in np.argwhere(bad)[0])
        raise ValueError(
            f"actions must be finite, but at arm {arm} coordinate {column} is "
            f"{vectors[arm, column]}"
        )
    if not vectors.any():
        raise ValueError("actions are all 0, so every loss would be; give at least one other")
    return vectors


def _in_their_span(vectors: Floats) -> Floats:
    """Return the actions in orthogonal coordinates of their span, `[K, rank]`."""
    _, lengths, directions = np.linalg.svd(vectors, full_matrices=False)
    within: Floats = vectors @ directions[lengths > _RANK * lengths[0]].T
    return within


def _spread(vectors: Floats, size: int) -> Ints:
    """Return actions that span, each the farthest from those before in their own metric."""
    chosen: list[int] = []
    # A small multiple of I keeps lengths finite before d actions are chosen.
    gram: Floats = 1e-9 * float(np.mean(vectors**2)) * np.eye(vectors.shape[1])
    for _ in range(size):
        far = _lengths(vectors, gram)
        far[chosen] = -1.0
        chosen.append(int(np.argmax(far)))
        gram = gram + np.outer(vectors[chosen[-1]], vectors[chosen[-1]])
    return np.array(chosen)


def _swapped(vectors: Floats, members: Ints) -> Ints:
    """Return members for which every action has ‖λ‖ <= 1."""
    members = members.copy()
    while True:
        basis = vectors[members]
        gram: Floats = basis.T @ basis
        lengths = _lengths(vectors, gram)
        new = int(np.argmax(lengths))
        if lengths[new] <= 1 + _ROUNDING:  # members never exceed 1
            return np.sort(members)
        growth = (1 + lengths[new]) * (1 - lengths[members])
        growth += (basis @ np.linalg.solve(gram, vectors[new])) ** 2
        members[np.argmax(growth)] = new


def _lengths(vectors: Floats, gram: Floats) -> Floats:
    """Return aᵀ (S Sᵀ)^{-1} a of every action, `[K]`."""
    lengths: Floats = np.sum(vectors.T * np.linalg.solve(gram, vectors.T), axis=0)
    return lengths
