"""One file per algorithm; the contract is in `base.py`."""

from .accelerated_fedexp3 import AcceleratedFedExp3
from .base import Algorithm, AnyAlgorithm, Leaf
from .block_gossip import BlockGossip
from .exp3 import Exp3
from .fedexp3 import FedExp3
from .fedhedge import FedHedge
from .gossip_ucb import GossipUCB
from .uniform import Uniform

REGISTRY: dict[str, type[AnyAlgorithm]] = {
    algorithm.__name__: algorithm
    for algorithm in (
        FedExp3,
        Exp3,
        AcceleratedFedExp3,
        BlockGossip,
        FedHedge,
        GossipUCB,
        Uniform,
    )
}

__all__ = [
    "REGISTRY",
    "AcceleratedFedExp3",
    "Algorithm",
    "AnyAlgorithm",
    "BlockGossip",
    "Exp3",
    "FedExp3",
    "FedHedge",
    "GossipUCB",
    "Leaf",
    "Uniform",
]
