"""The table of docs/theory/instances.md: ten versions at tuned and at certified steps, on three problems.

`python benchmarks/instance_table.py elastic-net nids extra` measures versions on one problem (all of them where none is
named; a minute or so each) and adds a line for each to `benchmarks/instance_table.jsonl`, so that several can be
measured at once; rows that are there are kept. `python benchmarks/instance_table.py` writes the page.
"""

from __future__ import annotations

import json
import math
import re
import statistics
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np

import npga
from npga import functions as fn
from npga.experiments import ElasticNet, Ridge
from npga.theory import certify_instance

DATA = Path(__file__).with_suffix(".jsonl")
PAGE = Path(__file__).parents[1] / "docs" / "theory" / "instances.md"

PROBLEMS = ("elastic-net", "logistic", "ball")


def pose(name: str) -> tuple[npga.Problem, npga.Network]:
    """Boston, 13 parties, 10 rows: 264 states."""
    instance = (Ridge() if name == "ball" else ElasticNet()).build()
    problem, network = instance.problem, instance.network
    if name == "logistic":
        target = problem.h.target
        labels = np.where(target > np.median(target), 1.0, -1.0)
        agents = [npga.Agent(agent.A, fn.SquaredNorm(0.1)) for agent in problem.agents]
        problem = npga.Problem(agents, fn.Logistic(labels, 0.1))
    return problem, network


def six_digits(rate: float) -> float:
    """Iterations for six digits at a rate."""
    return math.log(1e-6) / math.log(rate) if 0.0 < rate < 1.0 else math.inf


def measured(name: str, version: str) -> dict[str, Any]:
    """One row: tuned steps and what is proved of them, certified steps, and the best theorem."""
    problem, network = pose(name)
    star = npga.reference(problem)
    row: dict[str, Any] = {"problem": name, "version": version}
    begun = time.process_time()
    tuned = npga.tune(problem, network, version, method="spectral", reference=star)
    row |= {"tuned": six_digits(tuned.rate), "tuned_run": tuned.measured, "tuned_seconds": time.process_time() - begun}
    begun = time.process_time()
    found = certify_instance(problem, network, tuned.version, tuned.steps)
    row |= {"standing": found.standing, "seconds": time.process_time() - begun, "radius": found.radius}
    row["proved"] = six_digits(found.rate) if found.standing == "proved" else math.inf
    best = npga.certify(problem, network, version).best
    row["theorem"] = math.inf if best is None else float(best.iterations(1e-6))
    begun = time.process_time()
    try:
        sure = npga.tune(problem, network, version, certified=True, reference=star)
    except npga.errors.InputError:
        row |= {"certified": math.inf, "bound": math.inf, "certified_run": math.inf}
    else:
        assert sure.certificate is not None
        bound = sure.certificate.instance.iterations(1e-6)
        row |= {"certified": six_digits(sure.rate), "bound": bound, "certified_run": sure.measured}
    return row | {"certified_seconds": time.process_time() - begun}


def rows() -> list[dict[str, Any]]:
    """What was measured so far, in the order of the problems and the table of versions."""
    lines = DATA.read_text(encoding="utf-8").splitlines() if DATA.exists() else []
    order = [version.name for version in npga.versions()]
    found = [json.loads(line) for line in lines]
    return sorted(found, key=lambda row: (PROBLEMS.index(row["problem"]), order.index(row["version"])))


def table() -> str:
    """The rows as Markdown, and the counts."""
    cell = lambda x: "none" if not math.isfinite(x) else f"{x:,.0f}"  # noqa: E731
    lines = [
        "| problem | version | tuned: linearised | instance at tuned steps | certified: rate | with its constant "
        "| best theorem | run to 1e-8, tuned | run to 1e-8, certified |",
        "|---|---|---|---|---|---|---|---|---|",
    ]
    for r in rows():
        said = f"proved, {cell(r['proved'])}" if r["standing"] == "proved" else r["standing"]
        numbers = [cell(r[key]) for key in ("certified", "bound", "theorem", "tuned_run", "certified_run")]
        lines.append(f"| {r['problem']} | `{r['version']}` | {cell(r['tuned'])} | {said} | {' | '.join(numbers)} |")
    for name in dict.fromkeys(r["problem"] for r in rows()):
        mine = [r for r in rows() if r["problem"] == name]
        counts = {s: sum(r["standing"] == s for r in mine) for s in ("proved", "numerical", "refuted", "unknown")}
        best = min(r["tuned"] for r in mine)
        sure = [r for r in mine if math.isfinite(r["certified"])]
        said = ", ".join(f"{count} {standing}" for standing, count in counts.items() if count)
        lines.append(f"\n{name}: at tuned steps {said}, of {len(mine)}. Certified steps for {len(sure)} of them")
        if sure:
            ratios = [statistics.median(r["certified"] / r["tuned"] for r in sure)]
            ratios.append(statistics.median(r["certified"] / best for r in sure))
            ratios.append(statistics.median(r["certified_run"] / r["tuned_run"] for r in sure))
            lines[-1] += (
                f"; in the median their certified rate needs {ratios[0]:.2f} times the iterations of the version's "
                f"linearised rate at tuned steps ({ratios[1]:.2f} times those of the best version), and a run "
                f"{ratios[2]:.2f} times those of the tuned run"
            )
        lines[-1] += "."
    return "\n".join(lines)


if __name__ == "__main__":
    for name in sys.argv[1:2]:
        for version in sys.argv[2:] or [one.name for one in npga.versions()]:
            if not any(r["problem"] == name and r["version"] == version for r in rows()):
                with DATA.open("a", encoding="utf-8") as out:
                    print(json.dumps(measured(name, version)), file=out, flush=True)
    pattern = r"(<!-- table: benchmarks/instance_table.py -->\n).*?(<!-- end -->)"
    text = PAGE.read_text(encoding="utf-8")
    PAGE.write_text(re.sub(pattern, lambda m: f"{m[1]}{table()}\n{m[2]}", text, flags=re.DOTALL), encoding="utf-8")
