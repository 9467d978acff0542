"""One file per algorithm; the contract is in `base.py`.

To register an algorithm, add a line below. Configurations, the command line, tuning, the
leaderboard and the tests over every algorithm then include it, in this order.
"""

from .base import Algorithm, AnyAlgorithm, Leaf, Setting
from .tunable import Tunable

# isort: off
from .fedexp3 import FedExp3 as FedExp3
from .exp3 import Exp3 as Exp3
from .accelerated_fedexp3 import AcceleratedFedExp3 as AcceleratedFedExp3
from .tracking_fedexp3 import TrackingFedExp3 as TrackingFedExp3
from .sharing_fedexp3 import SharingFedExp3 as SharingFedExp3
from .block_gossip import BlockGossip as BlockGossip
from .linear_block_gossip import LinearBlockGossip as LinearBlockGossip
from .private_fedexp3 import PrivateFedExp3 as PrivateFedExp3
from .held_fedexp3 import HeldFedExp3 as HeldFedExp3
from .fed_ftrl import FedFTRL as FedFTRL
from .fedhedge import FedHedge as FedHedge
from .exp3_coop import Exp3Coop as Exp3Coop
from .delayed_ftrl import DelayedFTRL as DelayedFTRL
from .gossip_ucb import GossipUCB as GossipUCB
from .uniform import Uniform as Uniform
# isort: on

REGISTRY: dict[str, type[AnyAlgorithm]] = {
    name: kind
    for name, kind in [*globals().items()]
    if isinstance(kind, type) and issubclass(kind, Algorithm) and kind is not Algorithm
}

__all__ = ["REGISTRY", "Algorithm", "AnyAlgorithm", "Leaf", "Setting", "Tunable", *REGISTRY]
