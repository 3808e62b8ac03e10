"""Models whose every parameter is fixed: nothing to search, nothing to marginalise, everything else as ever."""

import numpy as np
import pytest
from scipy.stats import multivariate_normal

import pymc_active as pma

LENGTHSCALE, NOISE = 0.4, 0.05
KNOWN = {"log_lengthscale": np.log(LENGTHSCALE), "log_outputscale": 0.0, "log_noise": np.log(NOISE)}


@pytest.fixture
def data():
    rng = np.random.default_rng(3)
    X = rng.uniform(size=(7, 2))
    return X, np.sin(4 * X).sum(1)


@pytest.fixture
def gpm(data):
    return pma.ard_gp(*data, priors=KNOWN)


def covariance(A, B):
    return np.exp(-0.5 * np.square((A[:, None] - B) / LENGTHSCALE).sum(2))


def test_the_evidence_is_the_likelihood(data, gpm):
    X, y = data
    fit = pma.fit_laplace(gpm, progressbar=False)
    exact = multivariate_normal(np.zeros(7), covariance(X, X) + NOISE**2 * np.eye(7)).logpdf(y)
    assert fit.log_evidence == pytest.approx(exact, abs=1e-9)
    assert fit.labels == []
    assert fit.covariance.shape == (0, 0)


@pytest.mark.parametrize("method", ["map", "bbq", "mgp", "modes", "draws"])
def test_every_way_to_marginalise_nothing_gives_the_plain_gp(data, gpm, method):
    X, y = data
    new = X + 0.1
    prediction = pma.predict(pma.fit_laplace(gpm, progressbar=False), new, method=method)
    weights = np.linalg.solve(covariance(X, X) + NOISE**2 * np.eye(7), covariance(X, new))
    np.testing.assert_allclose(prediction.f_mean, weights.T @ y, atol=1e-10)
    np.testing.assert_allclose(prediction.f_variance, 1 - np.sum(weights * covariance(X, new), axis=0), atol=1e-10)


@pytest.mark.parametrize("method", ["mgp", "draws"])
def test_there_is_nothing_to_learn_about_hyperparameters(data, gpm, method):
    score = pma.active.bald(pma.fit_laplace(gpm, progressbar=False), data[0] + 0.1, method=method)
    np.testing.assert_allclose(score, 0, atol=1e-8)
    with pytest.raises(ValueError, match="every parameter of this model is fixed"):
        pma.active.Learner(gpm, "hyperparameters", pool=data[0] + 0.1)


def test_a_learner_looks_for_the_maximum_as_the_criterion_at_a_point_does(data, gpm):
    pool = np.random.default_rng(4).uniform(size=(40, 2))
    learner = pma.active.Learner(gpm, "maximum", criterion="pes", pool=pool, random_seed=1)
    asked = learner.ask()
    score = pma.active.pes(pma.ard_gp(*data, priors=KNOWN), pool, point={}, random_seed=1)
    assert (asked == pool[score.to_numpy().argmax()]).all()


def test_a_saved_learner_goes_on(gpm, tmp_path):
    learner = pma.active.Learner(gpm, "maximum", bounds=[(0, 1)] * 2, random_seed=1)
    learner.tell(learner.ask(), 0.3)
    learner.save(tmp_path / "run.nc")
    np.testing.assert_array_equal(pma.active.Learner.load(tmp_path / "run.nc").ask(), learner.ask())
