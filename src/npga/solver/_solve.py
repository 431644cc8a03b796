"""Solve P1 with given steps: one call, any method, one result; and what accompanies the loop on its way.

`method_for` chooses between the implementations of NPGA; `Saver` keeps a run in one file, written atomically, and
resumes it with the same bits.
"""

from __future__ import annotations

import json
import math
import time
from collections.abc import Callable
from dataclasses import asdict, fields
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from npga.errors import InputError, nearest
from npga.extras import Tell, show_progress
from npga.files import replacing
from npga.networks import Network, Version
from npga.networks import version as find_version
from npga.problem import ConsensusProblem, Problem
from npga.solver._loop import Callback, Meter, Method, Run, S, Yardstick, run
from npga.solver._methods import ABSENT, METHODS, MethodRow
from npga.solver._packing import UnsupportedError
from npga.solver._recursion import Npga
from npga.solver._result import COLUMNS, AgentTrace, Record, Result, Status, Trace
from npga.solver._stopping import Limits, is_resolved, refuse_both, whole_number
from npga.steps import Steps, with_fixed

TRACES, PATHS = ("records", "agents"), ("auto", "compiled", "vectorised")
# Of a checkpoint.
_FORMAT = 3


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
    chosen = _method(method, problem, network, version, steps, path)
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
    callback = _watched(trace, chosen.problem, begun, callback)
    with show_progress(chosen.name, progress) as tell:
        observers: list[Callable[[Run[Any]], None]] = [] if tell is None else [run_observer(tell, limits)]
        observers += [saving] if saving else []
        ended = run(chosen, meter, begun, limits, record_every=record_every, callback=callback, observers=observers)
    if saving:
        saving.save(ended)
    return conclude(chosen, ended)


# ------------------------------------------------------------------ which method, and which implementation of it


def _method(
    method: str | Method[Any],
    problem: Problem | ConsensusProblem,
    network: Network,
    version: str | Version | None,
    steps: Steps | None,
    path: str,
) -> Method[Any]:
    """The method that was asked for; what it cannot solve is refused."""
    if steps is not None and not isinstance(steps, Steps):
        raise InputError(f"steps is a {type(steps).__name__}; expected npga.Steps(alpha=, beta=, gamma=, theta=)")
    if isinstance(method, Method):
        return _given(method, problem, network, version, steps)
    row = _row(method, problem)
    if version is not None and row.version is None:
        raise InputError(f"version = {version!r} arrived for the method {row.name}, which has none; leave it out")
    if path == "compiled" and row.compiled is None:
        raise InputError(f'path is {path!r}, but {row.name} has no kernel; use path="auto" or path="vectorised"')
    problem.expect(network, steady=not row.unsteady)
    why = row.refuses(problem) if row.refuses else None
    if why is not None:
        raise InputError(f"{row.name} cannot solve this problem: {why}; npga.methods() says what each method solves")
    if row.version == "" and (version is None or steps is None):
        raise InputError("a version and steps are needed here; npga.solve finds them where they are not given")
    kind = None if row.version is None else find_version(version or row.version)
    if steps is None:
        if row.choose is None:
            raise InputError(f"{row.name} needs steps; pass steps=npga.Steps(alpha=, beta=, ...)")
        steps = row.choose(problem, network, kind)
    elif row.name == "npga" and kind is not None:
        steps = with_fixed(steps, kind.fixed, kind.name)
    return _by_path(path, row, problem, network, kind, steps)


def _row(name: Any, problem: Problem | ConsensusProblem) -> MethodRow:
    """The row of a method; a consensus problem is solved by PUDA where nothing else is said."""
    if name == "npga" and isinstance(problem, ConsensusProblem):
        name = "puda"
    if isinstance(name, str) and name.lower() in ABSENT:
        raise InputError(f"method {name!r} is absent: {ABSENT[name.lower()]}; npga.methods() has the others")
    row = METHODS.get(name) if isinstance(name, str) else None
    if row is None:
        raise InputError(f"method {name!r} is unknown; {nearest(str(name), METHODS)}")
    if not isinstance(problem, row.problem):
        raise InputError(f"{row.name} solves {row.solves}; a {type(problem).__name__} arrived: see npga.methods()")
    return row


def _given(
    method: Method[Any], problem: Any, network: Network, version: str | Version | None, steps: Steps | None
) -> Method[Any]:
    """A method object as it is, if nothing else was said about it."""
    if method.problem is not problem or method.network is not network:
        raise InputError(f"{method.name} was made for another problem or network; expected those that it holds")
    if version is not None or steps is not None:
        raise InputError(
            f"{method.name} was given as an object, which has its steps already; leave version and steps out"
        )
    return method


def method_for(problem: Problem, network: Network, version: Version, steps: Steps, path: str = "auto") -> Npga:
    """NPGA by the path that was asked for; "auto" is compiled where that is possible.

    Functions of `npga.functions` except `Custom` (and except `Quadratic` and `LeastSquares` as g or h), dense and
    sparse matrices, and versions given by polynomials are compiled.
    """
    made = _by_path(path, METHODS["npga"], problem, network, version, steps)
    assert isinstance(made, Npga)
    return made


def _by_path(path: str, row: MethodRow, *what: Any) -> Method[Any]:
    """The compiled form where it was asked for, or where it is possible."""
    if path not in PATHS:
        raise InputError(f"path is {path!r}; expected one of {', '.join(PATHS)}")
    reason = "" if path == "vectorised" else f"{row.name} has no kernel"
    if row.compiled is not None and path != "vectorised":
        try:
            return row.compiled(*what)
        except UnsupportedError as culprit:
            reason = str(culprit)
        if path == "compiled":
            raise InputError(f'path="compiled" was asked for, but {reason}; use path="auto" or path="vectorised"')
    made = row.make(*what)
    made.path_reason = reason
    return made


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


# ------------------------------------------------------------------ on the way


def _watched(trace: str, problem: Problem, begun: Run[Any], callback: Callback | None) -> Callback | None:
    """The callback, which measures every agent first where that is asked for."""
    if trace not in TRACES:
        raise InputError(f"trace is {trace!r}; {nearest(str(trace), TRACES)}")
    if trace == "records":
        return callback
    agents = begun.trace.agents = AgentTrace()
    clock = time.perf_counter() - begun.seconds

    def watch(record: Record, state: Any) -> bool | None:
        agents.add(problem, state, time.perf_counter() - clock)
        return None if callback is None else callback(record, state)

    return watch


def run_observer(tell: Tell, limits: Limits) -> Callable[[Run[Any]], None]:
    """An observer of the loop that tells how far log10 of what is wanted small has come on its way to its limit."""

    def share(value: float, wanted: float | None) -> float:
        return math.log(value) / math.log(wanted) if wanted and wanted < 1.0 and 0.0 < value < 1.0 else 0.0

    def observe(run: Run[Any]) -> None:
        record = run.trace[-1]
        done = record.iteration / max(limits.max_iters, 1)
        done = max(done, share(record.kkt, limits.tol), share(record.gap, limits.gap_tol))
        tell(min(done, 1.0), f"iteration {record.iteration}, round {record.round}, kkt {record.kkt:.1e}")

    return observe


class Saver:
    """Saves a run now and then, and reads it back.

    Parameters
    ----------
    path
        The file.
    method, meter
        Who runs, which identifies the run, and who measures it.
    seconds
        Least time between two saves on the way.
    """

    def __init__(self, path: Path, method: Method[Any], meter: Meter[Any], seconds: float) -> None:
        self._path, self._method, self._meter, self._pause = path, method, meter, seconds
        self._saved = time.monotonic()

    def __call__(self, run: Run[Any]) -> None:
        """Save if the last save is long enough ago; an observer of the loop."""
        if time.monotonic() - self._saved >= self._pause:
            self.save(run)

    def save(self, run: Run[Any]) -> None:
        """Write the state, the trace and what identifies the run; an interrupted write leaves the old file."""
        head = {
            "format": _FORMAT,
            "identity": self._method.identity,
            "iteration": run.state.iteration,
            "rounds": run.state.rounds,
            "inner": run.state.inner,
            "seconds": run.seconds,
            "meter": asdict(self._meter.yardstick),
        }
        columns = {f"trace_{name}": run.trace[name] for name in COLUMNS}
        with replacing(self._path, durable=True) as file:
            np.savez(file, head=np.array(json.dumps(head)), **run.state.arrays(), **columns)
        self._saved = time.monotonic()

    def load(self) -> Run[Any]:
        """Read a run back; refuse one of another method, problem, network, version or steps."""
        path = self._path
        if not path.exists():
            raise InputError(f"no checkpoint at {path}; leave resume=True out to begin one there")
        with np.load(path, allow_pickle=False) as file:
            stored = {name: file[name] for name in file.files}
        head = json.loads(str(stored.pop("head")))
        if head["format"] != _FORMAT:
            raise InputError(
                f"{path} has format {head['format']}; this release of npga reads format {_FORMAT}: leave resume=True "
                "out to begin again, or resume with the release that wrote it"
            )
        identity = json.loads(json.dumps(self._method.identity))  # a tuple is read back as a list
        for key, value in identity.items():
            found = head["identity"].get(key)
            if found != value:
                raise InputError(
                    f"{path} belongs to a run with {key} {found}, but this one has {value}; resume with the same "
                    "arguments, or choose another file"
                )
        columns = [stored.pop(f"trace_{name}").tolist() for name in COLUMNS]
        trace = Trace([Record(*row) for row in zip(*columns, strict=True)])
        self._meter.yardstick = Yardstick(**head["meter"])
        state = self._method.kind.from_arrays(stored, head["iteration"], head["rounds"], head.get("inner", 0))
        return Run(state, trace, seconds=head["seconds"])
