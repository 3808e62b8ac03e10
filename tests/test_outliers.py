"""A measurement that all others contradict is named."""

import re

import numpy as np
import pytest

import pymc_active as pma

T = np.arange(48.0)


def outlier_of(fit):
    """The row of the measurement that all others contradict, and what they predict; or None."""
    said = [
        re.match(r"y\[(\d+)\] = \S+ is far from what all other data predict there, (\S+),", t) for t in pma.advise(fit)
    ]
    return next(((int(found[1]), float(found[2])) for found in said if found), None)


def season(seed=0):
    rng = np.random.default_rng(seed)
    return 200 + 3 * T + 30 * np.sin(2 * np.pi * T / 12) + 8 * rng.normal(size=48)


def fitted(y):
    return pma.fit(pma.composite_gp(T, y, "LIN + PER", bounds=[(0, 47)], period=12), random_seed=1, progressbar=False)


@pytest.mark.filterwarnings("ignore:y.20. = :pymc_active.DataWarning")
def test_a_slip_in_a_series_is_named_with_what_the_others_predict():
    y = season()
    y[20] += 800
    [text] = pma.advise(fitted(y))
    assert re.match(r"y\[20\] = \d+\.\d+ is far from .* predict there, 2\d\d", text)


def test_noise_and_kinks_are_no_outliers():
    assert not pma.advise(fitted(season()))
    x = np.linspace(-1, 1, 25)[:, None]
    kink = pma.ard_gp(x, np.abs(x[:, 0]), bounds=[(-1, 1)])
    assert not pma.advise(pma.fit_laplace(kink, random_seed=1, progressbar=False))


def test_among_few_data_the_slip_does_not_hide_in_the_noise_that_it_makes():
    rng, x = np.random.default_rng(1), np.linspace(-1, 1, 13)[:, None]
    y = np.sin(3 * x[:, 0]) + 0.03 * rng.normal(size=13)
    y[6] += 4
    fit = pma.fit_laplace(pma.ard_gp(x, y, bounds=[(-1, 1)]), random_seed=1, progressbar=False)
    row, predicted = outlier_of(fit)
    assert row == 6
    assert abs(predicted - np.sin(3 * x[6, 0])) < 0.2
    others = np.delete(np.arange(13), 6)
    without = pma.fit_laplace(pma.ard_gp(x[others], y[others], bounds=[(-1, 1)]), random_seed=1, progressbar=False)
    assert outlier_of(without) is None


def test_a_place_that_the_others_do_not_know_is_no_outlier():
    """Only the row is at the top of a steep peak, far from all others."""
    x = np.append(np.linspace(-1, 0, 12), 1.0)[:, None]
    y = np.append(np.sin(3 * x[:-1, 0]), 9.0)
    fit = pma.fit_laplace(pma.ard_gp(x, y, bounds=[(-1, 1)]), random_seed=1, progressbar=False)
    assert outlier_of(fit) is None


@pytest.mark.parametrize(("n", "is_named"), [(8, False), (10, True)])
def test_the_others_are_twice_as_many_as_the_four_parameters(n, is_named):
    x = np.linspace(-1, 1, n)[:, None]
    y = 2 * x[:, 0] + 0.02 * np.random.default_rng(0).normal(size=n)
    y[n // 2] += 4
    fit = pma.fit_laplace(pma.ard_gp(x, y, bounds=[(-1, 1)]), random_seed=1, progressbar=False)
    assert (outlier_of(fit) is not None) == is_named


def test_advice_needs_a_fit():
    with pytest.raises(TypeError, match=r"advise takes a fit of one model, of several .*best; got GPModel"):
        pma.advise(pma.ard_gp([[0.0]], [1.0]))
