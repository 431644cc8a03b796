"""Fifty and more real problems, each with a solution that nobody here computed.

`CASES` lists them; `case.build(seed)` gives an `Instance`: the problem, its network, and `instance.solve()`, which
asks scikit-learn, cvxpy (Clarabel), SciPy (HiGHS), NetworkX or PYPOWER for the answer. Chapters in reading order:

    case        what a case is; the one way to ask cvxpy
    power       economic dispatch and DC optimal power flow on the cases of PYPOWER and MATPOWER
    learning    regression and classification with the columns at different parties, on data of scikit-learn
    allocation  sharing resources on rings, grids, random and real graphs
    programs    linear programs, transport, flows, basis pursuit, network utility, portfolios
    measure     default, tuned and centralised runs of one case, and their errors; results kept on disk
    report      table, verdicts and profile for docs/suite.md

Run it with `make suite`, or `python benchmarks/suite --help`.
"""

from suite.allocation import ALLOCATION
from suite.case import Case, Instance, Solution
from suite.learning import LEARNING
from suite.power import POWER
from suite.programs import PROGRAMS

CASES: dict[str, Case] = {case.name: case for case in (*POWER, *LEARNING, *ALLOCATION, *PROGRAMS)}

__all__ = ["CASES", "Case", "Instance", "Solution"]
