"""Log densities of many particles at once equal those of each by itself."""

import numpy as np
import pymc as pm
import pytest
from numpy.testing import assert_allclose
from users import users_gp

import pymc_active as pma
from pymc_active.posterior.factor import factor_batch, factor_in_place
from pymc_active.posterior.row_space import row_space

EXPRESSIONS = [
    "SE",
    "PER",
    "LIN",
    "RQ",
    "SE * PER + RQ",
    "LIN * (SE + PER)",
    "PER0",
    "LIN * (PER0[1] + C)",
    "SE + STEP[1] * (LIN + STEP[0])",
    "SE[0] + PER[1] * RQ[0]",
]


def data(n, D, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.uniform(-1, 1, size=(n, D))
    return X, np.sin(2 * X[:, 0]) + 0.1 * rng.normal(size=n)


def embedding_in_its_row_space():
    return row_space(pma.embedding_gp(*data(6, 20), n_components=2).posterior()).posterior


POSTERIORS = {
    **{e: lambda e=e: pma.composite_gp(*data(9, 2), e).posterior() for e in EXPRESSIONS},
    "ARD": lambda: pma.ard_gp(*data(9, 4), mean="linear", kernel="Matern52").posterior(),
    "scaled": lambda: pma.ard_gp(*data(9, 2), x_scale="standardize", y_scale="standardize").posterior(),
    "fixed noise": lambda: pma.ard_gp(*data(9, 2), priors={"log_noise": -2.0}).posterior(),
    "many points": lambda: pma.ard_gp(*data(80, 3)).posterior(),
    "embedding": lambda: pma.embedding_gp(*data(9, 5), n_components=2, mean="constant").posterior(),
    "row space": embedding_in_its_row_space,
}


@pytest.mark.parametrize("name", POSTERIORS)
@pytest.mark.parametrize("extra_noise", [0.0, 0.5])
def test_particles_have_the_densities_and_slopes_of_each_by_itself(name, extra_noise):
    posterior = POSTERIORS[name]()
    rng = np.random.default_rng(1)
    thetas = posterior.prior.mean + 0.5 * posterior.prior.sd * rng.normal(size=(40, posterior.n_parameters))
    batch, single = posterior.log_likelihoods(thetas, extra_noise), posterior._one_by_one(thetas, extra_noise)
    assert np.isfinite(batch.value).all()
    assert_allclose(batch.value, single.value, rtol=1e-10, atol=1e-10)
    # Rounding errors grow with the condition number, here up to 1e5, and with the gradients of all particles.
    assert_allclose(batch.gradient, single.gradient, rtol=1e-8, atol=1e-9 * np.abs(single.gradient).max())
    assert_allclose(batch.in_noise, single.in_noise, rtol=1e-8, atol=1e-9 * np.abs(single.in_noise).max())
    values, gradients = posterior.log_priors(thetas)
    each = [posterior.prior_value_and_gradient(theta) for theta in thetas]
    assert_allclose(values, [value for value, _ in each], rtol=1e-12)
    assert_allclose(gradients, [gradient for _, gradient in each], rtol=1e-12)


@pytest.mark.parametrize("kernel", [*EXPRESSIONS, "ARD"])
def test_many_points_are_evaluated_in_blocks_of_rows(kernel):
    """Half of the covariance gives what all of it does."""
    X, y = data(230, 2)
    gpm = pma.ard_gp(X, y, kernel="Matern52") if kernel == "ARD" else pma.composite_gp(X, y, kernel)
    posterior, rng = gpm.posterior(), np.random.default_rng(1)
    theta = posterior.prior.mean + 0.3 * posterior.prior.sd * rng.normal(size=posterior.n_parameters)
    found = posterior.log_likelihoods(theta[None], extra_noise=0.01)
    state = posterior.state(theta, extra_noise=0.01)
    assert_allclose(found.value, -state.factor.nll, rtol=1e-9)
    assert_allclose(found.gradient[0], -posterior.likelihood_gradient(state), rtol=1e-6, atol=1e-6)
    assert_allclose(found.in_noise, -0.5 * np.trace(state.factor.W), rtol=1e-8)


def test_slope_in_the_noise_is_that_of_the_likelihood():
    posterior = pma.ard_gp(*data(12, 2)).posterior()
    theta, h = posterior.prior.mean[None], 1e-5
    ends = [posterior.log_likelihoods(theta, 0.3 + sign * h).value for sign in (1, -1)]
    assert_allclose(posterior.log_likelihoods(theta, 0.3).in_noise, (ends[0] - ends[1]) / (2 * h), rtol=1e-8)


def test_a_singular_covariance_spoils_its_own_particle_only():
    X = np.zeros((5, 1))
    posterior = pma.ard_gp(X, np.arange(5.0)).posterior()
    thetas = np.array([[0.0, 0.0, -1.0], [0.0, 0.0, -400.0], [0.0, 800.0, -1.0]])
    found = posterior.log_likelihoods(thetas)
    assert np.isfinite(found.value).tolist() == [True, False, False]
    assert (found.value[1:] == -np.inf).all()
    assert not found.gradient[1:].any()
    assert posterior.values(thetas)[0] == pytest.approx(posterior.value(thetas[0]), rel=1e-12)


def test_a_users_own_model_has_the_same_densities():
    X, y = data(8, 1)
    own = users_gp(X, y, lambda: pm.gp.cov.ExpQuad(1, ls=pm.math.exp(pm.Normal("log_ls", 0.0, 1.0)))).posterior()
    fixed = {"log_outputscale": 0.0, "log_noise": float(np.log(0.1)), "log_lengthscale": pm.Normal.dist(0.0, 1.0)}
    same = pma.ard_gp(X, y, priors=fixed).posterior()
    thetas = np.linspace(-1, 1, 7)[:, None]
    for one, other in zip(own.log_likelihoods(thetas, 0.2), same.log_likelihoods(thetas, 0.2), strict=True):
        assert_allclose(one, other, rtol=1e-8)
    assert_allclose(own.values(thetas), [own.value(theta) for theta in thetas], rtol=1e-12)


def test_a_users_covariance_that_ignores_some_or_all_parameters_is_evaluated_in_batches():
    rng = np.random.default_rng(7)
    X, y = np.column_stack([rng.uniform(-1, 1, 8), rng.integers(0, 2, 8)]), rng.normal(size=8)
    outputs = pm.gp.cov.Coregion(2, kappa=[1, 2], W=[[1], [0.5]], active_dims=[1])
    cov = pm.gp.cov.Matern52(2, ls=0.7, active_dims=[0]) * outputs
    gpm = users_gp(X, y, lambda: cov, mean=lambda: pm.gp.mean.Linear(coeffs=pm.Normal("slope", 0.0, 1.0, shape=2)))
    posterior = gpm.posterior()
    thetas = rng.normal(size=(5, 2))
    batch, single = posterior.log_likelihoods(thetas, 0.1), posterior._one_by_one(thetas, 0.1)
    for one, other in zip(batch, single, strict=True):
        assert_allclose(one, other, rtol=1e-9)


@pytest.mark.parametrize("gradient", [True, False])
@pytest.mark.parametrize("bad", ["none", "indefinite", "nearly singular", "not finite"])
@pytest.mark.parametrize("n", [1, 3, 12, 16, 17])
def test_factors_of_a_batch_are_those_of_each_matrix(n, bad, gradient):
    """Whether NumPy takes all at once or not, and whatever one of them is."""
    rng = np.random.default_rng(n)
    roots = np.tril(rng.normal(size=(5, n, n))) + 3 * np.eye(n)
    G, residuals = roots @ roots.swapaxes(1, 2), rng.normal(size=(5, n))
    if bad != "none":
        G[2] = {"indefinite": -np.eye(n), "nearly singular": np.full((n, n), 1.0), "not finite": np.nan}[bad]
    if bad == "nearly singular" and n > 1:
        G[2] += 1e-14 * np.eye(n)
    each = G.copy()
    expected = [factor_in_place(g, r, gradient) for g, r in zip(each, residuals, strict=True)]
    alphas, log_roots = factor_batch(G, residuals, gradient)
    assert_allclose(alphas, [alpha for alpha, _ in expected], rtol=1e-8, atol=1e-10)
    assert_allclose(log_roots, [root for _, root in expected], rtol=1e-10)
    assert np.isnan(log_roots[2]) == (bad in ("indefinite", "not finite") or (bad == "nearly singular" and n > 1))
    if gradient:
        sound = np.isfinite(log_roots)
        assert_allclose(np.tril(G[sound]), np.tril(each[sound]), rtol=1e-8, atol=1e-10)
