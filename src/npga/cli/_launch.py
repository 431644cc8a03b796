"""The commands on a job, whose agents are apart: launch, check, keygen, timeline."""

from __future__ import annotations

import json
import math
import subprocess
import sys
from pathlib import Path
from typing import Annotated, Any

import typer

from npga.cli._output import NOT_MET, add_command, speaking

JobFile = Annotated[Path, typer.Argument(help="The job.toml.")]
TrustCode = Annotated[
    bool, typer.Option("--trust-code", help="Call the Python functions that the job names; read them first.")
]


def register(app: typer.Typer) -> None:
    """Add the commands of this module to an application."""
    add_command(
        app,
        launch,
        "npga launch job.toml",
        "npga launch job.toml --engine mpi --ranks 4 --out run",
        "npga launch job.toml --engine grpc --resume --progress",
    )
    add_command(app, check, "npga check job.toml", "npga check job.toml --party 3 --key private/3.key")
    add_command(app, keygen, "npga keygen job.toml", "npga keygen job.toml --party 3")
    add_command(app, timeline, "npga timeline out", "npga timeline run --figure run.svg")


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
        except runtimes.LaunchError as error:  # the input was good
            typer.echo(f"npga: {error}", err=True)
            raise typer.Exit(NOT_MET) from None
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


def timeline(
    out: Annotated[Path, typer.Argument(help="Directory of a launch.")],
    figure: Annotated[Path, typer.Option(help="Where to draw.")] = Path("timeline.png"),
) -> None:
    """Draw when each party computed and when it waited."""
    from npga import runtimes

    with speaking():
        typer.echo(str(runtimes.plot_timeline(out, figure)))
