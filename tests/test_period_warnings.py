"""A period that was told is compared with what the data have."""

import itertools
import re

import numpy as np
import pytest
from numpy.testing import assert_allclose

import pymc_active as pma

X, BOX = 1990 + np.arange(48.0)[:, None] / 12, [(1990, 1994)]


def season(period, scale=1.0):
    """Of two waves, with a trend; ``period`` in months."""
    phase = 24 * np.pi * (X[:, 0] - 1990) / period
    noise = np.random.default_rng(0).normal(0, 0.1, len(X))
    return scale * (np.sin(phase) + 0.5 * np.sin(2 * phase) + 0.3 * (X[:, 0] - 1992) + noise)


def fitted(y, expression="LIN + PER", **keywords):
    gpm = pma.composite_gp(X, y, expression, **{"period": 1, "bounds": BOX, **keywords})
    return pma.fit_laplace(gpm, random_seed=1, progressbar=False)


def contradicted_period(fit):
    """The period that the data contradict, as advice has it, or None."""
    said = [re.match(r"the data show another period than period=(\S+), or", text) for text in pma.advise(fit)]
    return next((float(found[1]) for found in said if found), None)


@pytest.mark.parametrize("months", [pytest.param(7, marks=pytest.mark.nightly), 13.5, 24])
def test_a_wrong_period_is_named_in_units_of_the_input(months):
    assert contradicted_period(fitted(season(months))) == pytest.approx(1)


@pytest.mark.parametrize(
    ("expression", "months"),
    [
        pytest.param(*one, marks=[] if one in (("SE + PER0", 12), ("LIN + PER * SE", 6)) else pytest.mark.nightly)
        for one in itertools.product(("LIN + PER", "SE + PER", "SE + PER0", "LIN + PER * SE"), (12, 12.1, 6))
    ],
)
def test_the_right_period_and_its_half_are_believed(expression, months):
    assert contradicted_period(fitted(season(months), expression)) is None


def test_what_is_fixed_stays_so():
    fixed = {"log_noise": -2.0, "log_outputscale_PER": 0.0, "log_lengthscale_PER": 0.5}
    assert contradicted_period(fitted(season(7), priors=fixed)) == pytest.approx(1)
    assert contradicted_period(fitted(season(12), priors=fixed)) is None


def test_so_is_what_nobody_told():
    for gpm in (pma.composite_gp(X, season(7), "LIN + PER", bounds=BOX), pma.ard_gp(X, season(7), bounds=BOX)):
        fit = pma.fit_laplace(gpm, n_restarts=1, population=0, random_seed=1, progressbar=False)
        assert contradicted_period(fit) is None


@pytest.mark.nightly
def test_series_from_the_model_do_not_contradict_it():
    rng = np.random.default_rng(0)
    for _ in range(4):
        posterior = pma.composite_gp(X, X[:, 0], "SE + PER", period=1, bounds=BOX, y_scale=None).posterior()
        theta = posterior.prior.mean + posterior.prior.sd * rng.normal(size=len(posterior.prior.mean))
        factor = posterior.state(theta).factor
        assert contradicted_period(fitted(factor.L @ rng.normal(size=len(X)) - factor.residual, "SE + PER")) is None


def test_a_period_that_equal_steps_cannot_tell_is_named_where_predictions_depend_on_it():
    """The prior prefers periods of a tenth of the data, here 2.9 steps; 6.28 and 0.365 agree at all points."""
    x = np.linspace(0, 10, 30)
    y = np.sin(x) + 0.01 * np.random.default_rng(0).normal(size=30)
    gpm = pma.composite_gp(x, y, "PER", bounds=[(0, 10)])
    searched = pma.fit_laplace(gpm, random_seed=1, progressbar=False)
    # The mode of the largest evidence has the right period; that of the highest density has not.
    assert_allclose(pma.predict(searched, [5.4]).f_mean, np.sin(5.4), atol=0.1)
    fit = pma.fit_laplace(gpm, point=searched.point, optimize=False)
    # In step with the data.
    assert_allclose(pma.predict(fit, [310 / 29, 320 / 29]).f_mean, np.sin([310 / 29, 320 / 29]), atol=0.1)
    [text] = pma.advise(fit)
    assert "cannot tell the period 0.365 from 6.28, and predictions between" in text
    told = pma.composite_gp(x, y, "PER", bounds=[(0, 10)], period=6.28)
    told = pma.fit_laplace(told, random_seed=1, progressbar=False)
    assert_allclose(pma.predict(told, [5.4]).f_mean, np.sin(5.4), atol=0.1)


@pytest.mark.nightly
def test_where_points_are_uneven_nothing_is_to_be_said():
    x = np.sort(np.random.default_rng(1).uniform(0, 10, 30))
    fit = pma.fit_laplace(pma.composite_gp(x, np.sin(x), "PER", bounds=[(0, 10)], priors={"log_noise": -4.0}))
    assert not pma.advise(fit)
    assert_allclose(pma.predict(fit, [5.4]).f_mean, np.sin(5.4), atol=0.1)
