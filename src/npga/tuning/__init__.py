"""Step sizes that nobody has to guess: from theorems, from the spectral radius, or from trial runs.

This room joins promise and practice. It owns the choice of version and steps; it imports functions, networks, problem,
theory and solver, and runs nothing but the solver's recursion in the solver's loop. Its chapters, in reading order:

    automatic        `npga.solve`: one call, with or without steps
    adaptive_run     NPGA that finds its steps on the way, as a method of the one loop
    adaptive_agent   the same for one agent alone, whose parts others add up
    adaptive_steps   the decisions of such a run: steps tied to one number, legs, extrapolation
    tune             `npga.tune`: one version or a ranking of several, steps from the theorems, the landscape of rates
    search           steps from trial runs; time, progress, and runs that are measured
    spectral         steps from the spectral radius, then from runs near the best of them
    certified_steps  steps with the best rate that is proved for every start
    space            the coordinates in which steps, or polynomials and steps, are searched
    radius           the iteration near its fixed point, and its spectral radius (Krylov-Schur)
    design           `npga.design`: versions whose polynomials are searched
    compare          `npga.compare`: anything against anything, tuned alike
    comparison       what it returns: tables, curves, profiles
    tuning_results   what all the others return
"""

from npga.tuning._adaptive_agent import AdaptiveAgent
from npga.tuning._adaptive_run import AdaptiveNpga, AdaptiveState, Leg
from npga.tuning._adaptive_steps import tied_steps, tied_version
from npga.tuning._automatic import Search, Solution, solve
from npga.tuning._compare import Entry, compare
from npga.tuning._comparison import Comparison, read_comparison
from npga.tuning._design import design
from npga.tuning._radius import Linearisation, Rate, rate
from npga.tuning._search import Measured, measure
from npga.tuning._tune import Landscape, landscape, tune
from npga.tuning._tuning_results import DesignedVersion, Ranking, Trial, Trials, Tuning

__all__ = [
    "AdaptiveAgent",
    "AdaptiveNpga",
    "AdaptiveState",
    "Comparison",
    "DesignedVersion",
    "Entry",
    "Landscape",
    "Leg",
    "Linearisation",
    "Measured",
    "Ranking",
    "Rate",
    "Search",
    "Solution",
    "Trial",
    "Trials",
    "Tuning",
    "compare",
    "design",
    "landscape",
    "measure",
    "rate",
    "read_comparison",
    "solve",
    "tied_steps",
    "tied_version",
    "tune",
]
