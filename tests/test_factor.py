"""Solves with the Cholesky factor, by products where these are as good, beside SciPy's."""

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.linalg import solve_triangular

from pymc_active.posterior.factor import Factor, factor_batch, factor_in_place


@pytest.mark.parametrize("noise", [1e-2, 1e-7, 1e-11])
@pytest.mark.parametrize("m", [1, 30, 81, 500])
def test_explained_variances_keep_the_digits_of_a_triangular_solve(noise, m):
    """With little noise a variance is the small difference of two numbers near one."""
    x, z = np.linspace(0, 1, 40)[:, None], np.linspace(0, 1, m)
    cross = np.exp(-0.5 * np.square((x - z) / 0.3))
    factor = Factor(np.exp(-0.5 * np.square((x - x.T) / 0.3)) + noise * np.eye(40), np.ones(40))
    exact = solve_triangular(factor.L, cross, lower=True)
    explained, error = np.square(factor.half_solve(cross)).sum(0), max(1e-5 * noise, 1e-14)
    assert_allclose(explained, np.square(exact).sum(0), rtol=0, atol=error)
    assert_allclose(factor.half_solve(cross[:, 0]), exact[:, 0], atol=1e-8)
    half, whole = factor.solve_many(cross)
    assert_allclose(half, exact, atol=1e-8)
    assert_allclose(whole, solve_triangular(factor.L, exact, lower=True, trans=1), rtol=0, atol=1e-4 * abs(whole).max())


@pytest.mark.parametrize("gradient", [True, False])
@pytest.mark.parametrize("bad", ["none", "indefinite", "nearly singular", "not finite"])
@pytest.mark.parametrize("n", [1, 3, 12, 16, 17])
def test_factors_of_a_batch_are_those_of_each_matrix(n, bad, gradient):
    """Whether NumPy takes all at once or not, and whatever one of them is."""
    rng = np.random.default_rng(n)
    roots = np.tril(rng.normal(size=(5, n, n))) + 3 * np.eye(n)
    G, residuals = roots @ roots.swapaxes(1, 2), rng.normal(size=(5, n))
    if bad != "none":
        G[2] = {"indefinite": -np.eye(n), "nearly singular": np.full((n, n), 1.0), "not finite": np.nan}[bad]
    if bad == "nearly singular" and n > 1:
        G[2] += 1e-14 * np.eye(n)
    each = G.copy()
    expected = [factor_in_place(g, r, gradient) for g, r in zip(each, residuals, strict=True)]
    alphas, log_roots = factor_batch(G, residuals, gradient)
    assert_allclose(alphas, [alpha for alpha, _ in expected], rtol=1e-8, atol=1e-10)
    assert_allclose(log_roots, [root for _, root in expected], rtol=1e-10)
    assert np.isnan(log_roots[2]) == (bad in ("indefinite", "not finite") or (bad == "nearly singular" and n > 1))
    if gradient:
        sound = np.isfinite(log_roots)
        assert_allclose(np.tril(G[sound]), np.tril(each[sound]), rtol=1e-8, atol=1e-10)
