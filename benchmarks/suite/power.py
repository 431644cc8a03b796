"""Economic dispatch and DC optimal power flow on the cases of PYPOWER and of MATPOWER.

`npga.power` reads the cases and poses the problems.
"""

from __future__ import annotations

from functools import cache, partial
from typing import Any

import numpy as np

import npga
from npga import functions as fn
from npga import power
from npga.power import Grid, producers
from suite.case import Case, Instance, Solution, by_clarabel

# Columns of the case format.
STATUS, RATE, ON = 7, 5, 10
grid = cache(power.case)


def order(owners: list[Any]) -> Any:
    """Generators in the order in which the agents hold them."""
    return np.concatenate([np.asarray(mine, int) for mine in owners])


def from_pypower(case: Grid, owners: list[Any], branches: Any) -> Solution:
    """The answer of PYPOWER's DC optimal power flow; lam is minus the price of the rows.

    PYPOWER prices a bus, mu_b = price of energy - H^T (prices of lines); lam of the balance is minus the price at the
    reference bus, where the transfer factors vanish.
    """
    from pypower.api import ppoption, rundcopf

    raw = {key: value.copy() if isinstance(value, np.ndarray) else value for key, value in case.raw.items()}
    raw |= {"version": "2", "branch": branches.copy()}
    for tol in (1e-11, 1e-10):  # how far its interior point method gets depends on the machine
        accuracy = {"PDIPM_FEASTOL": 10 * tol, "PDIPM_GRADTOL": 10 * tol, "PDIPM_COMPTOL": tol, "PDIPM_COSTTOL": tol}
        found = rundcopf(raw, ppoption(VERBOSE=0, OUT_ALL=0, **accuracy))
        if found["success"]:
            break
    else:
        raise RuntimeError(f"PYPOWER did not solve {case.name}")
    running = found["gen"][:, STATUS] > 0
    output = found["gen"][running, 1][order(owners)]
    reference = found["bus"][found["bus"][:, 1] == 3, 13]
    lines = found["branch"][:, 17] - found["branch"][:, 18]  # multipliers of the limits at the two ends
    limited = (branches[:, RATE] > 0) & (branches[:, ON] > 0)
    return Solution(output, np.concatenate([-reference[:1], lines[limited]]), float(found["f"]), "PYPOWER")


def dispatch(name: str, seed: int, graph: str = "buses", curvature: float = 0.0) -> Instance:
    """Meet the load at least cost. `graph`: the buses' own, or one among the generators alone."""
    case = grid(name, curvature)
    owners = case.owners if graph == "buses" else [[k] for k in range(case.at.size)]
    networks = {
        "buses": lambda: case.network(),
        "ring": lambda: npga.Network.ring(len(owners)),
        "complete": lambda: npga.Network.complete(len(owners)),
        "erdos-renyi": lambda: npga.Network.erdos_renyi(len(owners), 4.0 / len(owners), seed=seed),
    }
    agents, constant = producers(case, np.ones((1, case.at.size)), owners)
    problem = npga.Problem(agents, fn.Equality([case.load.sum()]))

    def solve() -> Solution:
        unlimited = case.raw["branch"].copy()
        unlimited[:, RATE] = 0.0
        if not curvature and name in SMALL:
            return from_pypower(case, owners, unlimited)
        return _merit_order(case, owners)

    unique = bool((case.costs[:, 0] > 0).all())
    return Instance(problem, networks[graph](), solve, unique, constant)


def _merit_order(case: Grid, owners: list[Any]) -> Solution:
    """The dispatch asked from Clarabel, for cases that PYPOWER does not ship."""
    import cvxpy as cp

    kept = order(owners)
    c2, c1, c0 = case.costs[kept].T

    def pose(x: Any, z: Any) -> Any:
        cost = cp.sum(cp.multiply(c2, cp.square(x))) + c1 @ x + c0.sum()
        return cost, [z == case.load.sum(), x >= case.low[kept], x <= case.high[kept]]

    return by_clarabel(np.ones((1, kept.size)), pose)


def power_flow(name: str, seed: int, limits: float = 1.0, congested: int = 0) -> Instance:
    """DC optimal power flow. `limits` scales all limits; `congested` caps that many lines at 90 % of their flow.

    The cap is for cases that come without limits: it takes the most loaded lines of the cheapest dispatch.
    """
    case = grid(name)
    rate = limits * case.limit
    if congested:
        cheapest = np.bincount(case.at[order(case.owners)], _merit_order(case, case.owners).x, case.load.size)
        flow = np.abs(case.transfer @ cheapest + case.still)
        rate = np.zeros_like(flow)
        busiest = np.argsort(flow)[-congested:]
        rate[busiest] = np.round(0.9 * flow[busiest], 1)
    posed = case.power_flow(rate)

    def solve() -> Solution:
        branches = case.raw["branch"].copy()
        branches[branches[:, ON] > 0, RATE] = rate
        return from_pypower(case, case.owners, branches)

    del seed
    return Instance(posed.problem, case.network(), solve, True, posed.constant)


SMALL = ("case9", "case14", "case30", "case39", "case57", "case118", "case300")


def _listed() -> list[Case]:
    cases = [
        Case(f"dispatch-{name[4:]}-buses", f"PYPOWER {name}", partial(dispatch, name))
        for name in ("case14", "case30", "case57", "case118", "case300")
    ]
    cases += [
        Case("dispatch-39-ring", "PYPOWER case39", partial(dispatch, "case39", graph="ring")),
        Case("dispatch-57-complete", "PYPOWER case57", partial(dispatch, "case57", graph="complete")),
        Case("dispatch-118-er", "PYPOWER case118", partial(dispatch, "case118", graph="erdos-renyi"), drawn=True),
        Case("dispatch-300-er", "PYPOWER case300", partial(dispatch, "case300", graph="erdos-renyi"), drawn=True),
        Case("dispatch-2000-buses", "MATPOWER case_ACTIVSg2000", partial(dispatch, "case_ACTIVSg2000"), large=True),
        Case(
            "dispatch-2383-buses", "MATPOWER case2383wp, quadratic costs added",
            partial(dispatch, "case2383wp", curvature=0.01), large=True,
        ),
    ]  # fmt: skip
    cases += [
        Case(f"opf-{name[4:]}", f"PYPOWER {name}, its limits", partial(power_flow, name))
        for name in ("case9", "case14", "case30", "case57", "case118")
    ]
    cases += [
        Case("opf-39-tight", "PYPOWER case39, limits x 0.8", partial(power_flow, "case39", limits=0.8)),
        Case("opf-57-congested", "PYPOWER case57, 5 lines capped", partial(power_flow, "case57", congested=5)),
        Case("opf-118-congested", "PYPOWER case118, 5 lines capped", partial(power_flow, "case118", congested=5)),
    ]
    return cases


POWER = _listed()
