"""``bounds=``: no scale and no prior; x over the box, y standardised by all data that the model holds."""

import json
import pickle
import warnings
from contextlib import nullcontext

import numpy as np
import pymc as pm
import pytest
from advised import said
from numpy.testing import assert_allclose
from scipy.special import digamma, polygamma

import pymc_active as pma
from pymc_active.models.advice import advise_on
from pymc_active.models.builders import rebuild
from pymc_active.posterior.prior import scale_of_few

BOUNDS = [(20.0, 80.0), (1.0, 5.0)]
RNG = np.random.default_rng(11)
X = RNG.uniform([20, 1], [80, 5], (14, 2))
Y = 300 + 50 * np.sin(X[:, 0] / 15) + X[:, 1] + 0.5 * RNG.normal(size=14)

BUILDERS = {
    "ard": lambda X, y, **options: pma.ard_gp(X, y, **options),
    "embedding": lambda X, y, **options: pma.embedding_gp(X, y, n_components=1, **options),
    "composite": lambda X, y, **options: pma.composite_gp(X, y, "(SE + PER[0]) * LIN + RQ", mean="linear", **options),
}


@pytest.fixture(params=BUILDERS)
def make(request):
    return BUILDERS[request.param]


SOME = [pytest.param(name, marks=[] if name == "ard" else pytest.mark.nightly) for name in BUILDERS]


def grown(make, **options):
    """A model made of six points that holds fourteen."""
    gpm = make(X[:6], Y[:6], bounds=BOUNDS, **options)
    gpm.set_data(X, Y)
    return gpm


@pytest.mark.slow
def test_no_warning_about_units(make):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        gpm = make(1e6 + 1e3 * X, 1e-4 * Y, bounds=1e6 + 1e3 * np.array(BOUNDS))
    assert gpm.model["y"].eval(mode="FAST_COMPILE").shape == (14,)


def test_priors_are_those_for_y_standardised_by_the_current_data(make):
    """The same density as that of a model made of all data at once, whose parameters have other units."""
    gpm, at_once = grown(make), make(X, Y, bounds=BOUNDS)
    theta = 0.3 * RNG.normal(size=gpm.posterior().n_parameters)
    ratio = at_once.y_map.scale / gpm.y_map.scale
    point, log_jacobian = gpm.unflatten(theta), 0.0
    names = ["log_outputscale", "log_noise"]
    if "log_outputscale_SE" in point:
        # Of a product, one factor carries the scale.
        names = ["log_outputscale_SE", "log_outputscale_PER", "log_outputscale_RQ", "log_noise"]
    for name in names:
        point[name] = point[name] - np.log(ratio)
    level = gpm.y_map.shift + gpm.y_map.scale * point["mean_constant"]
    point["mean_constant"] = (level - at_once.y_map.shift) / at_once.y_map.scale
    log_jacobian += np.log(ratio)
    if "mean_slope" in point:
        point["mean_slope"] = point["mean_slope"] / ratio
        log_jacobian += 2 * np.log(ratio)
    value = at_once.posterior().value_and_gradient(at_once.flatten(point))[0]
    assert_allclose(gpm.posterior().value_and_gradient(theta)[0], value - log_jacobian, rtol=1e-12)


@pytest.mark.parametrize("n", [5, 9, 40])
def test_a_scale_is_as_uncertain_as_that_of_half_of_the_points(n):
    """Log sd less the log of its estimate by k degrees of freedom: -½ log(chi² / k), by its exact moments."""
    half = (n - 1) / 4
    larger, variance = scale_of_few(n)
    assert_allclose(larger, 0.5 * (np.log(half) - digamma(half)), rtol=0.05)
    assert_allclose(variance, 0.25 * polygamma(1, half), rtol=0.1)


def test_few_points_leave_the_scale_open():
    """The prior's scales, in the units of y, are wide for two points and those stated for many."""
    for n in (2, 14):
        gpm = pma.ard_gp(X[:n], Y[:n], bounds=BOUNDS)
        prior, at = gpm.posterior().prior, gpm.labels.index("log_outputscale")
        larger, variance = scale_of_few(n)
        assert_allclose(prior.sd[at] ** 2, 1 + variance)
        assert_allclose(np.exp(prior.mean[at]) * gpm.y_map.scale, np.std(Y[:n], ddof=1) * np.exp(larger))
    # Two nearly equal results: sure of little, in either direction.
    fit = pma.fit(pma.ard_gp(X[:2], [30.1, 30.9], bounds=BOUNDS), random_seed=0, progressbar=False)
    low, high = pma.predict(fit, [[75.0, 4.5]], quantiles=(0.05, 0.95)).y_quantile.to_numpy()[:, 0]
    assert high - low > 5 * 0.8


@pytest.mark.slow
@pytest.mark.parametrize("y", [[7.0, 9.0], [7.0, 7.0], [7.0]], ids=["two points", "equal", "one point"])
def test_arrays_and_pymc_agree_on_the_priors_of_few_points(y):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", pma.DataWarning)
        gpm = pma.ard_gp(X[: len(y)], y, bounds=BOUNDS)
    theta = 0.3 * RNG.normal(size=gpm.posterior().n_parameters)
    logp = gpm.model.compile_logp(mode="FAST_COMPILE")(gpm.unflatten(theta))
    assert_allclose(logp, gpm.posterior().value(theta), rtol=1e-11)


@pytest.mark.slow
@pytest.mark.parametrize("make", SOME, indirect=True)
def test_arrays_and_graphs_renew_the_same_priors(make):
    gpm = grown(make)
    arrays, graphs = gpm.posterior(), gpm.posterior({"mode": "FAST_COMPILE"})
    theta = 0.3 * RNG.normal(size=arrays.n_parameters)
    value, gradient = arrays.value_and_gradient(theta)
    assert_allclose(graphs.value_and_gradient(theta)[0], value, rtol=1e-11)
    assert_allclose(graphs.value_and_gradient(theta)[1], gradient, rtol=1e-8, atol=1e-8)
    logp = gpm.model.compile_logp(mode="FAST_COMPILE")(gpm.unflatten(theta))
    assert_allclose(logp, value, rtol=1e-11)


def test_a_recipe_renews_them_too(make):
    gpm = grown(make)
    again = rebuild(json.loads(json.dumps(gpm.recipe())), X[:9], Y[:9])
    again.set_data(X, Y)
    theta = 0.3 * RNG.normal(size=gpm.posterior().n_parameters)
    assert again.posterior().value_and_gradient(theta)[0] == gpm.posterior().value_and_gradient(theta)[0]


def test_a_known_noise_is_in_the_units_of_y_while_other_priors_move():
    """The same density as that of a model made of all data at once, whose parameters have other units."""
    gpm, at_once = (pma.ard_gp(X[:n], Y[:n], bounds=BOUNDS, priors={"noise": 3.0}) for n in (6, 14))
    gpm.set_data(X, Y)
    theta = 0.3 * RNG.normal(size=gpm.posterior().n_parameters)
    for one in (gpm, at_once):
        posterior = one.posterior()
        assert_allclose(np.sqrt(posterior.moments(posterior.state(theta), X).noise_variance), 3.0)
    ratio = at_once.y_map.scale / gpm.y_map.scale
    point = gpm.unflatten(theta)
    point["log_outputscale"] = point["log_outputscale"] - np.log(ratio)
    level = gpm.y_map.shift + gpm.y_map.scale * point["mean_constant"]
    point["mean_constant"] = (level - at_once.y_map.shift) / at_once.y_map.scale
    value = at_once.posterior().value(at_once.flatten(point))
    assert_allclose(gpm.posterior().value(theta), value - np.log(ratio), rtol=1e-12)
    logp = gpm.model.compile_logp(mode="FAST_COMPILE")(gpm.unflatten(theta))
    assert_allclose(logp, gpm.posterior().value(theta), rtol=1e-11)


@pytest.mark.parametrize(
    ("priors", "message"),
    [
        ({"noise": -1.0}, "known noise: an sd in units of y, a positive number; got -1"),
        ({"noise": "3"}, "a positive number; got '3'"),
        ({"noise": 3.0, "log_noise": 0.0}, "both noise and log_noise"),
    ],
)
def test_a_noise_that_cannot_be(priors, message):
    with pytest.raises(ValueError, match=message):
        pma.ard_gp(X, Y, bounds=BOUNDS, priors=priors)


def test_a_prior_of_the_noise_in_units_of_y_is_warned_of():
    for prior in (np.log(30.0), pm.Normal.dist(np.log(30), 0.1)):
        gpm = pma.ard_gp(X, Y, bounds=BOUNDS, priors={"log_noise": prior})
        assert said(gpm, r"prior of log_noise is around log 30, .* if you mean 30 in your units, write log 0\.")
    assert not advise_on(pma.ard_gp(X, Y, bounds=BOUNDS, priors={"log_noise": pm.Normal.dist(0.0, 1.0)}))


def test_a_fixed_mean_has_a_pymc_model():
    gpm = pma.ard_gp(X, Y, bounds=BOUNDS, priors={"mean_constant": 0.3})
    theta = 0.3 * RNG.normal(size=gpm.posterior().n_parameters)
    logp = gpm.model.compile_logp(mode="FAST_COMPILE")(gpm.unflatten(theta))
    assert_allclose(logp, gpm.posterior().value(theta), rtol=1e-11)


def test_a_model_whose_pymc_model_was_made_goes_to_other_processes():
    gpm = pma.ard_gp(X[:6], Y[:6], bounds=BOUNDS)
    assert gpm.model is not None
    gpm.set_data(X, Y)
    fit = pma.fit_laplace(gpm, n_restarts=2, population=0, random_seed=0, progressbar=False)
    other, fit_there = pickle.loads(pickle.dumps((gpm, fit)))
    assert_allclose(other.X, X)
    assert pma.predict(fit_there, X).identical(pma.predict(fit, X))
    assert other.model is not gpm.model


@pytest.mark.nightly
@pytest.mark.slow
def test_a_prior_that_is_not_normal_is_stated_for_the_first_data():
    prior = pm.HalfNormal.dist(1.0)
    gpm = pma.ard_gp(X[:6], Y[:6], bounds=BOUNDS, priors={"log_noise": prior})
    fixed = pma.ard_gp(
        X[:6],
        Y[:6],
        kernel="Matern52",
        mean="constant",
        x_scale=(gpm.x_map.shift, gpm.x_map.scale),
        y_scale="standardize",
        priors={"log_noise": pm.HalfNormal.dist(1.0)},
    )
    for one in (gpm, fixed):
        one.set_data(X, Y)
    theta = np.full(gpm.posterior().n_parameters, 0.1)
    assert_allclose(gpm.posterior().value(theta), fixed.posterior().value(theta))


def test_the_kernel_is_rougher_where_nothing_is_said_of_scales():
    """Benchmarks of whole runs chose it; without bounds it is that of the papers."""
    named = {"x_scale": "box", "y_scale": "standardize"}
    kernels = [pma.ard_gp(X, Y, **how).profile for how in ({}, named, {"bounds": BOUNDS}, {"kernel": "Matern12"})]
    assert kernels == ["ExpQuad", "ExpQuad", "Matern52", "Matern12"]
    assert pma.ard_gp(X, Y, space=pma.Space({"a": (20, 80), "b": (1, 5)})).profile == "Matern52"
    assert pma.embedding_gp(X, Y, n_components=1, bounds=BOUNDS).profile == "ExpQuad"


def test_scales_take_precedence():
    gpm = pma.ard_gp(X, Y, bounds=BOUNDS, x_scale="unit", y_scale=(300, 40), mean="zero")
    assert_allclose(gpm.x_map(X).min(0), 0)
    assert (float(gpm.y_map.shift), float(gpm.y_map.scale), gpm.y_map.is_renewed) == (300, 40, False)
    assert "mean_constant" not in gpm.labels


def test_scales_of_ones_own_are_still_compared_with_the_data():
    gpm = pma.ard_gp(X, Y, bounds=BOUNDS, y_scale=(0, 1))
    assert said(gpm, r"are not. Pass y_scale='standardize' \(y reaches 3")
    gpm = pma.ard_gp(10 * X, Y, bounds=10 * np.array(BOUNDS), x_scale=(0, 1))
    assert said(gpm, r"Pass x_scale='box' \(X reaches 7")


@pytest.mark.parametrize("y", [[7.0], [7.0, 7.0], [0.0], [0.1] * 3])
def test_one_point_and_equal_values(y):
    """The sd of three tenths is not zero by rounding."""
    gpm = pma.ard_gp(X[: len(y)], y, bounds=BOUNDS)
    if len(y) > 1:
        assert said(gpm, f"all {len(y)} values of y are {y[0]:g}, which does not")
        assert float(gpm.y_map.scale) == y[0]
    with pytest.warns(pma.DataWarning) if len(y) > 1 else nullcontext():
        fit = pma.fit(gpm, random_seed=0, progressbar=False)
    found = pma.predict(fit, X[5:8])
    assert np.isfinite(found.f_mean).all()
    assert (found.f_variance > 1e-6 * (y[0] or 1.0) ** 2).all()
    fit = fit.update(X[8:11], Y[8:11], random_seed=0)
    assert np.isfinite(fit.log_evidence)


def test_bounds_that_span_decades_call_for_a_logarithm():
    wide = [(0.01, 100), *BOUNDS[1:]]
    expected = r"^input 0: from 0.01 to 100 are 4 decades, .* beyond 10. .* \(-2, 2\) as its bounds"
    assert said(pma.ard_gp(X, Y, bounds=wide), expected)
    # Once in a run without data: before anything is measured.
    with pytest.warns(pma.DataWarning, match=expected):
        learner = pma.Learner(None, bounds=wide)
    for _ in range(learner._run.subject.rows.shape[0] + 1):
        learner.tell(x := learner.ask(), np.log(x[:, 0]))
    # The smallest of many even numbers is no bound that was chosen; most of those even in their logarithm are small.
    even, low = (
        np.random.default_rng(0).uniform(size=(3000, 2)),
        10 ** np.random.default_rng(0).uniform(-4, 0, (300, 2)),
    )
    pma.Learner(None, pool=even)
    with pytest.warns(pma.DataWarning, match="^input 0 and input 1: from 0.0001"):
        pma.Learner(None, pool=low)
    # Zero has no logarithm, and tenfold is no reason.
    for low in (0.0, -0.01, 1.0):
        assert not advise_on(pma.ard_gp(X, Y, bounds=[(low, 100), *BOUNDS[1:]]))


def test_outputs_that_end_at_a_common_value_are_warned_of():
    y = np.minimum(Y, np.sort(Y)[-6])
    ends = f"6 of {len(y)} values of y are .*, the largest. If measurements end"
    assert said(pma.ard_gp(X, y, bounds=BOUNDS), ends)
    failed = "the smallest.* If the number stands for experiments that failed, tell NaN"
    assert said(pma.ard_gp(X, -y, bounds=BOUNDS), failed)
    # Marks, counts, and a maximum that was met thrice.
    assert not advise_on(pma.ard_gp(X, np.round(Y / np.ptp(Y) * 3), bounds=BOUNDS))
    assert not advise_on(pma.ard_gp(X, np.minimum(Y, np.sort(Y)[-3]), bounds=BOUNDS))


def test_units_of_y_change_nothing():
    found = [pma.fit(pma.ard_gp(X, y, bounds=BOUNDS), random_seed=3, progressbar=False) for y in (Y, 1000 * Y - 5e4)]
    one, other = (pma.predict(fit, X + 0.1) for fit in found)
    assert_allclose(other.f_mean, 1000 * one.f_mean - 5e4, rtol=1e-6)
    assert_allclose(other.y_variance, 1e6 * one.y_variance, rtol=1e-6)
    assert_allclose(found[1].log_evidence, found[0].log_evidence - 14 * np.log(1000), atol=1e-5)


@pytest.mark.nightly
@pytest.mark.slow
def test_updates_follow_the_renewed_prior():
    """The evidence of reweighed particles, whose prior has moved, is that of a fresh run."""
    gpm = pma.ard_gp(X[:10], Y[:10], bounds=BOUNDS)
    before = pma.fit_smc(gpm, n_particles=512, random_seed=0, progressbar=False)
    updated = before.update(X[10:13], Y[10:13], random_seed=0)
    assert "by reweighing" in str(updated)
    gpm.set_data(X[:13], Y[:13])
    fresh = pma.fit_smc(gpm, n_particles=512, random_seed=1, progressbar=False)
    error = np.hypot(updated.log_evidence_error, fresh.log_evidence_error)
    assert abs(updated.log_evidence - fresh.log_evidence) < 3 * error
    # The move of the prior matters here.
    stale = before.swarm.space.source.with_data(X[:13], Y[:13]).log_priors(before.center[None])[0]
    assert abs(stale - before.swarm.space.source.log_priors(before.center[None])[0]) > 0.01


FIELD = np.random.default_rng(0).uniform([432000, 5412000], [432300, 5412200], (12, 2))


def test_corners_in_place_of_bounds_are_warned_of():
    """Of a map with large coordinates both corners are valid pairs (low, high)."""
    corners = [(432000, 5412000), (432300, 5412200)]
    y = np.sin(FIELD[:, 0])
    advice = "all 12 points have input 0 from .*, its bounds from .* bounds as a pair .low, high. for each input"
    assert said(pma.ard_gp(FIELD, y, bounds=corners), advice)
    assert not advise_on(pma.ard_gp(FIELD, y, bounds=list(zip(*corners, strict=True))))


def test_data_that_hardly_fill_their_bounds_are_warned_of():
    X = np.random.default_rng(0).uniform(size=(5, 2))
    bounds = [(0, 1), (0, 2000)]
    assert said(
        pma.ard_gp(X, np.sin(X[:, 0]), bounds=bounds),
        "have input 1 from .*, its bounds from 0 to 2000: give both in the same units",
    )
    X[:, 1] = 0.5  # The same value everywhere is a choice.
    assert not advise_on(pma.ard_gp(X, np.sin(X[:, 0]), bounds=bounds))


def test_predictions_far_outside_the_bounds_are_warned_of():
    bounds = [(432000, 432300), (5412000, 5412200)]
    fit = pma.fit_laplace(pma.ard_gp(FIELD, np.sin(FIELD[:, 0]), bounds=bounds), random_seed=0, progressbar=False)
    with pytest.warns(pma.DataWarning, match="12 of 12 rows of X_new have .* inputs in the same order"):
        pma.predict(fit, FIELD[:, ::-1])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        pma.predict(fit, FIELD + 100)
