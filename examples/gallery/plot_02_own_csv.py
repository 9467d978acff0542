"""
Bring a CSV
===========

A year of sales in ten shops, a line for each day, shop and offer. Any names of columns will do;
here the file is made first, so that the script stands by itself.
"""

import tempfile
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd

import fedbandits as fb

rng = np.random.default_rng(0)
offers = ["tea", "coffee", "cocoa"]
taste = rng.uniform(20, 40, size=(10, 3))
taste[:, 2] += 35 - taste[:, 2].mean()  # cocoa is best for the chain, and not in every shop
days = pd.date_range("2025-01-01", periods=365)
sold = rng.normal(taste, 5, size=(365, 10, 3)).round(2)
index = pd.MultiIndex.from_product([days, [f"shop{i}" for i in range(10)], offers])
sales = pd.Series(sold.ravel(), index.set_names(["date", "shop", "offer"]), name="revenue")
file = Path(tempfile.mkdtemp()) / "sales.csv"
sales.to_csv(file)
print(file.read_text()[:120])

# %%
# Say what the columns are, and the range of a value: regret is then in units of ``high - low``.

problem = fb.problems.from_table(
    file,
    columns={"time": "date", "agent": "shop", "arm": "offer", "reward": "revenue"},
    low=0,
    high=60,
)
gossip = fb.gossip.max_degree(fb.networks.ring(problem.agents))
result = fb.simulate(problem, fb.FedExp3(), gossip)
print(result.best_arm)

# %%
# The result keeps the dates.

result.plot()
plt.show()
