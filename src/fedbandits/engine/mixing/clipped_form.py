"""The form of a gossip in which differences count up to a limit."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from fedbandits.arrays import Array

from .matrix_forms import Edges, Neighbours, RandomEdge


@dataclass(frozen=True)
class Clipped:
    """x^v + Σ_u W_uv clip(x^u - x^v, ±limit).

    What u moves v by, v moves u by the other way, to the last bit: the sum over agents is kept. So
    it takes every link on its own, whatever the plain average does.
    """

    links: Neighbours | Edges | RandomEdge
    limit: Array
    """Traced: a sweep over it compiles once."""

    def draw(self, seed: Array, t: Array, runs: int, dtype: Any) -> Any:
        """As without a limit."""
        return self.links.draw(seed, t, runs, dtype)

    def first_memory(self, message: Array) -> Any:
        """As without a limit: nothing."""
        return self.links.first_memory(message)

    def exchange(
        self,
        x: Array,
        sent: Array,
        drawn: Any,
        memory: Any,  # noqa: ARG002
    ) -> tuple[Array, Any]:
        """A neighbour that lies moves v by W_uv · limit at most, in each entry."""
        return self.links.clipped(x, sent, self.limit, drawn), None

    def unused(self, memory: Any) -> Any:
        """As without a limit: nothing."""
        return memory
