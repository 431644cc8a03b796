"""
What conditioning does to the rate
==================================

*My graph is a long ring and my data are badly scaled. How much slower will it be, in what is proved and in what
happens?*

Both condition numbers are turned up here, that of the problem and that of the network. At each setting the certified
steps are taken, the rate that the theorem promises is compared with the true one, and the true one is the largest
eigenvalue that NumPy finds for the iteration.
"""

# %%
# Agents with two variables each and quadratics of condition number kappa fit a target of two numbers. On a ring of n
# agents :math:`1/(1 - \lambda_2(W))`, how slowly averages spread, grows like n squared.

import sys

import matplotlib.pyplot as plt
import numpy as np

import npga
from npga import functions as fn


def example(n, kappa):
    """The problem, and its ring."""
    rng = np.random.default_rng(0)
    f = fn.Quadratic(np.diag([1.0, kappa]), np.zeros(2))
    agents = [npga.Agent(A=rng.standard_normal((2, 2)) / np.sqrt(n), f=f) for _ in range(n)]
    return npga.Problem(agents, h=fn.SquaredLoss(target=np.ones(2))), npga.Network.ring(n)


# %%
# The iteration is linear here, and its matrix is written down from the equations of the paper: z = B y, and the prox of
# :math:`(\beta/n) h^*` divides by :math:`1 + \beta/n`.


def true_rate(problem, network, version, steps, kappa):
    """The largest eigenvalue of the iteration, the one of the sum of z, which stays zero, left out."""
    n, p, d = problem.n, problem.p, problem.d
    matrices = npga.version(version).matrices(network, beta=steps.beta)
    B2, C, D = (np.kron(M.toarray() if hasattr(M, "toarray") else M, np.eye(p)) for M in matrices)
    A, H = np.zeros((n * p, d)), np.tile([1.0, kappa], n)
    for i, agent in enumerate(problem.agents):
        A[i * p : (i + 1) * p, 2 * i : 2 * i + 2] = agent.A

    def iterate(x, lam, z):
        new = x - steps.alpha * (H * x + A.T @ lam)
        v = lam - C @ lam - z + steps.beta * A @ (new + steps.theta * (new - x))
        return np.concatenate([new, D @ v / (1 + steps.beta / n), z + steps.gamma * B2 @ v])

    matrix = np.array([iterate(*np.split(e, [d, d + n * p])) for e in np.eye(d + 2 * n * p)]).T
    values = np.sort(np.abs(np.linalg.eigvals(matrix)))
    assert np.sum(values > 1 - 1e-10) == p
    return float(values[-p - 1])


def rates(n, kappa, version):
    """Certified and true rate at the certified steps, and what the network's condition number is."""
    problem, network = example(n, kappa)
    theorem = npga.certify(problem, network, version).best
    true = true_rate(problem, network, version, theorem.steps, kappa)
    assert true <= np.sqrt(theorem.rate) + 1e-12, "a theorem was broken"
    return np.sqrt(theorem.rate), true, 1.0 / (1.0 - network.extreme_eigenvalues()[1])


# %%
# Iterations for each digit of accuracy, -1 / log10(rate). The promise is careful, 2 to 9 times here. In the problem's
# condition number promise and truth have one slope, 1: both grow in proportion to it, once it is large. In that of the
# network the promise comes to grow in proportion too, EXTRA's almost from the beginning, that of NIDS where the graph
# is worse conditioned than the data; the truth grows more slowly, so that the gap widens.

kappas, sizes = np.geomspace(1.0, 1000.0, 10), (4, 6, 8, 12, 16, 24, 32)
if "--small" in sys.argv:
    kappas, sizes = kappas[::3], sizes[:4]
colours = {"nids": "#882255", "extra": "#777777"}
figure, axes = plt.subplots(1, 2, figsize=(9.5, 4), sharey=True, layout="constrained")
for name, colour in colours.items():
    sweeps = [
        (kappas, np.array([rates(8, kappa, name)[:2] for kappa in kappas])),
        (np.array([rates(n, 10.0, name)[2] for n in sizes]), np.array([rates(n, 10.0, name)[:2] for n in sizes])),
    ]
    for axis, (condition, pair), whose in zip(axes, sweeps, ("problem", "network"), strict=True):
        certified, true = (-1.0 / np.log10(pair)).T
        axis.loglog(condition, certified, "--o", color=colour, markersize=4, markerfacecolor="white")
        axis.loglog(condition, true, "-o", color=colour, markersize=4)
        ratio = certified / true
        slopes = [np.polyfit(np.log(condition[-3:]), np.log(curve[-3:]), 1)[0] for curve in (certified, true)]
        print(f"{name}, {whose}: promised / true between {ratio.min():.1f} and {ratio.max():.1f}; ", end="")
        print("slopes at the right end {:.2f} and {:.2f}".format(*slopes))
axes[0].set(xlabel="condition number of the problem (ring of 8)", ylabel="iterations for each digit")
axes[1].set(xlabel="condition number of the network, $1/(1 - \\lambda_2)$ (kappa = 10)")
for name, colour in colours.items():
    axes[0].plot([], [], "--", color=colour, label=f"{name}: promised")
    axes[0].plot([], [], "-", color=colour, label=f"{name}: true")
axes[0].legend(frameon=False)
for axis in axes:
    axis.spines[["top", "right"]].set_visible(False)
axes[1].set_xticks([2, 5, 10, 20, 50], ["2", "5", "10", "20", "50"])
axes[1].minorticks_off()
plt.show()

# %%
# **The number.** A run at the certified steps falls as NumPy's eigenvalue says.

problem, network = example(8, 10.0)
steps = npga.certify(problem, network, "nids").steps
star = npga.reference(problem)
run = npga.solve(problem, network, "nids", steps, tol=None, gap_tol=1e-11, reference=star.x, max_iters=200_000)
late = (run.trace["gap"] < 1e-5) & (run.trace["gap"] > 1e-10)
slope = float(np.exp(np.polyfit(run.trace["iteration"][late], np.log(run.trace["gap"][late]), 1)[0]))
true = true_rate(problem, network, "nids", steps, 10.0)
print(f"the error of a run shrinks by the factor {slope:.6f} in each iteration, NumPy's eigenvalue is {true:.6f}")
assert abs(slope - true) < 0.05 * (1 - true)
