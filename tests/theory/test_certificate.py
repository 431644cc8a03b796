"""What a certificate shows, what it accepts, and how large the set-up may be."""

from __future__ import annotations

import io
import json
import time
import tracemalloc
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from rich.console import Console

import npga
from helpers.families import VERSIONS, random_problem
from npga import functions as fn
from npga.theory import Certificate, certify
from npga.theory._smallest_eigenvalue import CouplingCurve

KEYS = ["1", "1+", "2", "3", "3+", "4", "4+"]
ASSUMPTIONS = ["1", "2", "3", "4.i", "4.ii", "4.iii", "4.iii+", "4.iv", "5.i", "5.ii", "6", "7", "8", "9", "10"]
NETWORK = npga.Network.ring(5)


@pytest.fixture
def problem():
    return random_problem(2, 5, 2, "quadratic", "zero", "equality", "dense", [2, 1, 1, 1, 1])


def test_the_verdict_is_one_line(problem):
    for name in VERSIONS:
        for steps in (None, npga.Steps(10.0, 10.0)):
            cert = certify(problem, NETWORK, name, steps)
            assert "\n" not in cert.verdict
            assert ("Theorem" in cert.verdict) or not cert.covered


def test_the_printed_table(problem):
    text = str(certify(problem, NETWORK, "nids"))
    lines = text.splitlines()
    for key in ASSUMPTIONS:
        assert any(line.startswith(f"{key} ") for line in lines)
    assert "ours: proof in npga's docs" in text
    assert "alpha = " in text
    assert max(len(line) for line in lines[2:]) <= 180


def test_a_report_says_what_its_reader_can_use():
    """Nothing twice, no names of Python, and a range where print has a number for each agent."""
    problem = random_problem(2, 5, 10, "quadratic", "l1", "squared-loss", "dense", [2, 2, 2, 2, 2])
    alphas = (0.123456789, 0.2, 0.3, 0.4, 0.512345678)
    cert = certify(problem, NETWORK, "nids", npga.Steps(alphas, 50.0, 0.9))
    assert "cert.instance" in cert.verdict
    said = cert.sections()[0]["text"]
    assert said[0].endswith(f"; {cert.suggestions[0]}.")
    assert said[1] == "A proof for this very instance was not looked for."
    line = "Steps (given): alpha = 0.1235 to 0.5123, one for each agent, beta = 50.0, gamma = 0.9, theta = 0.0."
    assert said[2] == line
    assert said[3] == ["alpha of each agent", ", ".join(map(repr, alphas))]
    assert len(said) == 4
    assert f"alpha = {list(alphas)}" in str(cert)
    several = replace(cert, suggest=lambda: ("do this", "do that")).sections()[0]["text"]
    assert several[0].endswith("; do this.")
    assert several[1] == "What would help as well: do that."
    small = random_problem(2, 3, 2, "quadratic", "zero", "squared-loss", "dense", [1, 1, 1])
    proved = certify(small, npga.Network.ring(3), "nids", npga.Steps(0.1, 0.01, 0.9))
    said = proved.sections()[0]["text"]
    assert said[1].startswith("Instance proved: rate ")
    assert f"The proof: {proved.instance.reason}." in said[1]
    assert said[2] == "Steps (given): alpha = 0.1, beta = 0.01, gamma = 0.9, theta = 0.0."


def test_the_dictionary_is_json(problem):
    for name in ("nids", npga.version("nids", c=3.0)):
        cert = certify(problem, NETWORK, name)
        data = json.loads(json.dumps(cert.to_dict(), allow_nan=False))
        assert list(data["theorems"]) == KEYS
        assert list(data["assumptions"]) == ASSUMPTIONS
        assert data["covered"] is cert.covered
        assert data["verdict"] == cert.verdict
    assert data["suggestions"]


def test_rich_html_and_latex(problem):
    cert = certify(problem, NETWORK, npga.version("nids", c=3.0))
    stream = io.StringIO()
    Console(file=stream, width=200).print(cert)
    assert "4.iii" in stream.getvalue()
    assert "what would help" in stream.getvalue()
    html = cert._repr_html_()
    assert html.count("<tr>") == len(KEYS) + len(ASSUMPTIONS) + 2
    assert "D^2 &lt;= I - s B^2" in html
    latex = certify(problem, NETWORK, "nids")._repr_latex_()
    assert latex.startswith("$$")
    assert latex.count(r"\\") == len(KEYS) + 1
    assert latex.count("{") == latex.count("}")
    assert repr(cert).startswith("Certificate('NPGA-NIDS")


def test_any_object_with_four_steps_will_do(problem):
    steps = npga.Steps(0.1, 0.1, 0.5, 0.0)
    duck = SimpleNamespace(alpha=0.1, beta=0.1, gamma=0.5, theta=0.0)
    assert certify(problem, NETWORK, "nids", duck).to_dict() == certify(problem, NETWORK, "nids", steps).to_dict()
    with pytest.raises(npga.errors.InputError, match=r"npga\.Steps"):
        certify(problem, NETWORK, "nids", (0.1, 0.1))


def test_what_does_not_fit_is_refused(problem):
    with pytest.raises(npga.errors.InputError, match="4 nodes and the problem 5 agents"):
        certify(problem, npga.Network.ring(4), "nids")
    with pytest.raises(npga.errors.InputError, match=r"npga\.Problem"):
        certify("problem", NETWORK, "nids")
    with pytest.raises(npga.errors.InputError, match=r"npga\.Network"):
        certify(problem, "network", "nids")
    with pytest.raises(npga.errors.InputError, match="fixes theta = 1"):
        certify(problem, NETWORK, "dcpa", npga.Steps(0.1, 0.1, 0.5, 0.25))
    with pytest.raises(npga.errors.VersionError, match="did you mean"):
        certify(problem, NETWORK, "nidz")


def test_the_same_input_gives_the_same_bits(problem):
    assert certify(problem, NETWORK, "nids").to_dict() == certify(problem, NETWORK, "nids").to_dict()


def test_a_certificate_cannot_be_changed(problem):
    cert = certify(problem, NETWORK, "nids")
    assert isinstance(cert, Certificate)
    with pytest.raises(AttributeError):
        cert.best = None


@settings(max_examples=60, deadline=None)
@given(
    seed=st.integers(0, 10**6),
    n=st.integers(2, 8),
    p=st.integers(1, 4),
    name=st.sampled_from(VERSIONS),
    coupling=st.sampled_from(["equality", "ball"]),
)
def test_what_is_not_decomposed_is_bounded_from_the_safe_side(seed, n, p, name, coupling):
    """With the np x np matrices out of bounds, every promise is weaker than the exact one, and not absurdly so."""
    from npga.theory import _smallest_eigenvalue

    sizes = np.random.default_rng(seed).integers(1, 4, n)
    sizes[0] = p
    problem = random_problem(seed, n, p, "quadratic", "zero", coupling, "dense", sizes)
    network = npga.Network.erdos_renyi(n, 0.5, seed=seed).lazy()
    exact = certify(problem, network, name)
    before = _smallest_eigenvalue.DENSE
    try:
        _smallest_eigenvalue.DENSE = 0
        bounded = certify(problem, network, name)
        same_steps = {k: certify(problem, network, name, t.steps) for k, t in exact.theorems.items() if t.applies}
    finally:
        _smallest_eigenvalue.DENSE = before
    for key in ("1", "1+", "2", "3", "3+"):
        assert bool(bounded.theorems[key].applies) == bool(exact.theorems[key].applies)
        if exact.theorems[key].applies:
            assert not bounded.theorems[key].exact
            assert 0.05 * exact.theorems[key].gap <= bounded.theorems[key].gap <= exact.theorems[key].gap * (1 + 1e-6)
            at = same_steps[key].theorems[key]
            assert at.applies is not False  # unknown at worst: the exact answer is yes
            assert not at.applies or at.gap <= exact.theorems[key].gap * (1 + 1e-9)


def test_the_coupling_curve_is_a_lower_bound_and_close():
    rng = np.random.default_rng(0)
    blocks = [rng.standard_normal((6, k)) for k in (1, 2, 3, 1, 4)]
    sigma = max(np.linalg.norm(b, 2) for b in blocks)
    eta = np.linalg.eigvalsh(sum(b @ b.T for b in blocks))[0]
    curve = CouplingCurve(blocks, eta, sigma)
    for x in np.geomspace(1e-8, 1e9, 200):
        true = np.linalg.eigvalsh(sum(b @ np.linalg.inv(np.eye(b.shape[1]) + x * b.T @ b) @ b.T for b in blocks))[0]
        assert curve(x) <= true * (1 + 1e-9) + 1e-16 * sigma**2 / (1 + x)
        if x * sigma**2 < 1e6:
            assert curve(x) >= 0.995 * true


def test_a_thousand_agents_with_a_thousand_rows():
    """np = 1e6: seconds, and far less memory than one np-vector squared."""
    n = p = 1000
    rng = np.random.default_rng(0)
    agents = [
        npga.Agent(A=rng.standard_normal((p, 3)) / np.sqrt(p), f=fn.SquaredNorm(1.0 + rng.random())) for _ in range(n)
    ]
    problem = npga.Problem(agents, fn.Equality(rng.standard_normal(p)))
    network = npga.Network.erdos_renyi(n, 0.02, seed=0).lazy()
    tracemalloc.start()
    began = time.perf_counter()
    cert = certify(problem, network, "npga-ii")
    seconds = time.perf_counter() - began
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert [key for key, t in cert.theorems.items() if t.applies] == ["1", "1+", "2", "3", "3+"]
    assert not cert.best.exact
    assert "bounded, not exact" in cert.verdict
    assert peak < 3e8
    assert seconds < 60  # about one second on an idle core


def test_ten_thousand_agents():
    network = npga.Network.random_geometric(10_000, 0.04, seed=0)
    problem = npga.Problem([npga.Agent(A=np.eye(2), f=fn.SquaredNorm(1.0))] * 10_000, fn.SquaredLoss([1.0, 2.0]))
    tracemalloc.start()
    assert [k for k, t in certify(problem, network, "extra").theorems.items() if t.applies] == ["1", "1+", "4", "4+"]
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 1e8  # one dense n x n matrix has 8e8 bytes
    assert [k for k, t in certify(problem, network, "nids").theorems.items() if t.applies] == ["4", "4+"]
    plain = certify(problem, network, "npga-ii")
    assert plain.assumptions["4.iii"].holds is (network.extreme_eigenvalues()[0] >= 0)
    assert plain.holds(4) is plain.assumptions["4.iii"].holds
    assert plain.holds(1)
    with pytest.raises(npga.errors.InputError, match="from 1 to 10"):
        plain.holds(11)
    for place in (network, network.lazy()):
        assert [k for k, t in certify(problem, place, "npga-i").theorems.items() if t.applies] == ["4", "4+"]
