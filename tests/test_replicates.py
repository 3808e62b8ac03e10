"""Measurements at equal settings cost as much as their means, and mean the same as one by one."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

import pymc_active as pma
from pymc_active.models.datatrees import leave_one_out, simulate
from pymc_active.posterior.conditioned import ConditionedGP
from pymc_active.posterior.row_space import find_space

RNG = np.random.default_rng(0)
PLACES = RNG.uniform(0, 10, (13, 2))
ROWS = np.concatenate([np.arange(13), RNG.integers(0, 12, 37)])
X = PLACES[ROWS]
Y_SD = np.where(ROWS % 3 == 0, 0.5, RNG.choice([0.1, 1.0], 50))
Y = 20 + 5 * np.sin(X[:, 0]) + RNG.normal(size=50)
X_NEW = RNG.uniform(0, 10, (4, 2))
BOUNDS = [(0, 10), (0, 10)]
MODELS = {
    "ard": lambda **more: pma.ard_gp(X, Y, kernel="ExpQuad", bounds=BOUNDS, **more),
    "embedding": lambda **more: pma.embedding_gp(X, Y, n_components=2, bounds=BOUNDS, **more),
    "composite": lambda **more: pma.composite_gp(X, Y, "LIN + SE[0] * RQ[1]", bounds=BOUNDS, **more),
    "linear mean": lambda **more: pma.ard_gp(X, Y, mean="linear", y_scale="standardize", x_scale="box", **more),
}


@pytest.fixture(scope="module", params=itertools.product(MODELS, (False, True)), ids=str)
def gpm(request):
    name, has_bars = request.param
    return MODELS[name](y_sd=Y_SD if has_bars else None)


def thetas_of(posterior, n=3):
    return posterior.prior_scale()[0] + 0.3 * np.random.default_rng(1).normal(size=(n, posterior.n_parameters))


def assert_alike(one, other, rtol=1e-10):
    for a, b in ((a, b) for a, b in zip(one, other, strict=True) if a is not None):
        np.testing.assert_allclose(a, b, rtol=rtol, atol=rtol * np.abs(b).max())


def test_means_and_single_measurements_have_the_same_posterior(gpm):
    means, each = gpm.posterior(), gpm.posterior().of_each
    assert len(each.y) == 50
    assert len(means.y) == (13 if gpm.y_sd is None else len(np.unique(np.c_[X, Y_SD], axis=0)))
    thetas = thetas_of(means)
    for extra_noise in (0.0, 0.2):
        assert_alike(means.log_likelihoods(thetas, extra_noise), each.log_likelihoods(thetas, extra_noise))
        assert_alike(means._one_by_one(thetas, extra_noise), each._one_by_one(thetas, extra_noise))
        state, full = (p.state(thetas[0], extra_noise) for p in (means, each))
        np.testing.assert_allclose(state.factor.nll, full.factor.nll, rtol=1e-11)
        assert_alike(means.moments(state, X_NEW, gradient=True), each.moments(full, X_NEW, gradient=True), 1e-9)
    state, full = (p.state(thetas[0]) for p in (means, each))
    assert_alike([means.hessian(state)], [each.hessian(full)])
    assert_alike([means.likelihood_gradient(state)], [each.likelihood_gradient(full)])
    assert_alike([means.values(thetas)], [each.values(thetas)])
    derivatives = [p.moments_and_slopes(s, X_NEW)[1] for p, s in ((means, state), (each, full))]
    assert_alike(*derivatives, 1e-8)
    assert_alike([means.prior.mean, means.prior.sd], [each.prior.mean, each.prior.sd])


def test_in_a_row_space_and_in_a_part_of_the_rows():
    wide = RNG.normal(size=(13, 40))[ROWS]
    gpm = pma.embedding_gp(wide, Y, n_components=1)
    theta = thetas_of(gpm.posterior())[0]
    space = find_space(gpm.posterior(), gpm.embedding_slice, theta)
    assert len(space.posterior.y) == 13
    z = space.shrink(theta)[None]
    np.testing.assert_allclose(
        space.posterior.likelihood_values(z), gpm.posterior().of_each.likelihood_values(theta[None]), rtol=1e-10
    )
    gpm = MODELS["ard"]()
    rows = np.isin(ROWS, [1, 4, 6])
    expected = gpm.posterior().of_each.subset(np.flatnonzero(rows))
    thetas = thetas_of(expected)
    assert_alike(gpm.posterior().subset([1, 4, 6]).log_likelihoods(thetas), expected.log_likelihoods(thetas))


def test_what_is_told_of_each_measurement_stays():
    gpm = MODELS["ard"]()
    posterior = gpm.posterior()
    thetas = thetas_of(posterior)
    assert_alike(leave_one_out(posterior, thetas), leave_one_out(posterior.of_each, thetas))
    assert simulate(posterior, thetas, np.random.default_rng(0)).shape == (3, 50)
    fit = pma.fit(gpm, random_seed=0, progressbar=False)
    tree = fit.to_datatree(draws=20, random_seed=0)
    assert tree["log_likelihood"].y.shape == (1, 20, 50)
    assert len(fit.y) == 50
    gp = ConditionedGP(posterior, thetas[0])
    noise = gpm.constrain(thetas)["noise"][0] / float(gpm.y_map.scale)
    np.testing.assert_allclose(gp.data_noise, noise**2 / np.bincount(ROWS))


def test_an_outlier_among_replicates_is_named_by_its_row():
    y = Y.copy()
    y[17] += 1000
    gpm = pma.ard_gp(X, y, bounds=BOUNDS, priors={"log_lengthscale": 0.0})
    with pytest.warns(pma.DataWarning, match=r"y\[17\]"):
        pma.fit(gpm, random_seed=0, progressbar=False)


def test_rows_are_chosen_among_all():
    rows = pma.informative_rows(MODELS["ard"](), 20, random_seed=0)
    assert len(np.unique(rows)) == 20
    assert rows.max() >= 40


def test_few_measurements_or_few_replicates_stay_single():
    for n, some in ((40, X[:40]), (50, np.concatenate([RNG.uniform(0, 10, (42, 2)), X[:8]]))):
        posterior = pma.ard_gp(some, Y[:n]).posterior()
        assert len(posterior.y) == n
        assert posterior.of_each is posterior


def test_data_far_from_zero_keep_their_spread():
    one, other = (pma.ard_gp(X, Y + shift, y_scale=(20 + shift, 5.0)).posterior() for shift in (0.0, 1e7))
    np.testing.assert_allclose(other.value(np.zeros(4)), one.value(np.zeros(4)), rtol=1e-6)


def test_a_point_that_joins_its_replicates():
    gpm = MODELS["ard"]()
    gpm.set_data(X[:49], Y[:49])
    fit = pma.fit(gpm, random_seed=0, progressbar=False).update(X[49:], Y[49:], random_seed=0)
    assert len(fit.posterior.y) == 13
    theta = fit.center
    assert fit.posterior.value(theta) == pytest.approx(MODELS["ard"]().posterior().value(theta), rel=1e-12)
