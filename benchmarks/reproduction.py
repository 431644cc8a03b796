"""Data, figures and tables of docs/reproduction.md, from what `npga reproduce` left in folders.

    npga reproduce ridge --seeds 20 --out out/free
    npga reproduce ridge --seeds 20 --within-theorems --out out/theorems
    python benchmarks/reproduction.py --free out/free --theorems out/theorems

The folders become docs/figures/reproduction.csv, and the data of each figure stand beside it; the page's tables are
computed from reproduction.csv alone, which a test does again.
"""

from __future__ import annotations

import argparse
import csv
import json
import re
import shutil
import textwrap
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

import npga
from npga.experiments import EXPERIMENTS, draw
from npga.experiments._figures import RATIO_COLUMNS, draw_ratios, ratio_rows
from npga.experiments._tables import write_rows

PAGE = Path(__file__).parents[1] / "docs" / "reproduction.md"
FIGURES = PAGE.parent / "figures"
DATA = FIGURES / "reproduction.csv"
COUNTS = ("iterations_1e-4", "iterations_1e-8", "iterations_1e-12", "rounds_1e-8")
COLUMNS = (
    "experiment", "steps", "setting", "repetition", "version", "mixing", "chosen", "rounds_per_iteration", *COUNTS,
    "gap", "alpha", "beta", "gamma", "theta", "c", "rate_measured", "rate_predicted", "tuning_method", "tuning_work",
    "theorem", "certified_iterations_1e-10", "commit",
)  # fmt: skip
Row = dict[str, Any]


# ------------------------------------------------------------------ from folders to data and figures


def collect(folders: dict[str, Sequence[Path]]) -> None:
    """Write the data and the figures; `folders` are those of free steps and of steps in the theorems' box.

    A draw that is in none of them keeps the rows that it has, with the commit that ran them; curves, whose points are
    not among the data, are taken from a folder that has all draws.
    """
    rows, curves = [], {}
    for steps, places in folders.items():
        for folder in places:
            commit = json.loads((folder / "settings.json").read_text(encoding="utf-8"))["commit"]
            report = draw(folder, figures=steps == "free")
            for name, runs in report.runs.items():
                rows += [{**row, "steps": steps, "commit": (commit or "")[:7]} for row in runs]
                if steps == "free":
                    curves[name] = folder / name, {row["repetition"] for row in runs}
    new = {_draw_of(row) for row in rows}
    rows = sorted([*rows, *(row for row in stored() if _draw_of(row) not in new)], key=_draw_of)
    write_rows(DATA, COLUMNS, rows)
    for name, (folder, draws) in curves.items():
        if draws == set(chosen(name, "free")["dcpa"]):
            for ending in ("png", "csv"):
                shutil.copy(folder / f"gap.{ending}", FIGURES / f"{name}-gap.{ending}")
    for name, kind in EXPERIMENTS.items():
        found = chosen(name, "free")
        lines = [
            {"version": version} | {count: ratios(found, version, count) for count in ("iterations", "rounds")}
            for version in found
            if version != "dcpa"
        ]
        if found and len(found["dcpa"]) > 1:
            write_rows(FIGURES / f"{name}-advantage.csv", RATIO_COLUMNS, ratio_rows(lines))
            draw_ratios(lines, kind.title, FIGURES / f"{name}-advantage")[1].unlink()  # the PDF


def _draw_of(row: Row) -> tuple[str, str, int]:
    return row["experiment"], row["steps"], int(row["repetition"])


def stored() -> list[Row]:
    """The rows of the data as they stand."""
    with DATA.open(newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


# ------------------------------------------------------------------ from data to tables


def chosen(name: str, steps: str, setting: str = "tuned") -> dict[str, dict[int, Row]]:
    """The faster run of W and W' by version and draw; or that at certified steps."""
    rows = [row for row in stored() if (row["experiment"], row["steps"]) == (name, steps)]
    found: dict[str, dict[int, Row]] = {}
    for row in rows:
        if row["chosen"] == "1" and row["setting"] == setting:
            found.setdefault(row["version"], {})[int(row["repetition"])] = row
    return found


def median(rows: Iterable[Row], column: str) -> float:
    """The median over draws; nan where a version has no such constant."""
    values = [float(row[column]) for row in rows if row[column]]
    return float(np.median(values)) if values else float("nan")


def ratios(found: dict[str, dict[int, Row]], version: str, count: str) -> np.ndarray:
    """Counts of DCPA divided by those of a version, to a gap of 1e-8, draw by draw."""
    column = f"{count}_1e-8"
    return np.array([float(found["dcpa"][k][column]) / float(row[column]) for k, row in found[version].items()])


def runs_table(name: str, steps: str) -> Iterator[list[str]]:
    """Counts to three accuracies, and how many times fewer than DCPA."""
    yield [
        "version", "family", "rounds per iteration", "iterations to 1e-4, 1e-8, 1e-12", "rounds to 1e-8",
        "iterations of DCPA / its own: median (range), won", "rounds of DCPA / its own: median (range), won",
    ]  # fmt: skip
    found = chosen(name, steps)
    for version, draws in found.items():
        rows = list(draws.values())
        counts = [f"{median(rows, column):.0f}" for column in COUNTS]
        cells = [npga.version(version).look.label, npga.version(version).family, rows[0]["rounds_per_iteration"]]
        cells += [", ".join(counts[:3]), counts[3]]
        for count in ("iterations", "rounds"):
            values = ratios(found, version, count)
            cells.append("1" if version == "dcpa" else _spread(values))
        yield cells


def _spread(values: np.ndarray) -> str:
    """Median, range and draws above one; of one draw the number alone."""
    if len(values) == 1:
        return f"{values[0]:.2f}"
    return (
        f"{np.median(values):.2f} ({values.min():.2f} to {values.max():.2f}), {int((values > 1).sum())}/{len(values)}"
    )


def box_table(name: str) -> Iterator[list[str]]:
    """What the theorems' box costs: counts of free steps and of those in it, in the draws that both have."""
    yield [
        "version", "gamma, c: free", "gamma, c: in the box", "iterations to 1e-8: free, in the box", "times as many",
        "iterations of DCPA / its own, in the box", "rounds of DCPA / its own, in the box",
    ]  # fmt: skip
    free, box = chosen(name, "free"), chosen(name, "theorems")
    for version, draws in box.items():
        rows, others = list(draws.values()), [free[version][draw] for draw in draws]
        steps = [_constants(part) for part in (others, rows)]
        counts = [median(part, "iterations_1e-8") for part in (others, rows)]
        both = zip(rows, others, strict=True)
        more = np.median([float(a["iterations_1e-8"]) / float(b["iterations_1e-8"]) for a, b in both])
        cells = [npga.version(version).look.label, *steps, f"{counts[0]:.0f}, {counts[1]:.0f}", f"{more:.2f}"]
        yield cells + [
            "1" if version == "dcpa" else f"{np.median(ratios(box, version, count)):.2f}"
            for count in ("iterations", "rounds")
        ]


def certified_table() -> Iterator[list[str]]:
    """What the theorems promise, and how many times the iterations of tuned steps that is."""
    yield ["experiment", "version", "theorem", "iterations promised to 1e-10", "times those of tuned steps to 1e-8"]
    for name in EXPERIMENTS:
        tuned, promised = chosen(name, "free"), chosen(name, "free", "certified")
        for version in tuned:
            cells = [roman(name), npga.version(version).look.label]
            rows = list(promised.get(version, {}).values())
            if not rows:
                yield [*cells, "none", "", ""]
                continue
            many = median(rows, "certified_iterations_1e-10")
            theorems = ", ".join(sorted({row["theorem"] for row in rows}))
            times = many / median(tuned[version].values(), "iterations_1e-8")
            yield [*cells, theorems, f"{many:.1e}", f"{times if times < 1000 else float(f'{times:.0e}'):,.0f}"]


def answer_table() -> Iterator[list[str]]:
    """Who is best in iterations and in rounds, by experiment and box, and who beats DCPA in rounds in every draw."""
    yield [
        "experiment", "steps", "draws", "fewest iterations: times fewer than DCPA, won",
        "fewest rounds: times fewer than DCPA, won", "fewer rounds than DCPA in every draw",
    ]  # fmt: skip
    for name in EXPERIMENTS:
        for steps, words in (("free", "free"), ("theorems", "in the box")):
            found = chosen(name, steps)
            if not found:
                continue
            cells = [roman(name), words, str(len(found["dcpa"]))]
            others = [version for version in found if version != "dcpa"]
            for count in ("iterations", "rounds"):
                middle = {version: float(np.median(ratios(found, version, count))) for version in others}
                best = max(middle, key=middle.__getitem__)
                won = int((ratios(found, best, count) > 1.0).sum())
                cells.append(f"{npga.version(best).look.label}: {middle[best]:.2f}, {won}/{cells[2]}")
            always = [version for version in others if (ratios(found, version, "rounds") > 1.0).all()]
            yield [*cells, ", ".join(npga.version(version).look.label for version in always) or "none"]


def answer_words() -> str:
    """What the runs say about the paper's conclusion, in sentences."""
    names = [name for name in EXPERIMENTS if chosen(name, "free")]
    free = {name: chosen(name, "free") for name in names}
    box = {name: found for name in names if (found := chosen(name, "theorems"))}
    everywhere, inside = _labels([roman(name) for name in free]), _labels([roman(name) for name in box])
    two = [version for version in free["ridge"] if npga.version(version).rounds == 2]
    wins = _counts(free, two, "rounds", lambda ratio: ratio > 1.0)
    slower = _counts(free, ("diging", "aug-dgm", "atc-tracking"), "iterations", lambda ratio: ratio < 1.0)
    boxed = {
        version: [float(np.median(ratios(found, version, "rounds"))) for found in box.values()]
        for version in ("nids", "p2d2", "dlm")
    }
    spans = [(_words(_span({name: found}, "nids", "rounds")), roman(name)) for name, found in free.items()]
    leads = _labels([f"{span} times fewer in {number}" for span, number in spans])
    return (
        f"*In iterations, yes*: {_titles(_winners(free, 'iterations'))} need fewer than DCPA in every draw of "
        f"{everywhere}, NPGA-I {_words(_span(free, 'npga-i', 'iterations'))} times fewer. *In rounds, "
        f"{_titles(_winners(free, 'rounds'))} do* in every draw with free steps: NIDS needs {leads}. "
        f"The versions that send two vectors in an iteration lose in rounds much of what they gain in iterations: "
        f"they need fewer rounds than DCPA in {wins}. *In the theorems' box the lead in rounds is smaller*: in every "
        f"draw of {inside} fewer are needed by {_titles(_winners(box, 'rounds'))}, in the medians "
        f"{_words(boxed['nids'])} times fewer by NIDS, {_words(boxed['p2d2'])} by P2D2 and {_words(boxed['dlm'])} by "
        f"DLM. What helps is not the family alone: DIGing, Aug-DGM and ATC tracking need more iterations than DCPA in "
        f"{slower}, with free steps."
    )


def roman(name: str) -> str:
    """The number of an experiment."""
    return EXPERIMENTS[name].title.split(":")[0].removeprefix("Experiment ")


def _counts(
    found: dict[str, dict[str, dict[int, Row]]], versions: Sequence[str], count: str, met: Callable[[np.ndarray], Any]
) -> str:
    """In how many runs of these versions the ratio to DCPA meets a condition, of how many, in each experiment."""
    parts = []
    for name, one in found.items():
        values = np.concatenate([ratios(one, version, count) for version in versions if version in one])
        parts.append(f"{int(met(values).sum())} of {len(values)} runs in {roman(name)}")
    return _labels(parts)


def _winners(found: dict[str, dict[str, dict[int, Row]]], count: str) -> list[str]:
    """Versions that need fewer than DCPA in every draw of every experiment."""
    names = set.intersection(*(set(one) for one in found.values()))
    return [
        version
        for version in next(iter(found.values()))
        if version in names and version != "dcpa" and _span(found, version, count)[0] > 1.0
    ]


def _span(found: dict[str, dict[str, dict[int, Row]]], version: str, count: str) -> tuple[float, float]:
    """The least and the largest ratio over experiments and draws."""
    values = np.concatenate([ratios(one, version, count) for one in found.values()])
    return float(values.min()), float(values.max())


def _words(values: Sequence[float]) -> str:
    """A range, or one number if its ends look alike."""
    low, high = (f"{end:.1f}" for end in (min(values), max(values)))
    return low if low == high else f"{low} to {high}"


def _labels(names: Sequence[str]) -> str:
    """Names as a list in a sentence."""
    return " and ".join([", ".join(names[:-1]), names[-1]] if len(names) > 1 else names or ["none"])


def _titles(versions: Sequence[str]) -> str:
    return _labels([npga.version(version).look.label for version in versions]) if versions else "no version"


def _constants(rows: Sequence[Row]) -> str:
    """Medians of gamma and, where it is tuned, of c."""
    c = f", {median(rows, 'c'):.2g}" if npga.version(rows[0]["version"]).tunes_c else ""
    return f"{median(rows, 'gamma'):.2f}{c}"


def draws_of(name: str, steps: str) -> str:
    """How many draws, and the code that ran them."""
    found = chosen(name, steps)
    if not found:
        return ""
    rows = [row for draws in found.values() for row in draws.values()]
    commits = ", ".join(sorted({row["commit"] for row in rows}))
    method = ", ".join(sorted({row["tuning_method"] for row in rows}))
    count = len(next(iter(found.values())))
    return f"{count} draw{'s' if count > 1 else ''}, tuner: {method}, code: {commits}."


def markdown(rows: Iterable[Sequence[str]]) -> str:
    """A Markdown table; the first row is its head."""
    lines = [f"| {' | '.join(row)} |" for row in rows]
    return "\n".join([lines[0], "|" + "---|" * (lines[0].count("|") - 1), *lines[1:]])


def rewritten(text: str) -> str:
    """The page with its tables computed again."""
    words = textwrap.fill(answer_words(), 120, break_on_hyphens=False)
    for kind, table in (
        ("words", words),
        ("answer", markdown(answer_table())),
        ("certified", markdown(certified_table())),
    ):
        pattern = rf"(<!-- {kind} -->\n).*?(<!-- end -->)"
        text = re.sub(pattern, lambda m, t=table: f"{m[1]}{t}\n{m[2]}", text, count=1, flags=re.DOTALL)
    for name in EXPERIMENTS:
        for kind in ("free", "theorems", "box"):
            rows = box_table(name) if kind == "box" else runs_table(name, kind)
            pattern = rf"(<!-- {kind}: {name} -->\n).*?(<!-- end -->)"
            if re.search(pattern, text, flags=re.DOTALL):
                said = draws_of(name, "free" if kind == "free" else "theorems")
                table = f"{said}\n\n{markdown(rows)}\n"
                text = re.sub(pattern, lambda m, t=table: m[1] + t + m[2], text, flags=re.DOTALL)
    return text


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--free", type=Path, nargs="*", default=[], help="folders of npga reproduce")
    parser.add_argument(
        "--theorems", type=Path, nargs="*", default=[], help="folders of npga reproduce --within-theorems"
    )
    options = parser.parse_args()
    if options.free or options.theorems:
        collect({"free": options.free, "theorems": options.theorems})
    PAGE.write_text(rewritten(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
