"""Evidence by importance sampling, against quadrature and averages over the prior."""

import warnings

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.special import logsumexp, softmax
from scipy.stats import norm, qmc

import pymc_active as pma
from pymc_active.laplace.draws import annealed
from pymc_active.laplace.draws.annealed import annealed_draws
from pymc_active.laplace.draws.weighted import WeightedDraws, prior_for_few_data
from pymc_active.laplace.like_terms import exchanges

pytestmark = pytest.mark.slow


def fit(gpm, **keywords):
    options = {"n_restarts": 4, "population": 0, "random_seed": 1, "progressbar": False}
    with warnings.catch_warnings():
        # Where Laplace is poor there is something to correct.
        warnings.filterwarnings("ignore", message="the Laplace fit is doubtful")
        return pma.fit_laplace(gpm, **{**options, **keywords})


def quadrature(gpm, low, high, n=81):
    """The evidence of a model with two parameters by a sum over a grid."""
    axes = [np.linspace(a, b, n) for a, b in zip(low, high, strict=True)]
    grid = np.stack([axis.ravel() for axis in np.meshgrid(*axes, indexing="ij")], axis=1)
    posterior = gpm.posterior()
    return logsumexp(posterior.values(grid)) + sum(np.log(axis[1] - axis[0]) for axis in axes)


def average_over_the_prior(gpm, power=14):
    posterior = gpm.posterior()
    center, sd = posterior.prior_scale()
    uniform = qmc.Sobol(len(center), seed=2).random_base2(power)
    return logsumexp(posterior.likelihood_values(center + sd * norm.ppf(uniform))) - np.log(2**power)


def skewed():
    x = np.array([-1.0, -0.3, 0.4, 1.0])
    return pma.ard_gp(x[:, None], np.sin(3 * x), priors={"log_noise": np.log(0.2)})


def two_alike():
    x = np.linspace(0, 1, 12)
    fixed = {"log_outputscale_SE_1": 0.0, "log_outputscale_SE_2": 0.0, "log_noise": np.log(0.1)}
    return pma.composite_gp(x[:, None], np.sin(20 * x) + 3 * x, "SE + SE", mean="zero", priors=fixed)


def reflected():
    rng = np.random.default_rng(3)
    X = rng.uniform(-1, 1, (8, 2))
    priors = {"log_outputscale": 0.0, "log_noise": np.log(0.3)}
    return pma.embedding_gp(X, np.sin(2 * X[:, 0]) + X[:, 1] ** 2, n_components=1, prior_scale=1.5, priors=priors)


@pytest.mark.parametrize(
    ("model", "low", "high"),
    [
        (skewed, (-6, -5), (6, 5)),
        pytest.param(two_alike, (-8, -8), (4, 4), marks=pytest.mark.nightly),
        (reflected, (-9, -9), (9, 9)),
    ],
)
def test_evidence_of_two_parameters_is_that_of_quadrature(model, low, high):
    """A skewed posterior, one with an image by exchange, one with an image by reflection."""
    gpm = model()
    fitted, exact = fit(gpm), quadrature(gpm, low, high)
    estimate = fitted.sampled_evidence(draws=4000, random_seed=0)
    assert estimate.error < 0.05
    assert abs(estimate.value - exact) < 4 * estimate.error
    # Laplace is visibly off, so that the agreement says something.
    assert abs(fitted.evidence.value - exact) > 8 * estimate.error
    assert fitted.sampled_evidence(draws=4000, random_seed=0) == estimate


@pytest.mark.nightly
@pytest.mark.parametrize(
    ("model", "low", "high"),
    [(skewed, (-6, -5), (6, 5)), (two_alike, (-8, -8), (4, 4))],
)
def test_draws_annealed_from_around_modes_are_those_of_quadrature(model, low, high):
    gpm = model()
    found = annealed_draws(fit(gpm).expansions, 1024, np.random.default_rng(0))
    assert abs(found.log_evidence - quadrature(gpm, low, high)) < 4 * found.log_evidence_error
    assert found.log_evidence_error < 0.1
    posterior, axes = gpm.posterior(), [np.linspace(a, b, 81) for a, b in zip(low, high, strict=True)]
    grid = np.stack(np.meshgrid(*axes, indexing="ij"), axis=-1)
    share = softmax(posterior.values(grid.reshape(-1, 2)).reshape(81, 81))
    # Both parameters of two terms alike have the same distribution.
    for k, axis in enumerate(axes):
        marginal, draws = share.sum(1 - k), found.particles.z[:, k]
        mean = marginal @ axis
        sd = np.sqrt(marginal @ np.square(axis - mean))
        if model is two_alike:
            draws = found.particles.z.ravel()
        assert abs(draws.mean() - mean) < 5 * sd / np.sqrt(len(found.particles) / 4)
        assert_allclose(draws.std(), sd, rtol=0.2)


def test_gradients_along_the_path_from_modes_are_those_of_finite_differences():
    x = np.linspace(0, 1, 12)[:, None]
    gpm = pma.composite_gp(x, np.sin(20 * x[:, 0]) + 3 * x[:, 0], "SE + SE * PER")
    path = annealed._Path(fit(gpm).expansions, np.random.default_rng(0))
    z, step = path.draw(8, np.random.default_rng(0)), 1e-5
    _, gradient = path.log_priors(z)
    for place in range(z.shape[1]):
        moved = step * np.eye(z.shape[1])[place]
        change = path.log_priors(z + moved)[0] - path.log_priors(z - moved)[0]
        assert_allclose(gradient[:, place], change / (2 * step), rtol=1e-5, atol=1e-5)
    # With less additional noise the log ratio to the posterior counts more.
    noisy, more, less = (path.log_likelihoods(z, noise) for noise in (3.0, 3.0 + step, 3.0 - step))
    assert_allclose(noisy.in_noise, (more.value - less.value) / (2 * step), rtol=1e-5)
    assert_allclose(noisy.value, path.log_likelihoods(z).value / 4, rtol=1e-12)
    # Where a trajectory has led nowhere there is no density.
    nowhere = np.full((2, z.shape[1]), np.nan)
    assert (path.log_priors(nowhere)[0] == -np.inf).all()
    assert (path.log_likelihoods(nowhere).value == -np.inf).all()
    posterior = gpm.posterior()
    assert_allclose(path.log_likelihoods(z).value + path.log_priors(z)[0], posterior.values(z), rtol=1e-9)


@pytest.mark.nightly
@pytest.mark.parametrize(("n", "rank"), [(20, 1), (30, 2)])
def test_rotations_of_an_embedding_are_integrated(n, rank):
    rng = np.random.default_rng(3)
    X = rng.uniform(-1, 1, (n, 2))
    y = np.sin(3 * X[:, 0]) + X[:, 1] ** 2 if rank == 1 else np.sin(4 * X[:, 0]) + np.sin(3 * X[:, 1])
    gpm = pma.embedding_gp(X, y, n_components=2, priors={"log_outputscale": 0.0, "log_noise": np.log(0.3)})
    fitted = fit(gpm, n_restarts=12)
    assert (fitted.best.symmetry.singular_values > 1e-3).sum() == rank
    estimate, exact = fitted.sampled_evidence(draws=4000, random_seed=0), average_over_the_prior(gpm)
    assert abs(estimate.value - exact) < 4 * np.hypot(estimate.error, 0.02)
    assert exact - fitted.log_evidence > 0.2


@pytest.mark.nightly
def test_an_embedding_whose_mode_has_a_lower_rank_is_integrated_by_draws_from_the_prior():
    """Ten points, a ridge: at the mode one row of R is zero, and much of the posterior lies away from it."""
    rng = np.random.default_rng(1)
    X = rng.uniform(-1, 1, (10, 2))
    y = np.sin(3 * X[:, 0] + X[:, 1]) + 0.1 * rng.normal(size=10)
    gpm = pma.embedding_gp(X, y, n_components=2, prior_scale=1.5)
    fitted = fit(gpm)
    assert fitted.best.symmetry.singular_values.min() < 1e-3
    estimate, exact = fitted.sampled_evidence(random_seed=0), average_over_the_prior(gpm, power=15)
    assert exact - fitted.log_evidence > 1
    assert abs(estimate.value - exact) < 3 * np.hypot(estimate.error, 0.05)
    # Around the modes alone, whose draws stay where the rank is one, it would be nats too low.
    assert prior_for_few_data(fitted.best) is not None


def test_draws_that_are_nearer_to_the_other_side_of_an_embedding_do_not_count():
    """Few data and one input: R and -R are close, and a wide proposal reaches from one to the other."""
    rng = np.random.default_rng(0)
    X = rng.uniform(-1, 1, size=(4, 1))
    y = np.sin(1.5 * X[:, 0]) + 0.3 * rng.normal(size=4)
    fixed = {"log_outputscale": 0.0, "log_noise": np.log(0.5)}
    gpm = pma.embedding_gp(X, y, n_components=1, prior_scale=2.0, priors=fixed)
    estimate = pma.fit_laplace(gpm, n_restarts=4, random_seed=0, progressbar=False).sampled_evidence(4000, 0)
    posterior = gpm.posterior()
    draws = posterior.prior.mean + posterior.prior.sd * np.random.default_rng(5).normal(size=(60_000, 1))
    likelihoods = posterior.values(draws) - posterior.prior.values(draws)
    expected = logsumexp(likelihoods) - np.log(len(likelihoods))
    # It counts 0.08 too much with them; either standard error is below 0.005.
    assert_allclose(estimate.value, expected, rtol=0, atol=0.02)


def test_images_of_like_terms_leave_the_posterior_as_it_is():
    x = np.linspace(0, 1, 8)
    gpm = pma.composite_gp(x[:, None], np.sin(9 * x), "SE + PER * SE + RQ + SE * PER + SE")
    posterior = gpm.posterior()
    theta = np.random.default_rng(0).normal(posterior.prior_scale()[0], 0.3)
    images = exchanges(posterior)
    # SE and SE; PER * SE and SE * PER, which are alike though written in another order.
    assert len(images) == 4
    assert len({tuple(image) for image in images}) == 4
    values = [posterior.value_and_gradient(theta[image])[0] for image in images]
    assert_allclose(values, values[0], rtol=1e-10)
    single = pma.composite_gp(x[:, None], x, "SE + RQ").posterior()
    assert len(exchanges(single)) == 1


def test_standard_error_is_the_spread_over_seeds():
    fitted = fit(skewed())
    estimates = [fitted.sampled_evidence(draws=400, random_seed=seed) for seed in range(40)]
    spread = np.std([e.value for e in estimates], ddof=1)
    stated = np.mean([e.error for e in estimates])
    # 40 seeds give a standard deviation to 11 %; strata make the truth a little better than stated.
    assert 0.6 < spread / stated < 1.3
    with pytest.raises(ValueError, match="at least 100; got 10"):
        fitted.sampled_evidence(draws=10)


def test_weights_of_which_none_is_finite_are_worth_nothing():
    weighted = WeightedDraws(np.zeros((3, 1)), np.full(3, -np.inf))
    assert weighted.effective_sample_size == 0
    with pytest.raises(ValueError, match="no draw has a finite weight"):
        weighted.resample(2, np.random.default_rng(0))


@pytest.mark.nightly
def test_draws_given_few_data_are_those_of_the_prior_weighted_by_the_likelihood():
    """Eight points at random, a period: the Gaussians of the modes, and chains that start there, miss much of it."""
    rng = np.random.default_rng(2)
    x, y = rng.uniform(size=8), rng.normal(size=8)
    gpm = pma.composite_gp(x[:, None], y, "PER", x_scale=(0.0, 1.0), y_scale=(0.0, 1.0))
    posterior = gpm.posterior()
    center, sd = posterior.prior_scale()
    thetas = center + sd * norm.ppf(qmc.Sobol(len(center), seed=2).random_base2(15))
    weights = softmax(posterior.likelihood_values(thetas))
    mean = weights @ thetas
    spread = np.sqrt(weights @ np.square(thetas - mean))
    draws = pma.fit_laplace(gpm, random_seed=0, progressbar=False).ensemble_by("draws", 400, 0).thetas
    # Standard errors of these draws, of the weighted ones that they are from, and of the average add up to this.
    error = spread * np.sqrt(1 / 400 + 1 / 500 + np.square(weights).sum())
    assert (np.abs(draws.mean(0) - mean) < 3.5 * error).all()
    assert_allclose(draws.std(0), spread, rtol=0.2)
