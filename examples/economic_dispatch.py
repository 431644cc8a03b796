"""
Economic dispatch on IEEE 118
=============================

*Fifty-four generators meet one load. Can the buses agree on who produces how much, and on the price, without a control
centre?*

Each bus knows its own generators, their costs and limits, and talks along the lines of the grid. The total cost is
checked against PYPOWER, which solves the same problem in one place.
"""

# %%
# The case comes with PYPOWER. Generator k costs :math:`c_2 P^2 + c_1 P + c_0` per hour for P megawatts. `npga.power`
# makes an agent of every bus; a bus without generators has no variables and passes messages on. The only coupling is
# the balance, total output = total load.

import matplotlib.pyplot as plt
from pypower.api import case118, ppoption, rundcopf

import npga
from npga import power

grid = power.case("case118")
dispatch = grid.dispatch()
print(f"{grid.load.size} buses, {grid.at.size} generators, {grid.load.sum():.0f} MW of load")

result = npga.solve(dispatch.problem, grid.network(), tol=1e-9)
print(result)

# %%
# The price of the last megawatt is minus the dual variable; every bus has come to know it.

price, _ = dispatch.prices(result)
output = dispatch.output(result)
c2, c1, c0 = grid.costs.T

figure, (left, right) = plt.subplots(1, 2, figsize=(10, 4), layout="constrained")
left.semilogy(result.trace["iteration"], result.trace["kkt"])
left.set(xlabel="iterations = rounds", ylabel="residual of the optimality conditions")
marginal = 2 * c2 * output + c1
free = (output > grid.low + 1e-3) & (output < grid.high - 1e-3)
right.scatter(output[free], marginal[free], label="between their limits")
right.scatter(output[~free], marginal[~free], marker="x", label="at a limit")
right.axhline(price, color="0.5", linewidth=1)
right.text(0.98, 1.03 * price, f"price {price:.3f} $/MWh", transform=right.get_yaxis_transform(), ha="right")
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
cost = dispatch.cost(result)
print(f"cost {cost:.4f} $/h, PYPOWER {theirs['f']:.4f} $/h")
assert abs(cost - theirs["f"]) < 1e-6 * theirs["f"]
