"""Identities of convex analysis, for every function of the registry."""

from __future__ import annotations

import copy
import pickle

import hypothesis.extra.numpy as hnp
import hypothesis.strategies as st
import numpy as np
import pytest
from hypothesis import given, settings

from helpers.registry import BUILT_IN, CASES, ELEMENTWISE, WITH_PROX, every
from npga import functions as fn
from npga.errors import FunctionError

STEPS = st.floats(1e-3, 1e3)


def vectors(dim: int, size: float = 50.0) -> st.SearchStrategy[np.ndarray]:
    return hnp.arrays(np.float64, dim, elements=st.floats(-size, size, allow_subnormal=False))


def subgradient_gap(f: fn.Function, x: np.ndarray, t: float, v: np.ndarray) -> float:
    """f(u) + (x - u).(v - u)/t - f(v) at u = prox(x, t), relative to the size of its terms: at most 0."""
    u = f.prox(x, t)
    fu, fv = f(u), f(v)
    size = 1.0 + abs(fu) + abs(fv) + np.linalg.norm(v - u) * (np.linalg.norm(x) + np.linalg.norm(u)) / t
    return (fu + (x - u) @ (v - u) / t - fv) / size


def test_the_registry_covers_every_public_class():
    classes = {
        name
        for name in fn.__all__
        if isinstance(getattr(fn, name), type) and issubclass(getattr(fn, name), fn.Function)
    }
    assert classes - {"Function", "Elementwise"} <= {type(case.f).__name__ for case in CASES}


@every()
def test_check_passes(f, dim):
    report = fn.check(f, dim=dim, seed=1, samples=12)
    assert report.ok, str(report)


@every(WITH_PROX)
@settings(max_examples=15, deadline=None)
@given(data=st.data())
def test_prox_is_characterised_by_its_inequality(f, dim, data):
    x, y, t = data.draw(vectors(dim)), data.draw(vectors(dim)), data.draw(STEPS)
    assert np.isfinite(f(f.prox(x, t)))
    # A point of the domain against which to compare: the prox of another point.
    assert subgradient_gap(f, x, t, f.prox(y, 1.0)) <= 1e-10


@every(WITH_PROX)
@settings(max_examples=15, deadline=None)
@given(data=st.data())
def test_moreau_identity(f, dim, data):
    x, t = data.draw(vectors(dim)), data.draw(STEPS)
    default = x - t * f.prox(x / t, 1.0 / t)
    np.testing.assert_allclose(f.conj_prox(x, t), default, rtol=1e-9, atol=1e-9 * (1.0 + np.abs(x).max()))


@every(WITH_PROX)
@settings(max_examples=15, deadline=None)
@given(data=st.data())
def test_prox_is_firmly_non_expansive(f, dim, data):
    x, y, t = data.draw(vectors(dim)), data.draw(vectors(dim)), data.draw(STEPS)
    d = f.prox(x, t) - f.prox(y, t)
    assert d @ d <= d @ (x - y) + 1e-9 * (1.0 + np.abs(x).max() + np.abs(y).max()) ** 2


@every()
def test_shapes(f, dim):
    x = np.random.default_rng(0).normal(size=(2, 3, dim))
    t = np.array([0.5, 2.0]).reshape(2, 1, 1)
    assert np.shape(f(x)) == (2, 3)
    assert np.shape(f(x[0, 0])) == ()
    assert isinstance(f(x[0, 0]), float)
    for call in (f.prox, f.conj_prox) if f.has_prox else ():
        assert call(x, t).shape == call(x, 0.5).shape == x.shape
        # Steps may bring leading axes of their own: one point, many steps.
        assert call(x[0, 0], t).shape == (2, 1, dim)
        np.testing.assert_allclose(call(x[0, 0], t)[1, 0], call(x[0, 0], 2.0), rtol=1e-12, atol=1e-12)
    if f.has_grad:
        assert f.grad(x).shape == x.shape


SEPARABLE = [case for case in WITH_PROX if case.f.is_separable]
NOT_SEPARABLE = [case for case in WITH_PROX if not case.f.is_separable and case.dim > 1]


@every(SEPARABLE)
@settings(max_examples=15, deadline=None)
@given(data=st.data())
def test_prox_with_a_step_per_coordinate_is_characterised_coordinate_by_coordinate(f, dim, data):
    # With u = prox(x, t): phi_j(v) >= phi_j(u_j) + (x_j - u_j)(v - u_j)/t_j, and f(u with u_j replaced by v) - f(u) is
    # phi_j(v) - phi_j(u_j).
    x, y = data.draw(vectors(dim)), data.draw(vectors(dim))
    t = data.draw(hnp.arrays(np.float64, dim, elements=STEPS))
    u, w = f.prox(x, t), f.prox(y, 1.0)
    for j in range(dim):
        v = u.copy()
        v[j] = w[j]
        slope = (x[j] - u[j]) * (v[j] - u[j]) / t[j]
        size = 1.0 + abs(f(u)) + abs(f(v)) + abs(v[j] - u[j]) * (abs(x[j]) + abs(u[j])) / t[j]
        assert (f(u) + slope - f(v)) / size <= 1e-10
    default = x - t * f.prox(x / t, 1.0 / t)
    np.testing.assert_allclose(f.conj_prox(x, t), default, rtol=1e-9, atol=1e-9 * (1.0 + np.abs(x).max()))


@every(NOT_SEPARABLE)
def test_other_functions_take_equal_steps_and_refuse_different_ones(f, dim):
    x = np.random.default_rng(0).normal(size=(3, dim))
    for call in (f.prox, f.conj_prox):
        np.testing.assert_array_equal(call(x, np.full(dim, 0.7)), call(x, np.full((3, 1), 0.7)))
        with pytest.raises(FunctionError, match="Only a sum over coordinates takes a step for each of them"):
            call(x, np.geomspace(0.1, 10.0, dim))


def test_sums_pass_the_steps_of_their_blocks_on():
    parts, sizes = [fn.L2(0.5), fn.Logistic([1.0, -1.0]), fn.Simplex()], [3, 2, 4]
    f = fn.Shifted(fn.Scaled(fn.SeparableSum(parts, sizes), 2.0), 0.1)
    x, t = np.random.default_rng(0).normal(size=(5, 9)), np.repeat([0.3, 4.0, 0.1, 2.0], [3, 1, 1, 4])
    for name in ("prox", "conj_prox"):
        blocks = [
            getattr(fn.Shifted(fn.Scaled(part, 2.0), 0.1), name)(x[:, own], t[own])
            for part, own in zip(parts, (slice(0, 3), slice(3, 5), slice(5, 9)), strict=True)
        ]
        np.testing.assert_allclose(getattr(f, name)(x, t), np.concatenate(blocks, axis=-1), rtol=1e-13)


@every(ELEMENTWISE)
def test_separable_functions_take_one_step_per_coordinate(f, dim):
    x, t = np.random.default_rng(0).normal(size=dim), np.geomspace(0.1, 10.0, dim)
    for call in (f.prox, f.conj_prox):
        each = [call(x, float(s))[j] for j, s in enumerate(t)]
        np.testing.assert_allclose(call(x, t), each, rtol=1e-12, atol=1e-12)


@every()
def test_integers_are_points_too(f, dim):
    x = np.arange(dim)
    np.testing.assert_array_equal(f(x), f(x.astype(float)))
    if f.has_prox:
        assert f.prox(x, 1).dtype == np.float64


@every()
def test_calls_leave_arguments_alone(f, dim):
    x, t = np.random.default_rng(0).normal(size=(3, dim)), np.ones((3, 1))
    x.flags.writeable = t.flags.writeable = False
    f(x)
    if f.has_grad:
        assert not np.shares_memory(f.grad(x), x)
    for call in (f.prox, f.conj_prox) if f.has_prox else ():
        assert not np.shares_memory(call(x, 0.5), x)
        call(x, t).fill(0.0)  # results are new and writeable


@every()
def test_float32_stays_float32(f, dim):
    single = f.astype(np.float32)
    x = np.random.default_rng(0).normal(size=(3, dim)).astype(np.float32)
    assert np.asarray(single(x)).dtype == np.asarray(single(x[0])).dtype == np.float32
    if f.has_grad:
        assert single.grad(x).dtype == np.float32
        np.testing.assert_allclose(single.grad(x), f.grad(x.astype(float)), rtol=1e-4, atol=1e-4)
    for name in ("prox", "conj_prox") if f.has_prox else ():
        for t in (0.7, np.float64(0.7), np.full((3, 1), 0.7)):
            answer = getattr(single, name)(x, t)
            assert answer.dtype == np.float32
            np.testing.assert_allclose(answer, getattr(f, name)(x.astype(float), 0.7), rtol=1e-4, atol=1e-4)
    if f.has_prox:
        assert np.isfinite(single(single.prox(x, 0.7))).all()  # a rounded projection belongs to the set
    if f.has_hess:
        assert single.hess(x[0]).dtype == np.float32
    if f.has_prox_jac:
        assert single.prox_jac(x[0], 0.7).dtype == single.conj_prox_jac(x[0], 0.7).dtype == np.float32


@every(BUILT_IN)
def test_pickle_and_copy(f, dim):
    x = np.random.default_rng(0).normal(size=(3, dim))
    f.prox(x, 0.5)  # fills caches, which must not get in the way
    twin = pickle.loads(pickle.dumps(f))
    np.testing.assert_array_equal(twin.prox(x, 0.5), f.prox(x, 0.5))
    assert repr(twin) == repr(f)
    assert copy.deepcopy(f) is copy.copy(f) is f
    for p in getattr(twin, "parameters", ()):
        assert isinstance(p, float) or not p.flags.writeable


@every()
def test_objects_are_immutable(f, dim):
    with pytest.raises(FunctionError, match="immutable"):
        f.weight = 3.0
    with pytest.raises(FunctionError, match="immutable"):
        del f.dim
    assert len(repr(f)) < 200


@every(ELEMENTWISE)
def test_elementwise_functions_can_be_rebuilt(f, dim):
    assert f.kind
    assert f.is_separable
    assert all(isinstance(p, float) or p.ndim == 1 for p in f.parameters)
    twin = type(f)(*f.parameters)
    x = np.random.default_rng(0).normal(size=(5, dim))
    np.testing.assert_array_equal(twin.prox(x, 0.3), f.prox(x, 0.3))
    np.testing.assert_array_equal(twin(x), f(x))


def test_kinds_are_distinct():
    kinds = {type(case.f): case.f.kind for case in ELEMENTWISE}
    assert len(set(kinds.values())) == len(kinds)


@every()
def test_facts_imply_one_another(f, dim):
    assert 0.0 <= f.mu <= f.L
    assert f.dim in (None, dim)
    assert f.is_indicator or not f.is_point
    assert not (f.is_indicator and f.has_grad)
    if f.is_zero:
        assert f.mu == f.L == 0.0
    if f.is_quadratic:
        assert f.has_grad
        assert np.isfinite(f.L)
    if np.isfinite(f.L):
        assert f.has_grad
    if f.is_quadratic and f.has_hess:
        hess = f.hess(np.zeros(dim))
        values = hess if hess.ndim == 1 else np.linalg.eigvalsh(hess)
        np.testing.assert_allclose([f.mu, f.L], [values.min(), values.max()], atol=1e-12)


def test_parameters_are_copied():
    target = np.ones(3)
    f = fn.SquaredLoss(target)
    target[:] = 7.0
    np.testing.assert_array_equal(f.target, 1.0)
    with pytest.raises(ValueError, match="read-only"):
        f.target[0] = 2.0
