"""The commands `reproduce` and `data`: the paper's experiments, from the tables to the figures."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import MISSING, fields
from pathlib import Path
from typing import Annotated, Any

import typer

from npga.cli._output import APP, JSON, NOT_MET, command, console, show_json, show_table, speaking
from npga.errors import InputError, nearest
from npga.solver import show_progress

Folder = Annotated[Path | None, typer.Option(help="Where fetched tables are kept; default: $NPGA_DATA or the cache.")]
Adding = Annotated[
    list[str] | None, typer.Option(help="More versions: extra, exact-diffusion, dcda, pga-central; may be repeated.")
]
Choosing = Annotated[
    list[str] | None,
    typer.Option("--set", help="A choice that the paper leaves open, as experiment.name=value; see --choices."),
]
Tuner = Annotated[
    str | None, typer.Option(help="Tuner: spectral or search; default: search for logistic, spectral for the others.")
]
WithinTheorems = Annotated[
    bool, typer.Option("--within-theorems", help="Tune with gamma <= 1, as every theorem asks, and c <= 1/2 for NIDS.")
]
WHAT = {  # the experiments that a word stands for
    "ridge": ("ridge",),
    "logistic": ("logistic", "logistic-coupled"),
    "logistic-paper": ("logistic",),
    "logistic-coupled": ("logistic-coupled",),
    "elastic-net": ("elastic-net",),
    "all": ("ridge", "logistic", "logistic-coupled", "elastic-net"),
}
Experiment = Annotated[
    str,
    typer.Argument(help="ridge, logistic (both poses; logistic-paper, logistic-coupled: one), elastic-net, or all."),
]
TABLES = ("boston", "covtype")
DATA = typer.Typer(help="The tables of the experiments: list, show, fetch.", no_args_is_help=True)


@command(
    "npga reproduce",
    "npga reproduce ridge --seeds 20 --out ridge20",
    "npga reproduce elastic-net --set elastic-net.alpha=0.2",
    "npga reproduce all --add extra --add pga-central",
    "npga reproduce --choices",
    "npga reproduce --redraw --out out",
)
def reproduce(
    experiment: Experiment = "all",
    out: Annotated[Path, typer.Option(help="Folder for tables, figures and summaries.")] = Path("out"),
    seeds: Annotated[int, typer.Option(help="Number of draws of rows and networks.")] = 1,
    seed: Annotated[int, typer.Option(help="Seed that all draws follow from.")] = 0,
    version: Annotated[list[str] | None, typer.Option(help="Only these versions; may be repeated.")] = None,
    add: Adding = None,
    choose: Choosing = None,
    tuning: Tuner = None,
    starts: Annotated[int | None, typer.Option(help="From how many seeds to tune; default: 1 for spectral.")] = None,
    within_theorems: WithinTheorems = False,
    accuracy: Annotated[float, typer.Option(help="Relative distance to x* at which a tuned run ends.")] = 1e-12,
    certified_iters: Annotated[int, typer.Option(help="Length of the runs at certified steps; 0: none.")] = 2000,
    jobs: Annotated[int | None, typer.Option(help="Worker processes; one for each core by default.")] = None,
    fresh: Annotated[bool, typer.Option("--fresh", help="Do finished parts again.")] = False,
    redraw: Annotated[bool, typer.Option("--redraw", help="Draw again from the saved tables; run nothing.")] = False,
    choices: Annotated[bool, typer.Option("--choices", help="List the choices and their defaults, and end.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print the summary rows as JSON.")] = False,
) -> None:
    """Run Experiments I, II and III of the paper on the real data and leave tables, figures and a summary.

    Every version is tuned with the same method, on W and on W' = (I + W)/2, and run until the distance to the
    centralised solution has shrunk by the accuracy; runs at certified steps are reported apart. A run that was
    interrupted goes on with the same command, and the same seeds give the same tables bit for bit. Exit code 1: a
    curve did not reach the target of its experiment.
    """
    from npga import experiments as ex

    with speaking():
        if choices:
            _show_choices(as_json)
            return
        if redraw:
            report = ex.draw(out)
        else:
            protocol = ex.Protocol(
                versions=(*(version or ex.PAPER_VERSIONS), *(add or ())), tuning=tuning, starts=starts,
                within_theorems=within_theorems, accuracy=accuracy, certified_iters=certified_iters,
            )  # fmt: skip
            chosen = _experiments(experiment, seed, choose or [])
            report = _run(chosen, out, as_json, protocol=protocol, repetitions=seeds, jobs=jobs, fresh=fresh)
    _print(report, as_json)
    if report.missed:
        raise typer.Exit(NOT_MET)


def _run(chosen: Sequence[Any], out: Path, quiet: bool, **settings: Any) -> Any:
    from npga import experiments as ex

    say = _silent if quiet else typer.echo
    say(f"The first figure comes after two versions: {out / chosen[0].name / 'gap.png'}")
    with show_progress("reproduce", not quiet) as tell:

        def progress(done: int, total: int, label: str) -> None:
            if tell is not None:
                tell(done / total, f"{done} of {total} done" + (f", last: {label}" if label else ""))

        return ex.reproduce(chosen, out, progress=progress, say=say, **settings)


def _silent(_: str) -> None:
    """Say nothing."""


def _experiments(what: str, seed: int, assignments: Sequence[str]) -> list[Any]:
    """The experiments with their choices; logistic stands for both of its poses."""
    from npga.experiments import EXPERIMENTS

    if what not in WHAT:
        raise InputError(f"experiment {what!r} is unknown; {nearest(what, WHAT)}")
    values: dict[str, dict[str, Any]] = {name: {} for name in EXPERIMENTS}
    for text in assignments:
        place, _, value = text.partition("=")
        name, _, key = place.partition(".")
        if name not in EXPERIMENTS or not value:
            raise InputError(f"--set {text} arrived; expected experiment.name=value, such as ridge.radius=0.2")
        known = {field.name: field for field in fields(EXPERIMENTS[name])}
        if key not in known:
            raise InputError(f"--set {text} arrived; {name} has no choice {key!r}: {nearest(key, known)}")
        for target in WHAT[name]:  # what is set for logistic holds for both poses
            values[target][key] = _converted(value, known[key].default, text)
    return [EXPERIMENTS[name](**({"seed": seed} | values[name])) for name in WHAT[what]]


def _converted(value: str, default: Any, text: str) -> Any:
    """The value with the type of the default."""
    if isinstance(default, bool):
        if value.lower() not in ("true", "false"):
            raise InputError(f"--set {text} arrived; expected true or false")
        return value.lower() == "true"
    try:
        return type(default)(value)
    except ValueError:
        raise InputError(f"--set {text} arrived; expected a value like {default!r}") from None


def _show_choices(as_json: bool) -> None:
    from npga.experiments import EXPERIMENTS

    rows = [
        {"choice": f"{name}.{field.name}", "default": field.default}
        for name, kind in EXPERIMENTS.items()
        for field in fields(kind)
        if field.default is not MISSING
    ]
    if as_json:
        show_json(rows)
    else:
        show_table(
            "Choices that the paper leaves open", ("choice", "default"), [tuple(map(str, r.values())) for r in rows]
        )


def _print(report: Any, as_json: bool) -> None:
    from rich.markdown import Markdown

    if as_json:
        show_json({"runs": report.runs, "verdicts": report.verdicts, "missed": report.missed, "files": report.files})
        return
    for name, said in report.verdicts.items():
        text = (report.folder / name / "summary.md").read_text(encoding="utf-8")
        console().print(Markdown(text.split("## Choices")[0]))
        typer.echo(f"{name}: {said}\n")
    for sentence in report.missed:
        typer.echo(f"NOT REACHED  {sentence}", err=True)
    typer.echo(f"Tables, figures and summaries are in {report.folder}: settings.json and")
    for name in report.runs:
        typer.echo(f"  {name}/ " + " ".join(p.name for p in report.files if p.parent.name == name))


@command("npga data list", "npga data list --json", app=DATA, name="list")
def list_tables(folder: Folder = None, as_json: JSON = False) -> None:
    """List the tables, shipped and fetched."""
    from npga.experiments import data_folder, load_boston, load_covtype

    with speaking():
        tables = [load_boston(), load_covtype()]
        full = (folder or data_folder()) / "covtype.npz"
    rows = [
        {"table": t.name, "rows": len(t.y), "columns": t.X.shape[1], "where": "shipped", "target": t.labels}
        for t in tables
    ]
    where = str(full) if full.exists() else "not here: npga data fetch covtype"
    rows.append({"table": "covtype", "rows": 581_012, "columns": 54, "where": where, "target": tables[1].labels})
    if as_json:
        show_json(rows)
    else:
        show_table("Tables", tuple(rows[0]), [[str(value) for value in row.values()] for row in rows])


@command("npga data show boston", "npga data show covtype", app=DATA)
def show(table: Annotated[str, typer.Argument(help="boston or covtype.")]) -> None:
    """Print source, licence, scaling and labels of a table."""
    from npga.experiments import load_boston, load_covtype

    with speaking():
        if table not in TABLES:
            raise InputError(f"table {table!r} is unknown; {nearest(table, TABLES)}")
        found = load_boston() if table == "boston" else load_covtype()
    typer.echo(
        f"{found.name}: {found.X.shape[0]} rows, {found.X.shape[1]} features ({', '.join(found.columns[:13])}...)"
    )
    typer.echo(f"scaling: {found.scaling}\nlabels: {found.labels}\n\n{found.notice}")


@command("npga data fetch covtype", "npga data fetch covtype --source scikit-learn", app=DATA)
def fetch(
    table: Annotated[str, typer.Argument(help="covtype; the others come with the package.")],
    source: Annotated[str | None, typer.Option(help="pip or scikit-learn; default: one after the other.")] = None,
    folder: Folder = None,
) -> None:
    """Fetch a full table, check it, and keep it; a fetch that was interrupted goes on where it stood."""
    from npga.experiments import fetch_covtype

    with speaking():
        if table != "covtype":
            raise InputError(f"table {table!r} cannot be fetched; expected covtype (Boston comes with the package)")
        fetch_covtype(folder, source, say=typer.echo)


APP.add_typer(DATA, name="data")
