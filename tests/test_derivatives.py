"""Every derivative against central differences, and the two routes to each posterior against each other."""

import numpy as np
import pymc as pm
import pytensor.tensor as pt
import pytest
from differences import central_difference
from numpy.testing import assert_allclose

import pymc_active as pma
from pymc_active.posterior.array import ArrayPosterior
from pymc_active.posterior.graph import GraphPosterior

pytestmark = pytest.mark.slow


def data(n=12, D=3):
    """Smooth noisy outputs of inputs in the box."""
    rng = np.random.default_rng(20260101)
    X = rng.uniform(-1, 1, size=(n, D))
    y = np.sin(3 * X[:, 0]) + X[:, -1] ** 2 + 0.2 * rng.normal(size=n)
    return X, y


def user_units(X, y):
    """The same data in awkward units."""
    return 40 * X + np.array([1000, -3, 70])[: X.shape[1]], 250 * y - 600


X1, y1 = data(D=1)
X3, y3 = data()


class Quadratic(pm.gp.mean.Mean):
    """A mean function of the user's own, curved in its parameter."""

    def __init__(self, slope):
        super().__init__()
        self.slope = slope

    def __call__(self, X):
        return pt.exp(self.slope) * X[:, 0] ** 2


def in_user_units(build, *arguments, **keywords):
    X, y = user_units(X3, y3)
    return build(X, y, *arguments, x_scale="box", y_scale="standardize", **keywords)


ARRAY_MODELS = {
    "ard ExpQuad": lambda: pma.ard_gp(X3, y3),
    "ard Matern52, constant mean": lambda: pma.ard_gp(X3, y3, kernel="Matern52", mean="constant"),
    "ard Matern32, linear mean, user units": lambda: in_user_units(pma.ard_gp, kernel="Matern32", mean="linear"),
    "ard Matern12": lambda: pma.ard_gp(X3, y3, kernel="Matern12"),
    "ard, fixed noise": lambda: pma.ard_gp(X3, y3, priors={"log_noise": -1.5}),
    "ard, fixed lengthscales and slopes": lambda: pma.ard_gp(
        X3,
        y3,
        mean="linear",
        priors={"log_lengthscale": np.array([0.1, -0.2, 0.4]), "mean_slope": 0.3},
    ),
    "ard, only the noise is free": lambda: pma.ard_gp(X3, y3, priors={"log_lengthscale": 0.0, "log_outputscale": 0.0}),
    "embedding d=1": lambda: pma.embedding_gp(X3, y3, n_components=1),
    "embedding d=2, Matern52, constant mean": lambda: in_user_units(
        pma.embedding_gp, n_components=2, kernel="Matern52", mean="constant"
    ),
    "embedding d=3, Matern32, linear mean": lambda: pma.embedding_gp(
        X3, y3, n_components=3, kernel="Matern32", mean="linear", prior_scale=[0.5, 1.0, 2.0]
    ),
    "embedding d=2, Matern12": lambda: pma.embedding_gp(X3, y3, n_components=2, kernel="Matern12"),
    "embedding d=2, fixed scale and noise": lambda: pma.embedding_gp(
        X3, y3, n_components=2, priors={"log_outputscale": 0.1, "log_noise": -1.5}
    ),
    "embedding d=2, fixed R": lambda: pma.embedding_gp(
        X3, y3, n_components=2, priors={"R": np.array([[1.0, 0.2, 0.0], [0.3, -0.5, 0.8]])}
    ),
    "LIN + PER * RQ": lambda: pma.composite_gp(X1, y1, "LIN + PER * RQ"),
    "composite of single inputs, user units": lambda: in_user_units(
        pma.composite_gp, "LIN + PER[1] * RQ[0]", mean="linear"
    ),
    "nested composite": lambda: pma.composite_gp(X3, y3, "(SE[0] + LIN0) * (MAT52 + PER) * RQ + MAT12[2]"),
    "PER0 and C": lambda: pma.composite_gp(X3, y3, "(PER0 + C) * LIN[0] + SE * PER0[1]"),
    "STEP": lambda: pma.composite_gp(X3, y3, "SE + STEP[1] * (LIN + STEP[0])"),
    "STEP alone, user units": lambda: pma.composite_gp(100 * X1, y1, "STEP", x_scale="unit"),
    "C alone": lambda: pma.composite_gp(X1, y1, "C"),
    "composite, fixed period": lambda: pma.composite_gp(
        X1, y1, "SE * PER", mean="zero", priors={"log_period_PER": -0.5}
    ),
}


def hand_written(build):
    """``from_marginal`` of a model that ``build()`` fills and returns (cov, mean, sigma) for."""

    def make():
        with pm.Model() as model:
            cov, mean, sigma = build()
            gp = pm.gp.Marginal(cov_func=cov, mean_func=mean)
            gp.marginal_likelihood("y", pm.Data("X", X3), pm.Data("y_data", y3), sigma=sigma, jitter=0)
        return pma.from_marginal(gp, "y", model=model)

    return make


def _transformed():
    """Positive, bounded and simplex-like parameters, as users like them."""
    lengthscale = pm.Gamma("lengthscale", 3, 2, shape=3)
    eta = pm.HalfNormal("eta", 2)
    slope = pm.Uniform("slope", -1, 2)
    sigma = pm.Exponential("sigma", 3)
    cov = eta**2 * pm.gp.cov.Matern52(3, ls=lengthscale)
    return cov, Quadratic(slope), sigma


def _hierarchical():
    """Lengthscales that share a mean and a spread."""
    center = pm.Normal("center", 0, 1)
    spread = pm.HalfNormal("spread", 0.5)
    log_lengthscale = pm.Normal("log_lengthscale", center, spread, shape=3)
    cov = pm.gp.cov.ExpQuad(3, ls=pt.exp(log_lengthscale)) + pm.gp.cov.Linear(3, c=0.2)
    return cov, pm.gp.mean.Zero(), pm.HalfCauchy("sigma", 1)


def _embedding_inside():
    """An embedding within a sum, and noise from a covariance function."""
    R = pm.Normal("R", 0, 1, shape=(1, 3))
    cov = pma.cov.Embedding(pm.gp.cov.ExpQuad(1, ls=1.0), R, 3) + pm.gp.cov.Constant(0.5)
    return cov, pm.gp.mean.Zero(), pm.gp.cov.WhiteNoise(pm.LogNormal("sigma", -1, 0.5))


GRAPH_MODELS = {
    "from_marginal, transformed priors": hand_written(_transformed),
    "from_marginal, hierarchical prior": hand_written(_hierarchical),
    "from_marginal, embedding in a sum": hand_written(_embedding_inside),
    "ard with a Mean instance": lambda: in_user_units(
        pma.ard_gp, mean=pm.gp.mean.Linear(coeffs=np.array([1.0, 0.5, 0.0]), intercept=3.0)
    ),
    "embedding with priors that are not normal": lambda: pma.embedding_gp(
        X3,
        y3,
        n_components=2,
        priors={
            "R": pm.Laplace.dist(0, 1),
            "log_noise": pm.Uniform.dist(-4, 1),
            "log_outputscale": pm.StudentT.dist(nu=5, mu=0, sigma=1),
        },
    ),
}
# One of each builder, with means and scales of every kind between them: compiling their derivatives costs seconds.
COMPARED = (
    "ard Matern32, linear mean, user units",
    "ard, fixed lengthscales and slopes",
    "embedding d=2, Matern52, constant mean",
    "composite of single inputs, user units",
)
MODELS = {**ARRAY_MODELS, **GRAPH_MODELS}
_cache: dict[str, pma.GPModel] = {}
_graphs: dict[str, GraphPosterior] = {}


def get(name):
    """Each model is built and compiled once in this module."""
    if name not in _cache:
        _cache[name] = MODELS[name]()
    return _cache[name]


def probe(gpm):
    """A point off the mode where the prior still has mass and K is well conditioned."""
    center, sd = gpm.posterior().prior_scale()
    theta = center + 0.4 * np.minimum(sd, 1.0) * np.random.default_rng(7).normal(size=len(sd))
    # Periods of the default prior fit twenty times into the data: too rough for differences.
    is_period = [label.startswith("log_period") for label in gpm.labels]
    return np.where(is_period, -0.4, theta)


def new_points(gpm):
    """A few points in the range of the data, at rest and just outside."""
    low, high = gpm.X.min(0), gpm.X.max(0)
    return low + (high - low) * np.random.default_rng(8).uniform(-0.2, 1.2, size=(5, len(low)))


@pytest.mark.parametrize("name", list(MODELS))
def test_the_route_is_the_one_expected(name):
    """Builders with plain normal priors compile nothing; everything else takes the graphs."""
    expected = ArrayPosterior if name in ARRAY_MODELS else GraphPosterior
    assert isinstance(get(name).posterior(), expected)


@pytest.mark.parametrize("name", list(MODELS))
def test_values_of_many_parameters_are_those_of_each(name):
    """All at once where nothing fails, one by one where a covariance is not positive definite."""
    gpm = get(name)
    posterior, theta = gpm.posterior(), probe(gpm)
    thetas = theta + 0.1 * np.random.default_rng(9).normal(size=(5, len(theta)))
    assert_allclose(posterior.values(thetas), [posterior.value(t) for t in thetas], rtol=1e-9)
    overflowing = np.vstack([thetas, np.full(len(theta), 400.0)])
    expected = [posterior.value(t) for t in overflowing]
    assert np.isfinite(expected[:-1]).all()
    assert_allclose(posterior.values(overflowing), expected, rtol=1e-9)


@pytest.mark.parametrize("name", list(MODELS))
def test_gradient_of_the_log_posterior(name):
    gpm = get(name)
    posterior = gpm.posterior()
    theta = probe(gpm)
    value, gradient = posterior.value_and_gradient(theta)
    numerical = central_difference(lambda t: posterior.value_and_gradient(t)[0], theta)
    assert np.isfinite(value)
    assert_allclose(gradient, numerical, rtol=0, atol=1e-6 * max(1, np.abs(gradient).max()))


@pytest.mark.parametrize("name", list(MODELS))
def test_hessian_of_the_log_posterior(name):
    gpm = get(name)
    posterior = gpm.posterior()
    theta = probe(gpm)
    hessian = posterior.hessian(posterior.state(theta))
    numerical = -central_difference(lambda t: posterior.value_and_gradient(t)[1], theta)
    assert_allclose(hessian, hessian.T, rtol=0, atol=0)
    assert_allclose(hessian, numerical, rtol=0, atol=1e-6 * max(1, np.abs(hessian).max()))


@pytest.mark.parametrize("name", list(MODELS))
def test_gradient_of_the_predictions(name):
    gpm = get(name)
    posterior, X_new = gpm.posterior(), new_points(gpm)
    theta = probe(gpm)

    def moments(t):
        m = posterior.moments(posterior.state(t), X_new)
        return np.stack([m.mean, m.variance])

    with_gradient = posterior.moments(posterior.state(theta), X_new, gradient=True)
    numerical = central_difference(moments, theta)
    for analytic, expected in zip(
        (with_gradient.mean_gradient, with_gradient.variance_gradient), numerical, strict=True
    ):
        assert_allclose(analytic, expected, rtol=0, atol=1e-6 * max(1, np.abs(expected).max()))
    # Asking for gradients does not change the moments.
    mean, variance = moments(theta)
    assert_allclose(with_gradient.mean, mean, rtol=1e-12)
    scale = with_gradient.prior_variance.max()
    assert_allclose(with_gradient.variance, variance, rtol=0, atol=1e-11 * scale)


@pytest.mark.parametrize("extra_noise", [0.0, 0.3])
@pytest.mark.parametrize("name", COMPARED)
def test_arrays_and_graphs_agree(name, extra_noise):
    """With additional noise, too, which both count in the units of their own y."""
    gpm = get(name)
    arrays = gpm.posterior()
    if name not in _graphs:
        _graphs[name] = gpm.make().posterior()
    graphs = _graphs[name].with_data(gpm.X, gpm.y)
    theta = probe(gpm)
    noises = [extra_noise * route.noise_unit**2 for route in (arrays, graphs)]

    value, gradient = arrays.value_and_gradient(theta, noises[0])
    expected_value, expected_gradient = graphs.value_and_gradient(theta, noises[1])
    assert_allclose(value, expected_value, rtol=1e-10)
    assert_allclose(gradient, expected_gradient, rtol=0, atol=1e-10 * np.abs(gradient).max())

    states = arrays.state(theta, noises[0]), graphs.state(theta, noises[1])
    if name in COMPARED[:2]:
        # Of the others either Hessian is compared with differences alone: compiling it takes the longest.
        hessian = arrays.hessian(states[0])
        assert_allclose(hessian, graphs.hessian(states[1]), rtol=0, atol=1e-10 * np.abs(hessian).max())

    X_new = new_points(gpm)
    ours = arrays.moments(states[0], X_new, gradient=True)
    theirs = graphs.moments(states[1], X_new, gradient=True)
    for name_, a, b in zip(ours._fields, ours, theirs, strict=True):
        assert_allclose(a, b, rtol=0, atol=1e-10 * np.abs(b).max(), err_msg=name_)


@pytest.mark.parametrize("name", list(MODELS))
def test_the_value_is_that_of_pymc(name):
    """Normalised priors, Jacobian and the units of y included."""
    gpm = get(name)
    posterior = gpm.posterior()
    theta = probe(gpm)
    logp = gpm.model.compile_logp(mode="FAST_COMPILE")
    value, _ = posterior.value_and_gradient(theta)
    # The absolute tolerance is for Matérn 1/2, see differences.py.
    assert_allclose(value, logp(gpm.unflatten(theta)), rtol=1e-10, atol=1e-8)


@pytest.mark.parametrize("name", ["ard ExpQuad", "from_marginal, transformed priors"])
def test_the_center_of_the_prior_is_its_mode(name):
    posterior = get(name).posterior()
    center, sd = posterior.prior_scale()
    _, gradient = posterior.prior_value_and_gradient(center)
    # L-BFGS stops at a gradient of 1e-5 of the function's scale.
    assert_allclose(gradient, 0, atol=1e-3)
    assert_allclose(1 / sd**2, -np.diag(posterior.prior_hessian(center)), rtol=1e-8)


@pytest.mark.parametrize("kernel", ["SE", "MAT12", "MAT32", "MAT52", "PER", "PER0"])
def test_no_correlation_is_so_small_that_products_underflow(kernel):
    """Subnormal numbers slow a Cholesky factorisation down; the likelihood is that of PyMC all the same."""
    x = np.linspace(-1, 1, 30)[:, None]
    gpm = pma.composite_gp(x, np.sin(3 * x[:, 0]), kernel)
    posterior, names = gpm.posterior(), list(gpm.shapes)
    theta = posterior.prior_scale()[0].copy()
    [length] = [i for i, name in enumerate(names) if name.startswith("log_lengthscale")]
    theta[length] = np.log(1e-2)
    K = posterior.state(theta).extra.K
    batch, _ = posterior._batch(np.stack([theta, theta]))
    for values in (np.abs(K), np.abs(batch)):
        assert values[values > 0].min() > 1e-33
    value = posterior.value_and_gradient(theta)[0]
    logp = gpm.model.compile_logp(mode="FAST_COMPILE")(gpm.unflatten(theta))
    # See differences.py for Matérn 1/2.
    assert_allclose(value, logp, rtol=1e-6 if kernel == "MAT12" else 1e-10)
