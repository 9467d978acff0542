"""
Tuned, and judged on other seeds
================================

``fb.tuning.choose`` plays a grid of settings side by side, by one compiled program, on some
draws of the losses. ``fb.tuning.report`` plays the winner and the default on others.
"""

import matplotlib.pyplot as plt

import fedbandits as fb

problem = fb.problems.heterogeneous(agents=16, arms=5, horizon=1000, seed=0)
gossip = fb.gossip.max_degree(fb.networks.grid(4, 4))

choice = fb.tuning.choose(problem, fb.FedExp3(), gossip, budget=13, runs=3)
print(choice.winner)

# %%
# Chosen on three draws, judged on ten others: is it better than what comes without tuning?

said = fb.tuning.report(problem, choice.winner, fb.FedExp3(), gossip, runs=3)
print(said.summary())
print("better:", said.wins)

# %%
# What was tried: each line has its own exploration. The default chooses its rate itself.

table = choice.table()
grid, default = table[~table.given], table[table.given]
fig, ax = plt.subplots(figsize=(5, 3.1), layout="constrained")
for (exploration, rows), style in zip(grid.groupby("exploration.c"), ("o-", "s--"), strict=True):
    label = f"exploration {exploration:g} · $t^{{-1/3}}$"
    ax.plot(rows.learning_rate.astype(float), rows.regret, style, label=label)
ax.axhline(default.regret.item(), color="black", linestyle=":", label="the default")
ax.set(xscale="log", xlabel="learning rate", ylabel="expected regret at T")
ax.legend()
plt.show()
