"""watch: how a run is going, in the terminal, from the files that its parties leave."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Group
from rich.live import Live
from rich.table import Table
from rich.text import Text

from npga.cli._output import add_command, console, speaking

_ENDED = ("finished", "failed", "stopped")
_REFRESH_SECONDS = 0.5
_COLUMNS = ("party", "agents", "state", "iteration", "rounds", "agreeing", "residual", "beta", "computing", "waiting",
            "waits for", "last sign")  # fmt: skip
_COLOURS = {"finished": "green", "failed": "red", "stopped": "yellow"}


def register(app: typer.Typer) -> None:
    """Add this chapter's command."""
    add_command(app, watch, "npga watch out", "npga watch out --once")


def watch(
    out: Annotated[Path, typer.Argument(help="Directory of a launch, or of one party.")],
    once: Annotated[bool, typer.Option("--once", help="Print the present state and end.")] = False,
) -> None:
    """Watch a run: how far each party is, its residual and steps, and who waits for whom.

    Ends when all parties have ended, or with Ctrl-C; a finished run is shown as it ended. Times are milliseconds of a
    round: computing, and waiting for messages.
    """
    from npga import runtimes

    with speaking():
        rows = runtimes.read_last(out)
        screen = console()
        if once or _over(rows):
            screen.print(_picture(rows))
            return
        with Live(_picture(rows), console=screen, auto_refresh=False) as live:
            while not _over(rows):
                time.sleep(_REFRESH_SECONDS)
                rows = runtimes.read_last(out)
                live.update(_picture(rows), refresh=True)


def _over(rows: dict[int, dict[str, Any]]) -> bool:
    return all(row.get("state") in _ENDED for row in rows.values())


def _picture(rows: dict[int, dict[str, Any]]) -> Group:
    """A table with a row for each party, and a line about all of them."""
    table = Table(header_style="bold")
    for name in _COLUMNS:
        table.add_column(name, justify="left" if name in ("agents", "state", "waits for") else "right")
    for party, row in rows.items():
        table.add_row(*_cells(party, row))
    errors = [Text(f"party {k}: {row['error']}", style="red") for k, row in rows.items() if row.get("error")]
    return Group(table, *errors, Text(_in_short(rows)))


def _cells(party: int, row: dict[str, Any]) -> list[Text | str]:
    state = row.get("state", "-")
    ages = "" if state in _ENDED or "time" not in row else f"{max(time.time() - row['time'], 0.0):.1f} s ago"
    return [
        str(party), _agents(row.get("agents", [])), Text(state, style=_COLOURS.get(state, "")),
        str(row.get("iteration", "-")), str(row.get("rounds", "-")), str(row.get("control_rounds", "-")),
        _number(row.get("residual"), ".1e"), _number(row.get("steps", {}).get("beta"), ".3g"),
        _number(row.get("computing_per_round"), ".2f", 1e3), _number(row.get("waiting_per_round"), ".2f", 1e3),
        _waits(row), ages,
    ]  # fmt: skip


def _number(value: float | None, form: str, scale: float = 1.0) -> str:
    return "-" if value is None else f"{scale * value:{form}}"


def _agents(agents: list[int]) -> str:
    if len(agents) > 2 and agents == list(range(agents[0], agents[-1] + 1)):
        return f"{agents[0]} to {agents[-1]}"
    return ", ".join(map(str, agents))


def _waits(row: dict[str, Any]) -> str:
    """Who keeps this party waiting now, else for whom it has waited most so far."""
    late = row.get("waits_for")
    if late and row.get("state") not in _ENDED:
        return f"party {', '.join(map(str, late))}, now"
    waited = row.get("waited_for") or {}
    if not waited or not sum(waited.values()):
        return ""
    most = max(waited, key=lambda party: waited[party])
    return f"party {most} ({100 * waited[most] / sum(waited.values()):.0f} %)"


def _in_short(rows: dict[int, dict[str, Any]]) -> str:
    counts = [row["iteration"] for row in rows.values() if "iteration" in row]
    known = [row["residual"] for row in rows.values() if row.get("residual") is not None]
    states = [row.get("state", "-") for row in rows.values()]
    words = ", ".join(f"{states.count(state)} {state}" for state in dict.fromkeys(states))
    reached = "no iteration yet"
    if counts:
        reached = (
            f"iteration {min(counts)}" if min(counts) == max(counts) else f"iterations {min(counts)} to {max(counts)}"
        )
    return f"{words}; {reached}" + (f"; residual at most {max(known):.1e}" if known else "")
