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
    assert "Steps followed the run" in result.message
    assert result.search is None
    assert result.legs
    assert [leg.iteration for leg in result.legs] == sorted(leg.iteration for leg in result.legs)
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
        ({"checkpoint": "x.npz", "version": "extra"}, "checkpoint= needs steps"),
        ({"tol": -1.0}, "tol is -1.0"),
        ({"x0": np.zeros(1)}, r"x0 has shape \(1,\)"),
        ({"version": "nidz"}, "did you mean 'nids'"),
    ],
)
def test_bad_input_is_refused_before_the_first_trial(arguments, message):
    with pytest.raises(ValueError, match=message):
        npga.solve(random_problem(9), npga.Network.ring(6), **arguments)


def test_a_given_version_of_another_kind_is_searched_for_and_counted():
    problem = random_problem(7, 5, 3, "quadratic", "l1", "squared-loss")
    result = npga.solve(problem, npga.Network.ring(5), "extra")
    assert "Steps were chosen" in result.message
    assert result.search.iterations > 0
    assert result.search.rounds >= result.search.iterations
    assert len(result.search.trials) > 10
    assert result.legs == ()


def test_what_is_printed_can_be_typed_back():
    problem, network = random_problem(7, 5, 3, "quadratic", "l1", "squared-loss"), npga.Network.ring(5)
    for version in (None, "exact-diffusion", "npga-i"):
        result = npga.solve(problem, network, version)
        words = result.message[result.message.index("version=") : result.message.index(". Whether")]
        typed = eval(f"dict({words})", {"npga": npga, "problem": problem})
        assert typed == {"version": result.version, "steps": result.steps}
        assert npga.solve(problem, network, **typed).status.ok


def understated(factor, n=5):
    """Quadratic costs whose L is stated too small by a factor."""
    rng = np.random.default_rng(2)
    weights = rng.uniform(1.0, 4.0, n)
    costs = [fn.Custom(value=lambda x, w=w: w / 2 * x @ x, grad=lambda x, w=w: w * x, L=w / factor) for w in weights]
    return npga.Problem([npga.Agent(rng.standard_normal((2, 2)), f) for f in costs], fn.Equality([1.0, 2.0]))


@pytest.mark.parametrize("factor", [1.0, 1000.0, 1e6])
def test_who_understates_its_curvature_is_mended_and_named(factor):
    problem = understated(factor)
    result = npga.solve(problem, npga.Network.ring(5))
    assert result.status.ok, str(result)
    assert ("more than the L" in result.message) == (factor > 1.0)


def test_who_does_not_know_its_curvature_is_solved():
    costs = [fn.Custom(value=lambda x: np.cosh(x).sum(), grad=np.sinh) for _ in range(4)]
    problem = npga.Problem([npga.Agent(np.eye(2), f) for f in costs], fn.Equality([1.0, 20.0]))
    result = npga.solve(problem, npga.Network.ring(4))
    assert result.status.ok, str(result)
    assert result.x == pytest.approx(np.tile([0.25, 5.0], 4), abs=1e-6)


@pytest.mark.parametrize("when", [0.0, 0.3])
def test_gradients_that_are_not_numbers_end_the_run(when):
    def grad(x):
        return np.full_like(x, np.nan) if np.abs(x).max() >= when else x

    costs = [fn.Custom(value=lambda x: 0.5 * x @ x, grad=grad, L=1.0) for _ in range(4)]
    problem = npga.Problem([npga.Agent(np.eye(2), f) for f in costs], fn.Equality([1.0, 2.0]))
    result = npga.solve(problem, npga.Network.ring(4))
    assert result.status is npga.Status.DIVERGED
    assert result.iterations < 1000
    assert "gradients are finite" in result.message


@pytest.mark.parametrize("scale", [1e-6, 1.0, 1e6])
def test_a_warm_start_is_no_slower_than_a_cold_one(scale):
    def problem(shift):
        rng = np.random.default_rng(0)
        blocks = rng.standard_normal((6, 4, 3))
        agents = [npga.Agent(A, fn.SquaredNorm(0.3), fn.L1(0.1)) for A in blocks]
        return npga.Problem(agents, fn.SquaredLoss(scale * (1.0 + shift * np.arange(4))))

    network = npga.Network.path(6)
    first = npga.solve(problem(0.0), network)
    cold, warm = npga.solve(problem(0.01), network), npga.solve(problem(0.01), network, start=first)
    assert warm.status.ok
    assert warm.rounds <= cold.rounds
    assert warm.version == first.version
    # Beta begins halfway between that of the earlier run's end and that of a new run.
    once = {"max_iters": 1, "tol": None}
    new, led = npga.solve(problem(0.01), network, **once), npga.solve(problem(0.01), network, start=first, **once)
    assert led.steps.beta == pytest.approx(np.sqrt(first.steps.beta * new.steps.beta))


def test_on_the_same_problem_the_run_goes_on_as_it_was():
    problem, network = random_problem(7, 5, 3, "quadratic", "l1", "squared-loss"), npga.Network.ring(5)
    first = npga.solve(problem, network, max_iters=70, tol=None)
    same = random_problem(7, 5, 3, "quadratic", "l1", "squared-loss")
    rest = npga.solve(same, network, start=first, max_iters=90, tol=None)
    whole = npga.solve(problem, network, max_iters=160, tol=None)
    np.testing.assert_array_equal(rest.x, whole.x)
    assert (rest.iterations, rest.steps) == (90, whole.steps)


def test_an_earlier_result_lends_its_version_and_steps():
    problem, network = random_problem(7, 5, 3, "quadratic", "l1", "squared-loss"), npga.Network.ring(5)
    steps = npga.Steps(0.2, 0.2, 0.8)
    earlier = npga.solve(problem, network, "extra", steps, max_iters=50)
    result = npga.solve(problem, network, start=earlier, max_iters=50, tol=None)
    assert (result.version, result.steps) == (earlier.version, steps)
    whole = npga.solve(problem, network, "extra", steps, max_iters=100, tol=None)
    np.testing.assert_array_equal(result.x, whole.x)


def test_a_checkpoint_resumes_with_the_same_bits(tmp_path):
    problem, network = random_problem(9, 5, 3, "huber", "l1", "ball"), npga.Network.ring(5)
    whole = npga.solve(problem, network)
    file = tmp_path / "run.npz"
    for limit in (5, 40, 100):
        npga.solve(problem, network, max_iters=limit, checkpoint=file, resume=limit > 5)
    resumed = npga.solve(problem, network, checkpoint=file, resume=True)
    np.testing.assert_array_equal(resumed.x, whole.x)
    assert (resumed.steps, resumed.rounds, resumed.legs) == (whole.steps, whole.rounds, whole.legs)


def test_interruptions_and_time_are_respected():
    problem, network = random_problem(9, 5, 3, "huber", "l1", "ball"), npga.Network.ring(5)

    def stop(record, state):
        if record.iteration >= 30:
            raise KeyboardInterrupt

    interrupted = npga.solve(problem, network, callback=stop)
    assert interrupted.status is npga.Status.INTERRUPTED
    assert interrupted.iterations < 40
    assert npga.solve(problem, network, tol=None, max_seconds=0.2).seconds < 2.0


@pytest.mark.parametrize(
    ("version", "typed"),
    [
        (npga.Version(name="mine", B2=[1, -1], C=[0], D=[0, 0, 1]), "result.version"),
        ("extra", "npga.version('extra')"),
        ("dcda", "npga.version('dcda')"),
        (None, "npga.version('nids', c="),
    ],
)
def test_a_version_is_told_as_it_can_be_typed(version, typed):
    problem = random_problem(7, 5, 3, "quadratic", "zero", "squared-loss")
    assert f"version={typed}" in npga.solve(problem, npga.Network.ring(5).lazy(), version).message
