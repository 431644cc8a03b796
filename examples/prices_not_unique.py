"""
Prices that are not unique
==========================

*Two solvers give me the same dispatch and other prices. Which of them is wrong?*

Perhaps neither. Where the generators that are free do not pin down what every full line is worth, a whole set of
prices goes with one dispatch. ``result.duals_are_unique`` says so; the range of each price is found here with HiGHS
(in SciPy), and both our prices and those of PYPOWER lie in it.
"""

# %%
# The New England grid, case39, with its limits at 80 %.

import matplotlib.pyplot as plt
import numpy as np
from pypower.api import case39, ppoption, rundcopf
from scipy.optimize import linprog

import npga
from npga import power

grid = power.case("case39")
flow = grid.power_flow(limits=0.8)
result = npga.solve(flow.problem, grid.network(), tol=1e-9)
print(result)
print("are the prices unique?", result.duals_are_unique)

# %%
# A price vector (energy e, and a multiplier for each full line with the sign of its flow) belongs to the dispatch if
# the price at the bus of each generator is its marginal cost; at least that where it is at its upper limit, at most
# where it is at its lower. The least and the largest price at each bus are two linear programs.

output, flows = flow.output(result), flow.flows(result)
marginal = 2 * grid.costs[:, 0] * output + grid.costs[:, 1]
full = np.flatnonzero(np.abs(flows) > 0.8 * grid.limit - 1e-3)
signs = np.sign(flows[full])
room = 1e-3 * (grid.high - grid.low)
above, below = output > grid.high - room, output < grid.low + room
print(f"{full.size} lines are full; {np.sum(~above & ~below)} of {output.size} generators are between their limits")

# price at bus b = e - sum_l signs_l H_lb m_l with m >= 0
to_bus = np.hstack([np.ones((grid.load.size, 1)), -(signs[:, None] * grid.transfer[full]).T])
to_gen = to_bus[grid.at]
slack = 1e-4  # what rounding may hide, $/MWh
inequalities = np.vstack([to_gen[~above], -to_gen[~below]])
limits = np.concatenate([marginal[~above] + slack, -marginal[~below] + slack])
bounds = [(None, None)] + [(0, None)] * full.size


def least(row):
    """The least price with these coefficients."""
    return linprog(row, A_ub=inequalities, b_ub=limits, bounds=bounds).fun


ranges = np.array([[least(row), -least(-row)] for row in to_bus])
energy, congestion = flow.prices(result)
ours = energy + congestion

tight = case39()
tight["branch"][:, 5] *= 0.8
theirs = rundcopf(tight, ppoption(VERBOSE=0, OUT_ALL=0, PDIPM_COSTTOL=1e-11, PDIPM_GRADTOL=1e-10))
other = theirs["bus"][:, 13]

# %%
# Four buses have a range, the others one price. Who bills by such prices should say which of them it takes, and why.

order = np.argsort(ranges[:, 0])
figure, axis = plt.subplots(figsize=(9, 4.2), layout="constrained")
axis.vlines(range(len(order)), *ranges[order].T, color="#88CCEE", linewidth=6, label="prices that go with the dispatch")
axis.plot(ours[order], ".", color="#332288", label="found here")
axis.plot(other[order], "x", color="#CC6677", label="PYPOWER")
axis.set_xticks(range(len(order)), order + 1, fontsize=7)
axis.set(xlabel="bus", ylabel="price, $/MWh")
axis.legend(frameon=False)
axis.spines[["top", "right"]].set_visible(False)
plt.show()

# %%
# **The numbers.** The costs agree; both price vectors lie in the ranges that HiGHS found.

cost = flow.cost(result)
print(f"cost {cost:.4f} $/h, PYPOWER {theirs['f']:.4f} $/h; widest range {np.ptp(ranges, axis=1).max():.2f} $/MWh")
assert abs(cost - theirs["f"]) < 1e-6 * theirs["f"]
assert result.duals_are_unique is False
for prices in (ours, other):
    assert (prices > ranges[:, 0] - 1e-2).all()
    assert (prices < ranges[:, 1] + 1e-2).all()
