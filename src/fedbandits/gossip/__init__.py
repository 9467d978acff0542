"""Gossip: doubly stochastic matrices on a network, made by rules or given."""

from .base import Gossip
from .limits import clipped
from .rules import (
    REGISTRY as REGISTRY,
)
from .rules import (
    fastest,
    from_matrix,
    max_degree,
    metropolis,
    none,
    random_edge,
    unreliable,
)

__all__ = [
    "Gossip",
    "clipped",
    "fastest",
    "from_matrix",
    "max_degree",
    "metropolis",
    "none",
    "random_edge",
    "unreliable",
]


def __dir__() -> list[str]:
    return __all__
