"""fedbandits: federated adversarial bandits.

Many agents on a communication network each pick one of K arms per round and see only their own
loss, which an adversary sets per round and per agent. All want the arm that is best on average
over everyone, and none hands out its raw arms or losses.

    simulate(problem, algorithm, gossip, runs=10, seed=0) -> Result

Importing the package loads NumPy only; JAX and the rest are loaded when first needed.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from . import attacks, gossip, live, networks, privacy, problems, schedules
from .algorithms import (
    REGISTRY,
    AcceleratedFedExp3,
    Algorithm,
    BlockGossip,
    DelayedFTRL,
    Exp3,
    Exp3Coop,
    FedExp3,
    FedFTRL,
    FedHedge,
    GossipUCB,
    HeldFedExp3,
    Leaf,
    LinearBlockGossip,
    PrivateFedExp3,
    Setting,
    SharingFedExp3,
    TrackingFedExp3,
    Uniform,
)
from .common import extras as extras  # names what is missing, from the start
from .common import forks as forks  # watches from the start
from .common.version import __version__ as __version__
from .gossip import acceleration as accelerated
from .gossip.base import Gossip
from .networks import Network
from .problems import Problem

if TYPE_CHECKING:
    from . import tuning
    from .engine.federated import NotFederatedError, check_federated
    from .engine.milestones import Milestone
    from .engine.observing import trajectory
    from .engine.simulate import simulate
    from .results.comparison import Comparison, compare
    from .results.plots import plot
    from .results.result import Result, load
    from .sweeps.load import load_experiment
    from .theory import bounds

__all__ = [
    "AcceleratedFedExp3",
    "Algorithm",
    "BlockGossip",
    "Comparison",
    "DelayedFTRL",
    "Exp3",
    "Exp3Coop",
    "FedExp3",
    "FedFTRL",
    "FedHedge",
    "Gossip",
    "GossipUCB",
    "HeldFedExp3",
    "Leaf",
    "LinearBlockGossip",
    "Milestone",
    "Network",
    "NotFederatedError",
    "PrivateFedExp3",
    "Problem",
    "Result",
    "Setting",
    "SharingFedExp3",
    "TrackingFedExp3",
    "Uniform",
    "accelerated",
    "attacks",
    "bounds",
    "check_federated",
    "compare",
    "gossip",
    "live",
    "load",
    "load_experiment",
    "networks",
    "plot",
    "privacy",
    "problems",
    "schedules",
    "simulate",
    "trajectory",
    "tuning",
]


# Names that wait until they are asked for, since they need JAX or much else; and where they are.
_LATER = {
    "Comparison": "results.comparison",
    "Milestone": "engine.milestones",
    "NotFederatedError": "engine.federated",
    "Result": "results.result",
    "check_federated": "engine.federated",
    "compare": "results.comparison",
    "load": "results.result",
    "load_experiment": "sweeps.load",
    "plot": "results.plots",
    "simulate": "engine.simulate",
    "trajectory": "engine.observing",
}
_MODULES_LATER = {"bounds": "theory.bounds", "tuning": "tuning"}


def __getattr__(name: str) -> Any:
    if name in _LATER:
        return getattr(import_module(f".{_LATER[name]}", __name__), name)
    if name in _MODULES_LATER:
        return import_module(f".{_MODULES_LATER[name]}", __name__)
    if name in REGISTRY:  # registered, and not imported above for those who read and check types
        return REGISTRY[name]
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*__all__, *REGISTRY, "__version__"})
