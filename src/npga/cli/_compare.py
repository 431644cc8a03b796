"""The command compare: methods side by side on a problem file or on one of the paper's experiments."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from npga.cli._output import add_command, show_json, speaking
from npga.cli._problem_file import read_problem
from npga.errors import InputError, nearest

_DEFAULT = "nids,nids:3,extra,npga-i,dcpa,pga"


def register(app: typer.Typer) -> None:
    """Add the command to an application."""
    add_command(
        app,
        compare,
        "npga compare problem.toml",
        "npga compare elastic-net --methods nids,nids:3,extra,pga,dual-exact --draws 5 --out out/comparison",
        "npga compare problem.toml --methods nids,tracking-admm,dc-admm --json",
    )


def compare(
    target: Annotated[str, typer.Argument(help="A problem file, or an experiment of the paper such as elastic-net.")],
    methods: Annotated[str, typer.Option(help="Versions and methods; nids:3 has a Chebyshev polynomial.")] = _DEFAULT,
    draws: Annotated[int, typer.Option(help="Draws of an experiment; seeds of the tuner for a file.", min=1)] = 1,
    budget: Annotated[int, typer.Option(help="Iterations for tuning each method on each draw.", min=1000)] = 100_000,
    tol: Annotated[float, typer.Option(help="Relative error that is to be reached for good.")] = 1e-8,
    out: Annotated[
        Path | None, typer.Option(help="Folder for results, tables and figures; an interrupted run goes on.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON for programs.")] = False,
) -> None:
    """Tune methods alike, run them, and count iterations, rounds, gradients and numbers sent by the same meters.

    `npga versions` and npga.methods() list what can be compared.
    """
    with speaking():
        import npga

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
            _write(found, out)
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
    import npga

    name, colon, degree = word.partition(":")
    if not colon:
        return name
    if not degree.isdigit():
        raise InputError(f"{word!r} arrived; expected a version and a number of rounds, such as nids:3")
    return npga.version(name, chebyshev=int(degree))


def _write(found: Any, out: Path) -> None:
    from npga.files import write_text

    for suffix, text in (("txt", found.table), ("tex", found.to_latex()), ("html", found.to_html())):
        write_text(out / f"comparison.{suffix}", text + "\n")
    found.report(out / "report.html")
    found.plot(out / "gap.png")
    found.plot(out / "profile.png", kind="profile")
