"""What the compiled path is compared with: a loop over agents as one would first write it, and JAX."""

from __future__ import annotations

import numpy as np
from scipy import sparse

from cases import LASSO, RIDGE


class Naive:
    """NPGA-EXTRA agent by agent in plain NumPy: u = B y + C lam, v = lam - u + beta A x_hat, D = I."""

    def __init__(self, problem, network, steps):
        self.A = [agent.A for agent in problem.agents]
        self.At = [A.T.tocsr() if sparse.issparse(A) else A.T for A in self.A]
        W = network.W.tocsr()
        self.neighbours = [
            [(int(j), float(w)) for j, w in zip(W.indices[a:b], W.data[a:b], strict=True) if j != i]
            for i, (a, b) in enumerate(zip(W.indptr, W.indptr[1:], strict=False))
        ]
        self.target, self.weight = np.asarray(problem.h.target), problem.h.weight
        self.n, self.p, self.steps = problem.n, problem.p, steps

    def run(self, iterations):
        """x and lam after some iterations from zero."""
        n, p = self.n, self.p
        alpha, beta, gamma, theta = self.steps.alpha, self.steps.beta, self.steps.gamma, self.steps.theta
        t = beta / n
        x = [np.zeros(A.shape[1]) for A in self.A]
        lam = [np.zeros(p) for _ in range(n)]
        old = [np.zeros(p) for _ in range(n)]
        v = [np.zeros(p) for _ in range(n)]
        u = [np.zeros(p) for _ in range(n)]
        for _ in range(iterations):
            message = [0.5 * (lam[i] - old[i]) + 0.5 * gamma * v[i] for i in range(n)]
            new_lam = []
            for i in range(n):
                y = x[i] - alpha * (RIDGE * x[i] + self.At[i] @ lam[i])
                new = np.sign(y) * np.maximum(np.abs(y) - alpha * LASSO, 0.0)
                hat = new + theta * (new - x[i])
                for j, w in self.neighbours[i]:
                    u[i] = u[i] + w * (message[i] - message[j])
                v[i] = lam[i] - u[i] + beta * (self.A[i] @ hat)
                new_lam.append((v[i] - t * self.target) / (1.0 + t / self.weight))
                x[i] = new
            old, lam = lam, new_lam
        return np.concatenate(x), np.array(lam)


class Jax:
    """The same with the whole loop compiled by JAX; blocks padded to one width, sparse ones as coordinates."""

    def __init__(self, problem, network, steps):
        import jax
        import jax.numpy as jnp

        jax.config.update("jax_enable_x64", True)
        self.jax, self.problem = jax, problem
        n, p = problem.n, problem.p
        W = network.W.tocoo()
        links = W.row != W.col
        row, col, w = (jnp.asarray(a[links]) for a in (W.row, W.col, W.data))
        alpha, beta, gamma, theta = steps.alpha, steps.beta, steps.gamma, steps.theta
        t, target, weight = beta / n, jnp.asarray(problem.h.target), problem.h.weight
        pull, push, self.width = self._products(jnp, problem)

        def mix(m):
            return jax.ops.segment_sum(w[:, None] * (m[row] - m[col]), row, num_segments=n)

        def body(_, state):
            x, lam, old, v, u = state
            y = x - alpha * (RIDGE * x + pull(lam))
            new = jnp.sign(y) * jnp.maximum(jnp.abs(y) - alpha * LASSO, 0.0)
            u = u + mix(0.5 * (lam - old) + 0.5 * gamma * v)
            v = lam - u + beta * push(new + theta * (new - x))
            return new, (v - t * target) / (1.0 + t / weight), lam, v, u

        self.loop = jax.jit(lambda state, count: jax.lax.fori_loop(0, count, body, state))
        self.zero = (jnp.zeros(self.width), *(jnp.zeros((n, p)) for _ in range(4)))

    def _products(self, jnp, problem):
        n, p = problem.n, problem.p
        if any(sparse.issparse(agent.A) for agent in problem.agents):
            A = sparse.block_diag([agent.A for agent in problem.agents], format="coo")
            row, col, data = jnp.asarray(A.row), jnp.asarray(A.col), jnp.asarray(A.data)
            sums = self.jax.ops.segment_sum
            return (
                lambda lam: sums(data * lam.ravel()[row], col, num_segments=problem.d),
                lambda x: sums(data * x[col], row, num_segments=n * p).reshape(n, p),
                (problem.d,),
            )
        width = int(problem.sizes.max())
        stacked = np.zeros((n, p, width))
        for i, agent in enumerate(problem.agents):
            stacked[i, :, : agent.A.shape[1]] = agent.A
        A = jnp.asarray(stacked)
        return (
            lambda lam: jnp.einsum("npd,np->nd", A, lam),
            lambda x: jnp.einsum("npd,nd->np", A, x),
            (n, width),
        )

    def run(self, iterations):
        """x and lam after some iterations from zero."""
        x, lam, *_ = self.loop(self.zero, iterations)
        x = np.asarray(x)
        if x.ndim == 2:
            x = np.concatenate([row[:size] for row, size in zip(x, self.problem.sizes, strict=True)])
        return x, np.asarray(lam)
