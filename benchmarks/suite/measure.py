"""Measurements of a case at a seed, and the file that remembers all of them.

    default   npga.solve(problem, network): nothing chosen; the rounds of its search are counted
    tuned     npga.solve with the steps that npga.tune found; the search is not counted
    pga       the centralised method on the same problem, where the library has it

Instances are measured in other processes, which are ended when one of them has used up its processor time, so that
nothing can stop the suite. A result is remembered under (case, seed, kind, fingerprint of the code); tuned steps under
(problem, network) alone, because they cost most of the time and stay good steps when the code changes. Limits are in
iterations and processor time: a loaded machine measures the same.
"""

from __future__ import annotations

import hashlib
import json
import os
import resource
import subprocess
import sys
import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

import npga
from suite.case import Instance, Solution

KINDS = ("default", "tuned", "pga")
# Versions that tuning may choose from: both send one vector per iteration.
VERSIONS = ("nids", "extra")
TOL = 1e-8
MAX_ITERS = {"default": 200_000, "tuned": 200_000, "pga": 50_000}
Row = dict[str, Any]


# ---------------------------------------------------------------- what is measured


def run(instance: Instance, kind: str, seed: int, answer: Solution, steps: Row | None = None) -> Row:
    """Solve one way, and compare with the independent answer."""
    wall, work = time.perf_counter(), time.process_time()
    limits: dict[str, Any] = {"tol": TOL, "max_iters": MAX_ITERS[kind]}
    if kind == "tuned":
        if steps is None or steps.get("version") is None:
            return {"status": "skipped", "message": "tuning found no steps"}
        version, chosen = decoded(steps)
        result = npga.solve(instance.problem, instance.network, version, chosen, **limits)
    elif kind == "pga":
        try:
            result = npga.solve(instance.problem, instance.network, method="pga", **limits)
        except npga.errors.InputError as error:
            return {"status": "skipped", "message": f"no centralised method: {error}"}
    else:
        result = npga.solve(instance.problem, instance.network, seed=seed, **limits)
    search = getattr(result, "search", None)
    return {
        "status": result.status.value,
        "rounds": result.rounds + (search.rounds if search else 0),
        "iterations": result.iterations + (search.iterations if search else 0),
        "seconds": time.perf_counter() - wall,
        "processor_seconds": time.process_time() - work,
        "kkt": float(result.kkt),
        "message": result.message,
        **errors(instance, result.x, answer),
    }


def errors(instance: Instance, x: Any, answer: Solution) -> Row:
    """Relative errors against the independent answer: of x where it is unique, of the objective, of the constraints.

    The objective is measured against max(|value|, |value - value at 0|): an objective that crosses 0 has no relative
    error of its own.
    """
    if not np.isfinite(x).all():
        return {"x_error": None, "objective_error": None, "violation": None, "by": answer.by}
    size = float(np.linalg.norm(answer.x)) or 1.0
    at_zero = instance.objective(np.zeros_like(answer.x))
    moved = abs(answer.objective - at_zero) if np.isfinite(at_zero) else 0.0
    scale = max(abs(answer.objective), moved) or 1.0
    return {
        "x_error": float(np.linalg.norm(x - answer.x)) / size if instance.unique else None,
        "objective_error": abs(instance.objective(x) - answer.objective) / scale,
        "violation": instance.violation(x),
        "by": answer.by,
    }


def wrong(row: Row, limit: float = 1e-5) -> bool:
    """Whether a run says "converged" and is not right to `limit`."""
    found = [row.get(key) for key in ("x_error", "objective_error", "violation")]
    return row["status"] == "converged" and any(value is not None and not value <= limit for value in found)


# ---------------------------------------------------------------- tuned steps


def tuned_steps(instance: Instance, seed: int, answer: Solution, seconds: float) -> Row:
    """Steps whose run needs the fewest rounds, over `VERSIONS`; the independent answer serves as the reference."""
    problem, network = instance.problem, instance.network
    kkt = problem.kkt(answer.x, answer.lam).kkt
    reference = npga.solver.Reference(answer.x, answer.lam, kkt, answer.objective, (0, 0))
    begun = time.process_time()
    best: Row = {"version": None, "rounds": np.inf}
    notes = []
    for version in VERSIONS:
        for method in ("spectral", "search"):
            try:
                found = npga.tune(
                    problem, network, version, method, reference=reference, seed=seed, max_seconds=seconds
                )
                ended = npga.solve(problem, network, found.version, found.steps, tol=TOL, max_seconds=2.0 * seconds)
            except npga.errors.NpgaError as error:
                notes.append(f"{version} by {method}: {error}")
                continue
            if ended.status.ok:
                if ended.rounds < best["rounds"]:
                    best = {**encoded(found.version, found.steps), "rounds": ended.rounds, "method": method}
                break  # trial runs only where the spectral radius led nowhere
            notes.append(f"{version} by {method}: {ended.status.value} at {ended.kkt:.1e}")
    return best | {"tune_seconds": time.process_time() - begun, "notes": notes, "status": "done"}


def encoded(version: npga.Version, steps: npga.Steps) -> Row:
    """Version and steps as plain numbers."""
    numbers = {name: float(getattr(steps, name)) for name in ("alpha", "beta", "gamma", "theta")}
    return {"version": version.name, "c": version.c, **numbers}


def decoded(row: Row) -> tuple[npga.Version, npga.Steps]:
    """Version and steps from plain numbers."""
    version = npga.version(row["version"]) if row["c"] is None else npga.version(row["version"], c=row["c"])
    return version, npga.Steps(row["alpha"], row["beta"], row["gamma"], row["theta"])


# ---------------------------------------------------------------- the memory


class Memory:
    """Lines of JSON in a folder; a run that was interrupted goes on where it stood."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self._file = folder / "results.jsonl"
        self._rows: dict[tuple[Any, ...], Row] = {}
        for row in self._read():
            self._rows[key(row)] = row
        if self._file.exists() and not self._file.read_bytes().endswith(b"\n"):
            self._write("\n")

    def _read(self) -> Iterator[Row]:
        if self._file.exists():
            for line in self._file.read_text().splitlines():
                try:
                    yield json.loads(line)
                except json.JSONDecodeError:  # the last line of a run that was cut off
                    continue

    def get(self, wanted: Row) -> Row | None:
        """What is known about (case, seed, kind, code), or None."""
        return self._rows.get(key(wanted))

    def add(self, row: Row) -> None:
        """Remember a result."""
        self._rows[key(row)] = row
        self._write(json.dumps(row) + "\n")

    def _write(self, text: str) -> None:
        with self._file.open("a") as file:
            file.write(text)

    def of(self, code: str) -> list[Row]:
        """What was measured with this code."""
        return [row for row in self._rows.values() if row.get("code") == code and row["kind"] != "steps"]


def key(row: Row) -> tuple[Any, ...]:
    """Tuned steps belong to the problem, everything else to the code as well."""
    code = row["problem"] if row["kind"] == "steps" else row["code"]
    return row["case"], row["seed"], row["kind"], code


def fingerprint(instance: Instance) -> str:
    """Digest of problem and network."""
    links = hashlib.sha256(instance.network.edges.tobytes()).hexdigest()[:8]
    return f"{instance.problem.fingerprint}-{links}"


def code_fingerprint() -> str:
    """Digest of the library's sources."""
    digest = hashlib.sha256()
    folder = Path(npga.__file__).parent
    for path in sorted(folder.rglob("*")):
        if path.suffix in (".py", ".cpp", ".hpp", ".h", ".c"):
            digest.update(path.read_bytes())
    return digest.hexdigest()[:12]


# ---------------------------------------------------------------- a process of its own


def apart(orders: list[Row]) -> Iterator[tuple[Row, str, Row]]:
    """Orders, kinds and rows, as other processes find them, each for as many instances as it survives."""
    while orders:
        left = {k: list(order["kinds"]) for k, order in enumerate(orders)}
        with subprocess.Popen([sys.executable, str(Path(__file__).parent), "--one"], **_PIPES) as process:
            process.stdin.write(json.dumps(orders) + "\n")
            process.stdin.close()
            said = ""
            for line in process.stdout:
                if not line.startswith(MARK):
                    said = line.strip() or said  # the last line of a traceback says most
                    continue
                k, kind, row = json.loads(line.removeprefix(MARK))
                left[k].remove(kind)
                yield orders[k], kind, row
        unfinished = [k for k in left if left[k]]
        for kind in left[unfinished[0]] if unfinished else ():
            yield orders[unfinished[0]], kind, {"status": "killed", "message": f"{process.returncode}: {said[:200]}"}
        orders = [orders[k] for k in unfinished[1:]]


# Lines of the other process that are results.
MARK = "suite-row "
_ONE_THREAD = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "NPGA_THREADS"), "1")
_PIPES: dict[str, Any] = {
    "stdin": subprocess.PIPE,
    "stdout": subprocess.PIPE,
    "stderr": subprocess.STDOUT,
    "text": True,
    "env": os.environ | _ONE_THREAD,
}


def several() -> None:
    """What the other process does: reads its orders, prints a line of JSON for each kind."""
    from suite import CASES

    for k, order in enumerate(json.loads(sys.stdin.readline())):
        used = int(time.process_time())
        resource.setrlimit(resource.RLIMIT_CPU, (used + int(order["limit"]), resource.RLIM_INFINITY))
        instance, seed = CASES[order["case"]].build(order["seed"]), order["seed"]
        answer, steps = instance.solve(), order["steps"]
        for kind in order["kinds"]:
            if kind == "steps":
                row = steps = in_processor_time(partial(tuned_steps, instance, seed, answer, order["tune_seconds"]))
            else:
                row = run(instance, kind, seed, answer, steps)
            print(MARK + json.dumps([k, kind, row], default=float), flush=True)


def in_processor_time(action: Any) -> Row:
    """With `max_seconds` counted in processor time, so that a loaded machine tunes as well as an idle one."""
    clock = time.perf_counter
    time.perf_counter = time.process_time
    try:
        return action()
    finally:
        time.perf_counter = clock
