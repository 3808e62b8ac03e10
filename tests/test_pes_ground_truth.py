"""Information about the place of a maximum, by rejection sampling in ``benchmarks``; a source archive has none."""

import sys
from pathlib import Path

import numpy as np
import pytest
from nightly import nightly
from numpy.testing import assert_allclose
from scipy.stats import spearmanr
from test_pes import problem

from pymc_active.criteria.maximum.pes import pes
from pymc_active.posterior.conditioned import ConditionedGP

sys.path.insert(0, str(Path(__file__).parent.parent / "benchmarks"))
pes_ground_truth = pytest.importorskip("_pes_ground_truth").pes_ground_truth


def test_it_is_the_mutual_information_of_a_small_grid():
    """By a two-dimensional histogram of place and outcome, corrected for its bias."""
    gpm, point = problem(D=1, n=3, noise=0.3, lengthscale=0.2)
    truth = pes_ground_truth(gpm, bounds=[(0, 1)], point=point, n_grid=8, draws=20_000, fewest=10, random_seed=1)
    x = truth.x.to_numpy()
    assert_allclose(x[:, 0], (np.arange(8) + 0.5) / 8)
    gp = ConditionedGP(gpm.posterior(), gpm.flatten(point))
    G = np.linalg.inv(gp.covariance(gp.X, gp.X) + np.diag(gp.noise_variance(gp.X)))
    cross = gp.covariance(x, gp.X)
    rng, N, bins = np.random.default_rng(5), 60_000, 40
    f = rng.multivariate_normal(cross @ G @ gp.y, gp.covariance(x, x) - cross @ G @ cross.T, N, method="svd")
    place = f.argmax(1)
    for j in range(8):
        y = f[:, j] + 0.3 * rng.normal(size=N)
        level = np.searchsorted(np.quantile(y, np.arange(1, bins) / bins), y)
        p = np.bincount(place * bins + level, minlength=8 * bins).reshape(8, bins) / N
        independent = p.sum(1, keepdims=True) * p.sum(0)
        information = (p[p > 0] * np.log(p[p > 0] / independent[p > 0])).sum()
        information -= (np.count_nonzero(p) - np.count_nonzero(p.sum(1)) - bins + 1) / (2 * N)
        # Within a bin outcomes may differ in what they say: about 1 % is lost.
        error = 4 * float(truth.standard_error[j]) + 0.02 * information
        assert_allclose(truth.information[j], information, atol=error)
    assert_allclose(truth.probability, np.bincount(place, minlength=8) / N, atol=0.01)
    assert truth.attrs["coverage"] == pytest.approx(1.0, abs=1e-3)


@pytest.mark.parametrize("noise", [1e-3, 1e-6])
def test_little_noise_keeps_its_digits(noise):
    gpm, point = problem(D=1, n=5, noise=noise)
    X = np.array([[0.1], [0.3], [0.5], [0.7], [0.9]])
    gpm.set_data(X, 100 + np.sin(6 * X[:, 0]))
    truth = pes_ground_truth(gpm, bounds=[(0, 1)], point=point, n_grid=5, draws=5000, fewest=20, random_seed=1)
    # All cells are data: nothing but noise is left, which says nothing.
    assert_allclose(truth.information, 0.0, atol=5 * float(truth.standard_error.max()))


@pytest.mark.nightly
def test_the_map_of_a_small_problem_is_that_of_the_ground_truth():
    gpm, point = problem(D=1, n=4, noise=0.1, lengthscale=0.2)
    truth = pes_ground_truth(gpm, bounds=[(0, 1)], point=point, n_grid=40, draws=20_000, fewest=100, random_seed=1)
    estimate = pes(gpm, truth.x.to_numpy(), bounds=[(0, 1)], point=point, n_optima=200, n_features=500, random_seed=1)
    assert spearmanr(estimate, truth.information).statistic > 0.9
    # Both are averages over draws: the ratio varies by six percent from seed to seed.
    assert 0.75 < float(estimate.max() / truth.information.max()) < 1.3
    # The point that is asked is worth as much as the best one.
    assert truth.information[int(estimate.to_numpy().argmax())] > 0.8 * truth.information.max()


@pytest.mark.slow
@pytest.mark.parametrize(("D", "n"), [(1, 1), *nightly((1, 2), (3, 1), (3, 2))])
def test_few_observations_are_enough(D, n):
    """As informative as draws on a grid say, but for the approximations and the cells of the grid."""
    gpm, point = problem(D, n)
    options = {"bounds": [(0, 1)] * D, "point": point, "random_seed": 1}
    truth = pes_ground_truth(gpm, n_grid=32 if D == 1 else 8, draws=8000, fewest=10, **options)
    cells = np.random.default_rng(1).choice(len(truth.x), min(len(truth.x), 60), replace=False)
    found = pes(gpm, truth.x.to_numpy()[cells], n_optima=200, **options).to_numpy()
    expected = truth.information.to_numpy()[cells]
    assert np.corrcoef(found, expected)[0, 1] > 0.75
    assert np.abs(found - expected).max() < 0.15
