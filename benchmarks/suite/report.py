"""Lines, table, verdicts, profile and CSV of the suite's results."""

from __future__ import annotations

import csv
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
        mine = {where: kinds[kind] for where, kinds in instances.items() if kind in kinds}
        lost = sorted({case for (case, _), row in mine.items() if row["status"] == "skipped"})
        if mine:
            words = f"; no steps were found for {', '.join(lost)}" if lost else ""
            lines.append(f"- {name}: {sum(map(solved, mine.values()))} of {len(mine)} instances solved{words}.")
    found = ratios(rows)
    if found:
        worst = max(found, key=found.__getitem__)
        lines.append(
            f"- Rounds of the default over those of tuned steps: median {median(found.values()):.2f}, worst "
            f"{found[worst]:.1f} ({worst[0]}, seed {worst[1]}), over {len(found)} instances that both solve; "
            f"{sum(value > 1.3 for value in found.values())} of them are above 1.3."
        )
    missed = [
        f"{name} (seed {seed}, {kinds['default']['status'].replace('_', ' ')})"
        for (name, seed), kinds in instances.items()
        if "default" in kinds and not solved(kinds["default"])
    ]
    lines.append(f"- Not solved by the default: {', '.join(missed) or 'none'}.")
    false = [f"{row['case']} (seed {row['seed']}, {MARKS[row['kind']]})" for row in rows if wrong(row)]
    lines.append(f'- "Converged" and wrong by more than 1e-5: {", ".join(false) or "none"}.')
    return lines


def table(rows: list[Row]) -> list[str]:
    """A line for each problem: seed 0, and in brackets the worst of all seeds where there are several."""
    lines = [
        "| problem | n, p, d | default | seconds | tuned | default/tuned | centralised | error | answer by |",
        "|---|---|---|---|---|---|---|---|---|",
    ]
    found, draws = ratios(rows), defaultdict(list)
    for (name, _), kinds in by_instance(rows).items():
        draws[name].append(kinds)
    for name, mine in draws.items():
        default, tuned = ([kinds[kind] for kinds in mine if kind in kinds] for kind in ("default", "tuned"))
        ratio = [value for (other, _), value in found.items() if other == name]
        error = [worst_error(row) for row in default]
        spent = [row["processor_seconds"] for row in default if "processor_seconds" in row]
        problem = CASES[name].build(0).problem
        cells = [
            name,
            f"{problem.n}, {problem.p}, {problem.d}",
            _cells(default),
            f"{median(spent):.1f}" if spent else "-",
            _cells(tuned),
            "-" if not ratio else f"{median(ratio):.2f}" + (f" ({max(ratio):.2f})" if len(ratio) > 1 else ""),
            _cell(mine[0].get("pga")),
            f"{max(error):.0e}" if error else "-",
            default[0].get("by", "-") if default else "-",
        ]
        lines.append(f"| {' | '.join(cells)} |")
    return lines


def worst_error(row: Row) -> float:
    """The largest error against the independent answer."""
    return max((row[key] for key in list(ERRORS)[1:] if row.get(key) is not None), default=math.nan)


def _cells(rows: list[Row]) -> str:
    """The first seed, and the worst where others were measured."""
    if len(rows) < 2:
        return _cell(rows[0] if rows else None)
    missed = [row for row in rows if not solved(row)]
    worst = missed[0] if missed else max(rows, key=lambda row: row["rounds"])
    return f"{_cell(rows[0])} ({_cell(worst)})"


def _cell(row: Row | None) -> str:
    if row is None or row["status"] == "skipped":
        return "-"
    if solved(row):
        return f"{row['rounds'] or row['iterations']:,}"
    if row["status"] == "max_iters":
        return f"> {row['iterations']:,}"
    return "wrong" if wrong(row) else row["status"].replace("_", " ")


def spreadsheet(rows: list[Row], path: Path) -> None:
    """All that was measured, a line for each run."""
    columns = ["case", "seed", "kind", "status", "rounds", "iterations", "seconds", "processor_seconds", *ERRORS, "by"]
    with path.open("w", newline="") as file:
        writer = csv.DictWriter(file, columns, extrasaction="ignore", lineterminator="\n")
        writer.writeheader()
        for kinds in by_instance(rows).values():
            for row in kinds.values():
                writer.writerow({name: _short(row.get(name, "")) for name in columns})


def _short(value: Any) -> Any:
    return f"{value:.3g}" if isinstance(value, float) else value


def profile(rows: list[Row], path: Path) -> None:
    """Share of the problems solved within a factor of the fewest rounds that any decentralised run needed."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt
    from matplotlib.ticker import LogLocator, NullLocator, StrMethodFormatter

    both = [kinds for kinds in by_instance(rows).values() if {"default", "tuned"} <= set(kinds)]
    costs = {
        kind: [kinds[kind]["rounds"] if solved(kinds[kind]) else math.inf for kinds in both]
        for kind in ("default", "tuned")
    }
    best = [min(pair) for pair in zip(*costs.values(), strict=True)]
    figure, axis = plt.subplots(figsize=(7, 4))
    solvable = {
        kind: sorted(a / b for a, b in zip(mine, best, strict=True) if math.isfinite(a)) for kind, mine in costs.items()
    }
    farthest = max(max(factors, default=1.0) for factors in solvable.values())
    for kind, factors in solvable.items():
        share = [(k + 1) / len(best) for k in range(len(factors))]
        x, y = [1.0, *factors, 1.1 * farthest], [0.0, *share, share[-1] if share else 0.0]
        axis.step(x, y, where="post", label=f"{MARKS[kind]} ({len(factors)} solved)")
    axis.set_xscale("log")
    axis.xaxis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0)))
    axis.xaxis.set_major_formatter(StrMethodFormatter("{x:g}"))
    axis.xaxis.set_minor_locator(NullLocator())
    axis.set_xlabel("rounds, as a multiple of the fewer of the two")
    axis.set_ylabel(f"share of {len(best)} instances")
    axis.set_ylim(0, 1.02)
    axis.grid(alpha=0.3)
    axis.legend(loc="lower right")
    figure.tight_layout()
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=130)
    plt.close(figure)


def write(rows: list[Row], docs: Path) -> None:
    """docs/suite.md, its figure and its CSV."""
    profile(rows, docs / "figures" / "suite-profile.png")
    spreadsheet(rows, docs / "figures" / "suite.csv")
    instances = by_instance(rows)
    facts = {
        "count": str(len({name for name, _ in instances})),
        "drawn": str(sum(CASES[name].drawn for name, seed in instances if seed == 0)),
        "seeds": str(max(seed for _, seed in instances)),
        "instances": str(len(instances)),
        "verdicts": "\n".join(verdicts(rows)),
        "table": "\n".join(table(rows)),
    }
    page = (Path(__file__).parent / "template.md").read_text()
    for name, text in facts.items():
        page = page.replace("{{" + name + "}}", text)
    (docs / "suite.md").write_text(page)
