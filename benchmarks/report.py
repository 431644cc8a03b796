"""The numbers as JSON, as one plot and as docs/benchmarks.md."""

from __future__ import annotations

import json
from pathlib import Path

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
        text = f"{row['peak'] / 2**20:,.0f} MB of {row['limit'] / 2**20:,.0f} MB"
        line("L: memory below 1.3 x A and six n x p arrays", text, row["peak"] <= row["limit"])
    if "start-up" in results:
        row = results["start-up"]
        line("import below 0.5 s", show(row["S"]["import"]), row["S"]["import"] < 0.5)
        for name, label in (("S", "one thread"), ("M2", "several threads")):
            used = row[name]["whole process"]
            line(f"first solve of a process ({label}): below 2 s of processor time", show(used), used < 2.0)
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


def write(results, folder):
    """JSON and plot."""
    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "benchmarks.json").write_text(json.dumps(results, indent=2) + "\n")
    try:
        import matplotlib

        matplotlib.use("Agg")
        import matplotlib.pyplot as plt
    except ImportError:
        return
    figure, (left, right) = plt.subplots(1, 2, figsize=(11, 4))
    names = list(results["cases"])
    keys = ["vectorised", "jax", "ours"]
    for k, key in enumerate(keys):
        heights = []
        for name in names:
            times = results["cases"][name]["times"]
            mine = ours(times) if key == "ours" else times.get(key, {}).get("best", float("nan"))
            heights.append(times["naive"]["best"] / mine)
        left.bar([i + 0.27 * (k - 1) for i in range(len(names))], heights, 0.25, label=key)
    left.set_yscale("log")
    left.set_xticks(range(len(names)), names)
    left.set_ylabel("times faster than the naive loop")
    left.legend()
    for axis, row in results.get("growth", {}).items():
        line = right.loglog(row["sizes"], row["seconds"]["ours"], "o-", label=f"ours, {axis}")[0]
        right.loglog(
            row["sizes"], row["seconds"]["vectorised"], "s:", color=line.get_color(), label=f"vectorised, {axis}"
        )
    right.set_xlabel("size")
    right.set_ylabel("seconds of an iteration")
    if results.get("growth"):
        right.legend(fontsize=8)
    figure.tight_layout()
    figure.savefig(folder / "benchmarks.png", dpi=150)
