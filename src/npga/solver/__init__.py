"""The solver: the recursion written once, one loop, stopping rules, results."""

from npga.solver._agent import LocalAgent, Traffic, local_agents, run_agents
from npga.solver._batch import Batch, batch
from npga.solver._loop import Meter, Run, run
from npga.solver._method import Iterate, Method, Npga
from npga.solver._path import method_for
from npga.solver._recursion import iterate
from npga.solver._reference import Reference, reference
from npga.solver._result import Result, Status
from npga.solver._solve import conclude, solve
from npga.solver._state import State
from npga.solver._stopping import Rule, Snapshot
from npga.solver._trace import Record, Trace
from npga.steps import Steps

__all__ = [
    "Batch",
    "Iterate",
    "LocalAgent",
    "Meter",
    "Method",
    "Npga",
    "Record",
    "Reference",
    "Result",
    "Rule",
    "Run",
    "Snapshot",
    "State",
    "Status",
    "Steps",
    "Trace",
    "Traffic",
    "batch",
    "conclude",
    "iterate",
    "local_agents",
    "method_for",
    "reference",
    "run",
    "run_agents",
    "solve",
]
