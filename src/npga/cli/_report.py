"""The command report: a run, a launch, a comparison or a reproduction as one HTML file."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Any

import typer

from npga.cli._output import command, speaking
from npga.errors import InputError
from npga.pages import Section, fact_section, read_sections, write_page


@command(
    "npga report solution.npz",
    "npga report run.npz --html run.html",
    "npga report out --html launch.html",
    "npga report out/ridge",
)
def report(
    what: Annotated[
        Path,
        typer.Argument(
            help="A file of `npga solve --out` or a checkpoint; or the folder of a launch, a comparison or a "
            "reproduction, or of one experiment in it."
        ),
    ],
    html: Annotated[Path | None, typer.Option(help="The page; by default beside what it is about.")] = None,
) -> None:
    """Write one HTML file that opens offline: curves, network, certificate, tables, timeline, settings."""
    with speaking():
        title, summary, sections = _page(what)
        target = html or (what / "report.html" if what.is_dir() else what.with_suffix(".html"))
        typer.echo(str(write_page(target, title, summary, sections)))


def _page(what: Path) -> tuple[str, str, list[Section]]:
    if what.is_dir():
        return _folder(what)
    if not what.exists():
        raise InputError(f"{what} does not exist; expected a file of `npga solve --out`, a checkpoint or a folder")
    try:
        return _file(what)
    except InputError as error:
        if what.name == "comparison.jsonl":  # what a report of its folder would be made of
            raise
        for folder in (what.parent, what.parent.parent):  # checkpoints and logs of a launch have folders of their own
            kind = _kind(folder)
            if kind:
                hint = f"it belongs to {kind} in {folder}, of which `npga report {folder}` makes a report"
                raise InputError(f"{error}; {hint}") from None
        raise


def _file(what: Path) -> tuple[str, str, list[Section]]:
    if what.suffix == ".jsonl":
        return _comparison(what)
    from npga.runtimes import read_arrays

    arrays = read_arrays(what)
    if "page" in arrays:
        return read_sections(arrays["page"])
    if "head" in arrays and "trace_kkt" in arrays:
        return _checkpoint(what, arrays)
    raise InputError(f"{what} holds {', '.join(sorted(arrays))}, which is no run; `npga solve --out` writes one")


def _kind(folder: Path) -> str | None:
    """What a folder is the folder of, if its files as a whole make a report."""
    if list(folder.glob("party*.jsonl")):
        return "the launch"
    if (folder / "comparison.jsonl").exists():
        return "the comparison"
    return "the experiments" if (folder / "summary.csv").exists() or list(folder.glob("*/summary.csv")) else None


def _folder(folder: Path) -> tuple[str, str, list[Section]]:
    kind, name = _kind(folder), folder.resolve().name
    if kind == "the launch":
        from npga.runtimes import launch_sections

        return f"Launch in {name}", "Agents apart, each party by itself.", launch_sections(folder)
    if kind == "the comparison":
        return _comparison(folder / "comparison.jsonl")
    if kind is None:
        made_by = "`npga launch`, `npga compare --out` or `npga reproduce`"
        raise InputError(f"{folder} holds no run and no tables; expected a folder that {made_by} wrote")
    from npga.experiments import folder_sections

    return f"Experiments in {name}", "The paper's experiments, run again.", folder_sections(folder)


def _comparison(store: Path) -> tuple[str, str, list[Section]]:
    from npga.tuning import read_comparison

    try:
        found = read_comparison(store)
    except InputError:
        raise
    except (KeyError, TypeError, ValueError):  # lines of somebody else
        raise InputError(f"{store} holds no comparison; expected what `npga compare --out` wrote") from None
    return f"{len(found.labels)} methods compared", ", ".join(found.labels), found.sections()


def _checkpoint(path: Path, arrays: dict[str, Any]) -> tuple[str, str, list[Section]]:
    from npga.solver import Record, Trace, convergence_section

    head = json.loads(str(arrays["head"]))
    names = ("iteration", "round", "gap", "kkt", "consensus", "objective")
    trace = Trace([Record(*row) for row in zip(*(arrays[f"trace_{name}"].tolist() for name in names), strict=True)])
    counts = {"iterations": trace.iteration, "rounds": trace.round}
    identity = [
        (key, value if isinstance(value, str) else json.dumps(value)) for key, value in head["identity"].items()
    ]
    seen = [(key, head[key]) for key in ("iteration", "rounds", "seconds")]
    sections = [convergence_section(trace, counts), fact_section("Settings", [*identity, *seen])]
    note = "A checkpoint: it holds no problem, so that there is no network and no certificate here."
    return f"Checkpoint {path.name}", note, sections
