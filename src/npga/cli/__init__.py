"""The terminal: parse, call, print."""

from __future__ import annotations

from npga.errors import MissingExtraError


def main() -> None:
    """Entry point of the command `npga`."""
    try:
        import typer  # noqa: F401
    except ImportError:
        raise SystemExit(str(MissingExtraError("typer", "cli", "the command npga"))) from None
    from npga.cli._app import app

    app()


__all__ = ["main"]
