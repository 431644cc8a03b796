"""Multiples, translates, sums over blocks, and the fusion of blocks."""

from __future__ import annotations

import numpy as np
import pytest

from helpers.registry import ELEMENTWISE, PSD, C, D, W, Y, every
from npga import functions as fn
from npga.errors import FunctionError

X = np.random.default_rng(8).normal(size=(6, D)) * 2.0


def same(f: fn.Function, g: fn.Function, x: np.ndarray) -> None:
    """Two functions agree in everything that can be called, and in every fact but `dim`."""
    np.testing.assert_allclose(f(x), g(x), rtol=1e-13, atol=1e-13)
    for name in ("mu", "L", "is_indicator", "is_zero", "is_point", "is_quadratic", "has_grad", "has_prox"):
        assert getattr(f, name) == pytest.approx(getattr(g, name)), name
    if f.has_grad:
        np.testing.assert_allclose(f.grad(x), g.grad(x), rtol=1e-13, atol=1e-13)
    for name in ("prox", "conj_prox"):
        np.testing.assert_allclose(getattr(f, name)(x, 0.6), getattr(g, name)(x, 0.6), rtol=1e-12, atol=1e-12)


@every(ELEMENTWISE)
def test_closed_forms_of_multiples_and_translates_equal_the_wrappers(f, dim):
    same(2.5 * f, fn.Scaled(f, 2.5), X)
    same(f.shift(C), fn.Shifted(f, C), X)
    same(f.shift(0.4), fn.Shifted(f, 0.4), X)
    assert type(2.5 * f) is type(f)


def test_operators():
    f = fn.L1(0.5)
    assert repr(2 * f) == repr(f * 2.0) == repr(np.float64(2.0) * f) == "L1(weight=1)"
    assert repr(3.0 * (2.0 * fn.L2())) == "Scaled(L2(weight=1), weight=6)"
    with pytest.raises(TypeError):
        f * f
    with pytest.raises(FunctionError, match="weight is -1"):
        -1.0 * f
    with pytest.raises(FunctionError, match="weight is nan"):
        float("nan") * fn.L2()


def test_sums_act_block_by_block():
    parts, sizes = [fn.L2(0.5), fn.Logistic([1.0, -1.0]), fn.Simplex()], [3, 2, 4]
    f = fn.SeparableSum(parts, sizes)
    x = np.random.default_rng(0).normal(size=(5, 9))
    blocks = np.split(x, [3, 5], axis=-1)
    np.testing.assert_array_equal(f(x), sum(part(b) for part, b in zip(parts, blocks, strict=True)))
    expected = np.concatenate([part.prox(b, 0.4) for part, b in zip(parts, blocks, strict=True)], axis=-1)
    np.testing.assert_array_equal(f.prox(x, 0.4), expected)
    assert f.dim == 9


def test_facts_of_sums():
    f = fn.SeparableSum([fn.SquaredNorm(2.0), fn.Quadratic(PSD)], [3, D])
    assert f.is_quadratic
    assert not f.is_separable
    assert (f.mu, f.L) == (min(2.0, fn.Quadratic(PSD).mu), max(2.0, fn.Quadratic(PSD).L))
    assert fn.SeparableSum([fn.Zero(), fn.NonNegative()], [1, 1]).is_indicator
    assert not fn.SeparableSum([fn.Zero(), fn.Zero()], [1, 1]).is_indicator
    assert fn.SeparableSum([fn.Equality(0.0), fn.Box(1.0, 1.0)], [1, 2]).is_point
    assert not fn.SeparableSum([fn.Equality(0.0), fn.Zero()], [1, 2]).is_point


@every(ELEMENTWISE)
def test_join_fuses_every_elementwise_class(f, dim):
    other = (
        fn.Zero() if type(f) is fn.Zero else type(f)(*(p if isinstance(p, float) else p[::-1] for p in f.parameters))
    )
    fused = fn.join([f, other, f], [dim] * 3)
    assert type(fused) is type(f)
    x = np.random.default_rng(2).normal(size=(4, 3 * dim)) * 2.0
    same(fused, fn.SeparableSum([f, other, f], [dim] * 3), x)


def test_join_keeps_equal_numbers_and_expands_different_ones():
    assert fn.join([fn.L1(0.1)] * 5, [2] * 5).parameters == (0.1,)
    fused = fn.join([fn.SquaredNorm(1.0, 3.0), fn.SquaredNorm([2.0, 4.0], 3.0)], [1, 2])
    np.testing.assert_array_equal(fused.weight, [1.0, 2.0, 4.0])
    assert fused.center == 3.0
    assert fused.dim == 3


def test_join_skips_empty_blocks_and_returns_single_functions_bare():
    assert fn.join([fn.L2(), fn.L1()], [3, 0]).dim is None
    assert type(fn.join([fn.L2(), fn.L1()], [3, 0])) is fn.L2
    assert fn.join([], []).is_zero
    assert fn.join([fn.Zero(), fn.L1()], [0, 0]).is_zero
    assert type(fn.join([fn.Zero()] * 3, [1, 2, 3])) is fn.Zero


def test_join_splits_where_the_class_changes():
    f = fn.join([fn.Zero(), fn.Zero(), fn.L1(0.2), fn.L1(0.4), fn.L2(), fn.L2()], [1, 1, 2, 1, 2, 2])
    assert isinstance(f, fn.SeparableSum)
    assert [type(p).__name__ for p in f.parts] == ["Zero", "L1", "L2", "L2"]
    assert f.sizes == (2, 3, 2, 2)


def test_join_keeps_float32():
    weights = np.ones(2, dtype=np.float32)
    fused = fn.join([fn.L1(weights), fn.L1(0.5)], [2, 1])
    assert fused.prox(np.zeros(3, dtype=np.float32), 1.0).dtype == np.float32


@pytest.mark.parametrize("build", [fn.join, fn.SeparableSum])
def test_blocks_that_do_not_fit_are_refused(build):
    with pytest.raises(FunctionError, match="2 parts and 1 sizes"):
        build([fn.L1(), fn.L1()], [1])
    with pytest.raises(FunctionError, match=r"part 1, Equality.*got size 2; expected size 3"):
        build([fn.L1(), fn.Equality([1.0, 2.0, 3.0])], [1, 2])
    with pytest.raises(FunctionError, match="not negative"):
        build([fn.L1()], [-1])
    with pytest.raises(FunctionError, match=r"part 0 is a function; expected.*Custom"):
        build([lambda x: x], [1])


def test_a_sum_without_coordinates_is_refused():
    with pytest.raises(FunctionError, match=r"no coordinates.*Zero"):
        fn.SeparableSum([fn.L1()], [0])


def test_shift_checks_its_length():
    with pytest.raises(FunctionError, match=r"center has 2 entries.*expected 4"):
        fn.Shifted(fn.Quadratic(PSD), [1.0, 2.0])
    assert fn.L2().shift(W).dim == D


def test_hessians_of_sums_are_block_diagonal():
    f = fn.SeparableSum([fn.SquaredNorm(2.0), fn.Quadratic(PSD)], [1, D])
    H = f.hess(np.zeros(D + 1))
    assert H.shape == (D + 1, D + 1)
    np.testing.assert_array_equal(H[1:, 1:], PSD)
    assert H[0, 0] == 2.0
    assert fn.SeparableSum([fn.Logistic(Y), fn.Zero()], [D, 2]).hess(np.zeros(D + 2)).shape == (D + 2,)
