"""Why a problem has no solution: certificates from differences of iterates.

Where P1 has no saddle point the iterates of a primal-dual method do not settle; the difference of two of them points
along what stands in the way (Banjac, Goulart, Stellato and Boyd 2019; Applegate, Diaz, Lu and Lubin 2024). What such a
difference suggests is checked here, with nothing but proximal maps and values:

- **Infeasible.** y, the change of lam, separates {A x : x in dom g} from dom h,

      inf over x in dom g of y.A x   >   sup over z in dom h of y.z,

  so no x satisfies the coupling. Both bounds are attained where a long step along -A^T y, or y, is projected.
- **Unbounded.** d, the change of x, is a direction along which f + g + h falls at a rate that does not fade.
- **No saddle point.** Along d the objective falls for ever, ever more slowly: it has an infimum and no minimum. Or y
  separates the two sets without a gap, one of them is curved, and lam keeps growing: they touch, and no multiplier is
  large enough.

What is below `_NOISE` of its scale is what the method has not yet forgotten and counts as zero; what is claimed holds
up to that.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from npga.functions import Function
from npga.problem import Problem
from npga.solver._result import Status

Array = NDArray[Any]
Pair = tuple[Array, Array]

_NOISE = 1e-5
# A slowly growing lam points along y only roughly: what is left without these small parts is tried as well.
_ROUGH = 1e-2
# Looked at first after so many iterations, then at every doubling; what is not proved must be seen several times.
_FIRST, _REPEATED = 250, 3
# A run that settles moves less than this between two iterates, the later of which has twice the iterations.
_MOVING = 0.1
# Lengths of the long steps, in units of the point.
_FAR, _FARTHER = 1e6, 1e8
# A proximal step that is short in all units.
_SHORT = 1e-100
# Where the slope along d is looked at, in units of the point.
_NEARBY, _REMOTE = 10.0, 1e4
# Names in a message.
_NAMED = 6


@dataclass(frozen=True)
class Obstacle:
    """Why there is no solution, and who is involved.

    Parameters
    ----------
    status
        `Status.INFEASIBLE`, `Status.UNBOUNDED` or `Status.NO_SADDLE_POINT`.
    direction
        y of shape (p,) where the coupling is the reason, d of shape (d,) where the objective is.
    rows, agents
        Coupling rows and agents that take part.
    message
        All of this as a sentence.
    is_proved
        Whether one look is enough: that the sets touch does not prove that lam will go on growing.
    """

    status: Status
    direction: Array
    rows: tuple[int, ...]
    agents: tuple[int, ...]
    message: str
    is_proved: bool = True


class Watch:
    """Looks at a run now and then, at twice the iterations each time.

    Parameters
    ----------
    problem
        What is being solved.
    iteration
        Where the run begins, or goes on.

    Attributes
    ----------
    due : int
        The iteration from which on to look again.
    """

    def __init__(self, problem: Problem, iteration: int = 0) -> None:
        self._problem = problem
        self._before: Pair | None = None
        self.due, self._times = _FIRST, 0
        self._pass(iteration)

    def is_due(self, iteration: int) -> bool:
        """Whether it is time to look again."""
        return iteration >= self.due

    def _pass(self, iteration: int) -> None:
        while self.is_due(iteration):
            self.due *= 2

    def look(self, iteration: int, x: Array, lam: Array) -> Obstacle | None:
        """What stands in the way at this iterate, as far as the run has shown it; lam is one dual vector."""
        if not self.is_due(iteration):
            return None
        found = None if self._before is None else find_obstacle(self._problem, self._before, (x, lam))
        self._before = np.array(x), np.array(lam)
        self._pass(iteration)
        doubtful = found is not None and not found.is_proved
        self._times = self._times + 1 if doubtful else 0
        return None if doubtful and self._times < _REPEATED else found


def find_obstacle(problem: Problem, before: Pair, after: Pair) -> Obstacle | None:
    """What the way from one pair (x, lam) to a later one proves, or None.

    Parameters
    ----------
    problem
        The problem.
    before, after
        Concatenated x and one dual vector of length p at two iterates, the later one after about twice as many
        iterations.
    """
    x, lam = (np.asarray(values, np.float64) for values in after)
    if not (np.isfinite(x).all() and np.isfinite(lam).all()):
        return None
    y, d = lam - before[1], x - before[0]
    with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
        found = None
        if _moving(y, lam):
            work = np.abs(y) * _row_sizes(problem, x)  # in units of cost, whatever those of the rows
            for least in (_NOISE, _ROUGH):
                found = found or _separated(problem, x, np.where(work >= least * work.max(), y, 0.0))
        return found or (_falling(problem, x, d) if _moving(d, x) else None)


def _moving(moved: Array, to: Array) -> bool:
    return _norm(moved) > _MOVING * _norm(to)


def _heard(values: Array, scale: Array | float) -> Array:
    """The values, with zero for what is noise at this scale."""
    return np.where(np.abs(values) > _NOISE * scale, values, 0.0)


# ------------------------------------------------------------------ the coupling cannot be met


def _separated(problem: Problem, x: Array, y: Array) -> Obstacle | None:
    """Whether y, the change of lam, separates what the agents can reach from what h allows."""
    y = y / np.abs(y).max()
    pull = problem.A.adjoint(np.broadcast_to(y, (problem.n, problem.p)))
    apart = [1 if agent.g.is_separable or agent.g.is_zero else 0 for agent in problem.agents]
    sizes = [[1] * size if one else [size] for one, size in zip(apart, problem.sizes.tolist(), strict=True) if size]
    groups = np.array([size for own in sizes for size in own], dtype=np.int64)  # a relay has no variables
    least = _extreme(problem.g, x, -pull, groups, _NOISE * _largest_pulls(problem, y))
    z = problem.A.apply(x).sum(axis=0)
    most = _extreme(problem.h, z, y, np.diff(problem.units.bounds), np.zeros(problem.p))
    if least is None or most is None:
        return None
    terms = problem.A.apply(least)
    gap = float(y @ (terms.sum(axis=0) - most))
    is_curved = _is_curved(problem.h) or any(_is_curved(agent.g) for agent in problem.agents)
    if is_curved:  # the extreme points are as far as the step was long, and rows cannot be told apart
        size = _norm(y) * (_norm(terms) + _norm(most) + _norm(z))
    else:
        size = float(np.abs(y) @ (np.abs(terms).sum(axis=0) + np.abs(most)))
    rows, agents = _nonzero(y), _agents_in_rows(problem, y)
    if gap > _NOISE * size:
        return Obstacle(Status.INFEASIBLE, y, rows, agents, _infeasible_text(problem, y, agents, gap))
    if is_curved and gap > -_NOISE * size:
        return Obstacle(Status.NO_SADDLE_POINT, y, rows, agents, _touching_text(y), is_proved=False)
    return None


def _row_sizes(problem: Problem, x: Array) -> Array:
    """What the single terms of a row add up to at x, with where h would have it; one for rows that h ties."""
    terms, units = problem.A.apply(x), problem.units
    sizes = np.abs(terms).sum(axis=0) + np.abs(_into_domain(problem.h, terms.sum(axis=0)))
    return np.repeat(units.of_rows(sizes), np.diff(units.bounds))


def _extreme(function: Function, point: Array, along: Array, sizes: Array, noise: Array) -> Array | None:
    """The point of the domain that is furthest along a direction, group by group; None where there is none.

    A group that has no end and is pulled by no more than noise stays where it is.
    """
    lengths, reach = _block_norms(along, sizes), np.maximum(_block_norms(point, sizes), 1e-6 * _norm(point))
    reach = np.where(reach > 0.0, reach, 1.0)
    unit = np.repeat(np.divide(reach, lengths, out=np.zeros_like(reach), where=lengths > 0.0), sizes)
    far, farther = (_into_domain(function, point + length * unit * along) for length in (_FAR, _FARTHER))
    gain = np.add.reduceat(along * (farther - far), np.cumsum(sizes) - sizes)
    has_end = gain <= _NOISE * lengths * (_block_norms(far, sizes) + _block_norms(point, sizes))
    if not (has_end | (lengths <= _block_norms(noise, sizes))).all():
        return None
    return np.where(np.repeat(has_end, sizes), far, point)


def _is_curved(function: Function) -> bool:
    """Whether the domain may be round: products of intervals and simplices are not."""
    parts = getattr(function, "parts", (function,))
    return any(part.is_indicator and not part.is_separable and type(part).__name__ != "Simplex" for part in parts)


# ------------------------------------------------------------------ the objective has no minimum


def _falling(problem: Problem, x: Array, moved: Array) -> Obstacle | None:
    """Whether the objective falls for ever along the change of x."""
    size = _norm(x)
    is_flat = np.array([agent.f.mu + agent.g.mu == 0.0 for agent in problem.agents])  # others rise in the end
    d = np.where(np.repeat(is_flat, problem.sizes), _heard(moved, np.abs(moved).max()), 0.0)
    if not d.any():
        return None
    d = d * (size / _norm(d))
    # Stays in dom g: what does not go on at a hundred times the distance has met a bound.
    far, farther = ((_into_domain(problem.g, x + length * d) - x) / length for length in (_FAR, _FARTHER))
    d = np.where(np.abs(farther) > 0.5 * np.abs(far), farther, 0.0)
    if not d.any():
        return None
    slopes = [_slope(problem, x, d, length) for length in (_NEARBY, _REMOTE)]
    if any(slope is None for slope in slopes):
        return None
    near, remote = (float(slope) for slope in slopes if slope is not None)
    force = float(np.abs(problem.f.grad(x)) @ np.abs(d)) + abs(near)
    rows = _where(problem.A.apply(d).sum(axis=0))
    agents = tuple(int(i) for i in np.flatnonzero(_block_norms(d, problem.sizes) > _NOISE * size))
    if remote < -_NOISE * force and remote < 0.5 * near:
        return Obstacle(Status.UNBOUNDED, d / size, rows, agents, _unbounded_text(problem, agents))
    if near < 0.0 and _fades(problem, x, d):
        return Obstacle(Status.NO_SADDLE_POINT, d / size, rows, agents, _fading_text(problem, agents))
    return None


def _slope(problem: Problem, x: Array, d: Array, length: float) -> float | None:
    """(F(x + length d) - F(x)) / length; None where x + length d leaves what the coupling allows."""
    ahead, here = (_value(problem, x, d, t) for t in (length, 0.0))
    return None if ahead is None or here is None else (ahead - here) / length


def _value(problem: Problem, x: Array, d: Array, length: float) -> float | None:
    """f + g + h at x + length d, with g and h at the nearest points of their domains."""
    point = x + length * d
    terms, drift = problem.A.apply(point), length * _largest_sums(problem, d)
    z = terms.sum(axis=0)
    inside, allowed = _into_domain(problem.g, point), _into_domain(problem.h, z)
    reached = problem.A.apply(x).sum(axis=0)
    outside = np.abs(z - allowed) - np.abs(reached - _into_domain(problem.h, reached))
    if (outside > _NOISE * drift).any():
        return None
    total = float(problem.f(point)) + float(problem.g(inside)) + float(problem.h(allowed))
    return total if np.isfinite(total) else None


def _largest_pulls(problem: Problem, y: Array) -> Array:
    """sum_k |a_kj| |y_k| for every coordinate j: what A^T y is made of, however much of it cancels."""
    own = zip(problem.A.blocks, problem.A.norms, problem.sizes, strict=True)
    return np.concatenate(
        [abs(block).T @ np.abs(y) if _is_known(block) else np.full(size, norm * _norm(y)) for block, norm, size in own]
    )


def _is_known(block: Any) -> bool:
    return isinstance(block, np.ndarray) or sparse.issparse(block)


def _largest_sums(problem: Problem, d: Array) -> Array:
    """sum_i |A_i| |d_i|, entry by entry: what sum_i A_i d_i is made of, however much of it cancels."""
    total = np.zeros(problem.p)
    for block, part, norm in zip(problem.A.blocks, problem.split(d), problem.A.norms, strict=True):
        total += abs(block) @ np.abs(part) if _is_known(block) else norm * _norm(part)
    return total


def _into_domain(function: Function, point: Array) -> Array:
    """The nearest point of the domain: that of a proximal step which is too short for the values to matter."""
    return function.prox(point, _SHORT)


def _fades(problem: Problem, x: Array, d: Array) -> bool:
    """Whether every doubling of the length still lowers the objective, until what is left is 1e-9 of it."""
    values = [_value(problem, x, d, 2.0**k) for k in range(-1, 12)]
    first = values[0]
    for earlier, later in pairwise(values):
        if first is None or earlier is None or later is None or not later < earlier:
            return False
        if abs(later) < 1e-9 * abs(first):
            return True
    return False


# ------------------------------------------------------------------ who is involved, in words


def _norm(values: Array) -> float:
    return float(np.linalg.norm(values))


def _block_norms(values: Array, sizes: Array) -> Array:
    return np.sqrt(np.bincount(np.repeat(np.arange(len(sizes)), sizes), np.square(values), len(sizes)))


def _where(values: Array) -> tuple[int, ...]:
    return tuple(int(k) for k in np.flatnonzero(np.abs(values) > _NOISE * np.abs(values).max(initial=0.0)))


def _nonzero(values: Array) -> tuple[int, ...]:
    return tuple(np.flatnonzero(values).tolist())


def _agents_in_rows(problem: Problem, y: Array) -> tuple[int, ...]:
    """Agents with variables that enter a row of y."""
    return _nonzero(_block_norms(_largest_pulls(problem, y), problem.sizes))


def _listed(noun: str, names: Iterable[Any]) -> str:
    names = [str(name) for name in names]
    more = f" and {len(names) - _NAMED} more" if len(names) > _NAMED else ""
    return f"{noun}{'s' if len(names) > 1 else ''} {', '.join(names[:_NAMED])}{more}"


def _infeasible_text(problem: Problem, y: Array, agents: tuple[int, ...], gap: float) -> str:
    weights = "" if len(_nonzero(y)) == 1 else ", weighted by result.obstacle.direction,"
    limits = f" with the limits of {_listed('agent', agents)}" if not problem.g.is_zero and agents else ""
    return (
        f"No point satisfies the coupling: {_listed('row', _nonzero(y))} of sum_i A_i x_i{weights} cannot come "
        f"closer than {gap:.3g} to what h allows{limits}: loosen one of them."
    )


def _touching_text(y: Array) -> str:
    return (
        f"The coupling {_listed('row', _nonzero(y))} can be met in one touching point only, so that no multiplier is "
        "large enough and lam grows without end: loosen the constraint a little."
    )


def _unbounded_text(problem: Problem, agents: tuple[int, ...]) -> str:
    return (
        f"The objective falls without bound along result.obstacle.direction, which moves "
        f"{_listed('agent', (problem.title(i).removeprefix('agent ') for i in agents))}: bound their variables, or "
        "check the signs of their costs."
    )


def _fading_text(problem: Problem, agents: tuple[int, ...]) -> str:
    return (
        f"The objective has an infimum and no minimum: it falls for ever, ever more slowly, along "
        f"result.obstacle.direction, which moves "
        f"{_listed('agent', (problem.title(i).removeprefix('agent ') for i in agents))}: add a small quadratic cost or "
        "bounds."
    )
