"""Certified steps: `tune`, `design` and `solve` with certified=True return only what is proved."""

from __future__ import annotations

import math

import numpy as np
import pytest

import npga
from npga import functions as fn


@pytest.fixture(scope="module")
def setting():
    rng = np.random.default_rng(0)
    agents = [npga.Agent(rng.standard_normal((2, 2)), fn.SquaredNorm(1.0), fn.L1(0.1)) for _ in range(4)]
    return npga.Problem(agents, fn.SquaredLoss([1.0, -2.0], 0.5)), npga.Network.ring(4)


@pytest.fixture(scope="module")
def tuned(setting):
    problem, network = setting
    return npga.tune(problem, network, "nids", certified=True, reference=npga.reference(problem))


def test_tuned_steps_are_proved_and_better_than_a_theorem(setting, tuned):
    problem, network = setting
    assert tuned.method == "certified"
    assert tuned.certificate.instance.standing == "proved"
    assert tuned.certificate.instance.verify()
    assert tuned.rate == tuned.certificate.instance.rate
    assert tuned.rate < math.sqrt(npga.certify(problem, network, "nids").best.rate)
    assert math.isfinite(tuned.measured)


def test_solve_runs_with_certified_steps_only(setting, tuned):
    problem, network = setting
    found = npga.solve(problem, network, "nids", tuned.steps, certified=True)
    assert found.status.ok
    assert found.certified
    assert not math.isnan(found.certificate.linearised)
    assert found.certificate.linearised <= tuned.rate * (1 + 1e-9)
    wild = npga.Steps(5.0, 5.0, 3.0, 2.0)
    with pytest.raises(npga.errors.InputError, match="refuted"):
        npga.solve(problem, network, "nids", wild, certified=True)


def test_solve_without_steps_says_how_to_ask(setting):
    found = npga.solve(*setting)
    assert "result.certified" in found.message
    assert isinstance(found.certified, bool)


def test_too_large_is_refused(setting):
    agents = [npga.Agent(np.eye(200), fn.SquaredNorm(1.0)) for _ in range(5)]
    with pytest.raises(npga.errors.InputError, match="limit"):
        npga.tune(npga.Problem(agents, fn.Ball(np.ones(200), 1.0)), npga.Network.ring(5), "nids", certified=True)


@pytest.mark.slow
def test_a_designed_version_is_proved_and_no_worse_than_a_row(setting, tuned):
    problem, network = setting
    found = npga.design(problem, network, 1, certified=True)
    assert found.certificate.instance.verify()
    assert found.rate <= 1.0 - 0.8 * (1.0 - tuned.rate)
    result = npga.solve(problem, network, found, found.steps)
    assert result.status.ok


def test_the_verdict_is_in_order(setting, tuned):
    star = npga.reference(setting[0])
    line = tuned.certificate.at_solution(star.x, star.lam).verdict
    assert "\n" not in line
    assert line.index("heorem") < line.index("instance proved") < line.index("linearised")
