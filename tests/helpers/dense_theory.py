"""The paper's matrices, bounds, rates and Lyapunov functions in dense linear algebra, typed again from its text."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
from scipy.linalg import eigh

from helpers.network_cases import table_formulas as table


def default_c(name):
    return 0.5 if name == "nids" else 1.0


def constants(problem, network, name, steps, c=None):
    """Everything that the statements of the theorems contain, from np x np matrices."""
    W, L = network.W.toarray(), network.laplacian.toarray()
    B2, C, D = table(name, W, L, steps.beta, default_c(name) if c is None else c)
    p = problem.p
    A = np.zeros((problem.n * p, problem.d))
    for i, block in enumerate(problem.agents):
        A[i * p : (i + 1) * p, problem.A.offsets[i] : problem.A.offsets[i + 1]] = block.A @ np.eye(problem.sizes[i])
    big = SimpleNamespace(A=A, B2=np.kron(B2, np.eye(p)), C=np.kron(C, np.eye(p)), D=np.kron(D, np.eye(p)))
    b = np.linalg.eigvalsh(B2)
    off = np.linalg.svd(np.eye(problem.n) - 1 / problem.n)[0][:, : problem.n - 1]
    owners = [a.f for a, size in zip(problem.agents, problem.sizes, strict=True) if size]
    return SimpleNamespace(
        big=big,
        B2=off.T @ B2 @ off,
        C=C,
        D=D,
        off=off,
        p=p,
        mu=min(f.mu for f in owners),
        l=max(f.L for f in owners),
        sigma_A=np.linalg.norm(A, 2),
        sigma_C=np.linalg.norm(C, 2),
        sigma_B2=b[-1],
        least_B2=b[1],
        n=problem.n,
        l_h=problem.h.L,
    )


def eta(matrix):
    return np.linalg.eigvalsh(matrix)[0]


def kappa(k, M):
    """The largest number with kappa B^2 <= I - D M D off the vector of ones; 0 if there is none."""
    right = k.off.T @ (np.eye(k.n) - k.D @ M @ k.D) @ k.off
    if not len(right):
        return np.inf
    if np.linalg.eigvalsh(right)[0] <= 1e-13:
        return 0.0
    return 1 / eigh(k.B2, right, eigvals_only=True)[-1]


def omega(k, gamma):
    """The largest number, at most 1, with w D^2 <= I - gamma B^2; negative if gamma B^2 <= I fails."""
    norm = np.eye(k.n - 1) - gamma * k.B2
    if np.linalg.eigvalsh(norm)[0] < -1e-13:
        return -1.0
    return min(1, 1 / max(eigh(k.off.T @ k.D @ k.D @ k.off, norm, eigvals_only=True)[-1], 1e-300))


def damped(k, steps):
    """C' = 2 C - f C^2, or None where f is infinite."""
    b, t, square = steps.beta, steps.theta, k.sigma_A**2
    if not k.C.any():
        return k.C
    share = 1 - b * square / (k.mu - t * b * square)
    if k.mu <= t * b * square or share <= 0:
        return None
    return 2 * k.C - (1 / share + 2 * t * steps.alpha * b * square) * k.C @ k.C


def sharp_beta(k, steps, times_beta):
    """The largest beta with C' >= 0, by bisection; `times_beta` makes C proportional to beta."""
    top = k.mu / (k.sigma_A**2 * (1 + steps.theta))
    if not k.C.any():
        return top
    low, high = 0.0, top
    for _ in range(200):
        b = (low + high) / 2
        share = 1 - b * k.sigma_A**2 / (k.mu - steps.theta * b * k.sigma_A**2)
        f = 1 / share + 2 * steps.theta * steps.alpha * b * k.sigma_A**2 if share > 0 else np.inf
        low, high = (b, high) if f * k.sigma_C * (b / steps.beta if times_beta else 1) <= 2 else (low, b)
    return low


def evaluate(key, k, steps, times_beta=False):
    """Bounds on alpha, beta and gamma, and delta, of one theorem."""
    a, b, g, t = steps.alpha, steps.beta, steps.gamma, steps.theta
    eye, AAT, ours = np.eye(k.n), k.big.A @ k.big.A.T, key.endswith("+")
    sharp = damped(k, steps) if ours else None
    beta = k.mu / (k.sigma_A**2 * (1 / (1 - k.sigma_C) + t)) if k.sigma_C < 1 else 0.0
    beta = sharp_beta(k, steps, times_beta) if ours else beta

    def wide(M):
        return np.kron(M, np.eye(k.p))

    if key.startswith("4"):
        alpha, first = 1 / max(2 * t * k.l**2 / k.mu, 2 * k.l - k.mu), 1 - a * (k.mu - 2 * t * a * k.l**2)
        left = (1 + b / (k.n * k.l_h)) ** -2
        gamma = kappa(k, left * eye) if ours else (1 - left) / k.sigma_B2
        second = left / (omega(k, g) if ours else 1 - g * k.sigma_B2)
    else:
        alpha, first = 1 / (k.l * (1 + 2 * t)), 1 - a * k.mu * (1 - a * k.l * (1 + 2 * t))
    if key in ("1", "2"):
        phi = eta(a * b * AAT + k.big.C / 2)
        gamma, second = (phi / k.sigma_B2, (1 - phi) / (1 - g * k.sigma_B2)) if key == "1" else (kappa(k, eye), 1 - phi)
    if key == "1+" and sharp is not None:
        phi = eta(a * b * AAT + wide(sharp))
        gamma, second = kappa(k, (1 - phi) * eye), (1 - phi) / omega(k, g)
    if key == "3":
        gamma = kappa(k, eye - k.C)
        second = 1 - eta(a * b * k.big.D @ AAT @ k.big.D + (gamma - g) * k.big.B2)
    if key == "3+" and sharp is not None:
        fixed = a * b * k.big.D @ AAT @ k.big.D + wide(eye - k.D @ (eye - sharp) @ k.D)
        gamma = min(1 / k.sigma_B2, 1 / eigh(k.big.B2, fixed, eigvals_only=True)[-1]) if eta(fixed) > 1e-12 else np.nan
        second = 1 - eta(fixed - g * k.big.B2)
    if ours and sharp is None:
        return {"alpha": alpha, "beta": beta}, np.nan
    return {"alpha": alpha, "beta": beta, "gamma": gamma}, max(first, second, 1 - g * k.least_B2)


def root(matrix):
    values, vectors = np.linalg.eigh(matrix)
    return vectors @ np.diag(np.sqrt(np.clip(values, 0, None))) @ vectors.T


def trajectory(problem, B2, C, D, steps, iterations, x, lam):
    """Equation (npga) line by line from (x, lam, y = 0); yields x, v, y, lam after each iteration."""
    n, p = problem.n, problem.p
    B, y = root(B2), np.zeros((n, p))
    for _ in range(iterations):
        blocks = [
            a.g.prox(xi - steps.alpha * (a.f.grad(xi) + a.A.T @ li), steps.alpha)
            for a, xi, li in zip(problem.agents, problem.split(x), lam, strict=True)
        ]
        new = np.concatenate(blocks)
        v = lam - C @ lam - B @ y + steps.beta * problem.A.apply(new + steps.theta * (new - x))
        y = y + steps.gamma * B @ v
        t = steps.beta / n
        mixed = D @ v
        lam = np.array([row - t * problem.h.prox(row / t, 1 / t) for row in mixed])
        x = new
        yield x, v, y, lam


def fixed_point(problem, B2, steps, x, lam):
    """v* and the component of y* in col(B): B y* = lam* - v* + beta A x*."""
    Ax = problem.A.apply(x)
    v = lam + steps.beta / problem.n * Ax.sum(axis=0)
    return np.tile(v, (problem.n, 1)), np.linalg.pinv(root(B2), rcond=1e-8) @ (lam - v + steps.beta * Ax)


def lyapunov(key, k, steps, x, v, y, lam, excess=0.0):
    """The function that the proof of each theorem shows to shrink.

    Arguments are errors; v may be None; `excess` is g(x) - g(x*) - <S*, x - x*>.
    """
    a, b, g, t = steps.alpha, steps.beta, steps.gamma, steps.theta
    c1 = 1 - a * k.mu  # ours: the share of the splitting is the largest that beta allows
    if not (key.endswith("+") and k.C.any()):
        c1 = 1 - a * b * k.sigma_A**2 * (1 / (1 - k.sigma_C) + t) if k.sigma_C < 1 else np.nan
    c2, c3 = a / b, a / (b * g)
    X, Y, Z = np.sum(x**2), np.sum(y**2), np.sum(lam**2)
    q2 = (1 + b / (k.n * k.l_h)) ** 2
    w = omega(k, g) if key.endswith("+") else 1 - g * k.sigma_B2
    if key in ("1", "1+"):
        return c1 * X + w * c2 * Z + c3 * Y
    if key == "2":
        return c1 * X + c2 * Z + c3 * Y
    if key in ("3", "3+"):
        r = v.ravel()
        return c1 * X + c2 * (r @ r - g * r @ (k.big.B2 @ r)) + c3 * Y
    return X + 2 * (1 + t) * a * excess + q2 * w * c2 * Z + c3 * Y
