"""Regression and classification with the columns of one table at different parties, on data of scikit-learn.

Party i holds the columns X_i and the weights w_i; all hold the answers y. With N rows,

    min over w of   (1/N) sum of losses of (X w, y)  +  penalty(w),        A_i = X_i,   h = the loss.

Columns have mean 0 and variance 1; constant ones are dropped. Answers of regressions are centred and scaled likewise.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache, partial
from typing import Any

import numpy as np
from scipy.optimize import linprog, nnls, root
from scipy.special import expit

import npga
from npga import functions as fn
from suite.case import Case, Instance, Solution, by_clarabel

# ---------------------------------------------------------------- data


@cache
def table(name: str) -> tuple[Any, Any]:
    """Columns and answers: standardised; classes as -1 and +1."""
    from sklearn import datasets

    if name == "rows-5000":
        X, y = datasets.make_regression(5000, 40, noise=10.0, effective_rank=20, tail_strength=0.3, random_state=0)
        return _standard(X), _standard(y[:, None])[:, 0]
    if name == "classes-5000":
        X, y = datasets.make_classification(5000, 30, n_informative=12, n_redundant=6, flip_y=0.05, random_state=0)
        return _standard(X), np.where(y == 1, 1.0, -1.0)
    if name == "linnerud":
        X, Y = datasets.load_linnerud(return_X_y=True)
        return _standard(X), _standard(Y[:, :1])[:, 0]
    if name == "iris":  # sepal and petal sizes; versicolor against virginica
        X, y = datasets.load_iris(return_X_y=True)
        return _standard(X[y > 0]), np.where(y[y > 0] == 2, 1.0, -1.0)
    if name == "iris-petal":  # width of the petal from the other three sizes
        X, _ = datasets.load_iris(return_X_y=True)
        return _standard(X[:, :3]), _standard(X[:, 3:])[:, 0]
    X, y = getattr(datasets, f"load_{name.split('-')[0]}")(return_X_y=True)
    if name == "breast_cancer":
        return _standard(X), np.where(y == 1, 1.0, -1.0)
    if name == "digits-even":
        return _standard(X), np.where(y % 2 == 0, 1.0, -1.0)
    if name == "wine-first":  # the first cultivar against the others
        return _standard(X), np.where(y == 0, 1.0, -1.0)
    if name == "wine-alcohol":  # alcohol from the twelve other measurements
        return _standard(X[:, 1:]), _standard(X[:, :1])[:, 0]
    return _standard(X), _standard(y[:, None])[:, 0]


def _standard(X: Any) -> Any:
    X = np.asarray(X, float)
    spread = X.std(axis=0)
    return (X - X.mean(axis=0))[:, spread > 0] / spread[spread > 0]


NETWORKS: dict[str, Callable[[int, int], npga.Network]] = {
    "complete": lambda n, seed: npga.Network.complete(n),  # noqa: ARG005
    "ring": lambda n, seed: npga.Network.ring(n),  # noqa: ARG005
    "path": lambda n, seed: npga.Network.path(n),  # noqa: ARG005
    "star": lambda n, seed: npga.Network.star(n),  # noqa: ARG005
    "er": lambda n, seed: npga.Network.erdos_renyi(n, 0.3, seed=seed),
    "ba": lambda n, seed: npga.Network.barabasi_albert(n, 2, seed=seed),
}

# ---------------------------------------------------------------- models


@dataclass(frozen=True)
class Model:
    """A loss h of z = X w, the parts f and g of the penalty for one party, and who knows the answer."""

    h: fn.Function
    f: fn.Function
    g: fn.Function
    solve: Callable[[], Solution]
    unique: bool = True


def ridge(X: Any, y: Any, alpha: float) -> Model:
    """|z - y|^2 / 2N + alpha/2 |w|^2."""
    from sklearn.linear_model import Ridge

    N = len(y)

    def solve() -> Solution:
        w = Ridge(alpha=N * alpha, fit_intercept=False, solver="svd").fit(X, y).coef_
        r = X @ w - y
        return Solution(w, r / N, 0.5 * r @ r / N + 0.5 * alpha * w @ w, "scikit-learn Ridge")

    return Model(fn.SquaredLoss(y, 1.0 / N), fn.SquaredNorm(alpha), fn.Zero(), solve)


def elastic_net(X: Any, y: Any, l1: float, l2: float) -> Model:
    """|z - y|^2 / 2N + l1 |w|_1 + l2/2 |w|^2; the lasso where l2 = 0."""
    from sklearn.linear_model import ElasticNet

    N = len(y)

    def solve() -> Solution:
        model = ElasticNet(alpha=l1 + l2, l1_ratio=l1 / (l1 + l2), fit_intercept=False, tol=1e-14, max_iter=1_000_000)
        w = model.fit(np.asfortranarray(X), y).coef_
        r = X @ w - y
        value = 0.5 * r @ r / N + l1 * np.abs(w).sum() + 0.5 * l2 * w @ w
        return Solution(w, r / N, value, "scikit-learn ElasticNet")

    return Model(fn.SquaredLoss(y, 1.0 / N), fn.SquaredNorm(l2) if l2 else fn.Zero(), fn.L1(l1), solve)


def group_lasso(X: Any, y: Any, weight: float, parties: Any) -> Model:
    """|z - y|^2 / 2N + weight sum_i |w_i|: whole parties drop out."""
    N = len(y)

    def solve() -> Solution:
        import cvxpy as cp

        def pose(w: Any, z: Any) -> Any:
            return cp.sum_squares(z - y) / (2 * N) + weight * sum(cp.norm(w[part]) for part in parties), []

        return polished(by_clarabel(X, pose))

    def polished(answer: Solution) -> Solution:
        """Cones leave five digits here; SciPy's root finds the rest of them for the parties that did not drop out."""
        kept = np.concatenate([part for part in parties if np.linalg.norm(answer.x[part]) > 1e-6])
        owner = [np.isin(kept, part) for part in parties]

        def slope(w: Any) -> Any:
            force = X[:, kept].T @ (X[:, kept] @ w - y) / N
            return force + weight * sum(np.where(mine, w, 0.0) / (np.linalg.norm(w[mine]) or 1.0) for mine in owner)

        w = np.zeros_like(answer.x)
        w[kept] = root(slope, answer.x[kept], tol=1e-14).x
        rest = X @ w - y
        value = 0.5 * rest @ rest / N + weight * sum(np.linalg.norm(w[part]) for part in parties)
        return Solution(w, rest / N, value, "cvxpy, Clarabel; SciPy root")

    return Model(fn.SquaredLoss(y, 1.0 / N), fn.Zero(), fn.L2(weight), solve)


def non_negative(X: Any, y: Any) -> Model:
    """|z - y|^2 / 2N with w >= 0."""
    N = len(y)

    def solve() -> Solution:
        w, _ = nnls(X, y)
        r = X @ w - y
        return Solution(w, r / N, 0.5 * r @ r / N, "SciPy nnls")

    return Model(fn.SquaredLoss(y, 1.0 / N), fn.Zero(), fn.NonNegative(), solve)


def huber(X: Any, y: Any, delta: float, l1: float, l2: float) -> Model:
    """huber(z - y) / N + l1 |w|_1 + l2/2 |w|^2."""
    N = len(y)

    def solve() -> Solution:
        import cvxpy as cp

        def pose(w: Any, z: Any) -> Any:
            loss = cp.sum(cp.huber(z - y, delta)) / (2 * N)  # cvxpy's huber(r) is r^2 near 0, twice ours
            return loss + l1 * cp.norm1(w) + 0.5 * l2 * cp.sum_squares(w), []

        return by_clarabel(X, pose)

    g = fn.L1(l1) if l1 else fn.Zero()
    return Model(fn.Huber(delta, 1.0 / N, y), fn.SquaredNorm(l2) if l2 else fn.Zero(), g, solve)


def quantile(X: Any, y: Any, tau: float, l1: float) -> Model:
    """Pinball loss of y - z over N, plus l1 |w|_1 (none where l1 = 0)."""
    N, d = X.shape

    def solve() -> Solution:
        # X (a - b) + u - v = y with a, b, u, v >= 0; marginals are derivatives by y, so lam is minus them.
        cost = np.concatenate([np.full(2 * d, l1), np.full(N, tau / N), np.full(N, (1.0 - tau) / N)])
        found = linprog(cost, A_eq=np.hstack([X, -X, np.eye(N), -np.eye(N)]), b_eq=y, method="highs")
        w = found.x[:d] - found.x[d : 2 * d]
        return Solution(w, -found.eqlin.marginals, found.fun, "SciPy HiGHS")

    return Model(fn.Quantile(y, tau, 1.0 / N), fn.Zero(), fn.L1(l1) if l1 else fn.Zero(), solve, unique=False)


def hinge(X: Any, y: Any, l2: float) -> Model:
    """Support vector machine: sum max(0, 1 - y z) / N + l2/2 |w|^2."""
    N = len(y)

    def solve() -> Solution:
        import cvxpy as cp

        return by_clarabel(
            X, lambda w, z: (cp.sum(cp.pos(1 - cp.multiply(y, z))) / N + 0.5 * l2 * cp.sum_squares(w), [])
        )

    return Model(fn.Hinge(y, 1.0 / N), fn.SquaredNorm(l2), fn.Zero(), solve)


def logistic(X: Any, y: Any, l2: float) -> Model:
    """sum ln(1 + exp(-y z)) / N + l2/2 |w|^2."""
    from sklearn.linear_model import LogisticRegression

    N = len(y)

    def solve() -> Solution:
        model = LogisticRegression(C=1.0 / (N * l2), fit_intercept=False, solver="newton-cholesky", tol=1e-14)
        w = model.fit(X, y).coef_[0]
        z = X @ w
        value = np.logaddexp(0.0, -y * z).mean() + 0.5 * l2 * w @ w
        return Solution(w, -y * expit(-y * z) / N, value, "scikit-learn LogisticRegression")

    return Model(fn.Logistic(y, 1.0 / N), fn.SquaredNorm(l2), fn.Zero(), solve)


def sparse_logistic(X: Any, y: Any, l1: float) -> Model:
    """sum ln(1 + exp(-y z)) / N + l1 |w|_1."""
    N = len(y)

    def solve() -> Solution:
        import cvxpy as cp

        return by_clarabel(X, lambda w, z: (cp.sum(cp.logistic(-cp.multiply(y, z))) / N + l1 * cp.norm1(w), []))

    return Model(fn.Logistic(y, 1.0 / N), fn.Zero(), fn.L1(l1), solve)


# ---------------------------------------------------------------- cases


def vertical(model: Callable[..., Model], data: str, parties: int, graph: str, seed: int, **penalty: Any) -> Instance:
    """Columns split evenly, in their order, among the parties."""
    X, y = table(data)
    parts = np.array_split(np.arange(X.shape[1]), parties)
    if model is group_lasso:
        penalty["parties"] = parts
    chosen = model(X, y, **penalty)
    agents = [npga.Agent(X[:, part], chosen.f, chosen.g) for part in parts]
    return Instance(npga.Problem(agents, chosen.h), NETWORKS[graph](parties, seed), chosen.solve, chosen.unique)


def _case(model: Callable[..., Model], data: str, parties: int, graph: str, **penalty: Any) -> Case:
    name = f"{penalty.pop('name', model.__name__.replace('_', '-'))}-{data.replace('_', '-')}-{graph}{parties}"
    made = partial(vertical, model, data, parties, graph, **penalty)
    synthetic = data.endswith("5000")
    source = f"scikit-learn {'synthetic, 5,000 rows' if synthetic else data.split('-')[0].replace('_', ' ')}"
    return Case(name, source, lambda seed: made(seed=seed), drawn=graph in ("er", "ba"), large=synthetic)


LEARNING = [
    _case(ridge, "diabetes", 3, "complete", alpha=0.01),
    _case(ridge, "diabetes", 10, "ring", alpha=0.01),
    _case(ridge, "wine-alcohol", 12, "er", alpha=0.1),
    _case(ridge, "linnerud", 3, "path", alpha=0.1),
    _case(ridge, "iris-petal", 3, "complete", alpha=0.01),
    _case(ridge, "digits", 13, "ba", alpha=0.1),
    _case(ridge, "rows-5000", 10, "er", alpha=0.01),
    _case(elastic_net, "diabetes", 5, "complete", name="lasso", l1=0.02, l2=0.0),
    _case(elastic_net, "breast_cancer", 10, "ring", name="lasso", l1=0.02, l2=0.0),
    _case(elastic_net, "digits", 8, "star", name="lasso", l1=0.01, l2=0.0),
    _case(elastic_net, "diabetes", 5, "complete", l1=0.05, l2=0.05),
    _case(elastic_net, "wine-alcohol", 12, "er", l1=0.05, l2=0.05),
    _case(elastic_net, "rows-5000", 8, "ba", l1=0.01, l2=0.01),
    _case(group_lasso, "diabetes", 5, "ring", weight=0.05),
    _case(group_lasso, "breast_cancer", 6, "path", weight=0.05),
    _case(non_negative, "wine-alcohol", 6, "complete"),
    _case(huber, "diabetes", 5, "complete", delta=0.5, l1=0.0, l2=0.01),
    _case(huber, "diabetes", 10, "er", delta=0.5, l1=0.02, l2=0.0),
    _case(huber, "wine-alcohol", 4, "star", delta=0.3, l1=0.0, l2=0.1),
    _case(quantile, "diabetes", 10, "er", tau=0.5, l1=0.01),
    _case(quantile, "diabetes", 5, "complete", name="quantile-bare", tau=0.5, l1=0.0),
    _case(quantile, "wine-alcohol", 4, "ring", name="quantile-bare", tau=0.9, l1=0.0),
    _case(quantile, "linnerud", 3, "complete", name="quantile-bare", tau=0.25, l1=0.0),
    _case(hinge, "breast_cancer", 10, "er", l2=0.01),
    _case(hinge, "iris", 4, "path", l2=0.01),
    _case(hinge, "wine-first", 13, "ring", l2=0.05),
    _case(hinge, "digits-even", 8, "complete", l2=0.01),
    _case(logistic, "breast_cancer", 5, "complete", l2=0.01),
    _case(logistic, "iris", 4, "star", l2=0.001),
    _case(logistic, "digits-even", 8, "ring", l2=0.01),
    _case(logistic, "classes-5000", 10, "er", l2=0.001),
    _case(sparse_logistic, "breast_cancer", 6, "ring", l1=0.01),
    _case(sparse_logistic, "wine-first", 13, "er", l1=0.02),
]
