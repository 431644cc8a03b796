"""Linear members of a class: what refutes steps, bounds every rate from below, and is seen near a solution.

A channel of slope between 0 and `limit` that is linear makes the loop linear. Its spectral radius is the rate of a
problem of the class, so no rate below it can be proved, and if it is above one the steps are refuted. The member that
has the derivatives of the functions at a solution is the iteration near it, and its radius the linearised rate.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import block_diag

from npga import functions as fn
from npga.problem import Agent, Problem
from npga.steps import Steps
from npga.theory._feedback import Channel, Curvature, Setting, square

Array = NDArray[Any]


def extremes(at: Setting, between: tuple[float, ...]) -> Iterator[Curvature]:
    """Curvatures in which all channels of a role are at one end, and h* at a few slopes between."""
    roles = [one.role for one in at.channels]
    choices = [between if role == "h" else (0.0, math.inf) for role in roles]
    for slopes in itertools.product(*choices):
        if any(slopes):
            yield curvature_of(at, dict(zip(roles, slopes, strict=True)))


def curvature_of(at: Setting, slopes: dict[str, float]) -> Curvature:
    """The least curvature and so much more of each role, in all coordinates."""
    found = at.least
    for role, slope in slopes.items():
        one = at.channel(role)
        assert one is not None
        found = _bent(found, one, np.minimum(slope, one.limit))
    return found


def _bent(found: Curvature, one: Channel, more: Array) -> Curvature:
    """The curvature with so much more in the coordinates of a channel."""
    if one.role == "h":
        return replace(found, Ph=1.0 / (1.0 / found.Ph + float(more[0])))
    rows = np.ix_(one.rows, one.rows)
    if one.role == "f":
        H = found.H.copy()
        H[rows] += np.diag(more)
        return replace(found, H=H)
    Pg = found.Pg.copy()
    Pg[rows] = np.diag(1.0 / (1.0 / np.diag(Pg)[one.rows] + more))
    return replace(found, Pg=Pg)


def flips(at: Setting, start: Curvature) -> Iterator[Curvature]:
    """The same with one convex function of f or g at its other end."""
    for one in at.channels:
        if one.role == "h":
            continue
        least = np.diag(at.least.H if one.role == "f" else at.least.Pg)[one.rows]
        here = np.diag(start.H if one.role == "f" else start.Pg)[one.rows]
        for group in range(int(one.groups.max()) + 1):
            mine = one.groups == group
            low = np.where(mine, ~np.isclose(here, least), np.isclose(here, least))
            base = replace(start, H=at.least.H) if one.role == "f" else replace(start, Pg=at.least.Pg)
            yield _bent(base, one, np.where(low, 0.0, one.limit))


def words_for(at: Setting, curvature: Curvature) -> str:
    """A curvature, by what is least and what is most in it."""
    said = []
    for one in at.channels:
        if one.role == "h":
            said.append(f"prox of h* with slope {curvature.Ph:.3g}")
            continue
        here, least = (
            np.diag(M)[one.rows]
            for M in ((curvature.H, at.least.H) if one.role == "f" else (curvature.Pg, at.least.Pg))
        )
        count = int(np.sum(~np.isclose(here, least)))
        said.append(f"{one.role} with its most curvature in {count} of {one.size} coordinates")
    return ", ".join(said) or "the set-up itself, which is affine"


def example_of(problem: Problem, steps: Steps, curvature: Curvature) -> Problem:
    """The quadratic problem with this curvature and solution zero."""
    agents, begin = [], 0
    for agent, alpha in zip(problem.agents, steps.per_agent(problem.n), strict=True):
        size = int(agent.A.shape[1])
        rows = slice(begin, begin + size)
        begin += size
        if not size:
            agents.append(Agent(agent.A, fn.Zero()))
            continue
        # An infinite slope is that of a point; a very large one is as good in a run.
        values, V = np.linalg.eigh(curvature.Pg[rows, rows])
        slope = (V * (1.0 / np.maximum(values, 1e-9) - 1.0) / alpha) @ V.T
        agents.append(
            Agent(agent.A, fn.Quadratic(curvature.H[rows, rows] / alpha), fn.Quadratic(0.5 * (slope + slope.T)))
        )
    return Problem(agents, _coupling_of(problem, curvature.Ph, steps.beta / problem.n))


def _coupling_of(problem: Problem, Ph: Any, t: float) -> fn.Function:
    """The quadratic h whose t h* has a prox with this Jacobian: h'' = t Ph (I - Ph)^-1."""
    if np.ndim(Ph) == 0:
        if Ph >= 1.0:
            return fn.Equality(np.zeros(problem.p))
        return fn.SquaredLoss(np.zeros(problem.p), t * Ph / (1.0 - Ph)) if Ph > 0.0 else fn.Zero()
    values, V = np.linalg.eigh(Ph)
    K = (V * (t * values / np.maximum(1.0 - values, 1e-12))) @ V.T
    return fn.Quadratic(0.5 * (K + K.T))


def linearised_rate(problem: Problem, at: Setting, steps: Steps, x: Array, lam: Array) -> float:
    """Spectral radius of the member with the derivatives at a solution: the rate near it. nan where they are not known.

    It promises nothing from further away, unless the iteration is affine.
    """
    known = all(a.f.has_hess and a.g.has_prox_jac for a in problem.agents if a.A.shape[1]) and problem.h.has_prox_jac
    if not known:
        return math.nan
    alpha, t = steps.per_agent(problem.n), steps.beta / problem.n
    force = problem.f.grad(x) + problem.A.adjoint(np.broadcast_to(lam, (problem.n, problem.p)))
    every = zip(problem.agents, problem.split(x), problem.split(force), alpha, strict=True)
    places = [place for place in every if place[1].size]
    H = block_diag(*(a * square(agent.f.hess(u)) for agent, u, _, a in places), np.zeros((0, 0)))
    Pg = block_diag(*(square(agent.g.prox_jac(u - a * w, a)) for agent, u, w, a in places), np.zeros((0, 0)))
    Ph: Any = square(problem.h.conj_prox_jac(lam + t * problem.A.apply(x).sum(axis=0), t))
    if np.array_equal(Ph, Ph[0, 0] * np.eye(problem.p)):
        Ph = float(Ph[0, 0])
    else:
        at = replace(at, directions=None)
    loops = at.loops(Curvature(H, Pg, Ph))
    return max(float(np.abs(np.linalg.eigvals(loop.F)).max(initial=0.0)) for loop in loops)
