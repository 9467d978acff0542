"""One file per algorithm; the contract is in `base.py`."""

from .accelerated_fedexp3 import AcceleratedFedExp3
from .base import Algorithm, AnyAlgorithm, Leaf, Setting
from .block_gossip import BlockGossip
from .delayed_ftrl import DelayedFTRL
from .exp3 import Exp3
from .exp3_coop import Exp3Coop
from .fed_ftrl import FedFTRL
from .fedexp3 import FedExp3
from .fedhedge import FedHedge
from .gossip_ucb import GossipUCB
from .linear_block_gossip import LinearBlockGossip
from .tunable import Tunable
from .uniform import Uniform

REGISTRY: dict[str, type[AnyAlgorithm]] = {
    algorithm.__name__: algorithm
    for algorithm in (
        FedExp3,
        Exp3,
        AcceleratedFedExp3,
        BlockGossip,
        LinearBlockGossip,
        FedFTRL,
        FedHedge,
        Exp3Coop,
        DelayedFTRL,
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
    "DelayedFTRL",
    "Exp3",
    "Exp3Coop",
    "FedExp3",
    "FedFTRL",
    "FedHedge",
    "GossipUCB",
    "Leaf",
    "LinearBlockGossip",
    "Setting",
    "Tunable",
    "Uniform",
]
