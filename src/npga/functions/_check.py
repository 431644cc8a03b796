"""Test whether a function obeys the identities of convex analysis, and whether its facts are true."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np

from npga.errors import FunctionError
from npga.functions._base import Function
from npga.functions._identities import IDENTITIES, Sample, gap, worst
from npga.functions._parameters import Array

# (name, tolerance, what a failure means, worst relative error on a sample or None where the check does not apply)
Row = tuple[str, float, str, Callable[[Sample], float | None]]


def check(f: Function, dim: int | None = None, seed: int = 0, samples: int = 24) -> CheckReport:
    """Test a function against the mathematics: calls against one another, and facts against values.

    The gradient is compared with finite differences in every coordinate, the prox with the inequality that
    defines it, the prox of the conjugate with Moreau's identity, stacked calls with single ones, Hessian
    and Jacobians with finite differences, the formula that compiled runs take (`Function.kernel`) with the
    value, and each fact with what it promises. Passing is evidence on random points, not proof.

    Parameters
    ----------
    f
        The function.
    dim
        Number of coordinates to check with; by default that of the function, or 5.
    seed
        Of the random points.
    samples
        Number of random points.

    Examples
    --------
    >>> from npga import functions as fn
    >>> report = fn.check(fn.Custom(value=lambda x: x @ x, grad=lambda x: -2 * x), dim=3)
    >>> report.ok
    False
    """
    if dim is None:
        dim = 5 if f.dim is None else f.dim
    if dim < 1 or samples < 4 or f.dim not in (None, dim):
        raise FunctionError(
            f"check of {f!r}: got dim {dim} and {samples} samples; expected the dim of the function (at least 1) "
            "and at least 4 samples"
        )
    try:
        sample = Sample.draw(f, dim, samples, seed)
    except Exception as error:
        return CheckReport(repr(f), (Finding("value and prox", np.inf, 0.0, _complaint(error)),))
    return CheckReport(repr(f), tuple(_find(row, sample) for row in (*IDENTITIES, *FACTS)))


def _find(row: Row, sample: Sample) -> Finding:
    name, tolerance, sentence, measure = row
    # A callable of the user's may raise anything; a report of all findings is worth more than the first
    # traceback.
    try:
        return Finding(name, measure(sample), tolerance, sentence)
    except Exception as error:
        return Finding(name, np.inf, tolerance, _complaint(error))


def _complaint(error: Exception) -> str:
    return f"raised {type(error).__name__}: {error}"


@dataclass(frozen=True)
class Finding:
    """Outcome of one check: the worst relative error met, and how much is allowed.

    `sentence` says what was compared; `error` is None when the check does not apply.
    """

    name: str
    error: float | None
    tolerance: float
    sentence: str

    @property
    def ok(self) -> bool:
        """Whether the check passed or does not apply; NaN fails."""
        return self.error is None or self.error <= self.tolerance


@dataclass(frozen=True)
class CheckReport:
    """Outcome of all checks of one function; ``print(report)`` shows a table."""

    subject: str
    findings: tuple[Finding, ...]

    @property
    def ok(self) -> bool:
        """Whether every check passed."""
        return all(finding.ok for finding in self.findings)

    @property
    def failures(self) -> list[str]:
        """One sentence per failed check."""
        return [
            f"{finding.name}: {finding.sentence} (error {finding.error:.2g}, allowed {finding.tolerance:.2g})"
            for finding in self.findings
            if not finding.ok
        ]

    def raise_if_failed(self) -> None:
        """Raise a `FunctionError` that lists the failures, if there are any."""
        if not self.ok:
            listing = "\n  ".join(self.failures)
            raise FunctionError(
                f"{self.subject} is not what it claims to be; correct the callables or the facts:\n  {listing}"
            )

    def __str__(self) -> str:
        width = max(len(finding.name) for finding in self.findings)
        count = len(self.failures)
        verdict = "all checks passed" if self.ok else f"{count} check{'s' if count > 1 else ''} failed"
        lines = [f"{self.subject}: {verdict}"]
        for finding in self.findings:
            if finding.error is None:
                lines.append(f"  {finding.name:<{width}}  -")
                continue
            outcome = "ok" if finding.ok else f"FAILED: {finding.sentence}"
            lines.append(f"  {finding.name:<{width}}  {finding.error:8.1e} <= {finding.tolerance:.0e}  {outcome}")
        return "\n".join(lines)


def convexity(sample: Sample) -> float:
    """Convexity: f at the midpoint is at most the mean of the ends."""
    return _bend(sample, 0.0, lower=True)


def strong_convexity(sample: Sample) -> float | None:
    """Convexity of f - (mu/2)|x|^2, along segments, and in the direction of least curvature of the gradient."""
    mu = sample.f.mu
    if mu == 0.0:
        return None
    return worst(
        [
            _bend(sample, mu, lower=True),
            *((mu - least) / (mu + 1e-3 * abs(most)) for least, most in _curvatures(sample)),
        ]
    )


def smoothness(sample: Sample) -> float | None:
    """Convexity of (L/2)|x|^2 - f, along segments, and in the direction of most curvature of the gradient."""
    L = sample.f.L
    if np.isinf(L):
        return None
    return worst([_bend(sample, L, lower=False), *((most - L) / (L + 1e-3) for _, most in _curvatures(sample))])


def _bend(sample: Sample, modulus: float, *, lower: bool) -> float:
    """How far (mean of the ends - midpoint) is from (modulus/8)|x - y|^2, on the wrong side."""
    f = sample.f

    def errors() -> Iterator[float]:
        for x, y in sample.pairs(sample.domain):
            fx, fy, middle = float(f.value(x)), float(f.value(y)), float(f.value(0.5 * (x + y)))
            if fx < np.inf and fy < np.inf:
                bound = modulus / 8.0 * float((x - y) @ (x - y))
                excess = bound - (0.5 * (fx + fy) - middle)
                yield (excess if lower else -excess) / (1.0 + abs(fx) + abs(fy) + bound)

    return worst(errors())


def _curvatures(sample: Sample) -> Iterator[tuple[float, float]]:
    """Least and most curvature met at some points, each a quotient (g(y) - g(x)).(y - x)/|y - x|^2.

    Every such quotient lies in [mu, L], whatever the direction; eigenvectors of the differences of the gradient along
    the coordinates are telling directions.
    """
    for x in sample.domain[:: max(1, len(sample.domain) // 8)] if sample.f.has_grad else ():
        h = 1e-4 * (1.0 + float(np.abs(x).max()))

        def differences(directions: Array, x: Array = x, h: float = h) -> Array:
            return (sample.f.grad(x + h * directions) - sample.f.grad(x - h * directions)) / (2.0 * h)

        H = differences(np.eye(x.size))
        directions = np.linalg.eigh(0.5 * (H + H.T))[1].T
        met = (directions * differences(directions)).sum(axis=1)
        yield float(met.min()), float(met.max())


def order(sample: Sample) -> float:
    """0 <= mu <= L, and facts that follow from others: zero is quadratic, a point is an indicator."""
    f = sample.f
    consistent = (
        (0.0 <= f.mu <= f.L)
        and (f.is_indicator or not f.is_point)
        and not (f.is_indicator and (f.is_zero or f.is_quadratic or f.has_grad))
        and not (f.is_zero and f.mu > 0.0)
    )
    return 0.0 if consistent else np.inf


def indicator(sample: Sample) -> float | None:
    """Values 0 or infinity, and a prox that does not depend on t."""
    f = sample.f
    if not f.is_indicator:
        return None
    values = np.array([f.value(x) for x in np.concatenate([sample.points, sample.domain])])
    errors = np.abs(values[~np.isposinf(values)]).tolist()
    if f.has_prox:
        errors.extend(gap(f.prox(x, 0.5), f.prox(x, 7.0)) for x in sample.points)
    return worst(errors)


def zero(sample: Sample) -> float | None:
    """Value 0 everywhere."""
    return float(np.max(np.abs([sample.f.value(x) for x in sample.points]))) if sample.f.is_zero else None


def point(sample: Sample) -> float | None:
    """One and the same prox everywhere."""
    f = sample.f
    if not (f.is_point and f.has_prox):
        return None
    images = np.array([f.prox(x, 1.0) for x in sample.points])
    return gap(images, np.broadcast_to(images[0], images.shape))


def quadratic(sample: Sample) -> float | None:
    """Third differences along lines, which vanish for quadratics and for nothing else that is convex."""
    f = sample.f
    if not f.is_quadratic:
        return None

    def error(x: Array, y: Array) -> float:
        values = np.array([f.value(x + k * (y - x)) for k in range(4)])
        return float(abs(values @ [-1.0, 3.0, -3.0, 1.0]) / (1.0 + np.abs(values).max()))

    return worst(error(x, y) for x, y in sample.pairs(sample.domain))


def separable(sample: Sample) -> float | None:
    """Exchanging coordinates between two points keeps the sum of the values, and exchanges those of the prox."""
    f = sample.f
    if not f.is_separable:
        return None

    def error(x: Array, y: Array) -> float:
        chosen = sample.rng.random(x.size) < 0.5
        p, q = np.where(chosen, x, y), np.where(chosen, y, x)
        values = gap(f.value(p) + f.value(q), f.value(x) + f.value(y))
        if not f.has_prox:
            return values
        return worst([values, gap(f.prox(p, 0.5), np.where(chosen, f.prox(x, 0.5), f.prox(y, 0.5)))])

    return worst(error(x, y) for x, y in sample.pairs(sample.domain))


FACTS: tuple[Row, ...] = (
    ("convexity", 1e-10, "the value at a midpoint exceeds the mean of the ends: not convex", convexity),
    ("mu", 1e-6, "mu is larger than the curvature found", strong_convexity),
    ("L", 1e-6, "L is smaller than the curvature found", smoothness),
    ("order of facts", 0.0, "the facts contradict one another (0 <= mu <= L; points are indicators)", order),
    ("is_indicator", 1e-9, "an indicator takes the values 0 and infinity only, and its prox ignores t", indicator),
    ("is_zero", 0.0, "a value is not zero", zero),
    ("is_point", 1e-9, "the prox is not the same point everywhere", point),
    ("is_quadratic", 1e-9, "third differences of the value do not vanish", quadratic),
    ("is_separable", 1e-9, "a coordinate influences the others", separable),
)
