"""The methods that run in the loop: one table row for each."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from npga.networks import Listing, Network
from npga.problem import ConsensusProblem, Problem
from npga.solver._accelerated import Id2a, MultiId2a, OptimalAffine, ascent_steps, needs_smooth_equality
from npga.solver._admm import DcAdmm, IdcAdmm, TrackingAdmm, balanced_penalty, dual_penalty, needs_equality
from npga.solver._compiled import CompiledNpga
from npga.solver._exact import DualExact, Puda, dual_steps, needs_curvature, puda_steps
from npga.solver._loop import Method
from npga.solver._pga import CompiledPga, Pga, safe_steps
from npga.solver._recursion import Npga
from npga.steps import Steps


@dataclass(frozen=True)
class MethodRow:
    """One method.

    Parameters
    ----------
    name
        What to pass as ``npga.solve(..., method=name)``.
    solves
        The problems that it solves.
    rounds, vectors
        Communication rounds per iteration, and vectors of length p that each agent sends to a neighbour per
        iteration.
    inside
        What is solved inside an iteration.
    reference
        Where it was published.
    make
        The method for a problem, a network, a version (if it has one) and steps.
    choose
        Steps for a problem, a network and a version where none are given, or None where they must be.
    refuses
        Why a problem is not one that it solves, as a sentence, or None; None where it solves all of its class.
    version
        The version of the recursion that it takes where none is given, or "" where one must be; None for a method
        without versions.
    problem
        Class of the problems that it solves.
    free
        The steps that it has, for a search.
    compiled
        As `make`, by the compiled core; None where there is no kernel.
    unsteady
        Whether it runs on networks that change or lose messages.
    """

    name: str
    solves: str
    rounds: str
    vectors: str
    inside: str
    reference: str
    make: Callable[[Any, Network, Any, Any], Method[Any]]
    choose: Callable[[Any, Network, Any], Steps | None] | None = None
    refuses: Callable[[Any], str | None] | None = None
    version: str | None = None
    problem: type = Problem
    free: tuple[str, ...] = ()
    compiled: Callable[[Any, Network, Any, Any], Method[Any]] | None = None
    unsteady: bool = False


METHODS: dict[str, MethodRow] = {
    row.name: row
    for row in (
        MethodRow(
            name="npga",
            solves="all of P1, decentralised; ten versions, see npga.versions()",
            rounds="1 or 2",
            vectors="1 or 2",
            inside="nothing",
            reference="Li & Su 2024",
            make=Npga,
            compiled=CompiledNpga,
            version="",
            unsteady=True,
            free=("alpha", "beta", "gamma", "theta"),
        ),
        MethodRow(
            name="pga",
            solves="all of P1, in one place",
            rounds="0",
            vectors="0",
            inside="nothing",
            reference="Chambolle & Pock 2011; Condat 2013; equation (pga) of Li & Su 2024",
            make=lambda problem, network, _, steps: Pga(problem, network, steps),
            compiled=lambda problem, network, _, steps: CompiledPga(problem, network, steps),
            choose=lambda problem, *_: safe_steps(problem),
            free=("alpha", "beta", "theta"),
        ),
        MethodRow(
            name="dual-exact",
            solves="P1 with f + g strongly convex; every version, nids by default",
            rounds="1 or 2",
            vectors="1 or 2",
            inside="each agent's own problem: closed form where f is quadratic and diagonal, Newton steps where g = 0",
            reference="equation (da2) of Li & Su 2024",
            make=DualExact,
            choose=lambda problem, *_: dual_steps(problem),
            free=("beta", "gamma", "theta"),
            refuses=needs_curvature,
            version="nids",
        ),
        MethodRow(
            name="puda",
            solves="P2, npga.ConsensusProblem; every version, nids by default",
            rounds="1 or 2",
            vectors="1 or 2",
            inside="nothing",
            reference="Alghunaim, Ryu, Yuan & Sayed 2020; equation (puda) of Li & Su 2024",
            make=Puda,
            choose=puda_steps,
            free=("beta", "gamma", "theta"),
            version="nids",
            problem=ConsensusProblem,
        ),
        MethodRow(
            name="tracking-admm",
            solves="P1 with an equality",
            rounds="1",
            vectors="2",
            inside="each agent's own problem with a penalty, by Newton steps (one where f is quadratic) where g = 0",
            reference="Falsone, Notarnicola, Notarstefano & Prandini 2020",
            make=lambda problem, network, _, steps: TrackingAdmm(problem, network, steps),
            choose=lambda problem, *_: balanced_penalty(problem),
            free=("beta",),
            refuses=needs_equality,
        ),
        MethodRow(
            name="dc-admm",
            solves="P1 with an equality",
            rounds="1",
            vectors="1",
            inside="each agent's own problem with a penalty, by Newton steps (one where f is quadratic) where g = 0",
            reference="Chang, Hong & Wang 2015",
            make=lambda problem, network, _, steps: DcAdmm(problem, network, steps),
            choose=lambda problem, network, _: dual_penalty(problem, network),
            free=("beta",),
            refuses=needs_equality,
        ),
        MethodRow(
            name="idc-admm",
            solves="P1 with an equality",
            rounds="1",
            vectors="1",
            inside="nothing",
            reference="Chang, Hong & Wang 2015",
            make=lambda problem, network, _, steps: IdcAdmm(problem, network, steps),
            choose=lambda problem, network, _: dual_penalty(problem, network),
            free=("beta",),
            refuses=needs_equality,
        ),
        MethodRow(
            name="id2a",
            solves="all of P1, decentralised",
            rounds="1 per inner iteration",
            vectors="1 per round",
            inside="a saddle-point problem of all agents, inexactly",
            reference="Li & Lau 2025",
            make=lambda problem, network, _, steps: Id2a(problem, network, steps),
            choose=lambda problem, *_: ascent_steps(problem),
            free=("alpha", "beta"),
        ),
        MethodRow(
            name="mid2a",
            solves="all of P1, decentralised",
            rounds="K per inner iteration",
            vectors="1 per round",
            inside="a saddle-point problem of all agents, inexactly, with a Chebyshev polynomial of degree K",
            reference="Li & Lau 2025",
            make=lambda problem, network, _, steps: MultiId2a(problem, network, steps),
            choose=lambda problem, *_: ascent_steps(problem),
            free=("alpha", "beta"),
        ),
        MethodRow(
            name="optimal-affine",
            solves="P1 with an equality of full row rank, g = 0, f strongly convex and smooth",
            rounds="(2 + 2 N) K",
            vectors="1 per round",
            inside="N Chebyshev steps towards the constraint, each with two polynomials of degree K",
            reference="Yarmoshik, Rogozin & Gasnikov 2024",
            make=lambda problem, network, *_: OptimalAffine(problem, network),
            choose=lambda *_: None,
            refuses=needs_smooth_equality,
        ),
    )
}


# What people ask for and do not find, with the reason.
ABSENT = {
    "idea": "IDEA (Li & Su 2022) is a continuous-time method: the paper names it without equations and says that the "
    "steps and the rate of a discretisation are not known, so that any that ran here would be ours under its name; on "
    "its problems (g = 0, an equality of full row rank) the CTA rows of npga and optimal-affine run",
}


def methods() -> MethodTable:
    """Return the table of methods that `npga.solve(..., method=...)` runs."""
    return MethodTable(tuple(METHODS.values()))


class MethodTable(Listing[MethodRow]):
    """A sequence of methods that prints as a table."""

    _COLUMNS = ("name", "solves", "rounds", "vectors", "inside", "reference")

    def _notes(self) -> list[str]:
        return [f"Absent: {why}." for why in ABSENT.values()]
