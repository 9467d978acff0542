"""
Regret against the spectral gap
===============================

The right panel of the paper's figure 1. The network matters little: at the end, regret grows
along a line in (1 - σ2)^(-1/3), where 1 - σ2 is the spectral gap of the gossip matrix.
"""

import matplotlib.pyplot as plt
import numpy as np

import fedbandits as fb

networks = {"complete": fb.networks.complete(36), "grid": fb.networks.grid(6, 6)}
for radius in (0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9):
    networks[f"RGG({radius})"] = fb.networks.random_geometric(36, radius, seed=0)

problem = fb.problems.activated_bernoulli(agents=36, arms=20, horizon=3000, seed=0)
algorithm = fb.FedExp3(0.1, fb.schedules.power(0.01, 1 / 3))  # the constants of the paper's code

# %%
# Networks differ by less than one draw of the losses differs from another. ``draws`` plays
# several of them; every network has the same losses and random numbers.

x, regret = [], []
for network in networks.values():
    gossip = fb.gossip.max_degree(network, lazy=False)
    result = fb.simulate(problem, algorithm, gossip, draws=8)
    x.append(gossip.gap ** (-1 / 3))
    regret.append(float(result.dataset["expected_regret"].isel(time=-1).mean()))

# %%
# ``fedbandits reproduce figure1`` takes more draws, and adds intervals and the published values.

slope, start = np.polyfit(x, regret, deg=1)
r2 = np.corrcoef(x, regret)[0, 1] ** 2
fig, ax = plt.subplots(figsize=(5, 3.1), layout="constrained")
ax.plot(x, regret, "o")
ax.plot(x, start + slope * np.array(x), label=f"R² {r2:.2f}")
for place, height, name in zip(x, regret, networks, strict=True):
    ax.annotate(
        name,
        (place, height),
        (0, 6),
        textcoords="offset points",
        fontsize="x-small",
        rotation=90,
        ha="center",
    )
ax.margins(0.08, 0.3)
ax.set(xlabel=r"$(1 - \sigma_2)^{-1/3}$", ylabel="expected regret at T")
ax.legend(loc="lower right")
plt.show()
