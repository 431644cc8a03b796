"""The landscape of the rate over alpha and beta, around a tuned point."""

from __future__ import annotations

import math
from dataclasses import dataclass
from os import PathLike
from typing import Any

import numpy as np
from numpy.typing import NDArray

from npga import extras
from npga.errors import InputError
from npga.networks import Version
from npga.problem import Problem
from npga.solver import Reference
from npga.solver import reference as solve_centrally
from npga.steps import Steps
from npga.tuning._linearise import Linearisation
from npga.tuning._radius import Rate, rate
from npga.tuning._tuning_results import Tuning

Array = NDArray[Any]

_TOLERANCE = 1e-2
# A radius further above one than this is as unstable as a picture needs.
_CUTOFF = 1.02


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

    def at(a: float, b: float, near: Rate | None, tolerance: float = _TOLERANCE) -> Rate:
        here = Steps(a, b, steps.gamma, steps.theta)
        return rate(linearisation.at(here), tuning.network, tuning.version, here, 0, _CUTOFF, near, tolerance)

    best = at(steps.alpha, steps.beta, None, 1e-7)
    radius = np.empty((points, points))
    for i, b in enumerate(beta):
        near: Rate | None = None
        for j, a in enumerate(alpha):
            near = at(a, b, near)
            radius[i, j] = near.radius
    return Landscape(alpha, beta, radius, tuning.version, steps, best.radius)
