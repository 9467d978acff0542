"""An algorithm and more of a user's own, in a module beside the configuration that names them."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from fedbandits.common import own_modules

LEADER = '''
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar, NamedTuple

import numpy as np

import fedbandits as fb
from fedbandits.algorithms.tunable import EXPLORATION, Tunable
from fedbandits.arrays import Array, played


class LeaderState(NamedTuple):
    z: Array


@dataclass(frozen=True)
class FedLeader(fb.Algorithm[LeaderState]):
    """Play the arm of the smallest gossiped estimate, or any with probability γ."""

    exploration: float = 0.1
    leaves: ClassVar[Mapping[str, fb.Leaf]] = {"z": fb.Leaf("estimate", "average")}
    tunable: ClassVar[Mapping[str, Tunable]] = {"exploration": EXPLORATION}

    def init(self, arms, agents, batch=(), dtype=np.float32):
        return LeaderState(np.zeros((arms, *batch), dtype))

    def distribution(self, state, t):
        leading = (state.z == state.z.min(axis=0)).astype(state.z.dtype)
        leader = leading / leading.sum(axis=0)
        return (1 - self.exploration) * leader + self.exploration / state.z.shape[0]

    def message(self, state):
        return {"z": state.z}

    def update(self, state, received, action, feedback, p, t):
        xp = p.__array_namespace__()
        return LeaderState(received["z"] + xp.where(played(action, like=p), feedback / p, 0.0))
'''
"""The one of CONTRIBUTING.md."""

OTHERS = '''

@dataclass(frozen=True)
class Decaying:
    """A rate."""

    c: float

    def __call__(self, t, state):
        return self.c / t**0.5


@dataclass(frozen=True)
class Waves(fb.problems.Problem):
    """Losses that go up and down, each arm later than the one before."""

    agents: int = field(metadata={"static": True})
    arms: int = field(metadata={"static": True})
    horizon: int = field(metadata={"static": True})
    period: float = 20.0

    def losses(self, t):
        import jax.numpy as jnp

        phase = jnp.arange(self.arms) / self.arms
        one = (1 + jnp.sin(2 * jnp.pi * (t / self.period + phase))) / 2
        return jnp.broadcast_to(one, (self.agents, self.arms))


def halves(agents: int, weights: list[float]) -> fb.problems.Problem:
    """The same losses in every round."""
    return fb.problems.from_tensor(np.tile(np.array(weights), (20, agents, 1)))


def wheel(spokes: int) -> fb.networks.Network:
    """A ring and a hub."""
    around = [(v, v % spokes + 1) for v in range(1, spokes + 1)]
    return fb.networks.from_edges(spokes + 1, [(0, v) for v in range(1, spokes + 1)] + around)


def slow(network: fb.networks.Network, share: float) -> fb.gossip.Gossip:
    """A little of the metropolis matrix."""
    W = fb.gossip.metropolis(network).matrix.toarray()
    return fb.gossip.from_matrix(share * W + (1 - share) * np.eye(network.agents), network)
'''

CONFIG = """runs = 2

[problem]
name = "activated_bernoulli"
agents = 4
arms = 3
horizon = 20

[network]
name = "ring"
agents = 4

[gossip]
name = "max_degree"

[algorithm]
name = "leaders:FedLeader"
exploration = 0.2
"""


@contextmanager
def own_folder(folder: Path) -> Iterator[Path]:
    """A configuration and the module it names; what importing it leaves behind goes at the end."""
    (folder / "leaders.py").write_text(LEADER + OTHERS, encoding="utf-8")
    (folder / "own.toml").write_text(CONFIG, encoding="utf-8")
    with imported_for_a_while(folder):
        yield folder


@contextmanager
def imported_for_a_while(folder: Path) -> Iterator[None]:
    """What is imported from a folder within it is forgotten at its end."""
    modules, path, sources = dict(sys.modules), list(sys.path), dict(own_modules._sources)
    try:
        yield
    finally:
        for name in sys.modules.keys() - modules.keys():
            if str(getattr(sys.modules[name], "__file__", "")).startswith(str(folder)):
                del sys.modules[name]
        sys.path[:] = path
        own_modules._sources.clear()
        own_modules._sources.update(sources)


def forgotten(*names: str) -> None:
    """As in a process that has not imported these modules yet."""
    for name in names:
        sys.modules.pop(name, None)
        own_modules._sources.pop(name, None)
