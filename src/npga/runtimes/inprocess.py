"""All agents in one process: ``python -m npga.runtimes.inprocess job.toml``."""

from __future__ import annotations

from npga.runtimes._job import Job
from npga.runtimes._link import Alone, Layout
from npga.runtimes._party import Party
from npga.runtimes._process import PartyOptions, run_process


def party(job: Job, options: PartyOptions) -> Party:
    """One party that holds every agent."""
    layout = Layout(job.network, [range(job.n)])
    return Party(job, layout, 0, Alone(), options.out, options.resume, from_zero=options.from_zero)


def main() -> None:
    """Entry point of the module."""
    run_process(__doc__, party)


if __name__ == "__main__":
    main()
