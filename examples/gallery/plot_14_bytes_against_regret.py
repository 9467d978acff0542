"""
Bytes against regret
====================

Who says more learns faster, and sends more. Where a link is dear, the question is which algorithm
has the least regret for the bytes at hand.
"""

import matplotlib.pyplot as plt

import fedbandits as fb

problem = fb.problems.heterogeneous(agents=16, arms=10, horizon=2000, seed=0)
grid = fb.gossip.max_degree(fb.networks.grid(4, 4))
one_link = fb.gossip.random_edge(fb.networks.grid(4, 4))  # drawn anew in every round
everyone = fb.gossip.max_degree(fb.networks.complete(16))

results = {
    "FedExp3": fb.simulate(problem, fb.FedExp3(), grid),
    "FedExp3, one link a round": fb.simulate(problem, fb.FedExp3(), one_link),
    "FedExp3, all to all": fb.simulate(problem, fb.FedExp3(), everyone),
    "GossipUCB": fb.simulate(problem, fb.GossipUCB(), grid),
    "Exp3Coop": fb.simulate(problem, fb.Exp3Coop(), grid),
    "Exp3, alone": fb.simulate(problem, fb.Exp3(), grid),
}
for name, result in results.items():
    print(f"{name}: {result.communication['bytes']:.0f} bytes an agent and round")

# %%
# No other is both lower and further left than those on the dashed line. Which of them to take is
# a matter of what a byte costs.

fb.plot(results, kind="pareto")
plt.show()
