"""The functions of ``benchmarks/_problems.py``; a source archive has none."""

import sys
from pathlib import Path

import numpy as np
import pytest
from numpy.testing import assert_allclose

sys.path.insert(0, str(Path(__file__).parent.parent / "benchmarks"))
problems = pytest.importorskip("_problems")


def test_known_optima_are_optima():
    """Nothing near or far is better."""
    rng = np.random.default_rng(0)
    for name, best, optima, sign in (
        ("branin", problems.BRANIN_MINIMUM, problems.BRANIN_MINIMIZERS, 1),
        ("beale", problems.BEALE_MINIMUM, problems.BEALE_MINIMIZER[None], 1),
        ("cosines", problems.COSINES_MAXIMUM, problems.COSINES_MAXIMIZER[None], -1),
        ("hartmann6", problems.HARTMANN6_MINIMUM, problems.HARTMANN6_MINIMIZER[None], 1),
    ):
        function, bounds = getattr(problems, name), getattr(problems, f"{name.upper()}_BOUNDS")
        assert_allclose(function(optima), best, rtol=1e-12, atol=1e-12)
        low, high = np.array(bounds).T
        anywhere = rng.uniform(low, high, (20_000, len(low)))
        near = np.clip(optima[0] + rng.normal(0, 1e-3, (500, len(low))), low, high)
        assert (sign * function(np.concatenate([anywhere, near])) >= sign * best - 1e-12).all()


def test_hidden_and_embedded_functions_see_only_their_inputs():
    problem = problems.hidden(problems.branin, problems.BRANIN_BOUNDS, 9, [7, 2])
    X = np.random.default_rng(2).uniform(-1, 1, (6, 9))
    x1, x2 = -5 + 7.5 * (X[:, 2] + 1), 7.5 * (X[:, 7] + 1)
    assert problem.active == [2, 7]
    assert_allclose(problem.function(X), problems.branin(np.stack([x1, x2], 1)))
    problem = problems.embedded(lambda U: U[:, 0] ** 2, np.array([[1.0, 2.0, 0.0]]))
    assert_allclose(problem.function([[1, 1, 5], [0, -1, 7]]), [9, 4])


@pytest.mark.parametrize("d", [1, 2, 3])
def test_draws_have_the_covariance_of_their_kernel(d):
    X = np.random.default_rng(2).uniform(-1, 1, (4, d))
    K = np.exp(-np.square(X[:, None] - X).sum(-1) / 0.8**2)
    f = np.array([problems.gp_draw(d, 0.8, random_seed=seed)(X) for seed in range(3000)])
    products = f[:, :, None] * f[:, None]
    assert (np.abs(products.mean(0) - K) < 4 * products.std(0, ddof=1) / np.sqrt(len(f))).all()


def test_random_embeddings_have_the_covariance_of_the_kernel():
    X = np.random.default_rng(1).uniform(-1, 1, (5, 6))
    excess = []
    for seed in range(2000):
        problem = problems.random_embedding_problem(6, 2, n_features=50, random_seed=seed)
        f, U = problem.function(X), X @ problem.R.T
        excess.append(np.outer(f, f) - np.exp(-0.5 * np.square(U[:, None] - U).sum(-1)))
    assert (np.abs(np.mean(excess, 0)) < 4 * np.std(excess, 0, ddof=1) / np.sqrt(len(excess))).all()
