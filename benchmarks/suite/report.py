"""Lines, table, verdicts and profile of the suite's results."""

from __future__ import annotations

import math
from collections import defaultdict
from pathlib import Path
from statistics import median
from typing import Any

from suite import CASES
from suite.measure import wrong

Row = dict[str, Any]
MARKS = {"default": "default", "tuned": "tuned", "pga": "centralised"}


def line(row: Row) -> str:
    """One result in one line."""
    head = f"{row['case']} seed {row['seed']} {row['kind']}: {row['status']}"
    if "rounds" not in row:
        return f"{head}. {row.get('message', '')}"
    found = [f"{name} {row[key]:.0e}" for key, name in ERRORS.items() if row.get(key) is not None]
    flag = "  WRONG" if wrong(row) else ""
    return f"{head}, {row['rounds']:,} rounds, {row['seconds']:.1f} s; {', '.join(found)}{flag}"


ERRORS = {"kkt": "residual", "x_error": "x", "objective_error": "objective", "violation": "violation"}


def solved(row: Row) -> bool:
    """Converged, and right."""
    return row["status"] == "converged" and not wrong(row)


def by_instance(rows: list[Row]) -> dict[tuple[str, int], dict[str, Row]]:
    """(case, seed) -> kind -> row, in the order of `CASES`."""
    found: dict[tuple[str, int], dict[str, Row]] = defaultdict(dict)
    rank = {name: k for k, name in enumerate(CASES)}
    for row in sorted((r for r in rows if r["case"] in rank), key=lambda r: (rank[r["case"]], r["seed"])):
        found[row["case"], row["seed"]][row["kind"]] = row
    # Where the seed draws nothing, tuned and centralised runs of seed 0 stand for all.
    for (name, seed), kinds in found.items():
        if seed and not CASES[name].drawn:
            for kind, row in found.get((name, 0), {}).items():
                kinds.setdefault(kind, row)
    return dict(found)


def ratios(rows: list[Row]) -> dict[tuple[str, int], float]:
    """Rounds of the default over those of the tuned run, where both solved it."""
    return {
        where: kinds["default"]["rounds"] / max(kinds["tuned"]["rounds"], 1)
        for where, kinds in by_instance(rows).items()
        if {"default", "tuned"} <= set(kinds) and solved(kinds["default"]) and solved(kinds["tuned"])
    }


def verdicts(rows: list[Row]) -> list[str]:
    """How many are solved, how far the default is behind tuned steps, and what says "converged" and is wrong."""
    instances = by_instance(rows)
    lines = []
    for kind, name in MARKS.items():
        mine = [kinds[kind] for kinds in instances.values() if kind in kinds and kinds[kind]["status"] != "skipped"]
        if mine:
            lines.append(f"- {name}: {sum(map(solved, mine))} of {len(mine)} solved.")
    found = ratios(rows)
    if found:
        worst = max(found, key=found.__getitem__)
        lines.append(
            f"- Rounds of the default, search included, over those of tuned steps: median "
            f"{median(found.values()):.2f}, worst {found[worst]:.1f} ({worst[0]}, seed {worst[1]}), over {len(found)} "
            "problems that both solve."
        )
    missed = [
        f"{name} (seed {seed}, {kinds['default']['status']})"
        for (name, seed), kinds in instances.items()
        if "default" in kinds and not solved(kinds["default"])
    ]
    lines.append(f"- Not solved by the default: {', '.join(missed) or 'none'}.")
    false = [f"{row['case']} (seed {row['seed']}, {row['kind']})" for row in rows if wrong(row)]
    lines.append(f'- "Converged" and wrong by more than 1e-5: {", ".join(false) or "none"}.')
    return lines


def table(rows: list[Row]) -> list[str]:
    """A line for each problem, seed 0; ratios over all seeds."""
    lines = [
        "| problem | n, p, d | default | seconds | tuned | default/tuned | centralised | error | answer by |",
        "|---|---|---|---|---|---|---|---|---|",
    ]
    found = ratios(rows)
    for (name, seed), kinds in by_instance(rows).items():
        if seed:
            continue
        mine = [value for (other, _), value in found.items() if other == name]
        ratio = "" if not mine else f"{median(mine):.2f}" + (f" ({max(mine):.2f})" if len(mine) > 1 else "")
        default = kinds.get("default", {"status": "-"})
        worst = max((default[key] for key in list(ERRORS)[1:] if default.get(key) is not None), default=math.nan)
        problem = CASES[name].build(0).problem
        cells = [
            name, f"{problem.n}, {problem.p}, {problem.d}", _cell(default), f"{default.get('seconds', math.nan):.1f}",
            _cell(kinds.get("tuned")), ratio, _cell(kinds.get("pga")), f"{worst:.0e}", default.get("by", ""),
        ]  # fmt: skip
        lines.append(f"| {' | '.join(cells)} |")
    return lines


def _cell(row: Row | None) -> str:
    if row is None or row["status"] == "skipped":
        return "-"
    if solved(row):
        return f"{row['rounds'] or row['iterations']:,}"
    return "wrong" if wrong(row) else row["status"].replace("_", " ")


def profile(rows: list[Row], path: Path) -> None:
    """Share of the problems solved within a factor of the fewest rounds that any decentralised run needed."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    instances = by_instance(rows)
    costs = {
        kind: [
            kinds[kind]["rounds"] if kind in kinds and solved(kinds[kind]) else math.inf for kinds in instances.values()
        ]
        for kind in ("default", "tuned")
    }
    best = [min(pair) for pair in zip(*costs.values(), strict=True)]
    figure, axis = plt.subplots(figsize=(7, 4))
    for kind, mine in costs.items():
        factors = sorted(a / b for a, b in zip(mine, best, strict=True) if math.isfinite(a))
        share = [(k + 1) / len(best) for k in range(len(factors))]
        axis.step([1.0, *factors], [0.0, *share], where="post", label=f"{MARKS[kind]} ({len(factors)} of {len(best)})")
    axis.set_xscale("log")
    axis.set_xlabel("rounds, as a multiple of the fewer of the two")
    axis.set_ylabel("share of the problems solved")
    axis.set_ylim(0, 1.02)
    axis.grid(alpha=0.3)
    axis.legend(loc="lower right")
    figure.tight_layout()
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=130)
    plt.close(figure)


def write(rows: list[Row], docs: Path) -> None:
    """docs/suite.md and its figure."""
    profile(rows, docs / "figures" / "suite-profile.png")
    page = (Path(__file__).parent / "template.md").read_text()
    page = page.replace("{{count}}", str(len({row["case"] for row in rows})))
    page = page.replace("{{verdicts}}", "\n".join(verdicts(rows)))
    page = page.replace("{{table}}", "\n".join(table(rows)))
    (docs / "suite.md").write_text(page)
