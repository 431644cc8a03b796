"""Methods side by side, and when a Chebyshev polynomial pays: what docs/comparison.md reports.

    python benchmarks/comparison.py methods elastic-net --draws 3 --out out/comparison    # any of CASES
    python benchmarks/comparison.py report elastic-net --out out/comparison    # what there is of it so far
    python benchmarks/comparison.py page --out out/comparison    # the table of the page, from all of CASES
    python benchmarks/comparison.py chebyshev --out out/comparison

The first and the last go on where they were interrupted.
"""

from __future__ import annotations

import argparse
import csv
import itertools
import json
from pathlib import Path
from statistics import median

import numpy as np

import npga
from npga import functions as fn
from npga import power
from npga.experiments import EXPERIMENTS

METHODS = (
    "npga", *(row.name for row in npga.versions()), *(npga.version("nids", chebyshev=degree) for degree in (2, 3, 5)),
    "pga", "dual-exact", "tracking-admm", "dc-admm", "idc-admm", "id2a", "mid2a", "optimal-affine",
)  # fmt: skip
# Rows of the paper that equal another up to gamma and c; they are in the tables and not in the figures.
TWINS = ("dlm", "p2d2", "exact-diffusion")
DEGREES = (1, 2, 3, 5, 8)
# Betas that are tried with each degree, in units of l/sigma^2, and the longest run.
BETAS, LIMIT = np.geomspace(1e-4, 8.0, 22), 100_000
NETWORKS = {
    "ring": lambda n, _: npga.Network.ring(n),
    "grid": lambda n, _: npga.Network.grid({10: 2, 100: 10, 1000: 25}[n], {10: 5, 100: 10, 1000: 40}[n]),
    "Erdos-Renyi": lambda n, seed: npga.Network.erdos_renyi(n, min(1.0, 2.0 * np.log(n) / n), seed=seed),
    "Barabasi-Albert": lambda n, seed: npga.Network.barabasi_albert(n, 2, seed=seed),
}


# ------------------------------------------------------------------ all methods


def quadratic(n: int, kappa: float, seed: int = 0) -> npga.Problem:
    """Quadratics of condition number kappa with one equality of two rows."""
    rng = np.random.default_rng(seed)
    agents = [
        npga.Agent(
            rng.standard_normal((2, 2)), fn.Quadratic(np.diag(np.geomspace(1.0, kappa, 2)), rng.standard_normal(2))
        )
        for _ in range(n)
    ]
    return npga.Problem(agents, fn.Equality(rng.standard_normal(2) * np.sqrt(n)))


def dispatch(seed: int) -> tuple[npga.Problem, npga.Network]:
    """Economic dispatch on IEEE 118: the loads of the case, each times a factor drawn from [0.8, 1.2]."""
    grid = power.case("case118")
    loads = grid.load * np.random.default_rng(seed).uniform(0.8, 1.2, grid.load.size)
    return grid.dispatch(loads).problem, grid.network()


def experiment(name: str, seed: int) -> tuple[npga.Problem, npga.Network]:
    """A draw of one of the paper's experiments."""
    built = EXPERIMENTS[name]().build(seed)
    return built.problem, built.network


CASES = {name: lambda seed, name=name: experiment(name, seed) for name in EXPERIMENTS} | {
    "ieee118": dispatch,
    "ring": lambda seed: (quadratic(20, 10.0, seed), npga.Network.ring(20)),
    "grid": lambda seed: (quadratic(25, 10.0, seed), npga.Network.grid(5, 5)),
}


def methods(name: str, draws: int, budget: int, out: Path) -> None:
    """All methods, and NIDS with Chebyshev polynomials, on draws of one problem."""
    found = npga.compare(
        CASES[name], methods=METHODS, seeds=draws, budget=budget, max_iters=20_000, store=out / f"{name}.jsonl",
        progress=True,
    )  # fmt: skip
    write(found, name, out)


def write(found: npga.tuning.Comparison, name: str, out: Path) -> None:
    """Tables as text, as CSV and for the page, and figures."""
    print(found.table)
    (out / f"{name}.txt").write_text(found.table + "\n")
    found.to_pandas().to_csv(out / f"comparison-{name}.csv", index=False)
    shown = ("iterations", "rounds", "floats_sent", "gradients", "inner_iterations")
    lines = [f"| {line['method']} | {line['solved']}/{line['draws']} | " + " | ".join(
        f"{line[key]:,.0f}" for key in shown) + " |" for line in found.summary() if line["solved"]]  # fmt: skip
    (out / f"{name}.md").write_text("\n".join(lines) + "\n")
    kept = tuple(label for label in found.labels if label not in TWINS)
    drawn = npga.tuning.Comparison(tuple(row for row in found.rows if row["method"] in kept), kept, found.tol)
    for by in ("rounds", "iterations"):
        drawn.plot(out / f"comparison-{name}-{by}.png", by=by)


def page(out: Path) -> None:
    """The table of docs/comparison.md: medians of iterations / rounds over the draws that every method has finished."""
    found = {name: npga.tuning.read_comparison(out / f"{name}.jsonl") for name in CASES}
    labels = [item if isinstance(item, str) else f"{item.name}, {item.chebyshev} rounds" for item in METHODS]
    lines, draws = [["method", *found], ["---"] * (1 + len(found))], {}
    for name, one in found.items():
        ran = [{row["method"] for row in one.rows if row["draw"] == draw} for draw in one.draws]
        draws[name] = [draw for draw, own in zip(one.draws, ran, strict=True) if own >= set(labels)]
    for label in labels:
        kept = [
            [row for row in found[name].rows if row["method"] == label and row["draw"] in draws[name]] for name in found
        ]
        lines.append([label, *map(cell, kept)])
    text = "\n".join(f"| {' | '.join(line)} |" for line in lines)
    (out / "page.md").write_text(f"{text}\n\ndraws: {draws}\n")


def cell(rows: list[dict]) -> str:
    """What one method did on the draws of one problem; of runs that did not arrive, the worst error."""
    solved = [row for row in rows if row["status"] == "converged"]
    if solved:
        counts = " / ".join(f"{median(row[key] for row in solved):,.0f}" for key in ("iterations", "rounds"))
        return counts if len(solved) == len(rows) else f"{counts} ({len(solved)} of {len(rows)})"
    if all(row["status"] == "refused" for row in rows):
        return "refused" if rows else ""
    return f"limit, {max(float(row['why'].split()[-1]) for row in rows):.1e}"


# ------------------------------------------------------------------ degrees of the polynomial


def iterations(problem: npga.Problem, network: npga.Network, star: np.ndarray, degree: int) -> float:
    """Iterations of NIDS to 1e-8 for good, at the best of a line of betas; alpha = 1/l, gamma c = 1/lambda_max.

    Every third beta is tried, then those on both sides of the best; the count is that of a run that looks often.
    """
    plain = npga.version("nids", chebyshev=degree)
    largest = plain.polynomial(network).spread + 1.0 if degree > 1 else 1.0 - network.extreme_eigenvalues()[0]
    version = npga.version("nids", c=1.0 / largest, chebyshev=degree)
    found: dict[int, float] = {}

    def count(k: int, every: int | None = None) -> float:
        steps = npga.Steps(1.0 / problem.l, BETAS[k] * problem.l / problem.sigma**2, 1.0)
        limit = int(min(LIMIT, 2 * min(found.values(), default=np.inf) + 50))
        run = npga.solver.solve(
            problem, network, version, steps, tol=None, reference=star, gap_tol=1e-10, max_iters=limit,
            record_every=every,
        )  # fmt: skip
        above = run.trace.iteration[~(run.trace.gap <= 1e-8)]
        return float(above[-1] if above.size else 0) if run.trace.gap[-1] <= 1e-8 else np.inf

    for k in (10, 13, 7, 16, 4, 19, 1):  # from the middle, so that hopeless ones are given up soon
        found[k] = count(k)
    near = min(found, key=found.__getitem__)
    for k in {near - 2, near - 1, near + 1, near + 2} & set(range(len(BETAS))) - set(found):
        found[k] = count(k)
    best = min(found, key=found.__getitem__)
    return count(best, max(1, int(found[best] // 500))) if found[best] < np.inf else np.inf


def study(out: Path, draws: int) -> None:
    """Rounds against the degree, over graphs, sizes, condition numbers and draws of data and random graphs."""
    store = out / "chebyshev.jsonl"
    known = [json.loads(line) for line in store.read_text().splitlines()] if store.exists() else []
    done = {(row["graph"], row["n"], row["kappa"], row["draw"]) for row in known}
    cases = itertools.product(range(draws), (10, 100, 1000), (1.0, 10.0, 100.0))
    for seed, n, kappa in cases:
        problem = quadratic(n, kappa, seed)
        star = npga.reference(problem).x
        for name in (name for name in NETWORKS if (name, n, kappa, seed) not in done):
            network = NETWORKS[name](n, seed + 1)
            least, most = network.extreme_eigenvalues()
            row = {"graph": name, "n": n, "kappa": kappa, "draw": seed, "network": (1.0 - least) / (1.0 - most)}
            row |= {f"K={degree}": degree * iterations(problem, network, star, degree) for degree in DEGREES}
            print(row, flush=True)
            known.append(row)
            with store.open("a") as file:
                file.write(json.dumps(row) + "\n")
    tables(known, out)


def tables(known: list[dict], out: Path) -> None:
    """All draws as CSV; medians over them as a figure and for the page."""
    with (out / "comparison-chebyshev.csv").open("w", newline="") as file:
        writer = csv.DictWriter(file, list(known[0]))
        writer.writeheader()
        writer.writerows(known)
    rows, keys = [], ("network", *(f"K={degree}" for degree in DEGREES))
    for n, kappa, graph in itertools.product((10, 100, 1000), (1.0, 10.0, 100.0), NETWORKS):
        own = [row for row in known if (row["graph"], row["n"], row["kappa"]) == (graph, n, kappa)]
        if own:
            medians = {key: median(row[key] for row in own) for key in keys}
            rows.append({"graph": graph, "n": n, "condition": medians.pop("network"), "kappa": kappa} | medians)
    lines = ["| " + " | ".join([row["graph"], *(f"{row[key]:,.0f}" for key in list(row)[1:])]) + " |" for row in rows]
    (out / "chebyshev.md").write_text("\n".join(lines).replace("inf", "none") + "\n")
    draw(rows, out / "comparison-chebyshev.png")


def draw(rows: list[dict], path: Path) -> None:
    """Rounds against the degree, relative to those without a polynomial; one panel for each condition number."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(10.0, 3.6), layout="constrained")
    panels = figure.subplots(1, 3, sharey=True)
    colours = dict(zip(NETWORKS, ("#CC6677", "#332288", "#117733", "#DDCC77"), strict=True))
    dashes = {10: ":", 100: "-", 1000: "--"}
    for axes, kappa in zip(panels, (1.0, 10.0, 100.0), strict=True):
        for row in (row for row in rows if row["kappa"] == kappa):
            y = [row[f"K={degree}"] / row["K=1"] for degree in DEGREES]
            label = f"{row['graph']}, {row['n']}"
            axes.plot(DEGREES, y, color=colours[row["graph"]], linestyle=dashes[row["n"]], marker=".", label=label)
        axes.axhline(1.0, color="#999999", linewidth=0.8)
        axes.set(title=f"condition number of f: {kappa:g}", xlabel="degree K", yscale="log", xticks=DEGREES)
        axes.spines[["top", "right"]].set_visible(False)
    panels[0].set(ylabel="rounds to 1e-8, K = 1 is one")
    panels[0].set_yticks([0.5, 1, 2, 4, 8], ["1/2", "1", "2", "4", "8"])
    panels[0].minorticks_off()
    panels[-1].legend(
        *panels[0].get_legend_handles_labels(),
        frameon=False,
        fontsize=8,
        loc="center left",
        bbox_to_anchor=(1.02, 0.5),
        handlelength=3.5,
    )
    figure.savefig(path, dpi=150)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=("methods", "report", "page", "chebyshev"))
    parser.add_argument("name", nargs="?", default="elastic-net", choices=tuple(CASES))
    parser.add_argument("--draws", type=int, default=3)
    parser.add_argument("--budget", type=int, default=50_000)
    parser.add_argument("--out", type=Path, default=Path("out/comparison"))
    given = parser.parse_args()
    given.out.mkdir(parents=True, exist_ok=True)
    if given.what == "chebyshev":
        study(given.out, given.draws)
    elif given.what == "page":
        page(given.out)
    elif given.what == "report":
        write(npga.tuning.read_comparison(given.out / f"{given.name}.jsonl"), given.name, given.out)
    else:
        methods(given.name, given.draws, given.budget, given.out)
