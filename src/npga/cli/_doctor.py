"""The commands `versions` and `doctor`: what there is, and what works on this machine."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from typing import Any

import numpy as np
import typer

import npga
from npga import functions as fn
from npga.cli._output import JSON, NOT_MET, command, show_json, show_table, speaking

# What an optional package is for, and the extra that brings it.
OPTIONAL = {
    "rich": ("cli", "progress bars and tables"),
    "matplotlib": ("plot", "figures"),
    "pandas": ("pandas", "Trace.to_pandas()"),
    "cvxpy": ("cvxpy", "mixing='fastest'"),
    "scikit-learn": ("sklearn", "fetching Covtype with scikit-learn"),
    "mpi4py": ("mpi", "agents on MPI ranks"),
    "grpcio": ("net", "agents at different organisations"),
    "pypower": ("power", "cases of power grids by name"),
}
REQUIRED = ("numpy", "scipy", "networkx")


@command("npga versions", "npga versions --json")
def versions(as_json: JSON = False) -> None:
    """List the versions of NPGA: matrices, rounds per iteration, and which theorems can cover them.

    A theorem number with a prime needs W' = (I + W)/2, which `network.lazy()` gives; one with a plus is this project's,
    with its proof in docs/theory. They are found by certifying three small problems: a full-rank A with any h (1, 2), h
    the indicator of a point (3), a smooth h (4).
    """
    with speaking():
        covered = {row.name: theorems_of(row) for row in npga.versions()}
        rows = [line | {"theorems": covered[line["name"]]} for line in npga.versions().to_dicts()]
    if as_json:
        show_json(rows)
        return
    header = ("version", "family", "B²", "C", "D", "rounds", "theorems", "reference")
    cells = [
        (r["name"], r["family"], r["B2"], r["C"], r["D"], str(r["rounds"]), " ".join(r["theorems"]), r["reference"])
        for r in rows
    ]
    show_table("Versions of NPGA", header, cells)
    typer.echo("dcpa is p2d2 with c = 1 and theta = 1; dcda is exact-diffusion with theta = 0 and gamma = 1.")


def theorems_of(version: npga.Version) -> list[str]:
    """Theorems that cover the version on some problem; with a prime if only on W'."""
    network = npga.Network.path(6)  # the smallest eigenvalue of its W is negative, as is common
    found: dict[str, str] = {}
    for mark, place in (("", network), ("'", network.lazy())):
        for problem in _examples():
            for key, theorem in npga.certify(problem, place, version).theorems.items():
                if theorem.applies:
                    found.setdefault(key, key + mark)
    return [found[key] for key in sorted(found)]


def _examples() -> list[Any]:
    blocks = np.random.default_rng(0).standard_normal((6, 2, 2))
    plain = [npga.Agent(A=A, f=fn.SquaredNorm(1.0)) for A in blocks]
    sparse = [npga.Agent(A=A, f=fn.SquaredNorm(1.0), g=fn.L1(0.1)) for A in blocks]
    return [
        npga.Problem(plain, fn.Ball(np.ones(2), 0.1)),
        npga.Problem(plain, fn.Equality(np.ones(2))),
        npga.Problem(sparse, fn.SquaredLoss(np.ones(2), 0.5)),
    ]


@command("npga doctor", "npga doctor --json")
def doctor(as_json: JSON = False) -> None:
    """Say what works on this machine. Exit code 1: something that every user needs does not."""
    with speaking():
        rows = [*_packages(), *(_try(name, test) for name, test in CHECKS.items())]
    if as_json:
        show_json(rows)
    else:
        marks = {True: "ok", False: "BAD", None: "missing"}
        show_table(
            "What works here", ("what", "state", "detail"), [(r["what"], marks[r["ok"]], r["detail"]) for r in rows]
        )
    if any(row["ok"] is False for row in rows):
        raise typer.Exit(NOT_MET)


def _packages() -> list[dict[str, Any]]:
    from npga.experiments import installed_version, provenance

    about = provenance()
    commit = f", commit {about['commit'][:12]}" if about["commit"] else ""
    rows: list[dict[str, Any]] = [
        {"what": "npga", "ok": True, "detail": f"{about['npga']} on Python {about['python']}{commit}"},
        {"what": "cores", "ok": True, "detail": str(os.cpu_count())},
    ]
    for name in REQUIRED:
        found = installed_version(name)
        rows.append({"what": name, "ok": found is not None, "detail": found or "needed: pip install npga"})
    for name, (extra, purpose) in OPTIONAL.items():
        found = installed_version(name)
        hint = f"optional, for {purpose}: pip install '{'npga[' + extra + ']' if extra != 'sklearn' else name}'"
        rows.append({"what": name, "ok": True if found else None, "detail": found or hint})
    from npga.solver import core_status

    compiled, which = core_status()
    rows.append({"what": "compiled core", "ok": True if compiled else None, "detail": which})
    mpiexec = shutil.which("mpiexec")
    rows.append({"what": "mpiexec", "ok": True if mpiexec else None, "detail": mpiexec or "optional, for MPI: an MPI"})
    return rows


def _try(name: str, test: Callable[[], str]) -> dict[str, Any]:
    """Run a test; whatever it raises is the finding."""
    try:
        return {"what": name, "ok": True, "detail": test()}
    except Exception as error:
        return {"what": name, "ok": False, "detail": f"{type(error).__name__}: {error}"}


def _small_problem() -> Any:
    agents = [npga.Agent(A=np.array([[1.0 + i]]), f=fn.SquaredNorm(1.0)) for i in range(4)]
    return npga.Problem(agents, fn.Equality([1.0])), npga.Network.ring(4)


def _solves() -> str:
    problem, network = _small_problem()
    result = npga.solve(problem, network, "nids", npga.Steps(0.5, 0.05), tol=1e-10)
    if not result.status.ok:
        raise RuntimeError(result.message)
    return f"{result.path}, {result.iterations} iterations to 1e-10"


def _certifies() -> str:
    problem, network = _small_problem()
    best = npga.certify(problem, network, "nids").best
    return "no theorem" if best is None else f"Theorem {best.key}"


def _loads() -> str:
    from npga.experiments import data_folder, load_boston, load_covtype

    full = "fetched" if (data_folder() / "covtype.npz").exists() else "not fetched"
    return f"boston {load_boston().X.shape}, covtype sample {load_covtype().X.shape}, full covtype {full}"


CHECKS: dict[str, Callable[[], str]] = {"solve": _solves, "certify": _certifies, "data": _loads}
