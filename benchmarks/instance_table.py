"""The table of docs/theory/instances.md: ten versions at tuned and at certified steps, on three problems.

`python benchmarks/instance_table.py elastic-net nids extra` measures versions on one problem (all of them where none is
named; a minute or so each) and adds a line for each to `benchmarks/instance_table.jsonl`, so that several can be
measured at once; rows that are there are kept. `python benchmarks/instance_table.py --starts` follows what is proved in
each row along runs from random starts. `python benchmarks/instance_table.py` writes the page.
"""

from __future__ import annotations

import json
import math
import re
import statistics
import sys
import time
from dataclasses import asdict
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np

import npga
from npga import functions as fn
from npga.experiments import ElasticNetExperiment, Ridge
from npga.theory import InstanceCertificate, certify_instance

DATA = Path(__file__).with_suffix(".jsonl")
PAGE = Path(__file__).parents[1] / "docs" / "theory" / "instances.md"

PROBLEMS = ("elastic-net", "logistic", "ball")
NUMBERS = ("certified", "members", "bound", "theorem", "tuned_run", "certified_run")
# Random starts for each proof and function, functions beside a problem's own, and iterations of a run at most.
STARTS, OTHERS, LENGTH = 200, 3, 500


def pose(name: str) -> tuple[npga.Problem, npga.Network]:
    """Boston, 13 parties, 10 rows: 264 states."""
    instance = (Ridge() if name == "ball" else ElasticNetExperiment()).build()
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
    row |= {"tuned_steps": asdict(tuned.steps), "tuned_c": tuned.version.c, "reason": found.reason}
    row |= {"tuned_rate": found.rate, "tuned_constant": found.constant}
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
        found = sure.certificate.instance
        row |= {"certified": six_digits(sure.rate), "bound": found.iterations(1e-6), "certified_run": sure.measured}
        row |= {"steps": asdict(sure.steps), "c": sure.version.c, "members": six_digits(found.radius)}
        row |= {"rate": found.rate, "constant": found.constant}
    return row | {"certified_seconds": time.process_time() - begun}


def followed(row: dict[str, Any]) -> dict[str, Any]:
    """The largest part of a proved bound that runs of a row use: its own functions and others of the class."""
    sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))
    from helpers.instance_runs import members, worst_excess

    problem, network = pose(row["problem"])
    rng, worst, runs = np.random.default_rng(0), 0.0, 0
    others = list(islice((other for _ in range(OTHERS) for other in members(problem, rng)), OTHERS))
    for prefix in ("tuned_", ""):
        c, steps, rate, constant = (row.get(prefix + key) for key in ("c", "steps", "rate", "constant"))
        if constant is None or not math.isfinite(constant):
            continue
        version = npga.version(row["version"]) if c is None else npga.version(row["version"], c=c)
        proof = InstanceCertificate("proved", "", rate=rate, constant=constant)
        for member in (problem, *others):
            length = min(math.ceil(six_digits(rate)), LENGTH)
            found = worst_excess(member, network, version, npga.Steps(**steps), proof, STARTS, length, rng)
            worst = max(worst, found)
            runs += STARTS
    return row | {"used": worst, "runs": runs}


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
        "| problem | version | tuned: linearised | instance at tuned steps | certified: rate | members "
        "| with its constant | best theorem | run to 1e-8, tuned | run to 1e-8, certified |",
        "|---|---|---|---|---|---|---|---|---|---|",
    ]
    for r in rows():
        said = f"proved, {cell(r['proved'])}" if r["standing"] == "proved" else r["standing"]
        numbers = [cell(r.get(key, math.inf)) for key in NUMBERS]
        lines.append(f"| {r['problem']} | `{r['version']}` | {cell(r['tuned'])} | {said} | {' | '.join(numbers)} |")
    names = dict.fromkeys(r["problem"] for r in rows())
    lines += ["\n" + summary(name, [r for r in rows() if r["problem"] == name]) for name in names]
    missing = [
        f"{name} `{version.name}`"
        for name in PROBLEMS
        for version in npga.versions()
        if not any((r["problem"], r["version"]) == (name, version.name) for r in rows())
    ]
    if missing:
        lines.append(f"\nNot measured yet: {', '.join(missing)}.")
    both = [r for r in rows() if r["problem"] != "ball" and math.isfinite(r["certified"])]
    ratio = statistics.median(r["certified_run"] / r["tuned_run"] for r in both)
    lines.append(
        f"\nElastic net and logistic together, {len(both)} rows: a run at certified steps needs {ratio:.2f} times the"
    )
    lines[-1] += " iterations of the tuned run in the median."
    seen = [r for r in rows() if r.get("runs")]
    if seen:
        used = max(r["used"] for r in seen)
        lines.append(
            f"\nWhat is proved in {len(seen)} rows, at tuned and at certified steps, was followed along "
            f"{sum(r['runs'] for r in seen):,} runs: {STARTS} random starts far from the solution for each proof and "
            f"function, the problem's own and {OTHERS} others of the class, up to {LENGTH} iterations. The largest "
            f"|xi_k|/(K rho^k |xi_0|) of all of them is {used:.3f}"
            + (", so that no bound was violated." if used <= 1.0 else ": A BOUND WAS VIOLATED.")
        )
    return "\n".join(lines)


def summary(name: str, mine: list[dict[str, Any]]) -> str:
    """The counts of one problem."""
    counts = {s: sum(r["standing"] == s for r in mine) for s in ("proved", "numerical", "refuted", "unknown")}
    said = ", ".join(f"{count} {standing}" for standing, count in counts.items() if count)
    sure = [r for r in mine if math.isfinite(r["certified"])]
    words = f"{name}: at tuned steps {said}, of {len(mine)}. Certified steps for {len(sure)} of them"
    if sure:
        best = min(r["tuned"] for r in mine)
        own, others, runs = (
            statistics.median(ratios)
            for ratios in zip(
                *(
                    (r["certified"] / r["tuned"], r["certified"] / best, r["certified_run"] / r["tuned_run"])
                    for r in sure
                ),
                strict=True,
            )
        )
        words += (
            f"; in the median their certified rate needs {own:.2f} times the iterations of the version's linearised "
            f"rate at tuned steps ({others:.2f} times those of the best version), and a run {runs:.2f} times those of "
            "the tuned run"
        )
    return words + "."


def write_page() -> None:
    """Put the table into the page."""
    pattern = r"(<!-- table: benchmarks/instance_table.py -->\n).*?(<!-- end -->)"
    text = PAGE.read_text(encoding="utf-8")
    PAGE.write_text(re.sub(pattern, lambda m: f"{m[1]}{table()}\n{m[2]}", text, flags=re.DOTALL), encoding="utf-8")


if __name__ == "__main__":
    if sys.argv[1:] == ["--starts"]:
        found = [row if "runs" in row else followed(row) for row in rows()]
        DATA.write_text("".join(f"{json.dumps(row)}\n" for row in found), encoding="utf-8")
    elif len(sys.argv) > 1:
        for version in sys.argv[2:] or [one.name for one in npga.versions()]:
            if not any(r["problem"] == sys.argv[1] and r["version"] == version for r in rows()):
                with DATA.open("a", encoding="utf-8") as out:
                    print(json.dumps(measured(sys.argv[1], version)), file=out, flush=True)
    else:
        write_page()
