"""`npga.tune`: step sizes that nobody has to guess; and the landscape of the rate around them."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from os import PathLike
from typing import Any, overload

import numpy as np
from numpy.typing import NDArray

from npga import extras
from npga.errors import InputError, nearest
from npga.networks import Network, Version, version_rows
from npga.networks import version as find_version
from npga.networks import versions as all_versions
from npga.problem import Problem, expect_p1
from npga.solver import Reference, Status, show_progress
from npga.solver import reference as solve_centrally
from npga.steps import Steps
from npga.theory import certify
from npga.tuning._certified_steps import tune_certified
from npga.tuning._radius import Linearisation, Rate, rate
from npga.tuning._search import Budget, search_steps
from npga.tuning._spectral import EXACT, tune_spectral
from npga.tuning._tuning_results import Ranking, Trial, Trials, Tuning

Array = NDArray[Any]

METHODS = ("theorem", "spectral", "search")
# Degrees of Chebyshev polynomials that are tried where rounds count, and with how many of the best versions.
DEGREES, _DEEPENED = (2, 3, 5, 8, 13, 21, 34), 2
# Part of the time that a centralised solution may take, and the residual that it must have.
_REFERENCE, _SOLVED = 0.5, 1e-6
# A picture: accuracy of 1 - radius in it; a radius further above one than this is as unstable as a picture needs.
_PICTURE, _UNSTABLE = 1e-2, 1.02


@overload
def tune(
    problem: Problem,
    network: Network,
    version: str | Version,
    method: str = ...,
    *,
    versions: None = ...,
    by: str = ...,
    cost: tuple[float, float] | None = ...,
    seed: int = ...,
    max_seconds: float | None = ...,
    max_work: int | None = ...,
    reference: Reference | None = ...,
    within_theorems: bool = ...,
    certified: bool = ...,
    progress: bool = ...,
) -> Tuning: ...
@overload
def tune(
    problem: Problem,
    network: Network,
    version: None = ...,
    method: str = ...,
    *,
    versions: str | Sequence[str | Version],
    by: str = ...,
    cost: tuple[float, float] | None = ...,
    seed: int = ...,
    max_seconds: float | None = ...,
    max_work: int | None = ...,
    reference: Reference | None = ...,
    within_theorems: bool = ...,
    certified: bool = ...,
    progress: bool = ...,
) -> Ranking: ...
def tune(
    problem: Problem,
    network: Network,
    version: str | Version | None = None,
    method: str = "spectral",
    *,
    versions: str | Sequence[str | Version] | None = None,
    by: str = "iterations",
    cost: tuple[float, float] | None = None,
    seed: int = 0,
    max_seconds: float | None = None,
    max_work: int | None = None,
    reference: Reference | None = None,
    within_theorems: bool = False,
    certified: bool = False,
    progress: bool = False,
) -> Tuning | Ranking:
    """Find step sizes, and the version's constant c where it has one.

    Parameters
    ----------
    problem, network
        What to solve, and who talks to whom.
    version
        The version to tune.
    method
        "theorem" takes the certified steps that minimise the proved rate. "spectral" minimises the spectral radius of
        the iteration at the solution, then chooses among the best by real runs; it needs a centralised solution and
        second derivatives. "search" needs neither: trial runs with successive halving.
    versions
        Instead of `version`: several of them, or "all"; the answer is a `Ranking`. A version for which nothing is found
        is left out.
    by, cost
        How to rank: "iterations", "rounds", or a cost model ``cost=(a, b)`` with seconds = a * gradients + b * rounds.
        Where rounds count, "all" includes the best two versions with Chebyshev polynomials (``chebyshev=2, 3, 5, ...``)
        for as long as a larger degree pays.
    seed
        The same seed gives the same steps, unless the time runs out.
    max_seconds
        Time for each version; then, and on Ctrl-C, the best so far is returned. A centralised solution that is needed
        first takes up to half of the first version's time; where that is not enough, trial runs choose.
    max_work
        Iterations of trials for each version, those of power methods included; unlike time they give the same steps
        everywhere. What is under way when they are spent is finished.
    reference
        A solution from `npga.reference`, so that it is not computed again. One that is not exact (a residual above
        1e-11) is computed again all the same, and the better one taken.
    within_theorems
        Keep gamma <= 1, as every theorem asks, and NIDS's c <= 1/2, as the paper does. (gamma and c are free by
        default, which is often faster; the message says that the steps lie outside the theorems.)
    certified
        Minimise the rate that an instance certificate proves for every start, whatever `method` says; the certificate
        is `Tuning.certificate`. A run confirms the steps where a `reference` is given.
    progress
        Show progress (a bar needs rich; a line every ten seconds where there is no terminal).
    """
    if method not in METHODS:
        raise InputError(f"method is {method!r}; {nearest(str(method), METHODS)}")
    if (version is None) == (versions is None):
        raise InputError("tune needs either version= (one) or versions= (several, or 'all')")
    expect_p1(problem)
    problem.expect(network)
    begun, words = time.perf_counter(), ""
    if method == "spectral" and not certified and (reference is None or reference.kkt > EXACT):
        reference = _solution(problem, max_seconds, progress, reference)
        if not reference.kkt <= _SOLVED:
            method, words = "search", f" There is no centralised solution to tune at. {reference.message}"
    one = _Tuner(
        problem, network, "certified" if certified else method, words, reference, seed,
        1.0 if within_theorems else None, max_seconds, max_work, progress, [begun],
    )  # fmt: skip
    if version is not None:
        return one(find_version(version))
    unit, price = _pricing(by, cost)
    names = [v.name for v in all_versions(presets=False)] if versions == "all" else versions
    found = [one(chosen) for chosen in map(find_version, names or ())]
    if versions == "all" and unit != "iterations" and network.n > 1:
        found += _with_more_rounds(found, one, price)
    priced = sorted(((price(tuned), tuned) for tuned in found), key=lambda pair: (math.isnan(pair[0]), pair[0]))
    return Ranking(tuple(t for _, t in priced), tuple(c for c, _ in priced), unit)


@dataclass(frozen=True)
class _Tuner:
    """How one call of `tune` tunes each of its versions."""

    problem: Problem
    network: Network
    method: str
    words: str  # why it is this method
    reference: Reference | None
    seed: int
    gamma_max: float | None
    max_seconds: float | None
    max_work: int | None
    progress: bool
    begun: list[float]  # when the time of the first version began

    def __call__(self, version: Version) -> Tuning:
        if version.chebyshev > 1:  # its plain version on another network, where single rounds are cheap to simulate
            found = replace(self, network=version.mixed(self.network))(version.plain)
            return replace(found, version=replace(found.version, chebyshev=version.chebyshev), network=self.network)
        what = self.problem, self.network, version
        if self.method == "theorem":
            return tune_theorem(*what)
        with show_progress(f"tuning {version.name}", self.progress) as tell:
            budget = Budget(self.max_seconds, tell, self.begun.pop() if self.begun else None, self.max_work)
            how: dict[str, Any] = {"seed": self.seed, "gamma_max": self.gamma_max, "budget": budget}
            if self.method == "certified":
                return tune_certified(*what, **how, star=self.reference)
            if self.method == "search":
                found = search_steps(*what, **how)
                return replace(found, message=found.message + self.words)
            return tune_spectral(*what, **how, solution=self.reference)


def _solution(problem: Problem, max_seconds: float | None, progress: bool, known: Reference | None) -> Reference:
    """Where to linearise, as far as it was found in its part of the time; what is known, if that is no better."""
    limit = None if max_seconds is None else _REFERENCE * max_seconds
    found = solve_centrally(problem, max_seconds=limit, progress=progress)
    if known is not None and known.kkt <= found.kkt:
        return known
    if not found.kkt <= _SOLVED and found.status not in (Status.MAX_SECONDS, Status.MAX_ITERS):
        raise InputError(f"there is no solution at which to tune: {found.message}")
    return found


def _pricing(by: str, cost: tuple[float, float] | None) -> tuple[str, Callable[[Tuning], float]]:
    """What versions are ranked by, and its value per digit."""
    if cost is None and by not in ("iterations", "rounds"):
        raise InputError(f"by is {by!r}; expected 'iterations' or 'rounds', or cost=(a, b)")
    a, b = cost or ((1.0, 0.0) if by == "iterations" else (0.0, 1.0))
    return by if cost is None else "seconds", lambda t: (a + b * t.version.rounds) * t.iterations(0.1)


def _with_more_rounds(
    tunings: Sequence[Tuning], one: Callable[[Version], Tuning], price: Callable[[Tuning], float]
) -> list[Tuning]:
    """The best versions with Chebyshev polynomials of growing degree, for as long as that pays."""
    rows = version_rows()
    own = sorted((t for t in tunings if not rows[t.version.name].twin and math.isfinite(price(t))), key=price)
    found: list[Tuning] = []
    for plain in own[:_DEEPENED]:

        def tried(degree: int, version: Version = plain.version) -> float:
            found.append(one(replace(version, chebyshev=degree)))
            return price(found[-1])

        best_degree(tried, price(plain))
    return found


def best_degree(price: Callable[[int], float], known: float, most: int | None = None) -> int:
    """The Chebyshev degree with the lowest price, from 1 (whose price is known) up until two in a row are no better."""
    best, worse = 1, 0
    for degree in DEGREES:
        if worse == 2 or (most is not None and degree > most):
            break
        found = price(degree)
        best, known, worse = (degree, found, 0) if found < known else (best, known, worse + 1)
    return best


def tune_theorem(problem: Problem, network: Network, version: Version) -> Tuning:
    """The steps within a theorem's bounds that minimise its rate."""
    begun = time.perf_counter()
    certificate = certify(problem, network, version)
    best = certificate.best
    if best is None or best.steps is None:
        hint = f" ({certificate.suggestions[0]})" if certificate.suggestions else ""
        raise InputError(f"{certificate.verdict}; use method='spectral' or 'search', or change the set-up{hint}")
    trials = Trials(
        [
            Trial(f"theorem {key}", version, theorem.steps, rate=math.sqrt(theorem.rate))
            for key, theorem in certificate.theorems.items()
            if theorem.applies and theorem.steps is not None
        ]
    )
    return Tuning(
        version,
        best.steps,
        network,
        "theorem",
        math.sqrt(best.rate),  # |x - x*|^2 = O(delta^k)
        trials,
        f"{certificate.verdict}.",
        time.perf_counter() - begun,
    )


# ------------------------------------------------------------------ the landscape


@dataclass(frozen=True, eq=False)
class Landscape:
    """Spectral radii on a grid of alpha and beta; gamma, theta and c are those of the tuned point.

    Parameters
    ----------
    alpha, beta
        The grid lines, ascending, log-spaced.
    radius
        Spectral radius at (beta[i], alpha[j]); values above 1.02 say only that it is above.
    version, steps
        What was tuned.
    best
        Spectral radius at the tuned point.
    """

    alpha: Array
    beta: Array
    radius: Array
    version: Version
    steps: Steps
    best: float

    @property
    def stable(self) -> Array:
        """Where the iteration converges."""
        return np.asarray(self.radius < 1.0)

    @property
    def iterations_per_digit(self) -> Array:
        """Iterations that shrink the error tenfold; inf where the iteration diverges."""
        safe = np.where(self.stable, np.clip(self.radius, 1e-300, None), 0.5)
        return np.where(self.stable, -math.log(10.0) / np.log(safe), np.inf)

    def plot(self, path: str | PathLike[str] | None = None) -> Any:
        """Draw the landscape (needs Matplotlib), save it if a path is given, and return the figure."""
        colors, figures, ticker = (
            extras.load(f"matplotlib.{name}", "plot", "Landscape.plot()") for name in ("colors", "figure", "ticker")
        )
        figure = figures.Figure(figsize=(6.4, 4.8), layout="constrained")
        axes = figure.add_subplot()
        shown = np.ma.masked_invalid(self.iterations_per_digit)
        axes.set_facecolor("#dddddd")
        low = float(shown.min())
        # Ten times the best is slow enough to be the end of the scale.
        norm = colors.LogNorm(low, min(max(float(shown.max()), 2.0 * low), 10.0 * low))
        picture = axes.pcolormesh(self.alpha, self.beta, shown, norm=norm, cmap="cividis_r", shading="nearest")
        bar = figure.colorbar(
            picture, ax=axes, label="iterations per digit", extend="max", format=ticker.ScalarFormatter()
        )
        bar.ax.yaxis.set_minor_formatter(ticker.LogFormatter(minor_thresholds=(2, 0.5)))
        self._mark(axes)
        figure.legend(loc="outside lower center", ncols=2, frameon=False)
        if path is not None:
            figure.savefig(path, dpi=160)
        return figure

    def _mark(self, axes: Any) -> None:
        s = self.steps
        if not self.stable.all():
            axes.contour(self.alpha, self.beta, self.radius, [1.0], colors="#bb3311", linewidths=1.8)
            axes.plot([], [], color="#bb3311", linewidth=1.8, label="limit of stability (grey: diverges)")
        axes.plot(s.alpha, s.beta, "*", markersize=15, markerfacecolor="white", markeredgecolor="black", label="tuned")
        axes.set(xscale="log", yscale="log", xlabel="alpha", ylabel="beta")
        c = "" if self.version.c is None else f", c = {self.version.c:.3g}"
        axes.set_title(f"{self.version.title}, gamma = {s.gamma:.3g}, theta = {s.theta:.3g}{c}", fontsize=11)


def landscape(
    tuning: Tuning, problem: Problem, *, points: int = 31, span: float = 6.0, reference: Reference | None = None
) -> Landscape:
    """Spectral radii over alpha and beta around a tuned point.

    Parameters
    ----------
    tuning
        What `npga.tune` found.
    problem
        The problem that was tuned.
    points
        Grid lines on each axis.
    span
        The grid reaches from alpha / span to alpha * span, and beta alike.
    reference
        A solution from `npga.reference`, so that it is not computed again.

    Returns
    -------
    Landscape
        Arrays, and a picture: ``landscape(tuning, problem).plot("landscape.png")``.
    """
    if points < 2:
        raise InputError(f"points is {points}; expected at least 2 grid lines on each axis")
    if not 1.0 < span < math.inf:
        raise InputError(f"span is {span}; expected a factor above 1")
    solution = solve_centrally(problem) if reference is None else reference
    linearisation = Linearisation(problem, solution.x, solution.lam)
    steps = tuning.steps
    scale = np.geomspace(1.0 / span, span, points)
    alpha, beta = steps.alpha * scale, steps.beta * scale

    def at(a: float, b: float, near: Rate | None, tolerance: float = _PICTURE) -> Rate:
        here = Steps(a, b, steps.gamma, steps.theta)
        return rate(linearisation.at(here), tuning.network, tuning.version, here, 0, _UNSTABLE, near, tolerance)

    best = at(steps.alpha, steps.beta, None, 1e-7)
    radius = np.empty((points, points))
    for i, b in enumerate(beta):
        near: Rate | None = None
        for j, a in enumerate(alpha):
            near = at(a, b, near)
            radius[i, j] = near.radius
    return Landscape(alpha, beta, radius, tuning.version, steps, best.radius)
