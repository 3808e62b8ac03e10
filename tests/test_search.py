"""Posterior over models and over the number of components: against plain averages over the prior."""

import copy
import warnings
from dataclasses import replace
from functools import partial

import numpy as np
import pymc as pm
import pytest
from numpy.testing import assert_allclose
from scipy.special import logsumexp, softmax
from scipy.stats import norm, qmc

import pymc_active as pma
from pymc_active.predictions.model_average import ModelAverage
from pymc_active.structure import dimension

QUICK = {"n_restarts": 4, "population": 0}
# Of the default prior of R for two inputs.
SCALE = 1.25 * np.sqrt(3 / 2)
KNOWN = {"log_outputscale": 0.0, "log_noise": np.log(0.1)}


def problem(D, d, n, seed):
    rng = np.random.default_rng(seed)
    R = rng.normal(size=(d, D)) * 1.25 * np.sqrt(3 / D)
    X = rng.uniform(-1, 1, (n, D))
    s = np.square((X[:, None] - X) @ R.T).sum(-1)
    return X, rng.multivariate_normal(np.zeros(n), np.exp(-s / 2) + 0.01 * np.eye(n), method="cholesky")


@pytest.fixture(scope="module")
def fits():
    X, y = problem(2, 1, 15, 0)
    models = {k: pma.ard_gp(X, y, kernel=k) for k in ("ExpQuad", "Matern52", "Matern12")}
    return {k: pma.fit_laplace(gpm, random_seed=1, progressbar=False, **QUICK) for k, gpm in models.items()}


def with_modes(fit, log_evidences, floored):
    """A fit that pretends to have more modes."""
    expansions = [copy.copy(fit.best) for _ in log_evidences]
    for expansion, evidence, n in zip(expansions, log_evidences, floored, strict=True):
        expansion.log_evidence, expansion.curvature = evidence, fit.best.curvature._replace(n_floored=n)
    return replace(fit, expansions=expansions)


def floored(fit):
    """A fit at what pretends not to be a maximum."""
    return with_modes(fit, [fit.log_evidence], [1])


def test_probabilities_are_evidences_times_the_prior(fits):
    found = pma.active.model_posterior(fits)
    evidence = np.array([logsumexp([mode.log_evidence for mode in fit.modes]) for fit in fits.values()])
    assert_allclose(found, softmax(evidence))
    assert_allclose(found.log_evidence, evidence)
    assert found.model.to_numpy().tolist() == list(fits)
    assert not found.doubtful.any()
    by_label = pma.active.model_posterior(fits, prior={"Matern12": 0, "Matern52": 6, "ExpQuad": 2})
    assert_allclose(by_label, softmax(evidence + np.array([np.log(0.25), np.log(0.75), -np.inf])))
    numbered = pma.active.model_posterior(list(fits.values()), prior=[2, 6, 0])
    assert_allclose(numbered, by_label)
    assert numbered.model.to_numpy().tolist() == [0, 1, 2]
    assert numbered.description[1] == "ard_gp(Matern52)"


def test_evidence_is_summed_over_proper_modes(fits):
    fit = with_modes(fits["ExpQuad"], [-3.0, -4.0, -2.0], [0, 0, 1])
    assert_allclose(pma.active.model_posterior([fit]).log_evidence, np.log(np.exp(-3) + np.exp(-4)))


def test_a_doubtful_fit_never_wins_silently(fits):
    best = pma.active.model_posterior(fits).idxmax().item()
    worst = pma.active.model_posterior(fits).idxmin().item()
    for doubted in (partial(replace, converged=False), floored):
        with pytest.warns(UserWarning, match=f"{best!r} is the most probable, but its fit is doubtful") as caught:
            found = pma.active.model_posterior({**fits, best: doubted(fits[best])})
        assert len(caught) == 1
        assert found.doubtful.sel(model=best)
        # A doubtful loser is marked; nobody is warned.
        assert pma.active.model_posterior({**fits, worst: doubted(fits[worst])}).doubtful.sum() == 1


def test_a_doubtful_fit_that_its_prior_makes_win_does_not_do_so_silently(fits):
    worst = pma.active.model_posterior(fits).idxmin().item()
    doubted = {**fits, worst: replace(fits[worst], converged=False)}
    prior = {label: 1e12 if label == worst else 1.0 for label in fits}

    def another_prior(fits, prior):
        return ModelAverage(fits).with_prior(prior).probability

    for ask in (pma.active.model_posterior, another_prior):
        with pytest.warns(UserWarning, match=f"{worst!r} is the most probable, but its fit is doubtful") as caught:
            assert ask(doubted, prior=prior).idxmax().item() == worst
        assert len(caught) == 1


def test_bad_fits_and_priors(fits):
    fit = fits["ExpQuad"]
    other = pma.fit_laplace(pma.ard_gp(fit.X, fit.y + 1), point=fit.point, optimize=False)
    with pytest.raises(ValueError, match="'ExpQuad' and 'new' have different y: fit every model"):
        pma.active.model_posterior({"ExpQuad": fit, "new": other})
    for wrong in (fit, [], None):
        with pytest.raises(TypeError, match="a dict or a list with at least one fit"):
            pma.active.model_posterior(wrong)
    with pytest.raises(TypeError, match="1 is GPModel"):
        pma.active.model_posterior([fit, fit.gpm])
    for prior in ([1, 2], [1, -1, 1], [0, 0, 0], [np.nan, 1, 1]):
        with pytest.raises(ValueError, match="prior must hold 3 weights >= 0"):
            pma.active.model_posterior(fits, prior=prior)
    with pytest.raises(ValueError, match="must have the keys of fits"):
        pma.active.model_posterior(fits, prior={"ExpQuad": 1})


@pytest.mark.slow
@pytest.mark.parametrize(
    ("true", "seed", "lowest"), [(1, 1, {1: -0.4, 2: -2.0}), pytest.param(2, 5, {2: -0.8}, marks=pytest.mark.nightly)]
)
def test_evidences_are_averages_of_the_likelihood_over_the_prior(true, seed, lowest):
    """Two inputs, known noise: a quasi-Monte-Carlo average knows neither modes nor rotations."""
    X, y = problem(2, true, 20, seed)
    with warnings.catch_warnings():
        # That Laplace's evidence of the surplus component is too low, it says itself.
        warnings.filterwarnings(
            "ignore" if true == 1 else "error", "the Laplace fit is doubtful: the smallest singular"
        )
        models = {d: pma.embedding_gp(X, y, n_components=d, prior_scale=SCALE, priors=KNOWN) for d in (1, 2)}
        fits = {d: pma.fit_laplace(gpm, random_seed=1, progressbar=False, **QUICK) for d, gpm in models.items()}
        posterior = pma.active.model_posterior(fits)
    assert [fit.evidence_is_poor for fit in fits.values()] == [False, true == 1]
    exact = {d: average_over_the_prior(X, y, d) for d in (1, 2)}
    assert max(exact, key=exact.get) == true
    # Laplace's own error: it misses the tail towards large R, and more of it where a surplus component is at zero.
    # The orbits of d = 2 contribute some 3 nats. (The average is too rough for d = 1 where two are needed.)
    for d, low in lowest.items():
        assert low < posterior.log_evidence.sel(model=d) - exact[d] < 0.2
    assert_allclose(posterior, softmax(posterior.log_evidence))


@pytest.mark.nightly
@pytest.mark.parametrize(("true", "seed"), [(1, 1), (2, 5)])
def test_evidences_of_particles_are_averages_over_the_prior(true, seed):
    X, y = problem(2, true, 20, seed)
    found = pma.search.embedding_dimension(X, y, (1, 2), random_seed=1, progressbar=False, priors=KNOWN)
    assert found.best is found.fits[true]
    # The average is too rough for d = 1 where two are needed.
    for d in (1, 2) if true == 1 else (2,):
        error = found.table.log_evidence.sel(n_components=d) - average_over_the_prior(X, y, d, 16, is_learned=True)
        # And 0.1 for the average itself.
        assert abs(error) < 4 * found.fits[d].log_evidence_error + 0.1
        assert found.fits[d].log_evidence_error < 0.5


def average_over_the_prior(X, y, d, power=15, is_learned=False):
    n = len(y)
    z = norm.ppf(qmc.Sobol(2 * d + is_learned, rng=3).random_base2(power))
    R = SCALE * z[:, : 2 * d].reshape(-1, d, 2)
    if is_learned:
        R /= np.exp(z[:, -1, None, None])
    log_likelihood = []
    for block in np.array_split(R, 2 ** (power - 12)):
        U = X @ block.swapaxes(1, 2)
        s = np.square(U[:, :, None] - U[:, None]).sum(-1)
        L = np.linalg.cholesky(np.exp(-s / 2) + 0.01 * np.eye(n))
        half = np.linalg.solve(L, np.broadcast_to(y[:, None], (len(L), n, 1)))[..., 0]
        log_likelihood.append(-0.5 * (half**2).sum(1) - np.log(np.diagonal(L, axis1=1, axis2=2)).sum(1))
    return logsumexp(log_likelihood) - np.log(len(R)) - 0.5 * n * np.log(2 * np.pi)


def test_keywords_reach_the_models_and_the_order_is_kept():
    X, y = problem(3, 1, 20, 5)
    priors = {"log_noise": pm.Normal.dist(np.log(0.1), 0.2)}
    found = pma.search.embedding_dimension(
        10 * X, y, [2, 1], prior=[0, 1], random_seed=1, progressbar=False, kernel="Matern52", x_scale=(0, 10),
        priors=priors,
    )  # fmt: skip
    assert found.best.gpm.description == "embedding_gp(Matern52, d=1)"
    assert_allclose(found.best.gpm.x_map.scale, 10)
    assert_allclose(found.table.probability.sel(n_components=[2, 1]), [0, 1])
    assert found.best.gpm.model["log_noise"].owner.inputs[-1].data == 0.2


def test_a_poor_evidence_is_marked_and_warned_of_where_it_matters(monkeypatch):
    """One component is needed; whether there is a second one twelve points cannot say."""
    X, y = problem(3, 1, 12, 7)

    def rough(gpm, **keywords):
        found = pma.fit(gpm, **keywords)
        return found if gpm.shapes["R"][0] == 1 else replace(found, swarm=replace(found.swarm, log_evidence_error=1.5))

    monkeypatch.setattr(dimension, "fit", rough)
    search = partial(pma.search.embedding_dimension, X, y, (1, 2), random_seed=1, progressbar=False)
    with pytest.warns(pma.DoubtfulFitWarning, match="the evidence of d = 2 is 1.5 nats") as caught:
        found = search()
    assert [warning.filename for warning in caught] == [__file__]
    assert found.table.evidence_is_poor.to_numpy().tolist() == [False, True]
    assert "evidence_is_poor" in repr(found)
    # Of a candidate that nobody believes in there is no news.
    assert search(prior=[1, 1e-6]).table.evidence_is_poor.to_numpy().tolist() == [False, True]


def test_by_default_there_are_no_more_components_than_inputs():
    X, y = problem(2, 1, 12, 0)
    found = pma.search.embedding_dimension(X, y, prior=[1, 1e-6], random_seed=1, progressbar=False)
    assert list(found.fits) == [1, 2]
