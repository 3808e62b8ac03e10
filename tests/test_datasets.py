"""Real data that packages bring."""

import numpy as np
from numpy.testing import assert_allclose

from pymc_active import datasets


def test_airline_is_the_series_of_box_and_jenkins():
    year, passengers = datasets.airline()
    assert_allclose(year["year"].iloc[[0, -1]], [1949 + 1 / 24, 1961 - 1 / 24])
    assert (len(passengers), passengers.sum(), passengers.min(), passengers.max()) == (144, 40363, 104, 622)


def test_mauna_loa_is_monthly_and_has_no_gaps_filled():
    year, co2 = datasets.mauna_loa()
    step = np.diff(year["year"])
    assert_allclose(step * 12, np.round(step * 12), atol=1e-8)
    # Three months of 1958 and three of 1964 were not measured.
    assert ((step * 12).round() > 1).sum() >= 2
    assert len(co2) == 521
    assert co2.between(310, 375).all()
