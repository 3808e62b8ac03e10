"""Evidence by bridge sampling, against closed forms, quadrature and averages over the prior."""

from functools import cache

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.special import logsumexp
from scipy.stats import multivariate_normal, norm, qmc
from test_importance import fit, reflected, skewed, two_alike
from traces import as_trace, resample

import pymc_active as pma
from pymc_active.laplace.draws.importance import importance_evidence
from pymc_active.posterior.row_space import RowSpace
from pymc_active.predictions.bridge_sampling import _Quotient, bridge_evidence

pytestmark = pytest.mark.slow

BOXES = {skewed: ((-6, -5), (6, 5)), two_alike: ((-8, -8), (4, 4)), reflected: ((-9, -9), (9, 9))}


@cache
def on_grid(model, n=121):
    """Points of a grid in two dimensions, their log posterior, the step, and the evidence of their sum."""
    gpm, (low, high) = model(), BOXES[model]
    axes = [np.linspace(a, b, n) for a, b in zip(low, high, strict=True)]
    grid = np.stack([axis.ravel() for axis in np.meshgrid(*axes, indexing="ij")], axis=1)
    posterior = gpm.posterior()
    values = np.array([posterior.value_and_gradient(theta)[0] for theta in grid])
    step = np.array([axis[1] - axis[0] for axis in axes])
    return grid, values, step, logsumexp(values) + np.log(step).sum()


def exact_draws(model, size, seed=1):
    """Independent draws from a posterior over two parameters, and its evidence."""
    grid, values, step, evidence = on_grid(model)
    draws = resample(grid, values, size, seed)
    return draws + step * np.random.default_rng(seed).uniform(-0.5, 0.5, draws.shape), evidence


def weighted_prior(gpm, power):
    """Draws from the prior, their log likelihoods, and the evidence with its standard error."""
    posterior = gpm.posterior()
    center, sd = posterior.prior_scale()
    thetas = center + sd * norm.ppf(qmc.Sobol(len(center), seed=2).random_base2(power))
    values = np.array([-posterior.state(theta).factor.nll for theta in thetas])
    log_size = 2 * logsumexp(values) - logsumexp(2 * values)
    return thetas, values, logsumexp(values) - np.log(len(values)), np.exp(-0.5 * log_size)


def conjugate():
    """Only the mean's two parameters are free: the evidence is a normal density."""
    x = np.linspace(-1, 1, 6)
    fixed = {"log_lengthscale": 0.0, "log_outputscale": 0.0, "log_noise": -1.0}
    return pma.ard_gp(x[:, None], x + 2, mean="linear", priors=fixed)


def test_evidence_of_a_conjugate_model_is_its_closed_form():
    gpm = conjugate()
    fitted = fit(gpm)
    x = gpm.X[:, 0]
    center, sd = gpm.posterior().prior_scale()
    basis = np.stack([fitted.best.posterior.prior_mean(unit, gpm.X)[0] for unit in np.eye(2)], axis=1)
    kernel = np.exp(-0.5 * np.square(x[:, None] - x)) + np.exp(-2) * np.eye(6)
    exact = multivariate_normal(basis @ center, kernel + basis * sd**2 @ basis.T).logpdf(gpm.y)
    estimate = bridge_evidence(fitted, as_trace(gpm, fitted.draw(2000, 1)), random_seed=0)
    assert estimate.standard_error < 0.01
    assert abs(estimate.log_evidence - exact) < 4 * estimate.standard_error
    assert estimate.effective_sample_size > 500


@pytest.mark.parametrize("model", BOXES, ids=lambda model: model.__name__)
def test_evidence_of_two_parameters_is_that_of_quadrature(model):
    """A skewed posterior, one with an image by exchange, one with an image by reflection."""
    gpm = model()
    fitted = fit(gpm)
    draws, exact = exact_draws(model, 2000)
    estimate = bridge_evidence(fitted, as_trace(gpm, draws, chains=4), random_seed=0)
    assert estimate.standard_error < 0.08
    assert abs(estimate.log_evidence - exact) < 4 * estimate.standard_error
    assert bridge_evidence(fitted, as_trace(gpm, draws, chains=4), random_seed=0) == estimate


def test_standard_error_is_the_spread_over_traces():
    gpm = skewed()
    fitted = fit(gpm)
    found = []
    for seed in range(30):
        draws, exact = exact_draws(skewed, 400, seed)
        found.append(bridge_evidence(fitted, as_trace(gpm, draws), random_seed=seed)[:2])
    estimates, errors = np.array(found).T
    # 30 seeds give a standard deviation to 13 %.
    assert 0.6 < estimates.std(ddof=1) / errors.mean() < 1.5
    assert abs(estimates.mean() - exact) < 4 * errors.mean() / np.sqrt(30)


def test_images_by_exchange_count_once_whichever_the_chains_visit():
    gpm = two_alike()
    fitted = fit(gpm)
    draws, _ = exact_draws(two_alike, 600)
    swapped = np.where(np.random.default_rng(2).uniform(size=(600, 1)) < 0.5, draws, draws[:, ::-1])
    estimates = [bridge_evidence(fitted, as_trace(gpm, some), random_seed=0).log_evidence for some in (draws, swapped)]
    assert_allclose(*estimates, rtol=1e-10)


def plane():
    rng = np.random.default_rng(3)
    X = rng.uniform(-1, 1, (30, 2))
    y = np.sin(4 * X[:, 0]) + np.sin(3 * X[:, 1])
    fixed = {"log_outputscale": 0.0, "log_noise": np.log(0.3)}
    return pma.embedding_gp(X, y, n_components=2, prior_scale=1.5, priors=fixed)


def test_rotations_of_an_embedding_are_integrated():
    """Laplace is low by 0.4 nats here. Draws and evidence come from the prior, weighted by the likelihood."""
    gpm = plane()
    thetas, values, exact, error = weighted_prior(gpm, 14)
    fitted = fit(gpm, n_restarts=12)
    draws = resample(thetas, values, 1000, 1)
    estimate = bridge_evidence(fitted, as_trace(gpm, draws), random_seed=0)
    assert estimate.standard_error < 0.05
    assert abs(estimate.log_evidence - exact) < 4 * np.hypot(estimate.standard_error, error)
    # Turning each draw by its own angle changes nothing.
    rng = np.random.default_rng(4)
    turns = np.linalg.qr(rng.normal(size=(1000, 2, 2)))[0]
    turned = (turns @ draws.reshape(1000, 2, 2)).reshape(1000, 4)
    assert_allclose(
        bridge_evidence(fitted, as_trace(gpm, turned), random_seed=0).log_evidence, estimate.log_evidence, rtol=1e-9
    )


def test_coordinates_across_the_orbits_lead_back():
    gpm = plane()
    space = _Quotient(fit(gpm))
    eta = np.random.default_rng(1).normal(size=(5, 3))
    assert_allclose(space.reduce(space.lift(eta)), eta, atol=1e-12)


@pytest.mark.parametrize("n_components", [1, 2])
def test_more_inputs_than_data(n_components):
    """The bridge is built in the row space of the data, as the fit is; it does not need a good fit."""
    rng = np.random.default_rng(0)
    X = rng.uniform(-1, 1, (5, 12))
    priors = {"log_noise": np.log(0.3)}
    gpm = pma.embedding_gp(X, np.sin(3 * X[:, 0]), n_components=n_components, priors=priors)
    thetas, values, exact, error = weighted_prior(gpm, 13)
    fitted = fit(gpm, n_restarts=6)
    assert isinstance(fitted.best.space, RowSpace)
    estimate = bridge_evidence(fitted, as_trace(gpm, resample(thetas, values, 1000, 1)), random_seed=0)
    assert estimate.standard_error < 0.1
    assert abs(estimate.log_evidence - exact) < 4 * np.hypot(estimate.standard_error, error)


def test_importance_sampling_around_a_good_fit_agrees():
    gpm = skewed()
    fitted = fit(gpm)
    estimate = bridge_evidence(fitted, as_trace(gpm, exact_draws(skewed, 2000)[0]), random_seed=0)
    weighted = importance_evidence(fitted, random_seed=0)
    both = np.hypot(weighted.standard_error, estimate.standard_error)
    assert abs(weighted.log_evidence - estimate.log_evidence) < 4 * both


def test_a_chain_that_moves_slowly_has_a_larger_error():
    gpm = skewed()
    fitted = fit(gpm)
    draws, _ = exact_draws(skewed, 800)
    quick = bridge_evidence(fitted, as_trace(gpm, draws), random_seed=0)
    slow = bridge_evidence(fitted, as_trace(gpm, np.repeat(draws[::8], 8, axis=0)), random_seed=0)
    assert slow.effective_sample_size < 0.4 * quick.effective_sample_size
    assert slow.standard_error > 1.2 * quick.standard_error


def test_where_there_is_no_estimate_it_says_why():
    gpm = skewed()
    fitted = fit(gpm)
    draws, _ = exact_draws(skewed, 100)
    short = bridge_evidence(fitted, as_trace(gpm, draws[:12]), random_seed=0)
    assert np.isnan(short.log_evidence)
    assert short.problem == "the trace has 12 draws; 2 dimensions need at least 30"
    stuck = bridge_evidence(fitted, as_trace(gpm, np.tile(draws[:1], (100, 1))), random_seed=0)
    assert "the chains hardly move" in stuck.problem
    with pytest.raises(ValueError, match="not drawn from this model: it lacks log_lengthscale"):
        bridge_evidence(fitted, as_trace(conjugate(), draws))
