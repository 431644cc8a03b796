"""What the commands share: errors as one sentence, exit codes, tables, JSON.

Exit codes: 0 when the work is done and the tolerance met, 1 when it is not met, 2 when the input is bad, 130 after
Ctrl-C.
"""

from __future__ import annotations

import inspect
import json
import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Annotated, Any, TypeVar

import numpy as np
import typer
from rich.console import Console
from rich.table import Table
from rich.text import Text

from npga import __version__
from npga.errors import NpgaError

NOT_MET, BAD_INPUT, INTERRUPTED = 1, 2, 130
Function = TypeVar("Function", bound=Callable[..., None])
JSON = Annotated[bool, typer.Option("--json", help="Print JSON for programs.")]


def _say_version(asked: bool) -> None:
    if asked:
        typer.echo(f"npga {__version__}")
        raise typer.Exit


APP = typer.Typer(
    help="Decentralized constraint-coupled optimization with NPGA.",
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode="rich",
    pretty_exceptions_enable=False,
)


@APP.callback()
def root(
    version: Annotated[
        bool, typer.Option("--version", callback=_say_version, is_eager=True, help="Print the version of npga and end.")
    ] = False,
) -> None:
    """Decentralized constraint-coupled optimization with NPGA."""


@contextmanager
def speaking() -> Iterator[None]:
    """An error made on purpose, or by a file, is one sentence and exit code 2; Ctrl-C is 130. No traceback for both."""
    try:
        yield
    except NpgaError as error:
        typer.echo(f"npga: {error}", err=True)
        raise typer.Exit(BAD_INPUT) from None
    except OSError as error:
        if error.filename is None:  # not about a file that the user named
            raise
        where = f"{error.filename} cannot be read or written ({error.strerror})"
        typer.echo(f"npga: {where}; name a file or folder that this command may use", err=True)
        raise typer.Exit(BAD_INPUT) from None
    except KeyboardInterrupt:
        typer.echo("npga: interrupted; the same command goes on where it stood", err=True)
        raise typer.Exit(INTERRUPTED) from None


def console() -> Console:
    """The terminal; as wide as the table when the output goes to a file."""
    found = Console()
    return found if found.is_terminal else Console(width=200)


def show_table(title: str, header: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """Print a table; the first column is text, the others are aligned to the right when they are numbers."""
    table = Table(title=title, title_justify="left", header_style="bold")
    for k, name in enumerate(header):
        numeric = k > 0 and all(_is_number(row[k]) for row in rows)
        table.add_column(name, justify="right" if numeric else "left", overflow="fold")
    for row in rows:
        table.add_row(*(Text(cell) for cell in row))  # as it stands: 'npga[mpi]' is no markup
    console().print(table)


def show_json(value: Any) -> None:
    """Print data for programs: strict JSON, null for what is not a finite number."""
    typer.echo(json.dumps(plain(value), indent=2, allow_nan=False))


def plain(value: Any) -> Any:
    """Numbers, text, lists and dictionaries out of whatever a result holds."""
    if isinstance(value, dict):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(item) for item in value]
    if isinstance(value, np.ndarray):
        return plain(value.tolist())
    if isinstance(value, np.generic):
        return plain(value.item())
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value if value is None or isinstance(value, (bool, int, float, str)) else str(value)


def _is_number(text: str) -> bool:
    try:
        float(text.replace(",", ""))
    except ValueError:
        return text in ("", "-")
    return True


def command(*examples: str, app: typer.Typer = APP, name: str | None = None) -> Callable[[Function], Function]:
    """Make a function a command: its docstring is the help, one paragraph to a line, and examples end the page."""
    lines = [f"$ {example}" if example.startswith("npga") else example.replace("[", "\\[") for example in examples]

    def register(function: Function) -> Function:
        paragraphs = inspect.cleandoc(function.__doc__ or "").split("\n\n")
        page = "\n\n".join(paragraph.replace("\n", " ") for paragraph in paragraphs)
        return app.command(name, help=page, epilog="\n\n".join(["Examples:", *lines]))(function)

    return register
