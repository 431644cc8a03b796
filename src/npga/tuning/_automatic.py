"""`npga.solve`: one call, with or without a version, with or without steps.

Without steps there is nothing to choose: NIDS runs with steps that follow the run (`AdaptiveNpga`), and the result says
which steps ran last and how to type them back. A version of another kind that is asked for without steps gets them from
a short search by trial runs, whose work is counted beside that of the run. An earlier result is gone on from in the way
in which it was run.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, fields, replace
from functools import cached_property
from pathlib import Path
from typing import Any, TypedDict, Unpack

import numpy as np
from numpy.typing import ArrayLike

from npga.errors import InputError
from npga.networks import Network, Version, version_rows
from npga.networks import version as find_version
from npga.pages import Section
from npga.problem import ConsensusProblem, Problem
from npga.solver import Limits, Method, Record, Result, Status
from npga.solver import solve as solve_with
from npga.steps import Steps
from npga.theory import Certificate, certify
from npga.tuning._adaptive_run import AdaptiveNpga, AdaptiveState, Leg
from npga.tuning._adaptive_steps import tied_steps, tied_version
from npga.tuning._certified_steps import tune_certified
from npga.tuning._search import Budget, TrialRun, best_trial
from npga.tuning._tuning_results import Trials, TunedSteps, Tuning

# A search may take this part of the iterations and of the time; trials in its first round, and around the winner.
_SHARE, _TRIALS, _AROUND = 0.25, 24, 12
# How often steps that were found by a search and grow are divided by four.
_RETREATS = 6
# Steps of so many agents are printed.
_TYPED = 16


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
    trace: str
    progress: bool
    checkpoint: str | Path | None
    checkpoint_seconds: float
    resume: bool
    path: str
    limits: Limits | None


@dataclass(frozen=True)
class Search:
    """What a search for steps cost, apart from the run itself.

    Parameters
    ----------
    trials
        What was tried.
    iterations, rounds
        What that took; no part of it is in the result's own counts.
    """

    trials: Trials
    iterations: int
    rounds: int


@dataclass(frozen=True)
class Solution(Result):
    """A result, with its certificate and how its steps were chosen.

    Parameters
    ----------
    legs
        The legs of a run that found its steps on the way; empty where steps were given.
    search
        Trials that were made for a version that was given without steps; None elsewhere.
    """

    legs: tuple[Leg, ...] = ()
    search: Search | None = None

    @cached_property
    def certificate(self) -> Certificate:
        """Which theorem covers the version and the steps that ran last, with which rate, or why none does."""
        if self.version is None:
            raise InputError(f"{self.method} is not a version of NPGA; there is no certificate for it")
        found = certify(self.problem, self.network, self.version, self.steps)
        return found.at_solution(self.x, self.duals) if self.status.ok and isinstance(self.problem, Problem) else found

    @property
    def certified(self) -> bool:
        """Whether the steps that ran last are proved to converge linearly from every start.

        By a theorem, or for this instance, which takes seconds to find out (minutes beyond a thousand states).
        """
        return self.certificate.covered or self.certificate.instance.standing == "proved"

    def sections(self) -> list[Section]:
        """What a report shows of this run, its certificate included, as plain data that JSON can hold."""
        own = super().sections()
        return own if self.version is None else [*own[:-2], *self.certificate.sections(), *own[-2:]]


def solve(
    problem: Problem | ConsensusProblem,
    network: Network,
    version: str | Version | None = None,
    steps: Steps | Tuning | None = None,
    *,
    method: str | Method[Any] = "npga",
    seed: int = 0,
    certified: bool = False,
    **options: Unpack[Options],
) -> Solution:
    """Solve a constraint-coupled problem on a network.

    Parameters
    ----------
    problem, network
        What to solve, and who talks to whom; node i of the network is agent i of the problem. A `ConsensusProblem` is
        solved by PUDA, and the result's x is an n x m array, a row for each agent.
    version
        Name of a version or preset (see `npga.versions()`), or a `Version` of your own. NIDS when not given.
    steps
        Step sizes, or what `npga.tune` returned, which holds its version too; its steps remember the constant c that
        they were tuned with, for a version that is given by name. When not given they follow the run
        (NIDS), or are found by trial runs first (other versions); the message says which steps ran last.
    method
        A name of the table `npga.methods()`, or a `Method` of your own; it chooses its steps where none are given.
    seed
        Of a search by trial runs; the same seed gives the same bits. Nothing is drawn when no version is given.
    certified
        Run only with steps that are proved to converge linearly from every start: those given, if they are, else those
        with the best certified rate, as in `npga.tune`, for which a quarter of `max_seconds` may be spent.
    **options
        When to stop: ``tol=1e-8`` (one more natural step would move no agent and no coupling row by more than that part
        of its own size), ``max_iters=100_000``, ``max_rounds``, ``max_seconds``, ``gap_tol`` with ``reference``. Where
        to start: ``x0``, ``lam0``, or ``start``, an earlier result, which also lends its version and steps where none
        are given. What to see: ``record_every``, ``callback``, ``progress``, and ``trace="agents"`` for a report. Going
        on after an interruption: ``checkpoint``, ``checkpoint_seconds``, ``resume``. ``path``: "auto", "compiled" or
        "vectorised". They are described one by one at `npga.solver.solve`.

    Returns
    -------
    Solution
        x, lam, status, trace, counts, and on demand the certificate. `seconds` is the wall time of the call.
    """
    begun = time.perf_counter()
    Limits.split(options)  # refuses what does not fit together
    if method != "npga" or not isinstance(problem, Problem):
        if isinstance(steps, Tuning):
            raise InputError("steps are those that npga.tune found for NPGA; pass steps=npga.Steps(...) of this method")
        found = _solution(solve_with(problem, network, version, steps, method=method, **options))
    else:
        version, given = _chosen(version, steps, options.get("start"))
        if certified:
            version, given = _only_certified(problem, network, version, given, seed, options)
        if given is not None:
            found = _solution(solve_with(problem, network, version, given, **options))
        else:
            problem.expect(network)
            asked = None if version is None else find_version(version)
            tied = tied_version(network, asked)
            if tied is None:
                assert asked is not None
                found = _searched(problem, network, asked, seed, options)
            else:
                found = _adapted(problem, network, tied, options)
    return replace(found, seconds=time.perf_counter() - begun)


def _chosen(
    version: str | Version | None, steps: Steps | Tuning | None, start: Result | None
) -> tuple[str | Version | None, Steps | None]:
    """Version and steps that were said in some way; None for steps that shall be found."""
    if isinstance(steps, Tuning):
        name = None if version is None else find_version(version).name
        if name not in (None, steps.version.name):
            raise InputError(
                f"the steps were tuned for {steps.version.name}, and version = {name!r} arrived; leave it out"
            )
        return steps.version, steps.steps
    if isinstance(version, str) and isinstance(steps, TunedSteps) and hasattr(steps, "version"):
        named = find_version(version)
        return (steps.version if named.name == steps.version.name else named), steps
    if steps is not None and version is None:
        raise InputError("steps were given without a version; steps belong to one: pass version= as well")
    if steps is None and version is None and isinstance(start, Result) and start.version is not None:
        automatic = isinstance(start.state, AdaptiveState)
        return start.version, None if automatic else start.steps
    return version, steps


def _only_certified(
    problem: Problem, network: Network, version: str | Version | None, steps: Steps | None, seed: int, options: Options
) -> tuple[Version, Steps]:
    """The version and steps if a theorem or the instance is proved; without steps, those with the best rate."""
    problem.expect(network)
    chosen = find_version("nids" if version is None else version)
    if steps is None:
        seconds = options.get("max_seconds")
        budget = Budget(None if seconds is None else _SHARE * seconds, None)
        found = tune_certified(problem, network, chosen, seed=seed, budget=budget)
        return found.version, found.steps
    cert = certify(problem, network, chosen, steps)
    if not cert.covered and cert.instance.standing != "proved":
        raise InputError(
            f"certified=True, and these steps of {chosen.name} are not: {cert.instance.standing}, "
            f"{cert.instance.reason}; leave steps out, or use npga.tune(..., certified=True)"
        )
    return chosen, steps


def _solution(result: Result, **more: Any) -> Solution:
    return Solution(**{item.name: getattr(result, item.name) for item in fields(Result)} | more)


# ------------------------------------------------------------------ steps that follow the run


def _adapted(problem: Problem, network: Network, version: Version, options: Options) -> Solution:
    """A run that finds its steps on the way."""
    method = AdaptiveNpga(problem, network, version, options.get("path", "auto"))
    result = solve_with(problem, network, method=method, **options)
    state = result.state
    assert isinstance(state, AdaptiveState)
    steps = method.at(state).steps
    message = " ".join([result.message, _retold(problem, version, steps, state), *_mended(problem, state)])
    return _solution(result, steps=steps, message=message, legs=state.legs)


def _retold(problem: Problem, version: Version, steps: Steps, state: AdaptiveState) -> str:
    """What was done about the steps, and how to type them back."""
    betas = [leg.beta for leg in state.legs] + [steps.beta]
    changes = int(np.count_nonzero(np.diff(betas)))
    taken, retreats = (sum(getattr(leg, name) for leg in state.legs) for name in ("extrapolated", "retreated"))
    often = "once" if changes == 1 else f"{changes} times"
    typed = (
        f"npga.tuning.tied_steps(problem, {steps.beta!r})"
        if steps == tied_steps(problem, steps.beta)
        else f"npga.{steps!r}"
        if problem.n <= _TYPED
        else "result.steps"
    )
    return (
        f"Steps followed the run: beta changed {often}, {taken} of {len(state.legs)} legs ended in an "
        f"extrapolation, {retreats} taken back. The last ones, to type: version={_named(version)}, "
        f"steps={typed}. Whether they are proved to converge from every start: result.certified."
    )


def _named(version: Version) -> str:
    """How to type a version; one that is not in the table is in the result."""
    constant = "" if version.c is None else f", c={version.c!r}"
    return f"npga.version({version.name!r}{constant})" if version.name in version_rows() else "result.version"


def _mended(problem: Problem, state: AdaptiveState) -> list[str]:
    """Who stated an L that does not hold."""
    stated = np.array([agent.f.L if agent.A.shape[1] else np.inf for agent in problem.agents])
    wrong = np.flatnonzero(state.seen > stated)
    if not wrong.size:
        return []
    i = int(wrong[np.argmax(state.seen[wrong] / np.maximum(stated[wrong], 1e-300))])
    return [
        f"The gradient of f of {problem.title(i)} was seen to change with slope {state.seen[i]:.3g}, which is more "
        f"than the L = {stated[i]:.3g} that it states: check it with npga.functions.check."
    ]


# ------------------------------------------------------------------ steps from trial runs


def _searched(problem: Problem, network: Network, version: Version, seed: int, options: Options) -> Solution:
    """Trial runs for steps of a given version, then a run; steps that grow are made smaller."""
    for name in ("checkpoint", "resume"):
        if options.get(name):
            raise InputError(f"{name}= needs steps for {version.name}; find them with npga.tune and pass steps=")
    begun = time.perf_counter()
    limits, others = Limits.split(options)
    # Everything that solve checks is checked before the first trial.
    nothing = {"limits": replace(limits, max_iters=0), "progress": False, "callback": None}
    solve_with(problem, network, version, Steps(1.0, 1.0), **(others | nothing))
    seconds = None if limits.max_seconds is None else _SHARE * limits.max_seconds
    budget = Budget(seconds, None, work=int(_SHARE * limits.max_iters))
    trials, winner = best_trial(problem, network, version, seed=seed, budget=budget, samples=_TRIALS, around=_AROUND)
    search = Search(trials, trials.work, trials.work * version.rounds)
    version, steps = winner.version, winner.steps
    for attempt in range(_RETREATS + 1):
        left = limits.left(search.iterations, search.rounds, time.perf_counter() - begun)
        try:
            if budget.interrupted:
                raise KeyboardInterrupt
            result = solve_with(problem, network, version, steps, limits=left, **others)
        except KeyboardInterrupt:  # in the search, or while the run was prepared, whose loop returns by itself
            result = _stopped(problem, network, winner)
        if result.status is not Status.DIVERGED or attempt == _RETREATS:
            break
        search = replace(search, iterations=search.iterations + result.iterations, rounds=search.rounds + result.rounds)
        steps = replace(steps, alpha=0.25 * steps.alpha, beta=0.25 * steps.beta)
    message = (
        f"{result.message} Steps were chosen by {len(search.trials)} trial runs, which took another "
        f"{search.iterations} iterations and {search.rounds} rounds: version={_named(version)}, "
        f"steps=npga.{steps!r}. Whether they are proved to converge from every start: result.certified."
    )
    return _solution(result, message=message, search=search)


def _stopped(problem: Problem, network: Network, trial: TrialRun) -> Result:
    """What there is when Ctrl-C comes before the run: the best trial's iterates."""
    x, lam = trial.state.x, trial.state.lam
    result = solve_with(problem, network, trial.version, trial.steps, x0=x, lam0=lam, max_iters=0)
    return replace(result, status=Status.INTERRUPTED, message=Status.INTERRUPTED.message)
