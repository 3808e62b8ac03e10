"""``fit_laplace``: the mode, the Gaussian around it, symmetries, evidence, and what is said about doubtful fits."""

import warnings
from itertools import product

import numpy as np
import pandas as pd
import pymc as pm
import pytest
from differences import central_difference
from nightly import nightly
from numpy.testing import assert_allclose, assert_array_equal
from scipy.optimize import minimize
from scipy.spatial.transform import Rotation
from scipy.special import logsumexp
from scipy.stats import multivariate_normal, norm, ortho_group
from users import users_gp

import pymc_active as pma
from pymc_active.laplace.curvature import FLOOR, invert
from pymc_active.laplace.symmetry import log_orbit_volume
from pymc_active.posterior.array import ArrayPosterior
from pymc_active.posterior.graph import GraphPosterior

pytestmark = pytest.mark.slow


def data(n=15, D=2, seed=1, noise=0.1):
    rng = np.random.default_rng(seed)
    X = rng.uniform(-1, 1, size=(n, D))
    return X, np.sin(3 * X[:, 0]) + 0.5 * X[:, -1] + noise * rng.normal(size=n)


def fit(gpm, **keywords):
    options = {"n_restarts": 4, "population": 0, "random_seed": 1, "progressbar": False}
    return pma.fit_laplace(gpm, **{**options, **keywords})


def expand(gpm, theta):
    return pma.fit_laplace(gpm, point=gpm.unflatten(np.asarray(theta, float)), optimize=False)


@pytest.fixture(scope="module")
def ard():
    return pma.ard_gp(*data(), mean="constant")


@pytest.fixture(scope="module")
def ard_fit(ard):
    return fit(ard)


def test_no_random_start_finds_a_better_mode(ard, ard_fit):
    """Sixty starts from the prior, by another optimiser; nor does population annealing."""
    posterior, rng = ard.posterior(), np.random.default_rng(2)

    def objective(theta):
        value, gradient = posterior.value_and_gradient(theta)
        return -value, -gradient

    center, sd = posterior.prior_scale()
    starts = center + sd * rng.normal(size=(60, len(center)))
    best = max(-minimize(objective, start, jac=True, method="BFGS").fun for start in starts)
    assert ard_fit.log_posterior >= best - 1e-9
    assert ard_fit.diagnostics["converged"]
    other = fit(ard, n_restarts=0, population=8)
    assert other.diagnostics["used_population"]
    assert_allclose(other.log_posterior, ard_fit.log_posterior, rtol=0, atol=1e-8)


def test_the_gaussian_and_its_draws_are_those_of_the_curvature_at_the_mode(ard_fit):
    assert np.abs(ard_fit.gradient).max() < 1e-8
    assert np.linalg.eigvalsh(ard_fit.hessian)[0] > 0
    Sigma, P, n = ard_fit.covariance, len(ard_fit.labels), 20_000
    assert_allclose(Sigma @ ard_fit.hessian, np.eye(P), atol=1e-10)
    evidence = ard_fit.log_posterior + 0.5 * P * np.log(2 * np.pi) - 0.5 * np.linalg.slogdet(ard_fit.hessian)[1]
    assert_allclose(ard_fit.log_evidence, evidence, rtol=1e-12)
    draws, sd = ard_fit.draw(n, random_seed=1), np.sqrt(np.diag(Sigma))
    assert np.all(np.abs(draws.mean(0) - ard_fit.theta) < 4.5 * sd / np.sqrt(n))
    standard_error = np.sqrt((np.outer(sd, sd) ** 2 + Sigma**2) / n)
    assert np.all(np.abs(np.cov(draws.T) - Sigma) < 4.5 * standard_error)


@pytest.mark.parametrize("population", [0, *nightly(4)])
def test_the_same_seed_gives_the_same_fit(ard, population):
    a, b, c = (fit(ard, random_seed=seed, population=population) for seed in (3, 3, 4))
    assert_array_equal(a.theta, b.theta)
    assert_array_equal(a.hessian, b.hessian)
    assert a.diagnostics == b.diagnostics
    # Another seed takes another way.
    assert a.theta.tobytes() != c.theta.tobytes()


def test_modes_are_distinct_ordered_and_weighted():
    """A period that can be mistaken for its multiples."""
    x = np.linspace(0, 1, 12)[:, None]
    gpm = pma.composite_gp(x, np.sin(25 * x[:, 0]), "PER", priors={"log_noise": -2.0})
    result = fit(gpm, n_restarts=16)
    values = [mode.log_posterior for mode in result.modes]
    assert len(result.modes) > 1
    assert values == sorted(values, reverse=True)
    assert min(-np.diff(values)) > 1e-3
    assert result.log_posterior == values[0]
    evidence = [mode.log_evidence for mode in result.modes]
    assert_allclose([m.weight for m in result.modes], np.exp(evidence - logsumexp(evidence)))
    for mode in result.modes:
        # Each is expanded at its own place.
        single = pma.fit_laplace(gpm, point=mode.point, optimize=False)
        assert_allclose(single.log_evidence, mode.log_evidence, rtol=1e-12)
        assert np.abs(single.gradient).max() < 1e-4


def test_a_warm_start_is_kept(ard, ard_fit):
    """Restarting from a fit, a point or points ends at the same mode without any restart."""
    theta = ard_fit.theta
    near = ard.unflatten(theta + 0.05)
    for start in (ard_fit, near, [near, ard_fit.point]):
        again = fit(ard, start=start, n_restarts=0)
        assert_allclose(again.theta, theta, rtol=0, atol=1e-7)
    assert_allclose(fit(ard, point=near, n_restarts=0).theta, theta, rtol=0, atol=1e-7)


def test_expanding_at_a_point_searches_for_nothing(ard):
    theta = np.array([0.2, 0.1, 0.3, 0.05, -1.0])
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="the Laplace fit is doubtful")
        there = expand(ard, theta)
    assert_array_equal(there.theta, theta)
    assert there.diagnostics["n_evaluations"] == 0
    posterior = ard.posterior()
    numerical = -central_difference(lambda t: posterior.value_and_gradient(t)[0], theta)
    assert_allclose(there.gradient, numerical, rtol=0, atol=1e-6)


@pytest.mark.nightly
def test_compile_arguments_ask_for_graphs():
    """Another route to the same expansion, compiled once for each set of arguments."""
    gpm, options = pma.ard_gp(*data(6, 1)), {"mode": "FAST_COMPILE"}
    expected, got = (
        pma.fit_laplace(gpm, point=gpm.unflatten(np.array([-0.5, 0.1, -1.5])), optimize=False, compile_kwargs=how)
        for how in (None, options)
    )
    assert isinstance(got.best.posterior, GraphPosterior)
    assert isinstance(expected.best.posterior, ArrayPosterior)
    assert gpm.posterior(options)._functions is got.best.posterior._functions
    assert_allclose(got.hessian, expected.hessian, rtol=0, atol=1e-9)
    assert_allclose(got.log_evidence, expected.log_evidence, rtol=1e-11)


def test_a_bounded_parameter_is_expanded_on_its_unconstrained_scale():
    """One HalfNormal sd: Laplace of its logarithm, Jacobian included, against a fine grid."""
    X, y = data(12, 1)
    result = fit(users_gp(X, y, lambda: pm.gp.cov.ExpQuad(1, ls=0.7), lambda: pm.HalfNormal("sigma", 1)))
    K = np.exp(-0.5 * np.square((X - X.T) / 0.7))

    def log_density(u):
        s = np.exp(u)
        likelihood = multivariate_normal(np.zeros(12), K + s**2 * np.eye(12)).logpdf(y)
        return likelihood + np.log(2) + norm.logpdf(s) + u

    [mode] = result.theta
    assert_allclose(result.log_posterior, log_density(mode), rtol=1e-10)
    step = 1e-4
    assert abs(log_density(mode + step) - log_density(mode - step)) / (2 * step) < 1e-6
    grid = np.linspace(mode - 2.5, mode + 2.5, 401)
    evidence = np.log(np.trapezoid(np.exp([log_density(u) for u in grid]), grid))
    # Skewness costs Laplace little in a single well-determined parameter.
    assert abs(result.log_evidence - evidence) < 0.05
    assert_allclose(result.constrained_point["sigma"], np.exp(mode))


# Exactly Gaussian posteriors.

FIXED = {"log_lengthscale": -0.4, "log_outputscale": 0.2, "log_noise": -1.6}


def augmented(X, Z, mean):
    """The covariance with the mean's N(0, 1) coefficients integrated out."""
    square = ((X[:, None] - Z) ** 2).sum(-1) / np.exp(2 * FIXED["log_lengthscale"])
    K = np.exp(2 * FIXED["log_outputscale"] - 0.5 * square) + 1
    return K + X @ Z.T if mean == "linear" else K


@pytest.mark.parametrize("mean", ["constant", "linear"])
def test_evidence_and_predictions_are_exact_where_the_posterior_is_gaussian(mean):
    """Only the mean is free; scaled outputs bring their Jacobian."""
    X, y = data(10)
    result, noise = fit(pma.ard_gp(X, y, mean=mean, priors=FIXED)), np.exp(2 * FIXED["log_noise"])
    G = augmented(X, X, mean) + noise * np.eye(10)
    exact = multivariate_normal(np.zeros(10), G).logpdf(y)
    assert_allclose(result.log_evidence, exact, rtol=0, atol=1e-10)
    scaled = fit(pma.ard_gp(X, y, mean=mean, priors=FIXED, y_scale=(0.3, 5.0)))
    exact = multivariate_normal(np.full(10, 0.3), 25 * G).logpdf(y)
    assert_allclose(scaled.log_evidence, exact, rtol=0, atol=1e-10)

    X_new = data(6, seed=3)[0]
    cross = augmented(X, X_new, mean)
    f_variance = np.diag(augmented(X_new, X_new, mean) - cross.T @ np.linalg.solve(G, cross))
    prediction = pma.predict(result, X_new, method="bbq")
    assert_allclose(prediction.f_mean, cross.T @ np.linalg.solve(G, y), rtol=0, atol=1e-10)
    assert_allclose(prediction.f_variance, f_variance, rtol=1e-9)
    assert_allclose(prediction.y_variance, f_variance + noise, rtol=1e-9)


def embedding(d, **keywords):
    """Three inputs and data from as many components as the model has, enough to determine all of them."""
    rng = np.random.default_rng(5)
    X = rng.uniform(-1, 1, size=(60, 3))
    R = np.linalg.qr(rng.normal(size=(3, 3)))[0][:d] * np.array([1.5, 1.2, 0.9])[:d, None]
    U = X @ R.T
    y = np.sin(2 * U).sum(1) + U[:, 0] * U[:, -1] + 0.05 * rng.normal(size=60)
    priors = {"log_outputscale": pm.Normal.dist(0.0, 1.0), "log_noise": pm.Normal.dist(-2.3, 1.0)}
    return pma.embedding_gp(X, y, n_components=d, priors=priors, **keywords)


@pytest.fixture(scope="module")
def embeddings():
    return {d: fit(embedding(d), n_restarts=6) for d in (1, 2, 3)}


@pytest.mark.parametrize(("d", "n_directions"), [(1, 0), (2, 1), (3, 3)])
def test_rotations_are_found(embeddings, d, n_directions):
    found = embeddings[d].diagnostics
    assert found["n_symmetry"] == n_directions
    assert found["n_floored"] == 0
    assert found["converged"]
    assert found["smallest_eigenvalue"] > 0.1
    given_lengthscale = np.delete(embeddings[d].gradient, embeddings[d].labels.index("log_lengthscale"))
    assert np.abs(given_lengthscale).max() < 1e-6
    said = f"embedding_gp(ExpQuad, d={d})", f"log evidence {embeddings[d].log_evidence:.2f}"
    assert all(text in repr(embeddings[d]) for text in said)
    assert (f"directions of symmetry {n_directions}" in repr(embeddings[d])) == (n_directions > 0)


@pytest.mark.parametrize("d", [2, 3])
def test_the_covariance_vanishes_along_rotations(embeddings, d):
    """The Hessian has no curvature there, its pseudo-inverse no variance, and draws do not turn."""
    result = embeddings[d]
    R, draws = result.point["R"], result.draw(100, random_seed=1) - result.theta
    for i, j in [(0, 1), (0, 2), (1, 2)][: d * (d - 1) // 2]:
        A = np.zeros((d, d))
        A[i, j], A[j, i] = 1, -1
        direction = np.zeros(len(result.labels))
        direction[: R.size] = (A @ R).ravel()
        assert np.abs(result.hessian @ direction).max() < 1e-6 * np.abs(result.hessian).max()
        assert np.abs(result.covariance @ direction).max() < 1e-12
        assert np.abs(draws @ direction).max() < 1e-10
    assert np.abs(draws).max() > 0.01
    inverse = np.linalg.pinv(result.hessian, rcond=1e-8, hermitian=True)
    assert_allclose(result.covariance, inverse, rtol=0, atol=1e-6 * np.abs(inverse).max())


@pytest.mark.parametrize("d", [1, 2, 3])
def test_turning_the_embedding_changes_nothing(embeddings, d):
    result = embeddings[d]
    gpm, X_new = result.gpm, np.random.default_rng(6).uniform(-1, 1, size=(7, 3))
    Q = -np.eye(1) if d == 1 else ortho_group.rvs(d, random_state=np.random.default_rng(7))
    turned = pma.fit_laplace(gpm, point={**result.point, "R": Q @ result.point["R"]}, optimize=False)
    # A condition number of about 1e5 leaves this much of the digits.
    assert_allclose(turned.log_posterior, result.log_posterior, rtol=0, atol=1e-9)
    assert_allclose(turned.log_evidence, result.log_evidence, rtol=0, atol=1e-6)
    a, b = pma.predict(result, X_new), pma.predict(turned, X_new)
    for name in a.data_vars:
        assert_allclose(a[name], b[name], rtol=1e-6, err_msg=name)


def test_components_with_priors_of_their_own_do_not_turn():
    """Another prior for each row of R breaks the symmetry, and no orbit is integrated; one for each input keeps it."""
    broken = fit(embedding(2, prior_scale=np.array([[1.0] * 3, [0.3] * 3]))).diagnostics
    assert broken["n_symmetry"] == 0
    assert broken["log_orbit_volume"] == 0.0
    assert fit(embedding(2, prior_scale=[2.0, 1.0, 0.5]), n_restarts=6).diagnostics["n_symmetry"] == 1


def matrix_with(singular_values, d, D=4):
    rng = np.random.default_rng(8)
    left = np.linalg.qr(rng.normal(size=(d, d)))[0][:, : len(singular_values)]
    right = np.linalg.qr(rng.normal(size=(D, D)))[0][: len(singular_values)]
    return left @ np.diag(singular_values) @ right


def plane_rotation(angle):
    return np.array([[np.cos(angle), -np.sin(angle)], [np.sin(angle), np.cos(angle)]])


def test_volumes_of_orbits_of_one_component():
    """A number has its negative, a vector of length s describes a sphere of area 4 pi s²."""
    assert_allclose(np.exp(log_orbit_volume(np.array([1.7]), 1)), 2)
    assert_allclose(np.exp(log_orbit_volume(np.array([1.5]), 3)), 4 * np.pi * 1.5**2)


# At full rank a reflection leads to a second circle, at rank one into the first.
@pytest.mark.parametrize(("singular_values", "components"), [([2.0, 0.7], 2), ([1.0, 1.0], 2), ([1.3], 1)])
def test_volume_of_an_orbit_in_two_dimensions(singular_values, components):
    """The length of the curve that R describes when it is turned once."""
    R = matrix_with(singular_values, 2)
    curve = np.array([(plane_rotation(angle) @ R).ravel() for angle in np.linspace(0, 2 * np.pi, 20_001)])
    length = components * np.linalg.norm(np.diff(curve, axis=0), axis=1).sum()
    # A polygon is short by (step)²/24.
    assert_allclose(np.exp(log_orbit_volume(np.array(singular_values), 2)), length, rtol=1e-7)


@pytest.mark.parametrize(("singular_values", "components"), [([2.0, 1.0, 0.6], 2), ([1.5, 0.8], 1)])
def test_volume_of_an_orbit_in_three_dimensions(singular_values, components):
    """The surface integral over Euler angles zyz, with numerical tangents."""
    R = matrix_with(singular_values, 3)
    nodes, weights = np.polynomial.legendre.leggauss(12)
    total, turns = 0.0, 2 * np.pi * np.arange(4) / 4
    for b, weight in zip(np.pi / 2 * (nodes + 1), np.pi / 2 * weights, strict=True):
        for a, c in product(turns, turns):
            J = central_difference(
                lambda t: (Rotation.from_euler("ZYZ", t).as_matrix() @ R).ravel(), np.array([a, b, c])
            )
            total += weight * (2 * np.pi / 4) ** 2 * np.sqrt(np.linalg.det(J.T @ J))
    # Differences are good to 1e-9, twelve nodes integrate sin(b) to 1e-15.
    volume = np.exp(log_orbit_volume(np.array(singular_values), 3))
    assert_allclose(volume, components * total, rtol=1e-7)


@pytest.mark.parametrize(("d", "volume"), [(2, 4 * np.pi), (3, 16 * np.pi**2)])
def test_evidence_of_an_embedding_in_triangular_coordinates(embeddings, d, volume):
    """R = QT with T upper triangular: Q integrates to vol O(d), T has no symmetry left.

    The leading order of Laplace's method does not depend on the coordinates, with the Jacobian
    t₁₁^(d-1) t₂₂^(d-2) ... of the mode.
    """
    result = embeddings[d]
    T = np.linalg.qr(result.point["R"])[1]
    turned = pma.fit_laplace(result.gpm, point={**result.point, "R": T}, optimize=False)
    is_free = np.ones(len(result.labels), bool)
    is_free[: T.size] = np.triu(np.ones(T.shape, bool)).ravel()
    _, log_determinant = np.linalg.slogdet(turned.hessian[np.ix_(is_free, is_free)])
    evidence = turned.log_posterior + 0.5 * is_free.sum() * np.log(2 * np.pi) - 0.5 * log_determinant
    evidence += np.log(volume) + np.arange(d - 1, -1, -1) @ np.log(np.abs(np.diag(T)))
    assert_allclose(result.log_evidence, evidence, rtol=0, atol=1e-6)


def test_negative_curvature_is_floored_counted_and_warned_of_once():
    """Between a wiggly and a noisy explanation of the data."""
    rng, x = np.random.default_rng(3), np.linspace(-1, 1, 12)[:, None]
    gpm = pma.ard_gp(x, np.sin(8 * x[:, 0]) + 0.4 * rng.normal(size=12))
    with pytest.warns(UserWarning, match=r"does not curve downwards along 1 direction\(s\)") as caught:
        result = expand(gpm, [-1.0, 0.0, -1.0])
    assert len(caught) == 1
    assert result.diagnostics["n_floored"] == 1
    assert result.diagnostics["smallest_eigenvalue"] < 0
    assert len(result.diagnostics["warnings"]) == 1
    assert np.linalg.eigvalsh(result.covariance)[0] > 0
    # Directions of positive curvature keep it; the other has a fraction of the prior's, whose sds are one.
    values, vectors = np.linalg.eigh(result.hessian)
    variances = np.einsum("pi,pq,qi->i", vectors, result.covariance, vectors)
    assert_allclose(variances, [1 / FLOOR, *(1 / values[1:])], rtol=1e-9)


@pytest.mark.parametrize("free", [True, False], ids=["all free", "only R free"])
def test_the_search_leaves_a_saddle(free):
    """At R = 0 the gradient in R vanishes by symmetry, and an optimiser that starts there stays there."""
    X, y = data(20, 1)
    priors = None if free else {"log_outputscale": 0.0, "log_noise": -1.5}
    gpm = pma.embedding_gp(X, y, n_components=1, priors=priors)
    start = {name: np.zeros(shape) for name, shape in gpm.shapes.items()}
    result = fit(gpm, point=start, n_restarts=0)
    assert abs(result.point["R"].item()) > 0.5
    assert result.diagnostics["n_floored"] == 0
    assert result.diagnostics["smallest_eigenvalue"] > 0
    assert_allclose(result.log_posterior, fit(gpm).log_posterior, rtol=0, atol=1e-8)


def test_the_floor_is_a_fraction_of_the_prior_precision():
    hessian = np.diag([4.0, 1e-20, -3.0])
    curvature = invert(hessian, np.empty((0, 3)), np.diag([1.0, 2.0, 50.0]))
    covariance = curvature.root @ curvature.root.T
    assert_allclose(covariance, np.diag([0.25, 1 / (FLOOR * 2), 1 / (FLOOR * 50)]), rtol=1e-12)
    assert curvature.n_floored == 2
    assert_allclose(curvature.log_determinant, np.log([4, FLOOR * 2, FLOOR * 50]).sum())


def test_a_nearly_singular_covariance_is_warned_of_once():
    X, y = data(8, 1)
    X[4], y[4] = X[3], y[3]
    gpm = pma.ard_gp(X, y, priors={"log_noise": np.log(1e-6)})
    with pytest.warns(UserWarning, match=r"nearly singular .* 1 repeated row") as caught:
        result = expand(gpm, [-0.5, 0.0])
    assert len(caught) == 1
    assert result.diagnostics["condition_number"] > 1e12
    assert result.diagnostics["n_duplicate_rows"] == 1


def test_condition_number_and_duplicates_of_a_sound_fit(ard, ard_fit):
    X, point = ard.X, ard_fit.point
    square = (((X[:, None] - X) / np.exp(point["log_lengthscale"])) ** 2).sum(-1)
    K = np.exp(2 * point["log_outputscale"] - 0.5 * square) + np.exp(2 * point["log_noise"]) * np.eye(len(X))
    exact = np.linalg.cond(K, 1)
    # LAPACK's estimate is a lower bound, hardly ever by more than a factor of three.
    assert exact / 3 < ard_fit.diagnostics["condition_number"] <= exact * (1 + 1e-8)
    assert ard_fit.diagnostics["n_duplicate_rows"] == 0
    assert ard_fit.diagnostics["warnings"] == []


def test_an_undetermined_component_is_warned_of():
    """One relevant direction, two components."""
    rng = np.random.default_rng(5)
    X = rng.uniform(-1, 1, size=(20, 3))
    y = np.sin(3 * X[:, 0]) + 0.1 * rng.normal(size=20)
    gpm = pma.embedding_gp(X, y, n_components=2)
    with pytest.warns(UserWarning, match="smallest singular value of R is below") as caught:
        fit(gpm, n_restarts=6)
    assert len(caught) == 1


def test_a_point_where_nothing_is_finite_is_refused():
    X, y = data(8, 1)
    gpm = pma.ard_gp(np.repeat(X, 2, axis=0), np.repeat(y, 2), priors={"log_noise": -60.0})
    with pytest.raises(ValueError, match="not finite at this point"):
        expand(gpm, [0.0, 0.0])
    with pytest.raises(ValueError, match="not finite at any start"):
        fit(gpm)


@pytest.mark.parametrize("expression", ["SE", "PER", "LIN + RQ", "MAT12 * MAT32[1]"])
@pytest.mark.parametrize("size", [-900.0, 900.0])
def test_absurd_parameters_have_no_density_and_no_warning(expression, size):
    """A line search may try anything; exp of it overflows or vanishes."""
    posterior = pma.composite_gp(*data(6), expression).posterior()
    for index in range(posterior.n_parameters):
        theta = np.zeros(posterior.n_parameters)
        theta[index] = size
        value, gradient = posterior.value_and_gradient(theta)
        assert value < -1e4
        assert np.isfinite(gradient).all()


def test_points_and_trees_are_by_name():
    """``point`` is unconstrained, ``constrained_point`` is in the user's space with Deterministics, fixed or not."""
    X, y = data(9)
    frame = pd.DataFrame(X, columns=["a", "b"])
    result = fit(pma.ard_gp(frame, 10 * y, y_scale=(0, 10), priors={"log_outputscale": -0.1}))
    assert result.labels == ["log_lengthscale[0]", "log_lengthscale[1]", "log_noise"]
    assert set(result.point) == {"log_lengthscale", "log_noise"}
    constrained = result.constrained_point
    assert_allclose(constrained["lengthscale"], np.exp(result.point["log_lengthscale"]))
    assert_allclose(constrained["noise"], 10 * np.exp(result.point["log_noise"]))
    assert_allclose(constrained["log_noise"], result.point["log_noise"])
    assert_allclose(constrained["outputscale"], 10 * np.exp(-0.1))
    tree = result.to_datatree(draws=50, random_seed=1)
    assert {"posterior", "fit", "observed_data", "constant_data"} <= set(tree.children)
    posterior = tree["posterior"]
    assert posterior["lengthscale"].dims == ("chain", "draw", "input")
    assert list(posterior["input"].to_numpy()) == ["a", "b"]
    assert dict(posterior.sizes) == {"chain": 1, "draw": 50, "input": 2}
    assert_array_equal(tree["fit"]["mean_vector"], result.theta)
    assert_array_equal(tree["fit"]["covariance_matrix"], result.covariance)
    assert list(tree["fit"]["rows"].to_numpy()) == result.labels
    assert_array_equal(tree["observed_data"]["y"], 10 * y)
    assert_array_equal(tree["constant_data"]["X"], X)
    assert_allclose(posterior["noise"], 10 * np.exp(posterior["log_noise"]))
    assert_allclose(posterior["outputscale"], np.full((1, 50), 10 * np.exp(-0.1)))
    assert np.ptp(posterior["noise"].to_numpy()) > 0


def test_given_is_the_expansion_for_other_data(ard, ard_fit):
    more = data(20, seed=11)
    try:
        ard.set_data(*more)
        expected = expand(ard, ard_fit.theta)
    finally:
        ard.set_data(*data())
    other = ard_fit.given(*more)
    assert_array_equal(other.theta, ard_fit.theta)
    assert_allclose(other.hessian, expected.hessian, rtol=1e-12)
    assert_array_equal(ard.y, data()[1])


@pytest.mark.nightly
def test_a_learned_lengthscale_has_the_highest_evidence():
    """Against fits in which it is known; at the joint maximum of the density the evidence is 5 nats lower."""
    X = np.random.default_rng(0).uniform(-1, 1, size=(40, 4))
    y = np.sin(2 * X[:, 0] - X[:, 1]) * np.cos(3 * X[:, 2])
    fit = pma.fit_laplace(pma.embedding_gp(X, y, n_components=2), n_restarts=4, random_seed=0, progressbar=False)
    point = fit.point
    best = float(point.pop("log_lengthscale"))

    def evidence(value):
        gpm = pma.embedding_gp(X, y, n_components=2, priors={"log_lengthscale": value})
        start = point | {"R": point["R"] * np.exp(value - best)}
        given = pma.fit_laplace(gpm, start=start, n_restarts=0, population=0, progressbar=False)
        return given, given.log_evidence - value**2 / 2

    assert evidence(best)[1] > max(evidence(best + step)[1] for step in (-0.3, 0.3))
    given = evidence(best)[0]
    assert_allclose(given.log_posterior + norm.logpdf(best), fit.log_posterior, atol=1e-6)
    # The integral over the lengthscale, of the evidences with its prior.
    values = best + np.linspace(-1.5, 1.5, 31)
    integral = logsumexp([evidence(value)[1] for value in values]) + np.log(0.1) - np.log(2 * np.pi) / 2
    assert_allclose(fit.log_evidence, integral, atol=0.5)
