"""A measurement that all others contradict is named."""

import re
import warnings

import numpy as np
import pytest

import pymc_active as pma
from pymc_active.models.advice import advise_on

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


def repeats_named(X, y, priors=None):
    return [text for text in advise_on(pma.ard_gp(X, y, bounds=[(0, 1)] * 2, priors=priors)) if "repeat" in text]


def test_rows_that_were_entered_twice_are_named():
    """Not replicates, of which some may agree by chance, nor outputs that are few."""
    rng = np.random.default_rng(0)
    X, y = rng.uniform(size=(20, 2)), rng.normal(size=20)
    twice = np.r_[np.arange(20), [3, 7]]
    [message] = repeats_named(X[twice], y[twice])
    assert message.startswith("2 of 22 rows repeat others, outputs included, to the last digit")
    assert not repeats_named(X, y)
    assert not repeats_named(X[np.r_[twice, 5]], np.r_[y[twice], 0.3])
    assert not repeats_named(X[twice], np.round(y[twice]))
    # Of a known noise they cannot make less.
    assert not repeats_named(X[twice], y[twice], {"noise": 0.1})


def test_rows_that_were_entered_twice_are_named_by_a_fit_and_a_run(tmp_path):
    """Once: a loaded run knows."""
    rng = np.random.default_rng(0)
    twice, X, y = np.r_[np.arange(8), 3], rng.uniform(size=(8, 1)), rng.normal(size=8)
    gpm = pma.ard_gp(X[twice], y[twice], bounds=[(0, 1)])
    with pytest.warns(pma.DataWarning, match="1 of 9 rows repeat others"):
        pma.fit(gpm, random_seed=0, progressbar=False)
    learner = pma.Learner(gpm, bounds=[(0, 1)], random_seed=0)
    with pytest.warns(pma.DataWarning, match="1 of 9 rows repeat others"):
        learner.ask()
    with warnings.catch_warnings():
        warnings.simplefilter("error", pma.DataWarning)
        learner.save(tmp_path / "run.nc")
        loaded = pma.Learner.load(tmp_path / "run.nc")
        for run in (learner, loaded):
            run.tell([[0.5]], 0.1)
            run.ask()
