"""
Basis pursuit
=============

*A sparse signal was measured with fewer numbers than it has entries. Twelve parties hold the columns of the measurement
matrix. Can they find the signal together?*

The sparsest solution of A x = b is often the one with the smallest sum of absolute values. There is no smooth part at
all, f = 0, so that no theorem of the paper covers it; it runs all the same. The answer is checked against a linear
program that SciPy solves with HiGHS.
"""

# %%
# The signal has 600 entries, of which 30 are not zero, and 200 measurements. Party i holds fifty columns.

import sys

import matplotlib.pyplot as plt
import numpy as np
from scipy.optimize import linprog

import npga
from npga import functions as fn

rng = np.random.default_rng(3)
size = 120 if "--small" in sys.argv else 600
signal = np.zeros(size)
signal[rng.choice(size, size // 20, replace=False)] = rng.standard_normal(size // 20)
A = rng.standard_normal((size // 3, size)) / np.sqrt(size // 3)
b = A @ signal

agents = [npga.Agent(A=block, f=fn.Zero(), g=fn.L1(1.0)) for block in np.split(A, 12, axis=1)]
problem = npga.Problem(agents, h=fn.Equality(b))
network = npga.Network.erdos_renyi(12, 0.4, seed=1)
result = npga.solve(problem, network, tol=1e-9)
print(result)

# %%

figure, axis = plt.subplots(figsize=(9, 3), layout="constrained")
axis.stem(np.flatnonzero(signal), signal[signal != 0], linefmt="0.7", markerfmt="o", basefmt=" ", label="the signal")
axis.plot(result.x, "k.", markersize=3, label="what the parties found")
for edge in range(size // 12, size, size // 12):
    axis.axvline(edge - 0.5, color="0.92", linewidth=0.8, zorder=0)
axis.set(xlabel="entry (a stripe for each party)", ylabel="value")
axis.legend(frameon=False)
axis.spines[["top", "right"]].set_visible(False)
plt.show()

# %%
# **The number.** With x = u - v and u, v >= 0 it is a linear program.

program = linprog(np.ones(2 * size), A_eq=np.hstack([A, -A]), b_eq=b, method="highs")
difference = np.abs(result.x - (program.x[:size] - program.x[size:])).max()
print(
    f"sum of absolute values {np.abs(result.x).sum():.8f}, HiGHS {program.fun:.8f}; largest difference {difference:.1e}"
)
assert difference < 1e-6
