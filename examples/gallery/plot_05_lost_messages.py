"""
Half the messages are lost
==========================

Links fail. What an agent should do about a message that did not come makes all the difference:
if what is lost is lost, estimates drain away; with the ledger of live agents nothing does.
"""

import matplotlib.pyplot as plt

import fedbandits as fb

problem = fb.problems.heterogeneous(agents=16, arms=5, horizon=2000, seed=0)
gossip = fb.gossip.max_degree(fb.networks.grid(4, 4))

rules = {
    "no message is lost": gossip,
    "half lost, ledger": fb.gossip.unreliable(gossip, loss=0.5, rule="flow"),
    "half lost, own value instead": fb.gossip.unreliable(gossip, loss=0.5, rule="receiver"),
    "half lost, and that is that": fb.gossip.unreliable(gossip, loss=0.5, rule="lost"),
}
results = {name: fb.simulate(problem, fb.FedExp3(), links) for name, links in rules.items()}
for name, result in results.items():
    print(f"{name}: {result.best_arm.agreement:.0%} of the agents would play the best arm")

# %%
# Three of the curves are close to each other. The fourth is useless: every round in which a
# message is lost takes weight from the estimates, and an arm that was heard of less looks
# better.

fb.plot(results)
plt.show()
