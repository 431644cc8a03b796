"""What is read off a curve, on curves whose answers are known."""

import numpy as np
import pytest
from scipy.stats import linregress

from npga.experiments._protocol import measured_rate, reached


def test_a_geometric_curve():
    k = np.arange(0, 400, 3)
    gap = 2.0 * 0.93**k
    assert measured_rate(k, gap) == pytest.approx(0.93, rel=1e-12)
    assert reached(k, gap, 1e-4) == next(i for i in k if 2.0 * 0.93**i <= 1e-4)


def test_the_regression_is_least_squares_between_the_levels():
    rng = np.random.default_rng(0)
    k = np.arange(500)
    gap = 0.95**k * np.exp(0.2 * rng.standard_normal(500))
    first, last = np.flatnonzero(gap <= 1e-3)[0], np.flatnonzero(gap >= 1e-10)[-1]
    slope = linregress(k[first : last + 1], np.log(gap[first : last + 1])).slope
    assert measured_rate(k, gap) == pytest.approx(np.exp(slope), rel=1e-12)


def test_a_dip_does_not_count_as_reached():
    k, gap = np.arange(5), np.array([1.0, 1e-9, 1e-3, 1e-9, 1e-10])
    assert reached(k, gap, 1e-8) == 3
    assert reached(k, gap, 1e-12) is None
    assert reached(k, np.array([1.0, 1e-9, np.nan, 1.0, np.nan]), 1e-8) is None


def test_no_rate_without_points():
    assert np.isnan(measured_rate(np.arange(3), np.array([1.0, 0.5, 0.2])))
