"""
Economic dispatch on IEEE 118
=============================

*Fifty-four generators meet one load. Can the buses agree on who produces how much, and on the price, without a control
centre?*

Each bus knows its own generators, their costs and limits, and talks along the lines of the grid. The total cost is
checked against PYPOWER, which solves the same problem in one place.
"""

# %%
# The case comes with PYPOWER. Generator k costs :math:`c_2 P^2 + c_1 P + c_0` per hour for P megawatts.

import matplotlib.pyplot as plt
import networkx as nx
import numpy as np
from pypower.api import case118, ppoption, rundcopf

import npga
from npga import functions as fn

case = case118()
number = {int(bus): k for k, bus in enumerate(case["bus"][:, 0])}
at = np.array([number[int(bus)] for bus in case["gen"][:, 0]])
low, high = case["gen"][:, 9], case["gen"][:, 8]
c2, c1, c0 = case["gencost"][:, 4:7].T
load = case["bus"][:, 2].sum()
print(f"{len(number)} buses, {len(at)} generators, {load:.0f} MW of load")

# %%
# Every bus is an agent. A bus without generators has no variables and passes messages on. The only coupling is the
# balance, total output = total load.

agents = []
for bus in range(len(number)):
    mine = np.flatnonzero(at == bus)
    if mine.size:
        f, g = fn.SquaredNorm(2 * c2[mine], center=-c1[mine] / (2 * c2[mine])), fn.Box(low[mine], high[mine])
        agents.append(npga.Agent(A=np.ones((1, mine.size)), f=f, g=g))
    else:
        agents.append(npga.Agent(A=np.zeros((1, 0)), f=fn.Zero()))
problem = npga.Problem(agents, h=fn.Equality([load]))
lines = nx.Graph([(number[int(a)], number[int(b)]) for a, b in case["branch"][:, :2]])
grid = nx.Graph()
grid.add_nodes_from(range(len(number)))
grid.add_edges_from(lines.edges)
network = npga.Network(grid)

result = npga.solve(problem, network, tol=1e-9)
print(result)

# %%
# The price of the last megawatt is minus the dual variable; every bus has come to know it.

price = -result.duals[0]
order = np.concatenate([np.flatnonzero(at == bus) for bus in range(len(number))])
output = np.empty(len(at))
output[order] = result.x

figure, (left, right) = plt.subplots(1, 2, figsize=(10, 4), layout="constrained")
left.semilogy(result.trace["iteration"], result.trace["kkt"])
left.set(xlabel="iterations = rounds", ylabel="residual of the optimality conditions")
marginal = 2 * c2 * output + c1
free = (output > low + 1e-3) & (output < high - 1e-3)
right.scatter(output[free], marginal[free], label="between their limits")
right.scatter(output[~free], marginal[~free], marker="x", label="at a limit")
right.axhline(price, color="0.5", linewidth=1)
right.annotate(f"price {price:.3f} $/MWh", (0.98, price), xycoords=("axes fraction", "data"), ha="right", va="bottom")
right.set(xlabel="output of a generator, MW", ylabel="its marginal cost, $/MWh", ylim=(0.4 * price, 1.6 * price))
right.legend(frameon=False)
for axis in (left, right):
    axis.spines[["top", "right"]].set_visible(False)
plt.show()

# %%
# **The number.** PYPOWER's DC optimal power flow without line limits is the same problem.

unlimited = case118()
unlimited["branch"][:, 5] = 0.0
theirs = rundcopf(unlimited, ppoption(VERBOSE=0, OUT_ALL=0))
cost = float(np.sum(c2 * output**2 + c1 * output + c0))
print(f"cost {cost:.4f} $/h, PYPOWER {theirs['f']:.4f} $/h")
assert abs(cost - theirs["f"]) < 1e-6 * theirs["f"]
