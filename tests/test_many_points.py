"""Fits to many points: modes from some of the data, few draws, kept factorisations, and ``max_points``."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

import pymc_active as pma
from pymc_active.laplace.modes import task
from pymc_active.laplace.modes.search import follow
from pymc_active.particles.informative import by_variance
from pymc_active.particles.particle_fit import FEWEST
from pymc_active.posterior import array
from pymc_active.posterior.base import MANY
from pymc_active.posterior.conditioned import ConditionedGP
from pymc_active.predictions import mixtures
from pymc_active.predictions.mixtures import draw_moments
from pymc_active.support.threads import _controller, threads_for

N = MANY + 40


def data(n=N, D=2, seed=1, noise=0.1):
    rng = np.random.default_rng(seed)
    X = rng.uniform(-1, 1, size=(n, D))
    return X, np.sin(3 * X[:, 0]) + 0.5 * X[:, -1] + noise * rng.normal(size=n)


MODELS = {
    "ARD": lambda X, y: pma.ard_gp(X, y, mean="linear"),
    "sum and product": lambda X, y: pma.composite_gp(X, y, "SE * LIN + RQ"),
    "embedding": lambda X, y: pma.embedding_gp(X, y, n_components=1, priors={"log_lengthscale": 0.0}),
}


@pytest.fixture(params=MODELS)
def gpm(request):
    return MODELS[request.param](*data(30))


def near_prior(posterior, rng, size=3):
    center, sd = posterior.prior_scale()
    return center + 0.3 * sd * rng.normal(size=(size, len(center)))


@pytest.mark.nightly
@pytest.mark.slow
@pytest.mark.parametrize("name", MODELS)
def test_a_mode_found_from_some_of_the_data_is_that_of_a_search_on_all(name, monkeypatch):
    options = {"n_restarts": 4, "population": 0, "random_seed": 1, "progressbar": False}
    model = MODELS[name](*data())
    some = pma.fit_laplace(model, **options)
    monkeypatch.setattr(task, "MANY", 10**9)
    on_all = pma.fit_laplace(model, **options)
    assert some.diagnostics["converged"]
    # An embedding may have the other sign: the density tells.
    assert abs(some.log_posterior - on_all.log_posterior) < 2e-6
    assert abs(some.log_evidence - on_all.log_evidence) < 1e-2


def test_following_the_mode_of_some_of_the_data_takes_few_evaluations():
    model, options = pma.ard_gp(*data()), {"n_restarts": 2, "population": 0, "random_seed": 1, "progressbar": False}
    few = pma.fit_laplace(pma.ard_gp(*data(70)), **options).best
    posterior = model.posterior()
    found = follow(posterior, few.z, few.root)
    assert found.converged
    assert found.n_evaluations < 25
    best = pma.fit_laplace(model, start=model.unflatten(found.z), **options)
    assert abs(best.log_posterior - found.log_posterior) < 1e-6


@pytest.mark.slow
def test_draws_of_many_points_have_the_moments_and_the_evidence_of_the_mode():
    """With so many points the posterior is nearly Gaussian, so that Laplace's approximation is the second route."""
    model = pma.ard_gp(*data(noise=0.3), priors={"log_outputscale": 0.0})
    fit = pma.fit(model, random_seed=1, progressbar=False)
    modes = pma.fit_laplace(model, n_restarts=2, population=0, random_seed=1, progressbar=False)
    assert fit.diagnostics["confirmed"]
    assert abs(fit.log_evidence - modes.log_evidence) < 0.3
    sd = np.sqrt(np.diag(modes.covariance))
    assert (np.abs(fit.ensemble.thetas.mean(0) - modes.theta) < 0.5 * sd).all()
    # The log noise is the most Gaussian of them.
    assert_allclose(fit.ensemble.thetas[:, -1].std(), sd[-1], rtol=0.3)


def test_more_points_have_fewer_particles():
    gpm = pma.ard_gp(*data(20))
    assert gpm.n_particles(50) == gpm.n_particles(300) == 256
    assert gpm.n_particles(600) == 64
    assert gpm.n_particles(10**5) == 16 < FEWEST


@pytest.mark.nightly
@pytest.mark.slow
def test_an_updated_fit_to_many_points_is_drawn_anew_where_moves_would_cost_more():
    X, y = data()
    fit = pma.fit(pma.ard_gp(X, y), random_seed=1, progressbar=False)
    follows = fit.update(X[:1], y[:1], random_seed=1)
    assert "; since then 1 point by reweighing" in str(follows)
    surprised = fit.update(X[:1], y[:1] + 3, random_seed=1)
    assert surprised.diagnostics["n_fresh"] == N + 1


def test_a_light_state_has_the_same_values_and_predictions(gpm):
    posterior, rng = gpm.posterior(), np.random.default_rng(1)
    X_new = rng.uniform(-1, 1, size=(5, 2))
    for theta in near_prior(posterior, rng):
        full, light = posterior.state(theta), posterior.light_state(theta)
        assert_allclose(light.factor.nll, full.factor.nll, rtol=1e-10)
        for ours, theirs in zip(posterior.moments(light, X_new)[:4], posterior.moments(full, X_new)[:4], strict=True):
            assert_allclose(ours, theirs, rtol=1e-8, atol=1e-10)
        ours, theirs = (posterior.moments_and_slopes(state, X_new)[1] for state in (light, full))
        assert_allclose(ours.variance, theirs.variance, rtol=1e-7, atol=1e-9)


def test_likelihoods_without_gradients_are_those_with(gpm):
    posterior = gpm.posterior()
    thetas = near_prior(posterior, np.random.default_rng(1))
    assert_allclose(posterior.likelihood_values(thetas), posterior.log_likelihoods(thetas).value, rtol=1e-10)


def test_the_posterior_of_some_data_is_that_of_a_model_of_them(gpm):
    posterior, rows = gpm.posterior(), np.array([3, 1, 20, 7])
    some, alone = posterior.subset(rows), posterior.with_data(gpm.X[rows], gpm.y[rows])
    for theta in near_prior(posterior, np.random.default_rng(1)):
        for ours, theirs in zip(some.value_and_gradient(theta), alone.value_and_gradient(theta), strict=True):
            assert_allclose(ours, theirs, rtol=1e-10)
    assert len(posterior.y) == 30


@pytest.mark.parametrize("name", ["ARD", "sum and product"])
def test_a_hessian_by_differences_is_the_exact_one(name, monkeypatch):
    posterior = MODELS[name](*data(30)).posterior()
    [theta] = near_prior(posterior, np.random.default_rng(1), 1)
    exact = posterior.hessian(posterior.state(theta))
    monkeypatch.setattr(array, "_DENSE", 0)
    by_differences = posterior.hessian(posterior.state(theta))
    assert not np.array_equal(by_differences, exact)
    assert_allclose(by_differences, exact, rtol=1e-5, atol=1e-6 * np.abs(exact).max())


def test_factorisations_are_kept_for_the_next_prediction(monkeypatch):
    posterior, X_new = pma.ard_gp(*data(30)).posterior(), np.zeros((1, 2))
    thetas = near_prior(posterior, np.random.default_rng(1), 20)
    made = []
    monkeypatch.setattr(
        type(posterior), "light_state", lambda self, theta: made.append(theta) or self.state(theta), raising=True
    )
    first = draw_moments(posterior, thetas, X_new)
    assert len(made) == 20
    for ours, theirs in zip(draw_moments(posterior, thetas, X_new), first, strict=True):
        assert_array_equal(ours, theirs)
    assert len(made) == 20
    # Without room the first 16 stay, and another posterior pushes them out.
    monkeypatch.setattr(mixtures, "_BYTES", 0)
    others = [posterior.with_data(*data(30, seed=seed)) for seed in (2, 3)]
    for _ in range(2):
        draw_moments(others[0], thetas, X_new)
    assert len(made) == 20 + 20 + 4
    draw_moments(others[1], thetas, X_new)
    draw_moments(others[0], thetas, X_new)
    assert len(made) == 44 + 20 + 20


def test_large_matrices_have_all_threads_and_small_ones_as_many_as_before():
    controller, most = _controller()

    def now():
        return {one["num_threads"] for one in controller.select(user_api="blas").info()}

    before = now()
    with threads_for(10):
        assert now() == before
    with threads_for(5000):
        assert now() == {most}


# Some of the points.


def test_points_are_chosen_one_after_another_by_the_variance_given_the_others():
    posterior = pma.ard_gp(*data(25)).posterior()
    theta = posterior.prior_scale()[0] - 0.5
    gp, X = ConditionedGP(posterior, theta), posterior.X
    K, noise = gp.covariance(X, X), float(gp.noise_variance(X[:1])[0])
    chosen: list[int] = []
    for _ in range(12):
        G = K[np.ix_(chosen, chosen)] + noise * np.eye(len(chosen))
        variance = np.diag(K) - np.sum(K[chosen] * np.linalg.solve(G, K[chosen]), axis=0)
        chosen.append(max(set(range(25)) - set(chosen), key=lambda i: (round(variance[i], 10), -i)))
    assert by_variance(gp, X, 12).tolist() == chosen


@pytest.mark.parametrize("value", [1, 20.5, "all", 61])
def test_bad_numbers_of_rows_are_refused(value):
    with pytest.raises(ValueError, match="n_rows must be"):
        pma.informative_rows(pma.ard_gp(*data(12)), value)
