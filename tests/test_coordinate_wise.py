"""One input at a time."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

from pymc_active.active import coordinate_wise


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


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: coordinate_wise(np.sum, 5, n_pairs=0, n_active=1), "n_pairs"),
        (lambda: coordinate_wise(np.sum, 5, n_pairs=2, n_active=6), "1 to 5"),
        (lambda: coordinate_wise(np.sum, 5, n_pairs=2, n_active=1), "vectorized=False"),
        (lambda: coordinate_wise(lambda X: X[:, 0] * np.nan, 5, n_pairs=2, n_active=1), "finite numbers"),
    ],
)
def test_bad_input_is_refused(call, message):
    with pytest.raises(ValueError, match=message):
        call()
