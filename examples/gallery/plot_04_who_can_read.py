"""
Who can read my messages?
=========================

FedExp3 sends running sums of estimates, no arm and no loss. A neighbour that keeps two
successive messages of an agent sees what was added in between: its place is the arm, its size
tells the loss.
"""

import matplotlib.pyplot as plt
import numpy as np

import fedbandits as fb

problem = fb.problems.bernoulli([0.3, 0.4, 0.5, 0.6], horizon=200, agents=9)
gossip = fb.gossip.max_degree(fb.networks.grid(3, 3))

# %%
# ``trajectory`` keeps every round of a small simulation, messages included; ``reconstruct`` is
# one attack on it. What it finds is a lower bound on what leaks.

played = fb.trajectory(problem, fb.FedExp3(), gossip)
seen = fb.privacy.reconstruct(played, attacker=4, victim=3)
print(f"{seen.arms_found:.0%} of the arms that lost, {seen.arms_guessed:.0%} by guessing")

# %%
# The same of every algorithm that sends estimates or more in every round.

found = {}
for algorithm in (fb.FedExp3(), fb.FedFTRL(), fb.GossipUCB(), fb.Exp3Coop(), fb.FedHedge()):
    kept = fb.trajectory(problem, algorithm, gossip)
    attack = fb.privacy.reconstruct(kept, attacker=4, victim=3)
    found[type(algorithm).__name__] = (attack.arms_found, attack.arms_guessed)

fig, ax = plt.subplots(figsize=(5, 3.1), layout="constrained")
places, (attacked, guessed) = np.arange(len(found)), np.transpose(list(found.values()))
ax.barh(places - 0.2, attacked, 0.4, label="from two messages", color="#D55E00")
ax.barh(places + 0.2, guessed, 0.4, label="by guessing", color="#56B4E9")
ax.set(yticks=places, yticklabels=found, xlabel="share of the arms that lost", xlim=(0, 1))
fig.legend(loc="outside upper center", ncols=2)
plt.show()
