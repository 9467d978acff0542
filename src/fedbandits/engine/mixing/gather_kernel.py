"""The form of a large graph of one weight on a GPU: one kernel gathers and adds all neighbours.

XLA gathers for one arm after the other, and so reads all neighbour lists again for each: of a
million agents and twenty arms that is more than everything else together. Here a block of agents
reads each of its neighbours' numbers once, for up to 32 arms (and runs) whose sums it keeps in
registers:

    y_k[v] = W_vv x_k[v] + w Σ_j x_k[neighbour j of v],   j below the block's largest degree.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from fedbandits.arrays import Array

from .matrix_forms import Neighbours, Reliable

_BLOCK, _WARPS = 128, 4
_ROWS = 32
"""Arms and runs of one block at most: a register each."""


@dataclass(frozen=True)
class NeighbourSums(Reliable):
    """Neighbour lists of one weight; for Triton, or for its interpreter in tests."""

    index: Array
    """`[D, N]`; N where there is no neighbour."""
    slots: Array
    """The largest degree in each block of agents, `[⌈N / 128⌉]`."""
    weight: Array
    """w, `[1]`."""
    diagonal: Array
    interpreted: bool = field(metadata={"static": True})

    def average(self, x: Array) -> Array:
        """One pass over x."""
        from jax.experimental import pallas as pl
        from jax.experimental.pallas import triton

        rows = x.reshape(-1, x.shape[-1])
        count, agents = rows.shape
        parts = -(-count // _ROWS)
        each = -(-count // parts)

        def kernel(x: Any, index: Any, slots: Any, weight: Any, diagonal: Any, out: Any) -> None:
            block = pl.program_id(0)
            v = block * _BLOCK + jnp.arange(_BLOCK)
            here = v < agents
            mine = [pl.program_id(1) * each + j for j in range(each)]

            def add(j: Array, sums: tuple[Array, ...]) -> tuple[Array, ...]:
                u = triton.load(index.at[j, v], mask=here, other=agents)
                return tuple(
                    total + triton.load(x.at[k, u], mask=(u < agents) & (k < count), other=0.0)
                    for k, total in zip(mine, sums, strict=True)
                )

            zeros = tuple(jnp.zeros(_BLOCK, rows.dtype) for _ in mine)
            sums = jax.lax.fori_loop(0, slots[block], add, zeros)
            own = triton.load(diagonal.at[v], mask=here, other=0.0)
            for k, total in zip(mine, sums, strict=True):
                there = here & (k < count)
                value = own * triton.load(x.at[k, v], mask=there, other=0.0) + weight[0] * total
                triton.store(out.at[k, v], value, mask=there)

        gather = pl.pallas_call(
            kernel,
            out_shape=jax.ShapeDtypeStruct(rows.shape, rows.dtype),
            grid=(self.slots.shape[0], parts),
            compiler_params=triton.CompilerParams(num_warps=_WARPS),
            interpret=self.interpreted,
        )
        mixed = gather(rows, self.index, self.slots, self.weight, self.diagonal)
        return mixed.reshape(x.shape)


def neighbour_sums(lists: Neighbours) -> NeighbourSums | None:
    """The kernel's form of lists; None where weights differ, or nobody has a neighbour."""
    there = lists.weight > 0
    weights, agents = np.unique(lists.weight[there]), there.shape[1]
    if len(weights) != 1:
        return None
    degrees = np.pad(there.sum(axis=0, dtype=np.int32), (0, -agents % _BLOCK))
    return NeighbourSums(
        np.where(there, lists.index, agents).astype(np.int32),
        degrees.reshape(-1, _BLOCK).max(axis=1),
        weights,
        lists.diagonal,
        interpreted=jax.default_backend() == "cpu",
    )
