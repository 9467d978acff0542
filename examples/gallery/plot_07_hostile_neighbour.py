"""
A hostile neighbour, and a limit
================================

One agent of thirty-six tells all its neighbours that the worst arm is the best. With the plain
average everyone believes it. A limit on what a neighbour can move in a round bounds the harm.
"""

import matplotlib.pyplot as plt

import fedbandits as fb

problem = fb.problems.activated_bernoulli(agents=36, arms=5, horizon=1000)
gossip = fb.gossip.max_degree(fb.networks.grid(6, 6))
worst = problem.block(1, problem.horizon).mean(axis=(0, 1)).argmax()
liar = {14: fb.attacks.promote(arm=worst)}

clipped = fb.gossip.clipped(gossip, limit=1.0)
results = {
    "all honest": fb.simulate(problem, fb.FedExp3(), gossip),
    "a liar": fb.simulate(problem, fb.FedExp3(), gossip, liars=liar),
    "a liar, and a limit": fb.simulate(problem, fb.FedExp3(), clipped, liars=liar),
    "alone": fb.simulate(problem, fb.Exp3(), gossip),
}

# %%
# Regret is that of the honest agents. The limit bounds what a lie moves in a round, and no more:
# a small one slows honest agents down as well, and no regret bound is known.

ax = fb.plot(results)
ax.set(yscale="log", ylim=(0.3, None))
plt.show()
