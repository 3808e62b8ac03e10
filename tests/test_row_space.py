"""Embeddings with more inputs than data: the row space is the dense expansion, for less."""

from typing import NamedTuple

import numpy as np
import pymc as pm
import pytest
from numpy.testing import assert_allclose, assert_array_equal

import pymc_active as pma
from pymc_active.laplace.expansion import Expansion, expand
from pymc_active.laplace.fit import LaplaceFit
from pymc_active.models.gpmodel import GPModel
from pymc_active.posterior.row_space import FullSpace, RowSpace, row_space
from pymc_active.predictions.mixtures import marginal_moments

# With so few data a second component is doubtful, which does not matter here.
pytestmark = pytest.mark.filterwarnings("ignore:the Laplace fit is doubtful")

KNOWN_NOISE = {"log_noise": np.log(0.1)}


def data(n, D, seed=1, noise=0.1):
    """A function of two directions, of spread one whatever D is."""
    rng = np.random.default_rng(seed)
    X = rng.uniform(-1, 1, size=(n, D))
    u = X @ rng.normal(size=(D, 2)) * np.sqrt(3 / D)
    return X, np.sin(2 * u[:, 0]) + 0.5 * u[:, 1] ** 2 + 1.0 + noise * rng.normal(size=n)


def fit(gpm, **keywords):
    options = {"n_restarts": 2, "population": 0, "random_seed": 1, "progressbar": False}
    return pma.fit_laplace(gpm, **{**options, **keywords})


class Case(NamedTuple):
    """A fit in the row space, and the dense expansion at the same place."""

    gpm: GPModel
    fit: LaplaceFit
    dense: Expansion


def case(gpm):
    result = fit(gpm)
    return Case(gpm, result, Expansion(FullSpace(gpm.posterior(), gpm.embedding_slice), result.theta))


@pytest.fixture(scope="module", params=["isotropic", "an sd for each input"])
def both(request):
    if request.param == "isotropic":
        X, y = data(100, 300)
        priors = {**KNOWN_NOISE, "log_lengthscale": pm.Normal.dist(0.0, 0.1)}
        return case(pma.embedding_gp(X, y, n_components=2, mean="constant", priors=priors))
    X, y = data(25, 60)
    sds = np.exp(np.random.default_rng(2).normal(-1.5, 0.7, size=60))
    return case(pma.embedding_gp(X, y, n_components=2, mean="constant", priors=KNOWN_NOISE, prior_scale=sds))


# The same numbers as the dense route.


def test_the_fit_was_made_in_the_row_space(both):
    assert isinstance(both.fit.best.space, RowSpace)
    assert len(both.fit.best.z) < len(both.fit.theta) == len(both.gpm.labels)
    assert both.fit.diagnostics["n_symmetry"] == len(both.dense.symmetry.directions) == 1


def test_log_posterior_and_gradient_are_those_of_all_inputs(both):
    value, gradient = both.gpm.posterior().value_and_gradient(both.fit.theta)
    assert_allclose(both.fit.log_posterior, value, rtol=1e-11)
    # A learned lengthscale maximises the evidence instead.
    others = [label != "log_lengthscale" for label in both.fit.labels]
    assert np.abs(gradient[others]).max() < 1e-7
    assert_allclose(both.fit.gradient, both.dense.gradient, rtol=0, atol=1e-9)


def test_the_evidence_is_the_dense_one(both):
    assert_allclose(both.fit.log_evidence, both.dense.log_evidence, rtol=0, atol=1e-8)


@pytest.mark.slow
def test_hessian_and_covariance_are_the_dense_ones(both):
    for got, expected in (
        (both.fit.hessian, both.dense.hessian),
        (both.fit.covariance, both.dense.covariance),
    ):
        assert_allclose(got, expected, rtol=0, atol=1e-8 * np.abs(expected).max())


@pytest.mark.parametrize("method", ["map", "bbq", "mgp"])
def test_predictions_are_the_dense_ones(both, method):
    """Also at the data, where a candidate has no rest outside the row space."""
    X = np.concatenate([both.gpm.X[:3], np.random.default_rng(3).uniform(-2, 2, size=(7, both.gpm.X.shape[1]))])
    got, expected = (marginal_moments(e, X, method) for e in (both.fit.best, both.dense))
    for a, b in zip(got, expected, strict=True):
        assert_allclose(a, b, rtol=1e-8)


@pytest.mark.parametrize("method", ["map", "bbq", "mgp"])
def test_the_prior_outside_the_row_space_widens_predictions(both, method):
    """A step that no datum made leaves the mean as it is; under the MAP it leaves everything."""
    rng = np.random.default_rng(4)
    space = both.fit.best.space
    step = rng.normal(size=len(space.scale))
    step -= space.basis @ (space.basis.T @ step)
    step = 3 * step / np.linalg.norm(step) / space.scale
    here, there = (marginal_moments(both.fit.best, both.gpm.X[:4] + s * step, method) for s in (0, 1))
    assert_allclose(there.mean, here.mean, rtol=1e-9)
    if method == "map":
        assert_allclose(there.variance, here.variance, rtol=1e-6)
    else:
        assert (there.variance > 1.2 * here.variance).all()


@pytest.mark.parametrize("on_orbit", [False, True])
def test_any_point_can_be_expanded(both, on_orbit):
    """Off the modes R has a part outside the row space of the data, and the gradient is not zero."""
    theta = both.fit.theta + 0.3 * np.random.default_rng(5).normal(size=len(both.fit.theta)) * (not on_orbit)
    got = expand(both.gpm.posterior(), theta, both.gpm.embedding_slice)
    expected = Expansion(FullSpace(both.gpm.posterior(), both.gpm.embedding_slice), theta)
    assert isinstance(got.space, RowSpace)
    assert_allclose(got.theta, theta, rtol=0, atol=1e-12)
    assert_allclose(got.log_posterior, expected.log_posterior, rtol=1e-12)
    assert_allclose(got.full_gradient, expected.gradient, rtol=0, atol=1e-9 * (1 + np.abs(expected.gradient).max()))
    assert_allclose(got.full_hessian, expected.hessian, rtol=0, atol=1e-9 * np.abs(expected.hessian).max())


def test_draws_have_the_dense_covariance(both):
    """Along random directions, and along data; 4.5 standard errors of 1,000 draws."""
    rng = np.random.default_rng(7)
    shift = both.fit.draw(1000, 8) - both.fit.theta
    directions = rng.normal(size=(12, len(both.fit.theta)))
    directions[6:] = 0.0
    rows, (d, _) = both.gpm.embedding_slice
    directions[6:, rows] = np.stack([np.kron(np.eye(d)[i % d], both.gpm.X[i]) for i in range(6)])
    expected = np.einsum("ip,pq,iq->i", directions, both.dense.covariance, directions)
    ratio = np.square(shift @ directions.T).mean(0) / expected
    assert np.abs(ratio - 1).max() < 4.5 * np.sqrt(2 / 1000)


def test_draws_do_not_move_along_the_orbit(both):
    shift = both.fit.draw(5, 8) - both.fit.theta
    assert_allclose(shift @ both.dense.symmetry.directions.T, 0, atol=1e-10)


def test_other_data_are_expanded_as_a_model_of_them_would_be(both):
    """As the learner does with points that are asked for: with the value that is predicted there."""
    new = np.random.default_rng(9).uniform(-1, 1, size=(3, both.gpm.X.shape[1]))
    X = np.concatenate([both.gpm.X, new])
    y = np.concatenate([both.gpm.y, marginal_moments(both.fit.best, new).mean])
    got = both.fit.given(X, y)
    expected = Expansion(FullSpace(both.gpm.posterior().with_data(X, y), both.gpm.embedding_slice), both.fit.theta)
    assert isinstance(got.best.space, RowSpace)
    assert len(got.best.z) == len(both.fit.best.z) + 2 * (3 + 2)
    assert_array_equal(got.X, X)
    assert_allclose(got.theta, both.fit.theta, rtol=0, atol=1e-12)
    assert_allclose(got.log_posterior, expected.log_posterior, rtol=1e-11)
    assert got.diagnostics["n_floored"] == expected.curvature.n_floored == 0
    assert len(got.best.symmetry.directions) == len(expected.symmetry.directions)
    evidences = [
        # Off the mode the orbit may be part of the determinant; its volume depends on the coordinates.
        e.log_evidence - (0.0 if len(e.symmetry.directions) else e.symmetry.log_volume)
        for e in (got.best, expected)
    ]
    assert_allclose(*evidences, rtol=0, atol=1e-7)
    for a, b in zip(marginal_moments(got.best, new), marginal_moments(expected, new), strict=True):
        assert_allclose(a, b, rtol=1e-7)


def test_so_many_data_that_a_row_space_saves_nothing_are_expanded_densely(both):
    X, y = data(both.gpm.X.shape[1], both.gpm.X.shape[1], seed=9)
    assert isinstance(both.fit.given(X, y).best.space, FullSpace)


# Inputs that say nothing.


def test_columns_of_zeros_change_nothing():
    """An input that is always zero adds its prior, which integrates to one."""
    X, y = data(24, 20)
    padded = np.concatenate([X, np.zeros((24, 130))], axis=1)
    short, long = (
        pma.embedding_gp(Z, y, n_components=2, mean="constant", prior_scale=0.4, priors=KNOWN_NOISE)
        for Z in (X, padded)
    )
    plain = fit(short)
    R = np.concatenate([plain.point["R"], np.zeros((2, 130))], axis=1)
    wide = pma.fit_laplace(long, point={**plain.point, "R": R}, optimize=False)
    assert isinstance(plain.best.space, FullSpace)
    assert isinstance(wide.best.space, RowSpace)
    assert_allclose(wide.log_evidence, plain.log_evidence, rtol=0, atol=1e-8)
    assert_allclose(wide.log_posterior - plain.log_posterior, -260 * np.log(0.4 * np.sqrt(2 * np.pi)), rtol=1e-9)
    new = data(6, 20, seed=2)[0]
    for method in ("map", "bbq", "mgp", "modes"):
        a = pma.predict(plain, new, method=method)
        b = pma.predict(wide, np.concatenate([new, np.zeros((6, 130))], axis=1), method=method)
        for name in a.data_vars:
            assert_allclose(b[name], a[name], rtol=1e-8)


# Where it is not exact.


@pytest.mark.parametrize(
    "options",
    [
        {"priors": {**KNOWN_NOISE, "R": pm.Normal.dist(0.1, 0.3, shape=(2, 30))}},
        {"prior_scale": np.stack([np.full(30, 0.3), np.full(30, 0.4)])},
        {"mean": "linear"},
    ],
    ids=["a prior mean", "sds that differ between rows", "a linear mean"],
)
def test_what_is_not_exact_in_the_row_space_is_done_densely(options):
    X, y = data(8, 30)
    gpm = pma.embedding_gp(X, y, n_components=2, **{"priors": KNOWN_NOISE, "mean": "constant", **options})
    assert row_space(gpm.posterior()) is None
    result = fit(gpm, n_restarts=1)
    assert isinstance(result.best.space, FullSpace)
    assert result.hessian.shape == result.covariance.shape == (len(gpm.labels),) * 2
    assert pma.predict(result, X[:2])["f_mean"].shape == (2,)
    assert result.draw(3, 1).shape == (3, len(gpm.labels))


def test_other_models_have_no_row_space():
    X, y = data(5, 12)
    assert row_space(pma.ard_gp(X, y).posterior()) is None
    assert row_space(pma.embedding_gp(X, y, n_components=1, priors={"R": np.ones((1, 12))}).posterior()) is None
    assert row_space(pma.embedding_gp(X, y, n_components=1).posterior()) is not None


# More parameters than a dense matrix allows.


@pytest.fixture(scope="module")
def huge():
    X, y = data(30, 2600)
    return fit(pma.embedding_gp(X, y, n_components=2, mean="constant", priors=KNOWN_NOISE), n_restarts=1)


@pytest.mark.filterwarnings("ignore:the short MCMC chains accept fewer")
def test_nothing_else_needs_a_dense_matrix(huge):
    X = data(4, 2600, seed=3)[0]
    for method in ("map", "bbq", "mgp", "modes", "draws"):
        prediction = pma.predict(huge, X, method=method, draws=4, random_seed=0)
        assert all(np.isfinite(prediction[name]).all() for name in prediction.data_vars)
    assert (pma.active.bald(huge, X) > 0).all()
    assert huge.gradient.shape == (5203,)
    tree = huge.to_datatree(draws=3, random_seed=1)
    assert tree["posterior"]["R"].shape == (1, 3, 2, 2600)
    assert_array_equal(tree["fit"]["mean_vector"], huge.theta)
    assert "covariance_matrix" not in tree["fit"]


def test_the_marginal_variance_is_that_of_the_draws(huge):
    """BBQ's second term is the variance of the linearised mean: u = R x moves by the draws, the rest by the data."""
    rng = np.random.default_rng(13)
    X = np.stack([huge.X[0] + 0.1 * rng.normal(size=2600), rng.uniform(-1, 1, size=2600)])
    posterior = huge.gpm.posterior()
    shift = huge.draw(1000, 14) - huge.theta
    gradient = posterior.moments(posterior.state(huge.theta), X, gradient=True).mean_gradient
    marginal, plain = (marginal_moments(huge.best, X, method) for method in ("bbq", "map"))
    ratio = np.square(shift @ gradient.T).mean(0) / (marginal.variance - plain.variance)
    assert np.abs(ratio - 1).max() < 4.5 * np.sqrt(2 / 1000)
