"""Any PyMC model: posterior, evidence, predictions and information by a second route, and what a user changes not."""

import warnings

import numpy as np
import pandas as pd
import pymc as pm
import pytensor
import pytensor.tensor as pt
import pytest
import xarray as xr
from nightly import nightly
from numpy.testing import assert_allclose, assert_array_equal
from scipy import stats
from scipy.special import expit, log_expit, logsumexp, softmax

import pymc_active as pma
from pymc_active.active import bald, bams, epig, expected_improvement
from pymc_active.checking import compare
from pymc_active.learner import verification
from pymc_active.process.information import AllParameters, Information, Virtual, of_models, of_predictions, of_targets
from pymc_active.process.members import Members
from pymc_active.process.process import Process

QUIET = {"random_seed": 1, "progressbar": False}
X = np.array([-1.0, 0.0, 0.5, 2.0])
Y = np.array([0.3, 1.1, 1.2, 2.4])
# Sds of intercept, slope and noise.
A, B, NOISE = 2.0, 1.0, 0.5
POOL = np.linspace(-3, 3, 13)


def line(x=X, y=Y):
    with pm.Model() as model:
        inputs = pm.Data("x", x)
        intercept, slope = pm.Normal("intercept", 0, A), pm.Normal("slope", 0, B)
        pm.Deterministic("at_two", intercept + 2 * slope)
        pm.Deterministic("mu", intercept + slope * inputs)
        pm.Normal("y", intercept + slope * inputs, NOISE, observed=y)
    return model


def exact_line(x=X, y=Y):
    """Mean and covariance of intercept and slope, and the log evidence."""
    design = np.stack([np.ones(len(x)), x], axis=1)
    precision = np.diag([A**-2, B**-2]) + design.T @ design / NOISE**2
    covariance = np.linalg.inv(precision)
    marginal = stats.multivariate_normal(cov=design @ np.diag([A**2, B**2]) @ design.T + NOISE**2 * np.eye(len(x)))
    return covariance @ design.T @ y / NOISE**2, covariance, marginal.logpdf(y)


def yes_or_no(observed=True):
    answers = {"observed": np.array([0, 0, 1, 1])} if observed else {}
    with pm.Model() as model:
        shift, slope = pm.Normal("shift", 0, 1), pm.LogNormal("slope", 0, 0.5)
        pm.Bernoulli("yes", logit_p=slope * (pm.Data("x", X) - shift), **answers)
    return model


@pytest.fixture(scope="module")
def fit():
    return pma.fit(line(), n_particles=2000, **QUIET)


@pytest.fixture(scope="module")
def exact():
    """Members whose draws are those of the exact posterior, with quasi-random normals."""
    mean, covariance, _ = exact_line()
    normal = stats.norm.ppf(stats.qmc.Sobol(2, rng=0).random(512))
    fitted = pma.fit(line(), n_particles=512, **QUIET)
    z = mean + normal @ np.linalg.cholesky(covariance).T
    return Members((fitted.gpm,), (z,), np.full(512, 1 / 512), np.zeros(512, int), fitted.ensemble)


def test_posterior_and_evidence_are_those_of_a_conjugate_model(fit):
    mean, covariance, evidence = exact_line()
    z, sd = fit.ensemble.thetas, np.sqrt(np.diag(covariance))
    assert fit.labels == ["intercept", "slope"]
    assert_allclose((z.mean(0) - mean) / sd, 0, atol=0.15)
    assert_allclose(z.std(0) / sd, 1, atol=0.1)
    assert abs(fit.log_evidence - evidence) < 4 * fit.log_evidence_error < 0.5


def test_annealing_has_two_names():
    for model in (line(), GP):
        one, other = (fitted(model, method=name, n_particles=64) for name in ("smc", "anneal"))
        assert_array_equal(one.ensemble.thetas, other.ensemble.thetas)


def test_a_single_number_is_an_outcome_too():
    with pm.Model() as model:
        pm.Normal("y", pm.Normal("a"), 1.0, observed=2.0)
    fit = pma.fit(model, **QUIET)
    assert abs(fit.log_evidence - stats.norm.logpdf(2, 0, np.sqrt(2))) < 4 * fit.log_evidence_error
    assert fit.to_datatree(random_seed=0)["log_likelihood"].y.sizes["draw"] == 512


def test_the_evidence_of_yes_and_no_is_the_sum_over_a_grid():
    fit = pma.fit(yes_or_no(), n_particles=2000, **QUIET)
    shift, log_slope = np.meshgrid(np.linspace(-6, 6, 601), np.linspace(-3, 3, 601), indexing="ij")
    signs = np.array([-1, -1, 1, 1])[:, None, None]
    log = log_expit(signs * np.exp(log_slope) * (X[:, None, None] - shift)).sum(0)
    log += stats.norm.logpdf(shift) + stats.norm.logpdf(log_slope, 0, 0.5)
    evidence = logsumexp(log) + np.log(12 / 600 * 6 / 600)
    assert abs(fit.log_evidence - evidence) < 4 * fit.log_evidence_error < 0.4


def test_an_update_agrees_with_a_fit_of_all(fit):
    updated = fit.update([0.7], [1.0], random_seed=0)
    mean, covariance, evidence = exact_line(np.append(X, 0.7), np.append(Y, 1.0))
    assert abs(updated.log_evidence - evidence) < 4 * updated.log_evidence_error
    weights, z = updated.ensemble.weights, updated.ensemble.thetas
    assert_allclose((weights @ z - mean) / np.sqrt(np.diag(covariance)), 0, atol=0.15)
    assert len(fit.y) == len(fit.gpm.y) == 4


def test_predictions_are_those_of_the_conjugate_model(fit):
    mean, covariance, _ = exact_line()
    design = np.stack([np.ones(len(POOL)), POOL], axis=1)
    center, variance = design @ mean, np.einsum("ik,kl,il->i", design, covariance, design)
    sd = np.sqrt(variance + NOISE**2)
    p = pma.predict(fit, POOL, quantiles=(0.05, 0.95), y_new=np.ones(len(POOL)))
    assert_allclose(pma.predict(fit, POOL).y_quantile[[0, 2]], p.y_quantile)
    assert_allclose(p.y_mean, center, atol=0.15)
    assert_array_equal(p.f_mean, p.y_mean)
    assert_allclose(p.f_variance, variance, rtol=0.2)
    assert_allclose(p.y_variance, sd**2, rtol=0.15)
    assert_allclose(p.y_quantile, [center - 1.645 * sd, center + 1.645 * sd], atol=0.3)
    assert_allclose(p.y_log_density, stats.norm.logpdf(1, center, sd), atol=0.3)


def gaussian_information(points, covariance, about=((1, 0), (0, 1)), pending=()):
    """Information of outcomes at points about the line, or about linear functions of it, given pending outcomes."""

    def given(covariance, rows):
        design = np.stack([np.ones(len(rows)), rows], axis=1)
        return np.linalg.inv(np.linalg.inv(covariance) + design.T @ design / NOISE**2)

    def entropy(covariance):
        return 0.5 * np.linalg.slogdet(np.atleast_2d(about) @ covariance @ np.atleast_2d(about).T)[1]

    before = given(covariance, np.asarray(pending, float))
    return [entropy(before) - entropy(given(before, [x])) for x in points]


def test_information_about_all_parameters_of_a_line_and_of_a_batch_is_exact(exact):
    _, covariance, _ = exact_line()
    question = Information(exact, AllParameters(exact.weights))
    found, error = question.at(POOL[:, None])
    expected = np.array(gaussian_information(POOL, covariance))
    assert_allclose(found, expected, atol=0.06)
    assert (error < 0.03).all()
    assert np.argmax(found) == np.argmax(expected)
    found, _ = question.given(np.array([[3.0]])).at(POOL[:, None])
    assert_allclose(found, gaussian_information(POOL, covariance, pending=[3.0]), atol=0.06)
    # The other end, which an ask that knew nothing of the first point would not choose.
    assert POOL[np.argmax(found)] == -3.0


@pytest.mark.parametrize("about", [[0, 1], [1, 0]])
def test_information_about_a_target_leaves_out_what_else_is_learned(exact, about):
    values = exact.z[0] @ np.array(about)
    found, error = Information(exact, of_targets(exact.weights, values[:, None])).at(POOL[:, None])
    expected = np.array(gaussian_information(POOL, exact_line()[1], about))
    assert (np.abs(found - expected) < 3 * error + 0.01).all()
    assert (error < 0.06).all()
    assert expected[np.argmax(found)] > 0.95 * expected.max()


@pytest.mark.parametrize("noise", [0.3, 0.01])
@pytest.mark.parametrize("repeats", [1, 3])
def test_outcomes_tell_nothing_about_what_they_do_not_depend_on(noise, repeats):
    """However few particles a precise outcome leaves, and whatever it tells about others."""
    z = np.repeat(np.random.default_rng(0).normal(size=(2, 256)), repeats, axis=1)
    w, owner = np.full(z.shape[1], 1 / z.shape[1]), np.arange(z.shape[1]) // repeats % 2
    y = z[0] + noise * np.random.default_rng(1).normal(size=z.shape[1])
    log = stats.norm.logpdf(y[:, None], z[0], noise)[:, :, None]
    assert of_targets(w, z[1][:, None]).of_draws(log)[0] < 0.03
    assert of_targets(w, z[0][:, None]).of_draws(log)[0] > 1
    which = np.unique(z[0], return_inverse=True)[1]
    with np.errstate(divide="ignore"):
        assert Virtual.of(w, [np.log(owner[:, None] == owner)], which).of_draws(log)[0] < 0.03
    later = stats.norm.logpdf((z[1] + y - z[0])[:, None], z[1], noise)
    assert Virtual.of(w, [later], which).of_draws(log)[0] < 0.03


@pytest.mark.parametrize("precision", [1, 10, 30])
def test_information_about_one_target_has_no_ceiling_but_that_of_the_particles(precision):
    rng = np.random.default_rng(0)
    z, S = stats.norm.ppf((rng.permutation(256) + 0.5) / 256), 256
    log = stats.norm.logpdf(z[:, None] + rng.normal(size=(S, 1)) / precision, z, 1 / precision)[:, :, None]
    found, error = of_targets(np.full(S, 1 / S), z[:, None]).of_draws(log)
    assert_allclose(found, 0.5 * np.log1p(precision**2), atol=3 * error[0] + 0.2)


def test_labels_tell_about_a_target_what_a_sum_over_a_grid_says():
    """Of a probit of two parameters: all labels with their probabilities, and as outcomes of the particles."""
    z = stats.norm.ppf(stats.qmc.Sobol(2, rng=0).random(512))
    p = stats.norm.cdf(2 * z[:, 0] + z[:, 1])
    log = np.log([1 - p, p])[:, :, None]
    # Given the first parameter, the second adds to the noise of a probit.
    given = stats.norm.cdf(2 * z[:, 0] / np.sqrt(2))
    expected = stats.entropy([0.5, 0.5]) - stats.entropy([given, 1 - given], axis=0).mean()
    quantity = of_targets(np.full(512, 1 / 512), z[:, :1])
    # A kernel of a quarter of a sd blurs the target a little.
    assert_allclose(quantity.of_values(log), expected, atol=0.04)
    drawn = (np.random.default_rng(0).random(512) < p).astype(int)
    found, error = quantity.of_draws(log[drawn])
    assert_allclose(found, expected, atol=3 * error[0])


def test_information_about_an_outcome_is_that_of_two_correlated_normals(exact):
    _, covariance, _ = exact_line()
    target, rows = np.array([1.0, 2.5]), np.stack([np.ones(len(POOL)), POOL], axis=1)
    joint = rows @ covariance @ target
    variances = np.einsum("ik,kl,il->i", rows, covariance, rows) + NOISE**2
    expected = -0.5 * np.log(1 - joint**2 / variances / (target @ covariance @ target + NOISE**2))
    quantity = of_predictions(exact, np.array([[2.5]]), np.random.default_rng(0))
    found, _ = Information(exact, quantity).at(POOL[:, None])
    assert_allclose(found, expected, atol=0.06)


def test_information_about_the_model_is_an_integral_over_the_outcome():
    with pm.Model() as flat:
        pm.Normal("y", pm.Normal("level", 0, A) + 0 * pm.Data("x", X), 1, observed=Y)
    fits = {name: pma.fit(model, **QUIET) for name, model in {"line": line(), "flat": flat}.items()}
    members = Members.of(pma.as_ensemble(fits), 256)
    found, _ = Information(members, of_models(members)).at(np.array([[2.0]]))
    # By quadrature over a fine grid of y.
    y, parts = np.linspace(-15, 15, 3001), []
    log = members.log_densities(y[:, None], np.array([[2.0]]))[:, :, 0]
    for k in (0, 1):
        of = members.owner == k
        parts.append(np.exp(log[:, of]) @ members.weights[of])
    total, expected = sum(parts), 0.0
    for part in parts:
        ratio = np.maximum(part / part.sum() * total.sum() / total, 1e-300)
        expected += np.trapezoid(np.where(part > 0, part * np.log(ratio), 0), y)
    assert_allclose(found, expected, atol=0.02)


def test_information_of_a_count_is_a_sum():
    with pm.Model() as model:
        rate = pm.Gamma("rate", 3, 2)
        pm.Poisson("count", rate * pm.Data("exposure", np.array([1.0, 2.0])), observed=[1, 4])
    fit = pma.fit(model, **QUIET)
    found, z = bald(fit, np.array([0.5, 3.0])).to_numpy(), fit.ensemble.first(256, 0).parts[0].z
    for value, exposure in zip(found, (0.5, 3.0), strict=True):
        p = stats.poisson.pmf(np.arange(60)[:, None], exposure * np.exp(z[:, 0]))
        expected = stats.entropy(p.mean(1)) - stats.entropy(p, axis=0).mean()
        assert_allclose(value, expected, atol=1e-3)


def test_a_censored_outcome_is_no_count_where_all_draws_are_at_the_limit():
    """Densities below the limit are no probabilities, though all that was drawn is one whole number."""
    with pm.Model() as model:
        plain = pm.Normal.dist(pm.Normal("slope", 3, 0.1) * pm.Data("x", np.array([1.0, 2.0])), 1.0)
        pm.Censored("y", plain, lower=None, upper=4.0, observed=[3.0, 4.0])
    fit = pma.fit(model, **QUIET)
    members = Members.of(fit.ensemble, 256)
    question, x = Information(members, AllParameters(members.weights)), np.array([[2.9]])
    drawn = members.draw(x)
    assert (drawn == 4).all()
    assert_array_equal(question.at(x)[0], question._by_draws(drawn, x)[0])


@pytest.mark.nightly
def test_a_draw_has_the_moments_of_its_distribution():
    with pm.Model() as model:
        x, share = pm.Data("x", X), pm.Beta("share", 2, 2)
        pm.ZeroInflatedPoisson("y", share, pt.exp(1 + 0.3 * x), observed=[0, 3, 2, 5])
    process = Process(model)
    z = np.random.default_rng(0).normal(size=(4, 1)).repeat(20_000, axis=0)
    draws = process.draw(z, X[:, None]).reshape(4, 20_000, 4)
    means = process.graphs.means(z[::20_000], X)
    assert_allclose(draws.mean(1), means, rtol=0.04)
    # Common random numbers: the same outcomes are zero at all rows.
    assert (np.diff(draws == 0, axis=2) == 0).mean() > 0.9
    log = process.log_densities(z[:1], np.array([[[0, 1, 2, 3]]]), X[:, None])
    psi, rate = expit(z[0, 0]), np.exp(1 + 0.3 * X)
    y = np.arange(4)
    assert_allclose(log[0, 0], np.log((1 - psi) * (y == 0) + psi * stats.poisson.pmf(y, rate)))


def test_categories_are_looked_up_for_all_particles_at_once():
    with pm.Model() as model:
        slope, cut = (
            pm.Normal("slope"),
            pm.Normal("cut", [-1, 1], transform=pm.distributions.transforms.ordered, shape=2),
        )
        pm.OrderedLogistic("y", eta=slope * pm.Data("x", X), cutpoints=cut, observed=[0, 1, 1, 2])
    process, rng = Process(model), np.random.default_rng(0)
    z, y = rng.normal(size=(5, 3)), rng.integers(3, size=(6, 1, 4))
    cuts = z[:, [1]] + np.column_stack([np.zeros(5), np.exp(z[:, 2])])
    below = expit(cuts[:, None] - z[:, :1, None] * X[:, None])
    p = np.diff(below, axis=2, prepend=0, append=1)
    by_hand = np.log(p[np.arange(5)[:, None], np.arange(4), y])
    assert_allclose(process.log_densities(z, y, X[:, None]), by_hand)
    graph = process.graphs.rows._function.maker.fgraph
    assert not any("Blockwise" in str(node.op) for node in graph.toposort())


def _mixture():
    pm.NormalMixture(
        "y", pm.Dirichlet("w", [1, 2, 3]), pm.Normal("at", 0, 3, shape=3), 0.5, observed=[1.0, -800.0, 3, 4]
    )


def _correlated():
    chol, _, _ = pm.LKJCholeskyCov("chol", n=2, eta=2, sd_dist=pm.Exponential.dist(1.0))
    pm.MvNormal("y", pm.Normal("at", 0, 3, shape=2), chol=chol, observed=np.arange(8.0).reshape(4, 2))


@pytest.mark.parametrize("outcome", [_mixture, _correlated])
def test_components_and_rows_are_taken_for_all_particles_at_once(outcome):
    with pm.Model() as model:
        pm.Data("x", X)
        outcome()
    target, log, slope = Process(model).posterior(), model.compile_logp(), model.compile_dlogp()
    z, names = np.random.default_rng(0).normal(size=(4, target.n_parameters)), model.value_vars
    likelihoods, priors = target.log_likelihoods(z), target.log_priors(z)
    for k, row in enumerate(z):
        ends = np.cumsum([model.initial_point()[v.name].size for v in names])
        point = {v.name: part for v, part in zip(names, np.split(row, ends[:-1]), strict=True)}
        assert_allclose(target.values(z)[k], log(point), rtol=1e-10)
        assert_allclose(priors[1][k] + likelihoods.gradient[k], slope(point), rtol=1e-8)
    # A matrix may be factored for each particle, but nothing is solved for each row.
    for node in target.graphs._densities._function.maker.fgraph.toposort():
        if "Blockwise" in str(node.op):
            assert outcome is _correlated
            assert all(node.outputs[0].type.broadcastable[1 : node.op.batch_ndim(node)])


def test_a_parameter_outside_its_range_fails_for_its_particle_alone():
    with pm.Model() as model:
        slope = pm.Normal("slope", 0, 5)
        pm.Poisson("y", 1 + slope * pm.Data("x", np.array([0.0, 1.0])), observed=[1, 2])
    values = Process(model).posterior().likelihood_values(np.array([[0.5], [-3.0]]))
    assert np.isfinite(values).tolist() == [True, False]
    assert pma.fit(model, **QUIET).ensemble.thetas.min() > -1


@pytest.mark.nightly
def test_loops_over_time_are_taken_for_all_particles_at_once():
    """With sequences, two steps back and an output of its own, as PyMC evaluates them for one."""
    with pm.Model() as model:
        day, rate = pm.Data("day", np.arange(5)), pm.LogNormal("rate", -1, 0.5)
        forcing = pt.as_tensor(np.linspace(0.1, 1, 6)) * pm.Normal("push")
        path, squared = pytensor.scan(
            lambda f, before, last, k: (last + 0.1 * before - k * last + f, last**2), sequences=[forcing],
            outputs_info=[{"initial": pt.as_tensor(np.array([1.0, 2.0])), "taps": [-2, -1]}, None],
            non_sequences=[rate], return_updates=False,
        )  # fmt: skip
        # Of a scale of 0.5 PyMC takes the logarithm in single precision.
        pm.Normal("y", path[day] + squared[day], 0.3, observed=np.ones(5))
    z = np.random.default_rng(0).normal(size=(4, 2))
    target, log, slope = Process(model).posterior(), model.compile_logp(), model.compile_dlogp()
    for k, point in enumerate({"rate_log__": a, "push": b} for a, b in z):
        assert_allclose(target.values(z)[k], log(point), rtol=1e-10)
        likelihood = target.log_likelihoods(z).gradient[k]
        assert_allclose(target.log_priors(z)[1][k] + likelihood, slope(point), rtol=1e-8)
    graph = target.graphs._densities._function.maker.fgraph
    assert not any("Scan" in str(node.op) and "Blockwise" in str(node.op) for node in graph.toposort())


def test_arviz_reads_a_fit(fit):
    from arviz_stats import loo, summary

    tree = fit.to_datatree(draws=400, random_seed=0)
    groups = "posterior prior log_prior log_likelihood posterior_predictive prior_predictive sample_stats observed_data"
    assert {*groups.split(), "constant_data"} <= set(tree.children)
    assert tree["posterior"].sizes["draw"] == 400
    drawn = tree["posterior"]
    assert_allclose(drawn.mu, drawn.intercept + drawn.slope * xr.DataArray(X, dims="mu_dim_0"))
    log = stats.norm.logpdf(Y, drawn.mu, NOISE)
    assert_allclose(tree["log_likelihood"].y, log)
    assert_allclose(tree["sample_stats"].lp, log.sum(-1) + tree["log_prior"].intercept + tree["log_prior"].slope)
    assert np.isfinite(loo(tree).elpd)
    assert "slope" in summary(tree).index


def test_nuts_replaces_annealing_where_the_prior_is_improper():
    with pm.Model() as model:
        slope = pm.Flat("slope")
        pm.Normal("y", slope * pm.Data("x", X), NOISE, observed=Y)
    fit = pma.fit(model, **QUIET)
    mean, sd = X @ Y / (X @ X), NOISE / np.sqrt(X @ X)
    assert fit.diagnostics["method"] == "nuts"
    assert "slope cannot be drawn from" in fit.diagnostics["reason"]
    assert_allclose(fit.ensemble.thetas.mean(), mean, atol=0.3 * sd)
    assert np.isnan(fit.log_evidence)
    assert "not known" in str(fit)
    with pytest.raises(ValueError, match="slope: an improper prior cannot be drawn from"):
        pma.fit(model, method="anneal", **QUIET)
    assert len(bald(fit, POOL)) == 13


@pytest.mark.nightly
@pytest.mark.parametrize("initval", [0.0, 1.0])
def test_nuts_replaces_annealing_where_no_draw_of_the_prior_is_possible(initval):
    with pm.Model() as model:
        slopes = pm.Normal("slopes", shape=3, initval=np.full(3, initval))
        possible = pt.switch(pt.max(abs(slopes)) < 0.02, -0.5 * pt.sum((slopes / 0.003) ** 2), -np.inf)
        pm.Potential("possible", possible)
        pm.Normal("y", slopes[0] * pm.Data("x", X), NOISE, observed=Y)
    if initval:
        with pytest.raises(ValueError, match="at the initial point and around it the data are impossible"):
            pma.fit(model, **QUIET)
        return
    with pytest.warns(pma.DoubtfulFitWarning, match="no draw from the prior has a likelihood: NUTS replaced it"):
        fit = pma.fit(model, **QUIET)
    assert_allclose(fit.ensemble.thetas[:, 1].std(), 0.003, rtol=0.3)


@pytest.mark.nightly
def test_a_prior_that_is_a_log_density_alone_is_sampled_by_nuts():
    """The usual way to write a prior that PyMC lacks."""
    positive = pm.distributions.transforms.log
    with pm.Model() as model:
        slope = pm.CustomDist("slope", 1.0, logp=lambda value, rate: -rate * value, default_transform=positive)
        pm.Normal("y", slope * pm.Data("x", X), NOISE, observed=Y)
    fit = pma.fit(model, **QUIET)
    grid = np.linspace(0.01, 4, 4000)
    weights = softmax(stats.norm.logpdf(Y, grid[:, None] * X, NOISE).sum(1) - grid)
    mean = weights @ grid
    sd = np.sqrt(weights @ (grid - mean) ** 2)
    assert fit.diagnostics["method"] == "nuts"
    assert_allclose(np.exp(fit.ensemble.thetas).mean(), mean, atol=0.3 * sd)


def test_data_far_out_in_the_prior_are_followed_or_left_to_nuts():
    """Particles that gave up on the way all agreed, and no diagnostic told."""
    y = 298 + 0.05 * np.random.default_rng(1).normal(size=15)
    with pm.Model() as model:
        pm.Normal("y", pm.Normal("k") * pm.Data("x", np.ones(15)), 0.05, observed=y)
    with pytest.warns(pma.DoubtfulFitWarning, match=r"annealing gave up .* NUTS replaced it"):
        fit = pma.fit(model, **QUIET)
    assert_allclose(fit.ensemble.thetas.mean(), y.mean() / (1 + 0.05**2 / 15), atol=0.01)
    annealed = pma.fit(yes_or_no(), method="anneal", **QUIET)
    assert annealed.diagnostics["warnings"] == []


def test_candidates_where_the_model_is_undefined_are_never_chosen():
    with pm.Model() as model:
        dose = pm.Data("dose", np.array([0.5, 1.0, 2.0]))
        pm.Normal("y", pm.Normal("slope") * pt.log(dose), 0.3, observed=[1.0, 2.0, 3.0])
    for goal in ("parameters", "function", "maximum"):
        learner = pma.Learner(model, goal, pool={"dose": [0.0, 1.5, 3.0]}, random_seed=0)
        assert 0.0 not in set(learner.ask(2, progressbar=False).dose)
    own = pma.Learner(model, criterion=lambda fit, X: -np.abs(X[:, 0] - 2), pool={"dose": [1.5, 2.1]}, random_seed=0)
    assert own.ask(progressbar=False).dose.iloc[0] == 2.1


def test_predictions_of_skewed_outcomes_are_those_of_the_mixture_of_their_particles():
    x, new = np.linspace(0, 10, 30), np.array([0.0, 3.0, 12.0])
    with pm.Model() as model:
        X, a, b, s = pm.Data("x", x), pm.Normal("a"), pm.Normal("b", 0, 0.3), pm.HalfNormal("s", 3)
        pm.Gamma("y", mu=pm.math.exp(a + b * X), sigma=s, observed=np.random.default_rng(2).gamma(2, 1 + 0.2 * x))
    fit = pma.fit(model, random_seed=0, progressbar=False)
    values = fit.gpm.constrain(fit.ensemble.thetas)
    mu, s = np.exp(values["a"][:, None] + values["b"][:, None] * new), values["s"][:, None]
    probabilities = [0.05, 0.5, 0.95]
    found = pma.predict(fit, {"x": new}, quantiles=probabilities)
    assert_allclose(found.y_variance, mu.var(0) + np.mean(s**2), rtol=0.12)
    for p, q in zip(probabilities, found.y_quantile.to_numpy(), strict=True):
        below = stats.gamma.cdf(q, mu**2 / s**2, scale=s**2 / mu).mean(0)
        assert_allclose(below, p, atol=4 * np.sqrt(p * (1 - p) / 8192))


def test_expected_outcomes_without_a_formula_spread_as_those_of_the_particles_do():
    """Of a hurdle, which PyMC has no mean for: not as much as means of a few draws."""
    x, new, rng = np.linspace(0, 10, 60), np.array([0.0, 5.0, 10.0]), np.random.default_rng(2)
    with pm.Model() as model:
        X, a, psi = pm.Data("x", x), pm.Normal("a"), pm.Beta("psi", 2, 2)
        y = rng.gamma(1, 2, 60) * (rng.random(60) < 0.7)
        pm.HurdleGamma("y", psi=psi, alpha=1.0, beta=pm.math.exp(a + 0 * X), observed=y)
    fit = pma.fit(model, random_seed=0, progressbar=False)
    values = fit.gpm.constrain(fit.ensemble.thetas)
    exact = values["psi"] * np.exp(-values["a"])
    found = pma.predict(fit, {"x": new})
    assert_allclose(found.f_mean, exact.mean(), atol=4 * 2.2 / np.sqrt(32 * 512))
    # The variance of means of 32 draws is twice as large.
    assert_allclose(found.f_variance, exact.var(), rtol=0.4)


def test_a_distribution_without_a_mean_has_quantiles_alone():
    with pm.Model() as model:
        pm.Cauchy("y", pm.Normal("b") * pm.Data("x", X), 0.3, observed=Y)
    fit = pma.fit(model, **QUIET)
    assert list(pma.predict(fit, POOL, quantiles=[0.5]).data_vars) == ["y_quantile"]


def test_a_value_for_each_level_is_no_input():
    with pm.Model(coords={"site": ["a", "b", "c"]}) as model:
        height, site = pm.Data("height", [0.1, 0.2, 0.3], dims="site"), pm.Data("site_of", [0, 1, 2])
        level = pm.Normal("level", dims="site")
        pm.Normal("y", level[site] + pm.Normal("b") * height[site], 0.3, observed=[1.0, 2.0, 3.0])
    assert pma.fit(model, **QUIET).gpm.inputs == ["site_of"]


def test_a_run_leaves_the_model_as_it_was():
    model = line()
    before = model["x"].get_value().copy()
    one, two = (pma.Learner(model, "parameters", pool=POOL, random_seed=1) for _ in range(2))
    x = one.ask(progressbar=False)
    one.tell(x, 1.0)
    assert_array_equal(model["x"].get_value(), before)
    assert len(two.y) == 4
    assert_array_equal(two.ask(progressbar=False), x)
    assert [rv.name for rv in model.observed_RVs] == ["y"]


@pytest.mark.parametrize(
    ("goal", "where"),
    [
        ("function", {"pool": {"x": POOL}}),
        ("maximum", {"bounds": {"x": (-3, 3)}}),
        *nightly(*((goal, {"pool": {"x": POOL}}) for goal in ("parameters", "maximum"))),
        *nightly(*((goal, {"bounds": {"x": (-3, 3)}}) for goal in ("parameters", "function"))),
    ],
)
def test_every_goal_asks_in_a_pool_and_in_a_box(goal, where):
    learner = pma.Learner(line(), goal, **where, random_seed=1)
    asked = learner.ask(2, progressbar=False)
    assert len(set(asked.x)) == 2
    assert asked.x.between(-3, 3).all()
    learner.tell(asked, [0.5, np.nan], failed=[False, True])
    assert len(learner.failures) == 1
    assert learner.ask(progressbar=False).x.iloc[0] not in set(asked.x)
    assert learner.recommend() is not None


@pytest.mark.nightly
def test_goals_choose_as_their_criteria_do():
    model, rows = line(), POOL[:, None]
    fit = pma.Learner(model, "parameters", pool=POOL, random_seed=1).fit
    for goal, keywords, scores in (
        ("parameters", {}, bald(fit, rows)),
        ("parameters", {"targets": ["at_two"]}, bald(fit, rows, targets=["at_two"])),
        ("function", {"X_target": np.array([2.0])}, epig(fit, rows, X_target=np.array([[2.0]]))),
    ):
        learner = pma.Learner(model, goal, pool=POOL, random_seed=1, **keywords)
        values = scores.to_numpy()
        [chosen] = values[learner.ask(progressbar=False)[0, 0] == POOL]
        # The best are scored with more particles.
        assert chosen > values.max() - 0.05


def test_the_maximum_is_found_and_its_uncertainty_told():
    with pm.Model() as model:
        top, width = pm.Normal("top", 0, 2), pm.LogNormal("width", 0, 0.3)
        x = np.array([-1.0, 0.5, 1.1, 2.0])
        pm.Normal("y", pt.exp(-(((pm.Data("x", x) - top) / width) ** 2)), 0.05, observed=np.exp(-((x - 1.2) ** 2)))
    learner = pma.Learner(model, "maximum", bounds={"x": (-3, 3)}, random_seed=1)
    optimum = learner.optimum(progressbar=False)
    assert abs(float(np.asarray(learner.recommend())[0, 0]) - 1.2) < 0.2
    assert_allclose(optimum.samples.x.mean(), 1.2, atol=0.2)
    assert 0 <= optimum.regret < 0.05
    assert learner.stop(0.5, progressbar=False)
    assert not learner.stop(0.0, progressbar=False)


def test_noisy_arms_are_tried_again():
    """Improvement is over the best mean, not over what each particle knows of the arms that were measured."""
    arms, truth = np.repeat(np.arange(4), 2), np.array([0.0, 0.4, 0.8, 1.0])
    with pm.Model() as model:
        f = pm.Normal("f", 0.5, 0.6, shape=4)
        pm.Normal("y", f[pm.Data("arm", arms)], 0.7, observed=truth[arms] + np.tile([0.6, -0.6], 4))
    learner = pma.Learner(model, "maximum", pool={"arm": np.arange(4)}, repeat=True, random_seed=1)
    # Conjugate: the variance is 1 / (1 / 0.36 + 2 / 0.49).
    sd = (1 / 0.36 + 2 / 0.49) ** -0.5
    mean = sd**2 * (0.5 / 0.36 + 2 * truth / 0.49)
    gap = (mean - mean.max()) / sd
    exact = np.log(sd * (stats.norm.pdf(gap) + gap * stats.norm.cdf(gap)))
    assert_allclose(expected_improvement(learner.fit, np.arange(4.0)[:, None])[2:], exact[2:], atol=0.4)
    asked = []
    for _ in range(6):
        [arm] = learner.ask(progressbar=False)["arm"]
        asked.append(int(arm))
        learner.tell({"arm": arm}, truth[arm])
    assert np.isin(asked, [2, 3]).mean() > 0.6


def test_a_run_starts_from_the_prior_and_takes_whole_numbers():
    learner = pma.Learner(yes_or_no(observed=False), "parameters", pool=POOL, observed="yes", random_seed=1)
    assert len(learner.y) == 0
    x = learner.ask(progressbar=False)
    with pytest.raises(ValueError, match=r"'yes' is a whole number; got 0\.5"):
        learner.tell(x, 0.5)
    learner.tell(x, 1)
    assert learner.fit.log_evidence < 0
    assert_allclose(learner.fit.log_evidence, np.log(0.5), atol=0.5)


@pytest.mark.parametrize("goal", ["parameters", *nightly("function", "maximum")])
def test_a_run_without_outcomes_asks_in_a_box(goal):
    learner = pma.Learner(yes_or_no(observed=False), goal, observed="yes", bounds={"x": (-2, 2)}, random_seed=1)
    x = learner.ask()
    assert -2 <= x.x.item() <= 2
    learner.tell(x, None, failed=True)
    assert len(learner.failures) == 1


def test_several_models_are_told_apart():
    def decay(order):
        with pm.Model() as model:
            t, rate = pm.Data("t", np.array([0.0, 1.0])), pm.LogNormal("rate", -1, 0.3)
            mean = pt.exp(-rate * t) if order == 1 else 1 / (1 + rate * t)
            pm.Normal("c", mean, 0.02, observed=[1.0, 1 / 1.4])
        return model

    models = {"first": decay(1), "second": decay(2)}
    learner = pma.Learner(models, "model", pool=np.linspace(0, 20, 41), random_seed=0)
    for _ in range(3):
        t = learner.ask(progressbar=False)
        learner.tell(t, 1 / (1 + 0.4 * t[:, 0]))
    assert learner.recommend() == "second"
    assert learner.fit.probability.sel(model="second") > 0.99
    assert learner.model_history.sizes["n_observations"] == 4
    assert float(bams(dict(learner.fit), np.array([3.0])).max()) >= 0


@pytest.mark.nightly
def test_one_of_several_models_may_leave_out_an_input(tmp_path):
    rng, x = np.random.default_rng(0), np.array([[0.0, 1.0], [1.0, 0.0], [0.5, 0.5]])

    def written(*names):
        with pm.Model() as model:
            mean = pm.Normal("level")
            for name in names:
                mean = mean + pm.Normal(f"effect of {name}") * pm.Data(name, x[:, "ab".index(name)])
            pm.Normal("y", mean, 0.2, observed=x[:, 0] + 0.1 * np.arange(3))
        return model

    models = {"nothing": written(), "a": written("a"), "both": written("a", "b")}
    pool = pd.DataFrame(rng.uniform(-2, 2, (30, 2)), columns=["b", "a"])
    learner = pma.Learner(models, "model", pool=pool, random_seed=0)
    assert learner.gpm.inputs == ["a", "b"]
    for _ in range(4):
        asked = learner.ask(progressbar=False)
        learner.tell(asked, asked.a)
    assert learner.recommend() == "a"
    assert learner.fit.probability.sel(model="nothing") < 0.01
    learner.save(tmp_path / "run.nc", model=True)
    loaded = [pma.Learner.load(tmp_path / "run.nc", **how) for how in ({"allow_pickle": True}, {"model": models})]
    expected = learner.ask(progressbar=False)
    for one in loaded:
        assert_array_equal(one.ask(progressbar=False), expected)


def test_a_file_continues_with_the_same_questions(tmp_path):
    learner = pma.Learner(line(), "parameters", pool={"x": POOL}, targets=["slope"], random_seed=3)
    learner.tell(learner.ask(progressbar=False), 2.0)
    learner.ask(progressbar=False)
    with pytest.warns(pma.RunWarning, match="keep the code that makes it"):
        learner.save(tmp_path / "run.nc")
    learner.save(tmp_path / "whole.nc", model=True)
    with pytest.raises(ValueError, match="pass allow_pickle=True if you trust it"):
        pma.Learner.load(tmp_path / "whole.nc")
    with pytest.raises(ValueError, match="cannot hold the model"):
        pma.Learner.load(tmp_path / "run.nc")
    loaded = pma.Learner.load(tmp_path / "run.nc", model=line(POOL, POOL))
    whole = pma.Learner.load(tmp_path / "whole.nc", allow_pickle=True)
    assert_array_equal(loaded.pending, learner.pending)
    _ = loaded.fit, loaded.best_score(), str(loaded)
    asked = [one.ask(progressbar=False).x.to_numpy() for one in (learner, loaded, whole)]
    assert_array_equal(asked[0], asked[1])
    assert_array_equal(asked[0], asked[2])
    with pytest.raises(ValueError, match="one of yes, shift, slope; got 'y'"):
        pma.Learner.load(tmp_path / "run.nc", model=yes_or_no())


def with_groups():
    with pm.Model(coords={"group": ["a", "b"]}) as model:
        rate = pm.Gamma("rate", 2, 1, dims="group")
        exposure, group = pm.Data("exposure", X + 2), pm.Data("group_of", [0, 1, 0, 1])
        pm.Poisson("y", rate[group] * exposure, observed=[1, 3, 2, 6])
    return model


def test_groups_and_exposures_are_columns_of_the_candidates():
    pool = pd.DataFrame({"exposure": [1.0, 5.0, 1.0, 5.0], "group_of": [0, 0, 1, 1]}, index=list("abcd"))
    learner = pma.Learner(with_groups(), "parameters", pool=pool, random_seed=1)
    asked = learner.ask(2, progressbar=False)
    # The longer exposures tell more, one for each group.
    assert set(asked.index) == {"b", "d"}
    assert asked.group_of.dtype == pool.group_of.dtype


def test_rows_need_no_name_where_columns_have_some():
    with pm.Model(coords={"metal": ["Cu", "Zn"], "assay": range(4)}) as model:
        inputs = pm.Data("x", np.c_[X, X**2], dims=(None, "metal"))
        pm.Normal("y", inputs @ pm.Normal("b", dims="metal"), 0.5, observed=Y, dims="assay")
    learner = pma.Learner(model, "parameters", pool=pd.DataFrame({"Cu": X, "Zn": 2.0}), random_seed=1)
    learner.tell(learner.ask(), 1.0)
    assert learner.to_datatree().constant_data.metal.to_numpy().tolist() == ["Cu", "Zn"]
    assert model.named_vars_to_dims["x"] == (None, "metal")
    assert list(model.coords) == ["metal", "assay"]


def test_columns_are_in_the_order_of_the_model():
    x = np.linspace(0, 1, 6)
    with pm.Model() as model:
        a, b = pm.Data("a", x), pm.Data("b", 100 + x)
        pm.Normal("y", b - 100 + pm.Normal("k") * a, 0.1, observed=3 * x)
    fit = pma.fit(model, **QUIET)
    assert fit.gpm.inputs == ["a", "b"]
    assert_allclose(pma.predict(fit, [[1.0, 100.0]]).f_mean, 2, atol=0.2)
    assert_allclose(pma.predict(fit, {"b": [100.0], "a": [1.0]}).f_mean, 2, atol=0.2)


def test_columns_of_a_matrix_have_names_and_one_number_is_of_all_rows():
    D = np.random.default_rng(0).uniform(size=(12, 2)) * [1, 100]
    with pm.Model() as model:
        inputs, more = pm.Data("X", D), pm.Normal("b", 0, 1, shape=2)
        pm.Normal("y", inputs @ more, 0.1, observed=D @ [1, 2])
    fit = pma.fit(model, **QUIET)
    new = pd.DataFrame({"X[0]": [0.1, 0.9], "X[1]": [10.0, 90.0]})
    expected = pma.predict(fit, new.to_numpy()).f_mean
    assert_allclose(expected, new @ [1, 2], rtol=0.02)
    assert_array_equal(pma.predict(fit, new[["X[1]", "X[0]"]]).f_mean, expected)
    with pytest.raises(ValueError, match=r"missing: X\[0\], X\[1\]; unknown: age, w"):
        pma.predict(fit, new.set_axis(["age", "w"], axis=1))
    asked = pma.Learner(model, "parameters", bounds={"X[1]": (0, 100), "X[0]": (0, 1)}, random_seed=0).ask()
    assert np.asarray(asked).max() > 1
    pool = pd.DataFrame({"exposure": [2.0, 2.0], "group_of": [0, 1]})
    counted = pma.fit(with_groups(), **QUIET)
    assert_array_equal(
        pma.predict(counted, {"exposure": 2.0, "group_of": [0, 1]}).f_mean, pma.predict(counted, pool).f_mean
    )


def two_outcomes():
    x, slope = pm.Data("x", X), pm.Normal("slope")
    pm.Normal("y", slope * x, 1, observed=Y)
    pm.Poisson("z", pm.math.exp(slope * x), observed=[0, 1, 1, 4])


WRITTEN = {
    "latent": lambda: pm.Normal("y", pm.Normal("f", 0, 1, shape=4) * pm.Data("x", X), 1, observed=Y),
    "centred": lambda: pm.Normal("y", pm.Normal("slope") * ((x := pm.Data("x", X)) - x.mean()), 1, observed=Y),
    "integer": lambda: pm.Normal("y", pm.Poisson("k", 3) * pm.Data("x", X), 1, observed=Y),
    "constants": lambda: pm.Normal("y", pm.Normal("slope") * X, 1, observed=Y),
    "vectors": lambda: pm.MvNormal("y", pm.Normal("slope") * pm.Data("x", X), np.eye(4), observed=Y),
    "category": lambda: pm.Categorical(
        "y", logit_p=pm.Normal("b", shape=3) * pm.Data("x", X)[:, None], observed=[0, 1, 2, 1]
    ),
    "impossible": lambda: pm.Poisson("y", pm.LogNormal("k") * pm.Data("x", np.array([1.0, 2.0])), observed=[2, -4]),
    "a part": lambda: pm.Normal("y", pm.Normal("slope") * pm.Data("x", X), 1, observed=Y, total_size=100),
    "no parameters": lambda: pm.Normal("y", pm.Data("x", X), 1, observed=Y),
    "two outcomes": two_outcomes,
}


def written(name):
    with pm.Model() as model:
        WRITTEN[name]()
    return model


def run(model, *goal, pool=POOL, **keywords):
    return pma.Learner(model, *goal, pool=pool, **keywords)


def told(row, y):
    run(with_groups(), pool=GROUPS | {"group_of": [0]}, repeat=True).tell([row], y)


def fitted(model, **keywords):
    return pma.fit(model, **QUIET, **keywords)


GROUPS = {"exposure": np.array([1.0]), "group_of": np.array([2])}
BOX = {"exposure": (1, 2), "group_of": (0, 1)}
GP = pma.ard_gp(X[:, None], Y)
REFUSED = [
    (lambda: run(written("latent"), "parameters"), "no distribution at new rows"),
    (lambda: run(written("centred"), "parameters"), "at one row depends on other rows"),
    (lambda: run(written("integer"), "parameters"), "k: a free variable must be continuous"),
    (lambda: fitted(written("integer")), "k: a free variable must be continuous"),
    (lambda: run(written("constants"), "parameters"), r"use x = pm\.Data"),
    (lambda: run(written("vectors"), "parameters"), "entries depend on each other"),
    (lambda: epig(fitted(written("vectors")), X), "entries depend on each other"),
    (
        lambda: run(written("two outcomes"), "parameters"),
        "y, z are observed: name the one to be measured by observed='y'",
    ),
    (lambda: pma.predict(fitted(written("two outcomes")), [[1.0]]), "y, z are observed: name the one to be measured"),
    (lambda: run(written("category"), "maximum"), "'y' is Categorical, which has no expected value"),
    (lambda: run(with_groups(), pool=GROUPS), "group_of = 2 is a level that the model does not"),
    (lambda: run(with_groups(), pool=GROUPS | {"group_of": [0.5]}), "must be whole"),
    (lambda: pma.Learner(with_groups(), bounds=BOX), "list candidates in a pool"),
    (lambda: run(with_groups(), pool={"exposure": [1.0]}), "missing: group_of"),
    (lambda: run(line(), "hyperparameters"), "learn must be one of function, maximum, model, param"),
    (lambda: run(line(), "model"), "learn='model' compares models"),
    (lambda: run([line(), yes_or_no()], "model"), r"several pm\.Models need labels"),
    (lambda: run(dict.fromkeys("ab", line()), "model"), "a model occurs twice"),
    (lambda: run(line(), criterion="pes"), "the criterion pes is for GP models"),
    (lambda: run(line(), "parameters", targets=["mu"]), "value for each observation, as mu"),
    (lambda: run(line(), "function", targets=["slope"]), "for the goal 'parameters'"),
    (lambda: run(line(), inference="laplace"), "inference must be one of auto, anneal, nuts"),
    (lambda: run(line(), observed="z"), "one of y, intercept, slope; got 'z'"),
    (lambda: run(line()).tell([[0.0]], 1.0, y_sd=0.1), "error bars are for GP models"),
    (lambda: run(yes_or_no(observed=False)), "the model observes nothing"),
    (lambda: told([1.0, 0], -3), "'y' = -3 at exposure = 1, group_of = 0 is impossible"),
    (lambda: told([1.0, 7], 3), "group_of = 7 is a level"),
    (lambda: told([1.0, -1], 3), "group_of = -1 is negative"),
    (lambda: fitted(written("impossible")), "'y' is -4 in row 1, which no draw from the prior makes possible"),
    (lambda: fitted(written("a part")), "leave out total_size="),
    (lambda: fitted(written("no parameters")), "no free variables"),
    (lambda: fitted(line(), method="laplace"), "method must be one of auto, anneal, nuts"),
    (lambda: pma.predict(fitted(with_groups()), GROUPS), "group_of = 2 is a level"),
    (lambda: pma.predict(fitted(written("centred")), [[3.0]]), "at one row depends on other rows"),
    (lambda: bald(fitted(written("latent")), X), "no distribution at new rows"),
    (lambda: bald(fitted(line()), POOL, target="f"), "target='f' is for GP models"),
    (
        lambda: bald(fitted(GP), POOL[:, None], targets=["slope"]),
        "targets must name variables of the model, some of log",
    ),
]


@pytest.mark.parametrize(("use", "words"), REFUSED)
def test_what_cannot_be_done_is_refused_before_anything_is_measured(use, words):
    with pytest.raises((TypeError, ValueError), match=words):
        use()


def test_a_run_from_the_prior_is_verified_from_the_first_measurement_on(tmp_path):
    """By a longer run, as the fits of a GP are; it goes on from a file."""
    learner = run(yes_or_no(observed=False), "parameters", observed="yes", verify=1, random_seed=1)
    learner.ask()
    assert learner.verification.sizes["n_observations"] == 0
    learner.tell(learner.ask(), 1)
    learner.ask()
    found = learner.verification
    assert found.n_observations.to_numpy().tolist() == [1]
    assert abs(float(found.nll_loss[0])) < 0.1
    assert abs(float(found.evidence_difference[0])) < 4 * float(found.evidence_error[0]) + 0.01
    with pytest.warns(pma.RunWarning, match="not the model"):
        learner.save(tmp_path / "run.nc")
    again = pma.Learner.load(tmp_path / "run.nc", yes_or_no(observed=False))
    xr.testing.assert_identical(again.verification, found)


def test_a_longer_run_of_several_models_has_their_evidences(monkeypatch):
    """Also where it is better: then it takes the place of the fit, and the models are told apart by it."""
    own = verification.compare

    def worse(*arguments):
        found = own(*arguments)
        found["predictions"]["nll"] = found["predictions"]["nll"] + 1.0
        return found

    monkeypatch.setattr(verification, "compare", worse)
    # The longer run is made as the fit is, in whatever way a fit of one model would be.
    monkeypatch.setattr(compare, "fit_process", lambda *arguments: pytest.fail("it may be by NUTS, without evidence"))
    with pm.Model() as curve:
        pm.Normal("y", pm.Normal("height", 0, A) * pm.Data("x", X) ** 2, NOISE, observed=Y)
    learner = run({"line": line(), "curve": curve}, "model", verify=1, random_seed=1)
    with pytest.warns(pma.DoubtfulFitWarning, match="is worse than a longer run"):
        learner.ask()
    assert np.isfinite(learner.fit.probability).all()
    # The other one is too improbable to be verified.
    assert [len(fit.ensemble) for fit in learner.fit.values()] == [2048, 512]


def test_draws_that_numpy_refuses_are_none():
    """The prior allows counts that overflow; ArviZ gets the others."""
    x, y = np.linspace(-1, 1, 6), np.array([1, 0, 3, 2, 5, 1])
    with pm.Model() as model:
        place, slope = pm.Normal("place", 0, 20), pm.Normal("slope", 0, 20)
        mu = pm.math.exp(place + slope * pm.Data("x", x))
        pm.NegativeBinomial("y", mu=mu, alpha=pm.LogNormal("alpha", 0, 3), observed=y)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        fit = pma.fit(model, random_seed=1, progressbar=False)
    drawn = fit.to_datatree(random_seed=1).prior_predictive["y"].to_numpy()
    assert 0 < np.isnan(drawn).mean() < 0.5
    assert np.nanmin(drawn) >= 0


def of_custom(kind, is_custom):
    """The same outcome written with a distribution of one's own, and plainly."""
    x, y = np.linspace(0, 3, 6), 2 * np.linspace(0, 3, 6) + np.array([0.1, -0.3, 0.2, 0.4, -0.2, 0.0])
    normal = {"dist": lambda mu, size: pm.Normal.dist(mu, 0.3, size=size)}
    with pm.Model() as model:
        mu = pm.Normal("a", 0, 1) * pm.Data("x", x)
        if kind == "normal":
            pm.CustomDist("y", mu, **normal, observed=y) if is_custom else pm.Normal("y", mu, 0.3, observed=y)
        elif kind == "censored":
            inner = pm.CustomDist.dist(mu, **normal) if is_custom else pm.Normal.dist(mu, 0.3)
            pm.Censored("y", inner, lower=None, upper=4.0, observed=np.minimum(y, 4.0))
        elif is_custom:
            pm.LogitNormal("y", mu=mu - 3, sigma=1, observed=expit(y - 3))
        else:
            # Of the logits; the density of y is that times the slope of the map.
            pm.Normal("y", mu - 3, 1, observed=y - 3)
            slope = np.log(expit(y - 3) * expit(3 - y)).sum()
            pm.Potential("slope", pt.as_tensor(-slope))
    return model


@pytest.mark.parametrize("kind", ["normal", "censored", "logit"])
def test_a_distribution_of_ones_own_has_the_parameters_of_the_particles(kind):
    fits = [pma.fit(of_custom(kind, is_custom), **QUIET) for is_custom in (True, False)]
    errors = np.hypot(*(fit.log_evidence_error for fit in fits))
    assert fits[0].log_evidence == pytest.approx(fits[1].log_evidence, abs=4 * errors + 0.05)
    a, b = (fit.gpm.constrain(fit.ensemble.thetas)["a"] for fit in fits)
    assert a.mean() == pytest.approx(b.mean(), abs=0.3 * b.std())
    assert a.std() == pytest.approx(b.std(), rel=0.2)
    assert np.isfinite(bald(fits[0], [1.0, 5.0])).all()


def test_censored_gamma_outcomes_are_fitted_by_a_temperature():
    """By noise, which changes the shape, each step would take seconds."""
    x, y = np.linspace(-1, 1, 6), np.array([0.3, 0.5, 0.2, 0.9, 2.0, 2.0])
    with pm.Model() as model:
        inputs, a = pm.Data("x", x), pm.Normal("a", 0, 1)
        pm.Censored("y", pm.Gamma.dist(2.0, pm.math.exp(a + 0.5 * inputs)), lower=None, upper=2.0, observed=y)
    fit = pma.fit(model, **QUIET)
    at = np.linspace(-5, 5, 4001)
    gamma = stats.gamma(2.0, scale=np.exp(-(at[:, None] + 0.5 * x)))
    log = np.where(y < 2, gamma.logpdf(y), gamma.logsf(2.0)).sum(1) + stats.norm.logpdf(at)
    assert fit.log_evidence == pytest.approx(
        np.log(np.trapezoid(np.exp(log), at)), abs=4 * fit.log_evidence_error + 0.02
    )


def test_what_an_unobserved_outcome_leads_to_is_not_measured_either():
    with pm.Model() as model:
        latent = pm.Normal("latent", pm.Normal("a", 10, 10) + pm.Data("x", X), 0.1)
        pm.Normal("y", latent, pm.HalfNormal("s", 10), observed=Y)
    with pytest.raises(ValueError, match="y depends on 'latent', which is not observed"):
        pma.Learner(model, "parameters", pool={"x": POOL}, observed="latent")


@pytest.mark.parametrize("is_data", [False, True])
def test_deterministics_of_the_first_outcomes_leave_when_rows_come(is_data):
    with pm.Model() as model:
        mu = pm.Normal("a", 0, 1) * pm.Data("x", X)
        outcome = pm.Data("outcome", Y) if is_data else Y
        pm.Deterministic("residual", outcome - mu)
        pm.Deterministic("mu", mu)
        pm.Normal("y", mu, 0.5, observed=outcome)
    learner = pma.Learner(model, "parameters", pool={"x": POOL}, random_seed=1)
    assert set(learner.to_datatree()["posterior"].data_vars) == {"a", "residual", "mu"}
    learner.tell(learner.ask(), 1.0)
    after = learner.to_datatree()["posterior"]
    assert set(after.data_vars) == {"a", "mu"}
    assert after["mu"].shape[-1] == 5
