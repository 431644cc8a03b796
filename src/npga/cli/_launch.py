"""The commands on a job, whose agents are apart: launch, check, keygen, and timeline and watch of its runs."""

from __future__ import annotations

import json
import math
import subprocess
import sys
import time
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Group
from rich.live import Live
from rich.table import Table
from rich.text import Text

from npga.cli._output import BAD_INPUT, NOT_MET, command, console, speaking

_ENDED = ("finished", "failed", "stopped")
_REFRESH_SECONDS = 0.5
_COLUMNS = ("party", "agents", "state", "iteration", "rounds", "agreeing", "residual", "beta", "computing", "waiting",
            "waits for", "last sign")  # fmt: skip
_COLOURS = {"finished": "green", "failed": "red", "stopped": "yellow"}
JobFile = Annotated[Path, typer.Argument(help="The job.toml.")]
TrustCode = Annotated[
    bool, typer.Option("--trust-code", help="Call the Python functions that the job names; read them first.")
]


@command(
    "npga launch job.toml",
    "npga launch job.toml --engine mpi --ranks 4 --out run",
    "npga launch job.toml --engine grpc --resume --progress",
)
def launch(
    job: JobFile,
    engine: Annotated[str, typer.Option(help="inprocess, mpi or grpc.")] = "inprocess",
    out: Annotated[Path, typer.Option(help="Directory for results, logs, metrics and checkpoints.")] = Path("out"),
    resume: Annotated[bool, typer.Option("--resume", help="Go on from the newest checkpoint that all have.")] = False,
    ranks: Annotated[int | None, typer.Option(help="MPI processes; one for each agent by default.")] = None,
    mpiexec: Annotated[str | None, typer.Option(help="Which mpiexec to use.")] = None,
    progress: Annotated[bool, typer.Option("--progress", help="The same as --log info.")] = False,
    log: Annotated[str, typer.Option(help="error, warning, info (every check) or debug (every round).")] = "warning",
    trust_code: TrustCode = False,
) -> None:
    """Rehearse a job: run all its agents on this machine."""
    from npga import runtimes

    with speaking():
        try:
            options: dict[str, Any] = {"resume": resume, "ranks": ranks, "mpiexec": mpiexec}
            done = runtimes.launch(job, engine, out, progress=progress, log=log, trust_code=trust_code, **options)
        except runtimes.LaunchError as error:
            typer.echo(f"npga: {error}", err=True)
            raise typer.Exit(BAD_INPUT if error.is_bad_input else NOT_MET) from None
    state = "converged" if done.converged else "finished"
    typer.echo(
        f"{state} after {done.iterations} iterations, {done.rounds} rounds and {done.control_rounds} of agreeing "
        f"({done.steps_rounds} on steps); {done.messages} messages, "
        f"{done.floats_sent} numbers, {done.bytes_sent} bytes sent; "
        f"{done.slowest_seconds:.2f} s ({done.seconds:.2f} s with starting)"
    )
    typer.echo(f"solution in {out / 'solution.npz'}, summary in {out / 'summary.json'}")
    if not done.converged and not math.isnan(done.kkt):
        raise typer.Exit(NOT_MET)


@command("npga check job.toml", "npga check job.toml --party 3 --key private/3.key")
def check(
    job: JobFile,
    party: Annotated[int | None, typer.Option(help="This party; all of them on this machine by default.")] = None,
    key: Annotated[Path | None, typer.Option(help="Its private key, if not where job.toml says.")] = None,
    trust_code: TrustCode = False,
) -> None:
    """Check reachability, certificates, clocks, versions, job and p at both ends of every link, before a run."""
    from npga import runtimes

    with speaking():
        loaded = runtimes.read_job(job, trust_code)
        if party is not None:
            loaded.party(party)
    chosen = range(len(loaded.parties)) if party is None else [party]
    option = [] if key is None else ["--key", str(key)]
    option += ["--trust-code"] * trust_code
    command = [sys.executable, "-m", "npga.runtimes.preflight", str(job), *option]
    running = [
        subprocess.Popen([*command, "--party", str(k)], stdout=subprocess.PIPE, text=True, stderr=subprocess.PIPE)
        for k in chosen
    ]
    bad = 0
    for k, process in zip(chosen, running, strict=True):
        said, trouble = process.communicate()
        findings: list[dict[str, Any]] = [json.loads(line) for line in said.splitlines()]
        for finding in findings:
            mark = "BAD" if not finding["ok"] else "!! " if finding["warning"] else "ok "
            typer.echo(f"{mark}  party {finding['party']}  {finding['subject']}: {finding['detail']}")
        if process.returncode and all(finding["ok"] for finding in findings):
            typer.echo(f"BAD  party {k}  {trouble.strip().splitlines()[-1:]}")
        bad += bool(process.returncode)
    if bad:
        raise typer.Exit(NOT_MET)


@command("npga keygen job.toml", "npga keygen job.toml --party 3")
def keygen(
    job: JobFile,
    party: Annotated[int | None, typer.Option(help="The party whose key to make; all of them by default.")] = None,
    trust_code: TrustCode = False,
) -> None:
    """Make private keys and self-signed certificates where job.toml says."""
    from npga import runtimes

    with speaking():
        for path in runtimes.keygen(runtimes.read_job(job, trust_code), party):
            typer.echo(str(path))


@command("npga timeline out", "npga timeline run --figure run.svg")
def timeline(
    out: Annotated[Path, typer.Argument(help="Directory of a launch.")],
    figure: Annotated[Path, typer.Option(help="Where to draw.")] = Path("timeline.png"),
) -> None:
    """Draw when each party computed and when it waited."""
    from npga import runtimes

    with speaking():
        typer.echo(str(runtimes.plot_timeline(out, figure)))


@command("npga watch out", "npga watch out --once")
def watch(
    out: Annotated[Path, typer.Argument(help="Directory of a launch, or of one party.")],
    once: Annotated[bool, typer.Option("--once", help="Print the present state and end.")] = False,
) -> None:
    """Watch a run: how far each party is, its residual and steps, and who waits for whom.

    Ends when all parties have ended, or with Ctrl-C; a finished run is shown as it ended. Times are milliseconds of a
    round: computing, and waiting for messages.
    """
    from npga import runtimes

    with speaking():
        rows = runtimes.read_last(out)
        screen = console()
        if once or _over(rows):
            screen.print(_picture(rows))
            return
        with Live(_picture(rows), console=screen, auto_refresh=False) as live:
            while not _over(rows):
                time.sleep(_REFRESH_SECONDS)
                rows = runtimes.read_last(out)
                live.update(_picture(rows), refresh=True)


def _over(rows: dict[int, dict[str, Any]]) -> bool:
    return all(row.get("state") in _ENDED for row in rows.values())


def _picture(rows: dict[int, dict[str, Any]]) -> Group:
    """A table with a row for each party, and a line about all of them."""
    table = Table(header_style="bold")
    for name in _COLUMNS:
        table.add_column(name, justify="left" if name in ("agents", "state", "waits for") else "right")
    for party, row in rows.items():
        table.add_row(*_cells(party, row))
    errors = [Text(f"party {k}: {row['error']}", style="red") for k, row in rows.items() if row.get("error")]
    return Group(table, *errors, Text(_in_short(rows)))


def _cells(party: int, row: dict[str, Any]) -> list[Text | str]:
    state = row.get("state", "-")
    ages = "" if state in _ENDED or "time" not in row else f"{max(time.time() - row['time'], 0.0):.1f} s ago"
    return [
        str(party), _agents(row.get("agents", [])), Text(state, style=_COLOURS.get(state, "")),
        str(row.get("iteration", "-")), str(row.get("rounds", "-")), str(row.get("control_rounds", "-")),
        _number(row.get("residual"), ".1e"), _number(row.get("steps", {}).get("beta"), ".3g"),
        _number(row.get("computing_per_round"), ".2f", 1e3), _number(row.get("waiting_per_round"), ".2f", 1e3),
        _waits(row), ages,
    ]  # fmt: skip


def _number(value: float | None, form: str, scale: float = 1.0) -> str:
    return "-" if value is None else f"{scale * value:{form}}"


def _agents(agents: list[int]) -> str:
    if len(agents) > 2 and agents == list(range(agents[0], agents[-1] + 1)):
        return f"{agents[0]} to {agents[-1]}"
    return ", ".join(map(str, agents))


def _waits(row: dict[str, Any]) -> str:
    """Who keeps this party waiting now, else for whom it has waited most so far."""
    late = row.get("waits_for")
    if late and row.get("state") not in _ENDED:
        return f"party {', '.join(map(str, late))}, now"
    waited = row.get("waited_for") or {}
    if not waited or not sum(waited.values()):
        return ""
    most = max(waited, key=lambda party: waited[party])
    return f"party {most} ({100 * waited[most] / sum(waited.values()):.0f} %)"


def _in_short(rows: dict[int, dict[str, Any]]) -> str:
    counts = [row["iteration"] for row in rows.values() if "iteration" in row]
    known = [row["residual"] for row in rows.values() if row.get("residual") is not None]
    states = [row.get("state", "-") for row in rows.values()]
    words = ", ".join(f"{states.count(state)} {state}" for state in dict.fromkeys(states))
    reached = "no iteration yet"
    if counts:
        reached = (
            f"iteration {min(counts)}" if min(counts) == max(counts) else f"iterations {min(counts)} to {max(counts)}"
        )
    return f"{words}; {reached}" + (f"; residual at most {max(known):.1e}" if known else "")
