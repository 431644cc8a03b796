"""The solver: any method in one loop, with the same stopping rules, meters and results.

Owns what is done between a problem and its result. May import `functions`, `networks`, `problem`, `pages` and the top
level; it does not know what theory promises. Chapters in reading order:

    solve       one call with given steps, from arguments to a method and to `Result`; checkpoints on the way
    methods     the table of methods
    loop        what a `Method` must offer, what is measured of it, and the loop
    stopping    `Limits`, the rules that read them, and when a run is looked at
    obstacles   why a problem has no solution: certificates from differences of iterates
    recursion   NPGA: its state, one iteration, all agents at once
    pga         the centralised method that NPGA is measured against
    exact       the recursion with exact dual gradients, and PUDA for consensus problems
    subproblems every agent's own problem, solved to a tolerance
    admm        Tracking-ADMM, DC-ADMM and IDC-ADMM
    accelerated iD2A, MiD2A and the optimal method for an equality
    agent       one agent without input or output
    result      status, trace and result
    showing     figures, and the sections of a report
    reference   a centralised solution to the last digits
    compiled    NPGA by the compiled core, its meter, leaps over several records; order of the work, and threads
    packing     a problem, a network, a version and steps as the core reads them
    core/       the core itself, in C++: loops and formulas; how it is built, found and loaded
"""

from npga.extras import Tell, show_progress
from npga.solver._agent import LocalAgent, Traffic, local_agents, run_agents
from npga.solver._loop import Iterate, Meter, Method, Run, Yardstick, run
from npga.solver._methods import METHODS, MethodRow, MethodTable, methods
from npga.solver._obstacles import Obstacle, Watch, find_obstacle
from npga.solver._pga import Pga
from npga.solver._recursion import Npga, State, iterate
from npga.solver._reference import Reference, reference
from npga.solver._result import AgentTrace, Record, Result, Status, Trace, Work
from npga.solver._showing import convergence_section
from npga.solver._solve import conclude, method_for, solve
from npga.solver._stopping import Limits, Rule, Snapshot
from npga.solver.core import core_status
from npga.steps import Steps

__all__ = [
    "METHODS",
    "AgentTrace",
    "Iterate",
    "Limits",
    "LocalAgent",
    "Meter",
    "Method",
    "MethodRow",
    "MethodTable",
    "Npga",
    "Obstacle",
    "Pga",
    "Record",
    "Reference",
    "Result",
    "Rule",
    "Run",
    "Snapshot",
    "State",
    "Status",
    "Steps",
    "Tell",
    "Trace",
    "Traffic",
    "Watch",
    "Work",
    "Yardstick",
    "conclude",
    "convergence_section",
    "core_status",
    "find_obstacle",
    "iterate",
    "local_agents",
    "method_for",
    "methods",
    "reference",
    "run",
    "run_agents",
    "show_progress",
    "solve",
]
