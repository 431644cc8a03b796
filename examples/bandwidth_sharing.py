"""
Sharing bandwidth fairly
========================

*Eight users send through five links. Which rates are fair, and what is a link worth?*

Proportional fairness maximises the sum of the logarithms of the rates, subject to the capacities. Each user knows which
links its route takes; capacities are known to all. The rates are checked against Clarabel, through cvxpy.
"""

# %%
# Route r of a user takes the links with a one in its column; the coupling is an inequality.

import cvxpy as cp
import matplotlib.pyplot as plt
import numpy as np

import npga
from npga import functions as fn

routes = [[0], [1], [2], [3], [4], [0, 1], [2, 3, 4], [1, 3]]
capacity = np.array([10.0, 8.0, 6.0, 12.0, 5.0])
takes = np.zeros((5, 8))
for user, links in enumerate(routes):
    takes[links, user] = 1.0

agents = [npga.Agent(A=takes[:, [user]], f=fn.Zero(), g=fn.NegLog()) for user in range(8)]
problem = npga.Problem(agents, h=fn.LessEqual(capacity))
network = npga.Network.ring(8)
result = npga.solve(problem, network, tol=1e-9)
print(result)

# %%
# The price of a link is its dual variable: a user pays the sum of the prices on its route, and its rate is one divided
# by what it pays.

price = result.duals
figure, (left, right) = plt.subplots(1, 2, figsize=(9, 3.4), layout="constrained")
left.bar(range(8), result.x, color="#44AA99")
left.set(xlabel="user", ylabel="rate", xticks=range(8))
left.set_xticklabels([f"{user}\n({','.join(map(str, links))})" for user, links in enumerate(routes)], fontsize=8)
right.bar(range(5), price, color="#882255")
right.set(xlabel="link", ylabel="price")
for axis in (left, right):
    axis.spines[["top", "right"]].set_visible(False)
plt.show()

# %%
# **The number.**

rate = cp.Variable(8)
within = takes @ rate <= capacity
cp.Problem(cp.Maximize(cp.sum(cp.log(rate))), [within]).solve(
    solver=cp.CLARABEL, tol_gap_abs=1e-10, tol_gap_rel=1e-10, tol_feas=1e-10
)
difference = np.abs(result.x - rate.value).max()
print(f"rates {np.round(result.x, 4)}; largest difference from Clarabel {difference:.1e}")
assert difference < 1e-5
assert np.abs(price - within.dual_value).max() < 1e-5
