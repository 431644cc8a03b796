"""Problems that the tuner was not developed on: other data, other graphs."""

from __future__ import annotations

import numpy as np

import npga
from npga import functions as fn


def _data(seed, n=13, p=10):
    """Thirteen parties with one feature each, the last one also an intercept, as in the paper's Experiment I."""
    rng = np.random.default_rng(seed)
    mixed = rng.standard_normal((p, n + 1)) @ (np.eye(n + 1) + 0.3 * rng.standard_normal((n + 1, n + 1)))
    blocks = np.split(mixed / mixed.std(axis=0), np.arange(1, n), axis=1)
    return rng, blocks, rng.standard_normal(p)


def equality_ridge(seed=11):
    """min |x|^2/2 subject to sum A_i x_i = b."""
    _, blocks, b = _data(seed)
    return npga.Problem([npga.Agent(A, fn.SquaredNorm(1.0)) for A in blocks], fn.Equality(b))


def ball_ridge(seed=12):
    """min |x|^2/2 subject to |sum A_i x_i - b| <= |b| / 10."""
    _, blocks, b = _data(seed)
    return npga.Problem([npga.Agent(A, fn.SquaredNorm(1.0)) for A in blocks], fn.Ball(b, 0.1 * np.linalg.norm(b)))


def elastic_net(seed=13):
    """min (1/2p)|sum A_i x_i - y|^2 + elastic net, whose quadratic part is f."""
    rng, blocks, _ = _data(seed)
    sparse = [rng.standard_normal(A.shape[1]) * (i % 2) for i, A in enumerate(blocks)]
    y = sum(A @ x for A, x in zip(blocks, sparse, strict=True)) + 0.1 * rng.standard_normal(10)
    agents = [npga.Agent(A, fn.SquaredNorm(0.05), fn.L1(0.05)) for A in blocks]
    return npga.Problem(agents, fn.SquaredLoss(y, 0.1))


def logistic(seed=14):
    """min of logistic f_i and g_i = |x|^2/4 subject to an equality: the gradient is not linear."""
    rng, blocks, b = _data(seed)
    f = [fn.Logistic(rng.choice([-1.0, 1.0], A.shape[1]), 1.5) for A in blocks]
    return npga.Problem(
        [npga.Agent(A, fi, fn.SquaredNorm(0.5)) for A, fi in zip(blocks, f, strict=True)], fn.Equality(b)
    )


PROBLEMS = {"equality": equality_ridge, "ball": ball_ridge, "elastic-net": elastic_net}


def network(seed=5):
    """A random graph that nothing was tuned on."""
    return npga.Network.erdos_renyi(13, 0.35, seed=seed)
