"""Quantiles and densities of Gaussian mixtures, and those that ``predict`` returns."""

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.stats import norm

import pymc_active as pma
from pymc_active.information.mixture_quantiles import mixture_cdf, mixture_log_density, mixture_quantiles

rng = np.random.default_rng(0)
MEANS, VARIANCES, WEIGHTS = rng.normal(size=(7, 5)), rng.uniform(1e-6, 4, size=(7, 5)), rng.dirichlet(np.ones(7))


def test_quantiles_invert_the_distribution():
    probabilities = np.array([0.001, 0.05, 0.5, 0.95, 0.999])
    for probability, values in zip(
        probabilities, mixture_quantiles(probabilities, MEANS, VARIANCES, WEIGHTS), strict=True
    ):
        assert_allclose(mixture_cdf(values, MEANS, VARIANCES, WEIGHTS), probability, rtol=1e-6)


def test_one_component_is_a_normal_distribution():
    mean, variance = np.array([[3.0]]), np.array([[4.0]])
    assert_allclose(mixture_quantiles(np.array([0.1]), mean, variance, np.ones(1)), [[norm.ppf(0.1, 3, 2)]], rtol=1e-12)
    values = np.array([1.5])
    assert_allclose(mixture_log_density(values, mean, variance, np.ones(1)), norm.logpdf(values, 3, 2), rtol=1e-12)


def test_the_density_is_the_slope_of_the_distribution():
    values, h = np.full(5, 0.3), 1e-6
    slope = mixture_cdf(values + h, MEANS, VARIANCES, WEIGHTS) - mixture_cdf(values - h, MEANS, VARIANCES, WEIGHTS)
    expected = np.exp(mixture_log_density(values, MEANS, VARIANCES, WEIGHTS))
    wide = VARIANCES.min(0) > 1e-3
    assert_allclose((slope / (2 * h))[wide], expected[wide], rtol=1e-5)


def test_predictions_have_quantiles_and_densities():
    x = np.linspace(-1, 1, 6)[:, None]
    fit = pma.fit(pma.ard_gp(x, np.sin(3 * x[:, 0])), random_seed=1, progressbar=False)
    X_new = np.array([[0.3], [3.0]])
    predicted = pma.predict(fit, X_new, quantiles=(0.25, 0.75), y_new=[0.5, 0.0])
    assert predicted.f_quantile.dims == ("quantile", "point")
    assert (predicted.y_quantile.diff("quantile") >= predicted.f_quantile.diff("quantile")).all()
    sd = np.sqrt(predicted.y_variance)
    # Far from the data the mixture is almost Gaussian, but wider than its quartiles say.
    assert (predicted.y_quantile.sel(quantile=0.75) - predicted.f_mean < 0.68 * sd).all()
    assert predicted.y_log_density.shape == (2,)


@pytest.mark.parametrize("quantiles", [(0.0, 0.5), [1.2], [[0.1]]])
def test_impossible_quantiles_are_refused(quantiles):
    x = np.linspace(-1, 1, 4)[:, None]
    fit = pma.fit(pma.ard_gp(x, x[:, 0]), n_particles=32, random_seed=1, progressbar=False)
    with pytest.raises(ValueError, match="quantiles must be probabilities"):
        pma.predict(fit, x, quantiles=quantiles)


def test_a_value_that_is_known_is_its_quantile():
    """As of a function at a point without noise; and probabilities may be as small as numbers are."""
    means, variances = np.array([[1.0, 2.0], [1.0, 3.0]]), np.array([[0.0, 1.0], [0.0, 0.0]])
    found = mixture_quantiles(np.array([0.05, 0.5, 0.95]), means, variances, np.array([0.5, 0.5]))
    assert_allclose(found[:, 0], 1.0)
    # The second one is at 3 with a probability of a half, which is passed from 0.42 to 0.92.
    assert_allclose(found[:, 1], [2 + norm.ppf(0.1), 3.0, 2 + norm.ppf(0.9)])
    [[tiny]] = mixture_quantiles(np.array([1e-200]), np.zeros((1, 1)), np.ones((1, 1)), np.ones(1))
    assert_allclose(tiny, norm.ppf(1e-200))


def test_quantiles_of_very_different_components_are_where_the_mixture_has_their_probability():
    rng = np.random.default_rng(0)
    weights, variances = rng.dirichlet(np.ones(64)), 10 ** rng.uniform(-12, 4, size=(64, 20))
    means = rng.normal(size=(64, 20)) * 10 ** rng.uniform(-3, 3, size=20)
    probabilities = np.array([1e-300, 1e-8, 0.5, 1 - 1e-9, 1 - 1e-15])
    found = mixture_quantiles(probabilities, means, variances, weights)
    for p, values in zip(probabilities, found, strict=True):
        assert_allclose(mixture_cdf(values, means, variances, weights), p, rtol=1e-6)
