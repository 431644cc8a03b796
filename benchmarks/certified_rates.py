"""Certified and measured rates against the condition numbers of network and problem, as a table and a figure.

`python benchmarks/certified_rates.py` computes what `docs/figures/certified-rates.csv` lacks, a line for each point,
and draws `docs/figures/certified-rates.png` from it. NIDS on five agents with one coupling row, f_i quadratic, an L1
term and a squared loss. Network: W moved towards I, W_s = (1 - s) I + s W, which multiplies its condition number
1/(1 - lambda_2) by 1/s. Problem: f_i with weights between 1 and 1/kappa.
"""

from __future__ import annotations

import csv
import math
from pathlib import Path

import numpy as np

import npga
from npga import functions as fn

FIGURES = Path(__file__).parents[1] / "docs" / "figures"
TABLE, FIGURE = FIGURES / "certified-rates.csv", FIGURES / "certified-rates.png"
NAMES = ("axis", "condition", "theorem", "certified", "certified_run", "tuned", "tuned_run")
AXES = {"network": (1.0, 2.0, 4.0, 8.0, 16.0), "problem": (1.0, 4.0, 16.0, 64.0)}


def setup(axis: str, factor: float) -> tuple[float, npga.Problem, npga.Network]:
    """The condition number, the problem and the network of one point."""
    rng = np.random.default_rng(0)
    kappa, s = (factor, 1.0) if axis == "problem" else (2.0, 1.0 / factor)
    weights = np.geomspace(1.0, 1.0 / kappa, 5)
    agents = [npga.Agent(rng.standard_normal((1, 1)), fn.SquaredNorm(w), fn.L1(0.05)) for w in weights]
    ring = npga.Network.ring(5)
    W = (1.0 - s) * np.eye(5) + s * ring.W.toarray()
    network = npga.Network(ring.graph, mixing=W)
    second = np.sort(np.linalg.eigvalsh(W))[-2]
    return (kappa if axis == "problem" else 1.0 / (1.0 - second)), npga.Problem(agents, fn.SquaredLoss([1.0])), network


def six_digits(rate: float) -> float:
    """Iterations for six digits at a rate."""
    return math.log(1e-6) / math.log(rate)


def measured(axis: str, factor: float) -> dict[str, object]:
    """Iterations for six digits by theorem, certified and tuned rate, and of runs to a relative error of 1e-8."""
    condition, problem, network = setup(axis, factor)
    star = npga.reference(problem)
    best = npga.certify(problem, network, "nids").best
    sure = npga.tune(problem, network, "nids", certified=True, reference=star)
    tuned = npga.tune(problem, network, "nids", reference=star)
    assert best is not None
    numbers = (six_digits(math.sqrt(best.rate)), six_digits(sure.rate), sure.measured, six_digits(tuned.rate))
    return dict(zip(NAMES, (axis, condition, *numbers, tuned.measured), strict=True))


def rows() -> list[dict[str, str]]:
    """What was computed so far."""
    return list(csv.DictReader(TABLE.open(encoding="utf-8"))) if TABLE.exists() else []


def draw() -> None:
    """The figure, from the table alone."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt
    import matplotlib.ticker

    figure, places = plt.subplots(1, 2, figsize=(9, 3.6), sharey=True, layout="constrained")
    looks = {
        "theorem": ("best theorem, its own steps", "s-", "#888888"),
        "certified": ("instance certificate, certified steps", "o-", "#1f77b4"),
        "certified_run": ("run at certified steps (to 1e-8)", "o--", "#1f77b4"),
        "tuned": ("linearised rate, tuned steps", "^-", "#d62728"),
        "tuned_run": ("run at tuned steps (to 1e-8)", "^--", "#d62728"),
    }
    for place, axis in zip(places, AXES, strict=True):
        mine = sorted((r for r in rows() if r["axis"] == axis), key=lambda r: float(r["condition"]))
        for name, (label, style, colour) in looks.items():
            x, y = [float(r["condition"]) for r in mine], [float(r[name]) for r in mine]
            place.loglog(x, y, style, color=colour, label=label, markersize=4)
        place.set_xlabel("1/(1 - second eigenvalue of W)" if axis == "network" else "condition number of f")
        place.grid(alpha=0.3)
        place.xaxis.set_minor_formatter(matplotlib.ticker.NullFormatter())
    places[0].set_ylabel("iterations")
    figure.legend(
        *places[0].get_legend_handles_labels(), loc="outside upper center", ncols=3, fontsize=8, frameon=False
    )
    figure.savefig(FIGURE, dpi=150)


if __name__ == "__main__":
    for axis, factors in AXES.items():
        for factor in factors:
            condition = setup(axis, factor)[0]
            if not any(r["axis"] == axis and math.isclose(float(r["condition"]), condition) for r in rows()):
                fresh, found = not TABLE.exists(), measured(axis, factor)
                with TABLE.open("a", encoding="utf-8", newline="") as out:
                    writer = csv.DictWriter(out, NAMES)
                    if fresh:
                        writer.writeheader()
                    writer.writerow(found)
    draw()
