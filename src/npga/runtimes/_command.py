"""The command line that every engine's module shares, and the files that a party leaves behind."""

from __future__ import annotations

import argparse
import json
import math
import os
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from npga.errors import NpgaError
from npga.runtimes._job import Job, read_job
from npga.runtimes._party import Outcome, Party, Report


@dataclass(frozen=True)
class Command:
    """The options of one process."""

    job: Path
    out: Path | None
    resume: bool
    progress: bool
    party: int | None
    key: Path | None

    @property
    def report(self) -> Report | None:
        """Where progress goes: the standard error, with the number of the party."""
        if not self.progress:
            return None
        who = "" if self.party is None else f"party {self.party}: "
        return lambda line: print(f"{who}{line}", file=sys.stderr, flush=True)


def parse(description: str | None, arguments: list[str] | None = None) -> Command:
    """Read the options of an engine's module."""
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("job", type=Path, help="job.toml")
    parser.add_argument("--out", type=Path, help="directory for results, checkpoints and metrics")
    parser.add_argument("--resume", action="store_true", help="go on from the newest checkpoint that all have")
    parser.add_argument("--progress", action="store_true", help="say at every check how far the run has come")
    parser.add_argument("--party", type=int, help="which party of the job this process is")
    parser.add_argument("--key", type=Path, help="private key of this party (default: as job.toml says)")
    return Command(**vars(parser.parse_args(arguments)))


def run_command(description: str | None, build: Callable[[Job, Command], Party]) -> None:
    """Run one party to its end; a failure is one sentence on the standard error and exit code 1."""
    command = parse(description)
    party = None
    try:
        party = build(read_job(command.job), command)
        write_status(command.out, party, {"state": "running"})
        outcome = party.run()
        write_outcome(command.out, party, outcome)
    except NpgaError as error:
        who = "npga" if party is None else party.layout.title(party.me)
        print(f"{who}: {error}", file=sys.stderr, flush=True)
        if party is not None:
            write_status(command.out, party, {"state": "failed", "error": str(error), "kind": type(error).__name__})
        raise SystemExit(1) from None


def write_status(out: Path | None, party: Party, values: dict[str, Any]) -> None:
    """Leave word of a party in ``party<k>.json``, replaced atomically."""
    if out is None:
        return
    out.mkdir(parents=True, exist_ok=True)
    path = out / f"party{party.me}.json"
    row = {"party": party.me, "agents": list(party.layout.parties[party.me]), "pid": os.getpid()} | values
    temporary = path.with_suffix(".part")
    temporary.write_text(json.dumps(row, indent=1))
    temporary.replace(path)


def write_outcome(out: Path | None, party: Party, outcome: Outcome) -> None:
    """Leave the solution of each agent in ``agent<i>.npz`` and the counts in ``party<k>.json``."""
    if out is not None:
        for i, x in outcome.x.items():
            temporary = out / f"agent{i}.part"
            with temporary.open("wb") as file:
                np.savez(file, x=x, lam=outcome.lam[i])
            temporary.replace(out / f"agent{i}.npz")
    values = {
        "state": "finished", "converged": outcome.converged,
        "residual": outcome.residual if math.isfinite(outcome.residual) else None,
        "iterations": outcome.iterations, "rounds_in_all": outcome.rounds, "resumed_from": outcome.resumed_from,
        **outcome.totals,
    }  # fmt: skip
    write_status(out, party, values)
