"""What the tests of agents that are apart share: jobs, free ports, processes with a deadline."""

from __future__ import annotations

import os
import random
import socket
import subprocess
import sys
import time
from pathlib import Path

import numpy as np

import npga
from helpers.families import random_problem, tame_steps
from npga.runtimes import keygen, read_job, write_job
from npga.solver import local_agents, run_agents

HERE = Path(__file__).parent
# Seconds that no load reaches: whoever has not ended by then never will.
LONG = 300.0
# One BLAS thread for each process, and this package on the path of scripts that are started from it.
PINNED = dict.fromkeys(("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS"), "1") | {
    "PYTHONPATH": os.pathsep.join(filter(None, (str(HERE.parent), os.environ.get("PYTHONPATH"))))
}


def free_addresses(count):
    """Loopback addresses with free ports below 32768, where the system gives out none of its own."""
    found = []
    while len(found) < count:
        port = random.SystemRandom().randrange(12000, 32768)
        with socket.socket() as trial:
            try:
                trial.bind(("127.0.0.1", port))
            except OSError:
                continue
        if (address := f"127.0.0.1:{port}") not in found:
            found.append(address)
    return found


def instance(n=5, p=4, version="extra", seed=3, coupling="squared-loss", probability=0.5):
    """A problem, a network and steps at which the version runs well."""
    problem = random_problem(seed, n, p, "quadratic", "l1", coupling)
    network = npga.Network.erdos_renyi(n, probability, seed=seed)
    if version not in ("extra", "p2d2", "exact-diffusion", "nids", "dlm"):
        network = network.lazy()
    steps = tame_steps(problem, gamma=0.6, theta=0.5)
    chosen = npga.version(version)
    if version == "dlm":
        chosen = npga.version("dlm", c=0.5 / (steps.beta * network.laplacian_spectrum[-1]))
    return problem, network, chosen, steps


def make_job(directory, n=5, p=4, version="extra", seed=3, keys=False, addresses=None, **options):
    """A job on disk and what it was made of; with keys, ready for gRPC."""
    problem, network, chosen, steps = instance(n, p, version, seed)
    count = len(options.get("parties") or range(n))
    addresses = free_addresses(count) if addresses is None else addresses
    options = {"connect": 120.0} | options  # starting a process takes long where many others run
    path = write_job(directory, problem, network, chosen, steps, addresses=addresses, **options)
    if keys:
        keygen(read_job(path))
    return path, problem, network, chosen, steps


def solution(problem, network, version, steps, iterations):
    """x and lam of the agents driven by hand in this process, and their traffic."""
    agents = local_agents(problem, network, version, steps)
    traffic = run_agents(agents, network, iterations)
    return np.concatenate([agent.x for agent in agents]), np.array([agent.lam for agent in agents]), traffic


def start(*arguments, **options):
    """One Python process that speaks into pipes."""
    return subprocess.Popen(
        [sys.executable, *map(str, arguments)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        env=os.environ | PINNED, **options,
    )  # fmt: skip


def start_party(job, k, out, *more, **options):
    return start("-m", "npga.runtimes.net", job, "--party", k, "--out", out, *more, **options)


def start_hostile(job, k, out, *more):
    return start(HERE / "hostile.py", job, "--party", k, "--out", out, *more)


def finish(processes, seconds=LONG):
    """(exit code, standard error) of each; fails if one has not ended by the deadline, and stops what is left."""
    deadline = time.monotonic() + seconds
    said, late = [], []
    for k, process in enumerate(processes):
        try:
            _, error = process.communicate(timeout=max(deadline - time.monotonic(), 0.01))
        except subprocess.TimeoutExpired:
            late.append(k)
            process.kill()
            _, error = process.communicate()
        said.append((process.returncode, error))
    assert not late, f"processes {late} had not ended after {seconds} s: {said}"
    return said


def wait_for(condition):
    """Until it holds; fails if it never does."""
    deadline = time.monotonic() + LONG
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.05)


def alive(pid):
    """Whether a process runs; one that has ended and that nobody waited for does not."""
    try:
        os.kill(pid, 0)
        state = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0]
    except (ProcessLookupError, FileNotFoundError):
        return False
    return state != "Z"
