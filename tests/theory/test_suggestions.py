"""When no theorem applies, what the certificate suggests is done here and works."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import npga
from helpers.families import random_problem
from npga import functions as fn
from npga.theory import certify

RING = npga.Network.ring(6)


def instance(coupling="equality", proximable="zero", smooth="squared-norm"):
    return random_problem(1, 6, 2, smooth, proximable, coupling, "dense", [2, 1, 1, 2, 1, 1])


@pytest.mark.parametrize("name", ["diging", "aug-dgm", "atc-tracking", "npga-i", "npga-ii"])
def test_lazy(name):
    cert = certify(instance(), RING, name)
    assert not cert.covered
    assert cert.suggestions[0].startswith("use network.lazy()")
    assert "network.lazy()" in cert.verdict
    assert certify(instance(), RING.lazy(), name).covered


def test_theta():
    steps = certify(instance(), RING, "nids").steps
    cert = certify(instance(), RING, "nids", replace(steps, theta=1.0))
    assert not cert.covered
    assert cert.suggestions[0].startswith("set theta = 0")
    assert certify(instance(), RING, "nids", steps).covered


def test_smaller_steps():
    cert = certify(instance(), RING, "nids", npga.Steps(10.0, 10.0, 0.5))
    assert "alpha = 10 is not below its bound" in cert.verdict
    numbers = cert.suggestions[0].removeprefix("use the steps ").split(":")[0]
    steps = npga.Steps(**{name: float(value) for name, value in (item.split("=") for item in numbers.split(", "))})
    assert steps.alpha < 10.0
    covered = certify(instance(), RING, "nids")
    assert (steps.alpha, steps.beta) == pytest.approx((covered.steps.alpha, covered.steps.beta), rel=1e-5)


def test_smaller_c():
    cert = certify(instance(), RING, npga.version("nids", c=1.4))
    assert any("c = 0.5" in text for text in cert.suggestions)
    assert certify(instance(), RING, npga.version("nids", c=0.5)).covered
    both = certify(instance(), RING, npga.version("p2d2", c=3.0))
    assert any("c = 1" in text for text in both.suggestions)


def test_a_preset_without_what_it_fixes():
    cert = certify(instance(), RING, "dcda")
    assert "without the prescribed theta, gamma" in cert.suggestions[0]
    assert certify(instance(), RING, "exact-diffusion").covered


def test_another_version():
    cert = certify(instance("ball"), RING, "nids")
    assert "'extra'" in cert.suggestions[0]
    assert certify(instance("ball"), RING, "extra").covered


def test_strong_convexity():
    agents = list(instance().agents)
    agents[3] = replace(agents[3], f=fn.Linear(1.0))
    cert = certify(npga.Problem(agents, instance().h), RING, "nids")
    assert any("agent 3" in text and "strong convexity" in text for text in cert.suggestions)
    agents[3] = replace(agents[3], f=fn.SquaredNorm(0.01))
    assert certify(npga.Problem(agents, instance().h), RING, "nids").covered


def test_a_smooth_coupling():
    cert = certify(instance("equality", "l1"), RING, "nids")
    assert any("smooth penalty" in text for text in cert.suggestions)
    assert certify(instance("squared-loss", "l1"), RING, "nids").covered


def test_nothing_is_suggested_that_does_not_work():
    """Neither strong convexity nor smoothness helps when no version covers the set-up: f is not smooth."""
    rough = fn.Custom(value=lambda x: np.sum(x**4), grad=lambda x: 4 * x**3)
    problem = npga.Problem([npga.Agent(A=np.eye(2), f=rough)] * 6, fn.Equality([1.0, 1.0]))
    cert = certify(problem, RING, "nids")
    assert not cert.covered
    assert cert.suggestions == ()


class TestLogisticRegression:
    """Experiment II: the pose of the paper is outside the theory, the loss in h is inside."""

    p, parties = 8, 4

    def data(self):
        rng = np.random.default_rng(0)
        X, y = rng.standard_normal((self.p, 10)), rng.choice([-1.0, 1.0], self.p)
        return np.array_split(X, self.parties, axis=1), fn.Logistic(y, 1 / self.p)

    def pose_of_the_paper(self):
        blocks, loss = self.data()
        agents = [npga.Agent(A=block, f=fn.SquaredNorm(0.1)) for block in blocks]
        return npga.Problem([*agents, npga.Agent(A=-np.eye(self.p), f=loss)], fn.Equality(np.zeros(self.p)))

    def test_refused_by_theorem_3_because_of_the_last_agent(self):
        cert = certify(self.pose_of_the_paper(), npga.Network.ring(self.parties + 1), "nids")
        theorem = cert.theorems["3"]
        assert theorem.applies is False
        assert theorem.reason.startswith(f"Assumption 3: f of agent {self.parties} is not strongly convex: mu = 0")
        assert theorem.bounds == {"alpha": 0.0, "beta": 0.0, "gamma": 0.0}
        assert not cert.covered
        assert cert.suggestions[0].startswith(f"put the loss of agent {self.parties} into h")

    def test_covered_when_the_loss_sits_in_h(self):
        blocks, loss = self.data()
        problem = npga.Problem([npga.Agent(A=block, f=fn.SquaredNorm(0.1)) for block in blocks], loss)
        cert = certify(problem, npga.Network.ring(self.parties), "nids")
        assert cert.best.key == "4+"
        assert cert.theorems["4"].applies
        assert cert.assumptions["10"].reason == f"l_h = {1 / (4 * self.p):.6g}"

    def test_the_suggestion_is_true(self):
        """The relay left behind by the loss keeps the network as it is, and the solutions agree."""
        blocks, loss = self.data()
        agents = [npga.Agent(A=block, f=fn.SquaredNorm(0.1)) for block in blocks]
        relay = npga.Agent(A=np.zeros((self.p, 0)), f=fn.Zero())
        moved = npga.Problem([*agents, relay], loss)
        assert certify(moved, npga.Network.ring(self.parties + 1), "nids").covered
        x = npga.reference(self.pose_of_the_paper()).x
        np.testing.assert_allclose(npga.reference(moved).x, x[: moved.d], atol=1e-8)
