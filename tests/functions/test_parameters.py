"""Errors say what arrived, what was expected and where; hard-coded values; matrices and caches."""

from __future__ import annotations

import doctest

import numpy as np
import pytest
import scipy.sparse as sp

from npga import functions as fn
from npga.errors import FunctionError, InputError
from npga.functions import _check, _parameters

BAD = [
    (lambda: fn.L1(-1.0), r"L1: weight is -1\.0; expected a positive number"),
    (lambda: fn.L1([1.0, 0.0]), r"L1: weight is 0\.0 at position 1; expected a positive number"),
    (lambda: fn.L1(np.nan), "L1: weight is nan; expected finite"),
    (lambda: fn.L1("heavy"), r"L1: weight is 'heavy'; expected a real number"),
    (lambda: fn.L1(1j), "expected a real number"),
    (lambda: fn.L1(np.ones((2, 2))), r"weight has shape \(2, 2\)"),
    (lambda: fn.L1([]), r"weight has shape \(0,\).*Zero\(\)"),
    (lambda: fn.L2([1.0, 2.0]), "L2: weight has shape .* expected one number"),
    (lambda: fn.SquaredNorm([1.0, 2.0], [1.0, 2.0, 3.0]), "different lengths .weight 2, center 3"),
    (lambda: fn.SquaredLoss([0.0, np.inf]), "SquaredLoss: target is inf at position 1"),
    (lambda: fn.Linear([0.0, np.nan]), "Linear: c is nan at position 1"),
    (lambda: fn.Equality([np.inf]), "Equality: b is inf at position 0"),
    (lambda: fn.LessEqual(np.inf), "LessEqual: b is inf"),
    (lambda: fn.Logistic([0.0, 1.0]), r"labels is 0\.0 at position 0; expected -1 or \+1.*2 \* labels - 1"),
    (lambda: fn.Hinge([1.0, 2.0]), r"labels is 2\.0 at position 1"),
    (lambda: fn.Huber(0.0), r"Huber: delta is 0\.0"),
    (lambda: fn.Quantile(0.0, 1.0), r"tau is 1\.0; expected a level strictly between 0 and 1"),
    (lambda: fn.Quantile(0.0, [0.5, -0.1]), r"tau is -0\.1 at position 1"),
    (lambda: fn.ElasticNet(-0.1, 1.0), r"l1 is -0\.1; expected a number that is not negative"),
    (lambda: fn.Box([0.0, 2.0], 1.0), r"lo is 2\.0 at position 1; expected lo <= hi"),
    (lambda: fn.Box(np.nan, 1.0), "lo is nan"),
    (lambda: fn.Box(np.inf, np.inf), r"lo is inf; expected a number below \+inf"),
    (lambda: fn.Box(-np.inf, -np.inf), "hi is -inf"),
    (lambda: fn.Simplex(0.0), r"total is 0\.0"),
    (lambda: fn.Ball(0.0, -1.0), r"radius is -1\.0"),
    (lambda: fn.Ball([0.0, np.nan], 1.0), "center is nan at position 1"),
    (lambda: fn.Quadratic([[1.0, 2.0], [0.0, 1.0]]), r"differs from its transpose by 2.*\(Q \+ Q\.T\)/2"),
    (lambda: fn.Quadratic(np.diag([1.0, -0.5])), r"smallest eigenvalue -0\.5; expected .*add 0\.5 or more"),
    (lambda: fn.Quadratic(sp.diags_array([1.0, -0.5])), r"smallest eigenvalue -0\.5"),
    (lambda: fn.Quadratic(np.eye(2), [1.0, 2.0, 3.0]), r"Q has shape \(2, 2\) and q has shape \(3,\)"),
    (lambda: fn.Quadratic(np.ones((2, 3))), "expected a square matrix"),
    (lambda: fn.Quadratic([[1.0, np.nan], [np.nan, 1.0]]), r"Q is nan at position \(0, 1\)"),
    (lambda: fn.Quadratic(np.zeros((0, 0))), r"shape \(0, 0\).*Zero\(\)"),
    (lambda: fn.LeastSquares(np.ones((3, 2)), [1.0, 2.0]), "b has 2 entries and M has shape"),
    (lambda: fn.LeastSquares(sp.csr_array([[1.0, np.inf]])), r"M\.data is inf"),
    (lambda: fn.GroupL2(1.0, [[0, 1], [1, 2]]), "groups lack coordinate 2, or repeat one before it"),
    (lambda: fn.GroupL2(1.0, [[0, 1], []]), "empty group"),
    (lambda: fn.GroupL2(1.0, [0.5, 1.5]), "not integers"),
    (lambda: fn.GroupL2(1.0, 7), "groups is 7"),
    (lambda: fn.GroupL2([1.0, 2.0], [0, 1, 2]), "weight has 2 entries for 3 groups"),
    (lambda: fn.NegLog(0.0), r"NegLog: weight is 0\.0"),
    (lambda: fn.Entropy([1.0, -1.0]), r"Entropy: weight is -1\.0 at position 1"),
    (lambda: fn.GreaterEqual(np.inf), "GreaterEqual: b is inf"),
    (lambda: fn.L1() + fn.L2(), r"L1\(weight=1\) \+ L2\(weight=1\): the prox of this sum is not known.*give one"),
    (lambda: fn.L2() + fn.NonNegative(), "the prox of this sum is not known"),
    (lambda: fn.L2() + fn.SquaredNorm([1.0, 2.0]), "the prox of this sum is not known"),
    (lambda: fn.NegLog() + fn.Entropy(), "the prox of this sum is not known"),
    (lambda: fn.NegLog() + fn.Box(-2.0, -1.0), "infinite everywhere; expected parts that meet"),
    (lambda: fn.Box(0.0, 1.0) + fn.GreaterEqual(2.0), "expected lo <= hi"),
    (lambda: fn.Linear([1.0, 2.0]) + fn.L1([1.0, 2.0, 3.0]), "expected functions of the same number of variables"),
    (lambda: fn.Sum([]), "got no parts; expected functions"),
    (lambda: fn.Sum([fn.L1(), 3.0]), "part 1 is a float; expected a function"),
    (lambda: fn.Custom(None), "value is None; expected a callable"),
    (lambda: fn.Custom(np.sum, grad=3.0), r"grad is 3\.0; expected a callable"),
    (lambda: fn.Custom(np.sum, mu=2.0, L=1.0), r"mu is 2\.0 and L is 1\.0; expected 0 <= mu <= L"),
]  # fmt: skip


@pytest.mark.parametrize(("build", "message"), BAD)
def test_impossible_parameters_are_refused(build, message):
    with pytest.raises(FunctionError, match=message) as caught:
        build()
    assert isinstance(caught.value, InputError)
    assert "expected" in str(caught.value)


def test_arguments_of_the_wrong_shape_are_refused():
    f = fn.Equality([1.0, 2.0])
    with pytest.raises(FunctionError, match=r"shape \(3,\); expected 2 coordinates"):
        f([1.0, 2.0, 3.0])
    with pytest.raises(FunctionError, match=r"shape \(\); expected at least one axis"):
        fn.L1()(3.0)
    with pytest.raises(FunctionError, match="expected one point"):
        fn.SquaredNorm().hess(np.ones((2, 2)))


@pytest.mark.parametrize("t", [0.0, -1.0, np.nan, np.inf, [[1.0], [0.0]]])
def test_steps_must_be_positive(t):
    with pytest.raises(FunctionError, match=r"expected .*positive finite number"):
        fn.L1().prox(np.ones((2, 2)), t)


def test_steps_have_a_last_dimension_of_one():
    with pytest.raises(FunctionError, match=r"write t\[\.\.\., None\]"):
        fn.L2().prox(np.ones((2, 3)), [1.0, 2.0])
    with pytest.raises(FunctionError, match="one positive finite number"):
        fn.L1().prox_jac(np.ones(2), [1.0])


def test_what_a_function_lacks_is_said():
    with pytest.raises(FunctionError, match=r"L1\(weight=1\) has no gradient; .*as g or h"):
        fn.L1().grad([1.0])
    f = fn.Custom(lambda x: x @ x)
    assert not any((f.has_grad, f.has_prox, f.has_hess, f.has_prox_jac))
    for call, word in ((f.grad, "gradient"), (f.hess, "Hessian")):
        with pytest.raises(FunctionError, match=f"has no {word}"):
            call([1.0])
    for call, word in ((f.prox, "prox"), (f.conj_prox, "prox of its conjugate"), (f.prox_jac, "Jacobian")):
        with pytest.raises(FunctionError, match=f"has no {word}"):
            call([1.0], 1.0)


def test_custom_callables_must_answer_in_shape():
    with pytest.raises(FunctionError, match=r"grad answered with shape \(1,\).*expected \(2,\)"):
        fn.Custom(np.sum, grad=lambda x: x[:1]).grad([1.0, 2.0])


def test_custom_callables_see_one_vector_and_one_number():
    seen = []

    def prox(x, t):
        seen.append((x.shape, type(t), x.flags.writeable))
        return x / (1.0 + t)

    f = fn.Custom(lambda x: x @ x / 2.0, prox=prox)
    x, t = np.ones((2, 3, 4)), np.array([1.0, 3.0]).reshape(2, 1, 1)
    np.testing.assert_array_equal(f.prox(x, t)[:, 0, 0], [0.5, 0.25])
    assert seen == [((4,), float, False)] * 6


@pytest.mark.parametrize(
    ("f", "inside", "outside"),
    [
        (fn.Box(0.0, 1e6), [1e6 + 5e-4, -5e-10], [1e6 + 2e-3, 0.0]),
        (fn.NonNegative(), [-5e-10, 1.0], [-2e-9, 1.0]),
        (fn.Equality(2.0), [2.0 + 1e-9, 2.0], [2.0 + 1e-8, 2.0]),
        (fn.LessEqual(2.0), [2.0 + 1e-9, -1e9], [2.0 + 1e-8, 0.0]),
        (fn.GreaterEqual(-2.0), [-2.0 - 1e-9, 1e9], [-2.0 - 1e-8, 0.0]),
        (fn.Simplex(), [0.5, 0.5 + 1e-9], [0.5, 0.5 + 1e-8]),
        (fn.Ball(0.0, 5.0), [3.0, 4.0 + 1e-9], [3.0, 4.0 + 1e-7]),
    ],
)
def test_membership_has_the_stated_tolerance(f, inside, outside):
    assert f(inside) == 0.0
    assert f(outside) == np.inf
    assert f.value(outside, tol=1e-7) == 0.0
    assert fn.Shifted(fn.Scaled(f, 2.0), 1.0).value(np.add(outside, 1.0), tol=1e-7) == 0.0
    assert fn.SeparableSum([fn.Zero(), f], [1, 2]).value([5.0, *outside], tol=1e-7) == 0.0
    assert f([np.nan, 0.0]) == np.inf


def test_hard_coded_values():
    assert fn.SquaredNorm(2.0, 1.0)([3.0, 0.0]) == 5.0
    assert fn.Huber(1.0)([0.5, 3.0]) == 0.125 + 2.5
    assert fn.Quantile(0.0, 0.9)([-1.0]) == pytest.approx(0.9)
    assert fn.Hinge([1.0, -1.0])([0.5, 0.5]) == 2.0
    assert fn.L2(2.0)([3.0, 4.0]) == 10.0
    assert fn.GroupL2(1.0, [0, 0, 1])([3.0, 4.0, -2.0]) == 7.0
    assert fn.ElasticNet(1.0, 2.0)([-3.0]) == 12.0
    assert fn.Quadratic([[2.0, 0.0], [0.0, 4.0]], [1.0, 0.0])([1.0, 1.0]) == 4.0
    assert fn.LeastSquares([[1.0, 1.0]], [1.0], 4.0)([1.0, 1.0]) == 2.0


def test_prox_at_the_kinks():
    np.testing.assert_array_equal(fn.L2().prox(np.zeros(3), 1.0), 0.0)
    np.testing.assert_array_equal(fn.L2().conj_prox(np.zeros(3), 1.0), 0.0)
    np.testing.assert_array_equal(fn.GroupL2(1.0, [0, 0, 1]).prox([0.0, 0.0, 3.0], 1.0), [0.0, 0.0, 2.0])
    np.testing.assert_array_equal(fn.Ball(1.0, 0.0).prox([1.0, 1.0], 1.0), 1.0)
    np.testing.assert_array_equal(fn.Simplex(3.0).prox([5.0, 5.0, 5.0], 1.0), 1.0)


def test_is_point_is_derived():
    assert fn.Box([1.0, 2.0], [1.0, 2.0]).is_point
    assert not fn.Box([1.0, 2.0], [1.0, 3.0]).is_point
    assert fn.Ball([1.0, 2.0], 0.0).is_point


def test_group_labels_and_index_arrays_agree():
    x = np.random.default_rng(0).normal(size=(3, 5))
    by_label = fn.GroupL2([0.5, 2.0], [7, 3, 7, 3, 3])
    by_index = fn.GroupL2([0.5, 2.0], [[1, 3, 4], [0, 2]])
    np.testing.assert_array_equal(by_label.prox(x, 0.4), by_index.prox(x, 0.4))


def test_sparse_and_dense_matrices_agree():
    rng = np.random.default_rng(0)
    x, t = rng.normal(size=(2, 3, 20)), np.array([0.5, 3.0]).reshape(2, 1, 1)
    M = sp.random_array((30, 20), density=0.2, rng=rng)
    Q = M.T @ M
    pairs = [
        (fn.Quadratic(Q, 1.0), fn.Quadratic(Q.toarray(), 1.0)),
        (fn.LeastSquares(M, 1.0), fn.LeastSquares(M.toarray(), 1.0)),
        (
            fn.LeastSquares(M.T @ sp.eye_array(30, 20), 1.0),
            fn.LeastSquares((M.T @ sp.eye_array(30, 20)).toarray(), 1.0),
        ),
    ]
    for sparse, dense in pairs:
        np.testing.assert_allclose(sparse(x), dense(x), rtol=1e-12)
        np.testing.assert_allclose(sparse.grad(x), dense.grad(x), rtol=1e-10, atol=1e-10)
        np.testing.assert_allclose(sparse.prox(x, t), dense.prox(x, t), rtol=1e-10, atol=1e-10)
        np.testing.assert_allclose([sparse.mu, sparse.L], [dense.mu, dense.L], rtol=1e-8, atol=1e-12)


def test_factorisations_are_kept_but_not_for_ever():
    resolvent = _parameters.SparseResolvent(sp.eye_array(3))
    for s in np.linspace(1.0, 2.0, 3 * _parameters.CACHE_SIZE):
        np.testing.assert_allclose(resolvent(np.ones(3), float(s)), 1.0 / (1.0 + s))
    assert len(resolvent._factors) == _parameters.CACHE_SIZE
    latest = resolvent._factors[2.0]
    resolvent(np.ones(3), 2.0)
    assert resolvent._factors[2.0] is latest


def test_rank_deficient_least_squares_is_not_strongly_convex():
    M = np.array([[1.0, 2.0], [2.0, 4.0], [3.0, 6.0]])
    assert fn.LeastSquares(M).mu == 0.0
    assert fn.LeastSquares(sp.csr_array(M)).mu == 0.0
    assert fn.LeastSquares(M.T).mu == 0.0
    assert fn.Quadratic(M.T @ M).mu == 0.0


def test_lanczos_bounds_the_extreme_eigenvalues():
    rng = np.random.default_rng(0)
    M = sp.random_array((400, 300), density=0.02, rng=rng)
    Q = sp.csr_array(M.T @ M + 0.1 * sp.eye_array(300))
    values = np.linalg.eigvalsh(Q.toarray())
    assert _parameters._lanczos(Q, "LA") == pytest.approx(values[-1], rel=1e-8)
    assert _parameters._lanczos(Q, "SA") == pytest.approx(values[0], rel=1e-6)


def test_large_sparse_quadratics_use_lanczos():
    d = _parameters.DENSE_LIMIT + 100
    Q = sp.diags_array([np.linspace(1.0, 3.0, d)], offsets=[0])
    f = fn.Quadratic(Q)
    np.testing.assert_allclose([f.mu, f.L], [1.0, 3.0], rtol=1e-6)


def laplacian(d: int) -> sp.csr_array:
    """Second differences: eigenvalues 4 sin^2(k pi/(2 d + 2)), which crowd near 0."""
    return sp.csr_array(sp.diags_array([-np.ones(d - 1), np.full(d, 2.0), -np.ones(d - 1)], offsets=[-1, 0, 1]))


def test_crowded_eigenvalues_are_found():
    d = 3000
    f = fn.Quadratic(laplacian(d))
    assert f.mu == pytest.approx(4.0 * np.sin(np.pi / (2 * d + 2)) ** 2, rel=1e-3)
    np.testing.assert_allclose(f.L, 4.0, rtol=1e-6)


def test_lanczos_that_does_not_converge_still_gives_bounds(monkeypatch):
    monkeypatch.setattr(_parameters, "LANCZOS_RESTARTS", 1)
    Q = laplacian(500)
    values = np.linalg.eigvalsh(Q.toarray())
    assert _parameters._lanczos(Q, "LA") == 4.0 >= values[-1]
    assert _parameters._lanczos(Q, "SA") == pytest.approx(values[0], rel=1e-6)


def test_examples_in_docstrings_run():
    for module in (fn, _check):
        outcome = doctest.testmod(module)
        assert outcome.attempted > 0
        assert outcome.failed == 0


def test_every_public_name_is_documented():
    for name in fn.__all__:
        assert getattr(fn, name).__doc__, name
