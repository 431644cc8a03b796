"""Agents that really are apart: in one process, over MPI, or between organisations over gRPC with mutual TLS.

The agent of `npga.solver` (no input or output) is driven unchanged over every engine, behind one seam, `Link`.

>>> from npga.runtimes import write_job, launch                            # doctest: +SKIP
>>> job = write_job("job", problem, network, "nids", steps, tol=1e-8)      # doctest: +SKIP
>>> launch(job, engine="grpc", out="out").x                                # doctest: +SKIP
"""

from npga.runtimes._errors import BadMessage, Diverged, LinkError, PeerLost, PeerSlow
from npga.runtimes._job import Job, PartySpec, Patience, Stop, read_job
from npga.runtimes._keys import keygen
from npga.runtimes._launch import LaunchError, launch
from npga.runtimes._layout import Layout
from npga.runtimes._link import Alone, Hello, Link
from npga.runtimes._parts import load_agent, load_function, save_agent, save_function
from npga.runtimes._party import Outcome, Party
from npga.runtimes._summary import Summary
from npga.runtimes._timeline import plot_timeline, read_metrics
from npga.runtimes._write_job import write_job

__all__ = [
    "Alone",
    "BadMessage",
    "Diverged",
    "Hello",
    "Job",
    "LaunchError",
    "Layout",
    "Link",
    "LinkError",
    "Outcome",
    "Party",
    "PartySpec",
    "Patience",
    "PeerLost",
    "PeerSlow",
    "Stop",
    "Summary",
    "keygen",
    "launch",
    "load_agent",
    "load_function",
    "plot_timeline",
    "read_job",
    "read_metrics",
    "save_agent",
    "save_function",
    "write_job",
]
