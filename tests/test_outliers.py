"""A measurement that all others contradict is named."""

import warnings

import numpy as np
import pytest

import pymc_active as pma
from pymc_active.particles.outliers import warn_of_outlier

T = np.arange(48.0)


def season(seed=0):
    rng = np.random.default_rng(seed)
    return 200 + 3 * T + 30 * np.sin(2 * np.pi * T / 12) + 8 * rng.normal(size=48)


def fitted(y):
    return pma.fit(pma.composite_gp(T, y, "LIN + PER", bounds=[(0, 47)], period=12), random_seed=1, progressbar=False)


def test_a_slip_in_a_series_is_named_with_what_the_others_predict():
    y = season()
    y[20] += 800
    with pytest.warns(pma.OutlierWarning, match=r"^y\[20\] = \d+\.\d+ is far from .* predict there, 2\d\d") as caught:
        fitted(y)
    assert len(caught) == 1


def test_noise_and_kinks_are_no_outliers():
    with warnings.catch_warnings():
        warnings.simplefilter("error", pma.OutlierWarning)
        fitted(season())
        x = np.linspace(-1, 1, 25)[:, None]
        kink = pma.fit_laplace(pma.ard_gp(x, np.abs(x[:, 0]), bounds=[(-1, 1)]), random_seed=1, progressbar=False)
        warn_of_outlier(kink)
