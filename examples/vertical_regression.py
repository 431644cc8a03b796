"""
Diabetes at four organisations
==============================

*A clinic, a laboratory, a registry and a pharmacy hold different columns about the same patients. What do they gain by
fitting one model together, and is everybody needed?*

The diabetes data of scikit-learn, ten columns over four parties: an elastic net with an intercept, its error on
patients whom nobody trained on, and then a penalty that lets a whole party drop out. The coefficients are checked
against scikit-learn, which has the table in one place, and those of the second model against Clarabel. No column is
sent; what the messages give away all the same is on :doc:`the page on privacy </privacy>`.
"""

import cvxpy as cp
import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_diabetes
from sklearn.linear_model import ElasticNet

import npga
from npga import functions as fn

data = load_diabetes(scaled=False)
parties = {
    "clinic: age, sex, bmi, pressure": [0, 1, 2, 3],
    "laboratory: three lipids": [4, 5, 6],
    "registry: tch, ltg": [7, 8],
    "pharmacy: glucose": [9],
}
columns = list(parties.values())
rows = np.random.default_rng(0).permutation(442)
train, test = rows[:342], rows[342:]

# %%
# Each party scales its own columns with what it knows, mean and spread of its training rows; the mean of y is known to
# all who know y. With centred columns the intercept is that mean, and nobody has to hold it.
mean, spread = data.data[train].mean(axis=0), data.data[train].std(axis=0)
X, offset = (data.data - mean) / spread, data.target[train].mean()
y = data.target - offset
p, l1, l2 = train.size, 1.0, 0.05


def fit(owned, g):
    """The model of the parties that own these columns; g is the penalty of one party."""
    agents = [npga.Agent(A=X[np.ix_(train, own)], f=fn.SquaredNorm(l2), g=g(own)) for own in owned]
    network = npga.Network.ring(len(owned)) if len(owned) > 2 else npga.Network.complete(len(owned))
    return npga.solve(npga.Problem(agents, h=fn.SquaredLoss(target=y[train], weight=1 / p)), network, tol=1e-9)


def explained(owned, blocks):
    """R^2 on the other rows: each party sends its part of the prediction, X_i x_i, and no column."""
    predicted = sum(X[np.ix_(test, own)] @ block for own, block in zip(owned, blocks, strict=True))
    return 1.0 - np.sum((y[test] - predicted) ** 2) / np.sum((data.target[test] - data.target[test].mean()) ** 2)


together = fit(columns, lambda _: fn.L1(l1))
print(together)
proof = together.certificate.instance  # for these columns and this network, and every start
print(f"{proof.standing}: the error shrinks by the factor {proof.rate:.4f} in every iteration, up to a constant")

# %%
# **Alone and together.** A party alone has its own columns and y, and ``npga.reference`` fits them in one place.
scores = {}
for name, own in parties.items():
    party = npga.Agent(A=X[np.ix_(train, own)], f=fn.SquaredNorm(l2), g=fn.L1(l1))
    alone = npga.reference(npga.Problem([party], h=fn.SquaredLoss(target=y[train], weight=1 / p)))
    scores[name] = explained([own], [alone.x])
scores["all four together"] = explained(columns, together.blocks)

# %%
# **Is everybody needed?** ``GroupL2`` punishes the norm of a party's coefficients, so that a party is used or not as a
# whole. The more it costs, the fewer take part.
costs = np.array([0.5, 2.0, 4.0, 8.0, 12.0, 16.0, 24.0])
sparse = {cost: fit(columns, lambda own, cost=cost: fn.GroupL2(cost, [range(len(own))])) for cost in costs}
norms = np.array([[np.linalg.norm(block) for block in sparse[cost].blocks] for cost in costs])

figure, (left, right) = plt.subplots(1, 2, figsize=(9, 3.6), layout="constrained")
left.barh(list(scores), list(scores.values()), color=["#88CCEE", "#44AA99", "#DDCC77", "#CC6677", "#332288"])
left.invert_yaxis()
left.set(xlabel="$R^2$ on 100 other patients")
for k, (name, colour) in enumerate(zip(parties, ["#88CCEE", "#44AA99", "#DDCC77", "#CC6677"], strict=True)):
    right.plot(costs, norms[:, k], "o-", color=colour, label=name.partition(":")[0])
right.set(xlabel="cost of a party", ylabel="norm of its coefficients", ylim=(-1, 46))
right.legend(frameon=False, ncols=2)
for axis in (left, right):
    axis.spines[["top", "right"]].set_visible(False)
plt.show()

# %%
# **The numbers.** scikit-learn divides the squares by the rows and multiplies both penalties by ``alpha``; Clarabel
# solves the model with the groups.
ratio = l1 / (l1 + l2)
model = ElasticNet(alpha=l1 + l2, l1_ratio=ratio, tol=1e-12, max_iter=100_000).fit(X[train], data.target[train])
difference = np.abs(np.concatenate(together.blocks) - model.coef_).max()
cost = costs[3]
x = cp.Variable(10)
groups = sum(cp.norm(x[own]) for own in columns)
loss = cp.sum_squares(X[train] @ x - y[train]) / (2 * p) + l2 / 2 * cp.sum_squares(x) + cost * groups
cp.Problem(cp.Minimize(loss)).solve(solver=cp.CLARABEL, tol_gap_abs=1e-11, tol_gap_rel=1e-11)
apart = np.abs(sparse[cost].x - x.value).max()
print(f"largest difference from scikit-learn's coefficients {difference:.1e}, from Clarabel's with groups {apart:.1e}")
print(
    f"R^2 {scores['all four together']:.3f} together, {max(list(scores.values())[:4]):.3f} for the best of them alone"
)
assert difference < 1e-5
assert abs(model.intercept_ - offset) < 1e-9
assert apart < 1e-3
