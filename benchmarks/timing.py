"""Clocks: interleaved repeats, and the memory's pace measured like STREAM."""

from __future__ import annotations

import os
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass

import numpy as np


@contextmanager
def undisturbed():
    """Real-time priority for all threads of this process, where Linux allows it: other processes wait meanwhile."""

    def everyone(policy, priority):
        with suppress(AttributeError, OSError):
            for thread in os.listdir("/proc/self/task"):
                os.sched_setscheduler(int(thread), getattr(os, policy), os.sched_param(priority))

    everyone("SCHED_FIFO", 1)
    try:
        yield
    finally:
        everyone("SCHED_OTHER", 0)
        time.sleep(0.05)  # for those who waited


@dataclass
class Contender:
    """Something that runs a number of iterations; `iterations` is chosen so that a turn takes about `seconds`.

    A turn has at least `least` iterations.
    """

    name: str
    run: object
    least: int = 3
    iterations: int = 1
    times: list = None

    def calibrate(self, seconds):
        """Warm up, then choose the number of iterations of a turn."""
        self.run(1)
        begun = time.perf_counter()
        self.run(2)
        one = (time.perf_counter() - begun) / 2
        self.iterations = max(self.least, min(200_000, int(seconds / max(one, 1e-7))))
        if one < 1e-3:
            begun = time.perf_counter()
            self.run(self.iterations)
            one = (time.perf_counter() - begun) / self.iterations
            self.iterations = max(1, min(2_000_000, int(seconds / max(one, 1e-7))))
        self.times = []

    def turn(self):
        """Time one turn."""
        with undisturbed():
            begun = time.perf_counter()
            self.run(self.iterations)
            self.times.append((time.perf_counter() - begun) / self.iterations)

    @property
    def best(self):
        """Seconds of an iteration, best turn."""
        return float(np.min(self.times))

    @property
    def median(self):
        """Seconds of an iteration, median turn."""
        return float(np.median(self.times))


def race(contenders, repeats, seconds):
    """Let all take turns, so that a slow minute of the machine hits all of them."""
    for contender in contenders:
        with undisturbed():  # what a contender learns about threads beside other processes would stay
            contender.calibrate(seconds)
    for _ in range(repeats):
        for contender in contenders:
            contender.turn()
    return {c.name: {"best": c.best, "median": c.median, "iterations": c.iterations} for c in contenders}


class Continued:
    """A method that goes on from where it stood, as a long run does: no turn pays for a start."""

    def __init__(self, method):
        zero = np.zeros(method.problem.d), np.zeros((method.problem.n, method.problem.p))
        self.method, self.state = method, method.start(*zero)

    def __call__(self, iterations):
        self.state = self.method.advance(self.state, iterations)


def product(x):
    """Of an array with itself: the quickest reader among NumPy's loops."""
    return np.dot(x, x)


class Reader:
    """Reads an array that no cache holds, once for each iteration, on some threads: the memory's pace."""

    def __init__(self, threads, read=np.max, megabytes=512):
        self.parts = np.array_split(np.ones(megabytes * (1 << 20) // 8), threads)
        self.bytes = sum(part.nbytes for part in self.parts)
        self.read, self.pool = read, ThreadPoolExecutor(threads)

    def __call__(self, iterations):
        for _ in range(iterations):
            list(self.pool.map(self.read, self.parts))
