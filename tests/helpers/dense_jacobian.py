"""The Jacobian of NPGA's z-form at a solution, as one dense matrix built with Kronecker products."""

from __future__ import annotations

import numpy as np
import scipy.linalg


def _square(jacobian):
    return np.diag(jacobian) if jacobian.ndim == 1 else jacobian


def dense_jacobian(problem, network, version, steps, x, lam):
    """d(x+, lam+, z+) / d(x, lam, z), with z orthogonal to consensus.

    x+   = prox_{alpha g}(x - alpha (grad f(x) + A^T lam))
    v+   = (I - C) lam - z + beta A (x+ + theta (x+ - x))
    lam+ = prox_{(beta/n) h*}(D v+)
    z+   = z + gamma B^2 v+
    """
    n, p, d = problem.n, problem.p, problem.d
    alpha, beta, gamma, theta = steps.alpha, steps.beta, steps.gamma, steps.theta
    B2, C, D = (M.toarray() for M in version.matrices(network, beta=beta))
    A = scipy.linalg.block_diag(*(agent.A @ np.eye(agent.A.shape[1]) for agent in problem.agents))
    I_p, I_n = np.eye(p), np.eye(n)
    force = problem.f.grad(x) + A.T @ np.tile(lam, n)
    P = _square(problem.g.prox_jac(x - alpha * force, alpha))
    total = A.reshape(n, p, d).sum(axis=0) @ x
    Q = _square(problem.h.conj_prox_jac(lam + beta / n * total, beta / n))
    x_x, x_lam = P @ (np.eye(d) - alpha * _square(problem.f.hess(x))), -alpha * P @ A.T
    v = [
        beta * A @ ((1 + theta) * x_x - theta * np.eye(d)),
        np.kron(I_n - C, I_p) + beta * (1 + theta) * A @ x_lam,
        -np.eye(n * p),
    ]
    out, mix = np.kron(D, Q), gamma * np.kron(B2, I_p)
    rows = [
        [x_x, x_lam, np.zeros((d, n * p))],
        [out @ part for part in v],
        [mix @ v[0], mix @ v[1], np.eye(n * p) + mix @ v[2]],
    ]
    reach = np.kron(scipy.linalg.null_space(np.ones((1, n))), I_p)
    T = scipy.linalg.block_diag(np.eye(d + n * p), reach)
    return T.T @ np.block(rows) @ T


def radius(*args):
    """Spectral radius of the dense Jacobian."""
    return float(np.abs(np.linalg.eigvals(dense_jacobian(*args))).max())
