"""Agents that really are apart: in one process, over MPI, or between organisations over gRPC with mutual TLS.

The room owns where agents live: jobs, messages, links, processes and what they leave on disk. The agent of
`npga.solver` (no input or output) is driven unchanged over every engine, behind one seam, `Link`; the room imports
`functions`, `networks`, `problem`, `solver` and `tuning`, and nothing imports it but the rooms above.

>>> from npga.runtimes import write_job, launch                            # doctest: +SKIP
>>> job = write_job("job", problem, network, "nids", steps, tol=1e-8)      # doctest: +SKIP
>>> launch(job, engine="grpc", out="out").x                                # doctest: +SKIP

Chapters, in reading order:

- `_job`: what all parties share, and who holds which agents. `_job_file`: job.toml, a strict schema, and writing it.
  `_data_files`: functions and agents in files.
- `_wire`: messages and their checks. `_faults`: what can go wrong, what others are told of it, and exit codes.
- `_party`: the seam, and the agents of one process, driven over any link. `_agreement`: maxima over all
  agents, and when to stop. `_found_steps`: sums over all agents, and steps that the job does not name.
  `_saved_state`: checkpoints. `_timeline`: metrics written, served, read and drawn.
- Engines, each ``python -m npga.runtimes.<name>``: `inprocess`, with what all processes have in common; `mpi`; `net`
  (gRPC), with its `_neighbourhood` (coming together, staying connected), `_sessions` (what outlives a connection) and
  `_streams` (keys and connections).
- `_launch`: a rehearsal of all processes on one machine. `preflight`: looking at every link before a run.
"""

from npga.runtimes._data_files import (
    OwnPart,
    load_agent,
    load_function,
    named_array,
    read_arrays,
    read_function,
    read_own_part,
    read_toml,
    save_agent,
    save_function,
)
from npga.runtimes._faults import BadMessage, Diverged, ExitCode, LinkError, PeerLost, PeerSlow
from npga.runtimes._job import Job, Layout, PartySpec, read_job
from npga.runtimes._job_file import Patience, Stop, write_job
from npga.runtimes._launch import LaunchError, Summary, launch
from npga.runtimes._party import Alone, Link, Outcome, Party
from npga.runtimes._streams import keygen
from npga.runtimes._timeline import launch_sections, plot_timeline, read_last, read_metrics
from npga.runtimes._wire import Hello, MessageKind

__all__ = [
    "Alone",
    "BadMessage",
    "Diverged",
    "ExitCode",
    "Hello",
    "Job",
    "LaunchError",
    "Layout",
    "Link",
    "LinkError",
    "MessageKind",
    "Outcome",
    "OwnPart",
    "Party",
    "PartySpec",
    "Patience",
    "PeerLost",
    "PeerSlow",
    "Stop",
    "Summary",
    "keygen",
    "launch",
    "launch_sections",
    "load_agent",
    "load_function",
    "named_array",
    "plot_timeline",
    "read_arrays",
    "read_function",
    "read_job",
    "read_last",
    "read_metrics",
    "read_own_part",
    "read_toml",
    "save_agent",
    "save_function",
    "write_job",
]
