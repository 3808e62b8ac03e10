"""Additional noise of outcomes: distributions made anew by hand, derivatives by differences, and what it is for."""

import numpy as np
import pymc as pm
import pytensor.tensor as pt
import pytest
from nightly import nightly
from numpy.testing import assert_allclose
from scipy import stats
from scipy.special import logsumexp

import pymc_active as pma
from pymc_active.process.noise import noise_unit, noisier
from pymc_active.process.process import Process

V = 0.7
WIDER = [
    (pm.StudentT, {"nu": 3, "mu": 0.3, "sigma": 0.5}, {"sigma": np.hypot(0.5, np.sqrt(V))}),
    *nightly(
        (pm.Normal, {"mu": 0.3, "sigma": 0.5}, {"sigma": np.hypot(0.5, np.sqrt(V))}),
        (pm.LogNormal, {"mu": 0.3, "sigma": 0.5}, {"sigma": np.hypot(0.5, np.sqrt(V))}),
        (pm.Cauchy, {"alpha": 0.3, "beta": 0.5}, {"beta": np.hypot(0.5, np.sqrt(V))}),
        (pm.SkewNormal, {"mu": 0.3, "sigma": 0.5, "alpha": 2}, {"sigma": np.hypot(0.5, np.sqrt(V))}),
    ),
    (pm.TruncatedNormal, {"mu": 0.3, "sigma": 0.5, "lower": 0.0}, {"sigma": np.hypot(0.5, np.sqrt(V))}),
    (pm.Gamma, {"mu": 0.3, "sigma": 0.15}, {"sigma": 0.3 * np.sqrt(0.25 + V)}),
    (pm.Beta, {"mu": 0.3, "nu": 5.0}, {"nu": 5 / (1 + 5 * V)}),
    (pm.Weibull, {"alpha": 2.0, "beta": 0.4}, {"alpha": float(1 / np.sqrt(0.25 + V))}),
]


def log_density(rv, y):
    return pm.logp(rv, y).eval(mode="FAST_COMPILE")


@pytest.mark.parametrize(("distribution", "given", "changed"), WIDER, ids=lambda one: getattr(one, "__name__", ""))
def test_an_outcome_with_more_noise_is_the_distribution_with_a_larger_scale(distribution, given, changed):
    y = np.array([0.2, 0.6, 0.9])
    found = noisier(distribution.dist(**given, shape=3), pt.constant(V))
    expected = distribution.dist(**(given | changed), shape=3)
    assert_allclose(log_density(found, y), log_density(expected, y), rtol=1e-6)


def test_what_is_censored_or_mixed_has_more_noise_and_counts_have_none():
    y, wide = np.array([0.2, 0.6, 1.0]), np.hypot(0.5, np.sqrt(V))

    def censored(sigma):
        return pm.Censored.dist(pm.Normal.dist(0.3, sigma), lower=None, upper=1.0, shape=3)

    def mixed(sigma):
        return pm.Mixture.dist([0.9, 0.1], [pm.Normal.dist(0.3, sigma), pm.Normal.dist(1.3, sigma)], shape=3)

    for made in (censored, mixed):
        assert_allclose(log_density(noisier(made(0.5), pt.constant(V)), y), log_density(made(wide), y))
    counts = pm.ZeroInflatedPoisson.dist(0.5, 2.0), pm.Bernoulli.dist(0.3), pm.Censored.dist(pm.Poisson.dist(1), 0, 3)
    assert [noisier(rv, pt.constant(V)) for rv in counts] == [None] * 3
    covariance = np.array([[1.0, 0.3], [0.3, 2.0]])
    found = log_density(noisier(pm.MvNormal.dist(np.zeros(2), covariance), pt.constant(V)), y[:2])
    assert_allclose(found, stats.multivariate_normal(np.zeros(2), covariance + V * np.eye(2)).logpdf(y[:2]))


def test_noise_begins_in_the_units_of_the_outcome():
    y = np.array([1.0, 2.0, 6.0])
    assert_allclose(noise_unit(censored := pm.Censored.dist(pm.Normal.dist(), 0, 6), y), y.var())
    assert_allclose(noise_unit(censored, np.full(3, 4.0)), 16)
    for values in (np.zeros(3), np.empty(0)):
        assert noise_unit(pm.Normal.dist(), values) == 1
    assert noise_unit(pm.Gamma.dist(1, 1), y) == 1


def potential():
    slope, sd = pm.Normal("slope"), pm.HalfNormal("sd", 0.5)
    pm.Potential("known", -((slope - 0.4) ** 2))
    pm.Normal("y", slope * pm.Data("x", np.arange(4.0)), sd, observed=np.array([0.1, 0.4, 0.9, 1.1]))


def many():
    slope, sd = pm.Normal("slope"), pm.HalfNormal("sd", 0.5)
    pm.Normal("y", slope * pm.Data("x", np.linspace(0, 1, 60)), sd, observed=np.linspace(0, 1, 60) ** 2)


def counts():
    pm.Poisson("y", pt.exp(pm.Normal("a") * pm.Data("x", np.arange(4.0))), observed=np.array([1, 0, 2, 3]))


@pytest.mark.parametrize("write", [potential, counts, *nightly(many)], ids=lambda write: write.__name__)
def test_derivatives_in_parameters_and_noise_are_differences(write):
    with pm.Model() as model:
        write()
    process = Process(model)
    z, step = np.random.default_rng(0).normal(size=(5, process.n_parameters)), 1e-5
    path = process.posterior()
    for noise in (0.0, 2e-6, 0.3, 40.0):
        value, gradient, in_noise, _ = path.log_likelihoods(z, noise)
        for k in range(z.shape[1]):
            ahead, behind = (path.log_likelihoods(z + s * np.eye(z.shape[1])[k], noise).value for s in (step, -step))
            assert_allclose(gradient[:, k], (ahead - behind) / (2 * step), rtol=1e-5, atol=1e-6)
        # Of second order, ahead only, since noise is not negative; it acts on a scale of its own and of 1e-6.
        more = 1e-3 * (noise + 1e-6)
        ahead, further = (path.log_likelihoods(z, noise + k * more).value for k in (1, 2))
        assert_allclose(in_noise, (4 * ahead - further - 3 * value) / (2 * more), rtol=1e-4, atol=1e-4)
    prior, other = path.log_priors(z)[0], path.log_likelihoods(z)
    assert_allclose(path.values(z), prior + other.value)
    assert_allclose(path.likelihood_values(z), other.value)


@pytest.mark.parametrize(("n", "noise"), [(9, 0.002), *nightly((9, 0.3), (9, 0.02), (400, 0.3))])
def test_the_evidence_of_a_line_with_unknown_noise_is_an_integral(n, noise):
    """With a temperature alone particles do not reach small noise: of a line of twelve points 8,000 were 3 nats off."""
    x, rng = np.linspace(0, 1, n), np.random.default_rng(0)
    y = 0.5 + x + noise * rng.normal(size=n)
    with pm.Model() as model:
        mean = pm.Normal("level", 0, 2) + pm.Normal("slope", 0, 2) * pm.Data("x", x)
        pm.Normal("y", mean, pm.HalfNormal("sd", 0.5), observed=y)
    fit = pma.fit(model, random_seed=1, progressbar=False)
    log_sd, A = np.linspace(-9, 2, 4001), np.c_[np.ones(n), x]
    s2 = np.exp(2 * log_sd)
    precision = A.T @ A / s2[:, None, None] + np.eye(2) / 4
    log = stats.halfnorm(scale=0.5).logpdf(np.exp(log_sd)) + log_sd
    for k, s in enumerate(s2):
        b = A.T @ y / s
        square = y @ y / s - b @ np.linalg.solve(precision[k], b)
        log[k] -= 0.5 * (square + n * np.log(2 * np.pi * s) + np.linalg.slogdet(4 * precision[k])[1])
    expected = logsumexp(log) + np.log(log_sd[1] - log_sd[0])
    assert fit.log_evidence_error < 0.4
    assert abs(fit.log_evidence - expected) < 4 * fit.log_evidence_error
    # As many levels for many observations as for few, since particles follow the scale at a temperature.
    assert fit.diagnostics["n_levels"] < 80
    weights = np.exp(log - logsumexp(log))
    k = [str(label).startswith("sd") for label in fit.gpm.labels].index(True)
    mean = weights @ log_sd
    sd = np.sqrt(weights @ (log_sd - mean) ** 2)
    assert abs(fit.ensemble.thetas[:, k].mean() - mean) < 0.3 * sd
    assert_allclose(fit.ensemble.thetas[:, k].std(), sd, rtol=0.25)
