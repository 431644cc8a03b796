"""When no theorem applies, what the certificate suggests is done here and works."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import npga
from helpers.families import VERSIONS, random_problem
from npga import functions as fn
from npga.theory import certify

RING = npga.Network.ring(6)


def instance(coupling="equality", proximable="zero", smooth="squared-norm"):
    return random_problem(1, 6, 2, smooth, proximable, coupling, "dense", [2, 1, 1, 2, 1, 1])


def typed(text):
    """The steps of a printed suggestion, as a user types them in."""
    numbers = text.removeprefix("use the steps ").split(":")[0]
    return npga.Steps(**{name: float(value) for name, value in (item.split("=") for item in numbers.split(", "))})


@pytest.mark.parametrize("name", VERSIONS)
def test_no_version_needs_the_lazy_network(name):
    """W has negative eigenvalues here: read in gamma B^2, the theorems cover every row as it stands."""
    assert certify(instance(), RING, name).covered


def test_lazy():
    """C = 1.6 (I - W) reaches beyond 2 I on W, and not on W'."""
    wide = npga.Version("wide", B2=[1, -1], C=[1.6, -1.6])
    cert = certify(instance(), RING, wide)
    assert not cert.covered
    assert cert.suggestions[0].startswith("use network.lazy()")
    assert "network.lazy()" in cert.verdict
    assert certify(instance(), RING.lazy(), wide).covered


def test_theta():
    steps = replace(certify(instance(), RING, "nids").theorems["3"].steps, gamma=1e-3)
    cert = certify(instance(), RING, "nids", replace(steps, theta=1.0))
    assert not cert.covered
    assert cert.suggestions[0].startswith("set theta = 0")
    assert certify(instance(), RING, "nids", steps).covered


def test_smaller_steps():
    cert = certify(instance(), RING, "nids", npga.Steps(10.0, 10.0, 0.5))
    assert "alpha = 10 is not below its bound" in cert.verdict
    steps = typed(cert.suggestions[0])
    assert steps.alpha < 10.0
    covered = certify(instance(), RING, "nids")
    assert (steps.alpha, steps.beta) == pytest.approx((covered.steps.alpha, covered.steps.beta), rel=1e-5)


@settings(max_examples=60, deadline=None)
@given(
    seed=st.integers(0, 10**6),
    n=st.integers(2, 8),
    name=st.sampled_from([*VERSIONS, "dcpa", "dcda"]),
    coupling=st.sampled_from(["equality", "ball", "squared-loss", "huber"]),
    lazy=st.booleans(),
    scale=st.sampled_from([1e-6, 1.0, 1e5]),
)
def test_printed_steps_can_be_typed_back(seed, n, name, coupling, lazy, scale):
    sizes = np.random.default_rng(seed).integers(1, 4, n)
    sizes[0] = 2
    problem = random_problem(seed, n, 2, "quadratic", "zero", coupling, "dense", sizes)
    problem = npga.Problem([replace(agent, A=scale * agent.A) for agent in problem.agents], problem.h)
    network = npga.Network.erdos_renyi(n, 0.5, seed=seed)
    network = network.lazy() if lazy else network
    refused = certify(problem, network, name, replace(npga.Steps(1e9, 1e9, 1e9), **npga.version(name).fixed))
    assert not refused.covered
    best = certify(problem, network, name)
    lines = [line for line in refused.suggestions if line.startswith("use the steps")]
    assert bool(lines) == best.covered
    for line in lines:
        again = certify(problem, network, name, typed(line))
        assert again.covered
        assert again.best.gap >= 0.998 * best.best.gap
    if best.covered:  # the line of the certificate itself, which prints all digits
        line = str(best).splitlines()[1].split(": ")[1].replace(" = ", "=")
        assert certify(problem, network, name, typed(line)).best.gap == best.best.gap


def test_smaller_c():
    cert = certify(instance(), RING, npga.version("nids", c=2.4))  # D has the eigenvalue 1 - 2.4 (4/3)
    assert any("c = 1:" in text for text in cert.suggestions)
    assert certify(instance(), RING, npga.version("nids", c=1.0)).covered
    assert certify(instance(), RING, npga.version("p2d2", c=3.0)).covered  # only gamma B^2 matters


def test_a_preset_without_what_it_fixes():
    greedy = replace(npga.version("exact-diffusion"), fixed={"gamma": 3.0})
    cert = certify(instance(), RING, greedy)
    assert "without the prescribed gamma" in cert.suggestions[0]
    assert certify(instance(), RING, "exact-diffusion").covered


def test_another_version():
    cert = certify(instance("ball"), RING, "nids")
    assert "'extra'" in cert.suggestions[0]
    assert certify(instance("ball"), RING, "extra").covered


@pytest.mark.parametrize("flat", [fn.Linear(1.0), fn.Logistic([1.0]), fn.Huber(0.5)])
def test_strong_convexity(flat):
    agents = list(instance().agents)
    agents[2] = replace(agents[2], f=flat)
    cert = certify(npga.Problem(agents, instance().h), RING, "nids")
    line = next(text for text in cert.suggestions if "strong convexity" in text)
    assert "to f of agent 2" in line
    weight = float(line.split("fn.SquaredNorm(")[1].split(")")[0])
    agents[2] = replace(agents[2], f=flat + fn.SquaredNorm(weight))
    assert certify(npga.Problem(agents, instance().h), RING, "nids").covered


@pytest.mark.parametrize("h", [fn.SquaredLoss([1.0, 2.0], 1.0), fn.Huber(1.0)])
def test_a_smooth_coupling(h):
    problem = instance("equality", "l1")
    cert = certify(problem, RING, "nids")
    assert any(
        "smooth penalty, such as fn.SquaredLoss(target, 1.0) or fn.Huber(1.0)" in text for text in cert.suggestions
    )
    assert certify(npga.Problem(problem.agents, h), RING, "nids").covered


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
