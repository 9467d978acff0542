"""One file per algorithm; the contract is in `base.py`."""

from .base import Algorithm, AnyAlgorithm, Leaf
from .delayed_ftrl import DelayedFTRL
from .exp3 import Exp3
from .exp3_coop import Exp3Coop
from .fed_ftrl import FedFTRL
from .fedexp3 import FedExp3
from .fedhedge import FedHedge
from .gossip_ucb import GossipUCB
from .uniform import Uniform

REGISTRY: dict[str, type[AnyAlgorithm]] = {
    algorithm.__name__: algorithm
    for algorithm in (
        FedExp3,
        Exp3,
        FedHedge,
        FedFTRL,
        Exp3Coop,
        DelayedFTRL,
        GossipUCB,
        Uniform,
    )
}

__all__ = [
    "REGISTRY",
    "Algorithm",
    "AnyAlgorithm",
    "DelayedFTRL",
    "Exp3",
    "Exp3Coop",
    "FedExp3",
    "FedFTRL",
    "FedHedge",
    "GossipUCB",
    "Leaf",
    "Uniform",
]
