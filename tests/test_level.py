"""Information about the side of a threshold."""

from functools import partial

import numpy as np
import pytest
from nightly import nightly
from numpy.testing import assert_allclose
from scipy.special import ndtr
from scipy.stats import multivariate_normal

import pymc_active as pma
from pymc_active.active import level
from pymc_active.posterior.conditioned import ConditionedGP


@pytest.fixture(scope="module")
def fit():
    """One set of hyperparameters, so that sums can be made by hand."""
    X = np.random.default_rng(1).uniform(-1, 1, (6, 1))
    known = {"log_lengthscale": np.log(0.5), "log_outputscale": 0.0, "log_noise": np.log(0.3)}
    return pma.fit(pma.ard_gp(X, np.sin(3 * X[:, 0]), priors=known), progressbar=False)


def test_it_is_that_of_sums_over_outcome_and_function(fit):
    x, target, threshold = np.array([[0.4]]), np.array([[0.7]]), 0.6
    gp = ConditionedGP(fit.posterior, np.empty(0))
    both = np.concatenate([x, target])
    solved = gp.factor.solve(gp.covariance(gp.X, both))
    mean = gp.prior_mean(both)[0] + gp.alpha @ gp.covariance(gp.X, both)
    cov = gp.covariance(both, both) - gp.covariance(both, gp.X) @ solved + np.diag([0.09, 0.0])
    y = mean[0] + np.sqrt(cov[0, 0]) * np.linspace(-7, 7, 601)
    f = mean[1] + np.sqrt(cov[1, 1]) * np.linspace(-7, 7, 2001)
    density = multivariate_normal(mean, cov).pdf(np.stack(np.meshgrid(y, f, indexing="ij"), axis=-1))
    joint = np.stack([density[:, f <= threshold].sum(1), density[:, f > threshold].sum(1)]) / density.sum()
    apart = joint.sum(0) * joint.sum(1)[:, None]
    expected = (joint * np.log(np.maximum(joint, 1e-300) / np.maximum(apart, 1e-300))).sum()
    assert_allclose(level(fit, x, threshold, X_target=target), expected, rtol=0.01)


@pytest.mark.parametrize("kind", ["poisson", *nightly("normal", "bernoulli")])
def test_places_near_the_crossing_tell_most(kind):
    rng = np.random.default_rng(2)
    X = np.linspace(-1, 1, 25)[:, None]
    f = 3 * (X[:, 0] - 0.3)
    y = {"normal": f, "bernoulli": rng.uniform(size=25) < ndtr(f), "poisson": rng.poisson(np.exp(f + 1))}[kind]
    threshold = {"normal": 0.0, "bernoulli": 0.5, "poisson": np.e}[kind]
    gpm = pma.ard_gp(X, y, bounds=[(-1, 1)], likelihood=kind)
    pool = np.linspace(-1, 1, 41)[:, None]
    learner = pma.Learner(gpm, "function", criterion=partial(level, threshold=threshold), pool=pool, random_seed=1)
    assert abs(learner.ask()[0, 0] - 0.3) < 0.3
    best = pool[int(level(learner.fit, pool, threshold).argmax("point")), 0]
    assert abs(best - 0.3) < 0.3
    assert "threshold" in learner.criterion_name


def test_what_no_outcome_can_be_is_refused(fit):
    with pytest.raises(ValueError, match="needs a threshold, a number"):
        level(fit, [[0.0]], None)
    with pytest.raises(ValueError, match="needs a threshold, a number"):
        pma.Learner(fit.gpm, "function", criterion="level", pool=[[0.0], [1.0]])
    labels = pma.fit(pma.ard_gp([[0.0], [1.0]], [0, 1], likelihood="bernoulli"), random_seed=1, progressbar=False)
    with pytest.raises(ValueError, match=r"threshold=1\.2 is no expected outcome"):
        level(labels, [[0.0]], 1.2)
