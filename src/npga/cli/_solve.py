"""The commands on a problem file: solve, certify, tune, compare."""

from __future__ import annotations

import math
from dataclasses import asdict, replace
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer

import npga
from npga.cli._output import JSON, NOT_MET, command, console, show_json, show_table, speaking
from npga.cli._problem_file import ProblemFile, read_problem
from npga.errors import InputError, nearest
from npga.files import replacing, write_text
from npga.networks import version as find_version
from npga.pages import store_sections
from npga.steps import Steps

ProblemPath = Annotated[Path, typer.Argument(help="The problem: TOML, with an .npz beside it for the arrays.")]
VersionName = Annotated[str | None, typer.Option("--version", help="A version of NPGA, instead of the file's.")]
Constant = Annotated[float | None, typer.Option("--c", help="The constant c of the version, where it has one.")]
Lazy = Annotated[bool, typer.Option("--lazy", help="Use W' = (I + W)/2, instead of what the file says.")]
StepOption = Annotated[
    str | None, typer.Option("--steps", help="alpha,beta[,gamma[,theta]] instead of the file's, such as 2.0,0.03,1,0.")
]
_COMPARED = "nids,nids:3,extra,npga-i,dcpa,pga"


FILE_FORMAT = (
    "A problem file, in short (docs/cli.md has all of it):",
    'data = "problem.npz"',
    "[problem]",
    'A = "A{agent}"',
    'f = { kind = "SquaredNorm", weight = 0.1 }',
    'g = { kind = "L1", weight = 0.05 }',
    'h = { kind = "SquaredLoss", target = "@y" }',
    "[network]",
    'kind = "erdos-renyi"',
    "n = 13",
    "p = 0.3",
    "[solve]",
    'version = "nids"',
)


@command(
    "npga solve problem.toml",
    "npga solve problem.toml --version nids --tol 1e-10 --out solution.npz",
    "npga solve problem.toml --version extra --steps 2.0,0.03,1.0 --json",
    "npga solve problem.toml --report run.html",
    *FILE_FORMAT,
)
def solve(
    problem: ProblemPath,
    version: VersionName = None,
    steps: StepOption = None,
    lazy: Lazy = False,
    c: Constant = None,
    tol: Annotated[float | None, typer.Option(help="Residual of the optimality conditions to stop at.")] = None,
    max_iters: Annotated[int | None, typer.Option(help="Limit on iterations.")] = None,
    max_seconds: Annotated[float | None, typer.Option(help="Limit on the wall time.")] = None,
    out: Annotated[Path | None, typer.Option(help="Write x, lam, the blocks and a report to this .npz.")] = None,
    report: Annotated[Path | None, typer.Option(help="Write a report to this HTML file.")] = None,
    progress: Annotated[bool, typer.Option("--progress", help="Show a progress bar.")] = False,
    as_json: JSON = False,
) -> None:
    """Solve a problem file. Exit code 0: the tolerance is met; 1: it is not; 2: the input is bad.

    Without a version or steps they are chosen, and the answer says which.
    """
    with speaking():
        given = _read(problem, version, c, steps, lazy, tol=tol, max_iters=max_iters, max_seconds=max_seconds)
        for target in (out, report):
            if target is not None and target.is_dir():
                raise InputError(f"{target} is a folder; expected the name of a file to write")
        found = npga.solve(
            given.problem,
            given.network,
            given.version,
            given.steps,
            tol=given.tol,
            max_iters=given.max_iters,
            max_seconds=given.max_seconds,
            progress=progress,
            trace="records" if out is None and report is None else "agents",
        )
        if out is not None:
            _write(out, found)
        if report is not None:
            found.report(report)
    if as_json:
        show_json(_answer(found))
    else:
        typer.echo(str(found))
        typer.echo(f"objective {found.trace[-1].objective:.10g}" + (f"; written to {out}" if out else ""))
        typer.echo(f"\nThe same again, in a problem file{' with lazy = true' if lazy else ''}:\n{_setting(found)}")
    if not found.status.ok:
        raise typer.Exit(NOT_MET)


@command("npga certify problem.toml --version npga-ii --lazy", "npga certify problem.toml --json")
def certify(
    problem: ProblemPath,
    version: VersionName = None,
    steps: StepOption = None,
    lazy: Lazy = False,
    c: Constant = None,
    as_json: JSON = False,
) -> None:
    """Say which theorem covers a problem file, with which steps and rate. Exit code 1: none does.

    Beside the theorem's rate it shows what is proved for this instance, and the rate near the solution.
    """
    with speaking():
        given = _read(problem, version, c, steps, lazy)
        found = npga.certify(given.problem, given.network, _required(given), given.steps)
        answer = found.to_dict()
        if found.steps is not None:
            found = _at_solution(given, found)
            answer |= {"instance": found.instance.to_dict(), "linearised": found.linearised}
    if as_json:
        show_json(answer)
    else:
        console().print(found)
        typer.echo(found.verdict)
    if not found.covered:
        raise typer.Exit(NOT_MET)


def _at_solution(given: ProblemFile, found: Any) -> Any:
    """The certificate with the linearised rate, if a solution can be had."""
    try:
        star = npga.reference(given.problem)
    except npga.errors.NpgaError:
        return found
    return found.at_solution(star.x, star.lam)


@command(
    "npga tune problem.toml --version nids",
    "npga tune problem.toml --all --by rounds",
    "npga tune problem.toml --method theorem --json",
)
def tune(
    problem: ProblemPath,
    version: VersionName = None,
    every: Annotated[bool, typer.Option("--all", help="Tune every version and rank them.")] = False,
    method: Annotated[str, typer.Option(help="spectral, search or theorem.")] = "spectral",
    by: Annotated[str, typer.Option(help="Rank by iterations or by rounds.")] = "iterations",
    lazy: Lazy = False,
    certified: Annotated[bool, typer.Option("--certified", help="Minimise the rate proved for every start.")] = False,
    seed: Annotated[int, typer.Option(help="Seed of the tuner.")] = 0,
    as_json: JSON = False,
) -> None:
    """Find step sizes for a problem file, for one version or for all."""
    with speaking():
        given = _read(problem, version, None, None, lazy)
        what = {"versions": "all", "by": by} if every else {"version": _required(given)}
        found = npga.tune(given.problem, given.network, **what, method=method, seed=seed, certified=certified)
    rows = [_tuning(item) for item in (found if every else [found])]
    if as_json:
        show_json(rows if every else rows[0])
        return
    header = ("version", "lazy W", "alpha", "beta", "gamma", "theta", "c", "rate", "iterations to 1e-8", "rounds")
    show_table("Tuned steps", header, [[_cell(row[key]) for key in row if key != "message"] for row in rows])
    for message in dict.fromkeys(row["message"] for row in rows):
        typer.echo(message)


def _read(
    path: Path, version: str | None, c: float | None, steps: str | None, lazy: bool, **limits: float | None
) -> ProblemFile:
    """The file, with what the options say put in."""
    given = read_problem(path)
    if version is not None:
        given = replace(given, version=find_version(version, c=c), steps=None)
    elif c is not None:
        given = replace(given, version=find_version(_required(given).name, c=c))
    if steps is not None:
        given = replace(given, steps=_parse_steps(steps))
        _required(given)
    if lazy and not given.network.is_lazy:
        given = replace(given, network=given.network.lazy())
    return replace(given, **{name: value for name, value in limits.items() if value is not None})  # type: ignore[arg-type]


def _required(given: ProblemFile) -> Any:
    if given.version is None:
        raise InputError(
            "no version was named; add --version, or version = '...' to [solve] (`npga versions` lists them)"
        )
    return given.version


def _parse_steps(text: str) -> Steps:
    try:
        numbers = [float(part) for part in text.split(",")]
    except ValueError:
        numbers = []
    if not 2 <= len(numbers) <= 4:
        raise InputError(f"--steps is {text!r}; expected alpha,beta[,gamma[,theta]], such as 2.0,0.03,1,0")
    return Steps(*numbers)


def _write(path: Path, found: Any) -> None:
    blocks = {f"x{i}": block for i, block in enumerate(found.blocks)}
    with replacing(path) as file:
        np.savez(file, x=found.x, lam=found.lam, page=store_sections(*found.page()), **blocks)


def _answer(found: Any) -> dict[str, Any]:
    counts = ("iterations", "rounds", "messages", "floats_sent", "seconds")
    return {
        "status": found.status.value,
        "message": found.message,
        "version": found.version.name,
        "c": found.version.c,
        "lazy": found.network.is_lazy,
        "steps": asdict(found.steps),
        **{name: getattr(found, name) for name in counts},
        **{name: getattr(found.trace[-1], name) for name in ("kkt", "consensus", "objective")},
        "x": [block.tolist() for block in found.blocks],
    }


def _tuning(item: Any) -> dict[str, Any]:
    known = 0.0 < item.rate < 1.0
    iterations = math.ceil(item.iterations(1e-8)) if known else None
    return {
        "version": item.version.name,
        "lazy": item.network.is_lazy,
        **asdict(item.steps),
        "c": item.version.c,
        "rate": item.rate,
        "iterations_to_1e-8": iterations,
        "rounds_to_1e-8": None if iterations is None else iterations * item.version.rounds,
        "message": item.message,
    }


def _setting(found: Any) -> str:
    """What ran, as the section of a problem file that runs it again."""
    lines = ["[solve]", f'version = "{found.version.name}"']
    if found.version.c is not None:
        lines.append(f"c = {found.version.c!r}")
    steps = ", ".join(f"{name} = {_toml(value)}" for name, value in asdict(found.steps).items())
    return "\n".join([*lines, f"steps = {{ {steps} }}"])


def _toml(value: Any) -> str:
    """A number or numbers, with the digits that give them back."""
    return f"[{', '.join(map(repr, value))}]" if isinstance(value, (list, tuple)) else repr(value)


def _cell(value: Any) -> str:
    if value is None:
        return "-"
    return f"{value:.5g}" if isinstance(value, float) else str(value)


@command(
    "npga compare problem.toml",
    "npga compare elastic-net --methods nids,nids:3,extra,pga,dual-exact --draws 5 --out out/comparison",
    "npga compare problem.toml --methods nids,tracking-admm,dc-admm --json",
)
def compare(
    target: Annotated[str, typer.Argument(help="A problem file, or an experiment of the paper such as elastic-net.")],
    methods: Annotated[str, typer.Option(help="Versions and methods; nids:3 has a Chebyshev polynomial.")] = _COMPARED,
    draws: Annotated[int, typer.Option(help="Draws of an experiment; seeds of the tuner for a file.", min=1)] = 1,
    budget: Annotated[int, typer.Option(help="Iterations for tuning each method on each draw.", min=1000)] = 100_000,
    tol: Annotated[float, typer.Option(help="Relative error that is to be reached for good.")] = 1e-8,
    out: Annotated[
        Path | None, typer.Option(help="Folder for results, tables and figures; an interrupted run goes on.")
    ] = None,
    as_json: JSON = False,
) -> None:
    """Tune methods alike, run them, and count iterations, rounds, gradients and numbers sent by the same meters.

    `npga versions` and npga.methods() list what can be compared.
    """
    with speaking():
        problem, network = _target(target)
        entries = [_entry(word.strip()) for word in methods.split(",") if word.strip()]
        store = None if out is None else out / "comparison.jsonl"
        found = npga.compare(
            problem, network, entries, seeds=draws, budget=budget, tol=tol, store=store, progress=not as_json
        )
        if as_json:
            show_json(found.summary())
        else:
            typer.echo(found.table)
        if out is not None:
            _write_comparison(found, out)
            typer.echo(f"written to {out}: report.html, comparison.txt, .tex, .html, gap.png, profile.png", err=as_json)


def _target(target: str) -> tuple[Any, Any]:
    from npga.experiments import EXPERIMENTS

    if target in EXPERIMENTS:
        experiment = EXPERIMENTS[target]()

        def draw(seed: int) -> tuple[Any, Any]:
            instance = experiment.build(seed)
            return instance.problem, instance.network

        return draw, None
    path = Path(target)
    if not path.exists():
        raise InputError(f"{target!r} is neither a file nor an experiment; {nearest(target, EXPERIMENTS)}")
    given = read_problem(path)
    return given.problem, given.network


def _entry(word: str) -> Any:
    name, colon, degree = word.partition(":")
    if not colon:
        return name
    if not degree.isdigit():
        raise InputError(f"{word!r} arrived; expected a version and a number of rounds, such as nids:3")
    return npga.version(name, chebyshev=int(degree))


def _write_comparison(found: Any, out: Path) -> None:
    for suffix, text in (("txt", found.table), ("tex", found.to_latex()), ("html", found.to_html())):
        write_text(out / f"comparison.{suffix}", text + "\n")
    found.report(out / "report.html")
    found.plot(out / "gap.png")
    found.plot(out / "profile.png", kind="profile")
