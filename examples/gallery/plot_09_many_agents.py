"""
A million agents, scaled down
=============================

A million agents on a grid are a matter of seconds on a GPU, and of minutes on two cores:
:doc:`the measured times </howto/large>`. That is too long for a page, so here are four
thousand, by the same lines; ``side = 1000`` is the million.
"""

import time

import matplotlib.pyplot as plt

import fedbandits as fb

side = 64
network = fb.networks.grid(side, side)
gossip = fb.gossip.max_degree(network)
problem = fb.problems.activated_bernoulli(agents=side**2, arms=10, horizon=200, seed=0)

began = time.perf_counter()
together = fb.simulate(problem, fb.FedExp3(), gossip, runs=1)
took = time.perf_counter() - began
print(f"{network.agents:,} agents, {problem.horizon} rounds: {took:.1f} s with compiling")

# %%
# Losses are made round by round and agents are rows of arrays: memory grows with the agents, not
# with the rounds. News needs as many rounds as there are hops to get around, and still an agent
# gains from all who are near.

alone = fb.simulate(problem, fb.Exp3(), gossip, runs=1)
fb.plot({"together": together, "alone": alone})
plt.show()
