"""The shipped tables against facts that others have published about them."""

import numpy as np
import pytest

from npga.errors import InputError
from npga.experiments import load_boston, load_covtype
from npga.experiments._datasets import LARGEST, LEAST, shipped_table


def test_boston_is_the_published_table():
    raw = load_boston("raw")
    assert raw.X.shape == (506, 13)
    first = [0.00632, 18, 2.31, 0, 0.538, 6.575, 65.2, 4.09, 1, 296, 15.3, 396.9, 4.98]
    assert raw.X[0].tolist() == first
    assert raw.y[0] == 24.0
    assert raw.columns[0] == "crim"
    assert raw.columns[-1] == "lstat"
    # Summary statistics of the archive at lib.stat.cmu.edu, as in scikit-learn's description of the data.
    assert raw.y.mean() == pytest.approx(22.532806, abs=5e-7)
    assert (raw.y.min(), raw.y.max(), np.median(raw.y)) == (5.0, 50.0, 21.2)
    assert raw.X[:, 0].mean() == pytest.approx(3.613524, abs=5e-7)
    assert int(raw.X[:, 3].sum()) == 35  # tracts that bound the river
    assert int((raw.y == 50.0).sum()) == 16  # censored values


def test_boston_scalings_say_what_they_do():
    both, features = load_boston(), load_boston("z-score-features")
    for table in (both, features):
        np.testing.assert_allclose(table.X.mean(axis=0), 0.0, atol=1e-13)
        np.testing.assert_allclose(table.X.std(axis=0), 1.0, rtol=1e-13)
    assert both.y.std() == pytest.approx(1.0)
    assert np.array_equal(features.y, load_boston("raw").y)
    assert "506" in both.scaling
    assert "raw" in features.scaling


def test_covtype_sample_is_the_seeded_draw():
    header, table = shipped_table("covtype-2000.csv.gz")
    expected = np.sort(np.random.default_rng(0).choice(581_012, 2000, replace=False))
    assert np.array_equal(table[:, 0], expected)
    assert header[1] == "Elevation"
    assert header[-1] == "Cover_Type"
    assert table.shape == (2000, 56)
    assert ((table[:, 1:55] >= LEAST) & (table[:, 1:55] <= LARGEST)).all()
    # One wilderness area and one soil type for each cell.
    assert (table[:, 11:15].sum(axis=1) == 1).all()
    assert (table[:, 15:55].sum(axis=1) == 1).all()
    # 283,301 of 581,012 cells are of type 2; a sample of 2000 lies within four standard deviations.
    share = 283_301 / 581_012
    assert abs((table[:, 55] == 2).mean() - share) < 4 * np.sqrt(share * (1 - share) / 2000)


def test_covtype_labels_and_scaling():
    raw, scaled = load_covtype("raw"), load_covtype()
    _, table = shipped_table("covtype-2000.csv.gz")
    assert np.array_equal(scaled.y > 0, table[:, 55] == 2)
    assert set(scaled.y.tolist()) == {-1.0, 1.0}
    assert scaled.X.min() >= 0.0
    assert scaled.X.max() <= 1.0
    np.testing.assert_allclose(scaled.X * (LARGEST - LEAST) + LEAST, raw.X, atol=1e-9)
    standard = load_covtype("z-score").X
    assert np.isfinite(standard).all()
    assert set(np.round(standard.std(axis=0), 12)) <= {0.0, 1.0}


@pytest.mark.parametrize(("load", "owner"), [(load_boston, "CC0"), (load_covtype, "Jock A. Blackard")])
def test_tables_carry_their_notice_and_are_read_only(load, owner):
    table = load()
    assert owner in table.notice
    with pytest.raises(ValueError, match="read-only"):
        table.X[0, 0] = 1.0
    with pytest.raises(InputError, match="did you mean 'z-score'"):
        load("zscore")
