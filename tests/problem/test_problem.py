"""Problem: shapes and roles are checked once, with messages that name the agent."""

from __future__ import annotations

import pickle

import numpy as np
import pytest
from scipy import sparse
from scipy.sparse.linalg import aslinearoperator

import npga
from helpers.families import random_problem
from npga import functions as fn
from npga.problem import spectral_norm

F = fn.SquaredNorm(1.0)


def agent(A, f=F, **kwargs):
    return npga.Agent(A=A, f=f, **kwargs)


# ------------------------------------------------------------------ operators


@pytest.mark.parametrize("matrices", ["dense", "sparse", "operator", "mixed"])
@pytest.mark.parametrize("sizes", [None, [2, 2, 2, 2, 2, 2], [3, 0, 1, 1, 4, 0]])
def test_block_operator_is_the_block_diagonal_matrix(matrices, sizes):
    problem = random_problem(0, 6, 4, matrices=matrices, sizes=sizes)
    rng = np.random.default_rng(1)
    x, lam = rng.standard_normal(problem.d), rng.standard_normal((6, 4))
    dense = [a.A @ np.eye(a.A.shape[1]) for a in problem.agents]
    rows = np.array([A @ b for A, b in zip(dense, problem.split(x), strict=True)])
    columns = np.concatenate([A.T @ row for A, row in zip(dense, lam, strict=True)])
    np.testing.assert_allclose(problem.A.apply(x), rows, atol=1e-14)
    np.testing.assert_allclose(problem.A.adjoint(lam), columns, atol=1e-14)
    expected = [np.linalg.norm(A, 2) if A.size else 0.0 for A in dense]
    np.testing.assert_allclose(problem.A.norms, expected, rtol=1e-9)


def test_large_dense_blocks_are_not_copied():
    A = np.asfortranarray(np.random.default_rng(0).standard_normal((300, 200)))
    problem = npga.Problem([agent(A)], fn.Zero())
    problem.A.apply(np.ones(200))
    assert problem.agents[0].A is A


@pytest.mark.parametrize("shape", [(5, 3), (3, 5), (1, 4), (4, 1), (4, 2), (60, 50)])
@pytest.mark.parametrize("form", [np.asarray, sparse.csr_array, aslinearoperator])
def test_spectral_norm(shape, form):
    A = np.random.default_rng(2).standard_normal(shape)
    np.testing.assert_allclose(spectral_norm(form(A)), np.linalg.norm(A, 2), rtol=1e-10)


def test_objective_and_blocks():
    problem = npga.Problem([agent([[1.0, 2.0]]), agent([[3.0]], g=fn.L1(2.0))], fn.SquaredLoss([1.0], 4.0))
    # f: (1 + 1 + 4)/2, g: 2 * 2, h: (4/2) (1 + 2 - 6 - 1)^2 = 32
    assert problem.objective([[1.0, 1.0], [-2.0]]) == 3.0 + 4.0 + 32.0
    assert problem.objective(np.array([1.0, 1.0, -2.0])) == 39.0
    assert (problem.n, problem.p, problem.d) == (2, 1, 3)
    assert (problem.mu, problem.l) == (1.0, 1.0)


def test_relays_do_not_count_for_the_facts():
    problem = npga.Problem([agent(np.eye(2)), npga.Agent(np.zeros((2, 0)), fn.Zero())], fn.Equality([1.0, 1.0]))
    assert (problem.mu, problem.l, problem.d) == (1.0, 1.0, 2)


def test_kkt_residual_by_hand():
    """min x^2/2 with x = 1: lam* = -1. At x = 2, lam = 0 both conditions fail by known amounts."""
    problem = npga.Problem([agent([[1.0]])], fn.Equality([1.0]))
    assert problem.kkt([1.0], [-1.0]).kkt == 0.0
    found = problem.kkt([2.0], [0.0])
    assert found.stationarity == 1.0  # |grad f| / |grad f|
    assert found.coupling == 0.5  # |2 - 1| / 2
    assert found.kkt == 1.0


def test_dtype_follows_the_data():
    single, double = np.ones((2, 1), np.float32), np.ones((2, 1))
    assert npga.Problem([agent(single)], fn.Zero()).dtype == np.float32
    assert npga.Problem([agent(single), agent(double)], fn.Zero()).dtype == np.float64
    assert npga.Problem([agent([[1], [2]])], fn.Zero()).dtype == np.float64


def test_fingerprint_tells_problems_apart_and_survives_a_solve():
    problem = random_problem(3, smooth="quadratic", proximable="l1")
    same = random_problem(3, smooth="quadratic", proximable="l1")
    assert problem.fingerprint == same.fingerprint
    npga.solve(same, npga.Network.ring(6), "extra", npga.Steps(0.1, 0.1), max_iters=5)
    again = npga.Problem(same.agents, same.h)
    assert again.fingerprint == problem.fingerprint
    assert random_problem(4, smooth="quadratic", proximable="l1").fingerprint != problem.fingerprint
    assert random_problem(3, smooth="quadratic", proximable="l2").fingerprint != problem.fingerprint


def test_pickles():
    problem = random_problem(3, smooth="quadratic", proximable="l1", matrices="sparse")
    again = pickle.loads(pickle.dumps(problem))
    x = np.ones(problem.d)
    assert again.objective(x) == problem.objective(x)


# ------------------------------------------------------------------ bad input


@pytest.mark.parametrize(
    ("agents", "message"),
    [
        ([], "no agents arrived"),
        ([np.eye(2)], r"agents\[0\] is a ndarray"),
        ([agent(np.eye(2)), agent(np.ones((3, 1))), agent(np.eye(2))], "agent 1 has 3 rows; expected p = 2"),
        ([agent(np.ones((0, 2)))], "0 rows"),
        ([agent(np.ones(3))], r"reshape\(-1, 1\)"),
        ([agent([["a"]])], "agent 0 has dtype"),
        ([agent([[1.0, 2.0], [3.0]])], "agent 0 is not a matrix"),
        ([agent(np.eye(2)), agent([[1.0], [np.nan]], name="west")], r"agent 1 \(west\) holds nan"),
        ([agent(sparse.csr_array([[np.inf, 0.0]]))], "agent 0 holds inf"),
        ([agent([[1.0]], f=fn.L1(1.0))], "f of agent 0 is L1.*no gradient"),
        ([agent([[1.0]], f=abs)], "f of agent 0 is a builtin_function"),
        ([agent([[1.0]], g=fn.Custom(value=lambda x: 0.0))], "g of agent 0.*no (prox|operator)"),
        ([agent([[1.0]], f=fn.SquaredNorm(1.0, [1.0, 2.0]))], "a function of 2 variables; expected 1"),
    ],
)
def test_bad_agents(agents, message):
    with pytest.raises(npga.errors.ProblemError, match=message):
        npga.Problem(agents, fn.Zero())


@pytest.mark.parametrize(
    ("h", "message"),
    [
        (fn.Equality([1.0, 2.0, 3.0]), "h is Equality.*a function of 3 variables; expected 2, the number of rows"),
        (fn.Custom(value=lambda x: 0.0, grad=lambda x: x), "the coupling function h"),
        (None, "h is a NoneType"),
    ],
)
def test_bad_coupling(h, message):
    with pytest.raises(npga.errors.ProblemError, match=message):
        npga.Problem([agent(np.eye(2))], h)


def test_bad_points():
    problem = npga.Problem([agent(np.eye(2)), agent(np.ones((2, 1)))], fn.Zero())
    with pytest.raises(ValueError, match=r"x has shape \(2,\)"):
        problem.objective(np.ones(2))
    with pytest.raises(ValueError, match=r"agent 1 has shape \(2,\); expected \(1,\)"):
        problem.objective([np.ones(2), np.ones(2)])
    with pytest.raises(ValueError, match="x holds inf at position"):
        problem.objective([1.0, np.inf, 0.0])
    with pytest.raises(ValueError, match=r"lam has shape \(3,\)"):
        problem.kkt(np.ones(3), np.ones(3))


def test_the_objective_takes_a_tolerance_for_constraints():
    agents = [npga.Agent(np.eye(2), fn.SquaredNorm(2.0), fn.Box(0.0, 1.0)) for _ in range(2)]
    problem = npga.Problem(agents, fn.Equality([1.0, 1.5]))
    x = np.array([0.5, 0.5, 0.5, 1.0 + 1e-6])
    assert problem.objective(x) == np.inf
    assert problem.objective(x, tol=1e-5) == pytest.approx(1.75, abs=1e-5)
    assert problem.objective(x, tol=1e-7) == np.inf
