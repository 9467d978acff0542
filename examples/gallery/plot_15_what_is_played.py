"""
A heat map of what is played
============================

Regret says how much was lost, not on what. A heat map shows the probability of every arm over
time: early on all of them, later the one that is best for all.
"""

import matplotlib.pyplot as plt

import fedbandits as fb

problem = fb.problems.switching(agents=16, arms=6, horizon=3000, parts=3, seed=0)
gossip = fb.gossip.max_degree(fb.networks.grid(4, 4))

# %%
# Here the best arm changes twice, and agents remember the last two hundred rounds. Snapshots of
# all agents come with ``record="agents"``.

result = fb.simulate(problem, fb.FedExp3(memory=200), gossip, runs=5, record="agents")

# %%
# Each change is seen some rounds late: the arm that was best has to be found worse first.

result.plot(kind="arms")
plt.show()
