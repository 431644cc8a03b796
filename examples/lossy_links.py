"""
Radio links that lose messages
==============================

*Our chargers talk by radio and a third of the messages never arrives, sometimes many in a row. Must every message be
repeated until it is heard, or may a charger just go on without it?*

It may go on: where a link fails in a round, both of its ends leave out each other's term, as with frames that are
acknowledged. Then the sum that has to stay zero stays zero whichever links fail, so that a run which settles does so at
the solution; what is lost is time. A loss in one direction only would break that sum, and is not modelled. Here the
time is measured, and the answer is checked against SciPy.
"""

# %%
# Twenty-four cars charge behind one transformer. Car i would like :math:`w_i` kW and minds a shortfall with weight
# :math:`c_i`; it takes between 0 and 22 kW, and all of them together at most 150 kW,
#
# .. math:: \min_x \sum_i \tfrac{c_i}{2}(x_i - w_i)^2 \quad\text{subject to}\quad 0 \le x_i \le 22,\ \sum_i x_i \le 150.
#
# The transformer's limit is the coupling; a charger hears those within reach of its radio.

import matplotlib.pyplot as plt
import numpy as np
from scipy.optimize import minimize

import npga
from npga import functions as fn

rng = np.random.default_rng(5)
wanted, weight, most, limit = rng.uniform(4, 22, 24), rng.uniform(0.5, 2.0, 24), 22.0, 150.0
agents = [
    npga.Agent(A=np.ones((1, 1)), f=fn.SquaredNorm(c, [w]), g=fn.Box(0.0, most))
    for c, w in zip(weight, wanted, strict=True)
]
problem = npga.Problem(agents, h=fn.LessEqual([limit]))
radio = npga.Network.random_geometric(24, 0.35, seed=2)
print(radio)

# %%
# The same steps on links of five kinds. ``burst`` is how many messages in a row are lost on the average: radio links
# are not bad now and then but for a while. Nothing is proved on such links, so that the steps are given, with gamma
# well below 1.

steps = npga.Steps(alpha=0.4, beta=0.6, gamma=0.4)
star = npga.reference(problem)
links = {
    "nothing lost": radio,
    "10 % lost": radio.lossy(0.1),
    "33 % lost": radio.lossy(0.33),
    "33 % lost, 10 in a row": radio.lossy(0.33, burst=10.0),
    "60 % lost": radio.lossy(0.6),
}
runs = {
    label: npga.solve(problem, network, "nids", steps, tol=None, gap_tol=1e-9, reference=star.x, record_every=10)
    for label, network in links.items()
}
for label, run in runs.items():
    print(f"{label:24} {run.iterations:5} rounds, {run.iterations / runs['nothing lost'].iterations:.2f} times as many")

# %%

figure, axis = plt.subplots(figsize=(8, 4), layout="constrained")
colours = ("black", "#88CCEE", "#117733", "#AA4499", "#CC6677")
for (label, run), colour in zip(runs.items(), colours, strict=True):
    axis.semilogy(run.trace["round"], run.trace["gap"], color=colour, label=f"{label}: {run.iterations:,} rounds")
axis.set(xlabel="rounds", ylabel="$|x - x^*| / |x^0 - x^*|$", ylim=(1e-9, 2))
axis.legend(frameon=False)
axis.spines[["top", "right"]].set_visible(False)
plt.show()

# %%
# **The number.** SciPy solves the same problem in one place. What the chargers found while a third of their messages
# was lost in bursts is the same.

theirs = minimize(
    lambda x: 0.5 * weight @ (x - wanted) ** 2,
    np.full(24, limit / 24),
    jac=lambda x: weight * (x - wanted),
    bounds=[(0.0, most)] * 24,
    constraints={"type": "ineq", "fun": lambda x: limit - x.sum(), "jac": lambda _: -np.ones(24)},
    method="SLSQP",
    options={"ftol": 1e-15, "maxiter": 1000},
)
found = runs["33 % lost, 10 in a row"]
difference = float(np.abs(found.x - theirs.x).max())
print(f"{found.x.sum():.6f} of {limit} kW in use; largest difference from SciPy's outputs {difference:.1e} kW")
assert difference < 1e-5
