"""Rivals with Nesterov's momentum: iD2A and MiD2A for all of P1, and the optimal method for an equality.

iD2A (Li and Lau 2025) ascends the dual of the constraint  C lam = 0,  C = I - W, with momentum, and solves

    (x+, lam+) = saddle point of  f + g + <lam, A x> - (1/n) sum_i h*(lam_i) - (rho/2) <lam, C lam> - <z, lam>
    w+ = z + rho C lam+,      z+ = w+ + b_k (w+ - w)

inside, inexactly, by the primal-dual gradient method with steps a = alpha/2 and 1/b = rho |C| + alpha sigma^2, where
alpha <= 1/l; its every iteration costs one product with C. MiD2A has a Chebyshev polynomial of I - W in place of C.

The method for affine constraints (Yarmoshik, Rogozin and Gasnikov 2024), for g = 0 and an equality, accelerates on
u = (x, y) under  B u = A x + s W' y = b_i, where W' is a Chebyshev polynomial of the Laplacian whose eigenvalues
lie in [11/15, 19/15] on the complement of the agreeing vectors, with

    G(u) = f(x) + (r/2) |B u - b|^2,
    u_g = tau u + (1 - tau) u_f
    u_h = (u - eta (grad G(u_g) - a u_g + B^T nu))/(1 + eta a)
    nu+ = nu + theta q(u_h),     B^T q(u) = u - (u after N Chebyshev steps towards B u = b)
    u+  = (u - eta (grad G(u_g) - a u_g + B^T nu+))/(1 + eta a),     u_f+ = u_g + 2 tau/(2 - tau) (u+ - u).

nu is the dual variable, one row for each agent.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from npga.networks import Chebyshev, Network
from npga.problem import Problem, dense_block
from npga.solver._admm import needs_equality
from npga.solver._loop import Iterate, Method
from npga.solver._result import Work
from npga.steps import Steps

Array = NDArray[Any]
Product = Callable[[Array], Array]


# ------------------------------------------------------------------ iD2A and MiD2A


@dataclass(frozen=True)
class Ascending(Iterate):
    """A state of iD2A: A x, z, the w before it, C lam, and (t, accuracy of the next sub-problem) as an array."""

    Ax: Array
    z: Array
    w: Array
    Clam: Array
    pace: Array


def ascent_steps(problem: Problem) -> Steps:
    """rho with rho |C| about sigma^2/l, the size of the rest of the sub-problem's dual curvature; it is `beta` here."""
    l = problem.l if 0.0 < problem.l < np.inf else 1.0  # noqa: E741
    return Steps(alpha=1.0 / l, beta=max(problem.sigma, 1e-300) ** 2 / l)


class Id2a(Method[Ascending]):
    """iD2A; rho is the step `beta`, and alpha divides the work of the sub-problem between x and lam."""

    name = "id2a"
    kind = Ascending
    work, inner_work = Work(), Work(gradients=1, products=2, proxes=2)
    rounds = 1
    degree = 1
    # The sub-problem is solved until its last step is this part of the disagreement that the outer step works on.
    _ACCURACY = 0.1
    _MAX_INNER = 5000

    def __init__(self, problem: Problem, network: Network, steps: Steps) -> None:
        self.problem, self.network = problem, network
        self.steps: Steps = steps
        low, high = network.extreme_eigenvalues()
        least, most = max(1.0 - high, 1e-15), max(1.0 - low, 1e-15)
        self._C, self._size = self._mixing(least, most)
        alpha = steps.single_alpha(self.name)
        self._a, self._b = alpha / 2.0, 1.0 / (steps.beta * self._size + alpha * max(problem.sigma, 1e-300) ** 2)

    def _mixing(self, least: float, most: float) -> tuple[Product, float]:  # noqa: ARG002
        return self.network.differences, most

    def start(self, x0: Array, lam0: Array) -> Ascending:
        """z0 = w0 = 0; the neighbours must be told of a lam0 that is not zero."""
        zero, told = np.zeros_like(lam0), bool(lam0.any())
        Clam = self._C(lam0) if told else zero
        pace, rounds = np.array([1.0, np.inf]), self.degree * told
        return Ascending(x0, lam0, zero, self.problem.A.apply(x0), zero, zero, Clam, pace, rounds=rounds)

    def _iterate(self, state: Ascending) -> Ascending:
        rho = self.steps.beta
        t, goal = state.pace
        x, Ax, lam, Clam, inner = self._saddle(state, float(goal))
        w = state.z + rho * Clam
        moved = w - state.w
        if np.vdot(Clam, moved) < 0.0:  # the momentum points away: begin anew (O'Donoghue and Candes 2015)
            t = 1.0
        t_next = (1.0 + math.sqrt(1.0 + 4.0 * t * t)) / 2.0
        z = w + (t - 1.0) / t_next * moved
        goal = self._ACCURACY * float(np.linalg.norm(rho * Clam))
        counts = {"iteration": state.iteration + 1, "inner": state.inner + inner}
        rounds = state.rounds + self.degree * inner
        return Ascending(x, lam, state.lam, Ax, z, w, Clam, np.array([t_next, goal]), rounds=rounds, **counts)

    def _saddle(self, state: Ascending, goal: float) -> tuple[Array, Array, Array, Array, int]:
        """The sub-problem from where the last one ended; returns x, A x, lam, C lam and the inner iterations."""
        problem, a, b, rho = self.problem, self._a, self._b, self.steps.beta
        x, Ax, lam, Clam = state.x, state.Ax, state.lam, state.Clam
        inner, going = 0, True
        while going and inner < self._MAX_INNER:
            inner += 1
            new = problem.g.prox(x - a * (problem.f.grad(x) + problem.A.adjoint(lam)), a)
            image = problem.A.apply(new)
            dual = problem.h.conj_prox(lam + b * (2.0 * image - Ax - rho * Clam - state.z), b / problem.n)
            size = max(float(np.linalg.norm(new - x)) * problem.sigma, float(np.linalg.norm(dual - lam)) / b)
            floor = 1e-15 * max(float(np.linalg.norm(image)), float(np.linalg.norm(dual)) / b)
            x, Ax, lam = new, image, dual
            Clam = self._C(lam)
            going = size > max(min(goal, 1e300), floor)
        return x, Ax, lam, Clam, inner

    def blame(self) -> str:
        """The only step."""
        return f"The iterates grow without bound: reduce beta, the rho of {self.name} (now {self.steps.beta:.3g})."


class MultiId2a(Id2a):
    """MiD2A: the Chebyshev polynomial of I - W of the degree that brings its condition number to about 2."""

    name = "mid2a"

    def _mixing(self, least: float, most: float) -> tuple[Product, float]:
        self.degree = self.rounds = max(1, math.ceil(math.sqrt(most / least)))
        polynomial = Chebyshev(self.degree, least, most)
        return lambda u: polynomial(self.network.differences, u), 1.0 + polynomial.spread


# ------------------------------------------------------------------ the optimal method for an equality


def needs_smooth_equality(problem: Problem) -> str | None:
    """Why the method for affine constraints does not apply."""
    if not problem.g.is_zero:
        return "g is not zero"
    if not problem.mu > 0.0 or not np.isfinite(problem.l):
        return "f is not strongly convex with a Lipschitz gradient"
    if problem.p * problem.n > 0 and _coupling_floor(problem) <= 0.0:
        return "the rows of [A_1, ..., A_n] are linearly dependent"
    return needs_equality(problem)


def _coupling_floor(problem: Problem) -> float:
    """Smallest eigenvalue of (1/n) sum_i A_i A_i^T; zero where it is lost in rounding."""
    gram = np.zeros((problem.p, problem.p))
    for block in problem.A.blocks:
        A = dense_block(block)
        gram += A @ A.T
    values = np.linalg.eigvalsh(gram)
    return float(values[0]) / problem.n if values[0] > 1e-12 * max(values[-1], 1e-300) else 0.0


@dataclass(frozen=True)
class Affine(Iterate):
    """A state of the method for affine constraints: y, the averages (x_f, y_f), and B^T nu = (zx, zy)."""

    y: Array
    xf: Array
    yf: Array
    zx: Array
    zy: Array


class OptimalAffine(Method[Affine]):
    """The method of Yarmoshik, Rogozin and Gasnikov; all constants come from the problem and the network."""

    name = "optimal-affine"
    kind = Affine

    def __init__(self, problem: Problem, network: Network, steps: Steps | None = None) -> None:
        self.problem, self.network = problem, network
        self.steps = steps
        self._share = problem.h.prox(np.zeros(problem.p, problem.dtype), 1.0) / problem.n
        least, most = network.laplacian_extremes()
        degree = max(1, math.ceil(math.sqrt(most / max(least, 1e-300))))
        while Chebyshev(degree, least, most).spread > 4.0 / 15.0:
            degree += 1
        self._gossip_degree, polynomial = degree, Chebyshev(degree, least, most)
        self._W: Product = lambda u: polynomial(lambda v: network.differences(v, "unit"), u)
        self._constants(problem)
        self.rounds = (2 + 2 * self._N) * degree
        self.work = Work(gradients=1, products=2 + 2 * self._N)

    def _constants(self, problem: Problem) -> None:
        mu_f, L_f = problem.mu, problem.l
        mu_A, L_A = _coupling_floor(problem), problem.sigma**2
        mu_W, L_W = (11.0 / 15.0) ** 2, (19.0 / 15.0) ** 2
        self._r = mu_f / (2.0 * L_A)
        self._s = math.sqrt((mu_A + L_A) / mu_W)
        self._mu_G = mu_f * min(0.5, (mu_A + L_A) / (4.0 * L_A))
        L_G = max(L_f + mu_f, mu_f * (mu_A + L_A) / L_A * L_W / mu_W)
        self._mu_B, self._L_B = mu_A / 2.0, L_A + (L_A + mu_A) * L_W / mu_W
        self._tau = min(1.0, math.sqrt(19.0 / 11.0 * self._mu_G / L_G) / 2.0)
        self._eta = 1.0 / (4.0 * self._tau * L_G)
        self._theta = 15.0 / (19.0 * self._eta)
        self._N = max(1, math.ceil(math.sqrt(self._L_B / self._mu_B)))

    def start(self, x0: Array, lam0: Array) -> Affine:
        """u_f = u = (x0, 0), nu = lam0; the neighbours must be told of a lam0 that is not zero."""
        zero, told = np.zeros_like(lam0), bool(lam0.any())
        zx, zy = self.problem.A.adjoint(lam0), self._s * self._W(lam0) if told else zero
        rounds = self._gossip_degree * told
        return Affine(x0, lam0, zero, zero, x0, zero, zx, zy, rounds=rounds)

    def _residual(self, x: Array, y: Array) -> Array:
        """B u - b."""
        return np.asarray(self.problem.A.apply(x) + self._s * self._W(y) - self._share)

    def _iterate(self, state: Affine) -> Affine:
        tau, eta, a, A = self._tau, self._eta, self._mu_G, self.problem.A
        xg, yg = tau * state.x + (1.0 - tau) * state.xf, tau * state.y + (1.0 - tau) * state.yf
        miss = self._r * self._residual(xg, yg)
        gx = self.problem.f.grad(xg) + A.adjoint(miss) - a * xg
        gy = self._s * self._W(miss) - a * yg

        def step(zx: Array, zy: Array) -> tuple[Array, Array]:
            return (state.x - eta * (gx + zx)) / (1.0 + eta * a), (state.y - eta * (gy + zy)) / (1.0 + eta * a)

        q, kx, ky = self._towards(*step(state.zx, state.zy))
        nu, zx, zy = state.lam + self._theta * q, state.zx + self._theta * kx, state.zy + self._theta * ky
        x, y = step(zx, zy)
        ahead = 2.0 * tau / (2.0 - tau)
        xf, yf = xg + ahead * (x - state.x), yg + ahead * (y - state.y)
        counts = {"iteration": state.iteration + 1, "rounds": state.rounds + self.rounds}
        return Affine(x, nu, state.lam, y, xf, yf, zx, zy, **counts)

    def _towards(self, x: Array, y: Array) -> tuple[Array, Array, Array]:
        """q and B^T q = u - (u after N Chebyshev steps towards B u = b)."""
        A, x0, y0 = self.problem.A, x, y
        rho, centre = (self._L_B - self._mu_B) ** 2 / 16.0, (self._L_B + self._mu_B) / 2.0
        q_sum, q, px, py = np.zeros_like(y), np.zeros_like(y), np.zeros_like(x), np.zeros_like(y)
        gamma, weight = -centre, 0.0
        for k in range(self._N):
            miss = self._residual(x, y)
            q = (miss + weight * q) / gamma
            px, py = (A.adjoint(miss) + weight * px) / gamma, (self._s * self._W(miss) + weight * py) / gamma
            x, y, q_sum = x + px, y + py, q_sum + q
            weight = rho / (gamma / 2.0 if k == 0 else gamma)
            gamma = -(centre + weight)
        return -q_sum, x0 - x, y0 - y
