"""
The best arm changes
====================

Regret is against the best *fixed* arm. Where the best arm changes, whoever follows the changes
is below zero, which says little. ``regret_against`` asks more, of the same runs.
"""

import matplotlib.pyplot as plt

import fedbandits as fb

problem = fb.problems.switching(agents=16, arms=5, horizon=3000, parts=4, seed=0)
gossip = fb.gossip.max_degree(fb.networks.grid(4, 4))
players = {
    "remembers all": fb.FedExp3(),
    "memory of 200 rounds": fb.FedExp3(memory=200),
    "weighs five memories": fb.TrackingFedExp3(),
}
results = {name: fb.simulate(problem, player, gossip, runs=5) for name, player in players.items()}

# %%
# On the left against the best fixed arm; on the right against the best sequence of arms with
# three changes. Who forgets has less to unlearn after each change.

fig, (fixed, moving) = plt.subplots(1, 2, figsize=(9, 3.8), layout="constrained")
fb.plot(results, ax=fixed)
against = {name: result.regret_against(changes=3) for name, result in results.items()}
fb.plot(against, ax=moving)
plt.show()
