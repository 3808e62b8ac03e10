"""BALD for any PyMC model from draws of its parameters."""

import numpy as np
import pandas as pd
import pymc as pm
import pytensor
import pytensor.tensor as pt
import pytest
import xarray as xr
from arviz_base import from_dict
from numpy.testing import assert_allclose, assert_array_equal
from pytensor.compile.ops import wrap_py
from scipy import integrate, stats
from traces import mutual_information

from pymc_active.active import bald_from_trace

CHAINS = 4


def trace_of(**values):
    """A trace from independent draws, first axis over all chains."""
    return from_dict({"posterior": {k: v.reshape(CHAINS, -1, *v.shape[1:]) for k, v in values.items()}})


def regression(X, y, sigma=0.5):
    """Conjugate regression with known noise, and the exact posterior of its coefficients."""
    with pm.Model(coords={"obs": range(len(y)), "input": ["a", "b"]}) as model:
        data = pm.Data("X", X, dims=("obs", "input"))
        coefficients = pm.Normal("coefficients", 0, 1, dims="input")
        mu = pm.Deterministic("mu", data @ coefficients, dims="obs")
        pm.Normal("y", mu, sigma, observed=pm.Data("y_data", y, dims="obs"), dims="obs")
    precision = np.eye(2) + X.T @ X / sigma**2
    mean = np.linalg.solve(precision, X.T @ y / sigma**2)
    return model, mean, np.linalg.inv(precision)


@pytest.fixture(scope="module")
def linear():
    rng = np.random.default_rng(11)
    X = rng.normal(size=(5, 2))
    model, mean, covariance = regression(X, rng.normal(size=5))
    draws = rng.multivariate_normal(mean, covariance, size=2000)
    return model, trace_of(coefficients=draws), covariance


@pytest.fixture(scope="module")
def pool():
    return np.random.default_rng(12).normal(size=(40, 2)) * 3


def test_information_of_a_conjugate_regression(linear, pool):
    model, trace, covariance = linear
    score = bald_from_trace(trace, model, pool, draws=2000)
    exact = 0.5 * np.log1p(np.einsum("mi,ij,mj->m", pool, covariance, pool) / 0.25)
    assert (np.abs(score - exact) < 4 * score.standard_error + 0.02).all()
    assert float(score.standard_error.max()) < 0.05
    assert score.attrs == {"units": "nats", "draws": 2000, "outcome": "Normal"}


def test_no_candidate_tells_more_than_which_draw_it_is():
    with pm.Model() as model:
        x = pm.Data("x", np.zeros(3))
        pm.Normal("y", pm.Normal("slope") * x, 1.0, observed=np.zeros(3))
    trace = trace_of(slope=np.random.default_rng(0).normal(size=200))
    with pytest.warns(UserWarning, match=r"near log\(200\)"):
        score = bald_from_trace(trace, model, [1e4, 1e8, 1e12])
    assert_allclose(score[1:], np.log(200), rtol=1e-3)
    assert float(score.max()) <= np.log(200) + 1e-9


def test_columns_and_groups_are_taken_by_name():
    coords = {"factor": ["u", "v"], "group": ["a", "b"]}
    with pm.Model(coords=coords) as model:
        x, g = pm.Data("x", np.zeros((3, 2)), dims=("row", "factor")), pm.Data("g", np.array([0, 1, 1]))
        level = pm.Normal("level", dims="group")
        pm.Normal("y", x @ pm.Normal("slope", dims="factor") + level[g], 1.0, observed=np.zeros(3))
    rng = np.random.default_rng(1)
    slope, levels = rng.normal(size=(400, 2)) * [0.1, 3], rng.normal(size=(400, 2)) * [0.1, 3]
    named = {"slope": ["factor"], "level": ["group"]}
    shaped = {"slope": slope.reshape(CHAINS, -1, 2), "level": levels.reshape(CHAINS, -1, 2)}
    trace = from_dict({"posterior": shaped}, coords=coords, dims=named)
    frame = pd.DataFrame([[1.0, 0.0], [0.0, 1.0]], columns=["u", "v"])

    def scores(frame, trace=trace, groups=(0, 0)):
        return bald_from_trace(trace, model, {"x": frame, "g": np.array(groups)})

    expected = scores(frame.to_numpy())
    assert float(expected[1]) > float(expected[0]) + 0.5
    xr.testing.assert_allclose(scores(frame[["v", "u"]]), expected)
    with pytest.raises(ValueError, match="w"):
        scores(frame.rename(columns={"v": "w"}))
    turned = {"slope": shaped["slope"], "level": shaped["level"][..., ::-1]}
    other = from_dict({"posterior": turned}, coords={**coords, "group": ["b", "a"]}, dims=named)
    by_group = [scores(frame.to_numpy(), one, (0, 1)) for one in (trace, other)]
    xr.testing.assert_allclose(*by_group)


def test_draws_are_taken_evenly_from_every_chain(linear, pool):
    model, trace, _ = linear
    score = bald_from_trace(trace, model, pool, draws=40)
    rows = ((np.arange(10) + 0.5) / 10 * 500).astype(int)
    same = trace.posterior.to_dataset().isel(draw=rows)
    xr.testing.assert_allclose(score, bald_from_trace(xr.DataTree.from_dict({"posterior": same}), model, pool))


def test_draws_can_be_taken_at_random(linear, pool):
    model, trace, _ = linear
    one, same, other = (bald_from_trace(trace, model, pool, draws=200, random_seed=seed) for seed in (1, 1, 2))
    xr.testing.assert_identical(one, same)
    difference = (one - other) / np.hypot(one.standard_error, other.standard_error)
    assert 0.01 < np.sqrt(np.mean(difference.to_numpy() ** 2)) < 4


def test_model_is_left_as_it_was(linear, pool):
    model, trace, _ = linear
    before = model["X"].get_value().copy(), {name: tuple(values) for name, values in model.coords.items()}
    point = model.initial_point()
    logp = model.compile_logp(mode="FAST_COMPILE")
    value = logp(point)
    bald_from_trace(trace, model, pool)
    assert_array_equal(model["X"].get_value(), before[0])
    assert {name: tuple(values) for name, values in model.coords.items()} == before[1]
    assert logp(point) == value


def test_order_of_candidates_and_labels_go_along(linear, pool):
    model, trace, _ = linear
    table = pd.DataFrame(pool, columns=["a", "b"], index=[f"c{i}" for i in range(len(pool))])
    score = bald_from_trace(trace, model, table)
    order = np.random.default_rng(1).permutation(len(pool))
    shuffled = bald_from_trace(trace, model, table.iloc[order])
    assert_array_equal(shuffled.point, table.index[order])
    xr.testing.assert_allclose(shuffled.sortby("point"), score.sortby("point"))


def test_lazy_pools_are_scored_block_by_block(linear, pool):
    dask_array = pytest.importorskip("dask.array")
    model, trace, _ = linear
    # Many blocks: they are scored in several threads at once.
    many = np.tile(pool, (5, 1))
    lazy = bald_from_trace(trace, model, dask_array.from_array(many, chunks=(8, 1)), draws=100)
    assert lazy.chunks == ((8,) * 25,)
    now = bald_from_trace(trace, model, many, draws=100)
    assert_allclose(lazy.compute(), now, rtol=1e-12)
    assert_allclose(lazy.standard_error.compute(), now.standard_error, rtol=1e-12)


def test_prior_draws_design_the_first_experiment():
    rng = np.random.default_rng(13)
    model, *_ = regression(np.empty((0, 2)), np.empty(0))
    prior = trace_of(coefficients=rng.normal(size=(800, 2)))
    tree = xr.DataTree.from_dict({"prior": prior.posterior.to_dataset()})
    score = bald_from_trace(tree, model, np.array([[0.0, 0], [1, 1]]), group="prior", draws=800)
    assert score[0] < 1e-12
    assert abs(float(score[1]) - 0.5 * np.log1p(2 / 0.25)) < 4 * score.standard_error[1]


def test_two_values_of_a_probability_by_hand():
    """A coin with a chance of 0.2 or 0.8, as likely, at input 1; a fair one at input 0."""
    with pm.Model() as model:
        x = pm.Data("x", np.zeros(3))
        logit = pm.Normal("logit")
        pm.Bernoulli("y", logit_p=logit * x, observed=[0, 1, 1])
    trace = trace_of(logit=np.log(4) * np.array([1.0, -1] * 10))
    score = bald_from_trace(trace, model, [0.0, 1.0])
    assert_allclose(score, [0, np.log(2) + 0.2 * np.log(0.2) + 0.8 * np.log(0.8)], atol=1e-12)


def test_poisson_with_a_gamma_rate_by_quadrature():
    """The predictive is negative binomial; the rate's draws are 400 quantiles of its prior."""
    rate = stats.gamma(3, scale=2)
    with pm.Model() as model:
        time = pm.Data("time", np.ones(2))
        pm.Poisson("count", pm.Gamma("rate", 3, 0.5) * time, observed=[1, 2])
    quantiles = rate.ppf((np.arange(400) + 0.5) / 400)
    score = bald_from_trace(trace_of(rate=quantiles), model, [0.0, 1.0, 4.0])
    expected = [0.0]
    for exposure in (1.0, 4.0):
        predictive = stats.nbinom(3, 1 / (1 + 2 * exposure))
        conditional, _ = integrate.quad(lambda r, t=exposure: rate.pdf(r) * stats.poisson(r * t).entropy(), 0, 60)
        expected.append(float(predictive.entropy()) - conditional)
    # Quantiles cut the tails a little.
    assert_allclose(score, expected, atol=3e-3)


def test_trials_may_differ_by_candidate():
    rng = np.random.default_rng(15)
    p = rng.beta(2, 2, size=80)
    with pm.Model() as model:
        n = pm.Data("n", np.array([3, 4]))
        pm.Binomial("y", n=n, p=pm.Beta("p", 2, 2), observed=[1, 2])
    score = bald_from_trace(trace_of(p=p), model, np.array([1, 10, 100]))
    for value, k in zip(score.to_numpy(), (1, 10, 100), strict=True):
        each = stats.binom(k, p[:, None]).pmf(np.arange(k + 1))
        expected = stats.entropy(each.mean(0)) - stats.entropy(each, axis=1).mean()
        # Of more values than draws some are drawn, not all added up.
        assert_allclose(value, expected, atol=1e-9 if k < 40 else 0.15)
    assert np.all(np.diff(score) > 0.1)
    with pytest.raises(ValueError, match="must be whole"):
        bald_from_trace(trace_of(p=p), model, [1.5])


@pytest.fixture(scope="module")
def groups():
    """Varying intercepts by group, and an exposure: three pm.Data of the observations, and one that is not."""
    with pm.Model(coords={"group": ["a", "b", "c"]}) as model:
        x, group = pm.Data("x", np.zeros(4)), pm.Data("index", np.array([0, 1, 2, 2]))
        unit = pm.Data("unit", 2.0)
        mu = pm.Normal("mu")
        intercept = pm.Normal("intercept", mu, 1, dims="group")
        pm.Normal("y", unit * intercept[group] + pm.Normal("slope") * x, 1.0, observed=np.zeros(4))
        pm.Normal("other", mu, 1, observed=np.zeros(4))
    rng = np.random.default_rng(17)
    intercepts = rng.normal(size=(200, 3)) * [0.1, 1, 3]
    return model, trace_of(intercept=intercepts, slope=rng.normal(size=200), mu=rng.normal(size=200)), intercepts


def test_groups_and_inputs_come_as_a_dict(groups):
    model, trace, intercepts = groups
    frame = pd.Series([0.0, 0.0, 0.0], index=["p", "q", "r"])
    score = bald_from_trace(trace, model, {"x": frame, "index": [0, 1, 2]}, observed="y")
    assert_array_equal(score.point, ["p", "q", "r"])
    assert_allclose(score, mutual_information(2 * intercepts, np.ones((200, 3))), atol=0.15)


def test_hierarchical_parents_are_not_needed(groups):
    """The outcome depends on them through the group's intercept only."""
    model, trace, _ = groups
    less = xr.DataTree.from_dict({"posterior": trace.posterior.to_dataset().drop_vars("mu")})
    candidates = {"x": [1.0], "index": [2]}
    one, other = (bald_from_trace(t, model, candidates, observed="y") for t in (trace, less))
    xr.testing.assert_allclose(one, other)


def test_loops_over_time_are_evaluated_for_all_draws():
    """A decay by three Euler steps in a scan."""
    with pm.Model() as model:
        dose = pm.Data("dose", np.ones(2))
        rate = pm.Beta("rate", 2, 2)
        path = pytensor.scan(
            lambda a, r: a * (1 - r), outputs_info=[dose], non_sequences=[rate], n_steps=3, return_updates=False
        )
        pm.Normal("y", path[-1], 0.1, observed=np.zeros(2))
    check_decay(model)


def test_functions_that_pytensor_cannot_see_into_will_do():
    """As somebody's solver of differential equations is."""

    @wrap_py(itypes=[pt.dvector, pt.dscalar], otypes=[pt.dvector])
    def solve(dose, rate):
        assert dose.ndim == 1
        return dose * (1 - rate) ** 3

    with pm.Model() as model:
        dose = pm.Data("dose", np.ones(2))
        pm.Normal("y", solve(dose, pm.Beta("rate", 2, 2)), 0.1, observed=np.zeros(2))
    check_decay(model)


def check_decay(model):
    draws = np.random.default_rng(18).beta(2, 2, size=40)
    score = bald_from_trace(trace_of(rate=draws), model, [0.0, 1.0, 3.0])
    mu = (1 - draws[:, None]) ** 3 * np.array([0.0, 1.0, 3.0])
    assert_allclose(score, mutual_information(mu, np.full(mu.shape, 0.01)), atol=0.25)


# Bad input.


def test_latent_gp_is_refused():
    with pm.Model() as model:
        gp = pm.gp.Latent(cov_func=pm.gp.cov.ExpQuad(1, ls=1.0))
        f = gp.prior("f", X=pm.Data("X", np.linspace(0, 1, 3)[:, None]))
        pm.Bernoulli("y", logit_p=f, observed=[0, 1, 1])
    rotated = model.free_RVs[0].name
    with pytest.raises(ValueError, match=r"pm\.gp\.HSGP in place of one latent value"):
        bald_from_trace(trace_of(**{rotated: np.ones((20, 3))}), model, [[1.0]])


@pytest.mark.parametrize(
    ("change", "error", "message"),
    [
        ({"observed": None}, ValueError, "name the one to measure"),
        ({"observed": "z"}, ValueError, "one of y, other"),
        ({"X_pool": [1.0]}, ValueError, "shape"),
        ({"X_pool": {"z": [1.0]}}, ValueError, "missing: x, index; unknown: z"),
        ({"X_pool": {"x": [1.0, 2.0], "index": [0]}}, ValueError, "same length"),
        ({"X_pool": {"x": [1.0], "index": [7]}}, ValueError, "index = 7 is a level that the model does not have"),
        ({"X_pool": {"x": [np.nan], "index": [0]}}, ValueError, "must be finite"),
        ({"X_pool": {"x": ["a"], "index": [0]}}, TypeError, "must hold numbers"),
        ({"X_pool": {"x": [1.0]}}, ValueError, "missing: index"),
        ({"model": "model"}, TypeError, "must be the pm.Model"),
        ({"trace": xr.Dataset()}, TypeError, "DataTree"),
        ({"group": "prior"}, ValueError, "no group 'prior'"),
        ({"trace": trace_of(slope=np.ones(20))}, ValueError, "depends on intercept"),
        ({"draws": 1}, ValueError, "whole number from 2"),
    ],
)
def test_bad_input_is_refused(groups, change, error, message):
    model, trace, _ = groups
    good = {"trace": trace, "model": model, "X_pool": {"x": [1.0], "index": [0]}, "observed": "y"}
    with pytest.raises(error, match=message):
        bald_from_trace(**good | change)
