"""The paper's matrices, bounds, rates and Lyapunov functions in dense linear algebra, typed again from its text."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np


def table(name, W, L, beta, c=1.0):
    """B^2, C and D of Table II."""
    eye, zero = np.eye(len(W)), np.zeros_like(W)
    gap = eye - W
    return {
        "diging": (gap @ gap, eye - W @ W, eye),
        "extra": (gap / 2, gap / 2, eye),
        "dlm": (c * beta * L, c * beta * L, eye),
        "p2d2": (c / 2 * gap, gap / 2, eye),
        "aug-dgm": (gap @ gap, zero, W @ W),
        "atc-tracking": (gap @ gap, gap, W),
        "exact-diffusion": (gap / 2, zero, (eye + W) / 2),
        "nids": (c * gap, zero, eye - c * gap),
        "npga-i": (gap, zero, W @ W),
        "npga-ii": (gap, gap, W),
    }[name]


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
    owners = [a.f for a, size in zip(problem.agents, problem.sizes, strict=True) if size]
    return SimpleNamespace(
        big=big,
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


def evaluate(key, k, steps):
    """Bounds on alpha, beta and gamma, and delta, of one theorem."""
    a, b, g, t = steps.alpha, steps.beta, steps.gamma, steps.theta
    beta = k.mu / (k.sigma_A**2 * (1 / (1 - k.sigma_C) + t))
    third = 1 - g * k.least_B2
    if key in ("1", "2", "3"):
        alpha = 1 / (k.l * (1 + 2 * t))
        first = 1 - a * k.mu * (1 - a * k.l * (1 + 2 * t))
        E = k.big.A @ k.big.A.T + k.big.C / (2 * a * b)
        F = k.big.D @ k.big.A @ k.big.A.T @ k.big.D + (1 - g) / (a * b) * k.big.B2
        if key == "1":
            gamma = min(1, a * b * eta(E) / k.sigma_B2)
            second = (1 - a * b * eta(E)) / (1 - g * k.sigma_B2)
        else:
            gamma, second = 1, 1 - a * b * eta(E if key == "2" else F)
    else:
        alpha = 1 / max(2 * t * k.l**2 / k.mu, 2 * k.l - k.mu)
        first = 1 - a * (k.mu - 2 * t * a * k.l**2)
        q2 = (1 + b / (k.n * k.l_h)) ** 2
        gamma = min(1, (q2 - 1) / (q2 * k.sigma_B2)) if key == "4" else 1
        second = 1 / (q2 * (1 - g * k.sigma_B2)) if key == "4" else 1 / q2
    return {"alpha": alpha, "beta": beta, "gamma": gamma}, max(first, second, third)


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


def lyapunov(key, k, steps, x, v, y, lam):
    """The function that the proof of each theorem shows to shrink; arguments are errors, v may be None."""
    a, b, g, t = steps.alpha, steps.beta, steps.gamma, steps.theta
    c1 = 1 - a * b * k.sigma_A**2 * (1 / (1 - k.sigma_C) + t)
    c2, c3 = a / b, a / (b * g)
    X, Y, Z = np.sum(x**2), np.sum(y**2), np.sum(lam**2)
    if key == "1":
        w = 1 - g * k.sigma_B2
        return c1 / w * X + c2 * Z + c3 / w * Y
    if key == "2":
        return c1 * X + c2 * Z + c3 * Y
    if key == "3":
        r = v.ravel()
        return c1 * X + c2 * (r @ r - g * r @ (k.big.B2 @ r)) + c3 * Y
    q2 = (1 + b / (k.n * k.l_h)) ** 2
    if key == "4":
        second = 1 / (q2 * (1 - g * k.sigma_B2))
        return second * X + c2 * Z + c3 * second * Y
    return X + q2 * c2 * Z + c3 * Y
