"""The application: each module of commands registers its own."""

from __future__ import annotations

import typer

from npga.cli import _data, _doctor, _reproduce, _runtimes, _solve, _versions

app = typer.Typer(
    help="Decentralized constraint-coupled optimization with NPGA.",
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode="rich",
    pretty_exceptions_enable=False,
)
for module in (_reproduce, _versions, _solve, _data, _doctor, _runtimes):
    module.register(app)
