"""Rehearse a job: start all its processes on this machine, wait for them, and gather what they leave."""

from __future__ import annotations

import json
import math
import os
import shlex
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

import numpy as np
from numpy.typing import NDArray

from npga.errors import InputError, NpgaError, nearest
from npga.files import replacing, write_text
from npga.runtimes._data_files import PRIVATE
from npga.runtimes._faults import ExitCode
from npga.runtimes._job import Job, Layout, read_job
from npga.runtimes._party import LEVELS
from npga.runtimes._saved_state import states_of
from npga.runtimes._streams import keygen

try:
    import fcntl

    _HAS_LOCKS = True
except ImportError:  # no such locks on this system
    _HAS_LOCKS = False

Array = NDArray[Any]
ENGINES = ("inprocess", "mpi", "grpc")
_POLL_SECONDS = 0.02
# Once one process has failed the others find out by themselves; who has not ended by then is stopped.
_GRACE_SECONDS = 5.0
_STOP_SECONDS = 12.0  # to end in order; `end_with` gives each process ten
_ENDED = "ended.txt"
_SUMS = ("messages", "floats_sent", "control_messages", "control_floats_sent", "bytes_sent")
_SAME = ("iterations", "converged", "control_rounds", "steps_rounds")
_THREADS = ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS", "VECLIB_MAXIMUM_THREADS")


class LaunchError(NpgaError):
    """A rehearsal did not reach its end; the message has one line for each process that failed.

    `is_bad_input` says that a process ended because of what it was given, such as a file that it could not read.
    """

    def __init__(self, message: str, is_bad_input: bool = False) -> None:
        super().__init__(message)
        self.is_bad_input = is_bad_input


@dataclass(frozen=True)
class Process:
    """One process that was started."""

    title: str
    handle: subprocess.Popen[str]
    log: Path


def launch(
    job: str | Path,
    engine: str = "inprocess",
    out: str | Path = "out",
    *,
    resume: bool = False,
    ranks: int | None = None,
    mpiexec: str | None = None,
    progress: bool = False,
    log: str = "warning",
    trust_code: bool = False,
    from_zero: bool = False,
    watch: Callable[[Sequence[Process]], None] | None = None,
) -> Summary:
    """Run all agents of a job on this machine.

    Parameters
    ----------
    job
        The job.toml.
    engine
        "inprocess", "mpi" or "grpc".
    out
        Directory for each agent's result, metrics, logs, checkpoints and the summary. What a finished run left there
        is removed.
    resume
        Go on from the newest checkpoint that all agents have.
    ranks
        Number of MPI processes; by default one for each agent.
    mpiexec
        The launcher; by default the one beside this Python, else the first on the PATH.
    progress
        The same as log="info".
    log
        What the parties say: "error", "warning", "info" (every check) or "debug" (every round). The last two are
        printed as they come, the others are found in ``logs``.
    trust_code
        Call the Python functions that the job names, if it names any: read them first.
    from_zero
        When resuming, begin at zero if a party has lost its state.
    watch
        Called with the processes once they run.

    Returns
    -------
    Summary
        The solution and the counts of work, traffic and time.

    Raises
    ------
    LaunchError
        If a process fails; says which and why.
    InputError
        If the directory holds a run that has not ended, or belongs to another job, and `resume` is false.
    """
    log = "info" if progress and log == "warning" else log
    for kind, word, known in (("engine", engine, ENGINES), ("log", log, LEVELS)):
        if word not in known:
            raise InputError(f"{kind} {word!r} arrived; {nearest(word, known)}")
    loaded, out = read_job(job, trust_code), Path(out)
    out.mkdir(parents=True, exist_ok=True)
    lock = _lock(out)
    common = [str(loaded.path), "--out", str(out.resolve()), "--launched-by", lock.name]
    common += ["--log", log] + ["--resume"] * resume + ["--trust-code"] * trust_code + ["--from-zero"] * from_zero
    begun = time.perf_counter()
    processes: list[Process] = []
    try:
        _clear(loaded, out, resume)
        _start(processes, loaded, engine, common, out, ranks, mpiexec, log in ("info", "debug"))
        if watch is not None:
            watch(processes)
        _wait(processes)
    finally:
        _stop(processes, lock)
    _raise_failures(processes, _layout(loaded, engine, ranks), out)
    return summarise(loaded, out, engine, time.perf_counter() - begun)


def _layout(job: Job, engine: str, ranks: int | None) -> Layout:
    return Layout.even(job.network, ranks or job.n) if engine == "mpi" else job.layout


def _lock(out: Path) -> IO[bytes]:
    """A lock that this process holds for as long as it lives: its children watch it, and a second launch is refused."""
    file = (out.resolve() / "launch.lock").open("wb")
    try:
        if _HAS_LOCKS:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        file.close()
        raise InputError(f"another launch is running in {out}; wait for it, or choose another directory") from None
    return file


def _clear(job: Job, out: Path, resume: bool) -> None:
    """Remove what an earlier run left; one that has not ended is refused, unless this one goes on from it.

    Each party does the same for itself. Here it is done for all before any is started, and for parties that an earlier
    run had and this one, with another engine, has not: their lines would be drawn with the new ones.
    """
    stale = [*out.glob("party*.json"), out / _ENDED, out / "summary.json", out / "solution.npz"]
    if not resume:
        for i in range(job.n):
            states_of(job, [i], out).refuse_unfinished()
        stale += [*out.glob("party*.jsonl"), *out.glob("logs/*.txt")]
    for path in stale:
        path.unlink(missing_ok=True)


def _start(
    processes: list[Process],
    job: Job,
    engine: str,
    common: list[str],
    out: Path,
    ranks: int | None,
    mpiexec: str | None,
    aloud: bool,
) -> None:
    python = [sys.executable]
    if engine == "inprocess":
        commands = {"all agents": [*python, "-m", "npga.runtimes.inprocess", *common]}
    elif engine == "mpi":
        starter = [mpiexec or find_mpiexec(), *_oversubscribe(mpiexec), "-n", str(ranks or job.n)]
        commands = {"mpiexec": [*starter, *_guard(out), *python, "-m", "mpi4py", "-m", "npga.runtimes.mpi", *common]}
    else:
        _rehearsal_keys(job)
        layout = job.layout
        commands = {
            layout.title(k): [*python, "-m", "npga.runtimes.net", *common, "--party", str(k)]
            for k in range(len(job.parties))
        }
    logs = out / "logs"
    logs.mkdir(mode=0o700, exist_ok=True)
    for k, (title, command) in enumerate(commands.items()):
        processes.append(_spawn(title, command, logs / f"{k}.txt", aloud))


def _spawn(title: str, command: list[str], log: Path, aloud: bool) -> Process:
    # One thread each: the processes share the cores, and sums in another order would be other bits.
    environment = os.environ | dict.fromkeys(_THREADS, "1") | {"PYTHONUNBUFFERED": "1"}
    with log.open("w") as file:
        stderr = None if aloud else file
        # A terminal's Ctrl-C does not reach `mpiexec`, which would kill its ranks before they have saved.
        apart = title == "mpiexec"
        handle = subprocess.Popen(
            command, stdout=file, stderr=stderr, text=True, env=environment, start_new_session=apart
        )
    return Process(title, handle, log)


def find_mpiexec() -> str:
    """The launcher of the MPI that this Python would load: the one beside it, else the first on the PATH."""
    beside = Path(sys.executable).parent / "mpiexec"
    found = str(beside) if beside.exists() else shutil.which("mpiexec")
    if found is None:
        raise InputError("no mpiexec was found; run: pip install 'npga[mpi]', or install an MPI and put it on the PATH")
    return found


def _oversubscribe(mpiexec: str | None) -> list[str]:
    """Options without which Open MPI refuses more processes than cores, or a container's root."""
    said = subprocess.run([mpiexec or find_mpiexec(), "--version"], capture_output=True, text=True, check=False).stdout
    if "Open MPI" not in said and "OpenRTE" not in said:
        return []
    root = ["--allow-run-as-root"] if os.geteuid() == 0 else []
    return [*root, "--oversubscribe", "--bind-to", "none", "--mca", "mpi_yield_when_idle", "1"]


def _guard(out: Path) -> list[str]:
    """A shell around each rank that notes who failed: mpiexec ends the others at once and may name any of them."""
    note = f'echo "${{PMI_RANK:-$OMPI_COMM_WORLD_RANK}} $code" >> {shlex.quote(str(out.resolve() / _ENDED))}'
    return ["sh", "-c", f'"$@"; code=$?; [ $code -eq 0 ] || {note}; exit $code', "npga"]


def _rehearsal_keys(job: Job) -> None:
    """On one machine all keys may be made at once; existing ones are used."""
    for k, party in enumerate(job.parties):
        if party.key is not None and party.certificate is not None and not party.key.exists():
            keygen(job, k)


def _wait(processes: Sequence[Process]) -> None:
    """Until all have ended, or some time after the first has failed."""
    deadline = float("inf")
    while any(process.handle.poll() is None for process in processes):
        if time.monotonic() > deadline:
            return
        if deadline == float("inf") and any(_failed(process) for process in processes):
            deadline = time.monotonic() + _GRACE_SECONDS
        time.sleep(_POLL_SECONDS)


def _failed(process: Process) -> bool:
    """Whether a process has ended, and not by finishing."""
    return process.handle.returncode not in (None, ExitCode.DONE, ExitCode.NOT_MET)


def _stop(processes: Sequence[Process], lock: IO[bytes]) -> None:
    """Let go of the lock, which tells every process to end in order; `mpiexec`, told itself, would kill its ranks."""
    lock.close()
    deadline = time.monotonic() + (_STOP_SECONDS if _HAS_LOCKS else 0.0)
    for end in (subprocess.Popen.terminate, subprocess.Popen.kill):
        for process in processes:
            try:
                process.handle.wait(max(deadline - time.monotonic(), _POLL_SECONDS))
            except subprocess.TimeoutExpired:
                end(process.handle)
        deadline = time.monotonic() + _GRACE_SECONDS
    for process in processes:
        process.handle.wait()


def _raise_failures(processes: Sequence[Process], layout: Layout, out: Path) -> None:
    lines = []
    for process in processes:
        code = process.handle.returncode
        if _failed(process):
            said = process.log.read_text(errors="replace")
            ended = f"ended by signal {-code}" if code < 0 else f"exit code {code}"
            words = [line.strip() for line in said.splitlines() if line.strip(" =-\n")]
            culprit = _first_to_end(layout, out) if process.title == "mpiexec" else ""
            lines.append(f"{process.title}: {ended}; {culprit}" + " | ".join(words[:8] or ["it said nothing"]))
    if lines:
        codes = {process.handle.returncode for process in processes} | {code for _, code in _ranks_that_failed(out)}
        message = f"the run failed (logs in {out / 'logs'}):\n  " + "\n  ".join(lines)
        raise LaunchError(message, ExitCode.BAD_INPUT in codes)


def _ranks_that_failed(out: Path) -> list[tuple[int, int]]:
    """Ranks of MPI and their exit codes, in the order in which they ended."""
    lines = (out / _ENDED).read_text().splitlines() if (out / _ENDED).exists() else []
    return [(int(rank), int(code)) for rank, code in (line.split() for line in lines)]


def _first_to_end(layout: Layout, out: Path) -> str:
    """The rank that ended by itself before mpiexec ended the others."""
    failed = _ranks_that_failed(out)
    if not failed:
        return ""
    rank, code = failed[0]
    ended = f"signal {code - 128}" if code > 128 else f"exit code {code}"
    return f"{layout.title(rank)} ended first, with {ended} | "


@dataclass(frozen=True)
class Summary:
    """A finished run.

    Parameters
    ----------
    x, lam
        The solution: concatenated blocks, and the n x p array of the agents' dual vectors.
    iterations, rounds
        Work done, over all sessions of a resumed run.
    converged, kkt
        Whether the agents found their bound on the residual below the tolerance, and that bound (nan: not asked); it is
        one if all parties follow the protocol.
    messages, floats_sent
        Vectors sent from agent to neighbour in this session, and the numbers in them; as `npga.solve` counts.
    control_messages, control_floats_sent
        The same for agreeing on the start, on steps that the job does not name, and on when to stop.
    control_rounds, steps_rounds
        Rounds of such agreeing in this session, and those of them that steps took.
    bytes_sent
        Bytes that left a process, headers and control messages included.
    seconds, slowest_seconds
        Wall time with and without starting the processes.
    """

    x: Array
    lam: Array
    iterations: int
    rounds: int
    converged: bool
    kkt: float
    messages: int
    floats_sent: int
    control_messages: int
    control_floats_sent: int
    bytes_sent: int
    seconds: float
    slowest_seconds: float
    control_rounds: int = 0
    steps_rounds: int = 0


def summarise(job: Job, out: Path, engine: str, seconds: float) -> Summary:
    """Read the parties' files, check that they tell the same story, and write solution.npz and summary.json."""
    rows = [json.loads(path.read_text()) for path in sorted(out.glob("party*.json"))]
    held = sorted(i for row in rows for i in row["agents"])
    if held != list(range(job.n)):
        raise InputError(f"{out} holds results of the agents {held}; expected all of 0..{job.n - 1}")
    for key in ("iterations", "rounds_in_all", "converged"):
        if len({row[key] for row in rows}) != 1:
            raise InputError(f"the parties disagree on {key}: {[row[key] for row in rows]}; the results cannot be used")
    files = [np.load(out / f"agent{i}.npz", allow_pickle=False) for i in range(job.n)]
    x, lam = np.concatenate([file["x"] for file in files]), np.stack([file["lam"] for file in files])
    summary = Summary(
        x=x, lam=lam, rounds=rows[0]["rounds_in_all"], kkt=math.nan if rows[0]["kkt"] is None else rows[0]["kkt"],
        seconds=seconds, slowest_seconds=max(row["seconds"] for row in rows),
        **{key: rows[0][key] for key in _SAME}, **{key: sum(row[key] for row in rows) for key in _SUMS},
    )  # fmt: skip
    with replacing(out / "solution.npz", mode=PRIVATE) as file:
        np.savez(file, x=x, lam=lam)
    written = {key: value for key, value in vars(summary).items() if key not in ("x", "lam")}
    written |= {"job": job.name, "digest": job.digest, "engine": engine, "processes": len(rows), "x": "solution.npz"}
    written["kkt"] = summary.kkt if math.isfinite(summary.kkt) else None
    write_text(out / "summary.json", json.dumps(written, indent=1))
    return summary
