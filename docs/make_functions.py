"""Write docs/functions.md from the docstrings and the facts of the classes: `python docs/make_functions.py`."""

from __future__ import annotations

import inspect
from pathlib import Path

import numpy as np

from npga import functions as fn

PAGE = Path(__file__).with_name("functions.md")

# One object of each class, in the order of the page. What the table says about a class holds for all of its objects,
# unless the text of a fact says otherwise.
SECTIONS: tuple[tuple[str, str, tuple[fn.Function, ...]], ...] = (
    (
        "Smooth",
        "They have a gradient: f, and mostly g and h too.",
        (
            fn.Zero(),
            fn.Linear([1.0, 2.0]),
            fn.SquaredNorm(),
            fn.SquaredLoss([1.0, 2.0]),
            fn.Quadratic(np.eye(2)),
            fn.LeastSquares(np.eye(2)),
            fn.Logistic([1.0, -1.0]),
            fn.Huber(1.0),
        ),
    ),
    (
        "Not smooth",
        "They have a prox: g and h.",
        (
            fn.L1(),
            fn.L2(),
            fn.GroupL2(1.0, [0, 0, 1]),
            fn.ElasticNet(1.0, 1.0),
            fn.Hinge([1.0, -1.0]),
            fn.Quantile([1.0, 2.0], 0.9),
            fn.NegLog(),
            fn.Entropy(),
        ),
    ),
    (
        "Constraints",
        "Indicators: 0 on a set and infinite off it, up to a tolerance of 1e-9 (1 + |bound|) that `f.value(x, tol)`\n"
        "and `problem.objective(x, tol)` change.",
        (
            fn.Box(0.0, 1.0),
            fn.NonNegative(),
            fn.Simplex(),
            fn.Ball(0.0, 1.0),
            fn.Equality([1.0]),
            fn.LessEqual([1.0]),
            fn.GreaterEqual([1.0]),
        ),
    ),
    (
        "Made from others",
        "Their facts follow from those of the functions that they are made of.",
        (
            fn.Scaled(fn.L2(), 2.0),
            fn.Shifted(fn.L2(), 1.0),
            fn.Huber(1.0) + fn.Box(0.0, 1.0),
            fn.SeparableSum([fn.L1(), fn.L2()], [1, 2]),
            fn.Custom(np.sum),
        ),
    ),
)

MADE = (fn.Scaled, fn.Shifted, fn.Sum, fn.SeparableSum, fn.Custom)

HEAD = """# Functions

<!-- Written by `python docs/make_functions.py`; edit the docstrings instead. -->

Every function of `npga.functions`, with its formula, the roles that it can take in a problem and the facts that theory
reads. Weights are positive numbers or one per coordinate. `fn.check(f)` tests any of them, yours too, against the
mathematics.

- **role**: f needs a gradient, g and h need a prox.
- **mu, L**: moduli of strong convexity and of smoothness.
- **by coordinate**: whether it is a sum over coordinates, so that its prox takes a step for each of them.
- **kernel**: the formula under which compiled kernels know it (`npga.functions.Kind`); "derived" from its parts.
"""

TAIL = """## Sums, multiples, translates

`2.0 * f`, `f.shift(c)` and `f + g` give a function of the same class where there is one. A sum has a gradient where
both have one. It has a prox where one of them is linear or a square, or where one is an interval (`Box`, `NonNegative`,
`Equality`, `LessEqual`, `GreaterEqual`) and the other a sum over coordinates: L1 + Box, Box + Linear, Simplex + Linear,
NegLog + Box + SquaredNorm. Everything else is refused, with what to do instead:

```python
>>> from npga import functions as fn
>>> fn.L1(0.5) + fn.SquaredNorm(2.0)
ElasticNet(l1=0.5, l2=2)
>>> (fn.L1(1.0) + fn.Box(0.0, 1.0)).prox([3.0, 0.5], 1.0).tolist()
[1.0, 0.0]

```
"""


def page() -> str:
    """The text of the page."""
    parts = [HEAD]
    for title, words, functions in SECTIONS:
        header = "| function | formula | role | mu | L | by coordinate | kernel |"
        rows = [header, "|---" * 7 + "|", *map(_row, functions)]
        parts.append("\n".join([f"## {title}", "", words, "", *rows, ""]))
    return "\n".join([*parts, TAIL])


def _row(f: fn.Function) -> str:
    kind = type(f)
    arguments = ", ".join(dict.fromkeys(map(_argument, inspect.signature(kind).parameters.values())))
    summary = (inspect.getdoc(kind) or "").split("\n")[0].rstrip(".").replace("``", "`")
    if isinstance(f, MADE):
        roles, separable = "any", "as declared" if kind is fn.Custom else "if its parts are"
    else:
        roles, separable = _roles(f), "yes" if f.is_separable else "no"
    facts = [_fact(f, "mu"), _fact(f, "L"), separable, _kernel(f)]
    cells = [f"[`{kind.__name__}({arguments})`](api/npga.functions.{kind.__name__}.rst)", summary, roles, *facts]
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"


def _argument(p: inspect.Parameter) -> str:
    if p.kind is p.KEYWORD_ONLY:
        return "..."
    return p.name if p.default is p.empty else f"{p.name}={p.default!r}"


def _roles(f: fn.Function) -> str:
    return ", ".join((["f"] if f.has_grad else []) + (["g", "h"] if f.has_prox else []))


def _fact(f: fn.Function, name: str) -> str:
    """What the class says about a fact, or its number where it is the same for all objects."""
    stated = inspect.getattr_static(type(f), name)
    if stated is inspect.getattr_static(fn.Function, name):
        return "0" if name == "mu" else "infinite"
    return (stated.__doc__ or "").rstrip(".") if isinstance(stated, property) else f"{stated:g}"


def _kernel(f: fn.Function) -> str:
    if isinstance(f, fn.Custom):
        return "none"
    if isinstance(f, MADE):
        return "derived"
    forms = f.kernel(f.dim or 1)
    return "none" if forms is None else forms[0].kind.name


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
