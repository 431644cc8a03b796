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
    Ax, Ax_hat
        A x and A x_hat of the last iteration, with x_hat = x + theta (x - x_prev).
    kept
        K v, K^2 v, ... that the combination with D has already paid for.
    iteration, rounds
        What has been done so far.
    x_prev
        The primal iterate before, where A x_hat is the image of x_hat; None at the start and in the vectorised path,
        which do without it.
    """

    x: Array
    lam: Array
    lam_prev: Array
    v: Array
    Ax: Array
    Ax_hat: Array
    kept: tuple[Array, ...] = ()
    iteration: int = 0
    rounds: int = 0
    x_prev: Array | None = None

    def arrays(self) -> dict[str, Array]:
        """The arrays by name, for a checkpoint."""
        named = {name: getattr(self, name) for name in ("x", "lam", "lam_prev", "v", "Ax", "Ax_hat")}
        if self.x_prev is not None:
            named["x_prev"] = self.x_prev
        return named | {f"kept{j}": array for j, array in enumerate(self.kept)}

    @staticmethod
    def from_arrays(arrays: dict[str, Array], iteration: int, rounds: int) -> State:
        """The state that `arrays` was taken from."""
        kept = tuple(arrays[f"kept{j}"] for j in range(sum(name.startswith("kept") for name in arrays)))
        named = {name: array for name, array in arrays.items() if not name.startswith("kept")}
        return State(**named, kept=kept, iteration=iteration, rounds=rounds)


def start(x0: Array, lam0: Array, Ax0: Array, kept: int, z_over_beta: Array | None = None) -> State:
    """The state before the first iteration.

    The difference form equals the paper's equation (npga) with y0 = 0 exactly when it starts from v = 0,
    lam_prev = 0 and A x_hat := 0. A run with z0 = B y0 != 0 starts from A x_hat := z0 / beta, because
    v1 = (I - C) lam0 - z0 + beta A x_hat1 then comes out of the same formula.
    """
    zero = np.zeros_like(lam0)
    begun = zero if z_over_beta is None else z_over_beta
    return State(x0, lam0, zero, zero, Ax0, begun, (zero,) * kept)
