"""Every kernel and builder through one protocol: PyMC's values, derivatives by differences, batches as single ones.

Lines are Taylor coefficients of a kernel in both arguments, which derivatives of Gaussian processes are made of.
"""

from itertools import product

import numpy as np
import pymc as pm
import pytensor.tensor as pt
import pytest
from differences import central_difference
from nightly import nightly
from numpy.polynomial import chebyshev
from numpy.testing import assert_allclose
from users import users_gp

import pymc_active as pma
from pymc_active.posterior.array import ArrayPosterior
from pymc_active.posterior.graph import GraphPosterior
from pymc_active.posterior.row_space import row_space
from pymc_active.predictions.mixtures import marginal_moments, plug_in_gradients

pytestmark = pytest.mark.slow


def data(n=9, D=3):
    rng = np.random.default_rng(20260101)
    X = rng.uniform(-1, 1, size=(n, D))
    return X, np.sin(3 * X[:, 0]) + X[:, -1] ** 2 + 0.2 * rng.normal(size=n)


X1, y1 = data(D=1)
X3, y3 = data()
AWKWARD = 40 * X3 + np.array([1000, -3, 70]), 250 * y3 - 600
UNITS = {"x_scale": "box", "y_scale": "standardize"}


class Quadratic(pm.gp.mean.Mean):
    """A mean function of the user's own, curved in its parameter."""

    def __init__(self, slope):
        super().__init__()
        self.slope = slope

    def __call__(self, X):
        return pt.exp(self.slope) * X[:, 0] ** 2


ARD = {
    "ExpQuad": lambda: pma.ard_gp(X3, y3),
    "Matern52, constant mean": lambda: pma.ard_gp(X3, y3, kernel="Matern52", mean="constant"),
    "Matern32, linear mean, user units": lambda: pma.ard_gp(*AWKWARD, kernel="Matern32", mean="linear", **UNITS),
    "Matern12": lambda: pma.ard_gp(X3, y3, kernel="Matern12"),
    "fixed lengthscales and slopes": lambda: pma.ard_gp(
        X3, y3, mean="linear", priors={"log_lengthscale": np.array([0.1, -0.2, 0.4]), "mean_slope": 0.3}
    ),
    "only the noise is free": lambda: pma.ard_gp(X3, y3, priors={"log_lengthscale": 0.0, "log_outputscale": 0.0}),
    "more points than a block": lambda: pma.ard_gp(*data(n=80), priors={"log_noise": -1.5}),
}
EMBEDDINGS = {
    "embedding": lambda: pma.embedding_gp(X3, y3, n_components=1, priors={"log_outputscale": 0.1, "log_noise": -1.5}),
    "embedding Matern52, constant mean, user units": lambda: pma.embedding_gp(
        *AWKWARD, n_components=2, kernel="Matern52", mean="constant", **UNITS
    ),
    "embedding Matern32, linear mean": lambda: pma.embedding_gp(
        X3, y3, n_components=3, kernel="Matern32", mean="linear", prior_scale=[0.5, 1.0, 2.0]
    ),
    "embedding Matern12": lambda: pma.embedding_gp(X3, y3, n_components=2, kernel="Matern12"),
    "fewer points than inputs": lambda: pma.embedding_gp(
        *data(6, 12), n_components=1, prior_scale=np.linspace(0.2, 0.6, 12), x_scale="standardize"
    ),
    "fixed embedding": lambda: pma.embedding_gp(
        X3, y3, n_components=2, priors={"R": np.array([[1.0, 0.2, 0.0], [0.3, -0.5, 0.8]])}
    ),
}
COMPOSITES = {
    **{
        e: lambda e=e: pma.composite_gp(X3, y3, e)
        for e in ("SE", "PER", "LIN", "RQ", "MAT32", "MAT52", "SE + MAT12[2]")
    },
    "LIN + PER * RQ": lambda: pma.composite_gp(X1, y1, "LIN + PER * RQ"),
    "LIN + PER[1] * RQ[0], user units": lambda: pma.composite_gp(
        *AWKWARD, "LIN + PER[1] * RQ[0]", mean="linear", **UNITS
    ),
    "nested": lambda: pma.composite_gp(X3, y3, "(SE[0] + LIN0) * (MAT52 + PER) * RQ + LIN[2]"),
    "PER0 and C": lambda: pma.composite_gp(X3, y3, "(PER0 + C) * LIN[0] + SE * PER0[1]"),
    "STEP": lambda: pma.composite_gp(X3, y3, "SE + STEP[1] * (LIN + STEP[0])"),
    "STEP alone, user units": lambda: pma.composite_gp(100 * X1, y1, "STEP", x_scale="unit"),
    "C alone": lambda: pma.composite_gp(X1, y1, "C"),
    "fixed period": lambda: pma.composite_gp(X1, y1, "SE * PER", mean="zero", priors={"log_period_PER": -0.5}),
}


def _embedding_inside():
    base = pm.gp.cov.ExpQuad(1, ls=1.0)
    return pma.cov.Embedding(base, pm.Normal("R", 0, 1, shape=(1, 3)), 3) + pm.gp.cov.Constant(0.5)


def _hierarchical():
    center, spread = pm.Normal("center", 0, 1), pm.HalfNormal("spread", 0.5)
    log_lengthscale = pm.Normal("log_lengthscale", center, spread, shape=3)
    return pm.gp.cov.ExpQuad(3, ls=pt.exp(log_lengthscale)) + pm.gp.cov.Linear(3, c=0.2)


def _transformed():
    lengthscale = pm.Gamma("lengthscale", 3, 2, shape=3)
    return pm.HalfNormal("eta", 2) ** 2 * pm.gp.cov.Matern52(3, ls=lengthscale)


GRAPHS = {
    "transformed priors": lambda: users_gp(
        X3, y3, _transformed, lambda: pm.Exponential("sigma", 3), lambda: Quadratic(pm.Uniform("slope", -1, 2))
    ),
    "hierarchical prior": lambda: users_gp(X3, y3, _hierarchical, lambda: pm.HalfCauchy("sigma", 1)),
    "embedding in a sum": lambda: users_gp(
        X3, y3, _embedding_inside, lambda: pm.gp.cov.WhiteNoise(pm.LogNormal("sigma", -1, 0.5))
    ),
    "ard with a Mean instance": lambda: pma.ard_gp(
        *AWKWARD, mean=pm.gp.mean.Linear(coeffs=np.array([1.0, 0.5, 0.0]), intercept=3.0), **UNITS
    ),
}
ARRAYS = {**ARD, **EMBEDDINGS, **COMPOSITES}
MODELS = {**ARRAYS, **GRAPHS}
# Kernels that sums and products have too, and graphs of the users' own besides that with a transform and a mean.
OCCUR_AGAIN = {
    "SE",
    "PER",
    "LIN",
    "RQ",
    "MAT52",
    "hierarchical prior",
    "embedding in a sum",
    "ard with a Mean instance",
}


def sorted_out(names):
    return [pytest.param(name, marks=[pytest.mark.nightly] if name in OCCUR_AGAIN else []) for name in names]


_cache: dict[str, pma.GPModel] = {}


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
    return np.where([label.startswith("log_period") for label in gpm.labels], -0.4, theta)


def assert_close(got, expected, tolerance=1e-6):
    """Within a part of the largest entry, or of one."""
    assert_allclose(got, expected, rtol=0, atol=tolerance * max(1, np.abs(expected).max()))


@pytest.mark.parametrize("name", sorted_out(MODELS))
def test_the_log_posterior_is_that_of_pymc_and_its_derivatives_are_differences(name):
    """Normalised priors, Jacobian and the units of y included; plain normal priors compile nothing."""
    gpm = get(name)
    posterior, theta = gpm.posterior(), probe(gpm)
    assert isinstance(posterior, ArrayPosterior if name in ARRAYS else GraphPosterior)
    value, gradient = posterior.value_and_gradient(theta)
    # The absolute tolerance is for Matérn 1/2, see differences.py.
    assert_allclose(value, gpm.model.compile_logp(mode="FAST_COMPILE")(gpm.unflatten(theta)), rtol=1e-10, atol=1e-8)
    assert_close(gradient, central_difference(lambda t: posterior.value_and_gradient(t)[0], theta))
    hessian = posterior.hessian(posterior.state(theta))
    assert_allclose(hessian, hessian.T, rtol=0, atol=0)
    assert_close(hessian, -central_difference(lambda t: posterior.value_and_gradient(t)[1], theta))


@pytest.mark.parametrize("name", sorted_out(MODELS))
def test_predictions_have_the_derivatives_of_differences(name):
    gpm = get(name)
    posterior, theta = gpm.posterior(), probe(gpm)
    low, width = gpm.X.min(0), np.ptp(gpm.X, axis=0)
    X_new = low + width * np.random.default_rng(8).uniform(-0.2, 1.2, size=(5, len(low)))

    def moments(t, Z=X_new):
        found = posterior.moments(posterior.state(t), Z)
        return np.stack([found.mean, found.variance])

    found = posterior.moments(posterior.state(theta), X_new, gradient=True)
    for got, expected in zip(
        (found.mean_gradient, found.variance_gradient), central_difference(moments, theta), strict=True
    ):
        assert_close(got, expected)
    # Asking for gradients does not change the moments.
    mean, variance = moments(theta)
    assert_allclose(found.mean, mean, rtol=1e-12)
    assert_allclose(found.variance, variance, rtol=0, atol=1e-11 * found.prior_variance.max())


@pytest.mark.filterwarnings("ignore:the Laplace fit is doubtful")
@pytest.mark.parametrize("name", sorted_out([*ARRAYS, "transformed priors"]))
def test_predictions_have_the_slopes_of_differences_in_the_inputs(name):
    """At a point that is no mode; graphs have no formulas and say so."""
    gpm = get(name)
    best = pma.fit_laplace(gpm, point=gpm.unflatten(probe(gpm)), optimize=False).best
    width = np.ptp(gpm.X, axis=0)
    X_new = gpm.X[:2] + width * np.random.default_rng(5).uniform(0.1, 0.3, size=(2, len(width)))
    if name in GRAPHS:
        assert plug_in_gradients(best, X_new) is None
        return
    moments, slopes = plug_in_gradients(best, X_new)
    for got, expected in zip(moments, marginal_moments(best, X_new, "map"), strict=True):
        assert_allclose(got, expected, rtol=1e-12)
    rounding = 1e-11 * max(1, np.abs(gpm.y).max()) ** 2
    for i, x in enumerate(X_new):

        def at(z, x=x):
            found = marginal_moments(best, (x + width * z)[None], "map")
            return np.array([found.mean[0], found.variance[0]])

        for slope, expected in zip(slopes, central_difference(at, np.zeros(len(x))), strict=True):
            assert_allclose(slope[i] * width, expected, rtol=0, atol=2e-6 * np.abs(expected).max() + rounding)


BATCHES = {
    **MODELS,
    "row space": lambda: row_space(pma.embedding_gp(*data(6, 20), n_components=2).posterior()).posterior,
}


@pytest.mark.parametrize("name", sorted_out(BATCHES))
def test_many_parameters_have_the_densities_and_slopes_of_each_by_itself(name):
    posterior = get(name).posterior() if name in MODELS else BATCHES[name]()
    rng = np.random.default_rng(1)
    center, sd = posterior.prior_scale()
    thetas = center + 0.5 * np.minimum(sd, 1) * rng.normal(size=(12, posterior.n_parameters))
    for extra_noise in (0.0, 0.5):
        batch, single = posterior.log_likelihoods(thetas, extra_noise), posterior._one_by_one(thetas, extra_noise)
        assert np.isfinite(batch.value).all()
        assert_allclose(batch.value, single.value, rtol=1e-9, atol=1e-9)
        # Rounding errors grow with the condition number, here up to 1e5, and with the gradients of all particles.
        assert_allclose(batch.gradient, single.gradient, rtol=1e-8, atol=1e-9 * np.abs(single.gradient).max())
        assert_allclose(batch.in_noise, single.in_noise, rtol=1e-8, atol=1e-9 * np.abs(single.in_noise).max())
    each = [posterior.prior_value_and_gradient(theta) for theta in thetas]
    for got, expected in zip(posterior.log_priors(thetas), zip(*each, strict=True), strict=True):
        assert_allclose(got, expected, rtol=1e-12, atol=1e-12)
    # One by one where a covariance is not positive definite.
    overflowing = np.vstack([thetas, np.full(len(center), 400.0)])
    assert_allclose(posterior.values(overflowing), [posterior.value(theta) for theta in overflowing], rtol=1e-9)


@pytest.mark.parametrize("kernel", ["Matern52", "RQ", "SE + STEP[1] * (LIN + STEP[0])", "LIN * (PER0[1] + C)"])
def test_many_points_are_evaluated_in_blocks_of_rows(kernel):
    """Half of the covariance gives what all of it does."""
    X, y = data(230, 2)
    gpm = pma.ard_gp(X, y, kernel=kernel) if kernel == "Matern52" else pma.composite_gp(X, y, kernel)
    posterior = gpm.posterior()
    theta = posterior.prior.mean + 0.3 * posterior.prior.sd * np.random.default_rng(1).normal(size=gpm.n_parameters)
    found = posterior.log_likelihoods(theta[None], extra_noise=0.01)
    state = posterior.state(theta, extra_noise=0.01)
    assert_allclose(found.value, -state.factor.nll, rtol=1e-9)
    assert_allclose(found.gradient[0], -posterior.likelihood_gradient(state), rtol=1e-6, atol=1e-6)
    assert_allclose(found.in_noise, -0.5 * np.trace(state.factor.W), rtol=1e-8)


def test_the_slope_in_the_noise_is_that_of_the_likelihood():
    posterior = get("ExpQuad").posterior()
    theta, h = posterior.prior.mean[None], 1e-5
    ends = [posterior.log_likelihoods(theta, 0.3 + sign * h).value for sign in (1, -1)]
    assert_allclose(posterior.log_likelihoods(theta, 0.3).in_noise, (ends[0] - ends[1]) / (2 * h), rtol=1e-8)


def test_a_singular_covariance_spoils_its_own_particle_only():
    posterior = pma.ard_gp(np.zeros((5, 1)), np.arange(5.0)).posterior()
    thetas = np.array([[0.0, 0.0, -1.0], [0.0, 0.0, -400.0], [0.0, 800.0, -1.0]])
    found = posterior.log_likelihoods(thetas)
    assert np.isfinite(found.value).tolist() == [True, False, False]
    assert (found.value[1:] == -np.inf).all()
    assert not found.gradient[1:].any()


def test_a_users_covariance_that_ignores_some_or_all_parameters_is_evaluated_in_batches():
    rng = np.random.default_rng(7)
    X, y = np.column_stack([rng.uniform(-1, 1, 8), rng.integers(0, 2, 8)]), rng.normal(size=8)
    outputs = pm.gp.cov.Coregion(2, kappa=[1, 2], W=[[1], [0.5]], active_dims=[1])
    cov = pm.gp.cov.Matern52(2, ls=0.7, active_dims=[0]) * outputs
    gpm = users_gp(X, y, lambda: cov, mean=lambda: pm.gp.mean.Linear(coeffs=pm.Normal("slope", 0.0, 1.0, shape=2)))
    posterior, thetas = gpm.posterior(), rng.normal(size=(5, 2))
    for one, other in zip(
        posterior.log_likelihoods(thetas, 0.1)[:3], posterior._one_by_one(thetas, 0.1)[:3], strict=True
    ):
        assert_allclose(one, other, rtol=1e-9)


@pytest.mark.parametrize("name", ["ExpQuad", "transformed priors"])
def test_the_center_of_the_prior_is_its_mode(name):
    posterior = get(name).posterior()
    center, sd = posterior.prior_scale()
    # L-BFGS stops at a gradient of 1e-5 of the function's scale.
    assert_allclose(posterior.prior_value_and_gradient(center)[1], 0, atol=1e-3)
    assert_allclose(1 / sd**2, -np.diag(posterior.prior_hessian(center)), rtol=1e-8)


@pytest.mark.parametrize("kernel", ["MAT12", "PER0", *nightly("SE", "MAT32", "MAT52", "PER")])
def test_no_correlation_is_so_small_that_products_underflow(kernel):
    """Subnormal numbers slow a Cholesky factorisation down; the likelihood is that of PyMC all the same."""
    x = np.linspace(-1, 1, 30)[:, None]
    gpm = pma.composite_gp(x, np.sin(3 * x[:, 0]), kernel)
    posterior, theta = gpm.posterior(), gpm.posterior().prior_scale()[0].copy()
    theta[[name.startswith("log_lengthscale") for name in gpm.shapes]] = np.log(1e-2)
    batch, _ = posterior._batch(np.stack([theta, theta]))
    for values in (np.abs(posterior.state(theta).extra.K), np.abs(batch)):
        assert values[values > 0].min() > 1e-33
    logp = gpm.model.compile_logp(mode="FAST_COMPILE")(gpm.unflatten(theta))
    # See differences.py for Matérn 1/2.
    assert_allclose(posterior.value_and_gradient(theta)[0], logp, rtol=1e-6 if kernel == "MAT12" else 1e-10)


# Lines.

ROUGH = [name for name in ARRAYS if any(kernel in name for kernel in ("12", "32"))]


def matrix(gpm, theta, A, B):
    """The kernel between rows, from the embedded ones' distances or by the package's matrices."""
    posterior = gpm.posterior()
    if posterior.kernel is not None:
        return posterior.kernel.at(np.concatenate([theta, posterior.constants]), A, B).K
    theta = np.concatenate([theta, posterior.constants])
    R = posterior.embedding(theta)
    r = np.linalg.norm((A @ R.T)[:, None] - B @ R.T, axis=-1)
    scaled = {"52": np.sqrt(5), "32": np.sqrt(3)}
    [order] = [key for key in ("52", "32", "12", "") if key in gpm.description][:1]
    a = scaled.get(order, 1.0) * r
    shape = {"52": (1 + a + a * a / 3) * np.exp(-a), "32": (1 + a) * np.exp(-a), "12": np.exp(-a)}
    return np.exp(2 * theta[posterior.log_outputscale]) * shape.get(order, np.exp(-0.5 * r * r))


def coefficients(function, width=0.15, degree=20):
    """Of s^i t^j, by interpolation at Chebyshev's nodes in [-width, width]², and their rounding errors."""
    nodes = np.cos(np.pi * (np.arange(degree) + 0.5) / degree)
    grid = function(width * nodes, width * nodes)
    to_series = np.linalg.inv(chebyshev.chebvander(nodes, degree - 1))
    powers = np.zeros((degree, degree))
    for k in range(degree):
        powers[: k + 1, k] = chebyshev.cheb2poly(np.eye(degree)[k])[: k + 1]
    steps = width ** np.add.outer(np.arange(degree), np.arange(degree))
    # Of second derivatives in both arguments: degree⁴ times machine epsilon.
    return (powers @ to_series @ grid @ to_series.T @ powers.T) / steps, 2e-10 * abs(grid).max() / steps


def lines(name, seed=2):
    """A posterior, somewhere in its prior with lengthscales and periods near one, and points and directions."""
    posterior = get(name).posterior()
    theta = 0.3 * np.random.default_rng(1).normal(size=posterior.n_parameters) + 0.1
    return posterior, theta, np.random.default_rng(seed).normal(size=(4, 5, get(name).X.shape[1]))


@pytest.mark.parametrize("name", sorted_out(ARRAYS))
def test_coefficients_are_those_of_the_kernel_interpolated_along_both_lines(name):
    """A lower order gives the same coefficients and no others; kernels of rough functions have the first ones only."""
    posterior, theta, (a, b, u, v) = lines(name)
    # Far enough apart that a Matérn kernel is smooth between them.
    a, b, u, v = 0.3 * a, 1.2 + 0.3 * b, 0.5 * u, 0.5 * v
    highest = 1 if name in ROUGH else 2
    orders = list(product(range(highest + 1), repeat=2))
    found = posterior.lines(theta, a, b).along(u, v, (highest, highest))
    expected, rounding = coefficients(
        lambda s, t: matrix(get(name), theta, a[0] + np.multiply.outer(s, u[0]), b[0] + np.multiply.outer(t, v[0]))
    )
    for order in orders:
        got = np.broadcast_to(found.get(order, 0.0), 5)
        assert_allclose(got[0], expected[order], rtol=1e-9, atol=rounding[order])
        part = posterior.lines(theta, a, b).along(u, v, order)
        lower = set(product(range(order[0] + 1), range(order[1] + 1)))
        assert set(part) <= lower
        for key in lower:
            assert_allclose(np.broadcast_to(part.get(key, 0.0), 5), found.get(key, 0.0), rtol=1e-13)


def test_at_one_point_matern52_has_the_coefficients_of_its_expansion():
    """The kernel is 1 - 5/6 r² + 25/24 r⁴ + O(r⁵), of which s² t² takes nothing beyond r⁴."""
    posterior, theta, (a, _, u, v) = lines("Matern52, constant mean", 5)
    found = posterior.lines(theta, a[:1], a[:1]).along(u[0], v[0], (2, 2))
    lengthscales = np.exp(theta[posterior.kernel.column_indices])
    u, v = u[0] / lengthscales, v[0] / lengthscales
    uu, vv, uv = u @ u, v @ v, u @ v
    expected = {(0, 0): 1.0, (2, 0): -5 / 6 * uu, (0, 2): -5 / 6 * vv, (1, 1): 5 / 3 * uv}
    expected[2, 2] = 25 / 24 * (2 * uu * vv + 4 * uv**2)
    for key in product(range(3), repeat=2):
        # PyMC's r = √(s + 1e-12) leaves a relative 2e-6.
        assert_allclose(found.get(key, 0.0), found[0, 0] * expected.get(key, 0.0), rtol=1e-5, atol=1e-12)


@pytest.mark.parametrize(
    "name", ["Matern52, constant mean", "ExpQuad", "embedding Matern52, constant mean, user units"]
)
def test_coefficients_are_continuous_where_the_points_meet(name):
    posterior, theta, (a, away, u, v) = lines(name, 6)
    same = posterior.lines(theta, a, a).along(u, v, (2, 2))
    for distance in (1e-9, 1e-7, 1e-6, 1e-5):
        near = posterior.lines(theta, a + distance * away, a).along(u, v, (2, 2))
        for key in product(range(3), repeat=2):
            # The fourth derivatives of a Matérn 5/2 kernel have a cusp there.
            assert_allclose(near[key], same.get(key, 0.0), rtol=1e-4 + 30 * distance, atol=100 * distance + 1e-8)


def test_points_broadcast_against_each_other_and_directions_against_both():
    posterior, theta, (a, b, _, v) = lines("nested", 7)
    table = posterior.lines(theta, a[:, None], b).along(np.eye(3)[1], v, (1, 2))
    for i, j in product(range(5), repeat=2):
        one = posterior.lines(theta, a[i : i + 1], b[j : j + 1]).along(np.eye(3)[1], v[j : j + 1], (1, 2))
        for key in one:
            assert_allclose(np.broadcast_to(table[key], (5, 5))[i, j], one[key][0], rtol=1e-12, atol=1e-14)


@pytest.mark.parametrize("name", sorted_out(ARRAYS))
def test_kernels_without_curvature_are_refused_by_name(name):
    if name not in ROUGH:
        get(name).posterior().check_twice_differentiable()
        return
    with pytest.raises(ValueError, match=r'matern[13]2 have no second derivative.*"Matern52"'):
        get(name).posterior().check_twice_differentiable()
