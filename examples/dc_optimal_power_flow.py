"""
DC optimal power flow, with prices at every bus
===============================================

*Lines have limits, so that power is worth more at some buses than at others. Can the buses find outputs and prices
themselves?*

The balance is an equality and the flows must stay in a box, both in h. Cost and prices are checked against PYPOWER.
"""

# %%
# The IEEE 30-bus case, on a hot day: every line carries 75 % of what it usually may. With the transfer factors H of the
# lines (PTDF), the flows are H (P - D), so that a generator at bus b has the coupling column :math:`[1; H_b]` and
#
# .. math:: h = \text{indicator of } \{\text{load}\} \times [HD - \text{limit},\ HD + \text{limit}].

import sys

import matplotlib.pyplot as plt
import networkx as nx
import numpy as np
from pypower import api

import npga
from npga import power

grid = power.case("case30")
flow = grid.power_flow(limits=0.75)
network = grid.network()

result = npga.solve(flow.problem, network, tol=1e-9)
print(result)

# %%
# The dual variable of the balance is minus the price of energy; those of the lines, carried to the buses by H, are the
# price of congestion. Their sum is the price at a bus, and here no other prices go with this dispatch.

energy, congestion = flow.prices(result)
price = energy + congestion
loading = np.abs(flow.flows(result)) / (0.75 * grid.limit)
full = np.flatnonzero(loading > 1 - 1e-5)
print(f"price of energy {energy:.4f} $/MWh, {full.size} lines at their limits; unique: {result.duals_are_unique}")

places = nx.kamada_kawai_layout(network.graph)  # buses are numbered from 0 here, and from 1 in the figure and PYPOWER
figure, axis = plt.subplots(figsize=(8, 5.5), layout="constrained")
ends = [tuple(pair) for pair in grid.ends.tolist()]
lines = nx.Graph(ends)
nx.draw_networkx_edges(lines, places, edgelist=ends, width=1 + 4 * loading, edge_color="0.8", ax=axis)
nx.draw_networkx_edges(lines, places, edgelist=[ends[k] for k in full], width=5, edge_color="#CC6677", ax=axis)
nodes = nx.draw_networkx_nodes(
    lines, places, nodelist=range(len(price)), node_color=price, node_size=260, cmap="viridis", ax=axis
)
light = price > (price.min() + price.max()) / 2  # yellow and green nodes: dark numbers on them
for colour, chosen in (("white", ~light), ("black", light)):
    labels = {bus: bus + 1 for bus in np.flatnonzero(chosen).tolist()}
    nx.draw_networkx_labels(lines, places, labels, font_size=7, font_color=colour, ax=axis)
figure.colorbar(nodes, label="price at a bus, $/MWh")
axis.set_title("Width: how full a line is. Red: at its limit.", fontsize=10)
axis.set_axis_off()
plt.show()

# %%
# **The numbers.** PYPOWER finds the cost and a price for each bus.

quiet = api.ppoption(VERBOSE=0, OUT_ALL=0, PDIPM_COSTTOL=1e-11, PDIPM_GRADTOL=1e-10)
hot = api.case30()
hot["branch"][:, 5] *= 0.75
theirs = api.rundcopf(hot, quiet)
cost = flow.cost(result)
off = float(np.abs(price - theirs["bus"][:, 13]).max())
print(f"cost {cost:.4f} $/h, PYPOWER {theirs['f']:.4f} $/h; largest difference of a price {off:.1e} $/MWh")
assert abs(cost - theirs["f"]) < 1e-6 * theirs["f"]
assert off < 1e-3

# %%
# The seven cases of PYPOWER with limits as they come, from 9 to 300 buses: the same cost every time.

cases = ("case9", "case14", "case30", "case39", "case57", "case118", "case300")
for name in cases[:3] if "--small" in sys.argv else cases:
    grid = power.case(name)
    flow = grid.power_flow()
    result = npga.solve(flow.problem, grid.network(), tol=1e-8)
    cost, theirs = flow.cost(result), api.rundcopf(getattr(api, name)(), quiet)["f"]
    print(f"{name:8} {result.iterations:6} iterations, {cost:14.4f} $/h, PYPOWER {theirs:14.4f} $/h")
    assert abs(cost - theirs) < 1e-7 * theirs
