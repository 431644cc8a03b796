"""Solve P1 with a version of NPGA."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from npga.errors import InputError
from npga.networks import Network, Version
from npga.networks import version as find_version
from npga.problem import Problem
from npga.solver._checkpoint import Saver
from npga.solver._loop import Callback, Meter, Run, run
from npga.solver._method import Npga
from npga.solver._path import meter_for, method_for
from npga.solver._progress import progress_bar
from npga.solver._result import Result, Status
from npga.solver._state import State
from npga.solver._stopping import rules
from npga.steps import Steps, with_fixed

Array = NDArray[Any]


def solve(
    problem: Problem,
    network: Network,
    version: str | Version,
    steps: Steps,
    *,
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
    progress: bool = False,
    checkpoint: str | Path | None = None,
    checkpoint_seconds: float = 30.0,
    resume: bool = False,
    path: str = "auto",
) -> Result:
    """Solve a constraint-coupled problem on a network.

    Parameters
    ----------
    problem, network
        What to solve, and who talks to whom; node i of the network is agent i of the problem.
    version
        Name of a version or preset (see `npga.versions()`), or a `Version` of your own.
    steps
        Step sizes.
    max_iters, max_rounds, max_seconds
        Limits; None switches the last two off.
    tol
        The run has converged when the scale-free residual of the optimality conditions at (x, mean of lam) is at
        most `tol`; None switches this off.
    reference, gap_tol
        A solution x*; the trace then holds |x - x*|/|x0 - x*|, and `gap_tol` stops on it.
    x0, lam0
        Start; zero by default. lam0 may be one row for all agents.
    start
        An earlier result to go on from. With the same version and steps the run continues exactly; with others it
        takes over x, lam and the consensus multiplier.
    record_every
        Record and test every so many iterations; by default on a grid that grows by a tenth.
    callback
        Called as ``callback(record, state)`` with each record; a true answer stops the run.
    progress
        Show a progress bar (needs rich).
    checkpoint, checkpoint_seconds, resume
        File that the run is saved to at most every so many seconds and at its end; `resume=True` goes on from it
        and gives the same bits as a run that was never interrupted.
    path
        "compiled" or "vectorised" (NumPy), which agree up to rounding; "auto" takes the compiled path wherever every
        function and matrix has a kernel. `Result.path` tells which one ran.

    Returns
    -------
    Result
        Solution, status, counts of work and traffic, and the trace. No argument is changed.

    Raises
    ------
    InputError
        Before the first iteration, if arguments do not fit together.
    """
    chosen = find_version(version)
    if not isinstance(steps, Steps):
        raise InputError(f"steps is a {type(steps).__name__}; expected npga.Steps(alpha=, beta=, gamma=, theta=)")
    steps = with_fixed(steps, chosen.fixed, chosen.name)
    _fit(problem, network, max_iters, record_every)
    target = None if reference is None else problem.join(reference, "reference")
    if gap_tol is not None and target is None:
        raise InputError("gap_tol was given without a reference; pass reference=npga.reference(problem).x")
    stopping = rules(tol, gap_tol, max_rounds, max_seconds)
    method = method_for(problem, network, chosen, steps, path)

    meter, begun = _begin(method, x0, lam0, start, target)
    saving = None if checkpoint is None else Saver(Path(checkpoint), method, meter, checkpoint_seconds)
    if resume:
        if saving is None:
            raise InputError("resume=True needs the file to resume from: pass checkpoint=...")
        begun = saving.load()
    with progress_bar(method.name, tol, max_iters, progress) as observers:
        ended = run(
            method,
            meter,
            begun,
            max_iters=max_iters,
            rules=stopping,
            record_every=record_every,
            callback=callback,
            observers=[*observers, saving] if saving else observers,
            leap=meter.leaps(tol, gap_tol, max_rounds),
        )
    if saving:
        saving.save(ended)
    return conclude(method, ended)


def _fit(problem: Problem, network: Network, max_iters: int, record_every: int | None) -> None:
    """Refuse arguments that do not fit together."""
    if not isinstance(problem, Problem):
        raise InputError(f"problem is a {type(problem).__name__}; expected npga.Problem(agents=[...], h=...)")
    if not isinstance(network, Network):
        raise InputError(f"network is a {type(network).__name__}; expected npga.Network(graph) or a constructor")
    if network.n != problem.n:
        raise InputError(
            f"the network has {network.n} nodes and the problem {problem.n} agents; expected one agent for each "
            "node (an agent without variables, A of shape (p, 0), can fill a node that only passes messages on)"
        )
    for name, value in (("max_iters", max_iters), ("record_every", record_every)):
        least = 0 if name == "max_iters" else 1
        if value is not None and (isinstance(value, bool) or not isinstance(value, int) or value < least):
            raise InputError(f"{name} is {value!r}; expected a whole number >= {least}")


def _begin(
    method: Npga, x0: ArrayLike | None, lam0: ArrayLike | None, earlier: Result | None, target: Array | None
) -> tuple[Meter, Run]:
    """The state to start from, and the meter that measures from there."""
    problem = method.problem
    if earlier is not None:
        if x0 is not None or lam0 is not None:
            raise InputError("start= and x0=/lam0= were both given; expected one of them")
        state = _go_on(method, earlier)
    else:
        x = np.zeros(problem.d, problem.dtype) if x0 is None else problem.join(x0, "x0")
        lam = np.zeros((problem.n, problem.p), problem.dtype) if lam0 is None else problem.dual(lam0, "lam0")
        state = method.start(x, lam)
    return meter_for(method, state.x, target), Run(state)


def _go_on(method: Npga, earlier: Result) -> State:
    """The state of an earlier result, as it is where nothing has changed, else carried over to the new steps."""
    if not isinstance(earlier, Result) or earlier.version is None or earlier.steps is None:
        raise InputError(f"start is {earlier!r}; expected the result of an npga.solve with a version of NPGA")
    old = Npga(earlier.problem, earlier.network, earlier.version, earlier.steps)
    unchanged = old.problem is method.problem and old.network is method.network and old.version is method.version
    if (unchanged and old.steps == method.steps) or old.identity == method.identity:
        return replace(earlier.state, iteration=0, rounds=0)
    x = method.problem.join(earlier.x, "start.x")
    lam = method.problem.dual(earlier.lam, "start.lam")
    return method.start(x, lam, old.memory(earlier.state))


def conclude(method: Npga, ended: Run) -> Result:
    """The result of a run."""
    state, problem = ended.state, method.problem
    messages = 2 * len(method.network.edges) * state.rounds
    return Result(
        x=state.x,
        lam=state.lam,
        blocks=problem.split(state.x),
        status=ended.status,
        message=method.blame() if ended.status is Status.DIVERGED else ended.status.message,
        iterations=state.iteration,
        rounds=state.rounds,
        messages=messages,
        floats_sent=messages * problem.p,
        seconds=ended.seconds,
        trace=ended.trace,
        method=method.name,
        steps=method.steps,
        version=method.version,
        path=method.path,
        state=state,
        problem=problem,
        network=method.network,
    )
