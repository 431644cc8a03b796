"""Which theorem covers a set-up, with which steps and which rate."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Protocol

from npga.errors import InputError
from npga.networks import Network, Version
from npga.networks import version as find_version
from npga.problem import Problem
from npga.steps import Steps, with_fixed
from npga.theory._best_steps import best_of, coverages
from npga.theory._certificate import Certificate
from npga.theory._coverage import Coverage, Setup
from npga.theory._problem_facts import problem_facts
from npga.theory._suggestions import suggestions


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
    if not isinstance(problem, Problem):
        raise InputError(f"problem is a {type(problem).__name__}; expected npga.Problem(agents=[...], h=...)")
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
        suggestions=() if best is not None else suggestions(problem, mixed, plain, given),
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
