"""Gradients in the inputs: of predictions, of their sensitivities, and of every criterion, by central differences."""

import warnings
from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
from differences import central_difference
from numpy.testing import assert_allclose, assert_array_equal
from scipy.integrate import quad
from scipy.special import softmax
from scipy.stats import norm

import pymc_active as pma
from pymc_active.criteria import maximize as box
from pymc_active.criteria.bald import Bald, Uncertainty
from pymc_active.criteria.epig import IntegratedVariance
from pymc_active.criteria.improvement import ExpectedImprovement, UpperConfidenceBound, log_h
from pymc_active.laplace.expansion import Expansion
from pymc_active.laplace.fit import LaplaceFit
from pymc_active.predictions.ensembles import as_ensemble
from pymc_active.predictions.mixtures import mixture, mixture_gradients

# Most fits here are made at points that are no modes.
pytestmark = pytest.mark.filterwarnings("ignore::pymc_active.support.user_warnings.SamplingWarning")

MIXTURES = ("draws",)


def data(n=7, D=3):
    rng = np.random.default_rng(20260101)
    X = rng.uniform(-1, 1, size=(n, D))
    return X, np.sin(3 * X[:, 0]) + X[:, -1] ** 2 + 0.2 * rng.normal(size=n)


X3, y3 = data()
AWKWARD = 40 * X3 + np.array([1000, -3, 70]), 250 * y3 - 600
SCALES = {"x_scale": "box", "y_scale": "standardize"}


def near_the_prior(gpm):
    """A point where nothing vanishes; no search is needed for a derivative."""
    center, sd = gpm.posterior().prior_scale()
    theta = center + 0.4 * sd * np.random.default_rng(3).normal(size=len(center))
    with warnings.catch_warnings():
        # No mode is claimed.
        warnings.filterwarnings("ignore", message="the Laplace fit is doubtful")
        return pma.fit_laplace(gpm, point=gpm.unflatten(theta), optimize=False)


def two_modes(gpm):
    """Two expansions of comparable evidence."""
    first = near_the_prior(gpm)
    moved = first.best.z + 0.1
    expansions = [first.best, Expansion(first.best.space, moved)]
    result = LaplaceFit(gpm, gpm.data, expansions)
    # Known weights, so that both components matter.
    vars(result)["modes"] = [replace(mode, weight=w) for mode, w in zip(result.modes, (0.6, 0.4), strict=True)]
    return result


# With few parameters: draws may be sqrt(P) sds away, where these priors are very wide.
MIXED = {
    "ard": lambda: pma.ard_gp(X3, y3),
    "composite, user units": lambda: pma.composite_gp(
        *AWKWARD,
        "LIN[0] * SE[1] + PER[2]",
        priors={"log_outputscale_LIN": 0.0, "log_outputscale_SE": 0.0, "location_LIN": 0.3, "log_period_PER": 0.2},
        **SCALES,
    ),
    "embedding, linear mean, user units": lambda: pma.embedding_gp(*AWKWARD, n_components=2, mean="linear", **SCALES),
    "row space": lambda: pma.embedding_gp(
        *data(D=12), n_components=1, priors={"log_noise": -1.5, "log_outputscale": 0.0}
    ),
}


@pytest.fixture(scope="module", params=MIXED)
def mixed(request):
    return two_modes(MIXED[request.param]())


def points(fit, m=2):
    """Between the data, at different distances."""
    X, rng = fit.X, np.random.default_rng(5)
    return X[:m] + 0.3 * (X.max(0) - X.min(0)) * rng.uniform(0.5, 1, size=(m, X.shape[1]))


def differentiate(function, fit, X):
    """Derivative of function(X) (..., m) in the rows of X, (..., m, D), with steps in proportion to the inputs."""
    width = fit.X.max(0) - fit.X.min(0)
    rows = [
        central_difference(lambda z, x=x: function((x + width * z)[None])[..., 0], np.zeros(len(x))) / width for x in X
    ]
    return np.stack(rows, axis=-2)


def assert_same_gradient(got, numerical, tolerance=2e-6, error=0.0):
    assert got.shape == numerical.shape
    assert np.abs(numerical).max() > 0
    assert_allclose(got, numerical, rtol=0, atol=tolerance * np.abs(numerical).max() + error)


# Predictions.


@pytest.mark.parametrize("method", ["bbq", "mgp", "modes"])
def test_variances_of_the_marginal_gp_have_no_formulas(method):
    """A search over a box takes differences there."""
    fit = near_the_prior(MIXED["ard"]())
    ensemble = fit.ensemble_by(method)
    assert mixture_gradients(ensemble, points(fit)) is None
    assert Uncertainty(method=method).prepare(fit).gradient(points(fit)) is None


@pytest.mark.parametrize("method", MIXTURES)
def test_every_component_of_a_mixture(mixed, method):
    X = points(mixed)
    ensemble = as_ensemble(mixed, method=method, draws=4, random_seed=1)
    moments, got = mixture_gradients(ensemble, X)
    for a, b in zip(moments, mixture(ensemble, X), strict=True):
        assert_allclose(a, b, rtol=1e-12)
    for name, part in zip(("means", "variances", "conditional"), (*got, got.variance), strict=True):
        numerical = differentiate(lambda Z, name=name: getattr(mixture(ensemble, Z), name), mixed, X)
        assert_same_gradient(part, numerical)


# Criteria.

CRITERIA = {
    "bald": lambda method, **keywords: Bald("y", method, **keywords),
    "bald_f": lambda method, **keywords: Bald("f", method, **keywords),
    "uncertainty": Uncertainty,
    "expected_improvement": lambda method, **keywords: ExpectedImprovement(False, method, **keywords),
    "expected_improvement, downwards": lambda method, **keywords: ExpectedImprovement(True, method, **keywords),
    "upper_confidence_bound": lambda method, **keywords: UpperConfidenceBound(2.0, False, method, **keywords),
    "upper_confidence_bound, downwards": lambda method, **keywords: UpperConfidenceBound(2.0, True, method, **keywords),
}


@pytest.mark.parametrize(
    ("name", "method"),
    [
        (name, method)
        for name in CRITERIA
        for method in ("map", *MIXTURES)
        # With hyperparameters fixed there is nothing to learn of them; the sign has nothing to do with mixtures.
        if not (name.startswith("bald") and method == "map") and not ("downwards" in name and method in MIXTURES)
    ],
)
def test_gradients_of_criteria(mixed, name, method):
    scorer = CRITERIA[name](method, draws=4, random_seed=1).prepare(mixed)
    X = points(mixed)
    value, got = scorer.gradient(X)
    assert_allclose(value, scorer.score(X), rtol=1e-12)
    # Entropies of mixtures are integrals within 1e-8, whose error differences magnify.
    loose = name.startswith("bald") and method in MIXTURES
    numerical = differentiate(scorer.score, mixed, X)
    assert_same_gradient(got, numerical, 1e-4 if loose else 1e-5, error=1e-6 if loose else 0.0)


def test_a_coarse_gradient_is_that_of_the_first_draws():
    fit = near_the_prior(MIXED["ard"]())
    X = points(fit, 1)
    scorer = Bald(method="draws", draws=70, random_seed=0).prepare(fit)
    first = as_ensemble(fit, method="draws", draws=70, random_seed=0).first(32)
    value, got = scorer.coarse(32).gradient(X)

    def of_the_first(Z):
        return Bald(method="draws").value(mixture(first, Z))

    assert_allclose(value, of_the_first(X), rtol=1e-12)
    assert_same_gradient(got, differentiate(of_the_first, fit, X), 1e-4)
    assert np.abs(scorer.gradient(X)[1] - got).max() > 1e-3 * np.abs(got).max()
    # Of hardly more draws there is nothing to save.
    assert Bald(method="draws", draws=64, random_seed=0).prepare(fit).coarse(32) is None


@pytest.mark.filterwarnings("ignore:model 'SE")
def test_coarse_gains_at_targets_have_draws_of_every_model():
    fits = {kernel: near_the_prior(pma.composite_gp(X3, y3, kernel)) for kernel in ("SE", "SE + LIN")}
    evidences = np.array([fit.log_evidence for fit in fits.values()])
    average = pma.ModelAverage(fits, prior=softmax(-evidences))
    X, targets = points(fits["SE"], 4), points(fits["SE"], 6)

    def scorer(source, draws):
        return IntegratedVariance(targets, draws=draws, random_seed=0).prepare(source)

    both = scorer(average, 64)
    posteriors = {part.gp.posterior for part in both.parts}
    for made, n in ((both, 32), (both.coarse(16), 8)):
        assert [sum(part.gp.posterior is p for part in made.parts) for p in posteriors] == [n, n]
    assert_allclose(both.coarse(16).score(X), both.score(X), rtol=0.5)
    assert scorer(fits["SE"], 31).coarse(16) is None


def test_differences_stand_in_for_a_gradient():
    """In the unit cube, one-sided at its faces, never leaving it."""
    seen = []

    def score(Z):
        seen.append(Z)
        return np.sin(Z[:, 0]) * np.exp(Z[:, 1])

    Z = np.array([[0.3, 0.6], [0.0, 1.0], [1.0, 0.0]])
    values, got = box._differences(score, Z, np.zeros(Z.shape[1]), np.ones(Z.shape[1]), np.arange(Z.shape[1]))
    expected = np.column_stack([np.cos(Z[:, 0]) * np.exp(Z[:, 1]), np.sin(Z[:, 0]) * np.exp(Z[:, 1])])
    assert_array_equal(values, np.sin(Z[:, 0]) * np.exp(Z[:, 1]))
    assert_allclose(got[0], expected[0], rtol=1e-8)
    assert_allclose(got[1:], expected[1:], rtol=0, atol=1e-4)
    assert min(Z.min() for Z in seen) >= 0
    assert max(Z.max() for Z in seen) <= 1


# Improvement.


def improvement_by_quadrature(mean, sd, best):
    return quad(lambda f: (f - best) * norm.pdf(f, mean, sd), best, max(best, mean) + 12 * sd, epsabs=0, epsrel=1e-11)[
        0
    ]


@pytest.mark.parametrize("minimize", [False, True])
@pytest.mark.parametrize("method", ["map", "mgp"])
def test_expected_improvement_is_an_integral(mixed, method, minimize):
    X = points(mixed, 4)
    got = pma.active.expected_improvement(mixed, X, minimize=minimize, method=method)
    sign = -1 if minimize else 1
    prediction = pma.predict(mixed, X, method=method)
    best = (sign * pma.predict(mixed, mixed.X, method="map")["f_mean"]).max().item()
    for value, mean, variance in zip(got, prediction["f_mean"], prediction["f_variance"], strict=True):
        expected = improvement_by_quadrature(sign * mean.item(), np.sqrt(variance.item()), best)
        assert_allclose(np.exp(value), expected, rtol=1e-7)


@pytest.mark.parametrize("minimize", [False, True])
def test_expected_improvement_over_draws_is_the_mean_of_theirs(mixed, minimize):
    """Each draw of the hyperparameters has a best value of its own."""
    X, sign = points(mixed, 4), -1 if minimize else 1
    got = pma.active.expected_improvement(mixed, X, minimize=minimize, method="draws", draws=4, random_seed=0)
    ensemble = as_ensemble(mixed, method="draws", draws=4, random_seed=0)
    there, data = (mixture(ensemble, at) for at in (X, mixed.X))
    bests = (sign * data.means).max(1)
    for j, value in enumerate(got):
        each = [
            improvement_by_quadrature(sign * mean, np.sqrt(variance), best)
            for mean, variance, best in zip(there.means[:, j], there.variances[:, j], bests, strict=True)
        ]
        assert_allclose(np.exp(value), np.mean(each), rtol=1e-7)


@pytest.mark.parametrize("criterion", [pma.active.expected_improvement, pma.active.upper_confidence_bound])
def test_minimizing_is_maximizing_the_negative(criterion):
    up, down = (near_the_prior(pma.ard_gp(X3, s * y3)) for s in (1, -1))
    X = points(up, 4)
    assert_allclose(criterion(up, X), criterion(down, X, minimize=True), rtol=1e-10)
    assert (abs(criterion(up, X) - criterion(up, X, minimize=True)) > 1e-3).any()


@pytest.mark.parametrize("beta", [0.0, 1.0, 9.0])
def test_upper_confidence_bound_is_mean_and_sds(mixed, beta):
    X = points(mixed, 4)
    p = pma.predict(mixed, X, method="mgp")
    got = pma.active.upper_confidence_bound(mixed, X, beta=beta)
    assert_allclose(got, p["f_mean"] + np.sqrt(beta) * np.sqrt(p["f_variance"]), rtol=1e-10)


@pytest.mark.parametrize("z", [-1e4, -1000.0, -301.0, -299.0, -60.0, -20.0, -5.0, -1.001, -0.999, 0.0, 3.0, 40.0])
def test_log_of_improvement_has_all_digits(z):
    """As φ(z) times the Laplace transform ∫ t exp(z t - t²/2) dt, which has no cancellation for any z."""
    scale = max(1.0, -z)
    peak = max(z, 0.0)

    def integrand(s):
        t = s / scale
        return t / scale * np.exp(z * t - 0.5 * t * t - 0.5 * peak**2)

    pieces = [0.0, 1, 5, 20, 60] if z < -1 else [0.0, 5, max(peak, 5.5), peak + 12]
    integral = sum(quad(integrand, a, b, epsabs=0, epsrel=1e-12)[0] for a, b in pairwise(pieces))
    expected = -0.5 * np.log(2 * np.pi) - 0.5 * z * z + 0.5 * peak**2 + np.log(integral)
    # Digits of the part that is not -z²/2.
    assert abs(log_h(z) - expected) < 1e-9 + 4 * np.finfo(float).eps * z * z


def test_hopeless_improvement_has_a_gradient():
    """A thousand sds below the best there is still a way up."""
    x = np.array([[-1.0], [0.0], [1.0]])
    known = {"log_noise": -7.0, "log_lengthscale": np.zeros(1)}
    fit = near_the_prior(pma.ard_gp(x, np.array([0.0, 3.0, 0.0]), priors=known))
    value, gradient = ExpectedImprovement(method="map").prepare(fit).gradient(np.array([[-0.999], [0.999]]))
    assert np.isfinite(value).all()
    assert value.max() < -1e5
    assert gradient[0, 0] > 1e5
    assert gradient[1, 0] < -1e5
