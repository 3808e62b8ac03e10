"""Sample paths: their moments, their derivatives, and where they are largest."""

from itertools import product

import numpy as np
import pandas as pd
import pymc as pm
import pytest
import xarray as xr
from differences import central_difference
from nightly import nightly
from numpy.testing import assert_allclose, assert_array_equal
from scipy.stats import chi2_contingency
from users import Written

import pymc_active as pma
from pymc_active.paths import Paths, draw_paths, maximize_over_pool, maximize_paths
from pymc_active.paths.features import draw_on_basis, draw_waves, spread
from pymc_active.paths.maximizers import newton_step
from pymc_active.posterior.conditioned import ConditionedGP

pytestmark = pytest.mark.slow

NOISE = 0.1


class Unknown:
    """A posterior of which nothing is known but what every kernel has."""

    def __init__(self, posterior):
        self.wrapped = posterior

    def __getattr__(self, name):
        return getattr(self.wrapped, name)

    def by_arrays(self, theta, state=None):
        return self, theta, state


def model(kernel, X, y):
    if kernel == "embedding":
        return pma.embedding_gp(X, y, n_components=1, kernel="Matern52", mean="constant")
    if kernel in ("ExpQuad", "Matern52", "Matern32", "Matern12"):
        return pma.ard_gp(X, y, kernel=kernel, mean="linear")
    return pma.composite_gp(X, y, kernel)


def conditioned(kernel, n=6, D=1, *, noise=NOISE, seed=1, lengthscale=None, draw=False):
    """A GP with hyperparameters somewhere in its prior, given data on [0, 1]^D, or data that it draws itself."""
    rng = np.random.default_rng(seed)
    X = rng.uniform(size=(n, D))
    gpm = model(kernel, X, np.sin(5 * X.sum(1)) + 0.3)
    posterior = gpm.posterior()
    theta = posterior.prior_scale()[0] + 0.3 * rng.normal(size=posterior.n_parameters)
    # Of alpha by its prior far smaller: scales of every size, and no differences to check derivatives by.
    values = {"log_noise": np.log(noise), "log_period": np.log(0.6), "log_alpha": np.log(2.0), "location": 0.2}
    values |= {"log_width": np.log(0.2)} | ({} if lengthscale is None else {"log_lengthscale": np.log(lengthscale)})
    for i, label in enumerate(gpm.labels):
        theta[i] = next((value for name, value in values.items() if label.startswith(name)), theta[i])
    if not draw:
        return ConditionedGP(posterior, theta)
    K = exact_kernel(ConditionedGP(posterior, theta), X, X) + noise**2 * np.eye(n)
    y = ConditionedGP(posterior, theta).prior_mean(X)[0] + np.linalg.cholesky(K) @ rng.normal(size=n)
    return ConditionedGP(posterior.with_data(X, y), theta)


def unknown(gp):
    return ConditionedGP(Unknown(gp.posterior), gp.theta)


def exact_kernel(gp, A, B):
    """By the package's matrices, not its lines."""
    posterior = gp.posterior.wrapped if isinstance(gp.posterior, Unknown) else gp.posterior
    if posterior.kernel is not None:
        return posterior.kernel.at(np.concatenate([gp.theta, posterior.constants]), A, B).K
    return gp.covariance(A, B)


def exact_moments(gp, T):
    G = exact_kernel(gp, gp.X, gp.X) + np.diag(gp.noise_variance(gp.X))
    cross = exact_kernel(gp, gp.X, T)
    solved = np.linalg.solve(G, cross)
    mean = gp.prior_mean(T)[0] + (gp.y - gp.prior_mean(gp.X)[0]) @ solved
    return mean, exact_kernel(gp, T, T) - cross.T @ solved


def assert_moments(gp, n_features, batches=100, size=50, D=1, low=-0.2, high=1.2):
    """Means and covariances of the paths of one call within their standard errors, from batches with other features.

    If all shared their features all batches would err alike.
    """
    T = np.random.default_rng(2).uniform(low, high, size=(4, D))
    mean, covariance = exact_moments(gp, T)
    root = np.sqrt(np.diag(covariance) + 1e-12)
    box = np.full(D, low), np.full(D, high)
    draws = Paths(gp, batches * size, n_features, 1, *box).value(T).reshape(batches, size, -1)
    z = (draws - mean) / root
    means, products = z.mean(1), np.einsum("bsi,bsj->bij", z, z) / size
    for estimates, expected in ((means, 0.0), (products, covariance / np.multiply.outer(root, root))):
        error = np.abs(estimates.mean(0) - expected)
        # Of about 14 numbers one exceeds this in a thousand runs.
        assert (error < 4 * estimates.std(0, ddof=1) / np.sqrt(batches)).all()


OF_ONE_PART = ("ExpQuad", "Matern52", "Matern32", "RQ", "PER", "PER0", "LIN")
OF_ANY_WIDTH = (*OF_ONE_PART, "SE * LIN", "PER * RQ + LIN", "C + SE", "STEP[0] * SE + LIN")
OF_TWO_INPUTS = ("SE * LIN[0] * LIN", "(LIN + PER) * SE[0]", "SE[0] + SE[1]")


@pytest.mark.parametrize(
    ("kernel", "D"),
    [
        *(pytest.param(kernel, 1, marks=pytest.mark.nightly) for kernel in OF_ANY_WIDTH),
        *product((*OF_ANY_WIDTH, *OF_TWO_INPUTS), (2,)),
        ("embedding", 3),
    ],
)
def test_moments_are_those_of_the_posterior(kernel, D):
    assert_moments(conditioned(kernel, D=D), 200, D=D)


def test_moments_with_more_data_than_features_and_on_a_basis():
    assert_moments(conditioned("Matern52", n=60, lengthscale=0.2), 20)
    assert_moments(unknown(conditioned("SE * LIN", D=1)), 200, batches=25, size=200)


@pytest.mark.parametrize(
    ("kernel", "D", "n", "lengthscale"),
    [("Matern52", 1, 60, 0.2), *nightly(("Matern52", 2, 200, 0.3), ("ExpQuad", 2, 200, 0.3))],
)
def test_moments_of_many_paths_of_one_call_are_those_of_the_posterior(kernel, D, n, lengthscale):
    """With the default features, where the data leave about a thousandth of the prior variance."""
    X = np.random.default_rng(1).uniform(size=(n, D))
    gpm = pma.ard_gp(X, np.sin(5 * X.sum(1)), kernel=kernel)
    point = {"log_lengthscale": np.full(D, np.log(lengthscale)), "log_outputscale": 0.0, "log_noise": np.log(0.03)}
    T = np.random.default_rng(2).uniform(size=(100, D))
    mean, covariance = exact_moments(ConditionedGP(gpm.posterior(), gpm.flatten(point)), T)
    variance = np.diag(covariance)
    draws = draw_paths(point, model=gpm, n_paths=4000, random_seed=1)(T).to_numpy()
    # The largest of 100 errors; what groups of paths have in common adds a sixth to those of variances.
    assert (np.abs(draws.mean(0) - mean) < 4.5 * np.sqrt(variance / 4000)).all()
    assert_allclose(draws.var(0), variance, rtol=5 * np.sqrt(2 / 4000))


def test_one_set_of_features_shows_the_variance_that_many_data_leave():
    """Waves that are fast enough for it have a thousandth of the prior variance, less than one of 500 frequencies."""
    gp = conditioned("Matern52", n=200, D=2, noise=0.03, lengthscale=0.3)
    T = np.random.default_rng(2).uniform(size=(100, 2))
    exact, solved = np.diag(exact_moments(gp, T)[1]), gp.factor.solve(exact_kernel(gp, gp.X, T))
    found, errors = gp.posterior.kernel.terms(gp.theta, 2), []
    for seed in range(10):
        [waves] = spread(found, 1000, np.random.default_rng(seed), np.zeros(2), np.ones(2))
        missed = np.exp(1j * T @ waves.frequencies.T) - solved.T @ np.exp(1j * gp.X @ waves.frequencies.T)
        variance = np.square(np.abs(missed)) @ np.square(waves.amplitudes) + gp.noise_variance(gp.X) @ solved**2
        errors.append(variance / exact - 1)
    assert np.sqrt(np.mean(np.square(errors))) < 0.25


def test_moments_of_a_model_somebody_wrote_with_correlated_noise():
    X = np.random.default_rng(1).uniform(size=(8, 1))
    with pm.Model() as written:
        scale = pm.LogNormal("scale", 0, 1)
        gp = pm.gp.Marginal(cov_func=scale**2 * pm.gp.cov.Cosine(1, ls=2.0) * pm.gp.cov.Matern52(1, ls=0.6))
        noise = 0.1 * pm.gp.cov.Matern12(1, ls=0.3) + pm.gp.cov.WhiteNoise(0.1)
        gp.marginal_likelihood("y", X=X, y=np.sin(5 * X[:, 0]), sigma=noise)
    gpm, T = pma.from_marginal(gp, "y", model=written), np.array([[0.1], [0.5], [0.9]])
    paths = draw_paths({"scale_log__": 0.2}, model=gpm, n_paths=4000, bounds=[(0, 1)], random_seed=1)
    conditional = paths.parts[0].gp
    mean, variance = conditional.moments(T)
    draws = paths(T).to_numpy()
    assert (np.abs(draws.mean(0) - mean) < 4 * np.sqrt(variance / 4000)).all()
    # Paths share a basis, which is exact here, so that they are independent.
    assert_allclose(draws.var(0), variance, rtol=4 * np.sqrt(2 / 4000))


def test_paths_of_a_model_somebody_wrote_warn_outside_their_box():
    """Drawn for the box of the data, they die out: at 3 of [0, 1] nothing is left of an sd of one."""
    x = np.linspace(0, 1, 6)[:, None]
    with pm.Model() as written:
        gp = pm.gp.Marginal(cov_func=Written(1, ls=pm.LogNormal("ls", -1, 0.01)))
        gp.marginal_likelihood("y", X=pm.Data("X", x), y=pm.Data("values", np.sin(6 * x[:, 0])), sigma=0.05)
    gpm, point = pma.from_marginal(gp, "y", model=written), {"ls_log__": -1.0}
    paths = draw_paths(point, model=gpm, n_paths=400, random_seed=1)
    paths(x)
    for use in (lambda: paths([[3.0]]), lambda: paths.maximize([(0, 3)]), lambda: paths.maximize(np.array([[3.0]]))):
        with pytest.warns(pma.SamplingWarning, match="drawn for a box, by default of the data.* pass bounds="):
            use()
    paths = draw_paths(point, model=gpm, n_paths=400, bounds=[(0, 3)], random_seed=1)
    assert abs(paths([[3.0]]).std() - 1) < 4 / np.sqrt(2 * 400)


@pytest.mark.parametrize("D", [2, *nightly(1)])
def test_maxima_of_paths_that_are_nowhere_smooth(D):
    """A climb ends at the nearest ripple: two of three such maxima were below one of 4,096 random points."""
    rng = np.random.default_rng(5)
    X = rng.uniform(-1, 1, (20, D))
    gpm = pma.ard_gp(X, -3 * (X**2).sum(1), kernel="Matern12")
    point = {"log_lengthscale": np.zeros(D), "log_outputscale": 0.0, "log_noise": np.log(0.1)}
    paths = draw_paths(point, model=gpm, n_paths=60, bounds=[(-1, 1)] * D, random_seed=1)
    highest = paths(rng.uniform(-1, 1, (4096, D))).max("point")
    found = paths.maximize([(-1, 1)] * D, random_seed=1)
    assert (highest > found.f).mean() < 0.3
    assert_allclose(np.diagonal(paths(found.x)), found.f)


def test_the_prior_variance_of_a_stationary_kernel_is_exact_with_one_frequency():
    gp = conditioned("RQ")
    [term] = found = gp.posterior.kernel.terms(gp.theta, 1)
    features = spread(found, 2, np.random.default_rng(1), np.zeros(1), np.ones(1))
    assert [len(each.frequencies) for each in features] == [1]
    [waves], _ = draw_waves(features, 200_000, np.random.default_rng(2))
    variance = waves.value(np.array([[0.3], [5.0]])).var(0)
    assert_allclose(variance, term.variance, rtol=4 * np.sqrt(2 / 200_000))


def test_a_few_paths_share_features_and_others_have_their_own():
    gp, grid = conditioned("Matern52", lengthscale=0.05), np.linspace(0, 1, 200)[:, None]
    few, many = (Paths(gp, n_paths, 10, 1).value(grid) - gp.prior_mean(grid)[0] for n_paths in (25, 50))
    # Ten features of each group, and the kernel at six data.
    assert [np.linalg.matrix_rank(few), np.linalg.matrix_rank(many)] == [16, 26]


@pytest.mark.parametrize("relative_variance", [1e-4, 1e-6, 1e-8])
def test_paths_pass_through_data_of_little_noise(relative_variance):
    gp = conditioned("ExpQuad", n=30, D=2, noise=np.sqrt(relative_variance), lengthscale=0.4, draw=True)
    missed = Paths(gp, 20, 1000, 1).value(gp.X) - gp.y
    assert np.abs(missed).max() < 6 * np.sqrt(relative_variance)


def test_a_basis_says_once_how_much_it_misses():
    gp = unknown(conditioned("ExpQuad", D=2, lengthscale=0.02))
    with pytest.warns(UserWarning, match=r"miss over 5 % of the prior variance.*Raise n_features") as caught:
        paths = Paths(gp, 3, 100, 1, np.zeros(2), np.ones(2))
    assert len(caught) == 1
    assert 0.5 < paths.diagnostics["missed_variance"] < 1
    # That of a smooth kernel is small.
    smooth = conditioned("ExpQuad", D=1, lengthscale=0.4)
    _, diagnostics = draw_on_basis(smooth, 1, 1000, np.random.default_rng(1), np.zeros(1), np.ones(1))
    assert diagnostics["n_features"] < 25
    assert diagnostics["missed_variance"] < 1e-8


SUMS_AND_PRODUCTS = ("LIN * LIN * SE", "PER * RQ + LIN", "(PER0 + C) * LIN[0]", "STEP[1] * LIN[0] * (SE + C)")
OF_TWO = ("Matern52", "RQ", "PER", "LIN", *SUMS_AND_PRODUCTS, "(LIN + PER) * SE[0] * RQ")


@pytest.mark.parametrize(("kernel", "D"), [("ExpQuad", 3), ("embedding", 3), *product(OF_TWO, (2,))])
@pytest.mark.parametrize("known", [True, False])
# A basis of any quality has derivatives.
@pytest.mark.filterwarnings("ignore:basis functions")
def test_gradient_and_hessian_are_derivatives(kernel, D, known):
    gp, rng = conditioned(kernel, D=D, n=5, lengthscale=0.5), np.random.default_rng(4)
    paths = Paths(gp if known else unknown(gp), 60, 400, 1, np.zeros(D), np.ones(D))
    # Of groups with different features.
    X, which = rng.uniform(size=(4, D)), np.array([59, 0, 1, 59])
    value, gradient, hessian = paths.derivatives(X, which)
    assert_allclose(value, paths.value(X)[which, range(4)], rtol=1e-8)
    scale = np.abs(value).max()
    for i in range(4):
        at = which[i : i + 1]
        slope = central_difference(lambda x, at=at: paths.derivatives(x[None], at)[0][0], X[i], 2e-4)
        assert_allclose(gradient[i], slope, rtol=1e-5, atol=1e-5 * scale)
        curvature = central_difference(lambda x, at=at: paths.derivatives(x[None], at)[1][0], X[i], 2e-4)
        assert_allclose(hessian[i], curvature, rtol=1e-5, atol=1e-5 * max(scale, np.abs(hessian[i]).max()))


@pytest.mark.parametrize(("kernel", "D"), [("ExpQuad", 1), ("ExpQuad", 2), ("Matern52", 2), ("PER * RQ + LIN", 2)])
def test_maximisers_satisfy_the_conditions_of_a_maximum(kernel, D):
    gp = conditioned(kernel, n=7 * D, D=D, noise=1e-3, lengthscale=0.4 if D > 1 else 0.1, draw=True)
    low, high = np.full(D, 0.1), np.full(D, 0.9)
    paths = Paths(gp, 50, 500, 1, low, high)
    maxima = maximize_paths(paths, low, high, np.random.default_rng(1))
    value, slopes, hessian = paths.derivatives(maxima.X, np.arange(50))
    assert maxima.diagnostics["converged"].all()
    assert_allclose(maxima.values, value, rtol=1e-12)
    assert_allclose(maxima.slopes, slopes, atol=1e-12)
    assert np.abs(slopes[maxima.free]).max() < 1e-8 * np.abs(value).max()
    held = ~maxima.free
    assert (held == ((maxima.X == low) & (slopes < 0)) | ((maxima.X == high) & (slopes > 0))).all()
    assert held.any()
    for H, free in zip(hessian, maxima.free, strict=True):
        assert (np.linalg.eigvalsh(H[np.ix_(free, free)]) < 1e-6 * np.abs(H).max()).all()
    dense = np.random.default_rng(2).uniform(low, high, size=(4000, D))
    assert (maxima.values >= paths.value(dense).max(1)).all()


@pytest.mark.parametrize(("D", "lengthscale", "n"), [(2, 0.1**0.5, 20), (6, 0.5, 20)])
def test_many_other_starts_seldom_find_better_maxima(D, lengthscale, n):
    """The same climb from every one of 60 random points for each path."""
    gp = conditioned("ExpQuad", n=n, D=D, noise=1e-3, lengthscale=lengthscale, draw=True)
    paths = Paths(gp, 20, 500, 1)
    low, high = np.zeros(D), np.ones(D)
    maxima = maximize_paths(paths, low, high, np.random.default_rng(1))
    rng = np.random.default_rng(2)
    Z, which = rng.uniform(size=(60 * 20, D)), np.repeat(np.arange(20), 60)
    for _ in range(25):
        value, gradient, hessian = paths.derivatives(Z, which)
        there = np.clip(Z + newton_step(Z, gradient, hessian, np.full(len(Z), 0.1)), 0.0, 1.0)
        up = paths.derivatives(there, which)[0] > value
        Z = np.where(up[:, None], there, Z)
    best = value.reshape(20, 60).max(1)
    assert (best > maxima.values + 1e-6).mean() <= 0.05


@pytest.mark.parametrize(("kernel", "D"), [("Matern12", 2), ("Matern32", 2), ("embedding", 12)])
def test_rough_paths_are_climbed_safely_and_corners_of_many_inputs_are_seen(kernel, D):
    """Corners go to the boundary of the embedded box, where many maxima lie; a few of all 2¹² are on the screen."""
    is_rough = kernel != "embedding"
    gp = conditioned(kernel, n=20, D=D, **({"noise": 1e-3, "lengthscale": 0.3, "draw": True} if is_rough else {}))
    paths = Paths(gp, 20, 500 if is_rough else 200, 1)
    maxima = maximize_paths(paths, np.zeros(D), np.ones(D), np.random.default_rng(1))
    assert np.isfinite(maxima.slopes).all()
    assert ((maxima.X >= 0) & (maxima.X <= 1)).all()
    seen = gp.X if is_rough else np.random.default_rng(2).integers(2, size=(4096, D)).astype(float)
    assert (maxima.values >= paths.value(seen).max(1) - (0 if is_rough else 1e-12)).all()


def test_a_maximum_in_a_corner_is_exactly_there():
    """A steep plane: the linear kernel leaves nothing else."""
    X = np.random.default_rng(1).uniform(size=(30, 2))
    gpm = pma.composite_gp(X, 5 * X[:, 0] - 3 * X[:, 1], "LIN", mean="zero")
    theta = np.array([-4.0 if label == "log_noise" else 0.0 for label in gpm.labels])
    low, high = np.array([0.1, 0.3]), np.array([0.7, 0.9])
    maxima = maximize_paths(Paths(ConditionedGP(gpm.posterior(), theta), 5, 10, 1), low, high, np.random.default_rng(1))
    assert_array_equal(maxima.X, np.tile([0.7, 0.3], (5, 1)))
    assert not maxima.free.any()
    assert_allclose(maxima.slopes, np.tile([5, -3], (5, 1)), atol=0.2)


def test_places_of_maxima_have_their_exact_distribution():
    """On a grid, against draws of the joint posterior of all its points."""
    gp = conditioned("Matern52", n=5, noise=0.05, lengthscale=0.2)
    grid = np.linspace(0, 1, 101)[:, None]
    mean, covariance = exact_moments(gp, grid)
    root = np.linalg.cholesky(covariance + 1e-10 * np.eye(101))
    draws = mean[:, None] + root @ np.random.default_rng(1).normal(size=(101, 20_000))
    rows = np.concatenate([maximize_over_pool(Paths(gp, 50, 500, seed), grid)[0] for seed in range(80)])
    exact, ours = (np.histogram(row, np.arange(0, 111, 10))[0] for row in (draws.argmax(0), rows))
    used = exact + ours > 20
    assert chi2_contingency(np.stack([exact[used], ours[used]])).pvalue > 1e-3


@pytest.fixture(scope="module")
def yield_model():
    rng = np.random.default_rng(1)
    X = pd.DataFrame({"temperature": rng.uniform(20, 90, 12), "pressure": rng.uniform(1, 3, 12)})
    y = 100 + 40 * np.sin(X["temperature"].to_numpy() / 15) - 10 * (X["pressure"].to_numpy() - 2) ** 2
    gpm = pma.ard_gp(X, y, mean="constant", x_scale="unit", y_scale="standardize")
    point = {"log_lengthscale": np.log([0.2, 0.5]), "log_outputscale": 0.0, "mean_constant": 0.0, "log_noise": -5.0}
    return X, y, gpm, point


BOUNDS = [(20, 90), (1, 3)]


def test_drawn_paths_are_in_the_units_of_the_data(yield_model):
    X, y, gpm, point = yield_model
    paths = draw_paths(point, model=gpm, n_paths=5, random_seed=1)
    values = paths(X)
    assert dict(values.sizes) == {"path": 5, "point": 12}
    # As far from the data as noise is, at the most.
    assert_allclose(values, np.tile(y, (5, 1)), atol=5 * np.exp(-5) * y.std())
    gradient, hessian = paths.gradient(X.iloc[:3]), paths.hessian(X.iloc[:3])
    assert gradient.dims == ("path", "point", "input")
    assert list(gradient["input"]) == ["temperature", "pressure"]
    x = X.to_numpy()[:3]
    for i, step in enumerate(np.diag([70e-4, 2e-4])):
        for function, found in ((paths, gradient), (paths.gradient, hessian)):
            slope = (function(x + step) - function(x - step)) / (2 * step[i])
            assert_allclose(found[..., i], slope, rtol=1e-5, atol=1e-5 * np.abs(slope).max())


def test_drawn_paths_are_maximised_in_a_box_and_in_a_pool(yield_model):
    _, _, gpm, point = yield_model
    paths = draw_paths(point, model=gpm, n_paths=20, random_seed=1)
    best = paths.maximize(BOUNDS)
    places = best["x"].to_numpy()
    assert_allclose(np.diagonal(paths(places)), best["f"], rtol=1e-9)
    on_bound = (places == [20, 1]) | (places == [90, 3])
    assert on_bound[~best["free"].to_numpy()].all()
    assert (np.abs(best["slope"].to_numpy() * [70, 2])[best["free"].to_numpy()] < 1e-5).all()
    rows = np.random.default_rng(2).uniform([20, 1], [90, 3], (30, 2))
    pool = pd.DataFrame(rows, index=[f"trial {i}" for i in range(30)])
    among = paths.maximize(pool)
    xr.testing.assert_identical(among, paths.maximize(pool=pool))
    assert_array_equal(paths.maximize(pool=rows.tolist())["f"], among["f"])
    by_name, repeated = (paths.maximize(bounds=BOUNDS, random_seed=1) for _ in range(2))
    xr.testing.assert_identical(by_name, repeated)
    assert_allclose(by_name["f"], best["f"], rtol=1e-6)
    assert (among["f"].to_numpy() <= best["f"].to_numpy()).all()
    assert_allclose(among["x"], pool.loc[among["point"].to_numpy()])
    assert_array_equal(among["f"], paths(pool).max("point"))


def test_draws_of_the_hyperparameters_share_the_paths(yield_model):
    X, y, _, _ = yield_model
    fit = pma.fit_laplace(pma.ard_gp(X, y, x_scale="unit", y_scale="standardize"), random_seed=1, progressbar=False)
    paths, again = (draw_paths(fit, n_paths=7, draws=3, random_seed=1) for _ in range(2))
    assert [part.n_paths for part in paths.parts] == [2, 3, 2]
    assert "3 draw(s) of the hyperparameters" in repr(paths)
    assert_array_equal(paths(X), again(X))
    assert paths.maximize(BOUNDS)["x"].shape == (7, 2)


def test_paths_of_several_outputs_are_as_wide_as_predictions():
    """Codes of outputs mean nothing between whole numbers."""
    rng, C = np.random.default_rng(0), pm.gp.cov
    x, output = np.r_[np.linspace(0, 10, 15), np.linspace(0, 2, 5)], np.repeat([0.0, 1.0], [15, 5])
    y = np.where(output, 0.6 * np.cos(x), 1.2 * np.sin(x)) + 0.05 * rng.normal(size=20)
    with pm.Model() as model:
        W, kappa = pm.Normal("W", 0, 1, shape=(2, 1)), pm.HalfNormal("kappa", 1, shape=2)
        lengthscale = pm.LogNormal("lengthscale", 0, 0.2)
        cov = C.ExpQuad(2, lengthscale, active_dims=[0]) * C.Coregion(2, active_dims=[1], W=W, kappa=kappa)
        gp = pm.gp.Marginal(cov_func=cov)
        gp.marginal_likelihood("y", X=pm.Data("X", np.column_stack([x, output])), y=pm.Data("y_data", y), sigma=0.05)
    fit = pma.fit(pma.from_marginal(gp, model=model), random_seed=1, progressbar=False)
    at = np.array([[1.0, 1], [4.0, 1], [6.0, 1], [8.0, 1], [9.5, 1], [3.3, 0]])
    paths = np.asarray(pma.draw_paths(fit, n_paths=1000, draws=1000, random_seed=1)(at))
    assert_allclose(paths.std(0), np.sqrt(pma.predict(fit, at).f_variance), rtol=0.15, atol=0.02)
