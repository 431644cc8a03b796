"""Decentralized constraint-coupled optimization with NPGA (Li and Su, 2024).

    min over x_1..x_n of  sum_i f_i(x_i) + g_i(x_i)  +  h(sum_i A_i x_i)

where agent i alone knows f_i, g_i and A_i and talks only to its neighbours on a graph.

Names are loaded when they are first used, so that `import npga` is quick.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from npga import errors, experiments, functions, networks, pages, power, problem, runtimes, solver, theory, tuning
    from npga.networks import Network, Version, version, versions
    from npga.problem import Agent, ConsensusProblem, Problem
    from npga.solver import Result, Status, Trace, methods, reference
    from npga.steps import Steps
    from npga.theory import Certificate, certify
    from npga.tuning import Comparison, Solution, Tuning, compare, design, solve, tune

__version__ = "0.1.0"

_HOMES = {
    "networks": ("Network", "Version", "version", "versions"),
    "problem": ("Agent", "ConsensusProblem", "Problem"),
    "solver": ("Result", "Status", "Trace", "methods", "reference"),
    "steps": ("Steps",),
    "theory": ("Certificate", "certify"),
    "tuning": ("Comparison", "Solution", "Tuning", "compare", "design", "solve", "tune"),
}
_HOME_OF = {name: room for room, names in _HOMES.items() for name in names}

__all__ = [
    "Agent",
    "Certificate",
    "Comparison",
    "ConsensusProblem",
    "Network",
    "Problem",
    "Result",
    "Solution",
    "Status",
    "Steps",
    "Trace",
    "Tuning",
    "Version",
    "certify",
    "compare",
    "design",
    "errors",
    "experiments",
    "functions",
    "methods",
    "networks",
    "pages",
    "power",
    "problem",
    "reference",
    "runtimes",
    "solve",
    "solver",
    "theory",
    "tune",
    "tuning",
    "version",
    "versions",
]


def __getattr__(name: str) -> Any:
    if name in _HOME_OF:
        value = getattr(importlib.import_module(f"npga.{_HOME_OF[name]}"), name)
        globals()[name] = value
        return value
    if name in __all__:  # a room
        return importlib.import_module(f"npga.{name}")
    raise AttributeError(f"module 'npga' has no attribute {name!r}")


def __dir__() -> list[str]:
    return [*__all__, "__version__"]
