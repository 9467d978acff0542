"""Gossip: doubly stochastic matrices on a network, made by rules or given."""

from .base import Gossip
from .limits import clipped
from .rules import REGISTRY, fastest, from_matrix, max_degree, metropolis, none, random_edge

__all__ = [
    "REGISTRY",
    "Gossip",
    "clipped",
    "fastest",
    "from_matrix",
    "max_degree",
    "metropolis",
    "none",
    "random_edge",
]
