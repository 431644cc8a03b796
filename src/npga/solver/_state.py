"""The state of the recursion between two iterations."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]


@dataclass(frozen=True)
class State:
    """Everything that iteration k + 1 needs from iteration k; nothing else is remembered.

    For all agents together x is (d,) and the dual arrays are (n, p); for one agent they are (d_i,) and (p,).

    Parameters
    ----------
    x, lam
        Primal and dual iterates.
    lam_prev
        The dual iterate before; zero at the start.
    v
        The dual iterate before it is combined with the neighbours' and passed through the prox; zero at the start.
    u
        What was subtracted in v = lam_prev - u + beta A x_hat: u = B y + C lam of the iteration before.
    Ax
        Rows A_i x_i.
    kept
        K v, K^2 v, ... that the combination with D has already paid for.
    iteration, rounds
        What has been done so far.
    """

    x: Array
    lam: Array
    lam_prev: Array
    v: Array
    u: Array
    Ax: Array
    kept: tuple[Array, ...] = ()
    iteration: int = 0
    rounds: int = 0

    def arrays(self) -> dict[str, Array]:
        """The arrays by name, for a checkpoint."""
        named = {name: getattr(self, name) for name in ("x", "lam", "lam_prev", "v", "u", "Ax")}
        return named | {f"kept{j}": array for j, array in enumerate(self.kept)}

    @staticmethod
    def from_arrays(arrays: dict[str, Array], iteration: int, rounds: int) -> State:
        """The state that `arrays` was taken from."""
        kept = tuple(arrays[f"kept{j}"] for j in range(sum(name.startswith("kept") for name in arrays)))
        named = {name: array for name, array in arrays.items() if not name.startswith("kept")}
        return State(**named, kept=kept, iteration=iteration, rounds=rounds)


def start(x0: Array, lam0: Array, Ax0: Array, kept: int, z0: Array | None = None) -> State:
    """The state before the first iteration.

    With v = 0, lam_prev = 0 and u = z0 the first correction makes u = C lam0 + z0, as the paper's equation (npga) with
    B y0 = z0 wants it; the paper starts from y0 = 0.
    """
    zero = np.zeros_like(lam0)
    return State(x0, lam0, zero, zero, zero if z0 is None else z0, Ax0, (zero,) * kept)
