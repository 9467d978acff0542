"""The form of a large graph whose neighbours have near numbers: small dense matrices.

Agents are taken in tiles of S. The halo of a tile are the agents that anyone in it hears, itself
included, P at most. Then the tile's averages are one small product,

    y[..., tile] = x[..., halo] W[halo, tile],   [K, R, P] times [P, S].

Where agents are numbered along a space-filling curve, the halos of S neighbours are nearly the
same: each number is gathered P/S times, not once for each of its D neighbours. That is what
bounds a CPU, for which a product costs a small part of a gather.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from numpy.typing import DTypeLike

from fedbandits.arrays import Array

from .matrix_forms import Reliable

TILE = 16
"""S, measured: of 8, 16, 32 and 64 agents the quickest on a CPU, where its matrices are small."""

_AT_ONCE = 128
"""Tiles whose halos are gathered before they are multiplied, so that they stay in a cache."""


@dataclass(frozen=True)
class Halos(Reliable):
    """Who is heard by a tile, and its part of the matrix; B tiles of S agents, the last padded."""

    halo: Array
    """`[B, P]`, agents; padding points at agent 0."""
    matrix: Array
    """`[B, P, S]`, with the diagonal of W; padding weighs 0."""
    diagonal: Array

    def average(self, x: Array) -> Array:
        """A gather and a product for each tile; runs keep an axis, and so their devices."""

        def tile(part: tuple[Array, Array]) -> Array:
            halo, matrix = part
            # Held: the product would else read them by columns.
            heard = jax.lax.optimization_barrier(x[..., halo])
            return jnp.matmul(heard, matrix, precision=jax.lax.Precision.HIGHEST)

        tiles = jax.lax.map(tile, (self.halo, self.matrix), batch_size=_AT_ONCE)
        padded = jnp.moveaxis(tiles, 0, -2).reshape(*x.shape[:-1], -1)
        return padded[..., : x.shape[-1]]


def halos(incoming: Any, dtype: DTypeLike, largest: int) -> Halos | None:
    """The form of a sparse matrix whose row v holds the weights of what v hears.

    Args:
        incoming: W transposed, in rows (CSR).
        dtype: of the matrices.
        largest: halo that is worth it.

    Returns:
        the form, or None where a halo is larger than that.
    """
    import scipy.sparse as sp

    agents = incoming.shape[0]
    tiles = -(-agents // TILE)
    first = np.minimum(np.arange(tiles + 1) * TILE, agents)
    # The entries of every tile by who is heard: two transpositions sort them.
    entries = sp.csr_array(
        (np.arange(incoming.nnz), incoming.indices, incoming.indptr[first]), (tiles, agents)
    )
    entries = entries.tocsc().tocsr()
    tile = np.repeat(np.arange(tiles), np.diff(entries.indptr))
    new = np.ones(entries.nnz, bool)  # heard by no one of the tile before
    new[1:] = (np.diff(entries.indices) != 0) | (np.diff(tile) != 0)
    sizes = np.bincount(tile[new], minlength=tiles)
    if sizes.max() > largest:
        return None
    slot = np.cumsum(new) - 1 - (np.cumsum(sizes) - sizes)[tile]
    shape = (-(-tiles // _AT_ONCE) * _AT_ONCE if tiles > _AT_ONCE else tiles, int(sizes.max()))
    halo = np.zeros(shape, np.int32)
    halo[tile[new], slot[new]] = entries.indices[new]
    matrix = np.zeros((*shape, TILE), dtype)
    heard_by = np.repeat(np.arange(agents), np.diff(incoming.indptr))[entries.data]
    matrix[tile, slot, heard_by % TILE] = incoming.data[entries.data]
    return Halos(halo, matrix, incoming.diagonal().astype(dtype))
