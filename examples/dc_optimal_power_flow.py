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

import matplotlib.pyplot as plt
import networkx as nx
import numpy as np
from pypower.api import case30, ext2int, makePTDF, ppoption, rundcopf

import npga
from npga import functions as fn

case = ext2int(case30())
bus, gen, branch = case["bus"], case["gen"], case["branch"]
at, low, high = gen[:, 0].astype(int), gen[:, 9], gen[:, 8]
c2, c1, c0 = case["gencost"][:, 4:7].T
demand, limit = bus[:, 2], 0.75 * branch[:, 5]
slack = int(np.flatnonzero(bus[:, 1] == 3)[0])
H = makePTDF(case["baseMVA"], bus, branch, slack)
rows = np.vstack([np.ones(len(at)), H[:, at]])

agents = []
for b in range(len(bus)):
    mine = np.flatnonzero(at == b)
    if mine.size:
        f, g = fn.SquaredNorm(2 * c2[mine], center=-c1[mine] / (2 * c2[mine])), fn.Box(low[mine], high[mine])
        agents.append(npga.Agent(A=rows[:, mine], f=f, g=g))
    else:
        agents.append(npga.Agent(A=np.zeros((len(rows), 0)), f=fn.Zero()))
still = H @ demand
h = fn.SeparableSum([fn.Equality([demand.sum()]), fn.Box(still - limit, still + limit)], [1, len(limit)])
problem = npga.Problem(agents, h)
grid = nx.Graph()
grid.add_nodes_from(range(len(bus)))
grid.add_edges_from(branch[:, :2].astype(int).tolist())
network = npga.Network(grid)

result = npga.solve(problem, network, tol=1e-9)
print(result)

# %%
# The dual variable of the balance is minus the price of energy; those of the lines, carried to the buses by H, are the
# price of congestion. Their sum is the price at a bus.

lam = result.duals
energy, congestion = -lam[0], -H.T @ lam[1:]
price = energy + congestion
order = np.concatenate([np.flatnonzero(at == b) for b in range(len(bus))])
output = np.empty(len(at))
output[order] = result.x
flow = H @ (np.bincount(at, output, len(bus)) - demand)
full = np.flatnonzero(np.abs(flow) > limit - 1e-3)
print(f"price of energy {energy:.4f} $/MWh, {full.size} lines at their limits")

places = nx.kamada_kawai_layout(grid)
figure, axis = plt.subplots(figsize=(8, 5.5), layout="constrained")
ends = [tuple(pair) for pair in branch[:, :2].astype(int).tolist()]
loading = np.abs(flow) / limit
nx.draw_networkx_edges(grid, places, edgelist=ends, width=1 + 4 * loading, edge_color="0.8", ax=axis)
nx.draw_networkx_edges(grid, places, edgelist=[ends[k] for k in full], width=5, edge_color="#CC6677", ax=axis)
nodes = nx.draw_networkx_nodes(grid, places, node_color=price, node_size=260, cmap="viridis", ax=axis)
nx.draw_networkx_labels(grid, places, font_size=7, font_color="white", ax=axis)
figure.colorbar(nodes, label="price at a bus, $/MWh")
axis.set_title("Width: how full a line is. Red: at its limit.", fontsize=10)
axis.set_axis_off()
plt.show()

# %%
# **The numbers.** PYPOWER finds the cost and a price for each bus.

hot = case30()
hot["branch"][:, 5] *= 0.75
theirs = rundcopf(hot, ppoption(VERBOSE=0, OUT_ALL=0, PDIPM_COSTTOL=1e-11, PDIPM_GRADTOL=1e-10))
cost = float(np.sum(c2 * output**2 + c1 * output + c0))
off = float(np.abs(price - theirs["bus"][:, 13]).max())
print(f"cost {cost:.4f} $/h, PYPOWER {theirs['f']:.4f} $/h; largest difference of a price {off:.1e} $/MWh")
assert abs(cost - theirs["f"]) < 1e-6 * theirs["f"]
assert off < 1e-3
