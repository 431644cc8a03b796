"""The rows of the paper's Table II, and the two ancestors as presets."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from npga.errors import VersionError, nearest
from npga.networks._positive import is_positive
from npga.networks._version import Version

Coefficients = Sequence[float]
ZERO, IDENTITY, W, W_SQUARED = (0.0,), (1.0,), (0.0, 1.0), (0.0, 0.0, 1.0)
GAP = (1.0, -1.0)  # I - W
GAP_SQUARED = (1.0, -2.0, 1.0)  # (I - W)^2
HALF_GAP = (0.5, -0.5)  # (1/2)(I - W)


@dataclass(frozen=True)
class _Row:
    """Coefficients of B^2, C and D (functions of c in tunable rows), their formulas and their source."""

    title: str
    reference: str
    matrices: tuple[Coefficients, Coefficients, Coefficients] | Callable[[float], tuple[Coefficients, ...]]
    formulas: tuple[str, str, str]
    default_c: float | None = None
    basis: str = "W"
    times_beta: bool = False
    fixed: dict[str, float] = field(default_factory=dict)


_NPGA = "Alghunaim, Ryu, Yuan & Sayed 2020 (matrices); Li & Su 2024"
ROWS: dict[str, _Row] = {
    "diging": _Row(
        "NPGA-DIGing",
        "Qu & Li 2018; Nedic, Olshevsky & Shi 2017",
        (GAP_SQUARED, (1.0, 0.0, -1.0), IDENTITY),
        ("(I - W)^2", "I - W^2", "I"),
    ),
    "extra": _Row(
        "NPGA-EXTRA",
        "Shi, Ling, Wu & Yin 2015",
        (HALF_GAP, HALF_GAP, IDENTITY),
        ("(1/2)(I - W)", "(1/2)(I - W)", "I"),
    ),
    "dlm": _Row(
        "NPGA-DLM",
        "Ling, Shi, Wu & Ribeiro 2015",
        lambda c: ((0.0, c), (0.0, c), IDENTITY),
        ("c beta L", "c beta L", "I"),
        default_c=1.0,
        basis="L",
        times_beta=True,
    ),
    "p2d2": _Row(
        "NPGA-P2D2",
        "Alghunaim, Yuan & Sayed 2019",
        lambda c: ((c / 2, -c / 2), HALF_GAP, IDENTITY),
        ("(c/2)(I - W)", "(1/2)(I - W)", "I"),
        default_c=1.0,
    ),
    "aug-dgm": _Row(
        "NPGA-Aug-DGM",
        "Xu, Zhu, Soh & Xie 2015",
        (GAP_SQUARED, ZERO, W_SQUARED),
        ("(I - W)^2", "0", "W^2"),
    ),
    "atc-tracking": _Row(
        "NPGA-ATC tracking",
        "Di Lorenzo & Scutari 2016",
        (GAP_SQUARED, GAP, W),
        ("(I - W)^2", "I - W", "W"),
    ),
    "exact-diffusion": _Row(
        "NPGA-Exact diffusion",
        "Yuan, Ying, Zhao & Sayed 2019",
        (HALF_GAP, ZERO, (0.5, 0.5)),
        ("(1/2)(I - W)", "0", "(1/2)(I + W)"),
    ),
    "nids": _Row(
        "NPGA-NIDS",
        "Li, Shi & Yan 2019",
        lambda c: ((c, -c), ZERO, (1.0 - c, c)),
        ("c(I - W)", "0", "I - c(I - W)"),
        default_c=0.5,
    ),
    "npga-i": _Row("NPGA-I", _NPGA, (GAP, ZERO, W_SQUARED), ("I - W", "0", "W^2")),
    "npga-ii": _Row("NPGA-II", _NPGA, (GAP, GAP, W), ("I - W", "I - W", "W")),
}
PRESETS: dict[str, _Row] = {
    "dcpa": _Row(
        "DCPA",
        "Alghunaim, Lyu, Yan & Sayed 2021",
        (HALF_GAP, HALF_GAP, IDENTITY),
        ("(1/2)(I - W)", "(1/2)(I - W)", "I"),
        fixed={"theta": 1.0},
    ),
    "dcda": _Row(
        "DCDA",
        "Alghunaim, Yuan & Sayed 2020",
        (HALF_GAP, ZERO, (0.5, 0.5)),
        ("(1/2)(I - W)", "0", "(1/2)(I + W)"),
        fixed={"theta": 0.0, "gamma": 1.0},
    ),
}
ALL_ROWS = ROWS | PRESETS


def version(name: str | Version, c: float | None = None) -> Version:
    """One row of the version table.

    Parameters
    ----------
    name : str or Version
        "diging", "extra", "dlm", "p2d2", "aug-dgm", "atc-tracking", "exact-diffusion", "nids", "npga-i" or
        "npga-ii", or a preset: "dcpa" (P2D2 with c = 1 and theta = 1), "dcda" (exact diffusion with theta = 0
        and gamma = 1). Case, spaces, underscores and the prefix "npga-" do not matter. A Version is returned
        as it is.
    c : float, optional
        The tunable constant c > 0 of "p2d2" (default 1; Assumption 4 asks for c <= 1), "nids" (default 1/2)
        and "dlm" (default 1, so that B^2 = C = beta L).

    Returns
    -------
    Version
    """
    if isinstance(name, Version):
        if c is None:
            return name
        if name.c is None or name.name not in ROWS:
            raise VersionError(f"c = {c!r} arrived for version {name.name!r}, which has no constant c; leave it out")
        return _build(name.name, c)
    if not isinstance(name, str):
        raise VersionError(f"a version of type {type(name).__name__} arrived; expected a name or a Version")
    return _build(_canonical(name), c)


def _canonical(name: str) -> str:
    key = "-".join(name.lower().replace("_", " ").replace("-", " ").split())
    if key in ALL_ROWS:
        return key
    if key.removeprefix("npga-") in ALL_ROWS:
        return key.removeprefix("npga-")
    raise VersionError(f"version {name!r} is unknown; {nearest(key, ALL_ROWS)}")


def _build(name: str, c: float | None) -> Version:
    row = ALL_ROWS[name]
    if callable(row.matrices):
        c = row.default_c if c is None else c
        if c is None or not is_positive(c):
            raise VersionError(f"c = {c!r} arrived for version {name!r}; expected a finite number c > 0")
        B2, C, D = row.matrices(float(c))
    else:
        if c is not None:
            tunable = ", ".join(key for key, other in ALL_ROWS.items() if other.default_c is not None)
            raise VersionError(f"c = {c!r} arrived for version {name!r}, which has no c; only {tunable} have one")
        B2, C, D = row.matrices
    return Version(
        name=name,
        B2=B2,
        C=C,
        D=D,
        basis=row.basis,
        times_beta=row.times_beta,
        c=None if c is None else float(c),
        reference=row.reference,
        fixed=row.fixed,
        title=row.title,
        formulas=row.formulas,
    )
