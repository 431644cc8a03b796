"""Random instances of P1 that many tests share, each a function of a seed."""

from __future__ import annotations

import numpy as np
from hypothesis import strategies as st
from scipy import sparse
from scipy.sparse.linalg import aslinearoperator

import npga
from npga import functions as fn

VERSIONS = (
    "diging",
    "extra",
    "dlm",
    "p2d2",
    "aug-dgm",
    "atc-tracking",
    "exact-diffusion",
    "nids",
    "npga-i",
    "npga-ii",
)

# One entry for each kind; the values take (rng, size) and return a function of `size` variables.
SMOOTH = {
    "squared-norm": lambda rng, d: fn.SquaredNorm(1.0 + rng.random(), rng.standard_normal(d)),
    "quadratic": lambda rng, d: fn.Quadratic(_spd(rng, d), rng.standard_normal(d)),
    "least-squares": lambda rng, d: fn.LeastSquares(
        rng.standard_normal((2 * d, d)), rng.standard_normal(2 * d), 0.5 / max(d, 1)
    ),
    "logistic": lambda rng, d: fn.Logistic(rng.choice([-1.0, 1.0], d), 1.5),
    "huber": lambda rng, d: fn.Huber(0.5, 1.2, rng.standard_normal(d)),
    "linear": lambda rng, d: fn.Linear(0.1 * rng.standard_normal(d)),
    "zero": lambda rng, d: fn.Zero(),
}
PROXIMABLE = {
    "zero": lambda rng, d: fn.Zero(),
    "l1": lambda rng, d: fn.L1(0.3),
    "l2": lambda rng, d: fn.L2(0.4),
    "group-l2": lambda rng, d: fn.GroupL2(0.4, np.arange(d) // 2),
    "elastic-net": lambda rng, d: fn.ElasticNet(0.2, 0.5),
    "box": lambda rng, d: fn.Box(-1.0, 2.0),
    "non-negative": lambda rng, d: fn.NonNegative(),
    "simplex": lambda rng, d: fn.Simplex(1.5),
    "linear": lambda rng, d: fn.Linear(0.1 * rng.standard_normal(d)),
    "squared-norm": lambda rng, d: fn.SquaredNorm(0.3),
}
COUPLING = {
    "equality": lambda rng, z: fn.Equality(z),
    "less-equal": lambda rng, z: fn.LessEqual(z - 0.1),
    "ball": lambda rng, z: fn.Ball(z, 0.3),
    "squared-loss": lambda rng, z: fn.SquaredLoss(z, 0.7),
    "logistic": lambda rng, z: fn.Logistic(np.sign(z) + (z == 0), 0.8),
    "hinge": lambda rng, z: fn.Hinge(np.sign(z) + (z == 0), 0.5),
    "quantile": lambda rng, z: fn.Quantile(z, 0.3, 0.5),
    "l1": lambda rng, z: fn.L1(0.3),
    "box": lambda rng, z: fn.Box(z - 0.2, z + 0.4),
    "huber": lambda rng, z: fn.Huber(0.3, 0.9, z),
    "zero": lambda rng, z: fn.Zero(),
}
MATRICES = ("dense", "sparse", "operator", "mixed")
# All of them, versions and thetas, for hypothesis to draw from.
DRAWN = {
    "seed": st.integers(0, 10**6),
    "name": st.sampled_from(VERSIONS),
    "smooth": st.sampled_from(sorted(SMOOTH)),
    "proximable": st.sampled_from(sorted(PROXIMABLE)),
    "coupling": st.sampled_from(sorted(COUPLING)),
    "matrices": st.sampled_from(MATRICES),
    "theta": st.sampled_from([0.0, 0.5, 1.0]),
}


def _spd(rng, d):
    M = rng.standard_normal((d, d + 2))
    return np.eye(d) + 0.3 * M @ M.T / max(d, 1)


def matrix(rng, p, d, kind):
    """A coupling matrix of unit scale."""
    A = rng.standard_normal((p, d)) / np.sqrt(p)
    if kind == "sparse":
        return sparse.csr_array(A * (rng.random((p, d)) < 0.5))
    return aslinearoperator(A) if kind == "operator" else A


def random_problem(
    seed,
    n=6,
    p=4,
    smooth="squared-norm",
    proximable="zero",
    coupling="equality",
    matrices="dense",
    sizes=None,
):
    """A feasible instance with ragged blocks; d_i between 0 and 4 unless `sizes` is given."""
    rng = np.random.default_rng(seed)
    sizes = rng.integers(1, 5, n) if sizes is None else np.asarray(sizes)
    kinds = [MATRICES[i % 3] if matrices == "mixed" else matrices for i in range(n)]
    A = [matrix(rng, p, int(d), kind) for d, kind in zip(sizes, kinds, strict=True)]
    g = [PROXIMABLE[proximable](rng, int(d)) if d else fn.Zero() for d in sizes]
    inside = [gi.prox(rng.standard_normal(int(d)), 1.0) if d else np.zeros(0) for gi, d in zip(g, sizes, strict=True)]
    z = sum((Ai @ xi for Ai, xi in zip(A, inside, strict=True)), np.zeros(p))
    agents = [
        npga.Agent(A=Ai, f=SMOOTH[smooth](rng, int(d)) if d else fn.Zero(), g=gi)
        for Ai, gi, d in zip(A, g, sizes, strict=True)
    ]
    return npga.Problem(agents, COUPLING[coupling](rng, z))


def uneven(problem, seed=0):
    """The problem with columns of its dense blocks in units from 1e-2 to 1e2."""
    rng = np.random.default_rng(seed)
    blocks = [
        a.A * 10.0 ** rng.integers(-2, 3, a.A.shape[1]) if isinstance(a.A, np.ndarray) else a.A for a in problem.agents
    ]
    return npga.Problem([npga.Agent(A, a.f, a.g) for A, a in zip(blocks, problem.agents, strict=True)], problem.h)


def tame_steps(problem, gamma=0.5, theta=0.0):
    """Steps at which every version runs for a while: alpha from l, beta from alpha and sigma."""
    alpha = 0.5 / max(problem.l, 1.0)
    return npga.Steps(alpha=alpha, beta=0.4 / (alpha * max(problem.sigma, 1e-3) ** 2) * alpha, gamma=gamma, theta=theta)
