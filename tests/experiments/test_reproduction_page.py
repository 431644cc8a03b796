"""The page of the paper's experiments says what its data say."""

from __future__ import annotations

import re

import numpy as np
import pytest

import reproduction


@pytest.fixture(scope="module")
def text():
    return reproduction.PAGE.read_text(encoding="utf-8")


def test_the_tables_are_computed_from_the_data_beside_them(text):
    assert reproduction.rewritten(text) == text


def test_every_figure_has_its_data_beside_it(text):
    figures = re.findall(r"\]\((figures/[\w-]+)\.png\)", text)
    assert figures
    for name in figures:
        assert f"({name}.csv)" in text
        assert (reproduction.PAGE.parent / f"{name}.csv").exists()


@pytest.mark.parametrize("name", ["ridge", "logistic", "elastic-net"])
def test_what_the_recommendations_say_of_rounds(name):
    """README.md and docs/choose.md: with free steps NIDS, then DLM and P2D2."""
    found = reproduction.chosen(name, "free")
    rounds = {version: np.median(reproduction.ratios(found, version, "rounds")) for version in found}
    assert (reproduction.ratios(found, "nids", "rounds") > 1.0).all()
    ranked = sorted(rounds, key=rounds.get)
    assert ranked[-1] == "nids"
    assert set(ranked[-3:-1]) == {"dlm", "p2d2"}


@pytest.mark.parametrize("name", ["ridge", "elastic-net"])
def test_what_the_recommendations_say_of_iterations_and_of_the_box(name):
    """NPGA-I and NPGA-II need the fewest iterations with free steps; in the box DLM is ahead in rounds."""
    found = reproduction.chosen(name, "free")
    iterations = {version: np.median(reproduction.ratios(found, version, "iterations")) for version in found}
    assert set(sorted(iterations, key=iterations.get)[-2:]) == {"npga-i", "npga-ii"}
    box = reproduction.chosen(name, "theorems")
    inside = {version: np.median(reproduction.ratios(box, version, "rounds")) for version in box}
    assert 1.0 < inside["nids"] < 1.2 < inside["dlm"] == max(inside.values())


def test_in_the_box_steps_are_in_the_box():
    for name in ("ridge", "logistic", "elastic-net"):
        for draws in reproduction.chosen(name, "theorems").values():
            for row in draws.values():
                assert float(row["gamma"]) <= 1.0
                assert row["version"] != "nids" or float(row["c"]) <= 0.5
