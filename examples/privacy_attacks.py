"""
What a neighbour can work out
=============================

*My neighbours see every message that I send. What can they work out from them?*

Columns, Gram matrices, labels and predictions: four attacks on honest runs of this library, which end with how far each
attacker is from the truth. The joint prediction that an attacker reads off is compared with that of scikit-learn's
ridge regression on the pooled columns.

Each attack is given the messages that its attacker sees and what everybody knows (h, n, the network, the version, the
steps), and nothing else. :doc:`/privacy` says who can run which; ``python examples/privacy_attacks.py`` runs all.
"""

from __future__ import annotations

from typing import Any

import matplotlib.pyplot as plt
import numpy as np
from numpy.typing import NDArray
from sklearn.linear_model import Ridge

import npga
from npga import functions as fn
from npga.solver import local_agents

Array = NDArray[Any]


def messages(problem: npga.Problem, network: npga.Network, version: str, steps: npga.Steps, iterations: int) -> Array:
    """Run the agents; entry [round, i] is the vector that agent i sends to all its neighbours in that round."""
    agents = local_agents(problem, network, npga.version(version), steps)
    runs = [agent.run(iterations) for agent in agents]
    outbox, sent = [next(run) for run in runs], []
    while outbox:
        vectors = [vector for _, vector in outbox]
        sent.append(vectors)
        inboxes = [{j: vectors[j] for j in network.neighbors(i).tolist()} for i in range(problem.n)]
        outbox = []
        for run, inbox in zip(runs, inboxes, strict=True):
            try:
                outbox.append(run.send(inbox))
            except StopIteration:
                continue
    return np.array(sent)


# %%
# **1. A column from the second message: any single neighbour.**


def column_from_the_second_message(second: Array, h: fn.Function, n: int, steps: npga.Steps) -> Array:
    """The only column of a neighbour's A, up to its sign, from the second message of a NIDS run that starts at zero.

    NIDS sends v. With f = (w/2)|x|^2 (or any f whose gradient at 0 is 0) the first v is 0 for all, so
    lam^1 = prox_{(beta/n) h*}(0) is known to all, the neighbour's x is still 0, and its second message is

        v = lam^1 + beta (1 + theta) a x^2,     x^2 = -alpha a^T lam^1.

    So d = lam^1 - v = q a (a^T lam^1) with q = alpha beta (1 + theta), and a = d / sqrt(q <lam^1, d>) up to sign.
    """
    lam = h.conj_prox(np.zeros_like(second), steps.beta / n)
    q = steps.alpha * steps.beta * (1 + steps.theta)
    d = lam - second
    return d / np.sqrt(q * (lam @ d))


# %%
# **2. A_i A_i^T from the run: whoever sees all that i sends and receives.**


def gram_from_the_run(
    victim: int, sent: Array, network: npga.Network, h: fn.Function, steps: npga.Steps
) -> tuple[Array, float]:
    """A_i A_i^T, and the weight w, from all that i sent and received in a NIDS run; f = (w/2)|x|^2, g = 0.

    The attacker repeats i's own arithmetic. For NIDS (C = 0, D = I - B^2)

        u_k = u_{k-1} + gamma (B^2 v_{k-1})_i,   lam_k = prox_{(beta/n) h*}(v_k - (B^2 v_k)_i),

    and v_k = lam_{k-1} - u_k + beta (s_k + theta (s_k - s_{k-1})) gives s_k = A x_k. The gradient step then reads
    (s_k - s_{k+1}) / alpha = w s_k + (A A^T) lam_k, linear in A A^T and w: least squares over the run.
    """
    row = npga.version("nids").matrices(network, beta=steps.beta).B2[[victim]].toarray()[0]
    seen = [victim, *network.neighbors(victim).tolist()]
    zero = np.zeros(sent.shape[2])
    u, mixed, lam, s = zero, zero, zero, zero
    products, duals = [s], [lam]
    for vectors in sent:
        u = u + steps.gamma * mixed
        s = ((vectors[victim] - lam + u) / steps.beta + steps.theta * s) / (1 + steps.theta)
        mixed = row[seen] @ vectors[seen]
        lam = h.conj_prox(vectors[victim] - mixed, steps.beta / network.n)
        products.append(s)
        duals.append(lam)
    S, Lam = np.array(products), np.array(duals)
    Y, S, Lam = (S[:-1] - S[1:]) / steps.alpha, S[:-1], Lam[:-1]
    fit = np.linalg.pinv(Lam)
    rest_Y, rest_S = Y - Lam @ (fit @ Y), S - Lam @ (fit @ S)
    w = float((rest_Y * rest_S).sum() / (rest_S**2).sum())
    return fit @ (Y - w * S), w


# %%
# **3. Labels from lam: every party, in the pose of Experiment II.**


def labels_from_the_dual(lam: Array) -> Array:
    """The labels that only one agent holds, f(x) = (1/p) sum_j ln(1 + exp(-y_j x_j)), read off anybody's lam.

    Its stationarity is lam_j = -(1/p) y_j / (1 + exp(y_j x_j)), so the sign of -lam_j is y_j.
    """
    return np.sign(-lam)


# %%
# **4. The joint prediction: every party, where h is smooth and strictly convex.**


def joint_prediction(lam: Array, h: fn.SquaredLoss) -> Array:
    """sum_i A_i x_i on the rows of the problem, from lam = grad h(sum_i A_i x_i); here for the squared loss."""
    return h.target + lam / h.weight


# %%
# **The settings in which each is shown.**


def experiment_one(seed: int = 0) -> tuple[npga.Problem, npga.Network, npga.Steps]:
    """Ridge regression within a ball as in the paper's Experiment I: thirteen parties, one column each."""
    rng = np.random.default_rng(seed)
    X, y = rng.standard_normal((10, 13)), rng.standard_normal(10)
    agents = [npga.Agent(X[:, [i]], fn.SquaredNorm(1.0)) for i in range(13)]
    problem = npga.Problem(agents, fn.Ball(y, 0.1 * float(np.linalg.norm(y))))
    return problem, npga.Network.erdos_renyi(13, 0.3, seed=seed), npga.Steps(0.5, 0.05, 1.0)


def leaf(seed: int = 0) -> tuple[npga.Problem, npga.Network, npga.Steps]:
    """Four parties in a row, squared loss; party 0 has party 1 as its only neighbour."""
    rng = np.random.default_rng(seed)
    agents = [npga.Agent(rng.standard_normal((6, 3)), fn.SquaredNorm(0.5)) for _ in range(4)]
    problem = npga.Problem(agents, fn.SquaredLoss(rng.standard_normal(6), 1.0))
    return problem, npga.Network.path(4), npga.Steps(0.1, 0.2, 0.9, 0.3)


def classification(seed: int = 0, p: int = 30) -> tuple[npga.Problem, npga.Network, npga.Steps, Array]:
    """Experiment II: four parties hold the features, a fifth the labels."""
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((p, 12))
    labels = np.sign(X @ rng.standard_normal(12) + rng.standard_normal(p))
    agents = [npga.Agent(block, fn.SquaredNorm(0.1)) for block in np.split(X, 4, axis=1)]
    agents.append(npga.Agent(-np.eye(p), fn.Logistic(labels, 1 / p)))
    problem = npga.Problem(agents, fn.Equality(np.zeros(p)))
    return problem, npga.Network.ring(5).lazy(), npga.Steps(1.0, 0.02, 0.5), labels


def solve_duals(problem: npga.Problem, network: npga.Network, steps: npga.Steps, iterations: int) -> Array:
    """lam of every agent after a run."""
    return npga.solve(problem, network, "nids", steps, max_iters=iterations, tol=None).lam


# %%
# **Run all four.** The figure shows two columns of a problem of the form of Experiment I as their owners hold them and
# as a neighbour has them from one message, up to a sign; the dual variable that everybody holds, coloured by labels
# that the other parties were never given; and the joint prediction.


def main() -> None:
    """Run all four, draw what was found, and say how far it is from the truth."""
    _, (left, middle, right) = plt.subplots(1, 3, figsize=(10, 4), layout="constrained")

    problem, network, steps = experiment_one()
    second = messages(problem, network, "nids", steps, 2)[1]
    found = [column_from_the_second_message(second[i], problem.h, 13, steps) for i in range(13)]
    true = [agent.A[:, 0] for agent in problem.agents]
    off = max(min(np.abs(a - b).max() for b in (guess, -guess)) for a, guess in zip(true, found, strict=True))
    print(f"1. columns from the second message: 13 of 13, largest error {off:.1e}")
    for k, colour in enumerate(("#332288", "#CC6677")):
        left.plot(true[k], "o", color=colour, markerfacecolor="none", markersize=8, label=f"column of party {k}")
        left.plot(found[k] * np.sign(found[k] @ true[k]), ".", color=colour)
    left.set(xlabel="row", ylabel="entry of the column", title="a neighbour's guess (dots)")

    problem, network, steps = leaf()
    sent = messages(problem, network, "nids", steps, 60)
    gram, weight = gram_from_the_run(0, sent, network, problem.h, steps)
    error = np.abs(gram - problem.agents[0].A @ problem.agents[0].A.T).max()
    print(f"2. A A^T of a leaf by its neighbour: error {error:.1e}, and its weight {weight:.6f}")

    problem, network, steps, labels = classification()
    lam = solve_duals(problem, network, steps, 3000)
    right_ones = [int((labels_from_the_dual(row) == labels).sum()) for row in lam[:4]]
    print(f"3. labels read by parties that were never given one: {right_ones} of {labels.size}")
    for label, colour in ((1.0, "#117733"), (-1.0, "#882255")):
        rows = np.flatnonzero(labels == label)
        middle.plot(rows, -lam[0, rows], ".", color=colour, label=f"label {label:+.0f}")
    middle.axhline(0.0, color="0.8", linewidth=1, zorder=0)
    middle.set(xlabel="row", ylabel=r"$-\lambda_j$", title=r"$-\lambda$ as party 0 holds it")

    problem, network, steps = leaf()
    guess = joint_prediction(solve_duals(problem, network, steps, 3000)[2], problem.h)
    table = np.hstack([agent.A for agent in problem.agents])
    theirs = Ridge(alpha=0.5, fit_intercept=False).fit(table, problem.h.target).predict(table)
    difference = float(np.abs(guess - theirs).max())
    print(f"4. joint prediction read off by a party; largest difference from scikit-learn's {difference:.1e}")
    right.plot(theirs, "o", color="#332288", markerfacecolor="none", markersize=8, label="scikit-learn, pooled")
    right.plot(guess, ".", color="#332288", label="read off by party 2")
    right.set(xlabel="row", ylabel=r"$\sum_i A_i x_i$", title="the joint prediction")
    for axis in (left, middle, right):
        axis.legend(frameon=False, fontsize=8, loc="upper center", bbox_to_anchor=(0.5, -0.17))
        axis.spines[["top", "right"]].set_visible(False)
    plt.show()
    assert off < 1e-10
    assert error < 1e-10
    assert right_ones == [labels.size] * 4
    assert difference < 1e-9


if __name__ == "__main__":
    main()
