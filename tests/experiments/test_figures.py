"""Figures: every version has a look of its own, labels do not overlap, and tables are all that is needed."""

import dataclasses

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import minimize

from npga.experiments import ALL_VERSIONS, Protocol
from npga.experiments._figures import draw_bands, draw_gaps, draw_ratios, family_of, gap_curves, look_of, spread
from npga.networks import Look, version_rows


def test_versions_differ_without_colour():
    assert set(version_rows()) | {"pga-central"} == set(ALL_VERSIONS)
    styles = {name: look_of(name) for name in ALL_VERSIONS}
    looks = [(style.dashes, style.marker, style.filled, style.width) for style in styles.values()]
    assert len(set(looks)) == len(looks)
    assert len({style.color for style in styles.values()}) == len(styles)
    assert len({style.label for style in styles.values()}) == len(styles)
    assert {family_of(name) for name in styles} == {"CTA", "ATC", "central"}


@given(st.lists(st.floats(0, 300), min_size=1, max_size=9))
def test_labels_are_moved_apart_and_stay_inside(wanted):
    places = spread(np.sort(wanted), 20.0, 0.0, 300.0)
    assert (np.diff(places) >= 20.0 - 1e-9).all()
    assert places[0] >= -1e-9
    assert places[-1] <= 300.0 + 1e-9


def test_labels_move_as_little_as_possible():
    wanted = np.array([50.0, 55.0, 58.0, 120.0, 200.0, 205.0])
    found = spread(wanted, 20.0, 0.0, 300.0)
    apart = [{"type": "ineq", "fun": lambda q, k=k: q[k + 1] - q[k] - 20.0} for k in range(5)]
    best = minimize(lambda q: ((q - wanted) ** 2).sum(), wanted + 20 * np.arange(6), constraints=apart, tol=1e-12)
    np.testing.assert_allclose(found, best.x, atol=1e-4)


def table(draws, rates):
    rows = []
    for draw in range(draws):
        for version, rate in rates.items():
            for setting, chosen in (("tuned", 1), ("tuned", 0), ("certified", 1)):
                k = 0
                while (gap := (rate + 0.004 * draw) ** k) > 1e-12:
                    rows.append({"repetition": draw, "version": version, "setting": setting, "chosen": chosen,
                                 "iteration": k, "round": 2 * k, "gap": gap if chosen else 1.0})  # fmt: skip
                    k += 4
    return rows


def test_only_the_chosen_tuned_runs_are_drawn():
    (curve,) = gap_curves(table(1, {"nids": 0.9}), "round")
    assert curve.low is None
    np.testing.assert_allclose(curve.gap, 0.9 ** (curve.x / 2))


def test_median_and_band_over_draws():
    (curve,) = gap_curves(table(5, {"nids": 0.9}), "iteration")
    part = curve.gap > 1e-11  # before the fastest run ends
    np.testing.assert_allclose(curve.gap[part], 0.908 ** curve.x[part], rtol=0.02)
    assert (curve.low <= curve.gap).all()
    assert (curve.gap <= curve.high).all()


@pytest.mark.parametrize(("draws", "names"), [(1, ALL_VERSIONS), (3, ("nids", "dcpa"))])
def test_figures_are_drawn_and_the_same_table_gives_the_same_files(tmp_path, draws, names):
    points = table(draws, {name: 0.5 + 0.03 * k for k, name in enumerate(names)})
    files = draw_gaps(points, "A title", tmp_path / "gap")
    assert [path.suffix for path in files] == [".png", ".pdf"]
    again = draw_gaps(points, "A title", tmp_path / "again")
    for one, other in zip(files, again, strict=True):
        assert one.read_bytes() == other.read_bytes()
    lines = [{"version": "nids", "iterations": [2.0, 3.0], "rounds": [1.0, 0.5]}]
    assert all(path.stat().st_size > 1000 for path in draw_ratios(lines, "A title", tmp_path / "ratio"))


@pytest.mark.parametrize("names", [("nids",), ("nids", "dcpa"), ALL_VERSIONS])
def test_bands_are_drawn_with_and_without_dcpa(tmp_path, names):
    points = table(3, {name: 0.5 + 0.03 * k for k, name in enumerate(names)})
    assert [path.name for path in draw_bands(points, "A title", tmp_path / "bands")] == ["bands.png", "bands.pdf"]


def test_a_new_row_of_the_version_table_is_drawn_as_it_says(tmp_path, monkeypatch):
    row = dataclasses.replace(version_rows()["nids"], title="NPGA-Toy", look=Look("Toy", "#123456", "-", "h"))
    monkeypatch.setitem(version_rows(), "toy", row)
    assert Protocol(versions=("toy", "dcpa")).versions == ("toy", "dcpa")
    assert (look_of("toy").color, family_of("toy")) == ("#123456", "ATC")
    assert len(draw_gaps(table(1, {"toy": 0.5, "dcpa": 0.6}), "A title", tmp_path / "gap")) == 2
