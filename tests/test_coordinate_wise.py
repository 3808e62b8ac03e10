"""One input at a time."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

from pymc_active.active import coordinate_wise


def noisy(f, sd, seed=0):
    rng = np.random.default_rng(seed)
    return lambda X: f(X) + rng.normal(0, sd, len(X))


def test_one_input_at_a_time_costs_as_many_evaluations_as_there_are_inputs():
    counts = []

    def f(X):
        counts.append(X)
        return np.sin(3 * X[:, 2]) + X[:, 7] ** 2

    found = coordinate_wise(f, 10, n_pairs=6, n_active=2, bandwidth=0.3, bounds=(-1, 1), random_seed=1)
    assert found.active == [2, 7]
    assert found.n_evaluations == sum(map(len, counts)) == 120
    for i, X in enumerate(counts):
        assert (np.ptp(X, axis=0) > 0).tolist() == [j == i for j in range(10)]
        assert_allclose(X[1::2, i] - X[::2, i], 0.9)


def test_one_input_at_a_time_with_a_test_keeps_its_error_rate():
    """At most one of a hundred searches without an active input finds any, up to Monte Carlo error."""
    keywords = {"n_pairs": 2, "noise_variance": 0.25}
    nothing = [noisy(lambda X: 0 * X[:, 0], 0.5, seed) for seed in range(200)]
    assert sum(bool(coordinate_wise(f, 20, random_seed=1, **keywords).active) for f in nothing) <= 8
    assert coordinate_wise(noisy(lambda X: 40 * X[:, 3], 0.5), 20, random_seed=1, **keywords).active == [3]


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: coordinate_wise(np.sum, 5, n_pairs=2), "either n_active"),
        (lambda: coordinate_wise(np.sum, 5, n_pairs=0, n_active=1), "n_pairs"),
        (lambda: coordinate_wise(np.sum, 5, n_pairs=2, n_active=6), "1 to 5"),
        (lambda: coordinate_wise(np.sum, 5, n_pairs=2, noise_variance=1.0, alpha=2.0), "alpha"),
        (lambda: coordinate_wise(lambda X: X[:, 0] * np.nan, 5, n_pairs=2, n_active=1), "finite numbers"),
    ],
)
def test_bad_input_is_refused(call, message):
    with pytest.raises(ValueError, match=message):
        call()
