"""Gossip: doubly stochastic matrices on a network, made by rules or given."""

from .base import Gossip
from .rules import REGISTRY, fastest, from_matrix, max_degree, metropolis, none, random_edge

__all__ = [
    "REGISTRY",
    "Gossip",
    "fastest",
    "from_matrix",
    "max_degree",
    "metropolis",
    "none",
    "random_edge",
]
