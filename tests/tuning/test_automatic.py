"""`npga.solve` without steps: it converges, never diverges, and says what it did."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import Phase, assume, given, settings
from hypothesis import strategies as st

import npga
from helpers.families import COUPLING, PROXIMABLE, SMOOTH, random_problem
from npga import functions as fn


@settings(max_examples=40, deadline=None, phases=(Phase.reuse, Phase.generate))
@given(
    seed=st.integers(0, 10**6),
    smooth=st.sampled_from(sorted(set(SMOOTH) - {"zero", "linear"})),
    proximable=st.sampled_from(sorted(PROXIMABLE)),
    coupling=st.sampled_from(sorted(COUPLING)),
)
def test_reaches_the_tolerance_without_any_parameter(seed, smooth, proximable, coupling):
    problem = random_problem(seed, 6, 4, smooth, proximable, coupling)
    # Some draws (a logistic f alone, say) have an infimum that is not attained.
    star = npga.reference(problem, max_iters=5_000)
    assume(star.kkt < 1e-12 and np.abs(star.x).max() < 10.0)
    result = npga.solve(problem, npga.Network.erdos_renyi(6, 0.5, seed=seed % 100))
    assert result.status is npga.Status.CONVERGED, str(result)
    assert problem.kkt(result.x, result.lam).kkt <= 1e-8


@pytest.mark.parametrize("coupling", ["equality", "ball", "less-equal"])
def test_linear_costs_and_basis_pursuit(coupling):
    """No curvature anywhere: outside every theorem."""
    problem = random_problem(5, 6, 4, "zero", "l1", coupling)
    result = npga.solve(problem, npga.Network.ring(6))
    assert result.status.ok, str(result)
    assert not result.certificate.covered


@pytest.mark.parametrize("version", ["aug-dgm", "dlm", "diging", "dcpa", "dcda"])
def test_a_given_version_keeps_its_name_and_its_fixed_steps(version):
    problem = random_problem(7, 5, 3, "quadratic", "zero", "squared-loss")
    result = npga.solve(problem, npga.Network.ring(5).lazy(), version)
    assert result.status.ok, str(result)
    assert result.version.name == version
    for step, value in result.version.fixed.items():
        assert getattr(result.steps, step) == value


def test_says_what_it_did():
    problem = random_problem(7, 5, 3, "quadratic", "l1", "squared-loss")
    star = npga.reference(problem)
    result = npga.solve(problem, npga.Network.ring(5), reference=star.x)
    assert "Steps were chosen" in result.message
    assert result.search.iterations > 0
    assert result.search.rounds >= result.search.iterations
    assert len(result.search.trials) > 10
    trace = result.trace
    assert trace["iteration"][0] == 0
    assert trace["gap"][0] == pytest.approx(1.0)
    assert (np.diff(trace["iteration"]) > 0).all()
    assert (trace["iteration"][-1], trace["round"][-1]) == (result.iterations, result.rounds)
    expected = np.linalg.norm(result.x - star.x) / np.linalg.norm(star.x)
    assert trace["gap"][-1] == pytest.approx(expected, rel=1e-6)
    assert result.messages == 10 * result.rounds


def test_same_seed_same_bits():
    problem = random_problem(9, 5, 3, "huber", "l1", "ball")
    runs = [npga.solve(problem, npga.Network.ring(5), seed=3) for _ in range(2)]
    np.testing.assert_array_equal(runs[0].x, runs[1].x)
    assert runs[0].steps == runs[1].steps


def test_steps_in_other_units_are_found_too():
    """Costs in cents, lengths in kilometres, rows scaled by 1e5."""
    rng = np.random.default_rng(0)
    agents = [npga.Agent(1e5 * rng.standard_normal((3, 2)), fn.SquaredNorm(1e-4), fn.L1(1e-6)) for _ in range(5)]
    problem = npga.Problem(agents, fn.SquaredLoss(1e5 * rng.standard_normal(3), 1e-9))
    assert npga.solve(problem, npga.Network.ring(5)).status.ok


def test_limits_and_start_are_honoured():
    problem = random_problem(9, 5, 3, "huber", "l1", "ball")
    network = npga.Network.ring(5)
    short = npga.solve(problem, network, max_iters=700, tol=1e-15)
    assert short.iterations == 700
    assert short.status is npga.Status.MAX_ITERS
    assert npga.solve(problem, network, max_iters=7, tol=None).iterations == 7
    solved = npga.solve(problem, network, tol=1e-10)
    again = npga.solve(problem, network, start=solved, tol=1e-8)
    assert again.trace[0].kkt < 1e-8


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"steps": npga.Steps(0.1, 0.1)}, "steps were given without a version"),
        ({"checkpoint": "x.npz"}, "checkpoint= needs steps"),
        ({"tol": -1.0}, "tol is -1.0"),
        ({"x0": np.zeros(1)}, r"x0 has shape \(1,\)"),
        ({"version": "nidz"}, "did you mean 'nids'"),
    ],
)
def test_bad_input_is_refused_before_the_first_trial(arguments, message):
    with pytest.raises(ValueError, match=message):
        npga.solve(random_problem(9), npga.Network.ring(6), **arguments)


def test_a_retreat_after_growth_comes_back(monkeypatch):
    """Force the search to hand over steps that diverge; the run must still end at the solution."""
    from npga.tuning import _automatic

    problem, network = random_problem(9, 6, 4, "quadratic", "zero", "squared-loss"), npga.Network.ring(6)

    def wild(self, versions, start):
        method = npga.solver.Npga(problem, network, versions[0], npga.Steps(1.0, 5.0, 5.0))
        return npga.solver.conclude(method, npga.solver.Run(method.start(np.zeros(problem.d), np.zeros((6, 4)))))

    monkeypatch.setattr(_automatic.Journey, "begin", wild)
    result = npga.solve(problem, network)
    assert result.status.ok, str(result)
    assert any("growth" in change for change in result.search.changes)
