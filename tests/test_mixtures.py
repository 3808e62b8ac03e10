"""Draws from the posterior, and what is predicted and asked from mixtures over them."""

import warnings
from itertools import pairwise

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.special import digamma, logsumexp, polygamma
from scipy.stats import norm
from traces import mutual_information, posterior_draws

import pymc_active as pma
from pymc_active.criteria.bald import Bald
from pymc_active.criteria.screening import screened
from pymc_active.inference.hmc import Halves, Places, jittered, trajectories
from pymc_active.predictions.ensembles import as_ensemble
from pymc_active.predictions.mixtures import draw_moments, marginal_moments, mixture

pytestmark = pytest.mark.slow

NEW = np.linspace(-2, 2, 7)[:, None]


def fit(gpm, **keywords):
    options = {"n_restarts": 3, "population": 0, "random_seed": 1, "progressbar": False}
    return pma.fit_laplace(gpm, **{**options, **keywords})


def skewed():
    """Four points say that the lengthscale is not short, and little more."""
    x = np.array([-1.0, -0.3, 0.4, 1.0])
    return fit(pma.ard_gp(x[:, None], 0.8 * x, priors={"log_outputscale": 0.0, "log_noise": np.log(0.2)}))


@pytest.fixture(scope="module")
def periodic():
    """A period, or one of its fractions."""
    x = np.array([0.0, 0.11, 0.2, 0.55, 0.61, 0.8])
    fixed = {"log_lengthscale_PER": 0.5, "log_outputscale_PER": 0.0, "log_noise": np.log(0.3)}
    gpm = pma.composite_gp(x[:, None], np.sin(20 * x), "PER", mean="zero", priors=fixed)
    # Six points allow many periods; all that matter are among the starts.
    return fit(gpm, start=[{"log_period_PER": np.array(v)} for v in np.linspace(-4.5, 1.0, 111)])


@pytest.fixture(scope="module")
def embedding():
    rng = np.random.default_rng(3)
    X, priors = rng.uniform(-1, 1, size=(5, 2)), {"log_outputscale": 0.0, "log_noise": np.log(0.3)}
    gpm = pma.embedding_gp(X, np.sin(2 * X[:, 0]) + X[:, 1] ** 2, n_components=2, prior_scale=1.5, priors=priors)
    with warnings.catch_warnings():
        # Five points hardly ask for a second component.
        warnings.filterwarnings("ignore", message="the Laplace fit is doubtful")
        return fit(gpm)


@pytest.fixture(scope="module")
def ard():
    rng = np.random.default_rng(4)
    X = rng.uniform(-2, 2, size=(9, 1))
    return fit(pma.ard_gp(50 * X, 300 * np.sin(2 * X[:, 0]), mean="constant", x_scale=(0, 50), y_scale=(0, 300)))


def grid(fit, *axes):
    """Points (N, P) and their posterior probabilities."""
    posterior = fit.best.posterior
    thetas = np.stack([part.ravel() for part in np.meshgrid(*axes, indexing="ij")], axis=1)
    log_density = posterior.values(thetas)
    return thetas, np.exp(log_density - logsumexp(log_density))


def test_particles_of_a_skewed_posterior_are_draws_from_it():
    """Mean, sd and distribution function against a grid; the Gaussian at the mode is far from them."""
    result = skewed()
    thetas, p = grid(result, np.linspace(-3, 6, 2000))
    thetas = thetas[:, 0]
    mean, sd = p @ thetas, np.sqrt(p @ (thetas - p @ thetas) ** 2)
    kurtosis, draws = p @ ((thetas - mean) / sd) ** 4, np.sort(posterior_draws(result, 400)[:, 0])
    assert abs(draws.mean() - mean) < 4 * sd / np.sqrt(400)
    assert abs(draws.var() / sd**2 - 1) < 4 * np.sqrt((kurtosis - 1) / 400)
    # Kolmogorov's statistic exceeds this in one of a thousand samples of 400.
    distance = np.abs(np.interp(draws, thetas, p.cumsum()) - (np.arange(400) + 0.5) / 400).max()
    assert distance < 1.95 / np.sqrt(400)
    gaussian = norm.cdf(thetas, result.theta[0], np.sqrt(result.covariance[0, 0]))
    assert np.abs(gaussian - p.cumsum()).max() > 1.95 / np.sqrt(400)


def test_particles_of_several_modes_have_their_shares(periodic):
    """Each mode gets its evidence's part, and the distribution function is that of a grid; the first screen pools."""
    weights = np.array([mode.weight for mode in periodic.modes])
    centers = np.array([mode.point["log_period_PER"].item() for mode in periodic.modes])
    order = np.argsort(centers)
    weights, centers = weights[order], centers[order]
    assert len(weights) > 1
    assert max(weights) < 0.9
    thetas, p = grid(periodic, np.linspace(-5, 2, 8000))
    thetas, draws = thetas[:, 0], posterior_draws(periodic, 200)[:, 0]
    # Basins meet where the density is lowest between modes.
    edges = [thetas[i + np.argmin(p[i:j])] for i, j in pairwise(np.searchsorted(thetas, centers))]
    basin, grid_basin = np.searchsorted(edges, draws), np.searchsorted(edges, thetas)
    shares, exact = np.bincount(basin, minlength=len(centers)) / len(draws), np.bincount(grid_basin, p)
    # A comb leaves little to chance, but some particles cross a low barrier, and Laplace's evidences are not exact.
    assert np.abs(shares - weights).sum() < 0.4
    assert np.abs(shares - exact).sum() < 0.4
    distance = np.abs(np.interp(np.sort(draws), thetas, p.cumsum()) - (np.arange(200) + 0.5) / 200).max()
    assert distance < 1.95 / np.sqrt(200)
    # No mode of a considerable share may be missing among the first few.
    first = posterior_draws(periodic, 128)[:16, 0]
    shares = np.bincount(np.abs(first[:, None] - centers).argmin(1), minlength=len(centers)) / 16
    assert (shares[weights > 0.18] > 0).all()
    # Sixteen independent draws are this far from seven shares in one of a hundred cases.
    assert np.abs(shares - weights).sum() < 0.95


def test_particles_of_an_embedding_have_the_posterior_of_its_distances(embedding):
    """RᵀR does not change under rotations; importance sampling from the prior is the reference."""
    gpm, rng = embedding.gpm, np.random.default_rng(5)
    prior = gpm.posterior().prior
    reference = prior.mean + prior.sd * rng.normal(size=(12_000, 4))
    log_weight = gpm.posterior().likelihood_values(reference)
    weight = np.exp(log_weight - logsumexp(log_weight))
    assert 1 / np.square(weight).sum() > 2000

    def distances(thetas):
        R = thetas.reshape(-1, 2, 2)
        return np.log(np.einsum("ski,skj->sij", R, R)[:, [0, 1], [0, 1]])

    expected = weight @ distances(reference)
    sd = np.sqrt(weight @ (distances(reference) - expected) ** 2)
    draws = distances(posterior_draws(embedding, 300))
    assert (np.abs(draws.mean(0) - expected) < 4 * sd * np.sqrt(1 / 300 + 1 / 2000)).all()
    assert (np.abs(draws.std(0) / sd - 1) < 0.3).all()


def test_particles_in_the_row_space_are_draws_there():
    rng = np.random.default_rng(6)
    X = rng.uniform(-1, 1, size=(5, 40))
    gpm = pma.embedding_gp(X, np.sin(X.sum(1)), n_components=1, priors={"log_noise": -2.0, "log_outputscale": 0.0})
    result = fit(gpm)
    draws = posterior_draws(result, 60)
    assert draws.shape == (60, len(result.best.z))
    # The last coordinate is the length of what no datum has, of which the prior is all that is known.
    assert 0.6 < draws[:, -1].std() / result.best.posterior.prior.sd[-1] < 1.5


@pytest.mark.parametrize("root", [np.array([0.8, 1.3]), np.array([[0.8, 0.0], [0.5, 1.2]])], ids=["diagonal", "matrix"])
def test_trajectories_leave_the_density_as_it_is(root):
    """Logarithms of gamma variables, whose moments are known, in coordinates that do not quite fit."""
    shape, rng = np.array([0.7, 2.0]), np.random.default_rng(10)

    def evaluate(theta):
        return theta @ shape - np.exp(theta).sum(1), shape - np.exp(theta)

    places, chains = Places(np.zeros((30, 2)), *evaluate(np.zeros((30, 2)))), []
    for _ in range(220):
        places, probability, _ = trajectories(evaluate, places, root, jittered(0.6, 30, rng), 4, rng)
        assert ((probability >= 0) & (probability <= 1)).all()
        chains.append(places.z)
    # Thirty independent chains, without their way from the start.
    batches = np.stack(chains[20:], axis=1)
    for power, expected in ((1, digamma(shape)), (2, polygamma(1, shape) + digamma(shape) ** 2)):
        means = (batches**power).mean(1)
        assert (np.abs(means.mean(0) - expected) < 4 * means.std(0, ddof=1) / np.sqrt(30)).all()


@pytest.mark.parametrize(("S", "P"), [(64, 20), (64, 40), (41, 1)])
def test_halves_of_particles_leave_the_density_as_it_is(S, P):
    """Each moves by the covariance of the other: with its own, of so few, particles would drift outwards."""
    rng = np.random.default_rng(S + P)
    root = np.linalg.cholesky(np.cov(rng.normal(size=(P, 2 * P))).reshape(P, P))
    precision, spreads = np.linalg.inv(root @ root.T), []

    def evaluate(z):
        return -0.5 * np.einsum("si,ij,sj->s", z, precision, z), -z @ precision

    for _ in range(6):
        z = rng.normal(size=(S, P)) @ root.T
        places = Places(z, *evaluate(z))
        for _ in range(20):
            halves = Halves(places.z, rng)
            one, other = (places.z[rows] for rows in halves.rows)
            assert len(one) + len(other) == S
            if 2 * P < S:
                shrunk = np.cov(other.T, bias=True).reshape(P, P) * ((1 - 2 * P / S) + 2 * P / S * np.eye(P))
                np.testing.assert_allclose(halves.roots[0] @ halves.roots[0].T, shrunk)
            places, _, _ = trajectories(evaluate, places, halves, jittered(0.5, S, rng), 4, rng)
        spreads.append(-2 * places.value / P)
    spreads = np.array(spreads)
    # Mean squares in units of the density, whose mean is one.
    assert abs(spreads.mean() - 1) < 4 * np.sqrt(2 / (P * spreads.size))
    x, momentum = rng.normal(size=(2, S, P))
    pulled, pushed = halves.times(x), halves.times(momentum, transpose=True)
    assert np.vdot(pulled, momentum) == pytest.approx(np.vdot(x, pushed))


def information_on_a_grid(p, target):
    """Entropies of mixtures by the trapezoidal rule, which converges geometrically here."""
    noise, found = p.noises * (target == "y"), []
    for means, variances, own in zip(p.means.T, (p.variances + noise).T, (p.conditional + noise).T, strict=True):
        sd = np.sqrt(variances)
        y = np.linspace((means - 10 * sd).min(), (means + 10 * sd).max(), 40_001)
        density = norm.pdf(y[:, None], means, sd) @ p.weights
        total = -np.trapezoid(density * np.log(np.maximum(density, 1e-300)), y)
        found.append(total - p.weights @ (0.5 * np.log(2 * np.pi * np.e * own)))
    return np.array(found)


@pytest.mark.parametrize("target", ["y", "f"])
def test_bald_of_points_is_their_mutual_information(ard, target):
    X, options = 50 * NEW, {"method": "draws", "draws": 10, "random_seed": 0}
    got = pma.active.bald(ard, X, target=target, **options).to_numpy()
    ensemble = as_ensemble(ard, **options)
    means, variances, noises = draw_moments(ard.gpm.posterior(), ensemble.thetas, X)
    expected = mutual_information(means, variances + noises * (target == "y"))
    assert_allclose(got, expected, rtol=0, atol=1e-8)
    assert_allclose(got, information_on_a_grid(mixture(ensemble, X), target), rtol=0, atol=1e-6)
    assert (got > 0).all()


def test_bald_over_modes_counts_their_disagreement(periodic):
    """The information about which mode it is comes on top of what each one still has to learn."""
    result, x = periodic, np.linspace(0, 1.5, 9)[:, None]
    p = mixture(result.ensemble, x)
    parts = [marginal_moments(expansion, x) for expansion in result.expansions]
    for k, part in enumerate(parts):
        assert_allclose(p.variances[k], part.variance)
        assert_allclose(p.conditional[k], 4 / 3 * part.plug_in)
    got = pma.active.bald(result, x, method="modes").to_numpy()
    assert_allclose(got, information_on_a_grid(p, "y"), rtol=0, atol=1e-6)
    within = p.weights @ np.stack([0.5 * np.log((q.variance + q.noise) / (4 / 3 * q.plug_in + q.noise)) for q in parts])
    assert (got > within - 1e-9).all()
    assert (got - within).max() > 0.05
    # It cannot exceed the entropy of the weights.
    assert (got - within).max() < -p.weights @ np.log(p.weights)


@pytest.mark.nightly
@pytest.mark.parametrize("seed", [0, 1, 2])
def test_large_pools_are_screened_by_a_few_draws(ard, seed):
    """The best by the first sixteen draws are scored by all, and the pick is one of these."""
    X = 50 * np.linspace(-3, 3, 1203)[:, None]
    scorer = Bald(method="draws", draws=40, random_seed=seed).prepare(ard)
    score = screened(scorer, X)
    ensemble = as_ensemble(ard, method="draws", draws=40, random_seed=seed)

    def by(some, rows):
        p = mixture(some, X[rows])
        return mutual_information(p.means, p.variances + p.noises)

    # Every row by a few draws, which tell the order; by all draws every fifth row.
    rows = np.arange(0, len(X), 5)
    coarse, exact = by(ensemble.first(16), slice(None)), by(ensemble, rows)
    best = np.argsort(-coarse, kind="stable")[:500]
    others, is_best = np.setdiff1d(np.arange(len(X)), best), np.isin(rows, best)
    assert 50 < is_best.sum() < 200
    assert_allclose(score[rows[is_best]], exact[is_best], rtol=0, atol=1e-8)
    assert (score[others] <= coarse[others] + 1e-8).all()
    assert score[others].max() <= score[best].max()
    assert np.abs(coarse[rows] - exact)[~is_best].max() > 1e-3
    # Small pools are not screened, nor what a user asks for.
    assert_allclose(screened(scorer, X[:300])[::5], exact[:60], rtol=0, atol=1e-8)
    public = pma.active.bald(ard, X, method="draws", draws=40, random_seed=seed)
    assert_allclose(public[::5], exact, rtol=0, atol=1e-8)
