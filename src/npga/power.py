"""Power grids as problems: economic dispatch and DC optimal power flow on the cases of MATPOWER and PYPOWER.

Every bus is an agent: the outputs P of its generators are its variables, in MW, with the cost c2 P^2 + c1 P + c0 per
hour and the limits of the case; a bus without generators passes messages on. The grid itself is the network. Dispatch
couples all by one row, total output = total load. DC power flow adds a row for each line that has a limit: with the
transfer factors H of the lines (PTDF) and the load D of the buses, |H (P - D)| <= limit, so that

    A_i = [1; columns of H at bus i],   h = indicator of {total load} x [H D - limit, H D + limit].

The prices are the duals: with lam = (lam_0, mu), power at bus b is worth -lam_0 - H_b^T mu, energy and congestion.
"""

from __future__ import annotations

import importlib
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from npga import functions as fn
from npga.errors import InputError, nearest
from npga.extras import load
from npga.networks import Network
from npga.problem import Agent, Problem

Array = NDArray[Any]

# Columns of the case format.
_BUS, _KIND, _PD, _GS = 0, 1, 2, 4
_GEN_BUS, _STATUS, _PMAX, _PMIN = 0, 7, 8, 9
_FROM, _TO, _X, _RATE, _TAP, _SHIFT, _ON = 0, 1, 3, 5, 8, 9, 10
_TABLES = ("bus", "gen", "branch", "gencost")


@dataclass(frozen=True, repr=False)
class Grid:
    """A case with its buses numbered from 0, and what is in service.

    Parameters
    ----------
    name
        Of the case.
    at, low, high, costs
        Bus, limits in MW and c2, c1, c0 of each generator.
    load
        MW at each bus; the conductance of a shunt counts as load at a voltage of 1, as in every DC model.
    ends, susceptance, shift, limit
        Buses, 1/(x tap) in MW, phase shift in radians and limit in MW (0: none) of each line.
    reference
        The bus whose transfer factors are zero.
    raw
        The tables as they were read.
    """

    name: str
    at: Array
    low: Array
    high: Array
    costs: Array
    load: Array
    ends: Array
    susceptance: Array
    shift: Array
    limit: Array
    reference: int
    raw: dict[str, Any]

    def __repr__(self) -> str:
        limited = np.count_nonzero(self.limit)
        return (
            f"Grid({self.name!r}: {self.load.size} buses, {self.at.size} generators, {len(self.ends)} lines, "
            f"{limited} of them with a limit, load {self.load.sum():,.1f} MW)"
        )

    def network(self, mixing: str = "laplacian") -> Network:
        """The buses, joined by the lines."""
        return Network.from_edges(np.unique(np.sort(self.ends, axis=1), axis=0), self.load.size, mixing)

    @cached_property
    def owners(self) -> list[Array]:
        """The generators of each bus."""
        return [np.flatnonzero(self.at == bus) for bus in range(self.load.size)]

    @cached_property
    def transfer(self) -> Array:
        """H, lines x buses: MW on a line for each MW that enters at a bus and leaves at the reference."""
        from scipy import sparse
        from scipy.sparse.linalg import splu

        lines, buses = len(self.ends), self.load.size
        rows = np.arange(lines)
        signs = np.concatenate([np.ones(lines), -np.ones(lines)])
        C = sparse.csr_array((signs, (np.tile(rows, 2), self.ends.T.ravel())), shape=(lines, buses))
        flows = sparse.diags_array(self.susceptance) @ C
        kept = np.flatnonzero(np.arange(buses) != self.reference)
        inner = splu(sparse.csc_array((C.T @ flows)[kept][:, kept]))
        H = np.zeros((lines, buses))
        H[:, kept] = inner.solve(flows[:, kept].toarray().T, "T").T
        return H

    @cached_property
    def still(self) -> Array:
        """The flows without any generation: those of the loads and of the phase shifters, in MW."""
        shifted = -self.susceptance * self.shift
        entering = np.bincount(self.ends[:, 0], shifted, self.load.size)
        entering -= np.bincount(self.ends[:, 1], shifted, self.load.size)
        return np.asarray(self.transfer @ (-self.load - entering) + shifted)

    def dispatch(self, load: Array | None = None) -> GridProblem:
        """Meet the load at least cost; lines have no limits.

        Parameters
        ----------
        load
            MW at each bus, instead of the case's.
        """
        total = float((self.load if load is None else np.asarray(load)).sum())
        return self._posed(np.zeros((0, self.load.size)), fn.Equality([total]))

    def power_flow(self, limits: float | Array = 1.0) -> GridProblem:
        """Meet the load at least cost while every line keeps its limit.

        Parameters
        ----------
        limits
            A factor for the limits of the case, or a limit in MW for each line, 0 for none.
        """
        given = np.asarray(limits, dtype=np.float64)
        rate = given * self.limit if given.ndim == 0 else given
        if rate.shape != self.limit.shape:
            raise InputError(f"limits of shape {given.shape} arrived; expected a factor, or {len(self.limit)} numbers")
        limited = rate > 0
        if not limited.any():
            return self.dispatch()
        box = fn.Box(-rate[limited] - self.still[limited], rate[limited] - self.still[limited])
        h = fn.SeparableSum([fn.Equality([self.load.sum()]), box], [1, int(limited.sum())])
        return self._posed(self.transfer[limited], h)

    def _posed(self, lines: Array, h: fn.Function) -> GridProblem:
        rows = np.vstack([np.ones(self.at.size), lines[:, self.at]])
        agents, constant = producers(self, rows, self.owners)
        return GridProblem(self, Problem(agents, h), constant, lines)


class Solved(Protocol):
    """What prices and outputs are read from: an `npga.Result`."""

    @property
    def x(self) -> Array:
        """The outputs, bus by bus."""

    @property
    def duals(self) -> Array:
        """The prices of the coupling."""


@dataclass(frozen=True)
class GridProblem:
    """A grid's problem, and how to read its answer.

    Parameters
    ----------
    grid
        The case.
    problem
        What to solve, on ``grid.network()``.
    constant
        What the costs of the problem leave out.
    lines
        Transfer factors of the lines that have a limit.
    """

    grid: Grid
    problem: Problem
    constant: float
    lines: Array = field(repr=False)

    def output(self, result: Solved) -> Array:
        """MW of each generator, in the order of the case."""
        found = np.empty(self.grid.at.size)
        found[np.concatenate(self.grid.owners)] = np.ravel(result.x)
        return found

    def cost(self, result: Solved) -> float:
        """Cost per hour."""
        output = self.output(result)
        c2, c1, c0 = self.grid.costs.T
        return float(np.sum(c2 * output**2 + c1 * output + c0))

    def flows(self, result: Solved) -> Array:
        """MW on each line of the case, from its first end to its second."""
        entering = np.bincount(self.grid.at, self.output(result), self.grid.load.size)
        return np.asarray(self.grid.transfer @ entering + self.grid.still)

    def prices(self, result: Solved) -> tuple[float, Array]:
        """The price of energy, and for each bus what congestion adds to it; their sum is the price at the bus."""
        return -float(result.duals[0]), -self.lines.T @ result.duals[1:]


def producers(grid: Grid, rows: Array, owners: list[Array]) -> tuple[list[Agent], float]:
    """One agent for each list of generators, and the constant that their costs leave out.

    Parameters
    ----------
    grid
        The case.
    rows
        A column for each generator: how much of each coupling row a MW of it takes.
    owners
        The generators of each agent.
    """
    agents, constant = [], float(grid.costs[:, 2].sum())
    for mine in owners:
        if not len(mine):
            agents.append(Agent(np.zeros((rows.shape[0], 0)), fn.Zero()))
            continue
        c2, c1 = grid.costs[mine, 0], grid.costs[mine, 1]
        if (c2 > 0).all():
            f: fn.Function = fn.SquaredNorm(2.0 * c2, center=-c1 / (2.0 * c2))
            constant -= float((c1**2 / (4.0 * c2)).sum())
        else:
            f = fn.Quadratic(np.diag(2.0 * c2), c1)
        agents.append(Agent(rows[:, mine], f, fn.Box(grid.low[mine], grid.high[mine])))
    return agents, constant


def case(source: str | Path | Mapping[str, Any], least_curvature: float = 0.0) -> Grid:
    """A case of PYPOWER or MATPOWER.

    Parameters
    ----------
    source
        A name such as "case118", of PYPOWER or else of the package matpower; a file in MATPOWER's format; or the
        tables themselves, as PYPOWER's functions return them.
    least_curvature
        Smallest c2, in $/MW^2 h, for cases that have linear costs.
    """
    raw = dict(source) if isinstance(source, Mapping) else _read(source)
    missing = [key for key in _TABLES if key not in raw]
    if missing:
        raise InputError(f"the case has no {', '.join(missing)}; expected the tables {', '.join(_TABLES)}")
    bus, gen, branch, gencost = (np.asarray(raw[key], dtype=np.float64) for key in _TABLES)
    base = float(raw.get("baseMVA", 100.0))
    number = {int(row): k for k, row in enumerate(bus[:, _BUS])}
    running = gen[:, _STATUS] > 0
    on = branch[:, _ON] > 0
    lines = branch[on]
    tap = np.where(lines[:, _TAP] == 0.0, 1.0, lines[:, _TAP])
    costs = _costs(gencost[: running.size][running])
    costs[:, 0] = np.maximum(costs[:, 0], least_curvature)
    return Grid(
        name=source if isinstance(source, str) else "case",
        at=np.array([number[int(row)] for row in gen[running, _GEN_BUS]]),
        low=gen[running, _PMIN],
        high=gen[running, _PMAX],
        costs=costs,
        load=bus[:, _PD] + bus[:, _GS],
        ends=np.array([[number[int(a)], number[int(b)]] for a, b in lines[:, [_FROM, _TO]]]),
        susceptance=base / (lines[:, _X] * tap),
        shift=np.deg2rad(lines[:, _SHIFT]),
        limit=lines[:, _RATE],
        reference=int(np.flatnonzero(bus[:, _KIND] == 3)[0]),
        raw={**raw, "bus": bus, "gen": gen, "branch": branch, "gencost": gencost, "baseMVA": base},
    )


def _costs(table: Array) -> Array:
    """c2, c1, c0 of polynomial costs of degree at most two."""
    found = np.zeros((len(table), 3))
    for k, row in enumerate(table):
        count = int(row[3])
        if row[0] != 2 or count > 3:
            raise InputError(f"the cost of generator {k} is no polynomial of degree 2; expected model 2 with n <= 3")
        found[k, 3 - count :] = row[4 : 4 + count]
    return found


def _read(source: str | Path) -> dict[str, Any]:
    if Path(source).suffix == ".m":
        return _parse(Path(source))
    name = str(source)
    if not re.fullmatch(r"\w+", name):
        raise InputError(f"case {name!r} arrived; expected a name such as 'case118', or a file that ends in .m")
    try:
        return dict(getattr(importlib.import_module(f"pypower.{name}"), name)())
    except ModuleNotFoundError:
        folder = Path(load("matpower", "power", f"case {name}").__file__).parent / "data"
        if not (folder / f"{name}.m").exists():
            raise InputError(
                f"case {name} is unknown; {nearest(name, (path.stem for path in folder.glob('*.m')))}"
            ) from None
        return _parse(folder / f"{name}.m")


def _parse(path: Path) -> dict[str, Any]:
    """The tables of a file in MATPOWER's format."""
    if not path.exists():
        raise InputError(f"{path} does not exist; expected a case in MATPOWER's format")
    text = re.sub(r"%.*", "", path.read_text(encoding="utf-8", errors="replace"))
    base = re.search(r"mpc\.baseMVA\s*=\s*([\d.eE+-]+)", text)
    found: dict[str, Any] = {"baseMVA": float(base.group(1)) if base else 100.0}
    for key, body in re.findall(r"mpc\.(\w+)\s*=\s*\[(.*?)\];", text, re.DOTALL):
        if key in _TABLES:
            rows = (row.replace(",", " ").split() for row in re.split(r"[;\n]", body))
            found[key] = np.array([[float(value) for value in row] for row in rows if row])
    return found
