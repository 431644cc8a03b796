"""Which theorem covers a set-up, with which steps and which rate, and what would bring it under one."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace
from decimal import ROUND_DOWN, Decimal
from functools import partial
from typing import Any, Protocol

import numpy as np
from scipy import sparse

from npga.errors import InputError
from npga.functions import Zero
from npga.networks import Network, Version, versions
from npga.networks import version as find_version
from npga.problem import Agent, Problem, expect_p1
from npga.steps import Steps, with_fixed
from npga.theory._certificate import Certificate, Coverage
from npga.theory._coverage import Setup, best_of, coverages
from npga.theory._problem_facts import Fact, ProblemFacts, problem_facts

_DECOMPOSED = 300  # largest np whose matrices are decomposed in a trial


class StepSizes(Protocol):
    """Anything with the four step sizes as attributes, such as `npga.Steps`."""

    @property
    def alpha(self) -> float: ...
    @property
    def beta(self) -> float: ...
    @property
    def gamma(self) -> float: ...
    @property
    def theta(self) -> float: ...


def certify(problem: Problem, network: Network, version: str | Version, steps: StepSizes | None = None) -> Certificate:
    """Say which theorem covers a set-up, with which bounds on the steps and which rate, and why.

    Parameters
    ----------
    problem, network
        What is to be solved, and who talks to whom; node i of the network is agent i of the problem.
    version
        Name of a version or preset, or a `Version` of your own.
    steps
        The steps to examine. Without them, each theorem is examined at the steps inside its bounds that minimise
        its rate, and `Certificate.steps` holds the best of these.

    Returns
    -------
    Certificate
        Assumptions, theorems, a verdict in one line, and, when no theorem applies, changes that were tried and work.

    Examples
    --------
    >>> import numpy as np, npga
    >>> from npga import functions as fn
    >>> agents = [npga.Agent(A=np.eye(2), f=fn.SquaredNorm(1.0)) for _ in range(4)]
    >>> cert = certify(npga.Problem(agents, fn.Equality([1.0, 2.0])), npga.Network.ring(4), "nids")
    >>> cert.best.key, round(cert.best.rate, 3)
    ('3', 0.75)
    """
    chosen = find_version(version)
    expect_p1(problem)
    problem.expect(network)
    given = None if steps is None else with_fixed(_read(steps), chosen.fixed, chosen.name)
    # A Chebyshev polynomial of W is the mixing matrix of another network, and the theorems are about that one.
    mixed, plain = chosen.mixed(network), chosen.plain
    setup, common = _setup(problem, mixed, plain, given)
    theorems = {key: _undo(found, given) for key, found in coverages(setup, common).items()}
    best = best_of(theorems)
    used = given if given is not None else None if best is None else best.steps
    return Certificate(
        version=chosen,
        network=network,
        assumptions=setup.at(setup.typical_beta() if used is None else used.beta).assumptions,
        theorems=theorems,
        best=best,
        steps=used,
        steps_given=given is not None,
        suggest=tuple if best is not None else partial(_suggestions, problem, mixed, plain, given),
        problem=problem,
    )


def _setup(problem: Problem, network: Network, version: Version, given: Steps | None) -> tuple[Setup, Steps | None]:
    """What is examined, and the steps with one alpha for all.

    With an alpha_i for each agent, let alpha be the largest of them, s_i^2 = alpha_i/alpha and x_i = s_i x_i'. Then
    x_i' takes the step alpha on f_i(s_i .), g_i(s_i .) and s_i A_i, and lam, v and y are what they were.
    """
    if given is None or not isinstance(given.alpha, tuple):
        return Setup(problem_facts(problem), network, version), given
    own = given.per_agent(problem.n)
    alpha = max(own)
    return Setup(problem_facts(problem, [math.sqrt(a / alpha) for a in own]), network, version), replace(
        given, alpha=alpha
    )


def _undo(found: Coverage, given: Steps | None) -> Coverage:
    """What was found for one alpha, in terms of the alphas that were given."""
    if given is None or not isinstance(given.alpha, tuple) or found.steps is None:
        return found
    factor = found.bounds["alpha"] / found.steps.alpha
    return replace(found, steps=given, bounds=found.bounds | {"alpha": tuple(factor * a for a in given.alpha)})


def _read(steps: StepSizes) -> Steps:
    if isinstance(steps, Steps):
        return steps
    try:
        return Steps(alpha=steps.alpha, beta=steps.beta, gamma=steps.gamma, theta=steps.theta)
    except AttributeError:
        raise InputError(
            f"steps is a {type(steps).__name__}; expected npga.Steps(alpha=, beta=, gamma=, theta=)"
        ) from None


# ------------------------------------------------------------------ what would help: every change is tried


def _suggestions(problem: Problem, network: Network, version: Version, steps: Steps | None) -> tuple[str, ...]:
    """Changes that work, the smallest first: steps where some were given, network, version, only then the problem."""
    setup = Setup(problem_facts(problem), network, version)
    lazy = network.lazy()
    for kind in (_steps(setup, steps), _network_or_version(setup, lazy), _problem(problem, setup, lazy)):
        found = tuple(kind)
        if found:
            return found
    return ()


def _steps(setup: Setup, steps: Steps | None) -> Iterator[str]:
    if steps is None:
        return
    if steps.theta > 0.0 and "theta" not in setup.version.fixed and not isinstance(steps.alpha, tuple):
        found = best_of(coverages(setup, replace(steps, theta=0.0)))
        if found is not None:
            yield f"set theta = 0: {_gain(found)}"
    found = best_of(coverages(setup, None))
    if found is not None and found.steps is not None:
        found = _typeable(setup, found, found.steps)
        s = found.steps
        assert s is not None
        numbers = f"alpha={s.alpha!r}, beta={s.beta!r}, gamma={s.gamma!r}, theta={s.theta!r}"
        yield f"use the steps {numbers}: {_gain(found)}"


def _typeable(setup: Setup, found: Coverage, steps: Steps) -> Coverage:
    """The same theorem at steps of six digits, rounded down, if that keeps nearly all of the rate; else as it is."""
    free = {name: _down(getattr(steps, name)) for name in ("alpha", "beta", "gamma") if name not in setup.version.fixed}
    rounded = setup.covered_by(found.theorem, replace(steps, **free))
    return rounded if rounded.applies and rounded.gap >= 0.999 * found.gap else found


def _down(value: float) -> float:
    """The largest number of six digits that is not above the value."""
    digits = Decimal(repr(value))
    return float(digits.quantize(Decimal((0, (1,), digits.adjusted() - 5)), rounding=ROUND_DOWN))


def _network_or_version(setup: Setup, lazy: Network) -> Iterator[str]:
    """The same version on the lazy network, with another c or without what a preset fixes; then other versions."""
    relatives = [(f"use {change}", version) for change, version in _relatives(setup.version)]
    single = [(words, setup.network, version) for words, version in relatives]
    both: list[tuple[str, Network, Version]] = []
    if not setup.network.is_lazy:
        single.insert(0, ("use network.lazy()", lazy, setup.version))
        both = [(f"{words} and network.lazy()", lazy, version) for words, version in relatives]
    for changes in (single, both):
        gains = [(words, _try(setup.problem, network, version)) for words, network, version in changes]
        yield from (f"{words}: {gain}" for words, gain in gains if gain)
        if any(gain for _, gain in gains):
            return
    others = [row for row in versions(presets=False) if row.name != setup.version.name]
    for network, words in ((setup.network, ""), (lazy, " with network.lazy()")):
        working = [row.name for row in others if _try(setup.problem, network, row)]
        if working:
            yield f"use version {' or '.join(repr(name) for name in working)}{words}, which a theorem covers"
            return


def _relatives(version: Version) -> Iterator[tuple[str, Version]]:
    if version.c is not None and version.c > version.largest_c:
        c = version.largest_c
        yield f"c = {c:g}", find_version(version.name, c=c)
    if version.fixed:
        steps = ", ".join(version.fixed)
        yield f"the same matrices without the prescribed {steps}", replace(version, fixed={})


def _try(problem: ProblemFacts, network: Network, version: Version) -> str:
    found = _trial(problem, network, version)
    return "" if found is None else _gain(found)


def _trial(problem: ProblemFacts, network: Network, version: Version) -> Coverage | None:
    """The best theorem at its best steps; there are many trials, so large matrices are not decomposed in them."""
    setup = Setup(problem, network, version, decompose=problem.n * problem.p <= _DECOMPOSED)
    return best_of(coverages(setup, None))


def _gain(coverage: Coverage) -> str:
    sign = "=" if coverage.exact else "<="
    return f"Theorem {coverage.key} then holds with delta {sign} 1 - {coverage.gap:.3g}"


def _problem(problem: Problem, setup: Setup, lazy: Network) -> Iterator[str]:
    """Changes of the problem, tried on its facts with the version, the lazy network and the other versions."""
    if problem.d == 0:
        return
    moved = _loss_into_h(problem)
    if moved is not None:
        agent, changed = moved
        if (where := _anywhere(problem_facts(changed), setup, lazy)) is not None:
            yield f"put the loss of {agent} into h and leave it as a relay: covered by Theorem {where}"
    facts = setup.problem
    convex = facts
    if not facts.mu > 0.0 and facts.l < math.inf:
        weight = _down(0.01 * facts.l) if facts.l > 0.0 else 1.0
        flat, convex = _with_squares(problem, facts, weight)
        names = ", ".join(flat[:5]) + (f" and {len(flat) - 5} more" if len(flat) > 5 else "")
        if (where := _anywhere(convex, setup, lazy)) is not None:
            yield (f"add strong convexity, f + fn.SquaredNorm({weight!r}), to f of {names}: covered by Theorem {where}")
            return
    if not facts.h_L < math.inf:
        smooth = replace(convex, h_L=1.0, h_is_point=False, saddle=_EXISTS)
        also = "" if convex is facts else " and add strong convexity to f"
        if (where := _anywhere(smooth, setup, lazy)) is not None:
            yield (
                "replace h by a smooth penalty, such as fn.SquaredLoss(target, 1.0) or fn.Huber(1.0)"
                f"{also}: covered by Theorem {where}"
            )


def _with_squares(problem: Problem, facts: ProblemFacts, weight: float) -> tuple[list[str], ProblemFacts]:
    """The agents whose f is not strongly convex, and the facts with a square added to each of these."""
    owners = [(i, agent.f) for i, agent in enumerate(problem.agents) if agent.A.shape[1]]
    flat = [i for i, f in owners if not f.mu > 0.0]
    mu = min(f.mu if f.mu > 0.0 else weight for _, f in owners)
    l = max(f.L + (0.0 if f.mu > 0.0 else weight) for _, f in owners)  # noqa: E741
    return [problem.title(i) for i in flat], replace(facts, mu=mu, l=l, saddle=_EXISTS)


_EXISTS = Fact(True, math.inf, "assumed in a trial")


def _anywhere(facts: ProblemFacts, setup: Setup, lazy: Network) -> str | None:
    """The theorem that covers these facts with this version here, on the lazy network, or with another version."""
    for network in (setup.network, lazy):
        for version in (setup.version, *versions(presets=False)):
            found = _trial(facts, network, version)
            if found is not None:
                where = " with network.lazy()" if network is not setup.network else ""
                other = f" with version {version.name!r}" if version is not setup.version else ""
                return f"{found.key}{other}{where}"
    return None


def _loss_into_h(problem: Problem) -> tuple[str, Problem] | None:
    """Undo a slack variable: sum_i A_i x_i - z = b with a loss f(z) is the coupling h(s) = f(s - b)."""
    if not problem.h.is_point:
        return None
    for i, agent in enumerate(problem.agents):
        if agent.f.mu > 0.0 or not (agent.f.has_prox and agent.g.is_zero) or not _is_minus_identity(agent.A, problem.p):
            continue
        b = problem.h.prox(np.zeros(problem.p), 1.0)
        agents = list(problem.agents)
        agents[i] = Agent(A=np.zeros((problem.p, 0)), f=Zero(), name=agent.name)
        return problem.title(i), Problem(agents, agent.f.shift(b))
    return None


def _is_minus_identity(A: Any, p: int) -> bool:
    if not (isinstance(A, np.ndarray) or sparse.issparse(A)) or A.shape != (p, p):
        return False
    return bool(abs(sparse.csr_array(A) + sparse.eye_array(p, format="csr")).max() == 0.0)
