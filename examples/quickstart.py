"""
Thirteen parties, one regression
================================

*Each of us holds two columns of one table. Can we fit an elastic net together without anybody showing a column?*

Yes: each party keeps its columns and exchanges vectors of dual variables with its neighbours. What those vectors give
away all the same is :doc:`a page of its own </privacy>`. Three versions of NPGA are compared here, in iterations and in
communication rounds, and the coefficients are checked against scikit-learn.
"""

# %%
# The problem: party i holds the columns :math:`X_i`, and the sum of :math:`X_i x_i` is compared with y,
#
# .. math:: \min_x \frac{1}{2p}\Big|\sum_i X_i x_i - y\Big|^2 + 0.05\,|x|_1 + 0.05\,|x|^2 .

import matplotlib.pyplot as plt
import numpy as np
from sklearn.linear_model import ElasticNet

import npga
from npga import functions as fn

rng = np.random.default_rng(0)
X, y = rng.standard_normal((10, 26)), rng.standard_normal(10)
agents = [npga.Agent(A=block, f=fn.SquaredNorm(0.1), g=fn.L1(0.05)) for block in np.split(X, 13, axis=1)]
problem = npga.Problem(agents, h=fn.SquaredLoss(target=y, weight=1 / 10))
network = npga.Network.erdos_renyi(13, 0.3, seed=0)
print(problem, network, sep="\n")

# %%
# One call solves it. Version and steps are chosen, and the certificate says what is proved about them.

result = npga.solve(problem, network)
print(result)
print(result.certificate.verdict)

# %%
# Three versions with the same steps: NPGA-I needs fewer iterations than EXTRA, and two rounds for each.

steps = npga.Steps(alpha=1.0, beta=0.08, gamma=1.0)
star = npga.reference(problem)
runs = {
    name: npga.solve(problem, network, name, steps, reference=star.x, gap_tol=1e-11, tol=None)
    for name in ("extra", "nids", "npga-i")
}

figure, axes = plt.subplots(1, 2, figsize=(9, 3.6), sharey=True, layout="constrained")
for axis, column in zip(axes, ("iteration", "round"), strict=True):
    for (name, run), style in zip(runs.items(), ("-", "--", ":"), strict=True):
        (line,) = axis.semilogy(run.trace[column], run.trace["gap"], style)
        end = (run.trace[column][-1], run.trace["gap"][-1])
        axis.annotate(name, end, xytext=(4, 0), textcoords="offset points", color=line.get_color())
    axis.set_xlabel(f"{column}s")
    axis.margins(x=0.12)
    axis.spines[["top", "right"]].set_visible(False)
axes[0].set_ylabel("$|x - x^*| / |x^0 - x^*|$")
plt.show()

# %%
# **The number.** scikit-learn minimises the same function, with ``alpha`` times ``l1_ratio`` for the first weight and
# ``alpha`` times the rest for the second.

model = ElasticNet(alpha=0.15, l1_ratio=1 / 3, fit_intercept=False, tol=1e-14, max_iter=1_000_000).fit(X, y)
difference = np.abs(runs["nids"].x - model.coef_).max()
print(f"largest difference from scikit-learn's coefficients: {difference:.1e}")
assert difference < 1e-9
