"""
One policy for a CDN
====================

Sixteen edges want one eviction policy for all, the one with which the fleet misses least. Each
sees only what it misses itself, with the policy that it runs. :doc:`The whole story </start/cdn>`.
"""

import matplotlib.pyplot as plt
import numpy as np

import fedbandits as fb

problem = fb.problems.cdn()  # what each policy would have missed, by round and edge
gossip = fb.gossip.metropolis(fb.networks.grid(4, 4))  # neighbours on the map

# %%
# Were the edges to vote, each for the policy that misses least there, they would elect another
# than the fleet's best:

missed = problem.block(1, problem.horizon).mean(axis=0)  # by edge and policy
policies = np.array(problem.arm_names)
favourites, votes = np.unique(policies[missed.argmin(axis=1)], return_counts=True)
print("elected:", favourites[votes.argmax()])
print("best for the fleet:", policies[missed.mean(axis=0).argmin()])

# %%
# With FedExp3 they average running sums of losses with their neighbours', and no log leaves an
# edge. Alone each finds what is best for itself.

together = fb.simulate(problem, fb.FedExp3(), gossip, runs=3)
alone = fb.simulate(problem, fb.Exp3(), gossip, runs=3)
print("together:", together.best_arm)
print("alone:", alone.best_arm)
fb.plot({"together": together, "alone": alone})
plt.show()
