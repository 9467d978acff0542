"""
My own algorithm in twenty lines
================================

Play the arm with the smallest gossiped loss estimate, and any arm now and then. Four functions
over an explicit state are all there is to it; the engine does the rest.
"""

from dataclasses import dataclass
from typing import NamedTuple

import matplotlib.pyplot as plt
import numpy as np

import fedbandits as fb
from fedbandits.arrays import played


class State(NamedTuple):
    z: np.ndarray  # loss estimates, [arms, ...]


@dataclass(frozen=True)
class Leader(fb.Algorithm[State]):
    exploration: float = 0.1
    leaves = {"z": fb.Leaf(kind="estimate", combine="average")}  # what leaves the agent

    def init(self, arms, agents, batch=(), dtype=np.float32):
        return State(np.zeros((arms, *batch), dtype))

    def distribution(self, state, t):
        best = (state.z == state.z.min(axis=0)).astype(state.z.dtype)
        return (1 - self.exploration) * best / best.sum(axis=0) + self.exploration / len(best)

    def message(self, state):
        return {"z": state.z}

    def update(self, state, received, action, feedback, p, t):
        where = p.__array_namespace__().where
        return State(received["z"] + where(played(action, like=p), feedback / p, 0.0))


# %%
# Is it federated? This is silent, or names who knew what too soon.

fb.check_federated(Leader(), fb.networks.grid(3, 3))

# %%
# Beside the paper's algorithm and agents alone.

problem = fb.problems.heterogeneous(agents=16, arms=5, horizon=2000, seed=0)
gossip = fb.gossip.max_degree(fb.networks.grid(4, 4))
results = {
    type(player).__name__: fb.simulate(problem, player, gossip)
    for player in (Leader(), fb.FedExp3(), fb.Exp3())
}
fb.plot(results)
plt.show()
