"""Gaussians cut off along their coordinates: expectation propagation, and quasi-random draws."""

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.special import log_ndtr, ndtr
from scipy.stats import truncnorm
from test_pes import problem

from pymc_active.criteria.maximum import constraints as maxima
from pymc_active.criteria.maximum.base import sample_optima
from pymc_active.criteria.maximum.domain import Domain, best_inside
from pymc_active.criteria.maximum.truncated import hazard, propagate, truncated_moments
from pymc_active.posterior.conditioned import ConditionedGP

# α, φ(α) / Φ(α) and the variance that is left, by mpmath with 60 digits.
HAZARDS = [
    (-1000000.0, 1000000.000001, 9.99999999994e-13),
    (-300.0, 300.00333325926337, 1.1110370438949582e-5),
    (-50.1, 50.119944207046457, 0.0003974555778652573),
    (-49.9, 49.920024016001274, 0.000400640319539289),
    (-30.0, 30.033259667433677, 0.001103771511890091),
    (-7.0, 7.1375456132265033, 0.018261911696622231),
    (-0.5, 1.1410777703680645, 0.26848040715587895),
    (0.0, 0.79788456080286536, 0.36338022763241866),
    (0.001, 0.79724805005643311, 0.3635982986311587),
    (2.0, 0.055247862678989959, 0.88645194831142355),
    (9.0, 1.0279773571668915e-18, 0.99999999999999999),
]


@pytest.mark.parametrize(("alpha", "mean", "variance"), HAZARDS)
def test_hazards_agree_with_many_digits(alpha, mean, variance):
    r, left = hazard(np.array(alpha))
    assert_allclose(r, mean, rtol=1e-13)
    assert_allclose(left, variance, rtol=1e-9)


def test_far_from_the_bound_nothing_is_cut_off():
    r, left = hazard(np.array([50.0, 1e5, np.inf]))
    assert_allclose(r, 0.0, atol=1e-300)
    assert_allclose(left, 1.0)


@pytest.mark.parametrize(("bound", "softness"), [(0.3, 0.0), (-4.0, 0.0), (5.0, 0.0), (0.3, 0.5), (8.0, 1e-8)])
def test_one_site_has_the_moments_of_the_cut_off_normal(bound, softness):
    mean, variance = -0.2, 1.7
    sites = propagate(*(np.array(a) for a in ([[mean]], [[[variance]]], [[bound]], [[softness]])))
    # z + noise is cut off; z is its regression on that.
    total = variance + softness
    cut = truncnorm((bound - mean) / np.sqrt(total), np.inf, mean, np.sqrt(total))
    share = variance / total
    assert_allclose(sites.mean, [[mean + share * (cut.mean() - mean)]], rtol=1e-8)
    assert_allclose(sites.covariance, [[[variance - share**2 * (total - cut.var())]]], rtol=1e-6)
    assert sites.converged.all()


def covariances(rng, S, k):
    root = rng.normal(size=(S, k, k + 2))
    return root @ root.transpose(0, 2, 1) / k


def test_moments_agree_with_natural_parameters():
    """The covariance is (V⁻¹ + precision)⁻¹, and the mean follows from the shifts."""
    rng = np.random.default_rng(1)
    V, m = covariances(rng, 20, 4), rng.normal(size=(20, 4))
    sites = propagate(m, V, np.zeros((20, 4)), np.full((20, 4), 0.1))
    inverse = np.linalg.inv(V)
    precision = inverse + sites.precision[:, :, None] * np.eye(4)
    assert_allclose(sites.covariance, np.linalg.inv(precision), rtol=1e-8)
    shift = np.einsum("sij,sj->si", inverse, m) + sites.shift
    assert_allclose(sites.mean, np.linalg.solve(precision, shift[..., None])[..., 0], rtol=1e-7)
    assert sites.converged.all()
    assert sites.n_sweeps < 20


@pytest.mark.parametrize("k", [2, 3, 7])
def test_moments_agree_with_sampling(k):
    """Means within 0.05 sd and variances within 5 %, for 95 % of random problems."""
    rng = np.random.default_rng(2)
    S, n = 20, 30_000
    # Correlations as mild as those of curvatures and height of Gaussian processes.
    V = covariances(rng, S, k) + 2 * np.eye(k)
    m, softness = rng.normal(size=(S, k)), np.zeros((S, k))
    softness[:, 0] = 0.05
    sites = propagate(m, V, np.zeros((S, k)), softness)
    standard, noise = rng.normal(size=(n, k)), rng.normal(size=(n, k))
    right = []
    for s in range(S):
        z = m[s] + standard @ np.linalg.cholesky(V[s]).T
        inside = (z + np.sqrt(softness[s]) * noise > 0).all(1)
        kept = z[inside]
        error = 4 / np.sqrt(len(kept))
        off = np.abs(sites.mean[s] - kept.mean(0)) / kept.std(0)
        ratio = np.diagonal(sites.covariance[s]) / kept.var(0)
        right.append((off < 0.05 + error).all() and (np.abs(ratio - 1) < 0.05 + 1.5 * error).all())
    assert np.mean(right) >= 0.95


def test_coordinates_without_bounds_or_variance_change_nothing():
    rng = np.random.default_rng(3)
    V, m = covariances(rng, 1, 2), rng.normal(size=(1, 2))
    alone = propagate(m, V, np.zeros((1, 2)), np.zeros((1, 2)))
    wider = np.zeros((1, 4, 4))
    wider[:, :2, :2], wider[:, 2, 2] = V, 3.0
    more = propagate(
        np.append(m, [[1.0, 0.0]], axis=1), wider, np.array([[0.0, 0.0, -np.inf, -np.inf]]), np.zeros((1, 4))
    )
    assert_allclose(more.mean[:, :2], alone.mean, rtol=1e-12)
    assert_allclose(more.covariance[:, :2, :2], alone.covariance, rtol=1e-12)
    assert_allclose(more.mean[:, 2:], [[1.0, 0.0]])
    assert_allclose(more.precision[:, 2:], 0.0)
    assert more.converged.all()


def test_a_problem_that_fails_is_marked_and_leaves_the_others_alone():
    rng = np.random.default_rng(4)
    V, m = covariances(rng, 2, 3), rng.normal(size=(2, 3))
    good = propagate(m[:1], V[:1], np.zeros((1, 3)), np.zeros((1, 3)))
    V[1, 1, 1] = -1.0
    both = propagate(m, V, np.zeros((2, 3)), np.zeros((2, 3)))
    # The sweeps go on for the failing one, within the tolerance of the other.
    assert_allclose(both.mean[0], good.mean[0], rtol=1e-7)
    assert not both.converged[1].all()


def test_a_bound_far_in_the_tail_keeps_its_digits():
    """Twenty sds out the cut-off normal is nearly exponential."""
    zero = np.zeros((1, 1))
    sites = propagate(zero, np.ones((1, 1, 1)), np.array([[20.0]]), zero)
    # By mpmath.
    assert_allclose(sites.mean, [[20.049753068527851]], rtol=1e-10)
    assert_allclose(sites.covariance, [[[0.0024632616150521636]]], rtol=1e-6)


def moments(mean, V, bound, softness):
    """Means and variances by quasi-random draws."""
    M, h, effective = truncated_moments(mean, V, bound, softness)
    after = V - V @ M @ V
    return mean + np.einsum("sij,sj->si", V, h), np.diagonal(after, axis1=1, axis2=2), effective


@pytest.mark.parametrize("correlation", [-0.9, -0.3, 0.3, 0.9, 0.999])
@pytest.mark.parametrize("mean", [[0.0, 0.0], [1.0, 0.0], [-1.0, 0.0], [-3.0, -3.0], [5.0, 5.0]])
def test_two_coordinates_have_the_moments_of_quadrature(correlation, mean):
    """Also where they are so correlated that expectation propagation is 10 % off."""
    V, mean = np.array([[[1.0, correlation], [correlation, 1.0]]]), np.array([mean])
    nodes, weights = np.polynomial.legendre.leggauss(80)
    found_mean, found_variance, _ = moments(mean, V, np.zeros((1, 2)), np.zeros((1, 2)))
    # The second coordinate is integrated analytically: cut off, given the first.
    low, high = max(0.0, mean[0, 0] - 9), max(mean[0, 0], 0) + 9
    z = low + (high - low) * (np.concatenate([nodes + 2 * i + 1 for i in range(10)])) / 20
    given, sd = mean[0, 1] + correlation * (z - mean[0, 0]), np.sqrt(1 - correlation**2)
    share = np.tile(weights, 10) * np.exp(-0.5 * (z - mean[0, 0]) ** 2 + log_ndtr(given / sd))
    share /= share.sum()
    r, left = hazard(given / sd)
    first, second = share @ z, share @ (given + sd * r)
    variances = share @ (z - first) ** 2, share @ ((given + sd * r - second) ** 2 + sd**2 * left)
    assert_allclose(found_mean[0], [first, second], atol=0.01 * np.sqrt(min(variances)))
    assert_allclose(found_variance[0], variances, rtol=0.03)


def test_draws_that_nothing_cuts_off_have_exact_moments():
    rng = np.random.default_rng(1)
    V, m = covariances(rng, 4, 5), rng.normal(size=(4, 5))
    M, h, effective = truncated_moments(m, V, np.full((4, 5), -np.inf), np.zeros((4, 5)))
    assert_allclose(M, 0.0, atol=1e-9)
    assert_allclose(h, 0.0, atol=1e-9)
    assert_allclose(effective, 2048)


def test_draws_of_little_weight_are_more():
    """Both large where they are nearly opposite: most draws of the first leave no room for the second."""
    V, low = np.array([[[1.0, -0.99], [-0.99, 1.0]]]), np.full((1, 2), 0.5)
    once = truncated_moments(np.zeros((1, 2)), V, low, np.zeros((1, 2)), 8192)
    assert once[2] < 2048
    M, h, effective = truncated_moments(np.zeros((1, 2)), V, low, np.zeros((1, 2)))
    assert effective > 50
    assert_allclose(h, once[1], rtol=0.05)
    # One that needs no more keeps what it has.
    both = truncated_moments(np.zeros((2, 2)), np.stack([V[0], np.eye(2)]), np.tile(low, (2, 1)), np.zeros((2, 2)))
    alone = truncated_moments(np.zeros((1, 2)), np.eye(2)[None], low, np.zeros((1, 2)))
    assert_allclose(both[0], [M[0], alone[0][0]])


def test_noise_softens_a_bound():
    """One coordinate with a soft bound, for which expectation propagation is exact."""
    problem = (np.array([[-0.2]]), np.array([[[1.7]]]), np.array([[0.3]]), np.array([[0.5]]))
    exact = propagate(*problem)
    mean, variance, _ = moments(*problem)
    assert_allclose(mean, exact.mean, atol=1e-3)
    assert_allclose(variance, exact.covariance[:, 0], rtol=5e-3)


def test_coordinates_without_variance_have_no_say():
    rng = np.random.default_rng(3)
    V, m = covariances(rng, 1, 2), rng.normal(size=(1, 2))
    wider = np.zeros((1, 3, 3))
    wider[:, :2, :2] = V
    M, h, _ = truncated_moments(m, V, np.zeros((1, 2)), np.zeros((1, 2)))
    more = truncated_moments(np.append(m, [[-1.0]], axis=1), wider, np.array([[0.0, 0.0, -np.inf]]), np.zeros((1, 3)))
    # The points of the two rules differ.
    assert_allclose(more[0][:, :2, :2], M, atol=0.03 * abs(M).max())
    assert_allclose(more[1][:, :2], h, atol=0.03 * abs(h).max())


def rejected(mean, V, bound, softness, rng, n=20_000):
    """Means, variances and number of draws, one coordinate after another by its cut-off normal, with weights."""
    W = V + np.diag(softness)
    L = np.linalg.cholesky(W)
    standard, weight = np.empty((n, len(mean))), np.ones(n)
    for i in range(len(mean)):
        lowest = (bound[i] - mean[i] - standard[:, :i] @ L[i, :i]) / L[i, i]
        weight *= ndtr(-lowest)
        standard[:, i] = truncnorm.ppf(rng.uniform(size=n), lowest, np.inf)
    weight /= weight.sum()
    u = mean + standard @ L.T
    z = mean + (u - mean) @ np.linalg.solve(W, V)
    first = weight @ z
    return first, weight @ (z - first) ** 2 + np.diag(V - V @ np.linalg.solve(W, V)), 1 / (weight @ weight)


@pytest.mark.parametrize(("D", "n", "lengthscale"), [(1, 4, 0.2), (2, 10, 0.32), (6, 20, 0.7)])
def test_heights_and_curvatures_of_maxima_agree_with_importance_sampling(D, n, lengthscale, monkeypatch):
    """Means within 0.05 sd and variances within 5 %, inside the box and on its faces."""
    gpm, point = problem(D, n, noise=0.03, lengthscale=lengthscale)
    gp = ConditionedGP(gpm.posterior(), gpm.flatten(point))
    rng = np.random.default_rng(6)
    domain = Domain(np.zeros(D), np.ones(D))
    [optima] = sample_optima([gp], domain, 8, 300, rng)
    asked = []
    monkeypatch.setattr(maxima, "propagate", lambda *arguments: asked.append(arguments) or propagate(*arguments))
    found = maxima.GPGivenMaxima(gp, optima.maxima, best=best_inside(gp, domain))
    assert found.ok.all()
    [arguments] = asked
    if D == 6:
        # Of many coordinates expectation propagation's are good enough.
        sites = propagate(*arguments)
        means, variances = sites.mean, np.diagonal(sites.covariance, axis1=1, axis2=2)
    else:
        means, variances, effective = moments(*arguments)
        assert (effective > 50).all()
    right = []
    for s in range(8):
        mean, variance, draws = rejected(*(argument[s] for argument in arguments), rng)
        assert draws > 1000
        error = 4 / np.sqrt(draws)
        off, ratio = np.abs(means[s] - mean) / np.sqrt(variance), variances[s] / variance
        right.append((off < 0.05 + error).all() and (np.abs(ratio - 1) < 0.05 + 1.5 * error).all())
        # In units of the prior's sd, which is one.
        assert_allclose(found.height_mean[s], means[s, 0], rtol=1e-10)
        assert_allclose(found.height_variance[s], variances[s, 0], rtol=1e-8)
    assert all(right)
