"""A short worked example: thirteen parties fit an elastic net, and three versions of NPGA are compared.

Writes example.png, the distance to the solution against iterations and against communication rounds.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np

import npga
from npga import functions as fn

VERSIONS = {
    "extra": npga.Steps(1.0, 0.08, 1.0),
    "nids": npga.Steps(1.0, 0.08, 1.0),
    "npga-i": npga.Steps(1.0, 0.08, 1.0),
}


def problem() -> npga.Problem:
    """An elastic net whose 26 columns sit with 13 parties, two each."""
    rng = np.random.default_rng(0)
    X, y = rng.standard_normal((10, 26)), rng.standard_normal(10)
    agents = [npga.Agent(A=block, f=fn.SquaredNorm(0.1), g=fn.L1(0.05)) for block in np.split(X, 13, axis=1)]
    return npga.Problem(agents, h=fn.SquaredLoss(target=y, weight=1 / 10))


def main() -> None:
    """Solve, print, draw."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, default=Path("out"))
    folder = parser.parse_args().out
    folder.mkdir(parents=True, exist_ok=True)

    shared = problem()
    network = npga.Network.erdos_renyi(13, 0.3, seed=0)
    star = npga.reference(shared)
    print(f"{shared}\n{network}\nreference: residual {star.kkt:.1e}\n")
    results = {
        name: npga.solve(shared, network, name, steps, reference=star.x, gap_tol=1e-11, tol=None, progress=True)
        for name, steps in VERSIONS.items()
    }
    for result in results.values():
        print(result)
    draw(results, folder / "example.png")


def draw(results: dict[str, npga.Result], path: Path) -> None:
    """Gap against iterations and against rounds, with direct labels."""
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(1, 2, figsize=(9, 3.6), sharey=True, layout="constrained")
    for axis, column in zip(axes, ("iteration", "round"), strict=True):
        for (name, result), style in zip(results.items(), ("-", "--", ":"), strict=False):
            x, gap = result.trace[column], result.trace["gap"]
            (line,) = axis.semilogy(x, gap, style)
            axis.annotate(name, (x[-1], gap[-1]), xytext=(4, 0), textcoords="offset points", color=line.get_color())
        axis.set_xlabel(f"{column}s")
        axis.margins(x=0.12)
        axis.spines[["top", "right"]].set_visible(False)
    axes[0].set_ylabel("$|x - x^*| / |x^0 - x^*|$")
    figure.savefig(path, dpi=150)
    print(f"\n{path}")


if __name__ == "__main__":
    main()
