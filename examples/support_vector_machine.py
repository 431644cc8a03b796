"""
A support vector machine over columns
=====================================

*Five clinics measured different things about the same tumours. Can they train one classifier without pooling the
measurements?*

The hinge loss in h, a ridge at each clinic. Everybody knows the labels, and no column is sent; what the messages give
away all the same is on :doc:`the page on privacy </privacy>`. The weights are checked against scikit-learn's ``SVC``
with a linear kernel.
"""

# %%
# Wisconsin breast cancer, 400 of its rows, 30 columns at five clinics, each scaled with mean and spread of these rows.
# SVC minimises :math:`\frac12|w|^2 + C \sum_j \max(0, 1 - y_j(w \cdot x_j + b))`; its intercept b is not penalised,
# so one clinic holds a column of ones with a tiny weight.

import sys

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_breast_cancer
from sklearn.svm import SVC

import npga
from npga import functions as fn

data = load_breast_cancer()
rng = np.random.default_rng(0)
train = rng.permutation(len(data.data))[: 150 if "--small" in sys.argv else 400]
X = (data.data - data.data[train].mean(axis=0)) / data.data[train].std(axis=0)
X_train, y_train = X[train], np.where(data.target[train] == 1, 1.0, -1.0)
C = 0.1
blocks = np.split(X_train, 5, axis=1)
agents = [npga.Agent(A=block, f=fn.SquaredNorm(1.0)) for block in blocks]
agents[4] = npga.Agent(A=np.column_stack([blocks[4], np.ones(train.size)]), f=fn.SquaredNorm(np.r_[np.ones(6), 1e-6]))
problem = npga.Problem(agents, h=fn.Hinge(labels=y_train, weight=C))
network = npga.Network.ring(5)

result = npga.solve(problem, network, tol=1e-8)
print(result)
weights, intercept = result.x[:30], result.x[30]

# %%

model = SVC(kernel="linear", C=C, tol=1e-10).fit(X_train, y_train)
figure, (left, right) = plt.subplots(1, 2, figsize=(10, 4), layout="constrained")
left.semilogy(result.trace["iteration"], result.trace["kkt"])
left.set(xlabel="iterations = rounds", ylabel="residual of the optimality conditions")
right.bar(range(30), weights, color=np.repeat(["#332288", "#44AA99", "#999933", "#CC6677", "#882255"], 6))
right.plot(range(30), model.coef_[0], "k.", markersize=4, label="scikit-learn")
right.set(xlabel="column (a colour for each clinic)", ylabel="weight")
right.legend(frameon=False)
for axis in (left, right):
    axis.spines[["top", "right"]].set_visible(False)
plt.show()

# %%
# **The number.** Weights against libsvm's, and what both say about the rows that nobody trained on.

rest = np.setdiff1d(np.arange(len(X)), train)
right_ones = np.mean(np.sign(X[rest] @ weights + intercept) == np.where(data.target[rest] == 1, 1.0, -1.0))
difference = np.abs(weights - model.coef_[0]).max()
print(
    f"largest difference of a weight {difference:.1e}; {right_ones:.1%} of {rest.size} other rows are classified right"
)
assert difference < 1e-4
assert right_ones == model.score(X[rest], np.where(data.target[rest] == 1, 1.0, -1.0))
