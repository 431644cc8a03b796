"""The numbers as JSON and CSV, as one plot and as docs/benchmarks.md."""

from __future__ import annotations

import csv
import json
import statistics
from pathlib import Path

TEMPLATE = Path(__file__).parent / "template.md"
PAGE = TEMPLATE.parents[1] / "docs" / "benchmarks.md"
FIGURES = PAGE.parent / "figures"
COLUMNS = ("what", "case", "n", "p", "d", "contender", "seconds", "median_seconds", "bytes", "bytes_per_second_read")

# Targets as ratios to the naive loop, or parts of the bandwidth; None where there is none.
TARGETS = {"S": 150, "M": 45, "M2": 5, "graph": 40, "sparse": 8}


def ours(times):
    """The fastest of ours."""
    return min(row["best"] for name, row in times.items() if name.startswith("ours"))


def show(seconds):
    """Seconds with a unit."""
    for unit, factor in (("s", 1.0), ("ms", 1e3), ("us", 1e6)):
        if seconds * factor >= 1.0:
            return f"{seconds * factor:.3g} {unit}"
    return f"{seconds * 1e9:.3g} ns"


def case_table(results):
    """Ratios to the naive loop, best turns; medians in brackets."""
    head = (
        "| case | n, p, d | naive loop | vectorised NumPy | JAX | ours, 1 thread | ours, all threads | of bandwidth |"
    )
    lines = [head, "|---|---|---|---|---|---|---|---|"]
    for name, row in results["cases"].items():
        times = row["times"]
        naive = times["naive"]
        cells = [name, ", ".join(f"{size:,}" for size in row["shape"]), show(naive["best"])]
        names = ["vectorised", "jax", "ours-1", next((k for k in times if k.startswith("ours") and k != "ours-1"), "")]
        for key in names:
            if key not in times:
                cells.append("-" if key == "jax" else "one is faster")
                continue
            best, median = naive["best"] / times[key]["best"], naive["median"] / times[key]["median"]
            cells.append(f"{best:.3g} x ({median:.3g} x), {show(times[key]['best'])}")
        parts = [f"{value:.0%}" for key, value in row.items() if key.endswith("of bandwidth")]
        cells.append(" / ".join(parts))
        lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines)


def verdicts(results):
    """Each target, what was measured, and whether it was met."""
    lines = ["| target | measured | met |", "|---|---|---|"]

    def line(target, measured, met):
        lines.append(f"| {target} | {measured} | {'yes' if met else 'no'} |")

    for name, least in TARGETS.items():
        if name in results["cases"]:
            times = results["cases"][name]["times"]
            ratio = times["naive"]["best"] / ours(times)
            line(f"{name}: at least {least} x the naive loop", f"{ratio:.3g} x", ratio >= least)
    if "S" in results["cases"]:
        times = results["cases"]["S"]["times"]
        ratio = times["vectorised"]["best"] / ours(times)
        line("S: at least 20 x vectorised NumPy", f"{ratio:.3g} x", ratio >= 20)
    if "L" in results["cases"]:
        row = results["cases"]["L"]
        fastest = min(
            (key for key in row["times"] if key.startswith("ours")), key=lambda key: row["times"][key]["best"]
        )
        part = row[f"{fastest} of bandwidth"]
        text = f"{part:.0%} ({row[f'{fastest} of product']:.0%} of what the product of an array with itself reads)"
        line("L: at least 80 % of the measured read bandwidth", text, part >= 0.8)
    for name, row in results.get("tracing", {}).items():
        line(
            f"tracing at {name} ({row['iterations']:,} iterations): below 5 %",
            f"{row['part']:.1%} ({row['records']} records of {row['record']:.1f} iterations each)",
            row["part"] < 0.05,
        )
    if "memory" in results:
        row = results["memory"]
        text = f"{row['peak'] / 1e6:,.0f} MB of {row['limit'] / 1e6:,.0f} MB"
        line("L: memory below 1.3 x A and six n x p arrays", text, row["peak"] <= row["limit"])
    if "start-up" in results:
        row = results["start-up"]
        line("import below 0.5 s", show(row["S"]["import"]), row["S"]["import"] < 0.5)
        for name, label in (("S", "one thread"), ("M2", "several threads")):
            used = row[name]["whole process"]
            line(f"imports and first solve of a process ({label}): below 2 s of processor time", show(used), used < 2.0)
    return "\n".join(lines)


def against_table(results):
    """Times of the other checkout divided by ours, best turns (medians); a row for each number of threads."""
    found = results["against"]
    cases = list(next(iter(found.values())))
    lines = [f"| threads | {' | '.join(cases)} |", "|---" * (len(cases) + 1) + "|"]
    for threads, rows in found.items():
        lines.append(f"| {threads} | {' | '.join(_ratio(rows[case]) for case in cases)} |")
    return "\n".join(lines)


def searches_table(results):
    """Processor time of a whole search for steps, before and now."""
    lines = ["| case | before | now | ratio |", "|---|---|---|---|"]
    for case, sides in results["searches"].items():
        before, now = (show(min(sides[side]) / 1e6) for side in ("other", "this"))
        lines.append(f"| {case} | {before} | {now} | {_ratio(sides)} |")
    return "\n".join(lines)


def _ratio(sides):
    """The other side's time divided by ours, best turns (medians)."""
    best, median = (pick(sides["other"]) / pick(sides["this"]) for pick in (min, statistics.median))
    return f"{best:.2f} x ({median:.2f} x)"


def memory_table(results):
    """Peak memory at L of the other checkout and of this one."""
    rows = {"before": results["memory before"], "now": results["memory"]}
    lines = ["| kernels | the whole process | beyond what it had before the data |", "|---|---|---|"]
    lines += [
        f"| {name} | {row['process'] / 1e6:,.0f} MB | {row['beyond'] / 1e6:,.0f} MB |" for name, row in rows.items()
    ]
    return "\n".join(lines)


def growth_table(results):
    """Fitted exponents."""
    lines = ["| growing | sizes | ours: fit, last step | vectorised: fit, last step |", "|---|---|---|---|"]
    for axis, row in results["growth"].items():
        fit, last = row["exponent"], row["exponent of the last step"]
        cells = [f"{fit[k]:.2f}, {last[k]:.2f}" for k in ("ours", "vectorised")]
        lines.append(f"| {axis} | {', '.join(map(str, row['sizes']))} | {cells[0]} | {cells[1]} |")
    return "\n".join(lines)


def alternatives_table(results):
    """Seconds to a gap of 1e-6."""
    lines = ["| case | ours (steps known) | search for steps | cvxpy, all data in one place |", "|---|---|---|---|"]
    for name, row in results["alternatives"].items():
        mine, generic = row["ours"], row["cvxpy"]
        other = generic.get("missing") or f"{show(generic['best'])} (gap {generic['gap']:.1e})"
        cells = [name, f"{show(mine['best'])} ({mine['iterations']} iterations)", show(mine["search for steps"]), other]
        lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines)


def markdown(results, template):
    """The page: the template with its tables filled in."""
    turns = sorted({row.get("repeats", results["repeats"]) for row in results["cases"].values()})
    machine = f"{results['cores']} cores; read bandwidth in the race of each row: " + ", ".join(
        f"{name} {' / '.join(f'{value / 1e9:.1f}' for value in row['bandwidth'].values())}"
        for name, row in results["cases"].items()
    )
    fill = {
        "machine": machine,
        "setting": f"{' or '.join(map(str, turns))} interleaved turns of {results['seconds']} s",
        "cases": case_table(results),
        "against": against_table(results),
        "searches": searches_table(results),
        "memory": memory_table(results),
        "verdicts": verdicts(results),
        "growth": growth_table(results),
        "alternatives": alternatives_table(results),
        "libraries": "\n".join(f"* `{name}`: {text}." for name, text in results["libraries"].items()),
        "first": show(results["start-up"]["S"]["first solve"]),
        "import": show(results["start-up"]["S"]["import"]),
    }
    for key, text in fill.items():
        template = template.replace("{{" + key + "}}", text)
    return template


def rows(results):
    """The data of the figure and of the tables of times, a row for each time."""
    for name, found in results["cases"].items():
        size = dict(zip("npd", found["shape"], strict=True)) | {"bytes": found["traffic"]}
        for contender, times in found["times"].items():
            reader = f"read-{contender.split('-')[1]}" if contender.startswith("ours") else "read-1"
            pace = {"bytes_per_second_read": found["bandwidth"].get(reader)}
            yield {"what": "iteration", "case": name, "contender": contender, **size, **pace, **_seconds(times)}
    races = [("against", threads, cases) for threads, cases in results.get("against", {}).items()]
    for what, threads, cases in [*races, ("search", 1, results.get("searches", {}))]:
        for name, sides in cases.items():
            for side, turns in sides.items():
                times = {"best": min(turns) / 1e6, "median": statistics.median(turns) / 1e6}
                label = f"{'before' if side == 'other' else 'ours'}-{threads}"
                yield {"what": what, "case": name, "contender": label, **_seconds(times)}
    for axis, found in results.get("growth", {}).items():
        for contender, curve in found["seconds"].items():
            for size, seconds in zip(found["sizes"], curve, strict=True):
                yield {"what": "growth", "case": axis, axis: size, "contender": contender, "seconds": seconds}


def _seconds(times):
    return {"seconds": times["best"], "median_seconds": times["median"]}


def write(results, folder):
    """JSON, CSV and plot."""
    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "benchmarks.json").write_text(json.dumps(results, indent=1) + "\n")
    with (folder / "benchmarks.csv").open("w", newline="") as file:
        writer = csv.DictWriter(file, COLUMNS, lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows(results))
    try:
        import matplotlib

        matplotlib.use("Agg")
        import matplotlib.pyplot as plt
    except ImportError:
        return
    figure, (left, right) = plt.subplots(1, 2, figsize=(11, 4.2))
    _draw_cases(left, results)
    _draw_growth(right, results)
    figure.tight_layout()
    figure.savefig(folder / "benchmarks.png", dpi=150)


def _draw_cases(axes, results):
    """How many times as fast as the naive loop, a group of bars for each case."""
    names = list(results["cases"])
    looks = {"vectorised": ("vectorised NumPy", "#9aa5b1"), "jax": ("JAX", "#d98c3f"), "ours": ("npga", "#1f5fa8")}
    for k, (key, (label, color)) in enumerate(looks.items()):
        heights = []
        for name in names:
            times = results["cases"][name]["times"]
            best = ours(times) if key == "ours" else times.get(key, {}).get("best", float("nan"))
            heights.append(times["naive"]["best"] / best)
        places, from_one = [i + 0.28 * (k - 1) for i in range(len(names))], [height - 1.0 for height in heights]
        bars = axes.bar(places, from_one, 0.26, bottom=1.0, label=label, color=color)
        axes.bar_label(bars, [_short(height) for height in heights], fontsize=7, padding=1)
    axes.axhline(1.0, color="black", linewidth=0.8)
    axes.set_yscale("log")
    axes.set_ylim(top=6.0 * axes.get_ylim()[1])  # room for the legend
    axes.set_xticks(range(len(names)), [f"{name}\n{_sizes(results['cases'][name])}" for name in names], fontsize=7.5)
    axes.set_ylabel("times as fast as the naive loop")
    axes.set_title("One iteration, by problem (n, p, d below its name)", fontsize=10)
    axes.legend(fontsize=8, loc="upper center", ncols=3)


def _short(ratio):
    """Two digits, or whole; nothing for what was not measured."""
    return "" if ratio != ratio else f"{ratio:.2g}" if ratio < 10 else f"{ratio:.0f}"


def _sizes(row):
    return "\n".join(f"{size:,}" for size in row["shape"])


def _draw_growth(axes, results):
    """Seconds of an iteration against the size that grows."""
    for axis, row in results.get("growth", {}).items():
        line = axes.loglog(row["sizes"], row["seconds"]["ours"], "o-", label=f"npga, {axis} grows")[0]
        look = {"color": line.get_color(), "markerfacecolor": "white", "label": f"vectorised NumPy, {axis} grows"}
        axes.loglog(row["sizes"], row["seconds"]["vectorised"], "s:", **look)
    axes.set_xlabel("n agents, p coupling rows, or d variables")
    axes.set_ylabel("seconds of an iteration")
    axes.set_title("One iteration, as a size grows", fontsize=10)
    if results.get("growth"):
        axes.legend(fontsize=7.5)
