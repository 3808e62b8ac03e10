"""GP classifiers: Laplace's approximation, predictions and designs."""

import warnings

import numpy as np
import pandas as pd
import pymc as pm
import pytest
import xarray as xr
from arviz_base import from_dict
from numpy.testing import assert_allclose, assert_array_equal
from scipy import integrate, optimize
from scipy.special import log_ndtr, ndtr
from scipy.stats import multivariate_normal, norm

import pymc_active as pma
from pymc_active.active import bald_from_trace, bald_probit
from pymc_active.classification.bald import expected_entropy
from pymc_active.classification.latent import LatentEP, LatentMode
from pymc_active.support.user_warnings import DoubtfulFitWarning


def data(n=12, D=2, seed=1):
    rng = np.random.default_rng(seed)
    X = rng.uniform(-2, 2, size=(n, D))
    return X, X[:, 0] + 0.3 * rng.normal(size=n) > 0


@pytest.fixture(scope="module")
def fit():
    return pma.fit_probit(pma.probit_gp(*data(), mean="constant"), random_seed=1, progressbar=False)


@pytest.fixture(scope="module")
def pool():
    return np.random.default_rng(2).uniform(-3, 3, size=(60, 2))


def covariance(X, Z, log_lengthscale=0.0, log_outputscale=0.0):
    r = (X[:, None] - Z[None]) / np.exp(log_lengthscale)
    return np.exp(2 * log_outputscale - 0.5 * np.square(r).sum(-1))


def orthant(K, sign, mean=0.0):
    """Exact probability of the labels: noise of the probit and latent function together are one Gaussian."""
    cov = sign[:, None] * (K + np.eye(len(K))) * sign
    return multivariate_normal.cdf(sign * mean, cov=cov, abseps=1e-5, releps=1e-5)


# The latent function.


def test_mode_and_evidence_are_those_of_plain_optimisation():
    """Two data; the mode by a general optimiser, the curvature by differences of the log density."""
    K, sign, mean = np.array([[2.0, 0.7], [0.7, 1.5]]), np.array([1.0, -1.0]), 0.4

    def negative(f):
        return 0.5 * (f - mean) @ np.linalg.solve(K, f - mean) - log_ndtr(sign * f).sum()

    found = optimize.minimize(negative, np.zeros(2), method="Nelder-Mead", options={"xatol": 1e-10, "fatol": 1e-14})
    mode = LatentMode(K.copy(), mean, sign)
    assert_allclose(mode.f, found.x, atol=1e-6)
    h, E = 1e-3, np.eye(2)
    H = [
        [
            sum(s * t * negative(found.x + h * (s * a + t * b)) for s in (1, -1) for t in (1, -1)) / (4 * h * h)
            for a in E
        ]
        for b in E
    ]
    expected = -found.fun - 0.5 * np.log(np.linalg.det(K) * np.linalg.det(H))
    assert mode.log_likelihood == pytest.approx(expected, abs=1e-5)


def test_identities_at_the_mode():
    """R&W eqs. 3.17 and 3.24, with explicit inverses."""
    X, labels = data()
    sign, mean = np.where(labels, 1.0, -1.0), -0.3
    K, cross = covariance(X, X) + 1e-9 * np.eye(12), covariance(X, X[:3] + 0.5)
    mode = LatentMode(K, mean, sign)
    z = sign * mode.f
    ratio = np.exp(norm.logpdf(z) - log_ndtr(z))
    assert_allclose(mode.f, mean + K @ (sign * ratio), atol=1e-8)
    W = ratio * (z + ratio)
    found_mean, found_variance = mode.moments(mean, cross, np.ones(3))
    assert_allclose(found_mean, mean + cross.T @ (sign * ratio), atol=1e-8)
    assert_allclose(found_variance, 1 - np.diag(cross.T @ np.linalg.inv(K + np.diag(1 / W)) @ cross), atol=1e-8)


@pytest.mark.parametrize("approximation", ["laplace", "ep"])
@pytest.mark.parametrize("mean", ["zero", "constant"])
@pytest.mark.parametrize("kernel", ["ExpQuad", "Matern12", "Matern32", "Matern52"])
def test_gradient_is_that_of_central_differences(kernel, mean, approximation):
    gp = pma.probit_gp(*data(), kernel=kernel, mean=mean, x_scale="unit")
    posterior = gp.posterior(approximation)
    # Rounding of squared distances near zero is rounding of its root in a kernel with a kink: 1e-10, over h.
    tolerance = 1e-4 if kernel == "Matern12" else 2e-8
    rng, h = np.random.default_rng(3), 1e-5
    for _ in range(2):
        theta = posterior.prior.mean + 0.5 * rng.normal(size=len(posterior.prior.mean))
        _, gradient = posterior.value_and_gradient(theta)
        differences = [
            (posterior.value_and_gradient(theta + h * e)[0] - posterior.value_and_gradient(theta - h * e)[0]) / (2 * h)
            for e in np.eye(len(theta))
        ]
        assert_allclose(gradient, differences, atol=tolerance)


def test_fixed_parameters_have_no_gradient_and_change_nothing_else():
    X, labels = data()
    whole, part = (
        pma.probit_gp(X, labels, mean="constant", priors=priors).posterior()
        for priors in (None, {"log_outputscale": 0.7, "mean_constant": 0.2})
    )
    theta = np.array([0.3, 0.8, 0.7, 0.2])
    one, other = whole.latent(theta), part.latent(theta[:2])
    assert one.log_likelihood == pytest.approx(other.log_likelihood, abs=1e-12)
    assert part.value_and_gradient(theta[:2])[1].shape == (2,)


@pytest.mark.parametrize("approximation", [LatentMode, LatentEP])
@pytest.mark.parametrize("log_outputscale", [-4.0, 2.0, 6.0])
def test_extreme_latent_functions_stay_finite(approximation, log_outputscale):
    X = np.linspace(-1, 1, 6)[:, None]
    sign = np.array([1.0, -1, 1, -1, 1, -1])
    latent = approximation(covariance(X, X, 3.0, log_outputscale), 0.0, sign)
    G, in_mean = latent.gradient_weights()
    assert latent.converged
    assert np.isfinite(latent.log_likelihood)
    assert np.isfinite(G).all()
    assert np.isfinite(in_mean)


def test_evidence_is_near_the_exact_orthant_probability():
    """Laplace is low by 0.01 or less a datum at a moderate output scale, expectation propagation by 0.001."""
    X, labels = data(6)
    sign = np.where(labels, 1.0, -1.0)
    K = covariance(X, X)
    exact = np.log(orthant(K, sign, 0.3))
    assert -0.06 < LatentMode(K, 0.3, sign).log_likelihood - exact < 0
    assert abs(LatentEP(K, 0.3, sign).log_likelihood - exact) < 0.006


def test_one_datum_by_quadrature():
    """Expectation propagation is exact; Laplace has its known fault, a mode nearer to zero than the mean."""
    K, mean = np.array([[1.5]]), -0.2
    weight = [
        integrate.quad(lambda f, k=k: f**k * ndtr(f) * norm.pdf(f, mean, np.sqrt(1.5)), -15, 15, epsabs=1e-13)[0]
        for k in range(3)
    ]
    exact_mean = weight[1] / weight[0]
    exact_variance = weight[2] / weight[0] - exact_mean**2
    ep, laplace = (kind(K, mean, np.array([1.0])) for kind in (LatentEP, LatentMode))
    assert ep.log_likelihood == pytest.approx(np.log(weight[0]), abs=1e-10)
    assert_allclose(ep.moments(mean, K, K[0]), [[exact_mean], [exact_variance]], atol=1e-9)
    laplace_mean, laplace_variance = laplace.moments(mean, K, K[0])
    assert 0 < exact_mean - laplace_mean[0] < 0.15
    assert abs(laplace_variance[0] - exact_variance) < 0.1


def test_sites_match_moments_at_two_data():
    """Each marginal of the approximation is that of its cavity times the exact factor."""
    K, sign, mean = np.array([[2.0, 0.9], [0.9, 1.5]]), np.array([1.0, -1.0]), 0.3
    ep = LatentEP(K, mean, sign)
    m, v = ep.moments(mean, K, np.diag(K))
    precision = ep._root**2
    shift = np.linalg.solve(K, m - mean) + precision * (m - mean)
    cavity_v = 1 / (1 / v - precision)
    cavity_m = mean + cavity_v * ((m - mean) / v - shift)
    for i in range(2):
        tilted = [
            integrate.quad(
                lambda f, i=i, k=k: f**k * ndtr(sign[i] * f) * norm.pdf(f, cavity_m[i], np.sqrt(cavity_v[i])), -15, 15
            )[0]
            for k in range(3)
        ]
        assert m[i] == pytest.approx(tilted[1] / tilted[0], abs=1e-7)
        assert v[i] == pytest.approx(tilted[2] / tilted[0] - m[i] ** 2, abs=1e-7)


# Fits.


@pytest.mark.slow
def test_labels_that_alternate_are_a_mixture_of_modes():
    """Beside importance sampling from the prior, whose standard errors are about 0.03."""
    x = np.linspace(-1, 1, 24)[:, None]
    gp = pma.probit_gp(x, np.sin(4 * np.pi * x[:, 0]) > 0, mean="constant")
    found = pma.fit_probit(gp, random_seed=0, progressbar=False)
    assert found.diagnostics["n_modes"] > 1
    assert_allclose(found.weights.sum(), 1)
    posterior, rng = gp.posterior("ep"), np.random.default_rng(0)
    thetas = posterior.prior.mean + posterior.prior.sd * rng.normal(size=(3000, 3))
    latents = [posterior.latent(theta) for theta in thetas]
    logs = np.array([latent.log_likelihood for latent in latents])
    weights = np.exp(logs - logs.max()) / np.exp(logs - logs.max()).sum()
    expected = np.zeros(len(x))
    for theta, latent, weight in zip(thetas, latents, weights, strict=True):
        mean, variance = posterior.moments(theta, latent, gp.scale(x))
        expected += weight * ndtr(mean / np.sqrt(1 + variance))
    assert_allclose(found.predict(x).probability, expected, atol=0.1)
    assert found.log_evidence == pytest.approx(np.log(np.mean(np.exp(logs))), abs=0.3)


def test_fit_is_at_a_mode_whose_curvature_is_the_covariance(fit):
    posterior = fit._posterior
    value, gradient = posterior.value_and_gradient(fit.theta)
    assert np.abs(gradient).max() < 1e-4
    assert value == fit.log_posterior
    h = 1e-3
    for i in range(2):
        e = h * np.eye(len(fit.theta))[i]
        higher, lower = (posterior.value_and_gradient(fit.theta + s * e)[0] for s in (1, -1))
        assert -(higher - 2 * value + lower) / h**2 == pytest.approx(np.linalg.inv(fit.covariance)[i, i], rel=1e-4)
    assert fit.diagnostics["converged"]
    assert fit.diagnostics["n_starts"] == 6


def test_fit_is_reproducible(fit):
    again = pma.fit_probit(fit.gp, random_seed=1, progressbar=False)
    assert_array_equal(again.theta, fit.theta)


def test_probabilities_are_near_the_exact_ones():
    """Four labels; orthant probabilities averaged over hyperparameters by their exact posterior on a grid."""
    X, labels = data(4, 1)
    sign, X_new = np.where(labels, 1.0, -1.0), np.array([[-2.5], [0.1]])
    steps = np.linspace(-2.4, 2.4, 5)
    weights, conditional = [], []
    for length in steps:
        for scale in steps:
            weights.append(orthant(covariance(X, X, length, scale), sign) * norm.pdf(length) * norm.pdf(scale))
            both = [np.vstack([X, x]) for x in X_new]
            joint = [orthant(covariance(Z, Z, length, scale), np.append(sign, 1.0)) for Z in both]
            conditional.append(np.array(joint) * norm.pdf(length) * norm.pdf(scale))
    exact = np.sum(conditional, 0) / np.sum(weights)
    for approximation, tolerance in (("laplace", 0.05), ("ep", 0.02)):
        fit = pma.fit_probit(pma.probit_gp(X, labels), approximation=approximation, random_seed=1, progressbar=False)
        assert_allclose(fit.predict(X_new).probability, exact, atol=tolerance)


def test_flipped_labels_flip_the_probabilities(pool):
    X, labels = data()
    one, other = (pma.fit_probit(pma.probit_gp(X, y), random_seed=1, progressbar=False) for y in (labels, ~labels))
    assert_allclose(one.predict(pool).probability, 1 - other.predict(pool).probability, atol=1e-6)
    assert_allclose(bald_probit(one, pool), bald_probit(other, pool), atol=1e-6)


def test_units_of_inputs_do_not_matter(pool):
    X, labels = data()
    one = pma.fit_probit(pma.probit_gp(X, labels), random_seed=1, progressbar=False)
    other = pma.fit_probit(
        pma.probit_gp(1000 * X + 5000, labels, x_scale=(5000, 1000)), random_seed=1, progressbar=False
    )
    assert_allclose(one.predict(pool).probability, other.predict(1000 * pool + 5000).probability, atol=1e-6)
    assert_allclose(1000 * one.constrained_point["lengthscale"], other.constrained_point["lengthscale"], rtol=1e-5)


def test_one_class_only_is_legal(pool):
    fit = pma.fit_probit(pma.probit_gp(data()[0], np.ones(12), mean="constant"), random_seed=1, progressbar=False)
    p = fit.predict(pool).probability
    assert fit.diagnostics["converged"]
    assert ((p > 0.5) & (p < 1)).all()


def test_far_away_is_as_likely_as_the_mean_says(fit):
    assert pma.fit_probit(pma.probit_gp(*data()), random_seed=1, progressbar=False).predict(
        [[1e6, 1e6]]
    ).probability == pytest.approx(0.5)
    # The mean of points that are symmetric about the mode.
    assert fit.predict([[1e6, 1e6]]).f_mean.item() == pytest.approx(fit.constrained_point["mean_constant"])


def test_new_data_keep_the_scale_and_old_fits_their_data():
    X, labels = data()
    gp = pma.probit_gp(X, labels, x_scale="unit")
    fit = pma.fit_probit(gp, random_seed=1, progressbar=False)
    before = fit.predict(X[:2])
    gp.set_data(np.vstack([X, [[9.0, 9.0]]]), np.append(labels, True))
    xr.testing.assert_identical(fit.predict(X[:2]), before)
    assert_allclose(gp.scale(X).max(0), 1)
    warm = pma.fit_probit(gp, start=fit, n_restarts=0)
    assert len(warm.labels) == 13
    assert warm.diagnostics["n_starts"] == 3
    assert gp.model["y"].eval(mode="FAST_COMPILE").shape == (13,)


def test_pymc_model_has_the_same_density():
    """Prior of parameters and whitened latent values, and labels, added up by hand."""
    X, labels = data(5)
    gp = pma.probit_gp(X, labels, x_scale=(1.0, 2.0), mean="constant", priors={"log_lengthscale": 0.2})
    rng = np.random.default_rng(4)
    point = {"log_outputscale": np.array(0.3), "mean_constant": np.array(-0.4), "f_rotated_": rng.normal(size=5)}
    Z = (X - 1) / 2
    K = covariance(Z, Z, 0.2, 0.3) + 1e-6 * np.eye(5)
    f = -0.4 + np.linalg.cholesky(K) @ point["f_rotated_"]
    expected = log_ndtr(np.where(labels, 1, -1) * f).sum() + sum(norm.logpdf(value).sum() for value in point.values())
    assert gp.model.compile_logp(mode="FAST_COMPILE")(point) == pytest.approx(expected, abs=1e-8)
    names = {variable.name for variable in gp.model.deterministics}
    assert {"outputscale", "f"} <= names


def test_a_doubtful_fit_says_so(monkeypatch):
    """Slopes are never exactly zero."""
    monkeypatch.setattr("pymc_active.classification.fit._FLAT", 0.0)
    with pytest.warns(DoubtfulFitWarning, match="stopped at a slope of .* nats per prior sd"):
        doubtful = pma.fit_probit(pma.probit_gp(*data()), n_restarts=0, random_seed=1, progressbar=False)
    [message] = doubtful.diagnostics["warnings"]
    assert message.split(".")[0] in " ".join(repr(doubtful).split())


# Designs.


@pytest.mark.parametrize("sd", [1e-6, 1e-3, 0.3, 1.0, 5.0, 300.0])
@pytest.mark.parametrize("mean", [0.0, 1.3, -6.0, 40.0])
def test_expected_entropy_is_that_of_adaptive_quadrature(mean, sd):
    def integrand(f):
        return -norm.pdf(f, mean, sd) * (ndtr(f) * log_ndtr(f) + ndtr(-f) * log_ndtr(-f))

    low, high = max(mean - 10 * sd, -12), min(mean + 10 * sd, 12)
    expected = integrate.quad(integrand, low, high, limit=400, epsabs=1e-12)[0] if low < high else 0.0
    assert expected_entropy(np.array([[mean]]), np.array([[sd**2]])).item() == pytest.approx(expected, abs=1e-9)


def test_nothing_is_learned_of_a_known_function():
    probability = ndtr(0.4)
    entropy = -probability * np.log(probability) - (1 - probability) * np.log(1 - probability)
    assert expected_entropy(np.array([[0.4]]), np.array([[0.0]])).item() == pytest.approx(entropy, abs=1e-9)


def test_function_tells_of_its_hyperparameters(fit, pool):
    f, hyperparameters = (bald_probit(fit, pool, about=about) for about in ("f", "hyperparameters"))
    assert (hyperparameters <= f + 1e-12).all()
    assert hyperparameters.max() > 1e-3
    assert f.max() < np.log(2)


def test_information_agrees_with_exact_draws_of_the_function():
    """BALD from a trace: the function at data and pool from its prior, kept with the labels' probability."""
    X, labels = np.array([[-1.0], [0.5], [1.0]]), np.array([False, True, True])
    pool = np.linspace(-2, 4, 7)[:, None]
    rng, Z = np.random.default_rng(5), np.vstack([X, pool])
    f = rng.multivariate_normal(np.zeros(len(Z)), covariance(Z, Z), size=16_000)
    f = f[rng.random(16_000) < ndtr(np.where(labels, 1, -1) * f[:, :3]).prod(1)]
    f = f[: len(f) // 4 * 4].reshape(4, -1, len(Z))
    with pm.Model() as model:
        index = pm.Data("index", np.arange(3))
        values = pm.Normal("values", shape=len(Z))
        pm.Bernoulli("y", p=0.5 * pm.math.erfc(-values[index] / np.sqrt(2)), observed=labels)
    trace = from_dict({"posterior": {"values": f}})
    exact = bald_from_trace(trace, model, np.arange(3, len(Z)), draws=f.shape[0] * f.shape[1])
    known = {"log_lengthscale": 0.0, "log_outputscale": pm.Normal.dist(0, 1e-3)}
    assert float(exact.standard_error.max()) < 0.005
    for approximation, tolerance in (("laplace", 0.03), ("ep", 0.015)):
        fit = pma.fit_probit(
            pma.probit_gp(X, labels, priors=known), approximation=approximation, random_seed=1, progressbar=False
        )
        assert_allclose(bald_probit(fit, pool), exact, atol=tolerance)


def test_labels_and_lazy_pools(fit, pool):
    dask_array = pytest.importorskip("dask.array")
    table = pd.DataFrame(pool, index=[f"c{i}" for i in range(len(pool))])
    score = bald_probit(fit, table)
    assert_array_equal(score.point, table.index)
    lazy = dask_array.from_array(pool, chunks=(25, 2))
    assert_allclose(bald_probit(fit, lazy).compute(), score, atol=1e-12)


def test_quantiles_are_those_of_the_mixture(fit, pool):
    predicted = fit.predict(pool[:3], quantiles=(0.05, 0.5, 0.95))
    assert predicted.probability_quantile.dims == ("quantile", "point")
    means, variances = fit.latent(pool[:3])
    rng, S = np.random.default_rng(1), 40_000
    draws = ndtr(means[:, None] + np.sqrt(variances)[:, None] * rng.normal(size=(len(means), S, 3))).reshape(-1, 3)
    for level, edges in zip((0.05, 0.5, 0.95), predicted.probability_quantile.to_numpy(), strict=True):
        assert_allclose((draws < edges).mean(0), level, atol=4 * np.sqrt(0.25 / len(draws)))
    assert "probability_quantile" not in fit.predict(pool[:3])
    with pytest.raises(ValueError, match="between 0 and 1"):
        fit.predict(pool, quantiles=(0.0, 0.5))


def test_probabilities_beside_a_sharp_change_are_those_of_nuts():
    """Four chains of pm.sample on ``gp.model``, 4,000 draws; Laplace's method says 0.11 and 0.88."""
    rng, x = np.random.default_rng(3), np.linspace(-1, 1, 24)[:, None]
    labels = rng.random(24) < ndtr((x[:, 0] - 0.2) / 0.1)
    fit = pma.fit_probit(pma.probit_gp(x, labels, bounds=[(-1, 1)]), random_seed=1, progressbar=False)
    assert_allclose(fit.predict(x[[5, 20]]).probability, [0.0122, 0.9686], atol=0.02)


def test_quantiles_are_those_of_the_mixture_of_gaussians(fit):
    x = np.linspace(fit.X.min(), fit.X.max(), 5)[:, None] + np.zeros(2)
    edges, (means, variances) = fit.predict(x, quantiles=(0.055, 0.945)).probability_quantile, fit.latent(x)
    for edge, share in zip(edges.to_numpy(), (0.055, 0.945), strict=True):
        below = ndtr((norm.ppf(edge) - means) / np.sqrt(variances)).mean(0)
        assert_allclose(below, share, atol=1e-6)


# Bad input.


@pytest.mark.parametrize(
    ("labels", "error", "message"),
    [
        ([1, -1, 1], ValueError, "got also -1"),
        ([0, 1, 2], ValueError, "got also 2"),
        ([0, 1, np.nan], ValueError, "got also nan"),
        (["yes", "no", "no"], TypeError, "labels == 'yes'"),
        ([True, False], ValueError, "one label for each of the 3 rows"),
        ([[True], [False], [True]], ValueError, "shape"),
    ],
)
def test_labels_that_are_not_yes_or_no_are_refused(labels, error, message):
    with pytest.raises(error, match=message):
        pma.probit_gp(np.arange(3.0)[:, None], labels)
    gp = pma.probit_gp(np.arange(3.0)[:, None], [0, 1, 1])
    with pytest.raises(error, match=message):
        gp.set_data(np.arange(3.0)[:, None], labels)
    assert_array_equal(gp.labels, [False, True, True])


# Scales.


def test_inputs_in_other_units_are_warned_of_or_scaled_by_bounds():
    rng = np.random.default_rng(0)
    T = np.column_stack([rng.uniform(300, 900, 30), rng.uniform(0.1, 5, 30)])
    labels = T[:, 0] + 50 * T[:, 1] > 700
    bounds = {"heat": (300, 900), "bar": (0, 5)}
    gp = pma.probit_gp(T, labels, bounds=bounds)
    assert gp.inputs == ["heat", "bar"]
    assert_allclose(gp.scale(np.array([[300.0, 5.0], [900.0, 0.0]])), [[-1, 1], [1, -1]])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        # The bounds made the scale, however little of them the data fill.
        pma.probit_gp(0.5 + 1e-3 * rng.uniform(size=(30, 2)), labels, bounds=[(0, 1)] * 2)
    with pytest.warns(pma.DataWarning, match="bar: from 0.001 to 5"):
        pma.probit_gp(T, labels, bounds={**bounds, "bar": (0.001, 5)})
