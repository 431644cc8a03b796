"""A class of your own that states its kernel form runs compiled; one that states none runs in NumPy."""

from __future__ import annotations

import numpy as np
import pytest

import npga
from npga import functions as fn
from npga.functions import Elementwise, KernelForm, Kind


class Deadzone(Elementwise):
    """f(x) = w max(x, 0): free below zero, linear above it."""

    names = ("weight",)

    def __init__(self, weight):
        self._store(weight=float(weight))

    def _terms(self, x):
        return self.weight * np.maximum(x, 0.0)

    def _prox(self, x, t):
        return x - np.clip(x, 0.0, t * self.weight)


class CompiledDeadzone(Deadzone):
    """The same with its form: max(a r, b r) with a = 0, b = w and c = 0."""

    def kernel(self, size):
        return (KernelForm(Kind.KINKED, size, a=0.0, b=self.weight),)


def problem(g):
    rng = np.random.default_rng(0)
    agents = [npga.Agent(rng.normal(size=(3, 2)), fn.SquaredNorm(1.0, [1.0, -1.0]), g) for _ in range(4)]
    return npga.Problem(agents, fn.Equality([1.0, 2.0, 3.0]))


@pytest.mark.parametrize("cls", [Deadzone, CompiledDeadzone])
def test_both_are_sound(cls):
    assert fn.check(cls(0.7), dim=3).ok


def test_a_kernel_form_is_all_that_a_compiled_run_needs():
    network, steps = npga.Network.ring(4), npga.Steps(0.2, 0.1, 0.9)
    runs = [
        npga.solve(problem(cls(0.7)), network, "nids", steps, max_iters=200, tol=None)
        for cls in (Deadzone, CompiledDeadzone)
    ]
    assert [run.path for run in runs] == ["vectorised", "compiled"]
    np.testing.assert_allclose(runs[0].x, runs[1].x, rtol=1e-10, atol=1e-10)
