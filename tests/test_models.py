"""Builders and ``from_marginal``: what a model looks like, its data, its units, its covariance functions."""

from contextlib import contextmanager
from copy import deepcopy

import numpy as np
import pandas as pd
import pymc as pm
import pytensor.tensor as pt
import pytest
import xarray as xr
from nightly import nightly
from numpy.testing import assert_allclose, assert_array_equal
from pytensor.compile.maker import FunctionMaker
from users import GrowingNoise, users_gp

import pymc_active as pma

pytestmark = pytest.mark.slow


def data(n=10, D=2, seed=1):
    rng = np.random.default_rng(seed)
    X = rng.uniform(-1, 1, size=(n, D))
    return X, np.sin(3 * X[:, 0]) + 0.5 * X[:, -1] + 0.1 * rng.normal(size=n)


X, y = data()
FRAME = pd.DataFrame(X, columns=["temperature", "dose"], index=[f"run{i}" for i in range(len(X))])


def by_hand(X=X, y=y, *, sigma=None, shared=True, jitter=0, mean_func=None, wrap=lambda cov: cov):
    """A user's own model with transformed parameters."""
    with pm.Model() as model:
        lengthscale = pm.LogNormal("lengthscale", 0, 1)
        eta = pm.HalfNormal("eta", 1)
        cov = wrap(eta**2 * pm.gp.cov.Matern52(X.shape[1], ls=lengthscale))
        gp = pm.gp.Marginal(mean_func=mean_func or pm.gp.mean.Zero(), cov_func=cov)
        noise = pm.HalfNormal("noise", 0.5) if sigma is None else sigma()
        X_data, y_data = (pm.Data("X", X), pm.Data("y_data", y)) if shared else (X, y)
        gp.marginal_likelihood("y", X_data, y_data, sigma=noise, jitter=jitter)
    return pma.from_marginal(gp, "y", model=model)


def quick_fit(gpm):
    return pma.fit_laplace(gpm, n_restarts=2, population=0, random_seed=1, progressbar=False)


def at_zero(gpm):
    """The expansion where every unconstrained parameter is zero: a place that needs no search."""
    point = {name: np.zeros(shape) for name, shape in gpm.shapes.items()}
    return pma.fit_laplace(gpm, point=point, optimize=False)


def has_the_data(gpm, more):
    assert_array_equal(gpm.X, more[0])
    assert_array_equal(gpm.y, more[1])


def log_posterior(gpm):
    return gpm.posterior().value_and_gradient(np.zeros(gpm.n_parameters))


def assert_same_posterior(gpm, other):
    """The same operations on the same numbers."""
    (value, gradient), (expected, expected_gradient) = log_posterior(gpm), log_posterior(other)
    assert_allclose(value, expected, rtol=1e-14)
    assert_allclose(gradient, expected_gradient, rtol=1e-12)


@contextmanager
def compilations():
    """A list that grows by one with every PyTensor function that is made, by whatever way."""
    made = []
    create = FunctionMaker.__init__

    def counted(self, *arguments, **keywords):
        made.append(self)
        create(self, *arguments, **keywords)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(FunctionMaker, "__init__", counted)
        yield made


def use_everything(gpm, n):
    gpm.set_data(*data(n, seed=n))
    fit = quick_fit(gpm)
    pma.predict(fit, X)
    fit.to_datatree(draws=2, random_seed=1)
    pma.active.bald(fit, X)


@pytest.fixture(scope="module")
def used():
    """One model by hand for the whole module, and the number of compilations of its first use."""
    gpm = by_hand()
    with compilations() as made:
        use_everything(gpm, 9)
    return gpm, len(made)


@pytest.fixture
def hand(used):
    """The shared model, with its first data."""
    gpm, _ = used
    gpm.set_data(X, y)
    return gpm


def test_names_of_the_data_become_coordinates():
    gpm = pma.ard_gp(FRAME, y)
    dims = gpm.model.named_vars_to_dims
    assert gpm.inputs == ["temperature", "dose"]
    assert gpm.model.coords["input"] == ("temperature", "dose")
    assert (dims["X"], dims["y"]) == (("obs", "input"), ("obs",))
    assert dims["lengthscale"] == dims["log_lengthscale"] == ("input",)
    array = xr.DataArray(X, dims=("run", "channel"), coords={"channel": ["a", "b"]})
    of_array = pma.ard_gp(array, xr.DataArray(y, dims="run"))
    assert of_array.model.coords["input"] == ("a", "b")
    has_the_data(of_array, (X, y))
    embedding = pma.embedding_gp(FRAME, y, n_components=1)
    assert embedding.model.named_vars_to_dims["R"] == ("direction", "input")
    assert embedding.labels == ["R[0,0]", "R[0,1]", "log_lengthscale", "log_outputscale", "log_noise"]
    assert embedding.shapes["R"] == (1, 2)
    theta = np.arange(5.0)
    assert embedding.unflatten(theta)["R"][0, 1] == 1
    assert_array_equal(embedding.flatten(embedding.unflatten(theta)), theta)
    repeated = pma.composite_gp(X, y, "SE[0] + SE[1] * PER", mean="zero")
    assert {"log_lengthscale_SE_1", "log_lengthscale_SE_2", "log_period_PER"} < set(repeated.labels)


def test_a_builder_extends_the_model_around_it():
    with pm.Model() as model:
        gpm = pma.ard_gp(X, y)
    assert gpm.model is model
    # A model that is only asked for inside another is no part of it.
    gpm = pma.ard_gp(X, y)
    with pm.Model() as other:
        assert gpm.model.parent is None
    assert other.named_vars == {}


def test_constrain_gives_the_users_space_and_unconstrain_inverts_it(hand):
    theta = np.array([0.3, -0.4, -2.0])
    values = hand.constrain(theta[None])
    assert list(hand.shapes) == ["lengthscale_log__", "eta_log__", "noise_log__"]
    for name, expected in zip(("lengthscale", "eta", "noise"), np.exp(theta), strict=True):
        assert_allclose(values[name], [expected], rtol=1e-14)
    for gpm in (hand, pma.ard_gp(X, y)):
        thetas = np.random.default_rng(3).normal(size=(4, gpm.n_parameters))
        assert_allclose(gpm.unconstrain(gpm.constrain(thetas)), thetas, rtol=0, atol=1e-12)


def test_new_data_compile_nothing(used):
    gpm, at_first = used
    assert at_first > 5
    with compilations() as made:
        use_everything(gpm, 14)
        use_everything(gpm, 3)
    assert made == []


def test_builders_compile_nothing():
    gpm = pma.ard_gp(X, y)
    with compilations() as made:
        for n in (9, 14):
            gpm.set_data(*data(n, seed=n))
            fit = quick_fit(gpm)
            pma.predict(fit, X)
            pma.active.bald(fit, X)
            assert "noise" in fit.constrained_point
    assert made == []
    with pytest.raises(ValueError, match="read-only"):
        gpm.X[0, 0] = 1.0


def test_what_the_user_adds_to_the_pymc_model_counts_from_then_on():
    """A potential joins the density and its gradient, also of a model whose posterior was known without it."""
    gpm = pma.ard_gp(X, y)
    theta = np.array([0.1, 0.2, 0.3, -1.5])
    before, slope = gpm.posterior().value_and_gradient(theta)
    with gpm.model:
        pm.Potential("quiet", -3.0 * gpm.model["log_noise"] ** 2)
    value, gradient = gpm.posterior().value_and_gradient(theta)
    assert_allclose(value, before - 3 * 1.5**2, rtol=1e-12)
    assert_allclose(gradient, slope + np.array([0, 0, 0, 9.0]), rtol=1e-10)
    with pytest.raises(ValueError, match="has more in it than the builder put there"):
        gpm.recipe()


def test_fits_and_predictions_need_no_pymc_model():
    gpm = pma.composite_gp(X, y, "SE[0] + LIN * PER[1]", mean="linear")
    fit = quick_fit(gpm)
    pma.predict(fit, X)
    assert "log_period_PER" in repr(gpm)
    assert set(fit.constrained_point) > set(fit.point)
    assert not gpm._made
    assert gpm.model.name == ""
    assert gpm._made


ON_FIRST_USE = {
    "ard": lambda: pma.ard_gp(*user_units(X, y), mean="linear", **UNITS),
    "embedding": lambda: pma.embedding_gp(*user_units(X, y), n_components=2, **UNITS),
    "composite": lambda: pma.composite_gp(*user_units(X, y), "LIN * PER[1] + RQ + LIN0[0]", **UNITS),
    "fixed": lambda: pma.ard_gp(X, y, priors={"log_outputscale": 0.3, "log_lengthscale": np.array([0.1, -0.2])}),
}


@pytest.mark.parametrize("name", list(ON_FIRST_USE))
def test_the_model_made_on_first_use_is_the_one_described_before(name):
    """Names, shapes, the user's space and the log posterior."""
    gpm = ON_FIRST_USE[name]()
    theta = 0.3 * np.random.default_rng(2).normal(size=(2, gpm.n_parameters))
    before, described = gpm.constrain(theta), repr(gpm)
    value, _ = gpm.posterior().value_and_gradient(theta[0])
    labels = gpm.labels
    assert not gpm._made

    # A Deterministic more, and everything is PyMC's.
    with gpm.model:
        pm.Deterministic("one_more", pt.exp(gpm.model["log_noise"]))
    after = gpm.constrain(theta)
    assert_allclose(after.pop("one_more"), np.exp(theta[:, labels.index("log_noise")]), rtol=1e-14)
    assert list(before) == list(after)
    for variable, values in after.items():
        assert_allclose(before[variable], values, rtol=1e-14, err_msg=variable)
        assert before[variable].shape == values.shape
    assert (gpm.labels, repr(gpm)) == (labels, described)
    logp = gpm.model.compile_logp(mode="FAST_COMPILE")
    assert_allclose(value, logp(gpm.unflatten(theta[0])), rtol=1e-8)


def test_the_model_is_made_of_the_data_held_then():
    mine_X, mine_y = X.copy(), y.copy()
    gpm, changed = pma.ard_gp(mine_X, mine_y), pma.ard_gp(mine_X, mine_y)
    mine_X += 1
    mine_y += 1
    has_the_data(gpm, (X, y))
    more = data(7, seed=5)
    changed.set_data(*more)
    for made, expected in ((gpm, (X, y)), (changed, more)):
        assert_array_equal(made.model["X"].get_value(), expected[0])
        assert_array_equal(made.model["y_data"].get_value(), expected[1])
        assert made.model.coords["obs"] == tuple(range(len(expected[1])))


def test_the_priors_of_a_composite_gp():
    for priors, mean, sd in (
        ("wide", np.log(0.1), 1.0),
        (None, np.log(0.1), 1.0),
        ("toolbox", np.log(0.01), np.sqrt(0.1)),
        ({"log_noise": pm.Normal.dist(-3.0, 0.2)}, -3.0, 0.2),
    ):
        gpm = pma.composite_gp(X, y, "SE", priors=priors)
        at = gpm.labels.index("log_noise")
        center, scale = gpm.posterior().prior_scale()
        assert_allclose([center[at], scale[at]], [mean, sd], rtol=1e-12)
        assert_allclose(scale[gpm.labels.index("log_lengthscale_SE")], 1.0, rtol=1e-12)
    for key in ("log_alpha_SE", "location_PER", "log_period_LIN0", "log_lengthscale_SE_3"):
        with pytest.raises(ValueError, match=f"priors for unknown parameters: {key}"):
            pma.composite_gp(X, y, "SE + PER", priors={key: 0.3})
    # Base kernels that are not in this expression may have priors all the same.
    assert pma.composite_gp(X, y, "SE", priors={"log_alpha_RQ": 0.3, "log_period": 0.1}).n_parameters == 4
    # The expression is kept.
    expression = "SE" * pma.kernels.parse("PER[1] + LIN")
    gpm = pma.composite_gp(X, y, expression)
    assert gpm.expression is expression
    assert gpm.labels == pma.composite_gp(X, y, "SE * (PER[1] + LIN)").labels
    assert pma.ard_gp(X, y).expression is None


def test_a_line_is_expected_to_vary_as_much_as_other_terms():
    """At the medians of the priors, over the scaled inputs; that of the toolbox varies by a third of it."""
    x = np.linspace(0, 1, 1001)[:, None]
    sds = {}
    for priors in ("wide", "toolbox"):
        gpm = pma.composite_gp(x, x[:, 0], "LIN0 + SE", priors=priors, x_scale="unit", y_scale="standardize")
        scale = np.exp(
            gpm.posterior().prior.mean[[gpm.labels.index(f"log_outputscale_{name}") for name in ("LIN0", "SE")]]
        )
        sds[priors] = scale * [x.std(), 1]
    assert_allclose(sds["wide"], 0.4, rtol=0.02)
    assert_allclose(sds["toolbox"], [0.4 * x.std(), 0.4])


@pytest.mark.parametrize(
    "build",
    [
        lambda X, y: pma.ard_gp(X, y, mean="linear"),
        lambda X, y: pma.embedding_gp(X, y, n_components=2, x_scale=(0.5, 2), y_scale=(1, 3)),
        *nightly(by_hand),
    ],
    ids=["ard_gp", "embedding_gp", "by hand"],
)
def test_a_model_with_new_data_is_the_model_of_these_data(build):
    gpm, more = build(X, y), data(17, seed=5)
    before, _ = log_posterior(gpm)
    gpm.set_data(*more)
    has_the_data(gpm, more)
    assert log_posterior(gpm)[0] != before
    assert_same_posterior(gpm, build(*more))


def test_new_data_reach_the_pymc_model():
    """``model.logp`` sees them, and the coordinate ``obs`` has their length; scales are frozen."""
    gpm, more = pma.ard_gp(X, y, x_scale="box", y_scale="standardize"), data(5, seed=5)
    frozen = {"x_scale": (gpm.x_map.shift.copy(), gpm.x_map.scale.copy())}
    frozen["y_scale"] = (gpm.y_map.shift, gpm.y_map.scale)
    logp = gpm.model.compile_logp(mode="FAST_COMPILE")
    gpm.set_data(*more)
    fit = at_zero(gpm)
    assert_allclose(fit.log_posterior, logp(fit.point), rtol=1e-12)
    assert len(gpm.model.coords["obs"]) == 5
    assert_array_equal([gpm.x_map.shift, gpm.x_map.scale], frozen["x_scale"])
    assert_same_posterior(gpm, pma.ard_gp(*more, **frozen))


def test_refused_data_change_nothing_and_a_copy_has_data_of_its_own(hand):
    gpm = pma.ard_gp(X, y)
    for bad, message in (
        ((X[:, :1], y), "X must have 2 columns"),
        ((X, np.where(np.arange(len(y)) == 3, np.nan, y)), "first at position 3"),
    ):
        with pytest.raises(ValueError, match=message):
            gpm.set_data(*bad)
        has_the_data(gpm, (X, y))
    before, other = log_posterior(hand)[0], deepcopy(hand)
    other.set_data(X[:3], y[:3])
    assert (len(other.y), len(other.posterior().y), len(hand.y)) == (3, 3, len(y))
    assert log_posterior(hand)[0] == before != log_posterior(other)[0]


def test_whole_numbers_are_data_like_others(hand):
    """Counts and integer inputs: PyMC keeps them as integers behind a cast."""
    whole_X, counts = np.arange(20).reshape(10, 2) % 7, np.arange(10)
    hand.set_data(whole_X.astype(float), counts.astype(float))
    gpm = by_hand(whole_X, counts)
    assert_same_posterior(gpm, hand)
    gpm.set_data(whole_X[:4], [3, 1, 2, 0])
    assert_array_equal(gpm.y, [3, 1, 2, 0])
    # Between them, as a fit conditioned on its own predictions needs it.
    value, _ = gpm.posterior().with_data(X, y).value_and_gradient(np.zeros(gpm.n_parameters))
    hand.set_data(X, y)
    assert_allclose(value, log_posterior(hand)[0], rtol=1e-14)
    with pytest.raises(ValueError, match=r"X is stored as whole numbers .* values\.astype\(float\)"):
        gpm.set_data(X, counts)


# from_marginal: noise, and what is refused.


@pytest.mark.parametrize(
    ("sigma", "variance"),
    [
        (lambda: GrowingNoise(2, pm.HalfNormal("noise", 0.5)), np.exp(2 * X[:, 0])),
        (lambda: pma.cov.ErrorBars(2, 0, pm.HalfNormal("noise", 0.5)), 1 + np.square(X[:, 0])),
        *nightly(
            (lambda: pm.HalfNormal("noise", 0.5), np.ones(len(X))),
            (lambda: pm.gp.cov.WhiteNoise(pm.HalfNormal("noise", 0.5)), np.ones(len(X))),
            (lambda: 0.3, np.full(len(X), 0.09)),
        ),
    ],
    ids=["covariance of x", "error bars", "scalar", "WhiteNoise", "number"],
)
def test_noise_enters_the_observation(sigma, variance):
    """At the origin of the unconstrained space every sd above is one."""
    posterior = by_hand(sigma=sigma).posterior()
    moments = posterior.moments(posterior.state(np.zeros(posterior.n_parameters)), X)
    assert_allclose(moments.noise_variance, variance, rtol=1e-12)
    # The likelihood by hand: Matérn 5/2 with unit scales.
    r = np.linalg.norm(X[:, None] - X, axis=-1)
    K = (1 + np.sqrt(5) * r + 5 / 3 * r**2) * np.exp(-np.sqrt(5) * r) + np.diag(variance)
    assert_allclose(moments.mean, (K - np.diag(variance)) @ np.linalg.solve(K, y), rtol=1e-9)


class _OfX(pm.gp.mean.Mean):
    def __init__(self, function):
        super().__init__()
        self.function = function

    def __call__(self, X):
        return self.function(X)


class _Line(pm.gp.cov.Covariance):
    """Products of the first input, with any diagonal."""

    def __init__(self, of_diagonal):
        super().__init__(2)
        self.of_diagonal = of_diagonal

    def full(self, X, Xs=None):
        return pt.outer(X[:, 0], (X if Xs is None else Xs)[:, 0])

    def diag(self, X):
        return self.of_diagonal(X)


SIGMA = "sigma cannot be evaluated at new points"
MEAN = "the mean function must return a vector .*; got "
DIAGONAL = r"diag\(X\) must be the diagonal of full\(X\), the variances"


@pytest.mark.parametrize(
    ("what", "function", "message"),
    [
        ("sigma", lambda: np.full(len(X), 0.3), SIGMA),
        ("sigma", lambda: pm.HalfNormal("noise", 0.5, shape=len(X)), SIGMA),
        ("sigma", lambda: pt.exp(pm.Normal("a", 0, 1)) * np.linspace(1, 2, len(X)), SIGMA),
        ("mean", lambda _: pt.as_tensor(y), rf"{MEAN}shape \({len(y)},\) for {len(y) + 1} rows"),
        ("mean", lambda X: X[:, 0] * 0 + y, f"{MEAN}none"),
        ("mean of a builder", lambda X: X[:, :1], f"{MEAN}2 dimensions"),  # which PyMC itself refuses
        ("mean", lambda X: X[:, 0].dimshuffle(0) ** 2, None),
        ("mean", lambda _: pt.as_tensor(3.0), None),
        ("diagonal", lambda X: pt.alloc(1.0, X.shape[0]), DIAGONAL),
        ("diagonal", lambda X: X[:, 0], DIAGONAL),
        ("diagonal", lambda X: X[:, :1] ** 2, DIAGONAL),
        ("diagonal", lambda X: 1.001 * X[:, 0] ** 2, DIAGONAL),
        ("diagonal", lambda X: X[:, 0] ** 2, None),
    ],
)
def test_what_knows_the_training_rows_only_or_contradicts_itself_is_refused(what, function, message):
    makers = {
        "sigma": [lambda: by_hand(sigma=function)],
        "mean of a builder": [lambda: pma.ard_gp(X, y, mean=_OfX(function), bounds=[(-9, 9)] * 2)],
        "mean": [lambda: by_hand(mean_func=_OfX(function))],
        "diagonal": [
            lambda: by_hand(wrap=lambda _: _Line(function)),
            lambda: by_hand(wrap=lambda cov: cov + 2 * _Line(function)),
        ],
    }
    makers["mean"] += makers["mean of a builder"]
    for make in makers[what]:
        if message is None:
            assert make().n_parameters
        else:
            with pytest.raises(ValueError, match=message):
                make()


def marginal(ls=lambda: pm.LogNormal("ls", 0, 1), y=y, *, other=False):
    """A GP with or without a likelihood, and its model."""
    with pm.Model() as model:
        gp = pm.gp.Marginal(cov_func=pm.gp.cov.ExpQuad(2, ls=ls()))
        if y is not None:
            gp.marginal_likelihood("y", X, y, sigma=0.1)
        if other:
            pm.Normal("other", 0, 1, observed=[1.0])
    return gp, model


def test_from_marginal_takes_the_model_around_it():
    gp, model = marginal()
    with model:
        assert pma.from_marginal(gp, "y").model is model
        assert pma.from_marginal(gp).name == "y"
    with pytest.raises(TypeError, match=r"needs the pm\.Model that gp is in: pass model="):
        pma.from_marginal(gp, "y")
    # Models that are made by one function have variables of the same names.
    with pytest.raises(ValueError, match="gp is not in this model, which lacks its ls: pass the model in which gp was"):
        pma.from_marginal(gp, model=marginal()[1])


MISSING = "has missing values, which PyMC imputes: leave these rows out"


@pytest.mark.filterwarnings("ignore:Data in y contains missing")
@pytest.mark.parametrize(
    ("keywords", "name", "message"),
    [
        ({"y": None}, "y", r"call gp\.marginal_likelihood"),
        ({"other": True}, None, r"name the likelihood of gp: .* \['(other', 'y|y', 'other)'\]"),
        ({"other": True}, "f", "no observed variable 'f'; it has"),
        ({"other": True}, "other", "'other' is not a marginal GP likelihood"),
        ({"ls": lambda: 1.0}, "y", "no free parameters"),
        ({"ls": lambda: 1.0 + pm.Poisson("k", 3)}, "y", r"these are discrete: \['k'\]"),
        ({"y": [np.nan, *y[1:]]}, "y", MISSING),
        ({"y": [np.nan, *y[1:]]}, "y_observed", MISSING),
    ],
)
def test_from_marginal_needs_a_likelihood_with_free_continuous_parameters(keywords, name, message):
    gp, model = marginal(**keywords)
    with pytest.raises(ValueError, match=message):
        pma.from_marginal(gp, name, model=model)


@pytest.mark.nightly
@pytest.mark.parametrize(
    "prior",
    [
        lambda: pm.HalfCauchy("ls", 1),
        lambda: pm.HalfStudentT("ls", 3, 1),
        lambda: pm.Truncated("ls", pm.Normal.dist(1, 1), lower=0.01),
        lambda: pm.Mixture("ls", w=[0.5, 0.5], comp_dists=[pm.LogNormal.dist(0, 1), pm.Gamma.dist(2, 1)]),
    ],
    ids=["HalfCauchy", "HalfStudentT", "Truncated", "Mixture"],
)
def test_from_marginal_takes_distributions_that_are_made_of_others(prior):
    gpm = users_gp(np.linspace(0, 3, 5)[:, None], np.arange(5.0), lambda: pm.gp.cov.ExpQuad(1, ls=prior()))
    point = gpm.model.initial_point()
    assert gpm.posterior().value(gpm.flatten(point)) == pytest.approx(
        gpm.model.compile_logp(mode="FAST_COMPILE")(point)
    )


def test_a_parameter_that_a_distribution_cannot_have_has_density_zero():
    """As in PyMC: an sd that underflows. Not an error, and not that of the other rows."""
    cov = lambda: pm.gp.cov.ExpQuad(1, ls=pm.LogNormal("ls", 0, pm.HalfNormal("s")))  # noqa: E731
    posterior = users_gp(np.linspace(0, 3, 5)[:, None], np.arange(5.0), cov).posterior()
    thetas = np.array([[0.0, 0.0], [-800.0, 0.0], [0.1, 0.0]])
    values = posterior.values(thetas)
    assert_array_equal(np.isfinite(values), [True, False, True])
    assert values[1] == -np.inf
    assert_allclose(values[[0, 2]], [posterior.value(theta) for theta in thetas[[0, 2]]])


# Units.


@pytest.mark.nightly
def test_the_posterior_of_some_of_the_data_is_that_of_a_model_of_these():
    """Searches of many points start there; data that are constants stay as they are."""
    X, rows, theta = np.linspace(0, 3, 9)[:, None], np.array([0, 3, 4, 8]), np.array([0.3, -1.0])

    def made(rows, is_data=True):
        cov, noise = (lambda: pm.gp.cov.Matern52(1, ls=pm.Gamma("ls", 2, 1))), (lambda: pm.HalfNormal("sigma", 0.5))
        return users_gp(X[rows], np.sin(X[rows, 0]), cov, noise, is_data=is_data).posterior()

    whole = made(slice(None))
    assert whole.subset(rows).value(theta) == pytest.approx(made(rows).value(theta), rel=1e-12)
    assert len(whole.y) == 9
    assert made(slice(None), is_data=False).subset(rows) is None


SHIFT, SCALE = np.array([1000.0, -7.0]), np.array([25.0, 0.01])
Y_SHIFT, Y_SCALE = -40.0, 300.0
UNITS = {"x_scale": (SHIFT, SCALE), "y_scale": (Y_SHIFT, Y_SCALE)}
BUILDERS = {
    "ard": lambda X, y, **units: pma.ard_gp(X, y, kernel="Matern52", **units),
    "ard, linear mean": lambda X, y, **units: pma.ard_gp(X, y, mean="linear", **units),
    "embedding": lambda X, y, **units: pma.embedding_gp(X, y, n_components=1, mean="constant", **units),
    "composite": lambda X, y, **units: pma.composite_gp(X, y, "LIN + PER[0] * RQ[1]", **units),
}


def user_units(X, y):
    return SHIFT + SCALE * X, Y_SHIFT + Y_SCALE * y


@pytest.mark.parametrize("name", list(BUILDERS))
def test_units_change_nothing_but_units(name):
    """The model in the user's units is the scaled one; only the Jacobian of y's scale enters the evidence."""
    scaled = BUILDERS[name](X, y)
    users = BUILDERS[name](*user_units(X, y), **UNITS)
    theta = 0.3 * np.random.default_rng(2).normal(size=scaled.n_parameters)
    theta[scaled.labels.index("log_noise")] -= 1.0
    # Any point will do, whatever its curvature: so the posterior itself, not a fit.
    ours, theirs = scaled.posterior(), users.posterior()
    jacobian = len(y) * np.log(Y_SCALE)
    # Undoing the units costs 1000/0.01 of the 16 digits in X.
    value, gradient = theirs.value_and_gradient(theta)
    expected, expected_gradient = ours.value_and_gradient(theta)
    assert_allclose(value, expected - jacobian, rtol=1e-9)
    assert_allclose(gradient, expected_gradient, rtol=0, atol=1e-8 * np.abs(gradient).max())
    states = ours.state(theta), theirs.state(theta)
    hessian = ours.hessian(states[0])
    scale = np.abs(hessian).max()
    assert_allclose(theirs.hessian(states[1]), hessian, rtol=0, atol=1e-8 * scale)

    X_new = data(6, seed=9)[0]
    a = ours.moments(states[0], X_new, gradient=True)
    b = theirs.moments(states[1], user_units(X_new, 0)[0], gradient=True)
    assert_allclose(b.mean, Y_SHIFT + Y_SCALE * a.mean, rtol=1e-8)
    assert_allclose(b.mean_gradient, Y_SCALE * a.mean_gradient, rtol=1e-6, atol=1e-6)
    for part in ("variance", "prior_variance", "noise_variance"):
        assert_allclose(getattr(b, part), Y_SCALE**2 * getattr(a, part), rtol=1e-7, err_msg=part)
    assert_allclose(b.variance_gradient, Y_SCALE**2 * a.variance_gradient, rtol=1e-6, atol=1e-3)


def test_natural_parameters_are_in_the_users_units():
    gpm = pma.ard_gp(*user_units(X, y), **UNITS)
    values = gpm.constrain(np.array([[0.1, -0.2, 0.3, -1.4]]))
    assert_allclose(values["lengthscale"][0], SCALE * np.exp([0.1, -0.2]), rtol=1e-14)
    assert_allclose(values["outputscale"], Y_SCALE * np.exp(0.3), rtol=1e-14)
    assert_allclose(values["noise"], Y_SCALE * np.exp(-1.4), rtol=1e-14)
    periodic = pma.composite_gp(*user_units(X, y), "SE[1] * PER[0] + LIN", **UNITS)
    at = {"log_period_PER": 0.7, "log_lengthscale_SE": -0.4}
    values = periodic.constrain(np.array([[at.get(label, 0.0) for label in periodic.labels]]))
    assert_allclose(values["period_PER"], SCALE[0] * np.exp(0.7), rtol=1e-14)
    assert_allclose(values["lengthscale_SE"], SCALE[1] * np.exp(-0.4), rtol=1e-14)
    # ``R_original_units`` times the user's differences are the components' differences.
    embedding = pma.embedding_gp(*user_units(X, y), n_components=1, **UNITS)
    theta, difference = np.array([[0.5, -2.0, 0.0, 0.0, -1.0]]), np.array([3.0, 0.002])
    R = embedding.constrain(theta)["R_original_units"][0]
    assert_allclose(R @ difference, theta[:, :2] @ (difference / SCALE), rtol=0, atol=1e-15)


def test_named_scales():
    users_X, users_y = user_units(X, y)
    for scale, low, high in (("unit", 0.0, 1.0), ("box", -1.0, 1.0)):
        gpm = pma.ard_gp(users_X, users_y, x_scale=scale, y_scale=scale)
        mapped, outputs = gpm.x_map(gpm.X), gpm.y_map(gpm.y)
        assert_allclose([mapped.min(0), mapped.max(0)], [[low] * 2, [high] * 2], atol=1e-10)
        assert_allclose([outputs.min(), outputs.max()], [low, high], atol=1e-12)
    # A constant input keeps its unit.
    table = np.column_stack([users_X, np.full(len(X), 5.0)])
    gpm = pma.ard_gp(table, users_y, x_scale="standardize", y_scale="standardize")
    mapped, outputs = gpm.x_map(gpm.X), gpm.y_map(gpm.y)
    assert_allclose(mapped.mean(0), 0, atol=1e-10)
    assert_allclose(mapped.std(0), [1, 1, 0], rtol=1e-12)
    assert_allclose([outputs.mean(), outputs.std()], [0, 1], atol=1e-10)
    assert gpm.x_map.scale[2] == 1.0


def evaluate(cov, *arguments, **keywords):
    return cov(*arguments, **keywords).eval(mode="FAST_COMPILE")


R = np.array([[0.5, -1.0, 0.3], [2.0, 0.1, -0.7]])
X3 = np.random.default_rng(4).normal(size=(6, 3))
Z3 = np.random.default_rng(5).normal(size=(4, 3))
MATERN = pm.gp.cov.Matern52(2, ls=[0.7, 1.3])


def test_an_embedding_is_its_base_on_the_embedded_inputs():
    """It adds, multiplies and nests."""
    cov, ard = pma.cov.Embedding(MATERN, R, 3), pm.gp.cov.ExpQuad(3, ls=[1.0, 2.0, 3.0])
    assert_allclose(evaluate(cov, X3), evaluate(MATERN, X3 @ R.T), rtol=1e-14)
    assert_allclose(evaluate(cov, X3, diag=True), np.diag(evaluate(cov, X3)), rtol=1e-5)
    embedded, plain = evaluate(cov, X3, Z3), evaluate(ard, X3, Z3)
    assert_allclose(embedded, evaluate(MATERN, X3 @ R.T, Z3 @ R.T), rtol=1e-14)
    assert_allclose(evaluate(cov + ard, X3, Z3), embedded + plain, rtol=1e-14)
    assert_allclose(evaluate(cov * ard, X3, Z3), embedded * plain, rtol=1e-14)
    assert_allclose(evaluate(3.0 * cov + 1.0, X3, Z3), 3 * embedded + 1, rtol=1e-14)
    twice = pma.cov.Embedding(pma.cov.Embedding(pm.gp.cov.ExpQuad(1, ls=1.0), [[1.0, -2.0]], 2), R, 3)
    once = pma.cov.Embedding(pm.gp.cov.ExpQuad(1, ls=1.0), [[1.0, -2.0]] @ R, 3)
    assert_allclose(evaluate(twice, X3, Z3), evaluate(once, X3, Z3), rtol=1e-12)


def test_a_distribution_for_several_base_kernels_is_one_for_each():
    """In the PyMC model too, which PyTensor would otherwise take for a single random variable."""
    gpm = pma.composite_gp(X, y, "SE + SE", priors={"log_lengthscale": pm.Normal.dist(-2.0, 1.0)})
    theta = np.arange(6) / 3
    logp = gpm.model.compile_logp(mode="FAST_COMPILE")
    assert_allclose(logp(gpm.unflatten(theta)), gpm.posterior().value_and_gradient(theta)[0], rtol=1e-10)
    lengthscales = [gpm.model[f"log_lengthscale_SE_{i}"] for i in (1, 2)]
    first, second = pm.draw(lengthscales, random_seed=1, mode="FAST_COMPILE")
    assert first != second
