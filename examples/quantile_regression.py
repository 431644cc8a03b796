"""
Quantile regression across organisations
========================================

*A hospital, an insurer and a registry hold different columns about the same patients. What is the 90 % quantile of the
outcome, given all of them?*

The pinball loss in h, columns at the parties. The fit is checked against scikit-learn's ``QuantileRegressor``, which
has the table in one place.
"""

# %%
# A thousand rows with noise whose spread grows with the first feature, so that quantiles are not parallel.

import sys

import matplotlib.pyplot as plt
import numpy as np
from sklearn.linear_model import QuantileRegressor

import npga
from npga import functions as fn

rng = np.random.default_rng(0)
rows, parties = 200 if "--small" in sys.argv else 1000, (3, 2, 1)
X = rng.uniform(0.0, 2.0, (rows, sum(parties)))
y = X @ [1.0, -0.5, 0.3, 0.0, 0.8, 0.2] + (0.2 + 0.5 * X[:, 0]) * rng.standard_normal(rows)
table = np.column_stack([X, np.ones(rows)])  # the last party also holds the intercept
sizes = np.cumsum([3, 2])


def fit(tau: float) -> npga.Result:
    """The coefficients of one quantile; a small ridge makes them unique."""
    agents = [npga.Agent(A=block, f=fn.SquaredNorm(1e-3)) for block in np.split(table, sizes, axis=1)]
    problem = npga.Problem(agents, h=fn.Quantile(target=y, tau=tau, weight=1 / rows))
    return npga.solve(problem, npga.Network.complete(3), tol=1e-7)


fits = {tau: fit(tau) for tau in (0.1, 0.5, 0.9)}
print(fits[0.9])

# %%

figure, axis = plt.subplots(figsize=(7, 4), layout="constrained")
axis.plot(X[:, 0], y, ".", color="0.75")
line = np.tile(X.mean(axis=0), (50, 1))
line[:, 0] = np.linspace(0.0, 2.0, 50)
for tau, found in fits.items():
    values = np.column_stack([line, np.ones(50)]) @ found.x
    (drawn,) = axis.plot(line[:, 0], values, linewidth=2)
    axis.annotate(f"{tau:.0%}", (2.0, values[-1]), xytext=(4, 0), textcoords="offset points", color=drawn.get_color())
axis.set(xlabel="first feature (the others at their means)", ylabel="outcome")
axis.spines[["top", "right"]].set_visible(False)
plt.show()

# %%
# **The number.** scikit-learn minimises the pinball loss alone. At its coefficients and at ours the loss is the same up
# to what the small ridge costs, and the share of rows below the fit is 90 %.

model = QuantileRegressor(quantile=0.9, alpha=0.0, solver="highs").fit(X, y)


def pinball(residual: np.ndarray) -> float:
    """The mean pinball loss of the 90 % quantile."""
    return float(np.maximum(0.9 * residual, -0.1 * residual).mean())


ours, theirs = pinball(y - table @ fits[0.9].x), pinball(y - model.predict(X))
print(f"pinball loss {ours:.6f}, scikit-learn {theirs:.6f}; {np.mean(y <= table @ fits[0.9].x):.1%} of the rows below")
assert theirs - 1e-9 <= ours < theirs + 1e-4
