"""The methods that run in the loop: one table row for each, and the choice of an implementation."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeVar

from npga.errors import InputError, nearest
from npga.networks import Listing, Network, Version
from npga.networks import version as find_version
from npga.problem import ConsensusProblem, Problem
from npga.solver._accelerated import Id2a, MultiId2a, OptimalAffine, ascent_steps, needs_smooth_equality
from npga.solver._admm import DcAdmm, IdcAdmm, TrackingAdmm, balanced_penalty, needs_equality
from npga.solver._exact import DualExact, Puda, dual_steps, needs_curvature, puda_steps
from npga.solver._loop import Method
from npga.solver._pga import CompiledPga, Pga, safe_steps
from npga.solver._recursion import Npga
from npga.steps import Steps, with_fixed

M = TypeVar("M", bound=Method[Any])
PATHS = ("auto", "compiled", "vectorised")


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
        The method for a problem, a network, a version (if it has one) and steps; None for NPGA itself.
    choose
        Steps for a problem, a network and a version where none are given, or None where they must be.
    refuses
        Why a problem is not one that it solves, as a sentence, or None.
    version
        The version of the recursion that it takes where none is given; None for a method without versions.
    problem
        Class of the problems that it solves.
    free
        The steps that it has, for a search.
    compiled
        As `make`, by the compiled core; None where there is no kernel.
    """

    name: str
    solves: str
    rounds: str
    vectors: str
    inside: str
    reference: str
    make: Callable[[Any, Network, Any, Any], Method[Any]] | None = None
    choose: Callable[[Any, Network, Any], Steps | None] | None = None
    refuses: Callable[[Any], str | None] = lambda problem: None  # noqa: ARG005
    version: str | None = None
    problem: type = Problem
    free: tuple[str, ...] = ()
    compiled: Callable[[Any, Network, Any, Any], Method[Any]] | None = None


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
            inside="each agent's own problem, in closed form where f is quadratic and diagonal, or g = 0",
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
            inside="each agent's own problem with a penalty, in closed form where f is quadratic and g = 0",
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
            inside="each agent's own problem with a penalty, in closed form where f is quadratic and g = 0",
            reference="Chang, Hong & Wang 2015",
            make=lambda problem, network, _, steps: DcAdmm(problem, network, steps),
            choose=lambda problem, *_: balanced_penalty(problem),
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
            choose=lambda problem, *_: balanced_penalty(problem),
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
            free=("beta",),
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
            free=("beta",),
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


def build(
    method: str | Method[Any],
    problem: Problem | ConsensusProblem,
    network: Network,
    version: str | Version | None,
    steps: Steps | None,
    path: str,
) -> Method[Any]:
    """The method that `solve` was asked for; what it cannot solve is refused."""
    if steps is not None and not isinstance(steps, Steps):
        raise InputError(f"steps is a {type(steps).__name__}; expected npga.Steps(alpha=, beta=, gamma=, theta=)")
    if isinstance(method, Method):
        return _given(method, problem, network, version, steps)
    if method == "npga" and isinstance(problem, ConsensusProblem):
        method = "puda"
    if method == "npga":
        assert isinstance(problem, Problem)
        if version is None or steps is None:
            raise InputError("a version and steps are needed here; npga.solve finds them where they are not given")
        chosen = find_version(version)
        steps = with_fixed(steps, chosen.fixed, chosen.name)
        problem.expect(network, steady=False)
        return method_for(problem, network, chosen, steps, path)
    row = METHODS.get(method) if isinstance(method, str) else None
    if isinstance(method, str) and method.lower() in ABSENT:
        raise InputError(f"method {method!r} is absent: {ABSENT[method.lower()]}; npga.methods() has the others")
    if row is None or row.make is None:
        raise InputError(f"method {method!r} is unknown; {nearest(str(method), METHODS)}")
    if version is not None and row.version is None:
        raise InputError(f"version = {version!r} arrived for the method {row.name}, which has none; leave it out")
    if path not in PATHS:
        raise InputError(f"path is {path!r}; expected one of {', '.join(PATHS)}")
    if path == "compiled" and row.compiled is None:
        raise InputError(f'path is {path!r}, but {row.name} has no kernel; use path="auto" or path="vectorised"')
    if not isinstance(problem, row.problem):
        raise InputError(f"{row.name} solves {row.solves}; a {type(problem).__name__} arrived: see npga.methods()")
    problem.expect(network)
    why = row.refuses(problem)
    if why is not None:
        raise InputError(f"{row.name} cannot solve this problem: {why}; npga.methods() says what each method solves")
    kind = None if row.version is None else find_version(version or row.version)
    if steps is None:
        if row.choose is None:
            raise InputError(f"{row.name} needs steps; pass steps=npga.Steps(alpha=, beta=, ...)")
        steps = row.choose(problem, network, kind)
    plain = partial(row.make, problem, network, kind, steps)
    if row.compiled is None:
        made = plain()
        made.path_reason = f"{row.name} has no kernel"
        return made
    return _by_path(path, partial(row.compiled, problem, network, kind, steps), plain)


def _given(
    method: Method[Any], problem: Any, network: Network, version: str | Version | None, steps: Steps | None
) -> Method[Any]:
    """A method object as it is, if nothing else was said about it."""
    if method.problem is not problem or method.network is not network:
        raise InputError(f"{method.name} was made for another problem or network; expected those that it holds")
    if version is not None or steps is not None:
        raise InputError(
            f"{method.name} was given as an object, which has its steps already; leave version and steps out"
        )
    return method


def method_for(problem: Problem, network: Network, version: Version, steps: Steps, path: str = "auto") -> Npga:
    """NPGA by the path that was asked for; "auto" is compiled where that is possible.

    Functions of `npga.functions` except `Custom` (and except `Quadratic` and `LeastSquares` as g or h), dense and
    sparse matrices, and versions given by polynomials are compiled.
    """
    if path not in PATHS:
        raise InputError(f"path is {path!r}; expected one of {', '.join(PATHS)}")

    def compiled() -> Npga:
        from npga.solver._compiled import CompiledNpga  # loads the compiled core, which `import npga` need not
        from npga.solver._packing import UnsupportedError

        if not network.is_steady:
            raise UnsupportedError(f"a {network.kind} has no kernel")
        return CompiledNpga(problem, network, version, steps)

    return _by_path(path, compiled, lambda: Npga(problem, network, version, steps))


def _by_path(path: str, compiled: Callable[[], M], plain: Callable[[], M]) -> M:
    """The compiled form where it was asked for, or where it is possible."""
    if path == "vectorised":
        return plain()
    from npga.solver._packing import UnsupportedError

    try:
        return compiled()
    except UnsupportedError as culprit:
        if path == "compiled":
            raise InputError(
                f'path="compiled" was asked for, but {culprit}; use path="auto" or path="vectorised"'
            ) from None
        made = plain()
        made.path_reason = str(culprit)
        return made
