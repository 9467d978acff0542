"""fedbandits: federated adversarial bandits.

Many agents on a communication network each pick one of K arms per round and see only their own
loss, which an adversary sets per round and per agent. All want the arm that is best on average
over everyone, and none hands out its raw arms or losses.

    simulate(problem, algorithm, gossip, runs=10, seed=0) -> Result

Importing the package loads NumPy only; JAX and the rest are loaded when first needed.
"""

from typing import TYPE_CHECKING, Any

from . import bounds, gossip, networks, problems, schedules
from .algorithms import Algorithm, Exp3, FedExp3, FedHedge, GossipUCB, Leaf, Uniform
from .gossip import Gossip
from .networks import Network
from .problems import Problem
from .results import Comparison, Result, compare, load

if TYPE_CHECKING:
    from .engine.simulate import simulate

__version__ = "0.1.0"

__all__ = [
    "Algorithm",
    "Comparison",
    "Exp3",
    "FedExp3",
    "FedHedge",
    "Gossip",
    "GossipUCB",
    "Leaf",
    "Network",
    "Problem",
    "Result",
    "Uniform",
    "bounds",
    "compare",
    "gossip",
    "load",
    "networks",
    "problems",
    "schedules",
    "simulate",
]


def __getattr__(name: str) -> Any:
    if name == "simulate":  # the only name that needs JAX
        from .engine.simulate import simulate

        return simulate
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted([*globals(), "simulate"])
