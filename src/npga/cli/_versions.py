"""The command `versions`: the table of versions, and which theorem covers which."""

from __future__ import annotations

from typing import Annotated, Any

import numpy as np
import typer

from npga.cli._output import add_command, show_json, show_table, speaking
from npga.networks import Network, Version

JSON = Annotated[bool, typer.Option("--json", help="Print JSON for programs.")]


def register(app: typer.Typer) -> None:
    """Add the commands of this module to an application."""
    add_command(app, versions, "npga versions", "npga versions --json")


def versions(as_json: JSON = False) -> None:
    """List the versions of NPGA: matrices, rounds per iteration, and which theorems can cover them.

    A theorem number with a prime needs W' = (I + W)/2, which `network.lazy()` gives; a star says that the proof is
    incomplete when g is not zero. The theorems are found by certifying three small problems: a full-rank A with any h
    (1, 2), h the indicator of a point (3), a smooth h (4, and 4+, which is this project's).
    """
    import npga

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


def theorems_of(version: Version) -> list[str]:
    """Theorems that cover the version on some problem; with a prime if only on W', with a star if incomplete."""
    from npga.theory import certify

    network = Network.path(6)  # the smallest eigenvalue of its W is negative, as is common
    found: dict[str, str] = {}
    for mark, place in (("", network), ("'", network.lazy())):
        for problem in _examples():
            for key, theorem in certify(problem, place, version).theorems.items():
                if theorem.applies:
                    found.setdefault(key, key + mark + ("" if theorem.standing == "proved" else "*"))
    return [found[key] for key in sorted(found)]


def _examples() -> list[Any]:
    import npga
    from npga import functions as fn

    blocks = np.random.default_rng(0).standard_normal((6, 2, 2))
    plain = [npga.Agent(A=A, f=fn.SquaredNorm(1.0)) for A in blocks]
    sparse = [npga.Agent(A=A, f=fn.SquaredNorm(1.0), g=fn.L1(0.1)) for A in blocks]
    return [
        npga.Problem(plain, fn.Ball(np.ones(2), 0.1)),
        npga.Problem(plain, fn.Equality(np.ones(2))),
        npga.Problem(sparse, fn.SquaredLoss(np.ones(2), 0.5)),
    ]
