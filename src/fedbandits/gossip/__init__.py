"""Gossip: doubly stochastic matrices on a network, made by rules or given."""

from .bad_links import BadLinks
from .base import Gossip
from .limits import clipped
from .rules import (
    REGISTRY,
    fastest,
    from_matrix,
    max_degree,
    metropolis,
    none,
    random_edge,
    unreliable,
)

__all__ = [
    "REGISTRY",
    "BadLinks",
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
