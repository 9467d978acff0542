"""fedbandits: federated adversarial bandits.

Many agents on a communication network each pick one of K arms per round and see only their own
loss, which an adversary sets per round and per agent. All want the arm that is best on average
over everyone, and none hands out its raw arms or losses.

    simulate(problem, algorithm, gossip, runs=10, seed=0) -> Result

Importing the package imports no submodule: each name is imported when it is first used.
"""

from importlib import import_module
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

from .common import backend as backend  # watches for forks, from the start
from .common import extras as extras  # names missing packages, from the start
from .common.version import __version__ as __version__

if TYPE_CHECKING:
    from . import attacks, gossip, live, networks, privacy, problems, schedules, tuning
    from .algorithms import (
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
    from .engine.checks.federated import NotFederatedError, check_federated
    from .engine.simulate import simulate
    from .engine.trajectory import trajectory
    from .gossip import acceleration as accelerated
    from .gossip.base import Gossip
    from .networks import Network
    from .problems import Problem
    from .results.comparison import Comparison, compare
    from .results.plots import plot
    from .results.result import Result, load
    from .simulation.options import Milestone
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


_HOMES = {
    "Comparison": "results.comparison",
    "Gossip": "gossip.base",
    "Milestone": "simulation.options",
    "Network": "networks",
    "NotFederatedError": "engine.checks.federated",
    "Problem": "problems",
    "Result": "results.result",
    "check_federated": "engine.checks.federated",
    "compare": "results.comparison",
    "load": "results.result",
    "load_experiment": "sweeps.load",
    "plot": "results.plots",
    "simulate": "engine.simulate",
    "trajectory": "engine.trajectory",
}
"""The submodule that defines each name. Algorithms are in `algorithms`."""

_ALIASES = {"accelerated": "gossip.acceleration", "bounds": "theory.bounds"}
"""Submodules that have a shorter public name."""


def __getattr__(name: str) -> Any:
    if name in _ALIASES or find_spec(f"{__name__}.{name}") is not None:
        return import_module(f".{_ALIASES.get(name, name)}", __name__)
    if not name.startswith("_"):
        home = import_module(f".{_HOMES.get(name, 'algorithms')}", __name__)
        if name in _HOMES or name in __all__ or name in home.REGISTRY:
            return getattr(home, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    from .algorithms import REGISTRY

    return sorted({*__all__, *REGISTRY, "__version__"})
