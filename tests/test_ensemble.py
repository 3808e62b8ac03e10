"""Ensembles: weights, members and spaces from every source; and that prepared criteria are functions of them alone."""

from dataclasses import replace

import numpy as np
import pytest
from nightly import nightly
from numpy.testing import assert_allclose, assert_array_equal
from traces import as_trace

import pymc_active as pma
from pymc_active.criteria.bald import Bald, Uncertainty
from pymc_active.criteria.bams import Committee
from pymc_active.criteria.improvement import ExpectedImprovement, UpperConfidenceBound
from pymc_active.criteria.maximum.domain import Domain
from pymc_active.criteria.maximum.entropy_search import EntropySearch
from pymc_active.criteria.maximum.max_value import JointEntropy, MaxValueEntropy, Thompson
from pymc_active.criteria.maximum.pes import Pes
from pymc_active.inference.ensemble import METHODS
from pymc_active.posterior.row_space import RowSpace
from pymc_active.predictions.ensembles import as_ensemble, conditioned_gps, ensemble_from, ensemble_of
from pymc_active.predictions.mixtures import mixture

RNG = np.random.default_rng(11)
X = RNG.uniform(0, 1, (9, 2))
Y = np.sin(5 * X[:, 0]) + 0.3 * X[:, 1]
T = RNG.uniform(0, 1, (12, 2))
MIXTURES = ("modes", "draws")
QUICK = {"n_restarts": 2, "population": 0, "random_seed": 1, "progressbar": False}


@pytest.fixture(scope="module")
def fits():
    """Of two models, the second with one parameter more."""
    return {
        "zero": pma.fit_laplace(pma.ard_gp(X, Y, mean="zero"), **QUICK),
        "constant": pma.fit_laplace(pma.ard_gp(X, Y, mean="constant", kernel="Matern52"), **QUICK),
    }


@pytest.fixture(scope="module")
def fit(fits):
    return fits["zero"]


@pytest.fixture(scope="module")
def wide():
    """An embedding with more inputs than data, whose coordinates are those of a row space."""
    Z = np.random.default_rng(6).uniform(-1, 1, (5, 30))
    fixed = {"log_noise": -2.0, "log_outputscale": 0.0}
    gpm = pma.embedding_gp(Z, np.sin(Z.sum(1)), n_components=1, prior_scale=0.4, priors=fixed)
    return pma.fit_laplace(gpm, **QUICK)


@pytest.fixture(scope="module")
def trace(fit):
    return as_trace(fit.gpm, fit.draw(40, 3))


@pytest.mark.parametrize("method", METHODS)
def test_weights_sum_to_one_and_thetas_are_the_models_own(fit, fits, wide, method):
    for source in (fit, wide, fits):
        ensemble = as_ensemble(source, method=method, draws=10, random_seed=0)
        assert ensemble.method == method
        assert ensemble.weights.shape == (len(ensemble),)
        assert_allclose(ensemble.weights.sum(), 1)
        assert (ensemble.weights > 0).all()
        for owner in range(ensemble.n_models):
            one = ensemble.of_model(owner)
            assert one.thetas.shape == (len(one), len(one.labels))
            assert one.labels == one.gpm.labels
            assert_allclose(one.weights.sum(), 1)


def test_the_highest_mode_is_the_center(fit, wide):
    for one in (fit, wide):
        for method in ("map", "bbq", "mgp", "draws"):
            assert_array_equal(one.ensemble_by(method, 4, 0).center, one.theta)
        assert_array_equal(one.ensemble_by("mgp").thetas, one.theta[None])
        assert one.ensemble.method == "modes"
        assert_array_equal(one.ensemble.weights, [mode.weight for mode in one.modes])
        assert_allclose(one.ensemble.thetas, [one.gpm.flatten(mode.point) for mode in one.modes])
        assert one.ensemble.evidence.value == one.evidence.value


def test_members_of_a_row_space_are_lifted(wide):
    ensemble = as_ensemble(wide, method="draws", draws=6, random_seed=0)
    [part] = ensemble.parts
    assert isinstance(part.space, RowSpace)
    assert part.z.shape[1] < ensemble.thetas.shape[1] == wide.gpm.n_parameters
    # The last coordinate is the length of what lies outside the row space.
    assert_allclose(part.space.shrink(ensemble.thetas[0])[:-1], part.z[0, :-1], rtol=1e-8)
    # At the data both posteriors predict the same.
    own, lifted = wide.best.posterior, wide.best.full_posterior
    for z, theta in zip(part.z, ensemble.thetas, strict=True):
        one, other = own.moments(own.state(z), wide.X), lifted.moments(lifted.state(theta), wide.X)
        # Both factorise matrices of condition number up to 1e9.
        assert_allclose(one.mean, other.mean, rtol=1e-6)


def test_draws_of_a_seed_are_the_same_and_of_none_are_fresh(fit):
    first, again, other = (fit.ensemble_by("draws", 8, seed).thetas for seed in (1, 1, 2))
    assert_array_equal(first, again)
    assert (first != other).any()
    assert (fit.ensemble_by("draws", 8).thetas != fit.ensemble_by("draws", 8).thetas).any()
    generators = [np.random.default_rng(1) for _ in range(2)]
    assert_array_equal(*(fit.ensemble_by("draws", 8, rng).thetas for rng in generators))
    # A generator goes on.
    assert (fit.ensemble_by("draws", 8, generators[0]).thetas != first).any()


def test_the_first_draws_are_weighted_equally(fit, fits):
    ensemble = as_ensemble(fit, method="draws", draws=12, random_seed=0)
    assert as_ensemble(ensemble, method="draws") is ensemble
    few = ensemble.first(5)
    assert_array_equal(few.thetas, ensemble.thetas[:5])
    assert_allclose(few.weights, 0.2)
    assert len(ensemble) == 12
    several = as_ensemble(fits, method="draws", draws=12, random_seed=0)
    shares = [part.share for part in several.parts]
    assert_allclose(several.first(5).weights, np.repeat(shares, 5) / 5)
    # Of Gaussians there is nothing to leave out.
    assert len(fit.ensemble.first(1)) == len(fit.modes)


def test_a_trace_gives_all_its_draws_and_a_point_itself(fit, trace):
    ensemble = as_ensemble(trace, model=fit.gpm)
    assert_allclose(ensemble.thetas, fit.draw(40, 3), rtol=1e-10)
    assert_allclose(ensemble.weights, 1 / 40)
    assert ensemble.method == "trace"
    point = as_ensemble(fit.point, model=fit.gpm)
    assert_array_equal(point.thetas, fit.theta[None])
    assert point.method == "point"
    assert point.evidence.by == "unknown"
    assert np.isnan(point.evidence.value)
    for one in (ensemble, point):
        assert not one.is_gaussian
        assert_array_equal(one.X, fit.gpm.X)
        assert_array_equal(one.y, fit.gpm.y)


def test_several_models_have_their_shares(fits):
    average = pma.ModelAverage(fits)
    ensemble = as_ensemble(fits, method="draws", draws=6, random_seed=0)
    assert ensemble.n_models == 2
    assert len(ensemble) == 12
    assert_allclose(ensemble.weights, np.repeat(average.weights, 6) / 6)
    assert ensemble.gpm is average.best.gpm
    assert not as_ensemble(fits, method="map").is_gaussian
    for owner, one in enumerate(fits.values()):
        own = ensemble.of_model(owner)
        assert own.gpm is one.gpm
        assert_array_equal(own.thetas, one.ensemble_by("draws", 6, 0).thetas)
        assert_allclose(own.weights, 1 / 6)
    with pytest.raises(ValueError, match=r"2 models have different hyperparameters: use ensemble\.of_model"):
        _ = ensemble.thetas


def test_a_model_without_weight_is_left_out(fits):
    ensemble = as_ensemble(pma.ModelAverage(fits, prior={"zero": 0.0, "constant": 1.0}), method="mgp")
    assert ensemble.n_models == 1
    assert ensemble.gpm is fits["constant"].gpm
    assert_array_equal(ensemble.weights, [1.0])
    assert_allclose(pma.predict(ensemble, T).f_mean, pma.predict(fits["constant"], T).f_mean, rtol=1e-12)
    uniform = ensemble_from(fits, "test", method="mgp", weigh=lambda average: average.weighted("uniform"))
    assert_allclose(uniform.weights, 0.5)


@pytest.mark.parametrize("method", MIXTURES)
def test_a_mixture_has_one_component_for_each_member(fits, method):
    ensemble = as_ensemble(fits, method=method, draws=5, random_seed=0)
    p = mixture(ensemble, T)
    assert p.means.shape == p.variances.shape == p.noises.shape == (len(ensemble), len(T))
    assert_array_equal(p.weights, ensemble.weights)
    assert_array_equal(np.unique(p.owner), [0, 1])
    for owner in (0, 1):
        own = mixture(ensemble.of_model(owner), T)
        assert_array_equal(p.means[p.owner == owner], own.means)
        assert_allclose(p.weights[p.owner == owner], ensemble.parts[-1 if owner else 0].share * own.weights)
    found = pma.predict(fits, T, method=method, draws=5, random_seed=0)
    assert_allclose(found.f_mean, p.weights @ p.means, rtol=1e-12)
    assert_array_equal(pma.predict(ensemble, T).f_mean, found.f_mean)


def test_conditioned_gps_are_at_its_members(fit, fits, trace):
    draws = ensemble_of(fit, draws=4, random_seed=0)
    gps = conditioned_gps(draws, 4, random_seed=0)
    assert_array_equal([gp.theta for gp in gps], draws.thetas[:4])
    assert_allclose(gps[0].moments(T)[0], mixture(draws, T).means[0], rtol=1e-9)
    # Evenly spaced ones of a trace.
    over = conditioned_gps(ensemble_of(trace, fit.gpm), 4)
    assert_allclose([gp.theta for gp in over], fit.draw(40, 3)[[5, 15, 25, 35]], rtol=1e-10)
    [at] = conditioned_gps(ensemble_of(fit.point, fit.gpm), 4)
    assert_array_equal(at.theta, fit.theta)
    several = conditioned_gps(ensemble_of(fits, draws=20, random_seed=0), 20, random_seed=0)
    share = np.mean([len(gp.theta) == len(fit.theta) for gp in several])
    assert abs(share - pma.ModelAverage(fits).weights[0]) < 1 / 20


# Criteria over them.

MOMENTS = {
    "bald": (Bald, pma.active.bald),
    "expected_improvement": (ExpectedImprovement, pma.active.expected_improvement),
    "upper_confidence_bound": (UpperConfidenceBound, pma.active.upper_confidence_bound),
}


@pytest.mark.parametrize("method", ["mgp", *MIXTURES])
@pytest.mark.parametrize("name", MOMENTS)
def test_a_scorer_of_any_source_is_the_public_function(fit, fits, name, method):
    (make, function), options = MOMENTS[name], {"method": method, "draws": 8, "random_seed": 0}
    for source in (fit, fits, pma.ModelAverage(fits), list(fits.values())):
        ensemble, expected = as_ensemble(source, **options), function(source, T, **options)
        assert np.ptp(expected.to_numpy()) > 1e-3
        for scorer in (make(**options).prepare(source), make(**options).prepare(ensemble), make().prepare(ensemble)):
            assert_array_equal(scorer.score(T), expected)


@pytest.mark.parametrize("name", MOMENTS)
def test_a_trace_and_a_point_are_sources_with_their_model(fit, trace, name):
    make, function = MOMENTS[name]
    over = make().prepare(trace, model=fit.gpm).score(T)
    assert_array_equal(make().prepare(as_ensemble(trace, model=fit.gpm)).score(T), over)
    if name != "bald":
        assert_array_equal(function(trace, T, model=fit.gpm), over)
    at = make().prepare(fit.point, model=fit.gpm).score(T)
    if name == "bald":
        # There is nothing to learn of what is known.
        assert_allclose(at, 0, atol=1e-8)
        assert over.min() > 1e-4
    else:
        assert_allclose(at, function(fit, T, method="map"), rtol=1e-7)
    with pytest.raises(ValueError, match=f"{name} needs the model of a trace: pass model=gpm"):
        make().prepare(trace)


DOMAIN = Domain(np.zeros(2), np.ones(2))
OPTIMUM = {kind.name: kind for kind in (Pes, MaxValueEntropy, JointEntropy, EntropySearch, Thompson)}


@pytest.mark.slow
@pytest.mark.parametrize("name", ["pes", "thompson", *nightly(*(n for n in OPTIMUM if n not in ("pes", "thompson")))])
def test_criteria_of_the_maximum_take_the_same_sources(fit, fits, trace, name):
    few = {"n_hyperparameters": 3, "random_seed": 1}
    criterion, function = OPTIMUM[name](DOMAIN, **few), getattr(pma.active, name)
    options = {"bounds": [(0, 1), (0, 1)], "draws": 3, "random_seed": 1}
    for source in (fit, fits):
        expected = function(source, T, **options).to_numpy()
        assert np.ptp(expected) > 1e-3
        assert_array_equal(criterion.prepare(source).score(T), expected)
        draws = as_ensemble(source, method="draws", draws=32, random_seed=1)
        assert_array_equal(criterion.prepare(draws).score(T), expected)
        # A dict of fits beside a model is not taken for a point.
        gpm = fit.gpm if source is fit else next(iter(fits.values())).gpm
        assert_array_equal(criterion.prepare(source, model=gpm).score(T), expected)
    for source in (trace, fit.point):
        expected = function(source, T, model=fit.gpm, **options)
        assert_array_equal(criterion.prepare(source, model=fit.gpm).score(T), expected)


ALL = {
    "bald": Bald(method="draws", draws=8, random_seed=0),
    "uncertainty": Uncertainty(),
    "expected_improvement": ExpectedImprovement(),
    "expected_improvement, draws": ExpectedImprovement(method="draws", draws=8, random_seed=0),
    "upper_confidence_bound": UpperConfidenceBound(),
    "committee": Committee(),
    **{name: kind(DOMAIN, n_hyperparameters=2, random_seed=1) for name, kind in OPTIMUM.items()},
}


@pytest.mark.parametrize("name", ALL)
def test_a_scorer_depends_on_neither_other_fits_nor_other_candidates(fit, fits, name):
    """Also for other data, for several models and for a lazy pool; and scoring leaves it as it is too."""
    dask = pytest.importorskip("dask.array")
    criterion, many = ALL[name], np.random.default_rng(4).uniform(0, 1, (60, 2))
    before, scorer = dict(vars(criterion)), criterion.prepare(fit)
    scores, whole = scorer.score(T), scorer.score(many)
    other = fit.given(X, Y + 2 * X[:, 1])
    for source in (other, fits):
        criterion.prepare(source).score(T)
    assert_array_equal(scorer.score(T), scores)
    assert_array_equal(criterion.prepare(fit).score(T), scores)
    scorer.gradient(T[:2])
    assert_array_equal(scorer.score(T), scores)
    assert vars(criterion) == before or name.startswith("expected_improvement")
    assert np.abs(criterion.prepare(other).score(T) - scores).max() > 1e-3
    # Blocks of another size round differently, which can change the best representer of a few draws of entropy search:
    # each changes the counted entropy by about 0.001 nats.
    within = {"rtol": 0, "atol": 3e-3} if name == "entropy_search" else {"rtol": 1e-9, "atol": 1e-9}
    assert_allclose(scorer.score(many[[7]]), whole[7], **within)
    assert_allclose(scorer.score(many[50:20:-3]), whole[50:20:-3], **within)
    assert_allclose(criterion.over(fit, dask.from_array(many, chunks=(17, 2))), whole, **within)


def test_few_members_of_a_weighted_ensemble_have_its_weights(fit):
    """As after an update: the first draws are not equally probable."""
    draws = fit.ensemble_by("draws", 400, random_seed=0)
    [part] = draws.parts
    weights = np.exp(-2.0 * part.z[:, 0])
    weighted = replace(draws, parts=(part._replace(within=weights / weights.sum()),))
    mean, error = weighted.weights @ weighted.thetas, 5 * weighted.thetas.std(0) / np.sqrt(100)
    assert np.abs(mean - draws.thetas.mean(0))[0] > error[0]
    few = weighted.first(200)
    assert np.ptp(few.weights) == 0
    assert (np.abs(few.thetas.mean(0) - mean) < error).all()
    of_paths = np.stack([gp.theta for gp in conditioned_gps(weighted, 200, random_seed=1)])
    assert (np.abs(of_paths.mean(0) - mean) < error).all()
    assert_array_equal(draws.first(50).thetas, draws.thetas[:50])
