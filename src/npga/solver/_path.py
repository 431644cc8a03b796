"""Which implementation of the recursion runs: the compiled one where every part of the problem has a kernel."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from numpy.typing import NDArray

from npga.errors import InputError
from npga.networks import Network, Version
from npga.problem import Problem
from npga.solver._loop import Meter
from npga.solver._method import Npga
from npga.steps import Steps

if TYPE_CHECKING:
    from npga.solver._compiled import CompiledNpga

PATHS = ("auto", "compiled", "vectorised")


def method_for(
    problem: Problem, network: Network, version: Version, steps: Steps, path: str = "auto"
) -> Npga | CompiledNpga:
    """NPGA by the path that was asked for; "auto" is compiled where that is possible.

    Functions of `npga.functions` except `Custom` (and except `Quadratic` and `LeastSquares` as g or h), dense and
    sparse matrices, and versions given by polynomials are compiled.
    """
    if path not in PATHS:
        raise InputError(f"path is {path!r}; expected one of {', '.join(PATHS)}")
    if path == "vectorised":
        return Npga(problem, network, version, steps)
    # Numba is imported when it is first needed, so that `import npga` is quick.
    from npga.solver._compiled import CompiledNpga
    from npga.solver.kernels._lower import UnsupportedError

    try:
        return CompiledNpga(problem, network, version, steps)
    except UnsupportedError as culprit:
        if path == "compiled":
            raise InputError(
                f'path="compiled" was asked for, but {culprit}, which has no kernel; use path="auto" or '
                'path="vectorised"'
            ) from None
        return Npga(problem, network, version, steps)


def meter_for(method: Npga | CompiledNpga, x0: NDArray[Any], reference: NDArray[Any] | None) -> Meter:
    """The meter that suits a method."""
    if method.path == "vectorised":
        return Meter(method.problem, x0, reference)
    from npga.solver._compiled_meter import CompiledMeter

    return CompiledMeter(method, x0, reference)  # type: ignore[arg-type]
