"""
Ten shops, one offer
====================

Ten shops on a ring try three offers. Customers differ from shop to shop, and each shop sees
only what the offer that it showed has cost it. All want the offer that is best for the chain.
"""

import matplotlib.pyplot as plt

import fedbandits as fb

# What each shop loses by each offer: coins with means of its own, and one offer best on average.
problem = fb.problems.heterogeneous(agents=10, arms=3, horizon=2000, seed=1)
gossip = fb.gossip.max_degree(fb.networks.ring(10))

together = fb.simulate(problem, fb.FedExp3(), gossip)  # shops average their estimates
alone = fb.simulate(problem, fb.Exp3(), gossip)  # nobody talks

# %%
# How many shops would now play the offer that is best for all?

print("together:", together.best_arm)
print("alone:", alone.best_arm)

# %%
# Regret is what was lost beyond the best offer. Together it flattens once the offer is found.
# Alone it rises for ever, since many a shop has settled on what is best only there.

fb.plot({"together": together, "alone": alone})
plt.show()
