"""Which model is right: averages over models, BAMS, committees."""

import copy
import json
import warnings
from dataclasses import replace
from pathlib import Path

import numpy as np
import pymc as pm
import pytest
from differences import central_difference
from nightly import nightly
from numpy.testing import assert_allclose
from scipy.special import softmax
from scipy.stats import norm

import pymc_active as pma
from pymc_active.criteria.bald import Bald, Uncertainty
from pymc_active.criteria.bams import Bams, Committee
from pymc_active.information import mixture_entropy as entropy
from pymc_active.information.mixture_entropy import mixture_entropy
from pymc_active.laplace import fit_laplace_models
from pymc_active.predictions.ensembles import as_ensemble
from pymc_active.predictions.mixtures import Mixture, marginal_moments, mixture
from pymc_active.predictions.model_average import ModelAverage, check_distinct
from pymc_active.predictions.predict import posterior_mean

CASES = json.loads((Path(__file__).parent / "reference" / "mixture_mi_cases.json").read_text())["cases"]
NEW = np.linspace(-0.3, 1.4, 9)[:, None]


def fit(gpm):
    return pma.fit_laplace(gpm, n_restarts=4, population=0, random_seed=1, progressbar=False)


@pytest.fixture(scope="module")
def fits():
    rng = np.random.default_rng(0)
    x = rng.uniform(size=15)
    y = np.sin(12 * x) + x + 0.3 * rng.normal(size=15)
    return {text: fit(pma.composite_gp(x[:, None], y, text)) for text in ("SE", "LIN", "RQ", "PER")}


@pytest.fixture(scope="module")
def average(fits):
    return ModelAverage(fits)


def gaussians(means, variances, weights):
    """One Gaussian a model, at one point."""
    m, v = np.array(means)[:, None], np.array(variances)[:, None]
    return Mixture(m, v, v, 0 * v, np.array(weights), np.arange(len(m)))


def entropy_of(p):
    p = p[p > 0]
    return -(p * np.log(p)).sum()


@pytest.mark.parametrize("case", range(len(CASES)))
def test_information_of_reference_mixtures(case):
    reference = CASES[case]
    p = gaussians(reference["mu"], reference["var"], reference["w"])
    assert_allclose(Bams().value(p), reference["mi"], rtol=0, atol=1e-7)
    assert_allclose(Committee().value(p), reference["mixture_entropy"], rtol=0, atol=1e-7)


def heaviest(fit):
    return fit.expansions[np.argmax([mode.weight for mode in fit.modes])]


def hard_mixtures():
    rng = np.random.default_rng(5)
    yield [0.0, 0.3, -0.2], [1e-8, 1.0, 2.0], [0.2, 0.5, 0.3]
    yield [0.0, 100.0, 101.0], [1.0, 1.0, 1e-4], [0.5, 0.3, 0.2]
    yield 3 * rng.normal(size=18), 10 ** rng.uniform(-6, 1, 18), rng.dirichlet(np.ones(18))
    yield rng.normal(size=18), 10 ** rng.uniform(-2, 0, 18), softmax(3 * rng.normal(size=18))


@pytest.mark.parametrize("case", list(hard_mixtures()))
def test_information_of_hard_mixtures_is_that_of_monte_carlo(case):
    """Widths 10,000 times apart, 100 sds apart, 18 models: E log q_k(y) / q(y) over models k and outcomes y."""
    means, variances, weights = map(np.asarray, case)
    rng = np.random.default_rng(1)
    n = 100_000
    k = rng.choice(len(means), size=n, p=weights)
    y = means[k] + np.sqrt(variances[k]) * rng.normal(size=n)
    densities = norm.pdf(y[:, None], means, np.sqrt(variances))
    gains = np.log(densities[np.arange(n), k]) - np.log(densities @ weights)
    information = Bams().value(gaussians(*case))[0]
    assert abs(information - gains.mean()) < 4 * gains.std() / np.sqrt(n)
    assert 0 <= information <= entropy_of(weights) + 1e-6


def test_entropy_of_ordinary_mixtures_is_right_to_1e_6(monkeypatch):
    """Against panels a third as long with twice the nodes; bends between components some sds apart are the hardest."""
    rng, m = np.random.default_rng(1), 1500
    sds = np.stack([np.ones(m), *np.exp(rng.uniform(np.log(0.03), np.log(0.3), (2, m)))])
    means = np.stack([np.zeros(m), *rng.uniform(3.0, 7.0, (2, m)) * rng.choice([-1, 1], (2, m))])
    variances, weights = np.square(sds), np.array([0.4, 0.3, 0.3])
    found = mixture_entropy(means, variances, weights)
    nodes = np.polynomial.legendre.leggauss(24)
    for name, value in {"_LENGTH": 1.0, "N_NODES": 24, "_NODES": nodes[0], "_WEIGHTS": nodes[1], "_REACH": 9}.items():
        monkeypatch.setattr(entropy, name, value)
    assert_allclose(found, mixture_entropy(means, variances, weights), rtol=0, atol=1e-6)


def test_nothing_is_learned_where_models_agree():
    p = gaussians([1.0, 1.0, 1.0], [2.0, 2.0, 2.0], [0.2, 0.3, 0.5])
    assert Bams().value(p)[0] < 1e-9
    # Models that differ in nothing but the order of their modes agree as well.
    means, variances = np.array([[0.0], [3.0], [3.0], [0.0]]), np.array([[1.0], [0.2], [0.2], [1.0]])
    swapped = Mixture(means, variances, variances, 0 * means, np.array([0.12, 0.28, 0.42, 0.18]), np.repeat([0, 1], 2))
    assert Bams().value(swapped)[0] < 1e-9
    assert Bams().value(swapped._replace(owner=np.arange(4)))[0] > 0.3


@pytest.mark.parametrize(("weights", "power"), [("posterior", 1.0), ("tempered", 0.5), ("uniform", 0.0)])
def test_bams_is_entropy_less_expected_entropy(fits, average, weights, power):
    evidence = pma.active.model_posterior(fits).log_evidence.to_numpy()
    p = softmax(power * evidence)
    parts = [marginal_moments(heaviest(f), NEW) for f in fits.values()]
    means = np.stack([part.mean for part in parts])
    variances = np.stack([part.variance + part.noise for part in parts])
    expected = mixture_entropy(means, variances, p) - p @ (0.5 * np.log(2 * np.pi * np.e * variances))
    assert_allclose(pma.active.bams(average, NEW, weights=weights), expected, rtol=0, atol=1e-6)
    if weights == "uniform":
        assert_allclose(pma.active.committee(fits, NEW), mixture_entropy(means, variances, p), rtol=0, atol=1e-9)


def test_components_narrower_than_floats_are_apart_end():
    """No panel can be halved without end."""
    means, variances = np.full((2, 2), 0.1), np.array([[1e-40, 1e-2], [1e-30, 1e-2]])
    found = entropy.mixture_entropy(means, variances, np.array([0.5, 0.5]))
    assert np.isfinite(found).all()
    assert_allclose(found[1], entropy.gaussian_entropy(variances[0, 1]), atol=1e-6)


@pytest.mark.parametrize(
    "criterion",
    [
        Bams("uniform", "draws", random_seed=0),
        Committee("draws", random_seed=0),
        *nightly(
            Bams("tempered", "draws", random_seed=0),
            Uncertainty(method="draws", random_seed=0),
            Bald(method="draws", random_seed=0),
        ),
    ],
    ids=lambda c: f"{c.name}-{c.method}",
)
def test_gradient_over_models_is_that_of_central_differences(average, criterion):
    X = np.array([[-0.2], [0.33], [0.8], [1.3]])
    scorer = criterion.prepare(average)
    value, slope = scorer.gradient(X)
    assert_allclose(value, scorer.score(X), rtol=0, atol=1e-12)
    # Periods of 0.03, which some of the modes of PER have, vary over a few thousandths.
    expected = [central_difference(lambda x: scorer.score(x[None])[0], x, 3e-5) for x in X]
    assert_allclose(slope, expected, rtol=1e-4, atol=1e-5)


def test_average_predicts_with_exact_moments(fits, average):
    p = average.probability.to_numpy()
    parts = [pma.predict(f, NEW) for f in fits.values()]
    means, variances = (np.stack([part[name] for part in parts]) for name in ("f_mean", "f_variance"))
    mean = p @ means
    found = pma.predict(fits, NEW)
    assert_allclose(found.f_mean, mean, rtol=1e-12)
    assert_allclose(found.f_variance, p @ (variances + means**2) - mean**2, rtol=1e-9)
    assert_allclose(found.y_variance - found.f_variance, p @ [part.y_variance - part.f_variance for part in parts])
    assert_allclose(pma.active.uncertainty(average, NEW), np.sqrt(found.f_variance))
    # Of a mixture of mixtures too, against draws from it.
    q = mixture(as_ensemble(average, method="modes"), NEW)
    assert_allclose(q.weights.sum(), 1)
    assert_allclose(pma.predict(average, NEW, method="modes").f_mean, q.weights @ q.means)


def test_models_without_finite_evidence_are_left_out(fits):
    best = copy.copy(fits["RQ"].best)
    best.log_evidence = np.nan
    broken = replace(fits["RQ"], expansions=[best])
    with pytest.warns(UserWarning, match="the evidence of 'RQ' is not finite") as caught:
        average = ModelAverage({**fits, "RQ": broken})
    assert len(caught) == 1
    rest = {label: f for label, f in fits.items() if label != "RQ"}
    assert average.probability.sel(model="RQ") == 0
    assert_allclose(pma.active.bams(average, NEW, weights="uniform"), pma.active.bams(rest, NEW, weights="uniform"))
    assert_allclose(pma.active.committee(average, NEW), pma.active.committee(rest, NEW))
    with pytest.raises(ValueError, match="no model with a positive prior weight has a finite evidence"):
        pma.active.model_posterior([broken])


def test_what_an_excluded_model_predicts_does_not_matter(fits):
    average = ModelAverage(fits, prior={"SE": 1, "LIN": 0, "RQ": 0, "PER": 0})
    best = copy.copy(fits["LIN"].best)
    best.moments = lambda X: pytest.fail("asked")
    average._fits["LIN"] = replace(fits["LIN"], expansions=[best])
    assert_allclose(posterior_mean(average, NEW), heaviest(fits["SE"]).moments(NEW).mean)


def test_another_prior_keeps_the_evidences(fits):
    prior = {"SE": 1, "LIN": 20, "RQ": 3, "PER": 4}
    average = ModelAverage(fits)
    other = average.with_prior(prior)
    expected = pma.active.model_posterior(fits, prior=prior)
    assert_allclose(other.probability, expected)
    assert_allclose(other.weights, expected)
    assert_allclose(pma.active.bams(average, NEW, prior=prior), pma.active.bams(other, NEW))
    assert_allclose(average.prior, 0.25)
    # An average brings its own.
    assert_allclose(
        pma.active.model_posterior(ModelAverage(fits, prior=prior)), ModelAverage(fits, prior=prior).weights
    )


def test_one_kernel_with_other_priors_or_another_mean_is_another_model(fits):
    X, y = fits["SE"].X, fits["SE"].y
    others = {"mean": {"mean": "zero"}, "priors": {"priors": "toolbox"}, "noise": {"priors": {"log_noise": -1.0}}}
    models = {name: pma.composite_gp(X, y, "SE", **keywords) for name, keywords in others.items()}
    check_distinct({"SE": fits["SE"].gpm, **models})
    with pytest.raises(ValueError, match="'noise' and 'again' are the same model"):
        check_distinct(models | {"again": pma.composite_gp(X, y, "SE", priors={"log_noise": -1.0})})
    # Models without an expression are known by what their builder says of them; data told later change nothing.
    twin, other = pma.ard_gp(X, y), pma.ard_gp(X, y)
    other.set_data(X[:5], y[:5])
    with pytest.raises(ValueError, match="the same model"):
        check_distinct({"a": twin, "b": other})
    check_distinct({"a": twin, "b": pma.ard_gp(X, y, kernel="Matern32")})


def test_the_input_of_a_kernel_on_one_input_makes_no_other_model(fits):
    X, y = fits["SE"].X, fits["SE"].y
    twins = {e: pma.composite_gp(X, y, e) for e in ("SE + PER", "PER + SE[0]")}
    with pytest.raises(ValueError, match=r"'SE \+ PER' and 'PER \+ SE\[0\]' are the same model"):
        check_distinct(twins)
    with pytest.raises(ValueError, match="are the same model"):
        pma.active.model_posterior(fit_laplace_models(twins, n_restarts=1))
    both = np.column_stack([X, X[::-1]])
    check_distinct({e: pma.composite_gp(both, y, e) for e in ("SE", "SE[0]", "SE[1]")})


def test_priors_that_change_places_make_another_model(fits):
    X, y = fits["SE"].X, fits["SE"].y
    short, unit = pm.Normal.dist(-2.0, 1.0), pm.Normal.dist(0.0, 1.0)
    models = {
        "a": pma.composite_gp(X, y, "SE", priors={"log_lengthscale_SE": short, "log_outputscale_SE": unit}),
        "b": pma.composite_gp(X, y, "SE", priors={"log_lengthscale_SE": unit, "log_outputscale_SE": short}),
    }
    check_distinct(models)


def test_average_is_a_mapping_with_a_best_model(fits, average):
    assert list(average) == list(fits)
    assert len(average) == 4
    assert average["LIN"] is fits["LIN"]
    assert average.best is fits[average.probability.idxmax().item()]
    assert average.gpm is average.best.gpm
    assert_allclose(average.probability, pma.active.model_posterior(fits))
    first = average.table.model[0].item()
    assert first == average.probability.idxmax().item()
    assert repr(average).startswith("<ModelAverage of 4 models, 15 points>\n")
    assert first in average._repr_html_()
    again = ModelAverage(ModelAverage(fits, prior=[1, 2, 3, 4]))
    assert_allclose(again.prior, [0.1, 0.2, 0.3, 0.4])


def test_average_given_other_data(fits, average):
    X, y = average.X[:12], average.y[:12]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        other = average.given(X, y)
    assert len(other.y) == 12
    assert_allclose(other.probability, average.probability)
    assert other["SE"].log_posterior == fits["SE"].given(X, y).log_posterior


@pytest.mark.parametrize("weight", [1e-20, 1e-250, 1e-320])
def test_a_model_of_hardly_any_weight_tells_nothing(weight):
    """However far its predictions are from those of the other one, and however small products of densities."""
    means, variances, owner = np.array([[0.0], [30.0]]), np.ones((2, 1)), np.array([0, 1])
    weights = np.array([1.0, weight])
    [information] = entropy.mixture_information(means, variances, weights, owner)
    assert 0 <= information <= -weight * np.log(weight) * 1.1 + 1e-12
    assert np.isfinite(entropy.mixture_information_gradient(means, variances, weights, owner)).all()
