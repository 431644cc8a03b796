"""Random problems, versions and steps: no theorem and no instance certificate is violated along a run."""

from __future__ import annotations

import numpy as np
import pytest

import npga
from helpers.families import COUPLING, PROXIMABLE, SMOOTH, VERSIONS, random_problem
from helpers.instance_runs import fixed_point, matrices, run
from helpers.oracles import square_root
from npga import functions as fn

SMALL, ALL, PART = 24, 4000, 20


def draw(seed):
    """A small problem, a network, a version and steps, from cautious to wild."""
    rng = np.random.default_rng(seed)
    n, p = int(rng.integers(1, 6)), int(rng.integers(1, 4))
    kinds = {
        "smooth": str(rng.choice(list(SMOOTH))),
        "proximable": str(rng.choice([*PROXIMABLE, *["zero"] * 6])),
        "coupling": str(rng.choice(list(COUPLING))),
    }
    sizes = rng.integers(0 if n > 1 else 1, 4, n)
    sizes[0] += not sizes.any()  # relays alone are no problem
    problem = random_problem(seed, n, p, **kinds, sizes=sizes)
    network = npga.Network.erdos_renyi(n, 0.7, seed=seed) if n > 1 else npga.Network.complete(1)
    network = network.lazy() if rng.random() < 0.5 else network
    alpha = 10.0 ** rng.uniform(-1.5, 0.4) / (problem.curvature or 1.0)
    beta = 10.0 ** rng.uniform(-2.0, 0.5) / (alpha * (problem.sigma**2 or 1.0))
    own = tuple(alpha * rng.uniform(0.5, 1.5, n)) if rng.random() < 0.2 else alpha
    gamma, theta = 10.0 ** rng.uniform(-1.0, 0.4), float(rng.choice([0.0, rng.uniform(0.0, 2.0)]))
    return problem, network, npga.version(str(rng.choice(VERSIONS))), npga.Steps(own, beta, gamma, theta)


def violations(seed):
    """What was claimed, and by how much the run exceeds it: at most one if the claims are true."""
    problem, network, version, steps = draw(seed)
    cert = npga.certify(problem, network, version, steps)
    proved = cert.instance.standing == "proved"
    if not (proved or cert.covered):
        return cert.instance.standing, {}
    star = fixed_point(problem, steps)
    if problem.kkt(star[0], star[1]).overall > 1e-9 or problem.duals_are_unique(*star[:2]) is False:
        return cert.instance.standing, {}  # no solution to compare with, or many
    rng, worst = np.random.default_rng(seed), {"instance": 0.0, "theorem": 0.0}
    noise = 1e-7 * (1.0 + np.linalg.norm(star[0]) + np.linalg.norm(star[1]))
    for _ in range(3):
        start = [
            10.0 ** rng.uniform(-1, 3) * rng.standard_normal(s) for s in (problem.d, *[(problem.n, problem.p)] * 2)
        ]
        if proved:
            assert cert.instance.verify()
            sizes = run(problem, network, version, steps, star, start, 120)
            bound = cert.instance.constant * cert.instance.rate ** np.arange(121) * sizes[0]
            worst["instance"] = max(worst["instance"], float(np.max((sizes - noise) / (bound + 1e-300))))
        if cert.covered and not isinstance(steps.alpha, tuple):
            found = theorem_excess(problem, network, version, steps, cert.best, star, start, noise)
            worst["theorem"] = max(worst["theorem"], found)
    return cert.instance.standing, worst


def theorem_excess(problem, network, version, steps, best, star, start, noise):
    """Largest |x_k - x*| / (K delta^(k/2) |xi_0|) of a run with y_0 = 0, |xi|^2 = |x|^2 + c2 |lam|^2 + c3 |y|^2."""
    y = -np.linalg.pinv(square_root(matrices(network, version, steps)[0])) @ star[2]
    start = [start[0], start[1], y]
    sizes = run(problem, network, version, steps, star, start, 120, only_x=True)
    c2 = steps.alpha / steps.beta
    first = np.sqrt(sum(w * np.sum(part**2) for w, part in zip((1.0, c2, c2 / steps.gamma), start, strict=True)))
    bound = best.constant * best.rate ** (np.arange(121) / 2) * first
    return float(np.max((sizes - noise) / (bound + 1e-300)))


def check(seeds):
    standings = {}
    for seed in seeds:
        standing, worst = violations(seed)
        standings[standing] = standings.get(standing, 0) + 1
        assert max(worst.values(), default=0.0) <= 1.0, (seed, worst)
    return standings


def test_no_certificate_is_violated():
    standings = check(range(SMALL))
    assert standings["proved"] >= 3
    assert standings["refuted"] >= 1


@pytest.mark.slow
@pytest.mark.parametrize("part", range(PART))
def test_no_certificate_of_four_thousand_is_violated(part):
    check(range(part, ALL, PART))


def test_the_check_would_see_a_wrong_rate():
    """A bound that is too good is exceeded."""
    agents = [npga.Agent(np.eye(1), fn.SquaredNorm(1.0)) for _ in range(3)]
    problem, network = npga.Problem(agents, fn.SquaredLoss([1.0], 1.0)), npga.Network.ring(3)
    version, steps = npga.version("nids"), npga.Steps(0.3, 0.3)
    cert = npga.certify(problem, network, version, steps).instance
    start = [np.ones(3), np.ones((3, 1)), np.zeros((3, 1))]
    sizes = run(problem, network, version, steps, fixed_point(problem, steps), start, 80)
    assert sizes[-1] <= cert.constant * cert.rate**80 * sizes[0]
    assert sizes[-1] > cert.constant * (0.5 * cert.rate) ** 80 * sizes[0]
