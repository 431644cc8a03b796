"""
Demand over a day, with warm starts
===================================

*The load changes every hour. Must we begin from nothing each time?*

No: the prices of one hour are a good guess for the next. Twenty-four optimal power flows are solved in a row, each
from the answer of the hour before, and compared with as many from zero. Every cost is checked against PYPOWER.
"""

# %%
# The IEEE 30-bus case with all its lines at 75 %, and a day's shape of demand: low at night, a peak in the evening.

import sys

import matplotlib.pyplot as plt
import numpy as np
from pypower.api import case30, ppoption, rundcopf

import npga
from npga import power

hours = np.arange(0, 24, 3 if "--small" in sys.argv else 1)
shape = 0.72 + 0.18 * np.exp(-(((hours - 9) / 3.0) ** 2)) + 0.26 * np.exp(-(((hours - 19) / 2.5) ** 2))
base = power.case("case30")
network = base.network()


def with_load(share):
    """The case with that share of its demand."""
    tables = dict(base.raw, bus=base.raw["bus"].copy())
    tables["bus"][:, 2] *= share
    return power.case(tables).power_flow(limits=0.75)


# %%
# ``start=`` takes an earlier result: x, prices and the steps that were found. The problem may have changed in between.

cold, warm, before = [], [], None
flows = [with_load(share) for share in shape]
for flow in flows:
    cold.append(npga.solve(flow.problem, network))
    before = npga.solve(flow.problem, network, start=before)
    warm.append(before)
spent = [sum(run.rounds for run in runs) for runs in (cold, warm)]
print(f"rounds of a day: {spent[0]:,} from zero, {spent[1]:,} from the hour before")

# %%
# Prices follow the load; where lines are full, the dearest bus parts from the cheapest.

prices = [np.add(*flow.prices(run)) for flow, run in zip(flows, warm, strict=True)]
figure, (left, right) = plt.subplots(1, 2, figsize=(10, 4), layout="constrained")
low, high = np.min(prices, axis=1), np.max(prices, axis=1)
left.fill_between(hours, low, high, step="mid", color="#CC6677", alpha=0.35, linewidth=0, label="over the buses")
left.step(hours, np.mean(prices, axis=1), where="mid", color="#882255", label="mean")
left.set(xlabel="hour", ylabel="price, $/MWh")
left.legend(frameon=False)
right.step(hours, [run.rounds for run in cold], where="mid", color="0.6", label="from zero")
right.step(hours, [run.rounds for run in warm], where="mid", color="#117733", label="from the hour before")
right.set(xlabel="hour", ylabel="rounds", ylim=(0, None))
right.legend(frameon=False)
for axis in (left, right):
    axis.spines[["top", "right"]].set_visible(False)
plt.show()

# %%
# **The number.** PYPOWER's cost of each hour.

worst = 0.0
for share, flow, run in zip(shape, flows, warm, strict=True):
    case = case30()
    case["bus"][:, 2] *= share
    case["branch"][:, 5] *= 0.75
    theirs = rundcopf(case, ppoption(VERBOSE=0, OUT_ALL=0, PDIPM_COSTTOL=1e-11, PDIPM_GRADTOL=1e-10))
    worst = max(worst, abs(flow.cost(run) - theirs["f"]) / theirs["f"])
print(f"largest relative difference of a cost over the day: {worst:.1e}")
assert worst < 1e-5
assert spent[1] < spent[0]
