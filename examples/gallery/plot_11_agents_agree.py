"""
Agents agree: the network as an animation
=========================================

256 agents on a grid, six arms, and no two agents with the same taste. With
``record="agents"`` a result keeps snapshots of every agent, and the network can be played back.
"""

import tempfile
from pathlib import Path

import matplotlib.pyplot as plt

import fedbandits as fb

problem = fb.problems.heterogeneous(agents=256, arms=6, horizon=300, gap=0.05)
gossip = fb.gossip.max_degree(fb.networks.grid(16, 16))
result = fb.simulate(problem, fb.FedExp3(), gossip, runs=1, record="agents")
print(result.best_arm)

# %%
# A path that ends in ``.html`` gives one file that needs nothing else, neither a server nor the
# internet. Here it is: press play, or pull the slider. Every dot is an agent, in the colour of
# the arm that it would most likely play next. A path that ends in ``.png`` or ``.pdf`` gives the
# last snapshot.

page = Path(tempfile.mkdtemp()) / "agree.html"
result.plot(kind="network", path=page)
print("open", page)
plt.show()
