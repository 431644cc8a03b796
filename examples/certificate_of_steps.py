"""
A certificate for the steps that are used
=========================================

*My steps are larger than any theorem allows, and they work. Can somebody promise that they always will?*

The theorems know a problem by a few constants. An instance certificate uses all of it: every matrix, every step, every
quadratic part. It holds for every start, and here it is checked twice: against runs, and against the eigenvalues that
NumPy finds for the iteration at its solution.
"""

# %%
# Eight agents on a ring fit an elastic net. No theorem covers these steps of NIDS.

import matplotlib.pyplot as plt
import numpy as np

import npga
from npga import functions as fn

rng = np.random.default_rng(0)
pairs = [(rng.standard_normal((3, 2)), rng.standard_normal(2)) for _ in range(8)]
agents = [npga.Agent(A=A, f=fn.SquaredNorm(1.0, center=c), g=fn.L1(0.1)) for A, c in pairs]
problem = npga.Problem(agents, h=fn.SquaredLoss(target=rng.standard_normal(3)))
network = npga.Network.ring(8)
steps = npga.Steps(alpha=0.3856, beta=0.4959, gamma=0.828, theta=1.0)

certificate = npga.certify(problem, network, "nids", steps)
print(certificate.verdict)
instance = certificate.instance
print(f"{instance.standing}: |xi_k| <= {instance.constant:.0f} x {instance.rate:.4f}^k |xi_0| for every start")
print("the proof, checked again from its matrices alone:", instance.verify())

# %%
# Six runs from six starts, some of them far away. All of them fall faster than is promised, none may fall slower.

star = npga.reference(problem)
figure, axis = plt.subplots(figsize=(7.5, 4.2), layout="constrained")
slowest = 0.0
for seed in range(6):
    x0 = 10.0 ** (seed - 2) * np.random.default_rng(seed).standard_normal(problem.d)
    run = npga.solve(problem, network, "nids", steps, x0=x0, reference=star.x, gap_tol=1e-10, tol=None, record_every=1)
    gap = run.trace.gap
    axis.semilogy(run.trace.iteration, gap, color="#117733", alpha=0.7, label="runs" if seed == 0 else None)
    seen = gap > 1e-9
    slope = np.polyfit(run.trace.iteration[seen][50:], np.log(gap[seen][50:]), 1)[0]
    slowest = max(slowest, float(np.exp(slope)))
k = np.arange(run.iterations)
axis.semilogy(k, instance.rate**k, color="#CC6677", linestyle="--", label="the promised rate")
axis.set(xlabel="iterations", ylabel="$|x - x^*| / |x^0 - x^*|$", ylim=(1e-10, 10))
axis.legend(frameon=False)
axis.spines[["top", "right"]].set_visible(False)
plt.show()

# %%
# **The number.** Near the solution the iteration is linear: coordinates that are zero stay zero, and the rest follows a
# matrix, written down here from the equations of the paper. Its largest eigenvalue by NumPy is the true rate at the
# end; what is proved for every start cannot be smaller.

W = network.W.toarray()
n, p, d = problem.n, problem.p, problem.d
version = npga.version("nids")
B2, C, D = (np.asarray(M.toarray() if hasattr(M, "toarray") else M) for M in version.matrices(network, beta=steps.beta))
alpha, beta, gamma, theta = steps.alpha, steps.beta, steps.gamma, steps.theta
stays = (np.abs(star.x) > 1e-9).astype(float)
A = np.zeros((n * p, d))
for i, (block, _) in enumerate(pairs):
    A[i * p : (i + 1) * p, 2 * i : 2 * i + 2] = block


def iterate(x, lam, z):
    """One iteration of the errors; the prox of (beta/n) h* divides by 1 + beta/n for this h."""
    new = stays * (x - alpha * (x + A.T @ lam))
    v = lam - np.kron(C, np.eye(p)) @ lam - z + beta * A @ (new + theta * (new - x))
    return new, np.kron(D, np.eye(p)) @ v / (1 + beta / n), z + gamma * np.kron(B2, np.eye(p)) @ v


size = d + 2 * n * p
matrix = np.array([np.concatenate(iterate(*np.split(e, [d, d + n * p]))) for e in np.eye(size)]).T
values = np.sort(np.abs(np.linalg.eigvals(matrix)))
radius = values[values < 1 - 1e-9].max()  # the sum of z, which is zero, has the eigenvalue 1
print(f"slowest of the runs {slowest:.4f}, NumPy's eigenvalue {radius:.4f}, certified {instance.rate:.4f}")
assert instance.standing == "proved"
assert abs(slowest - radius) < 5e-3
assert radius <= instance.rate
