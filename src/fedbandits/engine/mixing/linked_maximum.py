"""The largest whole number among neighbours, by one matrix product."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp

from fedbandits.arrays import Array

from .matrix_forms import product_with

# Powers of two below 1 that float32 and bfloat16 hold with all their bits.
_EXPONENTS = 126


@dataclass(frozen=True)
class LinkedMatrix:
    """Who hears whom in a dense graph, everyone also themselves: 0 or 1, `[P, P]`, P >= N."""

    linked: Array

    def maximum(self, x: Array, drawn: Any = None) -> Array:  # noqa: ARG002
        """The largest whole-numbered values by one matrix product, others by a pass over agents.

        A value d below the largest of all weighs B^(-d), B above twice the number of agents, so
        what an agent hears sums to between B^(-d) and B^(1-d) for the smallest d among its
        neighbours: the exponent tells d. Float32 has room for 8 values of d at 20,000 agents.
        Play counts are whole numbers, and what agents have heard of them differs by no more than
        news can be late, the diameter; dense graphs have small ones. Exact to the last bit of the
        largest value of all.
        """
        agents = x.shape[-1]
        bits = agents.bit_length() + 1
        levels = _EXPONENTS // bits
        top = x.max(axis=-1, keepdims=True)
        below = top - x
        depth = jnp.minimum(below, levels + 1.0).round().astype("int32")
        weight = jnp.where(depth <= levels, jnp.ldexp(jnp.float32(1), -bits * depth), 0.0)
        heard = product_with(weight.astype(self.linked.dtype), self.linked)
        _, exponent = jnp.frexp(heard)  # heard in [2^(exponent - 1), 2^exponent)
        level = -((exponent - 1) // bits)
        exact = ((below == depth) | (depth > levels)).all() & (heard > 0).all()
        return jax.lax.cond(
            exact, lambda: top - level.astype(x.dtype), lambda: self._pass_over_agents(x)
        )

    def _pass_over_agents(self, x: Array) -> Array:
        """Every agent in turn lifts its neighbours."""

        def lift(u: Array, largest: Array) -> Array:
            heard = jnp.where(self.linked[u, : x.shape[-1]] > 0, x[:, :, u, None], -jnp.inf)
            return jnp.maximum(largest, heard)

        return jax.lax.fori_loop(0, x.shape[-1], lift, x)
