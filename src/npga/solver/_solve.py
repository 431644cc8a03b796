"""Solve P1 with given steps: one call, any method, one result."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from npga.errors import InputError
from npga.networks import Network, Version
from npga.problem import ConsensusProblem, Problem
from npga.solver._checkpoint import Saver
from npga.solver._loop import Callback, Method, Run, S, run
from npga.solver._methods import build
from npga.solver._progress import run_observer, show_progress
from npga.solver._result import Result, Status
from npga.solver._showing import watched
from npga.solver._stopping import Limits, is_resolved, refuse_both, whole_number
from npga.steps import Steps


def solve(
    problem: Problem | ConsensusProblem,
    network: Network,
    version: str | Version | None = None,
    steps: Steps | None = None,
    *,
    method: str | Method[Any] = "npga",
    max_iters: int = 100_000,
    tol: float | None = 1e-8,
    reference: ArrayLike | None = None,
    x0: ArrayLike | None = None,
    lam0: ArrayLike | None = None,
    start: Result | None = None,
    gap_tol: float | None = None,
    max_rounds: int | None = None,
    max_seconds: float | None = None,
    record_every: int | None = None,
    callback: Callback | None = None,
    trace: str = "records",
    progress: bool = False,
    checkpoint: str | Path | None = None,
    checkpoint_seconds: float = 30.0,
    resume: bool = False,
    path: str = "auto",
    limits: Limits | None = None,
) -> Result:
    """Solve a constraint-coupled problem on a network.

    Parameters
    ----------
    problem, network
        What to solve, and who talks to whom; node i of the network is agent i of the problem. A `ConsensusProblem` is
        solved by PUDA, and the result's x is an n x m array.
    version
        Name of a version or preset of NPGA (see `npga.versions()`), or a `Version` of your own.
    steps
        Step sizes; a method other than NPGA may choose them.
    method
        A name of the table `npga.methods()`, or a `Method` of your own for this problem and network. What it cannot
        solve is refused.
    max_iters, max_rounds, max_seconds
        Limits; None switches the last two off.
    tol
        The run has converged when one more natural step would move no agent and no coupling row by more than `tol` of
        its own size (see `npga.problem.residual`). Single precision also ends where that is below 3e-4 and falls no
        more, and says so. None switches both off.
    reference, gap_tol
        A solution x*; the trace then holds |x - x*|/|x0 - x*|, and `gap_tol` stops on it.
    x0, lam0
        Start; zero by default. lam0 may be one row for all agents.
    start
        An earlier result to go on from, of any method. With the same version and steps the run continues exactly; with
        others it takes over x, lam and the consensus multiplier.
    record_every
        Record and test every so many iterations; by default on a grid that grows by a tenth.
    callback
        Called as ``callback(record, state)`` with each record; a true answer stops the run.
    trace
        "agents" measures at each record every agent's residual and distance to consensus, and the time, for
        `Result.report`; "records" does not.
    progress
        Show a progress bar (needs rich); a line every ten seconds where there is no terminal.
    checkpoint, checkpoint_seconds, resume
        File that the run is saved to at most every so many seconds and at its end; `resume=True` goes on from it
        and gives the same bits as a run that was never interrupted.
    path
        "compiled" or "vectorised" (NumPy), which agree up to rounding; "auto" takes the compiled path wherever every
        function and matrix has a kernel. `Result.path` tells which one ran, `path_reason` why it was not compiled.
    limits
        All limits in one record, in place of `max_iters`, `tol`, `gap_tol`, `max_rounds` and `max_seconds`; not beside
        one of them.

    Returns
    -------
    Result
        Solution, status, counts of work and traffic, and the trace. No argument is changed.

    Raises
    ------
    InputError
        Before the first iteration, if arguments do not fit together.
    """
    if not isinstance(problem, Problem | ConsensusProblem):
        raise InputError(f"problem is a {type(problem).__name__}; expected npga.Problem(agents=[...], h=...)")
    single = Limits(tol, gap_tol, max_iters, max_rounds, max_seconds)
    if limits is not None:
        refuse_both([item.name for item in fields(Limits) if getattr(single, item.name) != item.default])
    limits = limits or single
    if record_every is not None:
        whole_number("record_every", record_every, 1)
    chosen = build(method, problem, network, version, steps, path)
    target = None if reference is None else chosen.point(reference, "reference")
    if limits.gap_tol is not None and target is None:
        raise InputError("gap_tol was given without a reference; pass reference=npga.reference(problem).x")
    begun = Run(_begin(chosen, x0, lam0, start))
    meter = chosen.meter(begun.state.x, target)
    saving = None if checkpoint is None else Saver(Path(checkpoint), chosen, meter, checkpoint_seconds)
    if resume:
        if saving is None:
            raise InputError("resume=True needs the file to resume from: pass checkpoint=...")
        begun = saving.load()
    callback = watched(trace, chosen.problem, begun, callback)
    with show_progress(chosen.name, progress) as tell:
        observers: list[Callable[[Run[Any]], None]] = [] if tell is None else [run_observer(tell, limits)]
        observers += [saving] if saving else []
        ended = run(chosen, meter, begun, limits, record_every=record_every, callback=callback, observers=observers)
    if saving:
        saving.save(ended)
    return conclude(chosen, ended)


def _begin(method: Method[S], x0: ArrayLike | None, lam0: ArrayLike | None, earlier: Result | None) -> S:
    """The state to start from."""
    if earlier is None:
        return method.start(*method.problem.start(None if x0 is None else method.point(x0, "x0"), lam0))
    if x0 is not None or lam0 is not None:
        raise InputError("start= and x0=/lam0= were both given; expected one of them")
    if not isinstance(earlier, Result):
        raise InputError(f"start is {earlier!r}; expected the result of an npga.solve")
    return method.go_on(earlier)


def conclude(method: Method[S], ended: Run[S]) -> Result:
    """The result of a run."""
    state, problem = ended.state, method.problem
    messages, floats = method.traffic(state)
    lam = state.lam
    if lam.shape[0] != problem.n:  # one dual vector for all
        lam = np.repeat(lam, problem.n, axis=0)
    return Result(
        x=method.solution(state),
        lam=lam,
        blocks=problem.split(state.x),
        status=ended.status,
        message=_message(method, ended),
        iterations=state.iteration,
        rounds=state.rounds,
        messages=messages,
        floats_sent=floats,
        inner_iterations=state.inner,
        work=method.work.times(state.iteration) + method.inner_work.times(state.inner),
        seconds=ended.seconds,
        trace=ended.trace,
        method=method.name,
        steps=method.steps,
        version=method.version,
        path=method.path,
        path_reason=method.path_reason,
        state=state,
        problem=problem,
        network=method.network,
        obstacle=ended.obstacle,
    )


def _message(method: Method[S], ended: Run[S]) -> str:
    """What to try next, for this very run."""
    if ended.obstacle is not None:
        return ended.obstacle.message
    if ended.status is Status.CONVERGED and is_resolved(ended.trace, method.problem.dtype):
        return f"The residual is what float32 resolves, {ended.trace[-1].kkt:.0e}: pass float64 data for more."
    return method.blame() if ended.status is Status.DIVERGED else ended.status.message
