"""What the user reads when something is wrong, and what looks wrong but works."""

import re
from functools import partial

import numpy as np
import pandas as pd
import pymc as pm
import pytest
import xarray as xr
from advised import said
from numpy.testing import assert_allclose, assert_array_equal

import pymc_active as pma
from pymc_active import active, search
from pymc_active.models.advice import advise_on
from pymc_active.posterior.base import NoFiniteStartError
from pymc_active.posterior.factor import NotPositiveDefiniteError

rng = np.random.default_rng(1)
X = rng.uniform(-1, 1, size=(8, 2))
y = np.sin(3 * X[:, 0]) + 0.1 * rng.normal(size=8)

BUILDERS = {
    "ard": pma.ard_gp,
    "embedding": lambda X, y, **keywords: pma.embedding_gp(X, y, n_components=1, **keywords),
    "composite": lambda X, y, **keywords: pma.composite_gp(X, y, "SE", **keywords),
}


@pytest.fixture(params=list(BUILDERS))
def build(request):
    return BUILDERS[request.param]


def with_entry(array, index, value):
    changed = np.array(array, float)
    changed[index] = value
    return changed


# What users are most likely to get wrong.

GPM = pma.ard_gp(X, y)
POINT = {"log_lengthscale": [0.0, 0.0], "log_outputscale": 0.0, "log_noise": -1.0}
TWICE = xr.DataArray(X, dims=("run", "input"), coords={"input": ["a", "a"]})
FRAME = pd.DataFrame(X, columns=["time", "heat"])
QUICK = {"n_restarts": 1, "population": 0, "random_seed": 1, "progressbar": False}
FIT = pma.fit_laplace(GPM, **QUICK)
EMBEDDING = partial(pma.embedding_gp, X, y)
POOL = X + 0.1
CONSTANT = r"they are \(30, 30\)\. An input that never changes tells nothing: leave it out of X and of bounds"
BOX = [(-1, 1), (-1, 1)]
THREE = pm.Normal.dist(0, 1, shape=3)


def fit(gpm):
    return pma.fit_laplace(gpm, **QUICK | {"n_restarts": 2})


def learner(**keywords):
    return pma.Learner(GPM, "maximum", **{"pool": POOL, "random_seed": 1} | keywords)


MISTAKES = [
    # Data.
    (lambda: pma.ard_gp(with_entry(X, (2, 1), np.nan), y), ValueError, "X must be finite: 1 .* row 2, column 1"),
    (lambda: pma.ard_gp(X, with_entry(y, 0, -np.inf)), ValueError, "y must be finite: 1 .* first at position 0"),
    (lambda: pma.ard_gp(X, y[:-1]), ValueError, r"8 row\(s\) of X and 7 value\(s\) of y"),
    (lambda: pma.ard_gp(X[None], y), ValueError, r"got shape \(1, 8, 2\)"),
    (lambda: pma.ard_gp(X, y[:, None]), ValueError, r"y must be a vector .* got shape \(8, 1\): write y\[:, 0\]"),
    (lambda: pma.ard_gp(X, np.column_stack([y, y])), ValueError, "make a model, and a learner, for each output"),
    (lambda: pma.ard_gp(np.empty((0, 2)), np.empty(0)), ValueError, "X is empty: .* at least one row"),
    (lambda: pma.ard_gp(np.empty((8, 0)), y), ValueError, "X is empty: .* and one column"),
    (lambda: pma.ard_gp(X, ["a"] * 8), TypeError, "y must hold numbers"),
    (lambda: pma.ard_gp(X, y + 1j), TypeError, "y must hold numbers, .* complex"),
    (lambda: pma.ard_gp(np.ma.masked_array(X, np.eye(8, 2)), y), ValueError, "X must be finite: 2 .* row 0, column 0"),
    (
        lambda: pma.ard_gp(FRAME.convert_dtypes().replace(X[2, 1], pd.NA), y),
        ValueError,
        "X must be finite: 1 .* row 2, column heat",
    ),
    (lambda: pma.ard_gp([[1.0, 2.0], [3.0]], [1.0, 2.0]), TypeError, "X must hold numbers"),
    (lambda: pma.ard_gp(FRAME.assign(operator="Ann"), y), TypeError, r"'Ann' \(see operator: for labels pass space="),
    (lambda: pma.ard_gp(FRAME.assign(dose="0,1"), y), TypeError, r"\(see dose: strip units, .*decimal=','\)"),
    (lambda: pma.ard_gp(FRAME.assign(dose="10 mM"), y), TypeError, r"'10 mM' \(see dose: strip units, "),
    (lambda: pma.ard_gp(np.full((2, 1), 1e300), [1.0, 2.0]), ValueError, r"2 value\(s\) are beyond 1e\+150"),
    (lambda: pma.ard_gp([[10**400]], [1.0]), TypeError, "X must hold numbers, .* too large"),
    (lambda: pma.ard_gp(FRAME.set_axis(["dose"] * 2, axis=1), y), ValueError, "must be unique; these repeat: dose"),
    (lambda: pma.ard_gp(TWICE, y), ValueError, "these repeat: a"),
    (lambda: learner().tell(np.ma.masked_equal(X[:2], X[1, 0]), [1, 2]), ValueError, "x must be finite: 1 value"),
    (lambda: pma.ard_gp(FRAME, y, bounds=[(-1, 1), (30, 30)]), ValueError, f"heat {CONSTANT}"),
    (lambda: pma.ard_gp(FRAME, y, bounds={"time": (-1, 1), "heat": (30, 30)}), ValueError, f"heat {CONSTANT}"),
    (lambda: pma.ard_gp(X, y, bounds=[(-1, 1), (3, 2)]), ValueError, r"for input 1 they are \(3, 2\)$"),
    (lambda: active.latin_hypercube([(0, 10**400)], 3), ValueError, "bounds must be a list of finite pairs"),
    # Options of the models.
    (lambda: pma.ard_gp(X, y, kernel="RBF"), ValueError, "'RBF'; the known ones are ExpQuad, Matern12, Matern32, Mat"),
    (lambda: pma.ard_gp(X, y, mean="quadratic"), ValueError, "mean must be one of constant, linear, zero or a pm"),
    (lambda: pma.composite_gp(X, y, 3), TypeError, "a kernel expression is a string such as 'LIN"),
    (lambda: EMBEDDING(n_components=3), ValueError, "n_components must be a positive whole number from 1 to 2; got 3"),
    (lambda: EMBEDDING(n_components=1, prior_scale=-1.0), ValueError, "prior_scale must be positive"),
    (lambda: EMBEDDING(n_components=1, prior_scale=[1, 2, 3]), ValueError, "prior_scale must be positive"),
    (lambda: EMBEDDING(n_components=1, prior_scale=0.5, priors={"R": np.ones((1, 2))}), ValueError, "one of the two"),
    (lambda: pma.ard_gp(X, y, x_scale="log"), ValueError, "x_scale must be None, one of box, standardize, unit, or"),
    (lambda: pma.ard_gp(X, y, x_scale=(0.0, [1.0, -1.0])), ValueError, "needs finite shifts and positive scales"),
    (lambda: pma.ard_gp(X, y, x_scale=(0.0, [1.0, 2.0, 3.0])), ValueError, r"must be \(shift, scale\), numbers or arr"),
    (lambda: pma.ard_gp(X, y, x_scale=3.0), ValueError, r"x_scale as a pair must be \(shift, scale\)"),
    # A positive scale, so that a box could pass for a shift and a scale.
    (lambda: pma.ard_gp(X, y, x_scale=[(1.0, 10.0), (2.0, 5.0)]), ValueError, r"Write \(low, high - low\)"),
    (lambda: pma.ard_gp(X, y, y_scale=([0.0, 1.0], 1.0)), ValueError, r"y_scale as a pair must be \(shift, scale\)"),
    (lambda: pma.ard_gp(X, y, priors={"lengthscale": 1.0}), ValueError, "unknown parameters: lengthscale; this model"),
    (lambda: pma.ard_gp(X, y, priors={"log_noise": "small"}), TypeError, r"priors\['log_noise'\] must be a distr"),
    (lambda: pma.ard_gp(X, y, priors={"log_noise": np.nan}), ValueError, "the fixed value of log_noise must be finite"),
    (lambda: pma.ard_gp(X, y, priors={"log_lengthscale": np.zeros(3)}), ValueError, r"finite with shape \(2,\)"),
    (lambda: pma.ard_gp(X, y, priors={"log_lengthscale": THREE}), ValueError, r"scalar or of shape \(2,\); got \(3,\)"),
    (lambda: pma.ard_gp(X, y, priors={"log_noise": pm.Poisson.dist(2)}), ValueError, "prior of log_noise is discrete"),
    # Fits and predictions.
    (lambda: pma.fit(), TypeError, r"fit\(\) missing 1 required positional argument: 'model'"),
    (lambda: pma.fit(FIT), TypeError, "fit takes a pm.Model or a GPModel .* got LaplaceFit"),
    (lambda: pma.fit(GPM, method="mcmc"), ValueError, "method must be one of .* got 'mcmc'"),
    (lambda: pma.fit(GPM, executor=4), TypeError, "executor must be a concurrent.futures.Executor; got int"),
    (lambda: pma.fit_laplace(GPM, optimize="no", point=POINT), TypeError, "optimize must be True or False; got 'no'"),
    (lambda: pma.fit_laplace(GPM, optimize=False), ValueError, r"optimize=False expands at a given point: pass point="),
    (lambda: pma.fit_laplace(GPM, n_restarts=0, population=0), ValueError, "nothing to search from"),
    (lambda: pma.graphs.hessian(FIT), TypeError, "graphs takes a GPModel .* got LaplaceFit"),
    (lambda: pma.sample(None), TypeError, "sample takes a GPModel"),
    (lambda: pma.predict(GPM, X), TypeError, r"got GPModel: fit it first, pma.fit\(gpm\)"),
    (lambda: pma.predict(FIT, X[:, :1]), ValueError, "X_new must have 2 columns"),
    (lambda: pma.predict(FIT, X, method="nuts"), ValueError, "one of map, bbq, mgp, modes, draws; got 'nuts'"),
    (lambda: pma.predict(FIT, [[0.0, np.nan]]), ValueError, "first at row 0, column 1"),
    # Criteria and learners.
    (lambda: active.bald(GPM, X), TypeError, "got GPModel: fit it first"),
    (lambda: active.expected_improvement(FIT, X, minimize="no"), TypeError, "minimize must be True or False; got 'no'"),
    (lambda: learner(bounds=BOX), ValueError, "a learner chooses from a pool, a box, or a space"),
    (lambda: pma.Learner(GPM, "minimum", pool=X), ValueError, "for the minimum pass learn='maximum', minimize=True"),
    (lambda: learner().tell(X[:1], y[:2]), ValueError, r"1 row\(s\) of X and 2 value\(s\) of y"),
    (lambda: learner().run(3, 2), TypeError, "oracle must be a function of a point"),
    (lambda: learner().stop(-1.0), ValueError, "epsilon must be at least 0 and delta between 0 and 1; got -1"),
    # Searches.
    (lambda: active.hds(3.0, 2), TypeError, "f must be callable"),
    (lambda: search.compositional_kernel_search(X, y, bases="SE"), TypeError, r"bases must be a sequence such as"),
]


@pytest.mark.parametrize(("call", "error", "words"), MISTAKES)
def test_a_mistake_is_refused_in_words(call, error, words):
    with pytest.raises(error, match=words):
        call()


def test_a_refused_answer_changes_nothing():
    run = learner(random_seed=2)
    asked = run.ask()
    with pytest.raises(ValueError, match="y must be finite"):
        run.tell(asked, np.inf)
    assert len(run.y) == len(y)
    assert_array_equal(run.pending, asked)


DAYS = pd.date_range("2026-01-01", periods=8)
DATES = {
    "Series": pd.Series(DAYS),
    "DatetimeIndex": DAYS,
    "with a time zone": DAYS.tz_localize("UTC"),
    "NumPy": DAYS.to_numpy(),
    "PeriodIndex": DAYS.to_period("D"),
    "Series of periods": pd.Series(DAYS.to_period("D")),
    "DataArray": xr.DataArray(DAYS, dims="run"),
    "column": pd.DataFrame({"day": DAYS, "dose": 1.0}),
    "column of periods": pd.DataFrame({"day": DAYS.to_period("D"), "dose": 1.0}),
}
DAY = np.datetime64("2026-01-01")


@pytest.mark.parametrize(
    "X",
    [
        np.array([[DAY], [DAY]], dtype=object),
        [[np.timedelta64(3, "s")], [np.timedelta64(4, "s")]],
        pd.DataFrame({"day": pd.Categorical(np.array([DAY, DAY]))}),
        pd.DataFrame({"day": pd.Series([pd.Timestamp(DAY), pd.Timestamp("2026-01-02")], dtype=object)}),
    ],
)
def test_dates_within_objects_are_no_numbers(X):
    with pytest.raises(TypeError, match="dates are not numbers; write"):
        pma.ard_gp(X, [1.0, 2.0])


@pytest.mark.parametrize("dates", DATES.values(), ids=DATES)
def test_advice_on_dates_works_as_it_is_written(dates):
    with pytest.raises(TypeError, match="dates are not numbers") as error:
        pma.ard_gp(dates, y)
    names = {"pd": pd, "np": np, "date": dates, "frame": dates}
    before, days = re.fullmatch(r".*; write (?:(.*), then )?e\.g\. days, (.*)", str(error.value)).groups()
    exec(before or "", names)
    exec(days, names)
    gpm = pma.ard_gp(names["frame" if isinstance(dates, pd.DataFrame) else "date"], y)
    assert_array_equal(gpm.X[:, 0], np.arange(8))


def test_the_users_data_are_not_changed(build):
    mine = X.copy(), y.copy()
    fit(build(*mine, x_scale="box", y_scale="standardize"))
    for own, before in zip(mine, (X, y), strict=True):
        assert_array_equal(own, before)


def test_data_that_the_model_computes_cannot_be_replaced():
    with pm.Model() as model:
        column = pm.Data("column", X[:, 0])[:, None]
        gp = pm.gp.Marginal(cov_func=pm.gp.cov.ExpQuad(1, ls=pm.LogNormal("ls", 0, 1)))
        gp.marginal_likelihood("y", X=column, y=y, sigma=0.1)
    with pytest.raises(ValueError, match="X is computed from other data here"):
        pma.from_marginal(gp, "y", model=model).set_data(X[:, :1], y)


def test_a_scalar_prior_is_shared_by_the_entries():
    gpm = pma.ard_gp(X, y, priors={"log_lengthscale": pm.Normal.dist(0.5, 2.0)})
    assert gpm.shapes["log_lengthscale"] == (2,)
    center, sd = gpm.posterior().prior_scale()
    assert_array_equal(center[:2], 0.5)
    assert_array_equal(sd[:2], 2.0)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"log_noise": None}, r"needs the value variables .* got \['log_lengthscale', 'log_outputsc"),
        ({"nose": 1.0}, "needs the value variables"),
        ({"log_lengthscale": 0.0}, r"point\['log_lengthscale'\] must be finite with"),
        ({"log_noise": np.nan}, r"point\['log_noise'\] must be finite with shape \(\)"),
    ],
)
def test_malformed_points_are_refused(change, message):
    point = {name: value for name, value in (POINT | change).items() if value is not None}
    for keywords in ({"point": point, "optimize": False}, {"point": point}, {"start": [point]}):
        with pytest.raises(ValueError, match=message):
            pma.fit_laplace(GPM, progressbar=False, **keywords)


def test_too_many_parameters_for_a_dense_hessian_are_refused():
    """A linear mean has a slope for each input, so the row space of the data does not suffice."""
    wide = np.random.default_rng(2).uniform(-1, 1, size=(20, 2600))
    gpm = pma.embedding_gp(wide, np.sin(wide[:, 0]), n_components=1, mean="linear")
    point = {name: np.zeros(shape) for name, shape in gpm.shapes.items()}
    with pytest.raises(ValueError, match="dense matrices are limited to 5000 parameters; got 5204"):
        pma.fit_laplace(gpm, point=point, optimize=False)


def test_one_observation_is_enough(build):
    """It moves the function where it is, and says no more elsewhere than there."""
    result = fit(build([[0.3, -0.2]], [1.7]))
    assert np.isfinite(result.log_evidence)
    prediction = pma.predict(result, [[0.3, -0.2], [10.0, 10.0]])
    assert abs(prediction.f_mean[0] - 1.7) < 1.0
    here, far = prediction.f_variance.to_numpy()
    # For an embedding R = 0 is the mode then, and the function a constant.
    assert here <= far * (1 + 1e-6)
    assert np.isfinite(active.bald(result, [[0.3, -0.2], [2.0, 2.0]])).all()


DIFFERENT = "needs at least two different values of y"


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ((X[None], y), r"\bX\b"),
        ((X, y[:-1]), r"\by\b"),
        ((X, ["a"] * 8), r"\by\b"),
        (([[0.3, -0.2]], [1.7], "standardize"), DIFFERENT),
        *(((X, np.full(8, 2.0), s), f"y_scale='{s}' {DIFFERENT}; .* 2.0") for s in ("unit", "box", "standardize")),
    ],
)
def test_every_builder_reads_its_data(build, given, words):
    with pytest.raises((TypeError, ValueError), match=words):
        build(*given[:2], y_scale=given[2] if len(given) > 2 else None)


def test_constant_outputs_and_columns_are_data():
    prediction = pma.predict(fit(pma.ard_gp(X, np.full(8, 2.0), mean="constant")), [[0.0, 0.0]])
    assert_allclose(prediction.f_mean, 2.0, atol=0.1)
    result = fit(pma.ard_gp(np.column_stack([X[:, 0], np.ones(8)]), y, x_scale="standardize"))
    # The data say nothing about its lengthscale: the posterior is the prior.
    index = result.labels.index("log_lengthscale[1]")
    assert_allclose(result.theta[index], 0.5 * np.log(2), atol=1e-6)
    assert_allclose(result.covariance[index, index], 1.0, rtol=1e-6)


def test_repeated_rows_with_different_outputs_are_noise():
    """Five replicates: the noise is learned from them, whose sd is 0.3."""
    inputs = np.repeat(np.linspace(-1, 1, 6), 5)[:, None]
    noise = 0.3 * np.random.default_rng(3).normal(size=30)
    result = fit(pma.ard_gp(inputs, np.sin(2 * inputs[:, 0]) + noise))
    assert result.diagnostics["n_duplicate_rows"] == 24
    # 24 degrees of freedom give the log sd a standard error of 0.14.
    assert abs(result.point["log_noise"] - np.log(0.3)) < 0.5


def test_lists_integers_and_numbers_of_other_packages_are_data(build):
    """Whole numbers and flags of NumPy, scalars of xarray, and whole numbers where any number will do."""
    gpm = build([[0, 1], [1, 0], [1, 1]], [0, 1, 2])
    assert gpm.X.dtype == gpm.y.dtype == np.float64
    design = active.latin_hypercube([(0, 1)], np.int64(3), random_seed=np.uint8(1))
    assert_array_equal(design, active.latin_hypercube([(0, 1)], 3, random_seed=1))
    found = active.hds(lambda x: x[1], np.int64(3), vectorized=np.False_, budget=np.int64(400), random_seed=1)
    assert found.active == [1]
    for error in (pma.hds.EvaluationError, NotPositiveDefiniteError, NoFiniteStartError):
        assert issubclass(error, pma.ActiveError)


def years(n=12):
    return np.linspace(1990, 2001, n)[:, None]


OWN = {"log_lengthscale": pm.Normal.dist(1, 1), "log_outputscale": pm.Normal.dist(0, 1), "log_noise": -2.0}


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: pma.ard_gp(years(), np.sin(years()[:, 0])), r"or x_scale='box' \(X reaches 2e\+03\)"),
        (lambda: pma.ard_gp(X, 1e4 * y), r"or y_scale='standardize' \(y reaches"),
        (
            lambda: pma.composite_gp(years(), y.mean() + years()[:, 0], "SE"),
            r"or x_scale='unit' \(X reaches 2e\+03\) and y_scale='standardize' \(y",
        ),
        (lambda: pma.embedding_gp(1e-4 * X, y, n_components=1), "x_scale='box'"),
    ],
    ids=["years", "large outputs", "both", "small inputs"],
)
def test_units_that_the_priors_do_not_mean_are_warned_of_once(make, message):
    gpm = make()
    assert said(gpm, message)
    with pytest.warns(pma.DataWarning, match=message) as caught:
        pma.fit(gpm, n_particles=32, method="laplace", random_seed=0, progressbar=False)
    # It points at the user's line.
    assert caught[0].filename == __file__


@pytest.mark.parametrize(
    "make",
    [
        lambda: pma.ard_gp(years(), np.sin(years()[:, 0]), x_scale="box"),
        lambda: pma.ard_gp(1e4 * X, 1e4 * y, x_scale="unit", y_scale="standardize"),
        lambda: pma.ard_gp(X, y),
        lambda: pma.ard_gp(years(), np.sin(years()[:, 0]), priors=OWN),
        lambda: pma.ard_gp(years(2), [1.0, 2.0]),
    ],
    ids=["years in the box", "scaled", "unit scale", "own priors", "two points"],
)
def test_units_that_are_meant_are_not_warned_of(make):
    assert not advise_on(make())


def test_models_without_a_marginal_gp_have_another_way():
    with pm.Model() as model:
        slope = pm.Normal("slope")
        pm.LogNormal("y", slope * pm.Data("x", X[:, 0]), 1.0, observed=np.exp(y))
    for use in (
        lambda: pma.fit_laplace(model),
        lambda: pma.predict(model, X),
        lambda: pma.from_marginal(pm.gp.Latent(cov_func=pm.gp.cov.ExpQuad(1, 1.0)), "f", model=model),
    ):
        with pytest.raises(TypeError, match=r"pma\.fit\(model\)"):
            use()
    trace = xr.DataTree.from_dict({"posterior": xr.Dataset({"slope": (("chain", "draw"), np.ones((1, 4)))})})
    with pytest.raises(ValueError, match=r"it has \[\]: pass the whole trace"):
        pma.predict(trace["posterior"], X, model=pma.ard_gp(X, y))
