"""Literal forms of published recursions, in dense linear algebra, written to be read against their papers."""

from __future__ import annotations

import numpy as np


def square_root(matrix):
    values, vectors = np.linalg.eigh(matrix)
    return vectors @ np.diag(np.sqrt(np.clip(values, 0.0, None))) @ vectors.T


def y_form(problem, B2, C, D, steps, iterations, x0=None, lam0=None):
    """Equation (npga) of Li and Su (2024) line by line, with the square root B; returns all (x, lam)."""
    n, p = problem.n, problem.p
    alpha, beta, gamma, theta = steps.alpha, steps.beta, steps.gamma, steps.theta
    B = square_root(np.asarray(B2))
    agents = problem.agents
    x = [np.zeros(a.A.shape[1]) for a in agents] if x0 is None else [np.array(b) for b in x0]
    lam = np.zeros((n, p)) if lam0 is None else np.array(lam0)
    y = np.zeros((n, p))
    history = []
    for _ in range(iterations):
        x_next = [
            a.g.prox(xi - alpha * (a.f.grad(xi) + a.A.T @ li), alpha) for a, xi, li in zip(agents, x, lam, strict=True)
        ]
        x_hat = [new + theta * (new - old) for new, old in zip(x_next, x, strict=True)]
        A_x_hat = np.array([a.A @ xi for a, xi in zip(agents, x_hat, strict=True)])
        v = lam - C @ lam - B @ y + beta * A_x_hat
        y = y + gamma * B @ v
        # prox of (beta/n) h*, agent by agent, through Moreau's identity and the prox of h
        lam = np.array([_conjugate_prox(problem.h, row, beta / n) for row in D @ v])
        x = x_next
        history.append((np.concatenate(x), lam))
    return history


def _conjugate_prox(h, v, t):
    return v - t * h.prox(v / t, 1.0 / t)


class DualGradient:
    """The inexact gradient of the dual that NPGA uses: one primal step per call, then -(A_i x_hat_i - b/n)."""

    def __init__(self, problem, b, alpha, theta):
        self.agents, self.b, self.alpha, self.theta = problem.agents, b, alpha, theta
        self.x = [np.zeros(a.A.shape[1]) for a in problem.agents]

    def __call__(self, lam):
        old = self.x
        self.x = [
            a.g.prox(x - self.alpha * (a.f.grad(x) + a.A.T @ row), self.alpha)
            for a, x, row in zip(self.agents, old, lam, strict=True)
        ]
        ahead = [new + self.theta * (new - x) for new, x in zip(self.x, old, strict=True)]
        return -np.array([a.A @ x for a, x in zip(self.agents, ahead, strict=True)]) + self.b / len(self.agents)


def diging(gradient, lam, W, step, iterations):
    """Nedic, Olshevsky and Shi (2017): x+ = W x - a y, y+ = W y + grad(x+) - grad(x)."""
    g = gradient(lam)
    y, out = g, []
    for _ in range(iterations):
        lam = W @ lam - step * y
        out.append(lam)
        g, old = gradient(lam), g
        y = W @ y + g - old
    return out


def extra(gradient, lam, W, step, iterations):
    """Shi, Ling, Wu and Yin (2015): x1 = W x0 - a g0; x++ = (I + W) x+ - (I + W)/2 x - a (g+ - g)."""
    g = gradient(lam)
    before, lam = lam, W @ lam - step * g
    out = [lam]
    for _ in range(iterations - 1):
        g, old = gradient(lam), g
        before, lam = lam, lam + W @ lam - 0.5 * (before + W @ before) - step * (g - old)
        out.append(lam)
    return out


def nids(gradient, lam, W, step, c, iterations):
    """Li, Shi and Yan (2019), smooth case: x1 = x0 - a g0 mixed; x++ = (I - c(I-W)) (2 x+ - x - a (g+ - g))."""
    mix = np.eye(len(W)) - c * (np.eye(len(W)) - W)
    g = gradient(lam)
    before, lam = lam, mix @ (lam - step * g)
    out = [lam]
    for _ in range(iterations - 1):
        g, old = gradient(lam), g
        before, lam = lam, mix @ (2 * lam - before - step * (g - old))
        out.append(lam)
    return out


def exact_diffusion(gradient, w, W, step, iterations):
    """Yuan, Ying, Zhao and Sayed (2019): adapt psi+ = w - a g, correct phi+ = psi+ + w - psi, combine."""
    psi, out = w, []
    for _ in range(iterations):
        psi_next = w - step * gradient(w)
        phi = psi_next + w - psi
        psi, w = psi_next, 0.5 * (phi + W @ phi)
        out.append(w)
    return out


def aug_dgm(gradient, lam, W, step, iterations):
    """Xu, Zhu, Soh and Xie (2015): x+ = W (x - a y), y+ = W (y + grad(x+) - grad(x)), y0 = W grad(x0)."""
    g = gradient(lam)
    y, out = W @ g, []
    for _ in range(iterations):
        lam = W @ (lam - step * y)
        out.append(lam)
        g, old = gradient(lam), g
        y = W @ (y + g - old)
    return out


def atc_tracking(gradient, lam, W, step, iterations):
    """Di Lorenzo and Scutari (2016), gradient surrogate: x+ = W (x - a y), y+ = W y + grad(x+) - grad(x)."""
    g = gradient(lam)
    y, out = g, []
    for _ in range(iterations):
        lam = W @ (lam - step * y)
        out.append(lam)
        g, old = gradient(lam), g
        y = W @ y + g - old
    return out


def dlm(gradient, lam, L, step, c, iterations):
    """Ling, Shi, Wu and Ribeiro (2015), equal curvatures 1/a: x+ = x - a (g + c L x + phi), phi+ = phi + c L x+."""
    phi, out = np.zeros_like(lam), []
    for _ in range(iterations):
        lam = lam - step * (gradient(lam) + c * L @ lam + phi)
        phi = phi + c * L @ lam
        out.append(lam)
    return out


def dcda(problem, b, W, alpha, beta, iterations):
    """Alghunaim, Yuan and Sayed (2020): psi+ = y + b (A_i x_i+ - b_i), phi+ = psi+ + y - psi, y+ = (I+W)/2 phi+."""
    n = problem.n
    x = [np.zeros(a.A.shape[1]) for a in problem.agents]
    y = psi = np.zeros((n, problem.p))
    out = []
    for _ in range(iterations):
        x = [
            a.g.prox(xi - alpha * (a.f.grad(xi) + a.A.T @ row), alpha)
            for a, xi, row in zip(problem.agents, x, y, strict=True)
        ]
        psi_next = y + beta * (np.array([a.A @ xi for a, xi in zip(problem.agents, x, strict=True)]) - b / n)
        phi = psi_next + y - psi
        psi, y = psi_next, 0.5 * (phi + W @ phi)
        out.append((np.concatenate(x), y))
    return out


def dcpa(problem, W, alpha, beta, gamma, iterations):
    """The dual consensus proximal algorithm (Alghunaim, Lyu, Yan and Sayed 2021), as primal-dual P2D2 with c = 1.

    x+ = prox(x - a (grad + A^T y));  v+ = (I + W)/2 y - z + b A (2 x+ - x);  z+ = z + g (I - W)/2 v+;
    y+ = prox_{(b/n) h*}(v+).
    """
    n = problem.n
    x = [np.zeros(a.A.shape[1]) for a in problem.agents]
    y = z = np.zeros((n, problem.p))
    for _ in range(iterations):
        new = [
            a.g.prox(xi - alpha * (a.f.grad(xi) + a.A.T @ row), alpha)
            for a, xi, row in zip(problem.agents, x, y, strict=True)
        ]
        ahead = np.array([a.A @ (2 * s - t) for a, s, t in zip(problem.agents, new, x, strict=True)])
        v = 0.5 * (y + W @ y) - z + beta * ahead
        z = z + gamma * 0.5 * (v - W @ v)
        x, y = new, np.array([_conjugate_prox(problem.h, row, beta / n) for row in v])
    return np.concatenate(x), y
