"""The command group `data`: what comes with the package, and how to get the rest."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from npga.cli._output import add_command, show_json, show_table, speaking
from npga.errors import InputError, nearest

JSON = Annotated[bool, typer.Option("--json", help="Print JSON for programs.")]
Folder = Annotated[Path | None, typer.Option(help="Where fetched tables are kept; default: $NPGA_DATA or the cache.")]
LOADERS = ("boston", "covtype")


def register(app: typer.Typer) -> None:
    """Add the commands of this module to an application."""
    group = typer.Typer(help="The tables of the experiments: list, show, fetch.", no_args_is_help=True)
    add_command(group, list_tables, "npga data list", "npga data list --json", name="list")
    add_command(group, show, "npga data show boston", "npga data show covtype")
    add_command(group, fetch, "npga data fetch covtype", "npga data fetch covtype --source scikit-learn")
    app.add_typer(group, name="data")


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


def show(table: Annotated[str, typer.Argument(help="boston or covtype.")]) -> None:
    """Print source, licence, scaling and labels of a table."""
    from npga.experiments import load_boston, load_covtype

    with speaking():
        if table not in LOADERS:
            raise InputError(f"table {table!r} is unknown; {nearest(table, LOADERS)}")
        found = load_boston() if table == "boston" else load_covtype()
    typer.echo(
        f"{found.name}: {found.X.shape[0]} rows, {found.X.shape[1]} features ({', '.join(found.columns[:13])}...)"
    )
    typer.echo(f"scaling: {found.scaling}\nlabels: {found.labels}\n\n{found.notice}")


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
