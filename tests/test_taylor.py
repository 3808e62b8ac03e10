"""Kernels along lines: Taylor coefficients in both arguments, which derivatives of Gaussian processes are made of."""

from itertools import product

import numpy as np
import pytest
from numpy.polynomial import chebyshev
from numpy.testing import assert_allclose
from scipy.spatial.distance import cdist

import pymc_active as pma

D = 3
SMOOTH = [
    "ExpQuad",
    "Matern52",
    "SE",
    "RQ",
    "PER",
    "LIN",
    "SE + LIN",
    "SE * PER",
    "PER0",
    "LIN * (PER0[1] + C)",
    "SE + STEP[1] * (LIN + STEP[0])",
    "(SE[0] + LIN[1]) * RQ",
    "embedding",
]
ROUGH = ["Matern12", "Matern32"]


def posterior(kernel):
    rng = np.random.default_rng(0)
    X, y = rng.uniform(size=(4, D)), rng.normal(size=4)
    if kernel == "embedding":
        gpm = pma.embedding_gp(X, y, n_components=2, kernel="Matern52")
    elif kernel in ("ExpQuad", "Matern52", *ROUGH):
        gpm = pma.ard_gp(X, y, kernel=kernel)
    else:
        gpm = pma.composite_gp(X, y, kernel)
    return gpm.posterior()


def parameters(where):
    """Somewhere in the prior, with lengthscales and periods near one: differences along lines need no small steps."""
    return 0.3 * np.random.default_rng(1).normal(size=where.n_parameters) + 0.1


def matrix(where, theta, A, B):
    """The kernel between rows, by the package's matrices."""
    if where.kernel is not None:
        return where.kernel.at(np.concatenate([theta, where.constants]), A, B).K
    R = where.embedding(theta)
    a = np.sqrt(5 * cdist(A @ R.T, B @ R.T, "sqeuclidean"))
    return np.exp(2 * theta[where.log_outputscale]) * (1 + a + a * a / 3) * np.exp(-a)


def coefficients(function, width=0.15, degree=20):
    """Of s^i t^j, by interpolation at Chebyshev's nodes in [-width, width]², and their rounding errors."""
    nodes = np.cos(np.pi * (np.arange(degree) + 0.5) / degree)
    grid = function(width * nodes, width * nodes)
    to_series = np.linalg.inv(chebyshev.chebvander(nodes, degree - 1))
    series = to_series @ grid @ to_series.T
    powers = np.zeros((degree, degree))
    for k in range(degree):
        powers[: k + 1, k] = chebyshev.cheb2poly(np.eye(degree)[k])[: k + 1]
    steps = width ** np.add.outer(np.arange(degree), np.arange(degree))
    # Of second derivatives in both arguments: degree⁴ times machine epsilon.
    return (powers @ series @ powers.T) / steps, 3e-11 * abs(grid).max() / steps


@pytest.mark.parametrize("kernel", SMOOTH)
def test_coefficients_are_those_of_the_kernel_interpolated_along_both_lines(kernel):
    where = posterior(kernel)
    theta = parameters(where)
    rng = np.random.default_rng(2)
    # Far enough apart that a Matérn kernel is smooth between them.
    a, b, u, v = 0.3 * rng.normal(size=D), 1.2 + 0.3 * rng.normal(size=D), rng.normal(size=D), rng.normal(size=D)
    found = where.lines(theta, a[None], b[None]).along(u, v, (2, 2))

    expected, rounding = coefficients(
        lambda s, t: matrix(where, theta, a + np.multiply.outer(s, u), b + np.multiply.outer(t, v))
    )
    for i, j in product(range(3), repeat=2):
        assert_allclose(found.get((i, j), 0.0), expected[i, j], rtol=1e-9, atol=rounding[i, j])


@pytest.mark.parametrize("kernel", SMOOTH)
@pytest.mark.parametrize("order", [(0, 0), (0, 1), (1, 0), (0, 2), (1, 1), (2, 1)])
def test_a_lower_order_gives_the_same_coefficients_and_no_others(kernel, order):
    where = posterior(kernel)
    theta = parameters(where)
    rng = np.random.default_rng(3)
    a, b, u, v = rng.normal(size=(4, 5, D))
    at = where.lines(theta, a, b)
    full, part = at.along(u, v, (2, 2)), at.along(u, v, order)
    assert set(part) <= set(product(range(order[0] + 1), range(order[1] + 1)))
    for key in product(range(order[0] + 1), range(order[1] + 1)):
        assert_allclose(np.broadcast_to(part.get(key, 0.0), 5), full.get(key, 0.0), rtol=1e-13)


@pytest.mark.parametrize("kernel", ROUGH)
def test_kernels_of_rough_functions_have_their_first_derivatives(kernel):
    where = posterior(kernel)
    theta = parameters(where)
    rng = np.random.default_rng(4)
    a, b, u, v = 0.3 * rng.normal(size=D), 1.2 + 0.3 * rng.normal(size=D), rng.normal(size=D), rng.normal(size=D)
    found = where.lines(theta, a[None], b[None]).along(u, v, (1, 1))
    expected, rounding = coefficients(
        lambda s, t: matrix(where, theta, a + np.multiply.outer(s, u), b + np.multiply.outer(t, v))
    )
    for key in product(range(2), repeat=2):
        assert_allclose(found[key], expected[key], rtol=1e-9, atol=rounding[key])


def test_at_one_point_matern52_has_the_coefficients_of_its_expansion():
    """The kernel is 1 - 5/6 r² + 25/24 r⁴ + O(r⁵), of which s² t² takes nothing beyond r⁴."""
    where = posterior("Matern52")
    theta = parameters(where)
    rng = np.random.default_rng(5)
    a, u, v = rng.normal(size=(3, 1, D))
    found = where.lines(theta, a, a).along(u, v, (2, 2))

    lengthscales = np.exp(theta[where.kernel.column_indices])
    u, v = u[0] / lengthscales, v[0] / lengthscales
    uu, vv, uv, variance = u @ u, v @ v, u @ v, found[0, 0]
    expected = {
        (0, 0): 1.0,
        (2, 0): -5 / 6 * uu,
        (0, 2): -5 / 6 * vv,
        (1, 1): 5 / 3 * uv,
        (2, 2): 25 / 24 * (2 * uu * vv + 4 * uv**2),
    }
    for key in product(range(3), repeat=2):
        # PyMC's r = √(s + 1e-12) leaves a relative 2e-6.
        assert_allclose(found.get(key, 0.0), variance * expected.get(key, 0.0), rtol=1e-5, atol=1e-12)


@pytest.mark.parametrize("kernel", ["Matern52", "ExpQuad", "embedding"])
def test_coefficients_are_continuous_where_the_points_meet(kernel):
    where = posterior(kernel)
    theta = parameters(where)
    rng = np.random.default_rng(6)
    a, u, v, away = rng.normal(size=(4, 1, D))
    same = where.lines(theta, a, a).along(u, v, (2, 2))
    for distance in (1e-9, 1e-7, 1e-6, 1e-5):
        near = where.lines(theta, a + distance * away, a).along(u, v, (2, 2))
        for key in product(range(3), repeat=2):
            assert np.isfinite(near[key]).all()
            # The fourth derivatives of a Matérn 5/2 kernel have a cusp there.
            assert_allclose(near[key], same.get(key, 0.0), rtol=1e-4 + 30 * distance, atol=50 * distance + 1e-8)


def test_points_broadcast_against_each_other_and_directions_against_both():
    where = posterior("(SE[0] + LIN[1]) * RQ")
    theta = parameters(where)
    rng = np.random.default_rng(7)
    a, b, v = rng.normal(size=(4, D)), rng.normal(size=(3, D)), rng.normal(size=(3, D))
    table = where.lines(theta, a[:, None], b).along(np.eye(D)[1], v, (1, 2))
    for i, j in product(range(4), range(3)):
        one = where.lines(theta, a[i : i + 1], b[j : j + 1]).along(np.eye(D)[1], v[j : j + 1], (1, 2))
        for key in one:
            assert_allclose(np.broadcast_to(table[key], (4, 3))[i, j], one[key][0], rtol=1e-12, atol=1e-14)


@pytest.mark.parametrize(
    ("kernel", "name"), [("Matern12", "matern12"), ("Matern32", "matern32"), ("Matern32 embedding", "matern32")]
)
def test_kernels_without_curvature_are_refused_by_name(kernel, name):
    if "embedding" in kernel:
        X = np.random.default_rng(0).uniform(size=(4, D))
        where = pma.embedding_gp(X, np.sin(X[:, 0]), n_components=1, kernel="Matern32").posterior()
    else:
        where = posterior(kernel)
    with pytest.raises(ValueError, match=rf'{name} have no second derivative.*"Matern52"'):
        where.check_twice_differentiable()


@pytest.mark.parametrize("kernel", SMOOTH)
def test_smooth_kernels_are_not_refused(kernel):
    posterior(kernel).check_twice_differentiable()
