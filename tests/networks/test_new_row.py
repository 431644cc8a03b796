"""A row that is put into the version table appears everywhere: nothing else knows versions by their names."""

from __future__ import annotations

import numpy as np
import pytest

import npga
from npga import functions as fn
from npga.networks import Look, VersionRow, version_rows

HALF = (0.5, -0.5)
LOOK = Look("Toy", "#123456", "-", "*")


@pytest.fixture
def toy(monkeypatch):
    """NIDS under another name and with another largest c."""
    row = VersionRow(
        "NPGA-Toy",
        "Nobody 2025",
        lambda c: ((c, -c), (0.0,), (1.0 - c, c)),
        ("c(I - W)", "0", "I - c(I - W)"),
        LOOK,
        default_c=0.4,
        largest_c=0.5,
        tunes_c=True,
    )
    monkeypatch.setitem(version_rows(), "toy", row)
    return npga.version("toy")


@pytest.fixture
def problem():
    agents = [npga.Agent(np.eye(2), fn.SquaredNorm(1.0 + i)) for i in range(4)]
    return npga.Problem(agents, fn.Equality([1.0, 2.0]))


def test_it_is_listed_and_found(toy):
    assert "toy" in [row.name for row in npga.versions()]
    assert "NPGA-Toy" in [row.title for row in npga.versions(presets=False)]
    assert npga.version("NPGA Toy") == toy
    assert npga.version(toy, c=0.3).c == 0.3
    assert "toy" in repr(npga.versions())


def test_its_look_and_its_c_are_those_of_the_row(toy):
    assert toy.look is LOOK
    assert toy.c == 0.4
    assert toy.largest_c == 0.5


def test_tuning_searches_its_c(toy, problem):
    tuned = npga.tune(problem, npga.Network.ring(4), "toy", method="spectral", max_seconds=1.0)
    assert tuned.version.name == "toy"
    assert tuned.version.c != toy.c


def test_it_runs_and_is_certified_like_its_twin(toy, problem):
    network, steps = npga.Network.ring(4), npga.Steps(0.2, 0.3, 0.9)
    mine = npga.solve(problem, network, "toy", steps, max_iters=50, tol=None, path="vectorised")
    twin = npga.solve(problem, network, npga.version("nids", c=0.4), steps, max_iters=50, tol=None, path="vectorised")
    np.testing.assert_array_equal(mine.x, twin.x)
    assert npga.certify(problem, network, "toy").best.key == "3"


def test_suggestions_know_its_largest_c(toy, problem):
    refused = npga.certify(problem, npga.Network.complete(4), npga.version("toy", c=2.2))
    assert refused.best is None
    assert any("c = 0.5" in line for line in refused.suggestions)


def test_versions_of_your_own_have_a_look_and_no_c_to_tune():
    mine = npga.Version("mine", B2=[1, -1])
    assert mine.look == Look("mine")
    assert not mine.tunes_c
    # The name of a row does not make it one.
    assert not npga.Version("nids", B2=HALF).tunes_c
