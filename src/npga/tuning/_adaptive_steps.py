"""Steps that a run finds by itself: what is measured over a leg of it, and what follows for the next.

**The steps.** NIDS with K = c (I - W), c = 1/lambda_max(I - W), so B^2 = K, C = 0, D = I - K; gamma and theta fixed;
one number beta, and an alpha for every agent that is tied to it:

    alpha_i = 1 / (L_i + share beta |A_i|^2),        share = (1 + 2 theta) / 4.

**Why every beta is stable, as far as it is proved.** Let h be a point (an equality), so that the prox of h* is a
translation, theta = 1 and alpha_i (L_i/2 + beta |A_i|^2) <= 1, and write errors from a solution without a mark, d for
the change over an iteration, and zeta = z/beta for the consensus multiplier. With lam+ = v+ - K v+ and
zeta+ = zeta + gamma K v+ / beta,

    |lam+|^2/beta - |lam|^2/beta + (beta/gamma) (|zeta+|^2 - |zeta|^2) in the norm of K^+ - I
        = 2 <A x_hat+, lam+> - |dlam|^2/beta - (2 - gamma) <v+, (K - K^2) v+> / beta,
    sum_i (|x_i+|^2 - |x_i|^2)/alpha_i  <=  -2 <A x+, lam> - sum_i (1/alpha_i - L_i/2) |dx_i|^2,

and 2 <A (x+ + dx), lam+> - 2 <A x+, lam> = 2 <A dx, dlam> + 2 <A x+, lam+> - 2 <A x, lam>. So

    V = sum_i |x_i|^2/alpha_i - 2 <A x, lam> + |lam|^2/beta + (beta/gamma) |zeta|^2_{K^+ - I}

never grows, for every beta > 0 and every 0 < gamma <= 2, because K <= I. The share of 1 that this asks for may be
lowered to (1 + 2 theta)/4 for 1/2 < theta <= 1 where there is no network and f = 0 (Banert, Upadhyaya and Giselsson
2023, whose title states this). With another h, or with theta = 0.6 and that share on a network, stability is measured
and not proved: over the problems of benchmarks/suite the squared residual r^2 below never grew more than sixfold within
a leg. A run that grows a thousandfold is taken back (see `npga.tuning._adaptive_run`).

**Beta.** Over a leg let a = sum_i |dlam_i|^2 and b = share sum_i |A_i|^2 |dx_i|^2 + |dzeta|^2_{K^+} / gamma, d now
being the end minus the start. The bound sum dx^2/alpha + |dlam|^2/beta + (beta/gamma) |dzeta|^2_{K^+} on that
displacement is smallest at beta = sqrt(a/b). Where beta is too small lam drifts and a/b is large; where it is too large
x and zeta lag. dzeta = (gamma/beta) K S with S the sum of v over the leg, for which the samples below stand.

**Extrapolation.** A leg keeps a few samples s_j = (x, lam, z), spread over it, and how far the iteration that led to
each had moved, r_j. The combination sum_j c_j s_j with sum_j c_j = 1 and the least

    r^2 = sum_i |dx_i|^2/alpha_i + |dlam|^2/beta + gamma <v, K v>/beta

is where an iteration that is linear comes nearest to rest (Anderson's method; the average of the samples, which linear
programs need, is one of the combinations). One iteration from there is tried; the run goes on from it if its r^2 is at
most 0.8 of that of the leg's last iteration, so a bad guess costs one iteration, and where the iteration does not
expand distances good ones cannot go on for ever without r^2 going to zero.

**Apart.** Everything that decides is a sum over agents (`LegSums`, which can be added), so agents that only know their
own block reach the same decisions from agreed sums.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from npga.networks import MatrixVersion, Network, Version
from npga.networks import version as find_version
from npga.problem import Problem
from npga.steps import Steps

Array = NDArray[Any]

GAMMA, THETA = 1.9, 0.6
SHARE = (1.0 + 2.0 * THETA) / 4.0
# Legs: length of the first, growth, samples in each; in the first ones beta may move far.
_FIRST, _GROWTH, _SAMPLES, _EARLY = 12, 1.2, 10, 3
# How far beta may move after a leg, early and later; what is nearer than a factor of e is left alone.
_FAR, _NEAR, _LEAVE = 1e3, 10.0, 1.0
# Beta never leaves its first value by more than this: an infeasible problem makes lam drift for ever.
FARTHEST = 1e9
# A leg is taken back when r^2 has grown by this; so often at most in one run, each time with alpha divided by this.
ALARM, RETREATS, SMALLER = 1e3, 8, 10.0
# An extrapolation is taken if it leaves this part of r^2; its equations are damped by this part of their trace.
_TAKEN, _DAMPING = 0.8, 1e-12


# ------------------------------------------------------------------ steps


def tied_version(network: Network, version: Version | None = None) -> Version | None:
    """The version to run where beta alone shall be left to choose, or None where more is.

    It must have B^2 = K, C = 0 and D = I - K with 0 <= K = c (I - W) <= I, and prescribe no step. NIDS does, for which
    c becomes the largest such number, and exact diffusion, which has c = 1/2.
    """
    chosen = find_version("nids") if version is None else version
    if chosen.fixed or chosen.times_beta or chosen.basis != "W" or isinstance(chosen, MatrixVersion):
        return None
    b, c, d = chosen.kernel_polynomials(1.0)
    if any(c) or b != (0.0, b[-1]) or d != (1.0, -b[-1]):
        return None
    largest = 1.0 - network.extreme_eigenvalues()[0]
    if chosen.tunes_c:
        return find_version(chosen.name, c=1.0 / largest) if largest > 0.0 else chosen
    return chosen if b[-1] * largest <= 1.0 else None


def tied_alpha(curvature: Array, norms: Array, beta: float, caution: float = 1.0) -> Array:
    """alpha_i = 1 / (caution (L_i + share beta |A_i|^2)); 1 for an agent that has neither."""
    bound = caution * (curvature + SHARE * beta * norms**2)
    return np.divide(1.0, bound, out=np.ones_like(bound), where=bound > 0.0)


def tied_steps(problem: Problem, beta: float) -> Steps:
    """The steps of an automatic run at a given beta: one number decides all of them.

    Parameters
    ----------
    problem
        What is solved.
    beta
        Dual step.

    Returns
    -------
    Steps
        alpha_i = 1 / (L_i + 0.55 beta |A_i|^2) for every agent i, gamma = 1.9, theta = 0.6; for NIDS with
        c = 1/lambda_max(I - W).
    """
    alpha = tied_alpha(declared_curvature(problem), problem.A.norms, beta)
    return Steps(tuple(alpha.tolist()), beta, GAMMA, THETA)


def declared_curvature(problem: Problem) -> Array:
    """The L_i that the f_i state; where one does not know, a slope near zero, to be mended on the way."""
    found = np.array([agent.f.L if agent.A.shape[1] else 0.0 for agent in problem.agents])
    for i in np.flatnonzero(~np.isfinite(found)):
        f, size = problem.agents[i].f, int(problem.sizes[i])
        move = np.ones(size, problem.dtype) / math.sqrt(size)
        slope = float(np.linalg.norm(f.grad(move) - f.grad(np.zeros(size, problem.dtype))))
        found[i] = slope if math.isfinite(slope) else 1.0
    return found


class FirstFacts(NamedTuple):
    """What the first beta depends on: sums, maxima, and what everybody knows."""

    n: int
    p: int
    coupling_curvature: float
    condition: float
    largest_norm: float
    conductance: float


def first_facts(problem: Problem, network: Network, curvature: Array) -> FirstFacts:
    """The facts, gathered in one place; the conductance is sum_i |A_i|_F^2 / L_i."""
    lowest, second = network.extreme_eigenvalues()
    condition = (1.0 - lowest) / (1.0 - second) if second < 1.0 else 1.0
    curved = curvature > 0.0
    frobenius = np.array([_squared_norm(*pair) for pair in zip(problem.A.blocks, problem.A.norms, strict=True)])
    conductance = float((frobenius[curved] / curvature[curved]).sum())
    largest = float(problem.A.norms.max(initial=0.0))
    return FirstFacts(problem.n, problem.p, float(problem.h.L), condition, largest, conductance)


def _squared_norm(block: Any, norm: float) -> float:
    """|A_i|_F^2; its upper bound for a block that is only known by its products."""
    if not isinstance(block, np.ndarray) and not sparse.issparse(block):
        return float(min(block.shape) * norm**2)
    values = block if isinstance(block, np.ndarray) else block.data
    return float(np.square(values, dtype=np.float64).sum())


def first_beta(facts: FirstFacts) -> float:
    """Beta to begin with: from the curvature of h, else from that of the dual function, else from A alone.

    The dual function has the curvature sum_i A_i A_i^T / L_i, about conductance / (n p) for an agent and a row. To be
    wrong by a factor of 1e4 either way costs a third more iterations or so.
    """
    if 0.0 < facts.coupling_curvature < math.inf:
        return 0.15 * facts.n * facts.coupling_curvature
    if facts.conductance > 0.0:
        return 2.0 * math.sqrt(GAMMA / facts.condition) * facts.n * facts.p / facts.conductance
    return 1.0 / facts.largest_norm**2 if facts.largest_norm > 0.0 else 1.0


# ------------------------------------------------------------------ legs


def leg_marks(number: int) -> Array:
    """Iterations of a leg after which samples are taken, counted from its start; the last is its end."""
    length = int(_FIRST * _GROWTH**number)
    return np.unique(np.ceil(np.arange(1, _SAMPLES + 1) * length / _SAMPLES).astype(int))


class LegSample(NamedTuple):
    """One sample of a leg: where an iteration led, and how far. Rows belong to agents.

    Parameters
    ----------
    x, lam, z
        After the iteration.
    dx, dlam
        What it changed.
    v, Kv
        Its v, of which only differences between agents matter, and the product with K.
    """

    x: Array
    lam: Array
    z: Array
    dx: Array
    dlam: Array
    v: Array
    Kv: Array


LEG_FIELDS = len(LegSample._fields)


class LegSums(NamedTuple):
    """What decides after a leg, summed over some agents; the sums of all agents are those of their parts.

    Parameters
    ----------
    dual, primal
        a and b.
    gram
        The products <r_j, r_k> of the samples' moves, in the norm of r^2.
    """

    dual: float
    primal: float
    gram: Array

    def plus(self, other: LegSums) -> LegSums:
        """The sums over the agents of both."""
        return LegSums(self.dual + other.dual, self.primal + other.primal, self.gram + other.gram)


def leg_sums(
    start: Sequence[Array], samples: Sequence[LegSample], marks: Array, alpha: Array, norms: Array, beta: float
) -> LegSums:
    """The sums of one agent, or of all of them.

    Parameters
    ----------
    start
        x and lam where the leg began.
    samples, marks
        Its samples and when they were taken.
    alpha, norms
        alpha_i and |A_i| for each coordinate of x.
    beta
        The leg's beta.
    """
    last = samples[-1]
    weights = np.diff(marks, prepend=0)
    S, KS = (np.tensordot(weights, [getattr(s, name) for s in samples], 1) for name in ("v", "Kv"))
    moved = norms * (last.x - start[0])
    dual = _dot(last.lam - start[1], last.lam - start[1])
    primal = SHARE * _dot(moved, moved) + GAMMA / beta**2 * _dot(S, KS)
    return LegSums(dual, primal, move_products(samples, alpha, beta))


def move_products(samples: Sequence[LegSample], alpha: Array, beta: float) -> Array:
    """All <r_j, r_k> of some samples; of a single one, its r^2."""
    dx, dlam, v, Kv = (
        np.array([getattr(sample, name).ravel() for sample in samples], np.float64)
        for name in ("dx", "dlam", "v", "Kv")
    )
    mixed = v @ Kv.T
    return np.asarray((dx / alpha) @ dx.T + (dlam @ dlam.T + 0.5 * GAMMA * (mixed + mixed.T)) / beta)


def _dot(one: Array, two: Array) -> float:
    return float(np.vdot(one.astype(np.float64, copy=False), two.astype(np.float64, copy=False)))


# ------------------------------------------------------------------ decisions


def next_beta(sums: LegSums, beta: float, leg: int, first: float) -> float:
    """Beta for the next leg."""
    bound = _FAR if leg < _EARLY else _NEAR
    if sums.dual > 0.0 and sums.primal > 0.0:
        ratio = math.sqrt(sums.dual / sums.primal) / beta
    else:
        ratio = bound if sums.dual > 0.0 else 1.0 / bound if sums.primal > 0.0 else 1.0
    ratio = min(max(ratio, 1.0 / bound), bound)
    if abs(math.log(ratio)) <= _LEAVE:
        return beta
    moved = beta * (ratio if leg < _EARLY else math.sqrt(ratio))
    return min(max(moved, first / FARTHEST), first * FARTHEST)


def combination(gram: Array) -> Array | None:
    """The c with sum 1 that minimise |sum_j c_j r_j|; None where nothing moves or there is one sample."""
    size, trace = len(gram), float(np.trace(gram))
    if size < 2 or not 0.0 < trace < math.inf:
        return None
    found = np.linalg.lstsq(gram / trace + _DAMPING * np.eye(size), np.ones(size), rcond=None)[0]
    total = float(found.sum())
    return found / total if total > 0.0 and np.isfinite(found).all() else None


def is_better(tried: float, last: float) -> bool:
    """Whether an extrapolation is taken: r^2 of one iteration from it, against that of the leg's last iteration."""
    return tried <= _TAKEN * last
