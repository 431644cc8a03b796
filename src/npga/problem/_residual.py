"""The residual of the optimality conditions of P1: by how much one more step would change anything.

A pair (x, lam) with lam in R^p solves the saddle-point problem if and only if

    0 in grad f(x) + A^T lam + dg(x),        (stationarity)
    lam in dh(z),   z = sum_i A_i x_i,       (coupling)

that is, if and only if a proximal step leaves every agent's block and every row of the coupling where it is:

    x_i+ = prox_{s_i g_i}(x_i - s_i (grad f_i(x_i) + A_i^T lam)),        z+ = prox_{t h}(z + t lam).

The residual is the largest relative move, of any agent and of any row k,

    |x_i+ - x_i| / max(|x_i|, |x_i+|, c s_i |grad f_i|, c s_i K_i, e sqrt(s_i E)),      K_i^2 = sum_k |a_ik|^2 lam_k^2,
    |z_k+ - z_k| / max(max_i |(A_i x_i)_k|, |z_k+|, e sqrt(t_k E), c t_k |lam_k| unless h is an indicator there),

a_ik being row k of A_i. So ``tol = 1e-8`` says: *a natural step would move no agent and no coupling row by more than
1e-8 of its own size.* Rows that h does not treat one by one (a ball) are measured together.

The natural steps have the units of x^2/cost and z^2/cost. An agent is curved where L_i > 0, with s_i = 1/L_i, or where
h is smooth, with s_i = 1/(l_h |A_i|^2). For one that is flat, with forces F_i = max(|grad f_i|, |A_i^T lam|, K_i),

    s_i = E_0 / F_i^2,      E_0 = max(|x_i|^2 / s_i over curved agents, |x_i| F_i over flat ones),

or 1 where that is 0 or no number; and t_k = max_i |a_ik|^2 s_i. Hence units do not matter: those of the cost, of a row
of the coupling, of one agent's variables.

What may vanish at a solution must not be all that one divides by. An agent's size counts at least c = 1e-2 of the
displacement that the single forces on it would cause, because a sum of large forces cannot be resolved better; and at
least e = 1e-6 of what the largest energy E would displace: E_0, or in a run that of its first step if that is more, so
that a solution at the origin is recognised. For an indicator h the multiplier does not count: where a constraint cannot
be met lam grows for ever and must not hide it.

The step 1/L_i is short where f_i is flat in some direction: with k_i = L_i / mu_i, the best answer to lam may be 2 k_i
moves away and not more ((x_i - x_i+)/s_i + grad f_i(x_i+) - grad f_i(x_i), a subgradient at x_i+, is at most 2 L_i
|x_i+ - x_i|). So the moves of an agent with mu_i > 0 count max(1, k_i / 1000) times.

**Pieces.** "Agent" above means a piece that is measured by itself: an agent as a whole, or, where f_i and g_i are sums
over coordinates and columns of A_i or curvatures of f_i differ by more than a thousand, so that a large unit would hide
a small one, each coordinate with its own column, and its own L_j where f_i is quadratic. Where they are no such sums,
the variables of such an agent should be rescaled.

In rows where h is smooth, grad h(z) is a multiplier as good as lam, and the better of the two is taken: a lam that is
wrong only where it does not act on x does not matter.
"""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from npga.functions import Function, SeparableSum
from npga.problem._blocks import column_squares, dense_block

if TYPE_CHECKING:
    from npga.problem._problem import Agent, Problem

Array = NDArray[Any]

# c, e and the k_i that does not matter above.
FORCES, LEAST, _ROUND = 1e-2, 1e-6, 1e3
# Up to this many entries [A_1, ..., A_n] is written out for its singular values.
_ENTRIES = 1 << 22
# Singular values below this part of the largest count as zero.
_RANK = 1e-9


class Residual(NamedTuple):
    """The residual and what goes with it.

    Parameters
    ----------
    kkt
        The largest relative move.
    stationarity, coupling
        The largest of an agent's piece, and of a row.
    overall
        The root mean square of all relative moves, weighted by their energies: a measure of progress, where the largest
        move is 1 until the last agent has left its start.
    energy
        What a run may remember of its first step.
    lam
        The multiplier at which all this was found: that which was given, or grad h(z).
    agents
        The relative move of each agent, or the largest of its pieces; the largest is `stationarity`.
    """

    kkt: float
    stationarity: float
    coupling: float
    overall: float
    energy: float
    lam: Array
    agents: Array


def residual(problem: Problem, x: Array, Ax: Array, lam: Array, energy: float = 0.0) -> Residual:
    """Residual of the optimality conditions at (x, lam).

    Parameters
    ----------
    problem, x, Ax, lam
        With concatenated x, the n x p array of rows A_i x_i, and one dual vector of length p.
    energy
        Least energy to measure against; a run passes that of its first step.
    """
    found = _at(problem, x, Ax, lam, energy)
    if not problem.units.smooth:
        return found
    slopes, z = np.array(lam), Ax.sum(axis=0)
    for part, rows in problem.units.smooth:
        slopes[rows] = part.grad(z[rows])
    other = _at(problem, x, Ax, slopes, energy)
    return other if other.kkt < found.kkt else found


def _at(problem: Problem, x: Array, Ax: Array, lam: Array, energy: float) -> Residual:
    units = problem.units
    gradient = problem.f.grad(x)
    pull = problem.A.adjoint(np.broadcast_to(lam, Ax.shape))
    if not np.isfinite(gradient.sum() + pull.sum() + Ax.sum()):
        return Residual(np.nan, np.nan, np.nan, np.nan, 0.0, lam, np.full(problem.n, np.nan))
    size, slope, pulled = (units.of_pieces(values) for values in (x, gradient, pull))
    terms = units.terms(lam)
    steps, present = units.steps(size, np.maximum(np.maximum(slope, pulled), terms))
    along = steps[units.owner].astype(x.dtype)
    ahead = x - along * (gradient + pull)
    if not problem.g.is_zero:
        ahead = problem.g.prox(ahead, along)
    moved, reached = units.of_pieces(x - ahead), units.of_pieces(ahead)
    least = max(present, energy)
    scale = np.maximum.reduce(
        [size, reached, FORCES * steps * slope, FORCES * steps * terms, LEAST * np.sqrt(least * steps)]
    )
    row_steps = units.row_steps(steps)
    row_moved, row_scale = _row_moves(problem, Ax, lam, row_steps, least)
    agents = np.maximum.reduceat(_ratios(units.counts * moved, scale), units.first_pieces)
    stationarity = float(agents.max(initial=0.0))
    coupling = float(_ratios(row_moved, row_scale).max(initial=0.0))
    energies = [np.sum(np.square(m) / s) for m, s in ((moved, steps), (row_moved, row_steps))]
    scales = [np.sum(np.square(m) / s) for m, s in ((scale, steps), (row_scale, row_steps))]
    overall = float(np.sqrt(sum(energies) / sum(scales))) if sum(energies) != 0.0 else 0.0
    first = max(present, float((np.square(moved) / steps)[units.is_curved].max(initial=0.0)))
    return Residual(float(np.maximum(stationarity, coupling)), stationarity, coupling, overall, first, lam, agents)


def _row_moves(problem: Problem, Ax: Array, lam: Array, steps: Array, energy: float) -> tuple[Array, Array]:
    """How far rows, or rows that belong together, move in a step of h, and what that is relative to."""
    units, z = problem.units, Ax.sum(axis=0)
    along = np.repeat(steps, np.diff(units.bounds))
    near = problem.h.prox(z + along.astype(z.dtype) * lam, along.astype(z.dtype))
    scale = np.maximum.reduce(
        [
            np.max([units.of_rows(row) for row in Ax], axis=0) if units.is_grouped else np.abs(Ax).max(axis=0),
            units.of_rows(near),
            LEAST * np.sqrt(energy * steps),
            np.where(units.is_hard, 0.0, FORCES * steps * units.of_rows(lam)),
        ]
    )
    return units.of_rows(z - near), scale


class Units:
    """What a problem's residual is measured in; found once for each problem.

    Attributes
    ----------
    offsets, first_pieces : ndarray
        Coordinates offsets[q] to offsets[q + 1] are piece q; the first piece of each agent.
    curvature : ndarray
        Cost / x^2 of each piece: L_i, or l_h |A_i|^2 where f_i is flat, or 0 where h is not smooth either.
    counts : ndarray
        How often the moves of each piece count: max(1, L_i/mu_i / 1000) where f_i is strongly convex, else once.
    owner : ndarray of shape (d,)
        The piece of each coordinate.
    bounds : ndarray
        Rows bounds[b] to bounds[b + 1] are measured together: one row each where h treats rows one by one.
    is_hard : ndarray of bool
        Whether h is an indicator on these rows.
    step_range : tuple of float
        Least and largest step: beyond them squares are no numbers.
    smooth : list
        The parts of h that have a gradient, and their rows.
    """

    def __init__(self, problem: Problem) -> None:
        self._problem = problem
        pieces = [
            _pieces(agent, problem.h.L, norm) for agent, norm in zip(problem.agents, problem.A.norms, strict=True)
        ]
        counts = np.array([len(own[0]) for own in pieces], np.int64)
        sizes, self.curvature, self.counts = (np.concatenate(values) for values in zip(*pieces, strict=True))
        self.first_pieces = np.cumsum(counts) - counts
        self.offsets = np.concatenate([[0], np.cumsum(sizes)])
        self.is_curved, self._owns = self.curvature > 0.0, sizes > 0
        self.owner = np.repeat(np.arange(len(sizes)), sizes)
        limits = np.finfo(problem.dtype)
        self.step_range = float(np.sqrt(limits.tiny)), float(np.sqrt(limits.max))
        parts = _parts(problem.h, problem.p)
        self.smooth = [(part, rows) for part, rows in parts if part.has_grad and np.isfinite(part.L)]
        self.bounds, self.is_hard = _row_blocks(problem.h, problem.p)
        self.is_grouped = len(self.is_hard) < problem.p

    @cached_property
    def squares(self) -> Array:
        """|a_ik|^2, the squared rows of the pieces."""
        A = self._problem.A
        if len(self.curvature) == A.n:
            return A.row_squares
        counts = np.diff(self.first_pieces, append=len(self.curvature))
        own = zip(counts, A.row_squares, A.blocks, strict=True)
        found = [row if count == 1 else np.square(dense_block(block)).T for count, row, block in own]
        return np.ascontiguousarray(np.vstack(found))

    def terms(self, lam: Array) -> Array:
        """K_i, the size of the single terms of A_i^T lam."""
        return np.asarray(np.sqrt(self.squares @ np.square(lam, dtype=np.float64)))

    def of_pieces(self, values: Array) -> Array:
        """Norms of the pieces."""
        return np.sqrt(np.bincount(self.owner, np.square(values, dtype=np.float64), len(self.curvature)))

    def of_rows(self, values: Array) -> Array:
        """Norms of the rows that belong together."""
        if not self.is_grouped:
            return np.abs(values)
        return np.sqrt(np.add.reduceat(np.square(values, dtype=np.float64), self.bounds[:-1]))

    def steps(self, size: Array, force: Array) -> tuple[Array, float]:
        """s_i for each piece, and the largest energy |x_i|^2 / s_i, from the sizes of blocks and of forces."""
        curved = self.is_curved
        present = float(np.where(curved, self.curvature * np.square(size), size * force).max(initial=0.0))
        with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
            flat = np.where((force > 0.0) & (present > 0.0), present / np.square(force), 1.0)
            return np.clip(np.where(curved, 1.0 / self.curvature, flat), *self.step_range), present

    def row_steps(self, steps: Array) -> Array:
        """t for the rows that belong together: the largest |a_ik|^2 s_i among them, 1 where they are empty."""
        largest = (self.squares * np.where(self._owns, steps, 0.0)[:, None]).max(axis=0)
        if self.is_grouped:
            largest = np.maximum.reduceat(largest, self.bounds[:-1])
        return np.clip(np.where(largest > 0.0, largest, 1.0), *self.step_range)


def _pieces(agent: Agent, l_h: float, norm: float) -> tuple[Array, Array, Array]:
    """Sizes, curvatures and counts: of the agent as a whole, or of its coordinates where they differ too much."""
    (p, d), f, g, counts = agent.A.shape, agent.f, agent.g, _move_counts(agent.f)
    whole = np.array([d]), np.array([natural_curvature(f.L, l_h, norm) if d else 0.0]), np.array([counts])
    if d < 2 or p * d > _ENTRIES or not ((f.is_separable or f.is_zero) and (g.is_separable or g.is_zero)):
        return whole
    lengths, slopes = np.sqrt(column_squares(agent.A)), np.full(d, f.L)
    if f.is_quadratic and f.has_hess:
        found = f.hess(np.zeros(d, agent.A.dtype))
        slopes, counts = found if found.ndim == 1 else np.diag(found), 1.0
    if max(_spread(lengths), _spread(slopes)) <= _ROUND:
        return whole
    curvature = [natural_curvature(float(L), l_h, float(length)) for L, length in zip(slopes, lengths, strict=True)]
    return np.ones(d, np.int64), np.array(curvature), np.full(d, counts)


def _spread(values: Array) -> float:
    """The largest over the least of those that are not 0."""
    positive = values[(values > 0.0) & np.isfinite(values)]
    return float(positive.max() / positive.min()) if positive.size else 1.0


def _parts(h: Function, p: int) -> list[tuple[Function, slice]]:
    """The parts of h, and their rows."""
    if not isinstance(h, SeparableSum):
        return [(h, slice(0, p))]
    ends = np.cumsum(h.sizes).tolist()
    return [(part, slice(end - size, end)) for part, size, end in zip(h.parts, h.sizes, ends, strict=True)]


def _row_blocks(h: Function, p: int) -> tuple[Array, Array]:
    """Where blocks of rows begin and end that h does not take apart, and whether h is an indicator on each."""
    lengths: list[int] = []
    hard: list[bool] = []
    for part, rows in _parts(h, p):
        size = rows.stop - rows.start
        own = [1] * size if part.is_separable or part.is_zero else [size]
        lengths += own
        hard += [part.is_indicator] * len(own)
    return np.concatenate([[0], np.cumsum(lengths)]), np.array(hard)


def _move_counts(f: Function) -> float:
    """max(1, L/mu / 1000) where f is strongly convex, else 1."""
    return max(1.0, f.L / f.mu / _ROUND) if f.mu > 0.0 and 0.0 < f.L < np.inf else 1.0


def natural_curvature(l_f: float, l_h: float, sigma: float) -> float:
    """A unit of cost / x^2: l_f, or l_h sigma^2 where f has no curvature, or 0 where neither has a finite one."""
    for value in (l_f, l_h * sigma**2 if sigma else 0.0):
        if 0.0 < value < np.inf:
            return value
    return 0.0


def _ratios(moved: Array, scale: Array) -> Array:
    """The quotients; 0/0 is 0, and what is not a number stays one."""
    with np.errstate(invalid="ignore", divide="ignore"):
        return np.where(moved == 0.0, 0.0, moved / scale)


# ------------------------------------------------------------------ what a point tells of the solution


def error_bound(problem: Problem, x: Array, lam: Array) -> float:
    """A number that |x - x*| does not exceed, up to rounding; infinity where none is known.

    Let the costs f_i + g_i be strongly convex with moduli mu_i > 0, and e = x - x*.

    **h smooth.** With F = f + h o A and x+ = prox_{s g}(x - s grad F(x)) for any s > 0 (s_i for agent i), the vector
    v = (x - x+)/s + grad F(x+) - grad F(x) is a subgradient of F + g at x+, so that strong convexity gives

        sum_i mu_i |x_i+ - x_i*|^2 <= sum_i |v_i|^2 / mu_i,      |e| <= |x - x+| + sqrt(sum_i |v_i|^2 / mu_i / min mu).

    **h an equality, g = 0.** With r = grad f(x) + A^T lam, q = A x - b and sigma the least positive singular value of
    [A_1, ..., A_n], monotonicity gives mu |e|^2 <= |r| |e| + |lam - lam*| |q|, where lam* may be taken such that
    sigma |lam - lam*| <= |r| + l |e|. Hence |e| is at most the positive root of

        mu e^2 - (|r| + l |q|/sigma) e - |r| |q|/sigma = 0.
    """
    moduli = np.array([a.f.mu + a.g.mu for a, size in zip(problem.agents, problem.sizes, strict=True) if size])
    if not moduli.size:
        return 0.0
    if not moduli.min() > 0.0:
        return np.inf
    x, lam = np.asarray(x, np.float64), np.asarray(lam, np.float64)
    if problem.h.has_grad and np.isfinite(problem.h.L):
        return _smooth(problem, x, moduli)
    if problem.h.is_point and problem.g.is_zero and np.isfinite(problem.l):
        return _equality(problem, x, lam, float(moduli.min()))
    return np.inf


def _smooth(problem: Problem, x: Array, moduli: Array) -> float:
    # Any steps will do; a bound is not far off with those of a gradient method on F.
    curvature = np.array([a.f.L for a in problem.agents]) + problem.h.L * np.square(problem.A.norms).sum()
    steps = np.repeat(1.0 / np.where((curvature > 0.0) & np.isfinite(curvature), curvature, 1.0), problem.sizes)
    slope = _whole_gradient(problem, x)
    ahead = problem.g.prox(x - steps * slope, steps)
    v = (x - ahead) / steps + _whole_gradient(problem, ahead) - slope
    weights = np.repeat(moduli, problem.sizes[problem.sizes > 0])
    return float(np.linalg.norm(x - ahead) + np.sqrt(np.sum(np.square(v) / weights) / moduli.min()))


def _whole_gradient(problem: Problem, x: Array) -> Array:
    z = problem.A.apply(x).sum(axis=0)
    return problem.f.grad(x) + problem.A.adjoint(np.broadcast_to(problem.h.grad(z), (problem.n, problem.p)))


def _equality(problem: Problem, x: Array, lam: Array, mu: float) -> float:
    if problem.p * problem.d > _ENTRIES:
        return np.inf
    A = np.hstack([dense_block(agent.A) for agent in problem.agents])
    values = np.linalg.svd(A, compute_uv=False)
    sigma = float(values[values > 1e-12 * values[0]][-1])
    z = A @ x
    r = float(np.linalg.norm(problem.f.grad(x) + A.T @ lam))
    q = float(np.linalg.norm(z - problem.h.prox(z, 1.0))) / sigma
    b = r + problem.l * q
    return float((b + np.sqrt(b * b + 4.0 * mu * r * q)) / (2.0 * mu))


def duals_are_unique(problem: Problem, x: Array, lam: Array) -> bool | None:
    """Whether no other multiplier goes with x, a solution; None where that is too much work to find out.

    With x* fixed, lam and lam + y both satisfy the optimality conditions for small y where A_i^T y = 0 in all
    coordinates that g_i leaves free (elsewhere its subgradient takes up the change) and y = 0 in all rows where h
    determines lam. So the prices are unique where the rows of [A_1, ..., A_n] in which lam is free, times the
    derivative P of the prox of g, which keeps the free directions, are linearly independent.
    """
    units, h = problem.units, problem.h
    if problem.p * problem.d > _ENTRIES or units.is_grouped or not (problem.g.has_prox_jac and h.has_prox_jac):
        return None
    x, lam = np.asarray(x, np.float64), np.asarray(lam, np.float64)
    terms = problem.A.apply(x)
    force = problem.f.grad(x) + problem.A.adjoint(np.broadcast_to(lam, terms.shape))
    size, strength = units.of_pieces(x), np.maximum(units.of_pieces(force), units.terms(lam))
    steps, _ = units.steps(size, strength)
    along, rows = steps[units.owner], 1.0 / units.row_steps(steps)
    jacobian = np.asarray(h.conj_prox_jac(lam + rows * terms.sum(axis=0), rows))
    is_free = (jacobian if jacobian.ndim == 1 else np.diag(jacobian)) > 0.5  # a matrix for a ball in one dimension
    for _, pinned in units.smooth:
        is_free[pinned] = False
    if not is_free.any():
        return True
    A = np.hstack([dense_block(agent.A) for agent in problem.agents])[is_free]
    P = np.asarray(problem.g.prox_jac(x - along * force, along))
    M = A * P if P.ndim == 1 else A @ P
    lengths = np.linalg.norm(A, axis=1, keepdims=True)
    values = np.linalg.svd(np.divide(M, lengths, out=np.zeros_like(M), where=lengths > 0.0), compute_uv=False)
    return bool(M.shape[0] <= M.shape[1] and values[-1] > _RANK * max(values[0], 1.0))
