"""Rehearse a job: start all its processes on this machine, wait for them, and gather what they leave."""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from npga.errors import InputError, NpgaError, nearest
from npga.runtimes._job import Job, read_job
from npga.runtimes._keys import keygen
from npga.runtimes._layout import Layout
from npga.runtimes._summary import Summary, summarise

ENGINES = ("inprocess", "mpi", "grpc")
_POLL_SECONDS = 0.02
# Once one process has failed the others find out by themselves; who has not ended by then is stopped.
_GRACE_SECONDS = 5.0
_ENDED = "ended.txt"
_THREADS = ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS", "VECLIB_MAXIMUM_THREADS")


class LaunchError(NpgaError):
    """A rehearsal did not reach its end; the message has one line for each process that failed."""


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
        Directory for each agent's result, metrics, logs, checkpoints and the summary.
    resume
        Go on from the newest checkpoint that all agents have.
    ranks
        Number of MPI processes; by default one for each agent.
    mpiexec
        The launcher; by default the one beside this Python, else the first on the PATH.
    progress
        Print the parties' progress lines.
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
    """
    if engine not in ENGINES:
        raise InputError(f"engine {engine!r} arrived; {nearest(engine, ENGINES)}")
    loaded, out = read_job(job), Path(out)
    out.mkdir(parents=True, exist_ok=True)
    for stale in (*out.glob("party*.json"), out / _ENDED):
        stale.unlink(missing_ok=True)
    common = [str(loaded.path), "--out", str(out.resolve())]
    common += ["--resume"] * resume + ["--progress"] * progress
    begun = time.perf_counter()
    processes = _start(loaded, engine, common, out, ranks, mpiexec, progress)
    try:
        if watch is not None:
            watch(processes)
        _wait(processes)
    finally:
        _stop(processes)
    _raise_failures(processes, _layout(loaded, engine, ranks), out)
    return summarise(loaded, out, engine, time.perf_counter() - begun)


def _layout(job: Job, engine: str, ranks: int | None) -> Layout:
    return Layout.even(job.network, ranks or job.n) if engine == "mpi" else job.layout


def _start(
    job: Job, engine: str, common: list[str], out: Path, ranks: int | None, mpiexec: str | None, progress: bool
) -> list[Process]:
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
    logs.mkdir(exist_ok=True)
    return [_spawn(title, command, logs / f"{k}.txt", progress) for k, (title, command) in enumerate(commands.items())]


def _spawn(title: str, command: list[str], log: Path, progress: bool) -> Process:
    # One thread each: the processes share the cores, and sums in another order would be other bits.
    environment = os.environ | dict.fromkeys(_THREADS, "1") | {"PYTHONUNBUFFERED": "1"}
    with log.open("w") as file:
        stderr = None if progress else file
        handle = subprocess.Popen(command, stdout=file, stderr=stderr, text=True, env=environment)
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
        if deadline == float("inf") and any(process.handle.returncode for process in processes):
            deadline = time.monotonic() + _GRACE_SECONDS
        time.sleep(_POLL_SECONDS)


def _stop(processes: Sequence[Process]) -> None:
    for process in processes:
        if process.handle.poll() is None:
            process.handle.terminate()
    for process in processes:
        try:
            process.handle.wait(1.0)
        except subprocess.TimeoutExpired:
            process.handle.kill()
            process.handle.wait()


def _raise_failures(processes: Sequence[Process], layout: Layout, out: Path) -> None:
    lines = []
    for process in processes:
        code = process.handle.returncode
        if code:
            said = process.log.read_text(errors="replace")
            ended = f"ended by signal {-code}" if code < 0 else f"exit code {code}"
            words = [line.strip() for line in said.splitlines() if line.strip(" =-\n")]
            culprit = _first_to_end(layout, out) if process.title == "mpiexec" else ""
            lines.append(f"{process.title}: {ended}; {culprit}" + " | ".join(words[:8] or ["it said nothing"]))
    if lines:
        raise LaunchError(f"the run failed (logs in {out / 'logs'}):\n  " + "\n  ".join(lines))


def _first_to_end(layout: Layout, out: Path) -> str:
    """The rank that ended by itself before mpiexec ended the others."""
    lines = (out / _ENDED).read_text().splitlines() if (out / _ENDED).exists() else []
    if not lines:
        return ""
    rank, code = map(int, lines[0].split())
    ended = f"signal {code - 128}" if code > 128 else f"exit code {code}"
    return f"{layout.title(rank)} ended first, with {ended} | "
