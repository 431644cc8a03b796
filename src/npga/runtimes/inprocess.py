"""All agents in one process: ``python -m npga.runtimes.inprocess job.toml``.

Here is also what the processes of every engine have in common: options, signals, exit codes, and the files that they
leave behind.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import logging
import math
import os
import signal
import sys
import threading
import time
import traceback
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from npga.errors import NpgaError
from npga.files import replacing, write_text
from npga.runtimes._data_files import PRIVATE
from npga.runtimes._faults import NOTICE, ExitCode, Stopped, exit_code
from npga.runtimes._job import Job, Layout, read_job
from npga.runtimes._party import LEVELS, LOG, Alone, Outcome, Party
from npga.runtimes._timeline import serve_metrics

_ORDERLY_SECONDS = 10.0  # to save and to say farewell, before a process whose launcher is gone is killed
_ONE_WORD_SECONDS = 3.0  # signals so close are one word, such as a terminal's to all and the launcher's to each


@dataclass(frozen=True)
class PartyOptions:
    """The options of one process."""

    job: Path
    out: Path | None
    resume: bool
    log: str
    party: int | None
    key: Path | None
    trust_code: bool = False
    from_zero: bool = False
    launched_by: Path | None = None
    metrics: str | None = None

    def begin_log(self) -> None:
        """Words of this level and above go to the standard error, with the number of the party."""
        who = "" if self.party is None else f"party {self.party}: "
        handler = logging.StreamHandler()
        handler.setFormatter(logging.Formatter(f"{who}%(message)s"))
        LOG.addHandler(handler)
        LOG.setLevel(self.log.upper())
        LOG.propagate = False


def parse_options(description: str | None, arguments: list[str] | None = None) -> PartyOptions:
    """Read the options of an engine's module."""
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("job", type=Path, help="job.toml")
    parser.add_argument("--out", type=Path, help="directory for results, checkpoints and metrics")
    parser.add_argument("--resume", action="store_true", help="go on from the newest checkpoint that all have")
    parser.add_argument("--log", choices=LEVELS, default="warning", help="what to say: info tells every check, debug "
                        "every round")  # fmt: skip
    parser.add_argument("--progress", dest="log", action="store_const", const="info", help="the same as --log info")
    parser.add_argument("--metrics", metavar="[HOST:]PORT", help="serve /metrics and /health there (npga[metrics])")
    parser.add_argument("--party", type=int, help="which party of the job this process is")
    parser.add_argument("--key", type=Path, help="private key of this party (default: as job.toml says)")
    parser.add_argument("--launched-by", type=Path, help=argparse.SUPPRESS)
    parser.add_argument("--from-zero", action="store_true", help="with --resume: begin at zero if this state is lost")
    parser.add_argument(
        "--trust-code", action="store_true", help="call the Python functions that the job names: read them first"
    )
    return PartyOptions(**vars(parser.parse_args(arguments)))


def run_process(
    description: str | None, build: Callable[[Job, PartyOptions], Party], not_met: int = ExitCode.NOT_MET
) -> None:
    """Run one party to its end; a failure is one sentence on the standard error and its `ExitCode`.

    `not_met` is the code where the tolerance is not: over MPI it is 0, because any other aborts the other ranks.
    """
    options, party, code = parse_options(description), None, int(ExitCode.DONE)
    try:
        _heed_signals()
        if options.launched_by is not None:
            end_with(options.launched_by)
        options.begin_log()
        party = build(read_job(options.job, options.trust_code), options)
        if options.metrics is not None:
            serve_metrics(options.metrics, party.logbook, party.job.times.patience)
        write_status(options.out, party, {"state": "running"})
        outcome = party.run(partial(write_outcome, options.out, party))
        if party.job.stop.tol is not None and not outcome.converged:
            code = int(not_met)
    except (Exception, KeyboardInterrupt) as error:
        NOTICE.is_ending = True
        if not isinstance(error, (NpgaError, Stopped, OSError)):
            traceback.print_exc()  # not foreseen: its own operator needs to know where
        who = "npga" if party is None else party.layout.title(party.me)
        print(f"{who}: {error or type(error).__name__}", file=sys.stderr, flush=True)
        code = int(exit_code(error))
        state = {"state": "stopped" if isinstance(error, Stopped) else "failed", "code": code}
        with contextlib.suppress(OSError):
            if party is not None:
                write_status(options.out, party, state | {"error": str(error), "kind": type(error).__name__})
    else:
        _heed_signals(False)  # all is written, and what is left, such as the end of MPI, may take its time
    raise SystemExit(code)


def _heed_signals(heeded: bool = True) -> None:
    """SIGTERM, SIGHUP and Ctrl-C end the run in order; a second one, later, ends the process.

    After an error the handlers stay until the process has ended: nothing may come between it and the files that tell of
    it. After a run that has finished they go, and a signal ends the process as any other.
    """
    first = math.inf

    def stop(number: int, _frame: Any) -> None:
        nonlocal first
        if math.isinf(first):
            first = time.monotonic()
            NOTICE.leave(number)
        elif time.monotonic() - first > _ONE_WORD_SECONDS:
            signal.signal(number, signal.SIG_DFL)
            os.kill(os.getpid(), number)

    NOTICE.stopped, NOTICE.is_ending = None, False
    for name in ("SIGTERM", "SIGHUP", "SIGINT"):
        if hasattr(signal, name):
            signal.signal(getattr(signal, name), stop if heeded else signal.SIG_DFL)


def end_with(lock: Path) -> None:
    """End this process in order when whoever holds the lock is gone, however it ended.

    One that has not by `_ORDERLY_SECONDS` later is in code that never comes back to Python, and is killed.
    """
    try:
        import fcntl
    except ImportError:  # no such locks on this system
        return

    def watch() -> None:
        with lock.open("rb") as file:
            fcntl.flock(file, fcntl.LOCK_SH)
        if NOTICE.stopped is None and not NOTICE.is_ending:  # who has been told already is not told twice
            os.kill(os.getpid(), signal.SIGTERM)
        time.sleep(_ORDERLY_SECONDS)
        os.kill(os.getpid(), signal.SIGKILL)

    threading.Thread(target=watch, daemon=True).start()


def write_status(out: Path | None, party: Party, values: dict[str, Any]) -> None:
    """Leave word of a party in ``party<k>.json``, replaced atomically."""
    if out is None:
        return
    row = {"party": party.me, "agents": list(party.layout.parties[party.me]), "pid": os.getpid()} | values
    write_text(out / f"party{party.me}.json", json.dumps(row, indent=1), mode=PRIVATE)


def write_outcome(out: Path | None, party: Party, outcome: Outcome) -> None:
    """Leave the solution of each agent in ``agent<i>.npz`` and the counts in ``party<k>.json``."""
    if out is not None:
        for i, x in outcome.x.items():
            with replacing(out / f"agent{i}.npz", mode=PRIVATE) as file:
                np.savez(file, x=x, lam=outcome.lam[i])
    values = {
        "state": "finished", "converged": outcome.converged,
        "kkt": outcome.kkt if math.isfinite(outcome.kkt) else None,
        "iterations": outcome.iterations, "rounds_in_all": outcome.rounds, "resumed_from": outcome.resumed_from,
        **outcome.totals,
    }  # fmt: skip
    write_status(out, party, values)


def party(job: Job, options: PartyOptions) -> Party:
    """One party that holds every agent."""
    layout = Layout(job.network, [range(job.n)])
    return Party(job, layout, 0, Alone(), options.out, options.resume, from_zero=options.from_zero)


def main() -> None:
    """Entry point of the module."""
    run_process(__doc__, party)


if __name__ == "__main__":
    main()
