"""Outcomes that are not normal: what they say about the latent function; models, fits, criteria and runs of them."""

import arviz_base
import numpy as np
import pandas as pd
import pymc as pm
import pytest
from nightly import nightly
from numpy.testing import assert_allclose, assert_array_equal
from scipy import stats
from scipy.special import log_ndtr, ndtr, xlogy
from scipy.stats import multivariate_normal

import pymc_active as pma
from pymc_active.criteria.improvement import ExpectedImprovement, UpperConfidenceBound
from pymc_active.likelihoods.by_name import LIKELIHOODS
from pymc_active.models.advice import advise_on
from pymc_active.posterior.conditioned import ConditionedGP
from pymc_active.posterior.row_space import find_space
from pymc_active.posterior.sites import EXACT, propagate
from pymc_active.predictions.latent_outcomes import LatentOutcomes
from pymc_active.predictions.mixtures import mixture
from pymc_active.predictions.predict import imagined

NAMES = sorted(LIKELIHOODS)
REAL = ("lognormal", "student_t", "warped")
# Data of which a map takes its level, its unit and its height.
MAPPED = np.array([-3.0, -1.0, 0.5, 1.0, 3.0, 4.0, 50.0])


def log_density(name, f, y, size, phi):
    """By SciPy, whose parameters differ from ours."""
    if name == "bernoulli":
        return stats.bernoulli.logpmf(y, ndtr(f))
    if name == "binomial":
        return stats.binom.logpmf(y, size, ndtr(f))
    if name == "poisson":
        return stats.poisson.logpmf(y, size * np.exp(f))
    if name == "student_t":
        return stats.t.logpdf(y, 2 + np.exp(phi[1]), f, np.exp(phi[0]))
    if name == "lognormal":
        return stats.lognorm.logpdf(y, np.exp(phi[0]), scale=np.exp(f))
    if name == "warped":
        power, level, unit = 2 * np.exp(phi[1]) / (1 + np.exp(phi[1])), np.median(MAPPED), 1.4826 * 2.0
        # As Box & Cox have it: residuals over the geometric mean of the slopes at the data.
        h = 1e-5
        ends = [stats.yeojohnson((MAPPED + s * h - level) / unit, power) for s in (-1, 1)]
        height = np.mean(np.log(np.diff(ends, axis=0) * unit / (2 * h)))
        z, above, below = (
            level + unit * stats.yeojohnson(np.atleast_1d((y + s * h - level) / unit), power) / np.exp(height)
            for s in (0, 1, -1)
        )
        return np.squeeze(stats.norm.logpdf(z, f, np.exp(phi[0])) + np.log((above - below) / (2 * h)))
    alpha = np.exp(phi[0])
    return stats.nbinom.logpmf(y, alpha, alpha / (alpha + size * np.exp(f)))


def of_mapped(name, own):
    """The likelihood's parameters with what it takes from the data."""
    likelihood = LIKELIHOODS[name]()
    return likelihood.given(own, likelihood.of_data(MAPPED))


def outcome(name, rng):
    """An outcome, its size, and parameters of the likelihood."""
    phi = of_mapped(name, [np.array([rng.normal()]) for _ in LIKELIHOODS[name].parameters])
    if name == "binomial":
        size = float(rng.choice([1, 5, 50]))
        return float(rng.integers(0, size + 1)), size, phi
    if name == "bernoulli":
        return float(rng.integers(2)), 1.0, phi
    if name in ("student_t", "warped"):
        return float(rng.choice([-30, -2, 0, 0.3, 7])), 1.0, phi
    if name == "lognormal":
        return float(rng.choice([1e-4, 0.3, 1, 40])), 1.0, phi
    return float(rng.choice([0, 1, 3, 20, 500])), float(rng.choice([1.0, 2.5])), phi


@pytest.mark.parametrize("name", NAMES)
def test_moments_of_the_function_given_an_outcome_are_those_of_a_fine_grid(name):
    rng = np.random.default_rng(1)
    for _ in range(25):
        (y, size, phi), m, v = outcome(name, rng), rng.normal(), np.exp(rng.uniform(-5, 1.5))
        reach = 9 * np.sqrt(v) + (abs(np.log((y + 0.5) / size) - m) if name in ("poisson", "negative_binomial") else 0)
        if name in ("lognormal", "warped"):
            reach += abs(LIKELIHOODS[name]().map(y, phi)[0].item() - m)
        f, step = np.linspace(m - reach, m + reach, 40_001, retstep=True)
        log = log_density(name, f, y, size, phi) + stats.norm.logpdf(f, m, np.sqrt(v))
        share = np.exp(log - log.max())
        log_z, share = np.log(share.sum() * step) + log.max(), share / share.sum()
        mean = share @ f
        variance = share @ np.square(f - mean)
        arguments = np.array([m]), np.array([v]), np.array([y]), np.array([size]), phi
        exact = LIKELIHOODS[name]().tilted(*arguments)
        near = LIKELIHOODS[name]().tilted(*arguments, (np.array([mean]), np.array([variance])))
        for found, tolerance in ((exact, 1e-4), (near, 3e-3)):
            assert_allclose(found.log_z, log_z, atol=tolerance)
            assert_allclose(m + v * found.slope, mean, atol=tolerance * np.sqrt(variance))
            assert_allclose(v - v * v * found.bend, variance, rtol=10 * tolerance)


@pytest.mark.parametrize("name", NAMES)
def test_slopes_in_parameters_and_powers_are_those_of_differences(name):
    rng, likelihood, h = np.random.default_rng(2), LIKELIHOODS[name](), 1e-4
    (y, size, phi), m, v = outcome(name, rng), np.array([0.3]), np.array([0.8])
    own = phi[: len(likelihood.parameters)]

    def log_z(power=0.7, **shifted):
        moved = [part + shifted.get(f"p{k}", 0.0) for k, part in enumerate(own)]
        return likelihood.tilted(m, v, np.array([y]), np.array([size]), of_mapped(name, moved), power=power)

    found = log_z()
    assert_allclose(found.in_power, (log_z(0.7 + h).log_z - log_z(0.7 - h).log_z) / (2 * h), rtol=1e-5)
    for k, slope in enumerate(found.in_phi):
        differences = (log_z(**{f"p{k}": h}).log_z - log_z(**{f"p{k}": -h}).log_z) / (2 * h)
        assert_allclose(slope, differences, rtol=1e-5, atol=1e-8)


@pytest.mark.parametrize("name", NAMES)
def test_moments_and_sums_of_outcomes_are_those_of_draws(name):
    rng, likelihood = np.random.default_rng(3), LIKELIHOODS[name]()
    # Variances of draws from a t need more degrees of freedom.
    values = {"log_nu_above_2": 2.0, "log_warp": 0.4}
    phi = of_mapped(name, [np.array([[values.get(parameter, 0.7)]]) for parameter, *_ in likelihood.parameters])
    if name == "lognormal":
        phi[0] -= 2
    mean, variance = np.array([[0.4]]), np.array([[0.3]])
    size = 7.0 if name == "binomial" else 1.0
    f = mean + np.sqrt(variance) * rng.normal(size=(1, 400_000))
    y = likelihood.draw(f, size, phi, rng)
    expected, spread = likelihood.moments(mean, variance, size, phi)
    rates = likelihood.rate(f, phi)
    if name in ("lognormal", "warped"):
        # Of equally probable values, which leave out the ends.
        middles = (np.arange(40) + 0.5) / 40
        y_known, rates_known = np.quantile(y, middles), np.quantile(rates, middles)
    else:
        y_known, rates_known = y, rates
    assert_allclose(expected, y_known.mean(), atol=5 * y.std() / np.sqrt(y.size))
    assert_allclose(spread, y_known.var(), rtol=0.03)
    rate, between = likelihood.rate_moments(mean, variance, phi)
    assert_allclose(rate, rates_known.mean(), atol=5 * rates.std() / np.sqrt(rates.size))
    assert_allclose(between, rates_known.var(), rtol=0.03)
    values, log_weights = likelihood.values(mean, variance, size, phi)
    log = likelihood.log_marginal(values[:, None], mean, variance, size, phi)[:, 0] + log_weights
    assert_allclose(np.exp(log).sum(), 1.0, atol=2e-3)
    assert_allclose((np.exp(log) * values).sum(), expected[0, 0], rtol=0.03)


def test_the_evidence_of_labels_is_near_the_exact_orthant_probability():
    rng = np.random.default_rng(4)
    X, y, mean = rng.uniform(-1, 1, size=(8, 2)), rng.integers(0, 2, 8), 0.3
    K = 4 * np.exp(-0.5 * np.square(X[:, None] - X).sum(-1))
    found = propagate(K[None], np.full((1, 8), mean), LIKELIHOODS["bernoulli"](), y, np.ones(8), [], None, EXACT)
    assert_allclose(found.value[0], np.log(orthant(K, 2 * y - 1, mean)), atol=0.03)
    assert found.error[0] <= EXACT


@pytest.mark.parametrize("name", NAMES)
def test_gradients_of_the_evidence_are_those_of_differences(name):
    posterior = pma.ard_gp(*data(name, 12, 5), bounds=[(-1, 1)] * 2, **like(name, 12)).posterior()
    rng = np.random.default_rng(5)
    theta, h = posterior.prior.mean + 0.3 * rng.normal(size=posterior.n_parameters), 1e-4
    state = posterior.state(theta)
    gradient = -posterior.likelihood_gradient(state)
    for k, e in enumerate(h * np.eye(len(theta))):
        ends = [posterior.state(theta + sign * e).factor.nll for sign in (1, -1)]
        assert_allclose(gradient[k], (ends[1] - ends[0]) / (2 * h), rtol=1e-4, atol=1e-4)
    # Particles are evaluated together, to an error that moves do not notice; from sites nearby as from none.
    thetas = theta + 0.1 * rng.normal(size=(6, len(theta)))
    rough = posterior.log_likelihoods(thetas)
    assert_allclose(rough.value, [-posterior.state(one).factor.nll for one in thetas], atol=0.05)
    again = posterior.log_likelihoods(thetas, 0.0, rough.sites[::-1].copy())
    assert_allclose(again.value, rough.value, atol=0.05)
    # Moves are accepted by values, so that these count.
    assert_allclose(again.gradient, rough.gradient, atol=0.15 * np.abs(rough.gradient).max())


def test_the_same_particle_has_the_same_bits_in_any_company():
    """A resumed run predicts in other blocks."""
    posterior = pma.ard_gp(*data("poisson", 12, 6), likelihood="poisson", bounds=[(-1, 1)] * 2).posterior()
    thetas = posterior.prior.mean + posterior.prior.sd * np.random.default_rng(6).normal(size=(9, 4))
    together, apart = posterior.light_states(thetas), [posterior.light_states(thetas[[k]])[0] for k in range(9)]
    for one, other in zip(together, apart, strict=True):
        assert_array_equal(one.factor.L, other.factor.L)
        assert_array_equal(one.factor.alpha, other.factor.alpha)


def test_the_evidence_with_an_outlier_is_that_of_draws_of_scales():
    """Given the precision of each outcome all is normal; draws of the precisions from their prior."""
    rng = np.random.default_rng(16)
    x, noise, nu = np.linspace(-1, 1, 7), 0.3, 3.0
    K = np.exp(-0.5 * np.square((x[:, None] - x) / 0.7))
    y = np.sin(2 * x) + np.where(np.arange(7) == 3, 4.0, 0.1)
    likelihood, phi = LIKELIHOODS["student_t"](), [np.array([[np.log(noise)]]), np.array([[np.log(nu - 2)]])]
    found = propagate(K[None], np.zeros((1, 7)), likelihood, y, np.ones(7), phi, None, EXACT)
    assert found.error[0] <= EXACT
    G = K + np.square(noise) / rng.gamma(nu / 2, 2 / nu, size=(200_000, 7))[:, :, None] * np.eye(7)
    logs = -0.5 * (np.einsum("i,si->s", y, np.linalg.solve(G, np.broadcast_to(y[:, None], (200_000, 7, 1)))[..., 0]))
    logs -= 0.5 * (np.linalg.slogdet(G)[1] + 7 * np.log(2 * np.pi))
    assert_allclose(found.value[0], np.log(np.mean(np.exp(logs))), atol=0.06)


@pytest.mark.parametrize(("name", "fixed"), [("lognormal", {}), ("warped", {"log_warp": 0.0}), ("warped", {})])
def test_mapped_outcomes_are_those_of_a_process_of_their_map(name, fixed):
    """Logarithms; no map at all; and the power of Yeo & Johnson, over the geometric mean of its slopes."""
    rng, warp = np.random.default_rng(19), 0.8
    X = rng.uniform(-1, 1, size=(9, 2))
    y = np.exp(X[:, 0] + 0.2 * rng.normal(size=9))
    level, unit = np.median(y), 1.4826 * np.median(np.abs(y - np.median(y)))
    power = 2 / (1 + np.exp(-warp))
    z = {"lognormal": np.log(y), "warped": y if fixed else stats.yeojohnson((y - level) / unit, power)}[name]
    log_slopes = {"lognormal": -np.log(y), "warped": np.zeros(9)}[name]
    if name == "warped" and not fixed:
        u = (y - level) / unit
        height = np.exp((power - 1) * np.mean(np.sign(u) * np.log1p(np.abs(u))))
        z = level + unit * z / height
    same = {"bounds": [(-1, 1)] * 2, "y_scale": (float(np.mean(z)), 1.3)}
    normal = pma.ard_gp(X, z, **same).posterior()
    mapped = pma.ard_gp(X, y, likelihood=name, priors=fixed or None, **same).posterior()
    thetas = normal.prior.mean + 0.5 * rng.normal(size=(5, normal.n_parameters))
    own = np.hstack([thetas, np.full((5, mapped.n_parameters - normal.n_parameters), warp)])
    one, two = normal.log_likelihoods(thetas, 0.1), mapped.log_likelihoods(own, 0.1)
    # The posterior of normal outcomes is of y in units of its scale.
    assert_allclose(two.value, one.value + log_slopes.sum(), rtol=1e-8)
    assert_allclose(two.gradient[:, : thetas.shape[1]], one.gradient, rtol=1e-7, atol=1e-9)


@pytest.mark.parametrize("name", REAL)
def test_the_pymc_model_of_real_outcomes_has_the_same_density(name):
    """In the user's units, which are far from those of the priors."""
    X, y = np.linspace(0, 1, 6)[:, None], np.array([900.0, 1100, 1000, 1500, 1050, 980])
    center, width = (7.0, 0.2) if name == "lognormal" else (1000.0, 100.0)
    gpm = pma.ard_gp(X, y, likelihood=name, mean="constant", y_scale=(center, width))
    own = {"warped": {"log_warp": np.array(-0.7)}, "student_t": {"log_nu_above_2": np.array(1.2)}}.get(name, {})
    point = {"log_lengthscale": np.array([-1.0]), "log_outputscale": np.array(0.3), "mean_constant": np.array(-0.4)}
    point |= {"log_noise": np.array(-1.5), **own, "f_rotated_": np.random.default_rng(17).normal(size=6)}
    K = covariance(X, X, -1.0, 0.3 + np.log(width)) + 1e-6 * np.eye(6)
    f, noise = center - 0.4 * width + np.linalg.cholesky(K) @ point["f_rotated_"], width * np.exp(-1.5)
    centers = {"log_noise": (np.log(0.1), 1.0), "log_warp": (0.0, 1.5), "log_nu_above_2": (np.log(5.0), 1.0)}
    expected = sum(stats.norm.logpdf(value, *centers.get(key, (0.0, 1.0))).sum() for key, value in point.items())
    if name == "lognormal":
        expected += stats.lognorm.logpdf(y, noise, scale=np.exp(f)).sum()
    elif name == "student_t":
        expected += stats.t.logpdf(y, 2 + np.exp(1.2), f, noise).sum()
    else:
        level, unit, power = 1025.0, 1.4826 * 60, 2 * np.exp(-0.7) / (1 + np.exp(-0.7))
        u = (y - level) / unit
        log_height = (power - 1) * np.mean(np.sign(u) * np.log1p(np.abs(u)))
        # The slopes at the data have a geometric mean of one.
        expected += stats.norm.logpdf(level + unit * stats.yeojohnson(u, power) / np.exp(log_height), f, noise).sum()
    assert gpm.model.compile_logp(mode="FAST_COMPILE")(point) == pytest.approx(expected, abs=1e-7)
    if name == "student_t":
        theta, rng = np.concatenate([np.ravel(point[key]) for key in gpm.shapes]), np.random.default_rng(1)
        found = gpm.posterior().draw_outcomes(
            np.tile(theta, (4000, 1)), np.tile(f, (4000, 1)), np.zeros((4000, 6)), rng
        )
        assert_allclose(np.median(np.abs(found - f)), noise * stats.t.ppf(0.75, 2 + np.exp(1.2)), rtol=0.03)
    else:
        drawn = pm.draw(gpm.model["y"], 3, random_seed=1, mode="FAST_COMPILE")
        assert drawn.shape == (3, 6)
        assert np.isfinite(drawn).all()


def test_slopes_of_criteria_of_mapped_outcomes_are_those_of_differences():
    gpm = pma.ard_gp(*data("warped", 10, 7), bounds=[(-1, 1)] * 2, likelihood="warped")
    fit = pma.fit(gpm, n_particles=64, random_seed=1, progressbar=False)
    X, h = np.random.default_rng(8).uniform(-1, 1, size=(4, 2)), 1e-5
    for criterion in (ExpectedImprovement(), ExpectedImprovement(minimize=True), UpperConfidenceBound(2.0)):
        scorer = criterion.scorer(fit)
        value, slope = scorer.gradient(X)
        assert_allclose(value, scorer.score(X))
        for k, step in enumerate(h * np.eye(2)):
            differences = (scorer.score(X + step) - scorer.score(X - step)) / (2 * h)
            assert_allclose(slope[:, k], differences, rtol=1e-4, atol=1e-5)


def like(name, n):
    """Arguments of a builder."""
    return {"likelihood": name} | ({"y_trials": np.full(n, 6.0)} if name == "binomial" else {})


def data(name, n, seed):
    rng = np.random.default_rng(seed)
    X = rng.uniform(-1, 1, size=(n, 2))
    f = 2 * np.sin(2 * X[:, 0])
    y = {
        "bernoulli": rng.normal(size=n) < f,
        "binomial": rng.binomial(6, ndtr(f)),
        "poisson": rng.poisson(np.exp(f)),
        "negative_binomial": rng.negative_binomial(3, 3 / (3 + np.exp(f))),
        "student_t": f + 0.3 * rng.standard_t(3, n),
        "lognormal": np.exp(f + 0.3 * rng.normal(size=n)),
        "warped": np.exp(f + 0.3 * rng.normal(size=n)) - 1,
    }
    return X, y[name].astype(float)


# One with a size, one with a size and a parameter, one of real numbers; the others differ from these in a formula.
RARE = ("bernoulli", "lognormal", "poisson")
OF_FITS = [pytest.param(n, marks=[pytest.mark.nightly] if n in RARE else []) for n in NAMES]
# The others are normal once mapped.
OF_RATES = [fit for fit in OF_FITS if fit.values[0] not in ("lognormal", "warped")]


@pytest.fixture(scope="module", params=OF_FITS)
def fitted(request):
    name = request.param
    gpm = pma.ard_gp(*data(name, 10, 7), bounds=[(-1, 1)] * 2, **like(name, 10))
    return name, gpm, pma.fit(gpm, random_seed=1, progressbar=False)


@pytest.mark.nightly
@pytest.mark.parametrize(
    "fitted",
    # Of warped outcomes all depends on the small noise, which values of the function, annealed, seldom reach.
    [pytest.param(n, marks=[pytest.mark.nightly] if n != "negative_binomial" else []) for n in NAMES if n != "warped"],
    indirect=True,
)
def test_the_evidence_is_that_of_the_pymc_model(fitted):
    """The latent function and its hyperparameters are annealed together, without expectation propagation."""
    _, gpm, fit = fitted
    joint = pma.fit(gpm.model, method="anneal", n_particles=512, random_seed=2, progressbar=False)
    error = np.hypot(fit.log_evidence_error, joint.log_evidence_error)
    assert abs(fit.log_evidence - joint.log_evidence) < 0.1 + 4 * error
    assert not fit.diagnostics["warnings"]


def test_the_evidence_of_warped_outcomes_is_that_of_draws_from_the_prior():
    """Importance sampling in plain NumPy."""
    X, y = data("warped", 10, 7)
    gpm = pma.ard_gp(X, y, bounds=[(-1, 1)] * 2, likelihood="warped")
    fit, rng, n = pma.fit(gpm, random_seed=1, progressbar=False), np.random.default_rng(0), 100_000
    scale, level, noise, warp = rng.normal([0, 0, np.log(0.1), 0], [1, 1, 1, 1.5], size=(n, 4)).T[:, :, None]
    far = np.square(X[:, None] - X) @ np.exp(-2 * rng.normal(size=(n, 2, 1)))[:, None]
    K = np.exp(2 * scale)[..., None] * np.exp(-0.5 * far[..., 0]) + np.exp(2 * noise)[..., None] * np.eye(10)
    u = (y - np.median(y)) / (1.4826 * np.median(np.abs(y - np.median(y))))
    power, side, length = 2 / (1 + np.exp(-warp)), np.sign(u), np.log1p(np.abs(u))
    exponent = np.where(side > 0, power, 2 - power)
    z = side * np.expm1(exponent * length) / exponent * np.exp(-(power - 1) * np.mean(side * length))
    L = np.linalg.cholesky(K)
    away = np.linalg.solve(L, (z - level)[..., None])[..., 0]
    logs = -0.5 * np.square(away).sum(1) - np.log(np.diagonal(L, axis1=1, axis2=2)).sum(1) - 5 * np.log(2 * np.pi)
    # In the user's units a density is smaller.
    logs -= 10 * np.log(1.4826 * np.median(np.abs(y - np.median(y))))
    weights = np.exp(logs - logs.max())
    expected, error = np.log(weights.mean()) + logs.max(), np.sqrt(np.square(weights).sum()) / weights.sum()
    assert error < 0.06
    assert abs(fit.log_evidence - expected) < 4 * np.hypot(error, fit.log_evidence_error)


def test_predictions_are_of_outcomes(fitted):
    name, _, fit = fitted
    X = np.random.default_rng(8).uniform(-1, 1, size=(5, 2))
    found = pma.predict(fit, X, quantiles=(0.05, 0.5, 0.95), y_new=np.ones(5))
    p, outcomes = mixture(fit.ensemble, X), LatentOutcomes.of(fit.ensemble)
    rates = outcomes.rates(p)
    if name in ("bernoulli", "binomial"):
        assert_allclose(found.f_mean, p.weights @ ndtr(p.means / np.sqrt(1 + p.variances)))
        assert_allclose(found.y_variance, found.y_mean * (1 - found.y_mean))
        assert_allclose(found.y_log_density, np.log(found.y_mean), rtol=1e-5)
    elif name in REAL:
        if name == "student_t":
            assert_allclose(found.f_variance, p.weights @ (p.variances + np.square(p.means - found.f_mean.to_numpy())))
        assert (found.y_variance > found.f_variance).all()
    else:
        # Of the expected count, and of a count given it: its expectation, or more.
        rest = found.y_variance - found.f_variance
        assert (rest > found.y_mean * (1 - 1e-8)).all()
        if name == "poisson":
            assert_allclose(rest, found.y_mean, rtol=1e-8)
    is_mapped = name in ("lognormal", "warped")
    if not is_mapped:
        assert_allclose(found.f_mean, found.y_mean)
    assert_allclose(p.weights @ rates.mean(0), found.f_mean, rtol=0.1, atol=1e-8)
    # Intervals are those of equally probable values.
    below = (rates[None] <= found.f_quantile.to_numpy()[:, None, None]).mean(1)
    assert_allclose(np.einsum("qsm,s->qm", below, p.weights), np.tile([[0.05], [0.5], [0.95]], 5), atol=0.03)
    assert (found.y_quantile == np.round(found.y_quantile)).all() == (name not in REAL)


def test_predictions_are_of_outcomes_of_a_size(fitted):
    """Beside draws of f and SciPy's densities given these; a size for each row, a number, and one."""
    name, _, fit = fitted
    X, sizes = np.random.default_rng(8).uniform(-1, 1, size=(3, 2)), np.array([1.0, 4.0, 9.0])
    if name == "bernoulli" or name in REAL:
        for key in ("y_trials", "exposure"):
            with pytest.raises(ValueError, match=f"{key} does not belong to likelihood='{name}'"):
                pma.predict(fit, X, **{key: 3})
        return
    key = "y_trials" if name == "binomial" else "exposure"
    y = pma.predict(fit, X, quantiles=(0.5,), **{key: sizes}).y_quantile.to_numpy()[0]
    found = pma.predict(fit, X, quantiles=(0.1, 0.5, 0.9), y_new=y, **{key: sizes})
    p, rng = mixture(fit.ensemble, X), np.random.default_rng(1)
    rows = rng.choice(len(p.weights), 40_000, p=p.weights)
    f = p.means[rows] + np.sqrt(p.variances[rows]) * rng.normal(size=(40_000, 3))
    [(likelihood, phi, _)] = LatentOutcomes.of(fit.ensemble).parts
    phi = [np.broadcast_to(part, (len(p.weights), 1))[rows] for part in phi]
    drawn = likelihood.draw(f, sizes, phi, rng)
    assert_allclose(found.y_log_density, np.log(np.exp(log_density(name, f, y, sizes, phi)).mean(0)), atol=0.05)
    if name == "binomial":
        assert_allclose(found.y_mean, drawn.mean(0), rtol=0.05)
        assert_allclose(found.y_variance, drawn.var(0), rtol=0.05)
    else:
        # Log-normal expectations, whose tails are too heavy for draws.
        mean, square = (sizes**k * np.exp(k * p.means + k * k * p.variances / 2) for k in (1, 2))
        more = 0.0 if name == "poisson" else np.exp(-LatentOutcomes.of(fit.ensemble).parts[0][1][0])
        assert_allclose(found.y_mean, p.weights @ mean)
        assert_allclose(found.y_variance, p.weights @ (mean + square * (1 + more)) - (p.weights @ mean) ** 2)
    shares = [(drawn <= quantile).mean(0) for quantile in found.y_quantile.to_numpy()]
    least = [(drawn < quantile).mean(0) for quantile in found.y_quantile.to_numpy()]
    for share, below, probability in zip(shares, least, (0.1, 0.5, 0.9), strict=True):
        assert (below < probability + 0.03).all()
        assert (share > probability - 0.03).all()
    one = pma.predict(fit, X, quantiles=(0.1, 0.5, 0.9))
    assert_allclose(found.f_mean, one.f_mean)
    assert pma.predict(fit, X, quantiles=(0.1, 0.5, 0.9), **{key: 1}).equals(one)
    assert_allclose(pma.predict(fit, X, **{key: 4}).y_mean[1], found.y_mean[1])
    other = "exposure" if key == "y_trials" else "y_trials"
    for wrong, message in (({other: 3}, f"{other} does not belong"), ({key: [1, 2]}, rf"2 value\(s\) of {key}")):
        with pytest.raises(ValueError, match=message):
            pma.predict(fit, X, **wrong)
    if name == "binomial":
        with pytest.raises(ValueError, match=r"y_trials must not be smaller .* got 6 of 5"):
            pma.predict(fit, X, y_new=[6, 0, 0], y_trials=5)


def test_a_fit_goes_to_arviz_and_back(fitted):
    name, gpm, fit = fitted
    tree = fit.to_datatree(random_seed=1)
    assert set(tree.children) >= {"posterior", "log_likelihood", "posterior_predictive", "prior_predictive"}
    assert tree.log_likelihood[gpm.name].shape[-1] == 10
    replicates = tree.posterior_predictive[gpm.name].to_numpy()
    assert (replicates == np.round(replicates)).all() == (name not in REAL)
    assert arviz_base.extract(tree).outputscale.size
    # Conditioned on draws of hyperparameters alone.
    by_trace = pma.predict(tree, gpm.X[:2], model=gpm)
    assert_allclose(by_trace.y_mean, pma.predict(fit, gpm.X[:2]).y_mean, atol=1e-6)


def test_points_added_are_those_of_a_fresh_fit(fitted):
    name, gpm, fit = fitted
    X, y = np.array([[0.2, 0.1], [-0.7, 0.5]]), np.array([1.0, 0.3 if name in REAL else 0.0])
    trials = 6 if name == "binomial" else None
    updated = fit.update(X, y, y_trials=trials, random_seed=1)
    same = {"bounds": [(-1, 1)] * 2, "y_scale": (float(gpm.y_map.shift), float(gpm.y_map.scale)), **like(name, 12)}
    fresh = pma.fit(pma.ard_gp(*fit.data.joined(X, y)[:2], **same), random_seed=3, progressbar=False)
    error = np.hypot(updated.log_evidence_error, fresh.log_evidence_error)
    assert abs(updated.log_evidence - fresh.log_evidence) < 0.1 + 4 * error


def orthant(K, sign, mean=0.0):
    """Exact probability of labels: noise of the probit and latent function together are one Gaussian."""
    cov = sign[:, None] * (K + np.eye(len(K))) * sign
    return multivariate_normal.cdf(sign * mean, cov=cov, abseps=1e-6, releps=1e-6)


def covariance(X, Z, log_lengthscale=0.0, log_outputscale=0.0):
    r = (X[:, None] - Z[None]) / np.exp(log_lengthscale)
    return np.exp(2 * log_outputscale - 0.5 * np.square(r).sum(-1))


def test_probabilities_are_near_the_exact_ones():
    """Four labels; orthant probabilities averaged over hyperparameters by their exact posterior on a grid."""
    X = np.random.default_rng(1).uniform(-2, 2, size=(4, 1))
    y, X_new = X[:, 0] > 0, np.array([[-2.5], [0.1]])
    sign, steps, weights, conditional = np.where(y, 1.0, -1.0), np.linspace(-2.4, 2.4, 5), [], []
    for length in steps:
        for scale in steps:
            prior = stats.norm.pdf(length) * stats.norm.pdf(scale)
            weights.append(orthant(covariance(X, X, length, scale), sign) * prior)
            both = [np.vstack([X, x]) for x in X_new]
            joint = [orthant(covariance(Z, Z, length, scale), np.append(sign, 1.0)) for Z in both]
            conditional.append(np.array(joint) * prior)
    exact = np.sum(conditional, 0) / np.sum(weights)
    fit = pma.fit(pma.ard_gp(X, y, likelihood="bernoulli"), n_particles=1024, random_seed=1, progressbar=False)
    assert_allclose(pma.predict(fit, X_new).y_mean, exact, atol=0.03)


def test_the_pymc_model_has_the_same_density():
    """Prior of parameters and whitened latent values, and labels, added up by hand."""
    X, rotated = np.random.default_rng(1).uniform(-2, 2, size=(5, 2)), np.random.default_rng(4).normal(size=5)
    y, how = X[:, 0] > 0, {"x_scale": (1.0, 2.0), "mean": "constant", "priors": {"log_lengthscale": 0.2}}
    model = pma.ard_gp(X, y, likelihood="bernoulli", **how).model
    point = {"log_outputscale": np.array(0.3), "mean_constant": np.array(-0.4), "f_rotated_": rotated}
    K = covariance((X - 1) / 2, (X - 1) / 2, 0.2, 0.3) + 1e-6 * np.eye(5)
    f = -0.4 + np.linalg.cholesky(K) @ rotated
    expected = log_ndtr(np.where(y, 1, -1) * f).sum() + sum(stats.norm.logpdf(v).sum() for v in point.values())
    assert model.compile_logp(mode="FAST_COMPILE")(point) == pytest.approx(expected, abs=1e-8)
    assert {"outputscale", "f"} <= {variable.name for variable in model.deterministics}
    with pm.Model(), pytest.raises(ValueError, match=r"outside of pm\.Model"):
        pma.ard_gp(X, y, likelihood="bernoulli", **how)


def test_leaving_out_each_of_many_counts_is_a_quotient_of_evidences():
    """As many as LAPACK factorises one by one, in no order."""
    rng = np.random.default_rng(5)
    X = rng.uniform(0, 10, (20, 1))
    y = rng.poisson(np.exp(1 + 0.3 * (X[:, 0] - 5))).astype(float)
    posterior = pma.ard_gp(X, y, bounds=[(0, 10)], likelihood="poisson").posterior()
    thetas = np.array([[0.7, 0.6, 2.6], [-0.5, 0.1, 1.0]])
    log_density, whole = posterior.leave_one_out(thetas)[2], posterior.log_likelihoods(thetas).value
    for i in range(len(y)):
        others = np.arange(len(y)) != i
        left = posterior.with_data(X[others], y[others]).log_likelihoods(thetas).value
        assert_allclose(log_density[:, i], whole - left, atol=0.05)


def test_information_is_that_of_plain_sums(fitted):
    name, _, fit = fitted
    X = np.random.default_rng(9).uniform(-1, 1, size=(4, 2))
    p = mixture(fit.ensemble if name in ("bernoulli", "lognormal", "warped", "poisson") else fit.ensemble.first(96), X)
    outcomes, w = LatentOutcomes.of(fit.ensemble.first(len(p.weights))), p.weights
    [(likelihood, phi, _)] = outcomes.parts
    y, step = np.arange({"bernoulli": 2.0, "binomial": outcomes.size + 1}.get(name, 400.0)), 1.0
    if name == "student_t":
        y, step = np.linspace(-60, 60, 6001, retstep=True)
    elif name in REAL:
        # Ever farther apart, above zero or about it.
        t, h = np.linspace(-15, 15, 3001, retstep=True)
        y, step = (np.exp(t), h * np.exp(t)) if name == "lognormal" else (np.sinh(t), h * np.cosh(t))
    log = np.stack([likelihood.tilted(p.means, np.maximum(p.variances, 1e-12), k, outcomes.size, phi).log_z for k in y])
    log += np.reshape(np.log(step), (-1, 1, 1))
    each, total = np.exp(log), np.exp(log).transpose(0, 2, 1) @ w
    expected = xlogy(each, each).sum(0).T @ w - xlogy(total, total).sum(0)
    assert_allclose(pma.active.bald(fit, X), expected, rtol=0.1, atol=2e-3)
    about_f = pma.active.bald(fit, X, target="f")
    assert (about_f > pma.active.bald(fit, X)).all()
    if name in ("bernoulli", "binomial"):
        assert (about_f < np.log(len(y))).all()


def counts(rate, n, seed, **keywords):
    """A Poisson model of one input, with its fit."""
    X = np.linspace(0, 10, n)[:, None]
    y = np.random.default_rng(seed).poisson(rate * np.exp(np.sin(X[:, 0] / 2)))
    gpm = pma.ard_gp(X, y, bounds=[(0, 15)], likelihood="poisson", **keywords)
    return gpm, pma.fit(gpm, random_seed=1, progressbar=False)


def test_information_of_large_counts_is_that_of_plain_sums():
    """Given f a count is so certain that few values of f would not overlap."""
    _, fit = counts(5000, 9, 4)
    X = np.array([[0.6], [11.0], [15.0]])
    some = fit.ensemble.first(96)
    p, y = mixture(some, X), np.geomspace(20, 2e6, 3001)
    [(likelihood, phi, _)] = LatentOutcomes.of(some).parts
    log = np.stack([likelihood.tilted(p.means, p.variances, k, 1.0, phi).log_z for k in y])
    density, step = np.exp(log), np.gradient(y)[:, None]
    total = np.einsum("ksm,s->km", density, p.weights)
    assert_allclose((step * total).sum(0), 1, atol=1e-3)
    expected = np.einsum("ksm,s->km", xlogy(density, density), p.weights) - xlogy(total, total)
    assert_allclose(pma.active.bald(fit, X), (step * expected).sum(0), rtol=0.15)
    # All draws, if more are asked for.
    assert (pma.active.bald(fit, X, draws=256) != pma.active.bald(fit, X)).any()


@pytest.mark.parametrize("fitted", OF_RATES, indirect=True)
@pytest.mark.parametrize("sign", [-1.0, 1.0])
def test_improvement_is_its_integral_also_where_it_is_unlikely(fitted, sign):
    _, _, fit = fitted
    X, first = np.random.default_rng(3).uniform(-1, 1, size=(5, 2)), fit.ensemble.first(3)
    p, outcomes = mixture(first, X), LatentOutcomes.of(first)
    [(likelihood, phi, _)] = outcomes.parts
    if outcomes.is_mapped:
        pytest.skip("improvement is of the map")
    best = (sign * outcomes.moments(mixture(first, first.X))[0]).max(1)[:, None]
    edge, sd = likelihood.link(sign * best, phi), np.sqrt(p.variances)
    f = edge + sign * np.linspace(0, 12, 40_001)[:, None, None] * sd
    gain = np.maximum(sign * likelihood.rate(f, phi) - best, 0.0)
    expected = np.trapezoid(gain * stats.norm.pdf(f, p.means, sd), np.abs(f - edge), axis=0)
    with np.errstate(divide="ignore"):
        expected = np.where(expected > 1e-290, np.log(expected), np.nan)
    # A mean over sixteen equally probable parts beyond the best: the tail of the last is cut.
    difference = outcomes.log_improvement(p, best, sign) - expected
    assert np.nanmax(np.abs(difference)) < 0.2
    assert np.isfinite(outcomes.log_improvement(p, best, sign)).all()


def test_quantiles_of_a_single_member_are_those_of_its_outcome():
    _, fit = counts(5, 8, 1, priors={"log_lengthscale": 1.0, "log_outputscale": 0.0, "mean_constant": 1.0})
    assert len(fit.ensemble) == 1
    probabilities, X = np.array([0.005, 0.05, 0.5, 0.95, 0.995]), np.array([[1.0], [12.0]])
    p = mixture(fit.ensemble, X)
    f = p.means + np.sqrt(p.variances) * stats.norm.ppf((np.arange(2000) + 0.5) / 2000)[:, None]
    y = np.arange(2000.0)[:, None, None]
    cdf = stats.poisson.cdf(y, np.exp(f)).mean(1)
    exact = np.array([[np.searchsorted(cdf[:, m], q) for m in range(2)] for q in probabilities])
    # Of 8,192 draws; by as many standard errors as probabilities may be off.
    found = pma.predict(fit, X, quantiles=probabilities).y_quantile.to_numpy()
    error = 4 * np.sqrt(probabilities * (1 - probabilities) / 8192)[:, None]
    at = np.stack([cdf[found[:, m].astype(int), m] for m in range(2)], axis=1)
    below = np.stack([cdf[np.maximum(found[:, m].astype(int) - 1, 0), m] for m in range(2)], axis=1)
    assert ((at > probabilities[:, None] - error) & ((below < probabilities[:, None] + error) | (exact == 0))).all()


def test_the_next_outcome_is_of_as_many_trials_or_as_much_exposure():
    """The unit of an exposure decides nothing, and a pending row counts as a measurement of the usual size."""
    found = {}
    for unit in (1.0, 3600.0):
        gpm, fit = counts(30, 7, 4, exposure=unit)
        gpm.set_data(gpm.X, gpm.y, exposure=np.r_[np.full(6, unit), 50 * unit])
        found[unit] = pma.active.bald(fit, [[3.0], [12.0]]).to_numpy()
        [row] = np.flatnonzero((imagined(fit, np.array([[12.0]])).X == 12.0).all(1))
        data = imagined(fit, np.array([[12.0]])).data
        assert data.sizes[row] == unit
        assert data.y[row] == np.round(unit * pma.predict(fit, [[12.0]], quantiles=[0.5]).f_quantile[0, 0])
    # Posteriors of two runs differ a little.
    assert_allclose(found[1.0], found[3600.0], rtol=0.4)


def test_a_failure_and_an_empty_row_need_no_number_of_trials():
    gpm = pma.ard_gp(
        np.arange(4.0)[:, None], [3, 1, 2, 4], bounds=[(0, 9)], likelihood="binomial", y_trials=[5, 5, 6, 7]
    )
    learner = pma.Learner(gpm, "function", bounds=[(0, 9)], random_seed=1)
    learner.tell([[5.0]], np.nan)
    with pytest.warns(pma.RunWarning, match="1 of 3 rows have no y"):
        learner.tell([[1.5], [2.5], [3.5]], [1, np.nan, 3], y_trials=[5, np.nan, 7])
    learner.tell([[6.0], [7.0]], [3, np.nan], y_trials=[10, np.nan], failed=[False, True])
    assert learner.y.tolist() == [3, 1, 2, 4, 1, 3, 3]
    assert learner.y_sd.tolist() == [5, 5, 6, 7, 5, 7, 10]
    assert len(learner.failures) == 2
    with pytest.raises(ValueError, match="y_trials must be whole"):
        learner.tell([[1.2], [2.2]], [1, 1], y_trials=[5, np.nan])


@pytest.mark.parametrize("fitted", ["negative_binomial", *nightly(*set(NAMES) - {"negative_binomial"})], indirect=True)
def test_the_best_of_a_pool_is_asked_for(fitted, tmp_path):
    name, gpm, _ = fitted
    pool, trials = np.random.default_rng(10).uniform(-1, 1, size=(30, 2)), 6 if name == "binomial" else None
    for goal in ("function", "hyperparameters", "maximum"):
        fresh = pma.ard_gp(gpm.X, gpm.y, bounds=[(-1, 1)] * 2, **like(name, 10))
        learner = pma.Learner(fresh, goal, pool=pool, random_seed=1)
        asked = learner.ask(2)
        assert len(np.unique(asked, axis=0)) == 2
        learner.tell(asked, [1.0, 2.0 if name in REAL else 0.0], y_trials=trials)
        learner.save(path := tmp_path / f"{goal}.nc")
        assert_array_equal(pma.Learner.load(path).ask(), learner.ask())
        if name in REAL:
            continue
        with pytest.raises(ValueError, match="outcomes of likelihood"):
            learner.tell(pool[3], 0.5, y_trials=trials)


def test_an_oracle_tells_outcomes_of_a_size(fitted):
    name, gpm, _ = fitted
    key, size = ("y_trials", 12) if name == "binomial" else ("exposure", 2.5)
    learner = pma.Learner(gpm, "function", pool=np.random.default_rng(10).uniform(-1, 1, size=(30, 2)), random_seed=1)
    refused = [({key: [1, 2]}, rf"2 value\(s\) of {key}"), *([({}, "how many")] if name == "binomial" else [])]
    if name == "bernoulli" or name in REAL:
        refused = [({key: size}, f"exposure does not belong to likelihood='{name}'")]
    else:
        learner.run(lambda x: 9, 2, False, **{key: size})
        assert_array_equal(learner.gpm.data.sizes[10:], [size, size])
        assert_array_equal(learner.y[10:], [9, 9])
    for sizes, message in refused:
        with pytest.raises(ValueError, match=message):
            learner.run(pytest.fail, 1, False, **sizes)


@pytest.mark.parametrize("name", OF_FITS)
def test_a_run_without_data_has_outcomes(name, tmp_path):
    key = "y_trials" if name == "binomial" else "exposure"
    learner = pma.Learner(None, bounds=[(-1, 1)], random_seed=1, likelihood=name)
    assert learner.criterion_name == "epig"
    if name == "binomial":
        with pytest.raises(ValueError, match="y_trials must say how many"):
            learner.run(pytest.fail, 1, False)
    if name not in ("student_t", "warped"):
        with pytest.raises(ValueError, match="outcomes of likelihood"):
            learner.tell([0.1], -0.5, **({key: 3} if name == "binomial" else {}))
    for k, y in enumerate([1, 2, 1, 2] if name in REAL else [0, 1, 1, 0]):
        sizes = {} if name == "bernoulli" or name in REAL or (k == 2 and name != "binomial") else {key: k + 2}
        learner.tell(learner.ask(), y, **sizes)
        learner.save(path := tmp_path / "run.nc")
        learner = pma.Learner.load(path)
    assert learner.gpm.likelihood.name == name
    ones = [1, 1, 1, 1]
    expected = {"bernoulli": ones, **dict.fromkeys(REAL, ones), "binomial": [2, 3, 4, 5]}.get(name, [2, 3, 1, 5])
    assert_array_equal(learner.gpm.data.sizes, expected)
    assert np.isfinite(learner.ask()).all()


def test_the_maximum_is_looked_for_before_the_first_success():
    """Equal labels have a scale, that of the link."""
    learner = pma.Learner(None, "maximum", bounds=[(-1, 1)], random_seed=1, likelihood="bernoulli")
    learner.run(lambda x: False, 4, False)
    gaps = np.abs(learner.ask() - learner.X)
    assert gaps.min() > 0.02
    scores = pma.active.max_value_entropy(learner.fit, np.linspace(-1, 1, 5)[:, None])
    assert (scores > 0).any()


def test_labels_of_a_normal_model_are_told_of_once(recwarn):
    remedy, x, labels = "likelihood='bernoulli'", np.linspace(-1, 1, 4)[:, None], [0, 0, 1, 1]
    learner = pma.Learner(None, bounds=[(-1, 1)], random_seed=1)
    for told in ((x, labels), ([0.3], 1)):
        learner.tell(*told)
        learner.ask()
    assert [remedy in str(w.message) for w in recwarn if issubclass(w.category, pma.DataWarning)] == [True]
    equal = f"stands for no, give the builder, or Learner(None, ...), {remedy}"
    for gpm, text in ((pma.ard_gp(x, labels), remedy), (pma.ard_gp(x, [0] * 4, bounds=[(-1, 1)]), equal)):
        assert any(text in said for said in advise_on(gpm))
    quiet = [pma.ard_gp(x, y) for y in ([0, 0, 1, 0.5], [0, 0, 2, 2])]
    quiet += [pma.ard_gp(x[:3], [0, 1, 1]), pma.ard_gp(x, labels, y_sd=0.1)]
    quiet.append(pma.ard_gp(x, labels, likelihood="bernoulli"))
    assert not any(remedy in text for gpm in quiet for text in advise_on(gpm))


def one_input(likelihood, y=(0, 1, 1), **keywords):
    return pma.ard_gp(np.arange(3.0)[:, None], y, likelihood=likelihood, **keywords)


def run_of(source, *told, likelihood=None, **sizes):
    learner = pma.Learner(source, bounds=[(0, 1)], **({} if likelihood is None else {"likelihood": likelihood}))
    learner.tell(*told, **sizes)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: one_input("bernoulli", [0, 1, 2]), "0 and 1.*got also 2"),
        (lambda: one_input("poisson", [0, 1, -1]), "counts.*got -1"),
        (lambda: one_input("negative_binomial", [0, 1.5, 1]), "counts.*got 1.5"),
        (lambda: one_input("binomial", [0, 3, 1], y_trials=2), "y_trials must not be smaller .* got 3 of 2"),
        (lambda: one_input("poisson", y_trials=2), "y_trials does not belong to .*exposure"),
        (lambda: one_input("poisson", exposure=[1, 0, 1]), "exposure must be positive.*got 0"),
        (lambda: one_input("binomial", y_trials=2.5), "y_trials must be whole.*got 2.5"),
        (lambda: one_input("bernoulli", y_sd=0.1), "y_sd, error bars, are for"),
        (lambda: one_input("student_t", y_sd=0.1), "y_sd, error bars, are for"),
        (lambda: one_input("probit"), "likelihood must be one of normal, bernoulli"),
        (lambda: one_input("bernoulli", priors={"log_outputscale": pm.HalfNormal.dist(1)}), "must be normal"),
        (lambda: pma.graphs.log_posterior(one_input("bernoulli")), "graphs are of marginal"),
        (lambda: run_of(one_input, likelihood="poisson"), r"likelihood= is for Learner\(None, ...\): the function"),
        (lambda: run_of(one_input("poisson"), likelihood="poisson"), r"is for Learner\(None, ...\): a model with data"),
        (lambda: run_of(None, likelihood="probit"), "likelihood must be one of normal"),
        (lambda: run_of(lambda X, y: one_input("poisson"), [0.3], 2, exposure=2), "takes no exposure"),
        (lambda: run_of(None, [0.3], 2, y_trials=2), "y_trials does not belong to likelihood='normal'"),
    ],
)
def test_outcomes_that_cannot_be_are_refused(call, message):
    with pytest.raises((TypeError, ValueError), match=message):
        call()


def test_what_only_normal_outcomes_have_is_refused(fitted):
    _, gpm, fit = fitted
    with pytest.raises(ValueError, match="for normal outcomes only; this model has likelihood="):
        pma.decompose(fit)
    if not gpm.likelihood.is_real:
        with pytest.raises(ValueError, match="one has outcomes that are real numbers, the other counts"):
            pma.Learner({"a": gpm, "b": pma.ard_gp(gpm.X, gpm.y)}, "model", bounds=[(-1, 1)] * 2)


@pytest.fixture(scope="module")
def of_one_table():
    """Models of the same positive numbers, by likelihood, with their fits."""
    rng = np.random.default_rng(3)
    X = rng.uniform(-1, 1, (12, 1))
    y = np.exp(2 + np.sin(3 * X[:, 0]) + 0.2 * rng.normal(size=12))
    names = ("normal", "student_t", "lognormal", "warped")
    models = {name: pma.ard_gp(X, y, bounds=[(-1, 1)], likelihood=name) for name in names}
    return models, {k: pma.fit(gpm, n_particles=48, random_seed=1, progressbar=False) for k, gpm in models.items()}


@pytest.mark.parametrize(
    "names", [("normal", "lognormal"), ("normal", "student_t", "warped"), *nightly((("lognormal", "student_t"),))]
)
def test_an_average_over_likelihoods_is_that_of_its_densities(of_one_table, names):
    fits = {name: of_one_table[1][name] for name in names}
    average, X = pma.ModelAverage(fits), np.array([[-0.9], [0.2]])
    p, weights = pma.predict(average, X, quantiles=[0.1, 0.8]), average.weights
    each = [pma.predict(fit, X) for fit in fits.values()]
    means = np.stack([one.get("y_mean", one.f_mean) for one in each])
    assert_allclose(p.y_mean, weights @ means, rtol=1e-12)
    second = weights @ (np.stack([one.y_variance for one in each]) + np.square(means))
    assert_allclose(p.y_variance, second - np.square(p.y_mean), rtol=1e-10)
    y, information = np.linspace(-60, 120, 4001), pma.active.bams(average, X)
    for j in range(len(X)):
        rows, possible = np.repeat(X[j : j + 1], len(y), axis=0), y > 0
        densities = np.zeros((len(fits), len(y)))
        for k, (name, fit) in enumerate(fits.items()):
            some = possible if name == "lognormal" else slice(None)
            densities[k, some] = np.exp(pma.predict(fit, rows[some], y_new=y[some]).y_log_density)
        together = weights @ densities
        below = np.cumsum(together) * (y[1] - y[0])
        # Outcomes of Student's t are drawn.
        assert_allclose(np.interp(p.y_quantile[:, j], y, below), [0.1, 0.8], atol=0.02)
        inner = weights @ np.trapezoid(xlogy(densities, densities), y, axis=1)
        expected = inner - np.trapezoid(xlogy(together, together), y)
        assert_allclose(information[j], expected, rtol=0.02, atol=2e-4)


def test_a_run_takes_several_likelihoods(of_one_table):
    models, pool = of_one_table[0], np.linspace(-1, 1, 21)[:, None]

    def run(names, goal):
        return pma.Learner({name: models[name] for name in names}, goal, pool=pool, random_seed=1)

    learner = run(("normal", "warped"), "maximum")
    x = learner.ask()
    assert x[0] == pool[int(np.argmax(pma.active.expected_improvement(learner.fit, pool).to_numpy()))]
    learner.tell(x, [20.0])
    assert -1 <= learner.optimum(8, progressbar=False).x[0] <= 1
    assert 0 < pma.active.integrated_variance(learner.fit, pool).min()
    logs = run(("normal", "lognormal"), "model")
    assert logs.ask().shape == (1, 1)
    assert np.isfinite(pma.active.uncertainty(logs.fit, pool)).all()
    # What has no logarithm is left to the others.
    alone = pma.predict(logs.fit["normal"], [[0.1]], y_new=[-3.0]).y_log_density + np.log(logs.fit.weights[0])
    assert_allclose(pma.predict(logs.fit, [[0.1]], y_new=[-3.0]).y_log_density, alone)
    for goal in ("function", "maximum"):
        with pytest.raises(ValueError, match="of y and of its logarithm have no common unit"):
            run(("normal", "lognormal"), goal)
    with pytest.raises(ValueError, match="take likelihood='warped' in place of 'lognormal'"):
        learner.add_model(models["lognormal"], "logs")
    alone = pma.Learner(models["lognormal"], "maximum", pool=pool, random_seed=1)
    alone.run(lambda x: 3.0, n=1, progressbar=False)
    assert alone.y[-1] == 3.0


def test_an_embedding_and_a_kernel_expression_have_outcomes_too():
    X = np.random.default_rng(14).uniform(-1, 1, size=(12, 5))
    common = {"bounds": [(-1, 1)] * 5, "likelihood": "bernoulli"}
    for gpm in (
        pma.embedding_gp(X, X[:, 0] > 0, n_components=1, **common),
        pma.composite_gp(X, X[:, 0] > 0, "SE[0] + SE[1]", **common),
    ):
        learner = pma.Learner(gpm, "function", bounds=[(-1, 1)] * 5, random_seed=1)
        assert (np.abs(learner.ask()) <= 1).all()
        assert 0 < pma.predict(learner.fit, X[:1]).f_mean < 1


def test_more_inputs_than_data_are_seen_in_their_row_space():
    rng = np.random.default_rng(15)
    X, y = rng.uniform(-1, 1, size=(8, 25)), rng.poisson(3, 8)
    gpm = pma.embedding_gp(X, y, n_components=2, bounds=[(-1, 1)] * 25, likelihood="negative_binomial")
    whole = gpm.posterior()
    space = find_space(whole, gpm.embedding_slice)
    assert space.posterior.n_parameters < whole.n_parameters
    z = space.posterior.prior.mean + 0.3 * rng.normal(size=(4, space.posterior.n_parameters))
    lifted = space.lift(z)
    assert_allclose(space.posterior.likelihood_values(z), whole.likelihood_values(lifted), atol=1e-8)


def test_bands_of_an_optimum_stay_where_outcomes_can_be():
    """Probabilities near one, whose mean ± sds reaches beyond; data are successes of a trial, also of predictions."""
    X = np.linspace(0, 1, 6)[:, None]
    gpm = pma.ard_gp(X, [1, 3, 8, 12, 12, 12], y_trials=12, bounds=[(0, 1)], likelihood="binomial")
    box = pma.Learner(gpm, "maximum", bounds=[(0, 1)], random_seed=1)
    found = box.optimum(20)
    assert found.f_mean + 1.6 * found.f_sd > 1
    (upper,), _ = pma.plots.plot(found)
    edges = np.concatenate([part.get_paths()[0].vertices[:, 1] for part in upper.collections if part.get_paths()])
    assert ((0 <= edges) & (edges <= 1)).all()
    for ax in (upper, pma.plots.plot_predictions(box.fit)):
        [data] = [line for line in ax.lines if line.get_label() == "data"]
        assert_allclose(data.get_ydata(), gpm.y / 12)
        assert ax.get_ylabel() == "y / y_trials"
    pool = pma.Learner(gpm, "maximum", pool=np.linspace(0, 1, 16)[:, None], random_seed=1).optimum(20)
    [(_, right)] = pma.plots.plot(pool)
    bars = [bar[:, 0] for part in right.containers for bar in part[2][0].get_segments()]
    assert 0.9 < np.max(bars) <= 1


@pytest.mark.nightly
# The map of "warped" is stated for the data, which are to be drawn from it.
@pytest.mark.parametrize("name", [name for name in NAMES if name != "warped"])
def test_intervals_of_data_from_the_model_cover(name):
    """Rates of 60 data sets drawn from the model, n = 5 to 20: 90 % intervals within three standard errors."""
    covered = []
    for seed in range(60):
        rng = np.random.default_rng(seed)
        n = int(rng.choice([5, 10, 20]))
        X = rng.uniform(-1, 1, size=(n + 10, 2))
        keywords = {"bounds": [(-1, 1)] * 2, "y_scale": (0.5, 1.0)}
        prior = pma.ard_gp(X, np.ones(n + 10), **keywords, **like(name, n + 10)).posterior()
        theta = prior.prior.mean + prior.prior.sd * rng.normal(size=(1, prior.n_parameters))
        full, K = prior.full(theta), prior._covariances(prior.full(theta))[0][0]
        values, vectors = np.linalg.eigh(K)
        f = 0.5 + vectors @ (np.sqrt(np.maximum(values, 0)) * rng.normal(size=n + 10))
        f += (full[:, prior.mean_indices] @ prior._basis.T)[0]
        f = np.clip(f, -8, 8)
        y = prior.likelihood.draw(f[None], prior.size, prior.phi(full), rng)[0]
        gpm = pma.ard_gp(X[:n], y[:n], **keywords, **like(name, n))
        fit = pma.fit(gpm, random_seed=seed, progressbar=False)
        low, high = pma.predict(fit, X[n:], quantiles=(0.05, 0.95)).f_quantile.to_numpy()
        rate = gpm.likelihood.rate(f[n:], [part[0] for part in prior.phi(full)])
        covered.append(((low <= rate) & (rate <= high)).mean())
    error = np.std(covered) / np.sqrt(len(covered))
    assert abs(np.mean(covered) - 0.9) < 3 * error + 0.02


def test_what_a_label_tells_about_another_is_that_of_draws_of_the_function():
    """One set of hyperparameters; the function at both places drawn, given sites."""
    X, y = data("bernoulli", 10, 12)
    known = {"log_lengthscale": np.log(0.7), "log_outputscale": np.log(1.5)}
    fit = pma.fit(pma.ard_gp(X, y, likelihood="bernoulli", priors=known), progressbar=False)
    x, target = np.array([[0.1, 0.2]]), np.array([[0.3, -0.1]])
    gp, both = ConditionedGP(fit.posterior, np.empty(0)), np.concatenate([x, target])
    cross = gp.covariance(gp.X, both)
    cov = gp.covariance(both, both) - cross.T @ gp.factor.solve(cross)
    f = np.random.default_rng(13).multivariate_normal(gp.alpha @ cross, cov, size=1_000_000)
    yes = ndtr(f)
    joint = np.array([[((1 - yes[:, 0]) * p).mean(), (yes[:, 0] * p).mean()] for p in (1 - yes[:, 1], yes[:, 1])])
    expected = (joint * np.log(joint / np.outer(joint.sum(1), joint.sum(0)))).sum()
    assert_allclose(pma.active.epig(fit, x, X_target=target), expected, rtol=0.03)


@pytest.mark.parametrize(("name", "key"), [("binomial", "y_trials"), ("poisson", "exposure"), ("normal", "y_sd")])
def test_messages_name_the_argument_that_was_given(name, key):
    """Of a wrong length, labels of other rows, and no numbers: in builders, set_data, tell and update."""
    x, y = pd.DataFrame({"x": np.linspace(0, 1, 4)}, index=list("abcd")), np.array([0.0, 2.0, 1.0, 3.0])
    gpm = pma.ard_gp(x, y, likelihood=name, bounds=[(0, 1)], **{key: 5})
    fit = pma.fit(gpm, n_particles=32, random_seed=1, progressbar=False)
    learner = pma.Learner(gpm, bounds={"x": (0, 1)}, random_seed=1)
    actions = [
        lambda **size: pma.ard_gp(x, y, likelihood=name, **size),
        lambda **size: gpm.set_data(x, y, **size),
        lambda **size: learner.tell(x, y + 1, **size),
        lambda **size: fit.update(x, y, **size),
    ]
    for act in actions:
        with pytest.raises(ValueError, match=rf"3 value\(s\) of {key}"):
            act(**{key: [5, 5, 5]})
        with pytest.raises(ValueError, match=f"rows of X and {key}|{key}.*(label|index|row)"):
            act(**{key: pd.Series([5] * 4, index=list("bacd"))})
        with pytest.raises(TypeError, match=f"{key} must hold numbers"):
            act(**{key: "many"})
        if key == "y_trials":
            with pytest.raises(ValueError, match="y_trials must say how many trials"):
                act()


def test_several_models_are_told_sizes():
    X, y, how = np.linspace(0, 1, 5)[:, None], np.array([1, 0, 2, 4, 3]), {"likelihood": "binomial", "y_trials": 6}
    models = [pma.ard_gp(X, y, kernel=k, bounds=[(0, 1)], **how) for k in ("ExpQuad", "Matern52")]
    learner = pma.Learner(models, "model", bounds=[(0, 1)], random_seed=1)
    learner.tell([[0.3], [0.4]], [9, 2], y_trials=[9, 3])
    assert_array_equal(learner.y_sd, [6] * 5 + [9, 3])
    models[0].set_data(X, y + 6, y_trials=12)
    assert_array_equal(models[0].data.sizes, [12] * 5)


def test_a_recommendation_far_above_the_counts_of_exposures_says_so():
    """Rates are compared with rates, whatever the size of counts."""
    X = np.linspace(-1, -0.2, 12)[:, None]
    y = np.random.default_rng(0).poisson(1000 * np.exp(2 * X[:, 0]))
    gpm = pma.ard_gp(X, y, bounds=[(-1, 1)], likelihood="poisson", exposure=np.full(12, 1000.0), mean="linear")
    learner = pma.Learner(gpm, "maximum", bounds=[(-1, 1)], random_seed=0)
    with pytest.warns(pma.RunWarning, match="above the best point measured"):
        learner.recommend()
    assert y.max() > 100


@pytest.mark.parametrize("log_nu", [20.0, 39.0, 600.0])
def test_a_student_t_with_endless_degrees_of_freedom_is_normal(log_nu):
    """Where differences of logs of Gamma functions would be rounding errors of hundreds of nats."""
    phi, mean, variance, y = (
        [np.full((3, 1), -1.0), np.full((3, 1), log_nu)],
        np.zeros((3, 1)),
        np.full((3, 1), 0.5),
        0.7,
    )
    likelihood, sd = LIKELIHOODS["student_t"](), np.exp(-1.0)
    found = likelihood.tilted(mean, variance, y, 1.0, phi)
    expected = stats.norm.logpdf(y, 0, np.sqrt(0.5 + sd**2))
    assert_allclose(found.log_z, expected, atol=1e-5)
    assert_allclose(likelihood.log_marginal(y, mean, variance, 1.0, phi), expected, atol=1e-3)
    assert_allclose(likelihood.log_density(mean, y, 1.0, phi), stats.norm.logpdf(y, 0, sd), atol=1e-5)
    assert_allclose(found.in_phi[1], 0, atol=1e-5)
