"""One file per algorithm; the contract is in `base.py`."""

from .base import Algorithm, AnyAlgorithm, Leaf
from .exp3 import Exp3
from .fedexp3 import FedExp3
from .fedhedge import FedHedge
from .gossip_ucb import GossipUCB
from .linear_block_gossip import LinearBlockGossip
from .uniform import Uniform

REGISTRY: dict[str, type[AnyAlgorithm]] = {
    algorithm.__name__: algorithm
    for algorithm in (FedExp3, Exp3, FedHedge, GossipUCB, LinearBlockGossip, Uniform)
}

__all__ = [
    "REGISTRY",
    "Algorithm",
    "AnyAlgorithm",
    "Exp3",
    "FedExp3",
    "FedHedge",
    "GossipUCB",
    "Leaf",
    "LinearBlockGossip",
    "Uniform",
]
