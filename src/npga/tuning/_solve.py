"""`npga.solve`: one call, with or without a version, with or without steps."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, fields
from functools import cached_property
from pathlib import Path
from typing import Any, TypedDict, Unpack

from numpy.typing import ArrayLike

from npga.errors import InputError
from npga.networks import Network, Version
from npga.problem import Problem
from npga.solver import Record, Result
from npga.solver import solve as solve_with
from npga.steps import Steps
from npga.theory import Certificate, certify
from npga.tuning._auto import Journey, solve_automatically
from npga.tuning._tuning import Trials


class Options(TypedDict, total=False):
    """Keyword arguments of `npga.solver.solve`."""

    max_iters: int
    tol: float | None
    reference: ArrayLike | None
    x0: ArrayLike | None
    lam0: ArrayLike | None
    start: Result | None
    gap_tol: float | None
    max_rounds: int | None
    max_seconds: float | None
    record_every: int | None
    callback: Callable[[Record, Any], bool | None] | None
    progress: bool
    checkpoint: str | Path | None
    checkpoint_seconds: float
    resume: bool
    path: str


@dataclass(frozen=True)
class Search:
    """What was spent on choosing steps, apart from the run itself.

    Parameters
    ----------
    trials
        All trials, those that became part of the run included.
    iterations, rounds
        Spent on steps that were not taken.
    changes
        What was changed on the way, in order.
    """

    trials: Trials
    iterations: int
    rounds: int
    changes: tuple[str, ...]


@dataclass(frozen=True)
class Solution(Result):
    """A result, with its certificate and what was spent on choosing steps.

    Parameters
    ----------
    search
        Trials that were made because no steps were given; None when they were.
    """

    search: Search | None = None

    @cached_property
    def certificate(self) -> Certificate:
        """Which theorem covers the version and the steps that ran, with which rate, or why none does."""
        if self.version is None:
            raise InputError(f"{self.method} is not a version of NPGA; there is no certificate for it")
        return certify(self.problem, self.network, self.version, self.steps)


def solve(
    problem: Problem,
    network: Network,
    version: str | Version | None = None,
    steps: Steps | None = None,
    *,
    seed: int = 0,
    **options: Unpack[Options],
) -> Solution:
    """Solve a constraint-coupled problem on a network.

    Parameters
    ----------
    problem, network
        What to solve, and who talks to whom; node i of the network is agent i of the problem.
    version
        Name of a version or preset (see `npga.versions()`), or a `Version` of your own. Chosen when not given.
    steps
        Step sizes. When not given they are found by a short search and watched on the way; the result says what was
        tried, what it cost, and which steps ran last.
    seed
        Of that search; the same seed gives the same bits.
    **options
        When to stop: ``tol=1e-8`` (scale-free residual of the optimality conditions), ``max_iters=100_000``,
        ``max_rounds``, ``max_seconds``, ``gap_tol`` with ``reference``. Where to start: ``x0``, ``lam0``, or ``start``,
        an earlier result. What to see: ``record_every``, ``callback``, ``progress``. Going on after an interruption:
        ``checkpoint``, ``checkpoint_seconds``, ``resume`` (with given steps). ``path``: "auto", "compiled" or
        "vectorised". They are described one by one at `npga.solver.solve`.

    Returns
    -------
    Solution
        x, lam, status, trace, counts, and on demand the certificate.
    """
    if steps is not None:
        if version is None:
            raise InputError("steps were given without a version; steps belong to one: pass version= as well")
        return _solution(solve_with(problem, network, version, steps, **options), None)
    result, journey = solve_automatically(problem, network, version, seed, dict(options))
    return _solution(result, journey)


def _solution(result: Result, journey: Journey | None) -> Solution:
    values = {item.name: getattr(result, item.name) for item in fields(Result)}
    if journey is None:
        return Solution(**values)
    search = Search(journey.trials, journey.iterations, journey.rounds, tuple(journey.changes))
    assert result.steps is not None
    s = result.steps
    values["message"] = (
        f"{result.message} Steps were chosen: {result.method} with alpha = {s.alpha:.3g}, beta = {s.beta:.3g}, gamma = "
        f"{s.gamma:.3g}, theta = {s.theta:.3g}, after {len(search.trials)} trials; steps that were not "
        f"taken cost another {search.iterations} iterations and {search.rounds} rounds; changed {len(search.changes)} "
        "times on the way."
    )
    return Solution(**values, search=search)
