"""A soak: a run over gRPC that is disturbed every few seconds, and must end with the bits of an undisturbed one.

    PYTHONPATH=tests python -m helpers.soak DIR --minutes 30 --parties 13 --seed 0

Every party runs behind a proxy, under a loop that starts it again with --resume for as long as its exit code says so.
Parties are killed, stopped in order and frozen; connections are cut, half closed, refused and stalled. At the end every
party is told to stop, a few hundred iterations are added without a fault, and the result is compared bit by bit.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import random
import signal
import sys
import threading
import time
from collections import Counter
from pathlib import Path

from helpers.proxy import Rehearsal
from npga.runtimes import ExitCode

FOR_EVER = 10_000_000
AFTERWARDS = 200


class Supervisor(threading.Thread):
    """Starts a party again with --resume for as long as its exit code asks for it."""

    def __init__(self, run, k):
        super().__init__(daemon=True)
        self.run_of, self.k, self.stopping, self.codes, self.words = run, k, False, Counter(), ""

    def run(self):
        while not self.stopping:
            party = self.run_of.parties[self.k]
            _, said = party.communicate()
            self.codes[party.returncode] += 1
            self.words = said
            with (self.run_of.out / f"ends{self.k}.txt").open("a") as file:
                file.write(f"{time.time():.1f} exit code {party.returncode}\n{said}\n")
            again = party.returncode == ExitCode.TRY_AGAIN or party.returncode < 0 or party.returncode > 128
            if self.stopping or not again:
                return
            time.sleep(0.2)
            if self.stopping:
                return
            self.run_of.parties[self.k] = self.run_of.start(self.k, "--resume")


def disturb(run, chance):
    """One fault; returns its name."""
    what = chance.choices(
        ["cut", "half close", "stall", "refuse", "freeze", "kill", "stop"], weights=[6, 3, 4, 3, 4, 1, 1]
    )[0]
    proxy, k, seconds = chance.choice(run.proxies), chance.randrange(run.n), chance.uniform(1.0, 8.0)
    party = run.parties[k]
    if what == "cut":
        proxy.cut()
    elif what == "half close":
        proxy.half_close(chance.randrange(2))
    elif what == "stall":
        proxy.stall()
        _later(seconds, proxy.flow)
    elif what == "refuse":
        proxy.refuse()
        proxy.cut()
        _later(seconds, proxy.refuse, False)
    elif what == "freeze":
        party.send_signal(signal.SIGSTOP)
        _later(seconds, party.send_signal, signal.SIGCONT)
    else:
        party.send_signal(signal.SIGKILL if what == "kill" else signal.SIGTERM)
    return what


def _later(seconds, what, *arguments):
    timer = threading.Timer(seconds, what, arguments)
    timer.daemon = True
    timer.start()


def newest(run):
    return max(int(path.stem.split("-")[1]) for path in (run.out / "checkpoints").glob("agent*-*.npz"))


def soak(directory, minutes, parties, seed, out=sys.stdout):
    """Returns what was done; raises AssertionError where the bits differ or a party gives up."""
    chance, faults = random.Random(seed), Counter()
    run = Rehearsal(
        directory, parties, p=20, version="extra", max_iters=FOR_EVER, patience=5.0, outage=120.0, connect=120.0,
        checkpoint_rounds=100,
    )  # fmt: skip
    run.out.mkdir(parents=True, exist_ok=True)
    run.always = ("--resume",)
    with run, contextlib.ExitStack() as at_the_end:
        supervisors = [Supervisor(run, k) for k in range(parties)]
        at_the_end.callback(lambda: [setattr(supervisor, "stopping", True) for supervisor in supervisors])
        for supervisor in supervisors:
            supervisor.start()
        begun = said = time.monotonic()
        while (passed := time.monotonic() - begun) < 60 * minutes:
            time.sleep(chance.uniform(2.0, 6.0))
            faults[disturb(run, chance)] += 1
            assert all(supervisor.is_alive() for supervisor in supervisors), [
                (supervisor.k, supervisor.codes, supervisor.words[-2000:]) for supervisor in supervisors
            ]
            if time.monotonic() - said > 30:
                said = time.monotonic()
                ended = sum(sum(supervisor.codes.values()) for supervisor in supervisors)
                print(
                    f"{passed:.0f} s: iteration {run.iteration()}, {ended} restarts, {dict(faults)}",
                    file=out,
                    flush=True,
                )
        time.sleep(15)  # what was frozen or stalled goes on
        for supervisor in supervisors:
            supervisor.stopping = True
        for party in run.parties:
            party.send_signal(signal.SIGTERM)
        for supervisor in supervisors:
            supervisor.join(300)
            assert not supervisor.is_alive(), supervisor.k
        total = newest(run) + AFTERWARDS
        for job in run.jobs:
            job.write_text(job.read_text().replace(f"max_iters = {FOR_EVER}", f"max_iters = {total}"))
        run.options["max_iters"] = total
        run.parties = [run.start(k, "--resume") for k in range(parties)]
        last = [Supervisor(run, k) for k in range(parties)]
        for supervisor in last:
            supervisor.start()
        for supervisor in last:
            supervisor.join(900)
            assert supervisor.codes[0] == 1, (supervisor.k, supervisor.codes, supervisor.words[-2000:])
        run.compare()
        supervisors += last
    codes = sum((supervisor.codes for supervisor in supervisors), Counter())
    return {
        "minutes": minutes, "parties": parties, "seed": seed, "faults": dict(faults), "iterations": total,
        "ended and started again, by exit code": {str(code): count for code, count in sorted(codes.items())},
    }  # fmt: skip


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("directory", type=Path)
    parser.add_argument("--minutes", type=float, default=30.0)
    parser.add_argument("--parties", type=int, default=13)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    print(json.dumps(soak(options.directory, options.minutes, options.parties, options.seed), indent=1))


if __name__ == "__main__":
    main()
