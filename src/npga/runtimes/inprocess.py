"""All agents in one process: ``python -m npga.runtimes.inprocess job.toml``."""

from __future__ import annotations

from npga.runtimes._command import Command, run_command
from npga.runtimes._job import Job
from npga.runtimes._layout import Layout
from npga.runtimes._link import Alone
from npga.runtimes._party import Party


def party(job: Job, command: Command) -> Party:
    """One party that holds every agent."""
    layout = Layout(job.network, [range(job.n)])
    return Party(job, layout, 0, Alone(), command.out, command.resume, command.report)


def main() -> None:
    """Entry point of the module."""
    run_command(__doc__, party)


if __name__ == "__main__":
    main()
