"""The terminal: parse, call, print.

This room owns the command `npga` and the files that it reads; every other room may be called from here, none imports
it. Exit codes: 0 done and the tolerance met, 1 not met, 2 bad input, 130 after Ctrl-C. Its chapters:

_output
    What the commands share: errors as one sentence, tables, JSON, help pages with examples.
_problem_file
    A problem in TOML, with its arrays beside it.
_solve
    solve, certify, tune, compare: the commands on a problem file.
_launch
    launch, check, keygen, timeline, watch: the commands on a job whose agents are apart.
_report
    report: what the others left, as one HTML file.
_reproduce
    reproduce, data: the paper's experiments and their tables.
_doctor
    versions, doctor: what there is, and what works on this machine.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

from npga.errors import MissingExtraError

if TYPE_CHECKING:
    import typer


def main() -> None:
    """Entry point of the command `npga`."""
    try:
        import typer  # noqa: F401
    except ImportError:
        raise SystemExit(str(MissingExtraError("typer", "cli", "the command npga"))) from None
    application()()


def application() -> typer.Typer:
    """The command `npga` with all its commands: each chapter adds its own, in the order of the help page."""
    for chapter in ("_solve", "_report", "_reproduce", "_launch", "_doctor"):
        import_module(f"npga.cli.{chapter}")
    from npga.cli._output import APP

    return APP


__all__ = ["application", "main"]
