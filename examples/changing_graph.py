"""
Vehicles that meet and part
===========================

*Our vehicles hear only those who happen to be near, and they move. At no moment is everybody connected. Can they still
agree on who does what?*

Yes, if those who meet over some time connect everybody: the graph may change in every iteration, and no message goes
further than one hop. The answer is checked against LAPACK's least squares, as NumPy calls it.
"""

# %%
# Thirty vehicles drive about in a square, each straight on until it is reflected at the border. Two of them hear each
# other within a sixth of its side.

import matplotlib.pyplot as plt
import networkx as nx
import numpy as np

import npga
from npga import functions as fn

rng = np.random.default_rng(1)
n, reach, period = 30, 0.17, 300
start, speed = rng.random((n, 2)), rng.normal(0.0, 0.02, (n, 2))


def places(k):
    """Where the vehicles are in iteration k: a straight line, folded back into the unit square."""
    x = (start + k * speed) % 2.0
    return np.minimum(x, 2.0 - x)


def near(k):
    """Who hears whom then."""
    apart = np.linalg.norm(places(k)[:, None] - places(k)[None], axis=2)
    return np.argwhere(np.triu(apart < reach, 1))


def groups(k):
    """Into how many parts the graph falls."""
    graph = nx.empty_graph(n)
    graph.add_edges_from(near(k).tolist())
    return nx.number_connected_components(graph)


parts = [groups(k) for k in range(period)]
print(f"at any moment the vehicles fall into {min(parts)} to {max(parts)} groups that cannot hear each other")
network = npga.Network.sequence([near(k) for k in range(period)], n)

# %%
# Each vehicle has four instruments and would like to depart from its plan :math:`p_i` as little as possible; what they
# measure must add up to what the mission asks for in six places,
#
# .. math:: \min_x \tfrac12 \sum_i |x_i - p_i|^2 \quad\text{subject to}\quad \sum_i A_i x_i = b.

blocks = [rng.random((6, 4)) for _ in range(n)]
plan = [rng.random(4) for _ in range(n)]
mission = sum(A @ p for A, p in zip(blocks, plan, strict=True)) + rng.uniform(5.0, 15.0, 6)
problem = npga.Problem(
    [npga.Agent(A=A, f=fn.SquaredNorm(1.0, p)) for A, p in zip(blocks, plan, strict=True)], h=fn.Equality(mission)
)

# %%
# The same steps on the changing graph and on the graph of all pairs that ever meet, which no vehicle has. No theorem
# here covers graphs that change.

steps = npga.Steps(alpha=0.5, beta=0.3, gamma=0.5)
star = npga.reference(problem)
ever = npga.Network.from_edges(np.unique(np.concatenate([near(k) for k in range(period)]), axis=0), n)
runs = {
    label: npga.solve(problem, graph, "nids", steps, tol=None, gap_tol=1e-10, reference=star.x, max_iters=50_000)
    for label, graph in {"who is near now": network, "all who ever meet": ever}.items()
}
for label, run in runs.items():
    print(f"{label:18} {run.iterations:5} iterations, {run.floats_sent:12,} numbers sent")

# %%

figure, axes = plt.subplots(1, 3, figsize=(10, 3.4), layout="constrained", width_ratios=(1, 1, 1.4))
for axis, k in zip(axes, (0, 20), strict=False):
    x = places(k)
    for i, j in near(k):
        axis.plot(*x[[i, j]].T, color="0.6", linewidth=1, zorder=1)
    axis.scatter(*x.T, s=24, color="#332288", zorder=2)
    axis.quiver(*x.T, *(places(k + 1) - x).T, color="#88CCEE", width=0.006, zorder=0)
    axis.set(title=f"iteration {k}: {groups(k)} groups", xlim=(0, 1), ylim=(0, 1), aspect="equal", xticks=[], yticks=[])
for (label, run), style in zip(runs.items(), ("-", "--"), strict=True):
    axes[2].semilogy(run.trace["iteration"], run.trace["gap"], style, color="#332288", label=label)
axes[2].set(xlabel="iterations", ylabel="$|x - x^*| / |x^0 - x^*|$")
axes[2].legend(frameon=False)
axes[2].spines[["top", "right"]].set_visible(False)
plt.show()

# %%
# **The number.** The smallest change of the plan that fulfils the mission is the solution of least norm of
# :math:`A d = b - A p`, which LAPACK computes.

A = np.hstack(blocks)
change, *_ = np.linalg.lstsq(A, mission - A @ np.concatenate(plan), rcond=None)
difference = float(np.abs(runs["who is near now"].x - (np.concatenate(plan) + change)).max())
print(f"largest difference from LAPACK's solution {difference:.1e}")
assert difference < 1e-8
