"""
Optuna instead of tune
======================

``fedbandits tune`` searches a grid. Any other search works as well: a simulation is a function
of its parameters. The library itself does not need Optuna; the extra ``gallery`` brings it.
"""

import matplotlib.pyplot as plt
import optuna

import fedbandits as fb

optuna.logging.set_verbosity(optuna.logging.WARNING)
problem = fb.problems.heterogeneous(agents=16, arms=5, horizon=1000, seed=0)
gossip = fb.gossip.max_degree(fb.networks.grid(4, 4))


def regret(trial: optuna.Trial) -> float:
    rate = trial.suggest_float("learning_rate", 0.003, 3, log=True)
    exploration = trial.suggest_float("exploration", 0.001, 0.3, log=True)
    algorithm = fb.FedExp3(rate, fb.schedules.power(exploration, 1 / 3))
    result = fb.simulate(problem, algorithm, gossip, runs=5)
    return float(result.band("expected_regret").mean[-1])


study = optuna.create_study(sampler=optuna.samplers.TPESampler(seed=0))
study.optimize(regret, n_trials=30)
print(study.best_params)

# %%
# The best of many on the same losses is partly the luckiest: judge it on losses that it has not
# seen. ``fedbandits tune`` does so by itself.

fresh = fb.tuning.redraw(problem, seed=1)
rate, exploration = study.best_params.values()
tuned = fb.FedExp3(rate, fb.schedules.power(exploration, 1 / 3))
for name, player in {"tuned": tuned, "as it comes": fb.FedExp3()}.items():
    regrets = fb.simulate(fresh, player, gossip).band("expected_regret")
    print(f"{name}: {float(regrets.mean[-1]):.1f}")

# %%
# Numbers of a setting are traced: all trials were played by one compiled program.

fig, ax = plt.subplots(figsize=(5, 3.1), layout="constrained")
tried = [trial.params["learning_rate"] for trial in study.trials]
ax.scatter(tried, study.trials_dataframe()["value"], c=range(len(tried)), cmap="cividis")
ax.set(xscale="log", xlabel="learning rate", ylabel="expected regret at T")
plt.show()
