"""The tables of docs/theory.md that are computed: `python benchmarks/theory_tables.py` writes them, a test compares."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np

import npga
from npga import functions as fn

PAGE = Path(__file__).parents[1] / "docs" / "theory.md"
KINDS = ("equality", "equality, dependent rows", "non-smooth h", "smooth h, any g")


def example(kind: str) -> npga.Problem:
    """Seven agents, two coupling rows."""
    dependent, rough = "dependent" in kind, "any g" in kind
    A = np.array([[1.0, 2.0], [2.0, 4.0]]) if dependent else np.eye(2)
    agents = [npga.Agent(A=A, f=fn.SquaredNorm(1.0), g=fn.L1(0.1) if rough else fn.Zero()) for _ in range(7)]
    b = [1.0, 2.0]
    h = {"equality": fn.Equality(b), "non-smooth h": fn.Ball(b, 0.1)}.get(kind.split(",")[0], fn.SquaredLoss(b))
    return npga.Problem(agents, h)


def coverage() -> str:
    """Which theorems cover each version on W and on W', for every kind of h, as a Markdown table."""
    network = npga.Network.ring(7)
    header = ["version", *(f"{kind}; {place}" for kind in KINDS for place in ("W", "W'"))]
    lines = [f"| {' | '.join(header)} |", "|" + "---|" * len(header)]
    for version in npga.versions():
        cells = []
        for kind in KINDS:
            for place in (network, network.lazy()):
                found = npga.certify(example(kind), place, version).theorems.items()
                cells.append(", ".join(key for key, theorem in found if theorem.applies) or "none")
        lines.append(f"| `{version.name}` | {' | '.join(cells)} |")
    return "\n".join(lines)


def rewritten(text: str) -> str:
    """The page with its tables computed again."""
    pattern = r"(<!-- coverage: benchmarks/theory_tables.py -->\n).*?(<!-- end -->)"
    return re.sub(pattern, lambda match: f"{match[1]}{coverage()}\n{match[2]}", text, flags=re.DOTALL)


if __name__ == "__main__":
    PAGE.write_text(rewritten(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
