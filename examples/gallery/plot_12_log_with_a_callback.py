"""
Log to MLflow or W&B with a callback
====================================

``simulate(callback=...)`` calls a function of yours after every chunk of rounds, with where the
simulation stands. Whatever tracks your experiments can be told so; the library needs none of them.
"""

from collections.abc import Mapping

import matplotlib.pyplot as plt

import fedbandits as fb

problem = fb.problems.heterogeneous(agents=16, arms=5, horizon=20_000, seed=0)
gossip = fb.gossip.max_degree(fb.networks.grid(4, 4))


# %%
# With W&B the call is ``wandb.log({"regret": regret}, step=milestone.round)``, after
# ``wandb.init()``; with MLflow ``mlflow.log_metric("regret", regret, step=milestone.round)``. So
# that this page needs neither, here is an object that takes W&B's call and keeps what it was told.


class Tracker:
    def __init__(self) -> None:
        self.rows: list[dict[str, float]] = []

    def log(self, values: Mapping[str, float], step: int) -> None:
        self.rows.append({"step": step, **values})


tracker = Tracker()


def tell(milestone: fb.Milestone) -> None:
    regret = milestone.expected_regret  # of each run, mean over agents
    tracker.log({"regret": regret.mean(), "worst run": regret.max()}, step=milestone.round)


result = fb.simulate(problem, fb.FedExp3(), gossip, runs=20, callback=tell)

# %%
# What the tracker was told, over the result. A chunk is of some hundred rounds, fewer where agents
# are many; the result is the same with a callback and without.

fig, ax = plt.subplots(figsize=(5, 3.1), layout="constrained")
curve = result.dataset.expected_regret.mean("run")
ax.plot(curve.time, curve, label="the result, mean over runs")
steps = [row["step"] for row in tracker.rows]
for name, style in (("regret", "o"), ("worst run", "^")):
    ax.plot(steps, [row[name] for row in tracker.rows], style, label=f"logged: {name}")
ax.set(xlabel="round t", ylabel="expected regret", xlim=(0, problem.horizon * 1.02))
ax.legend()
plt.show()
