"""Sobol' indices of a model's function: against exact values, closed forms and quadrature."""

import numpy as np
import pymc as pm
import pytest
from numpy.testing import assert_allclose
from scipy.special import erf
from scipy.stats import norm, qmc, uniform

import pymc_active as pma
from pymc_active.models.advice import confounded
from pymc_active.structure.sobol import _indices

PI_BOX = [(-np.pi, np.pi)] * 3
G_WEIGHTS = np.array([0.0, 1.0, 4.5, 9.0])


def ishigami(X):
    return np.sin(X[:, 0]) + 7 * np.sin(X[:, 1]) ** 2 + 0.1 * X[:, 2] ** 4 * np.sin(X[:, 0])


def ishigami_exact():
    first = 0.5 * (1 + 0.1 * np.pi**4 / 5) ** 2
    both = 0.1**2 * np.pi**8 * (1 / 18 - 1 / 50)
    variance = first + 7**2 / 8 + both
    return np.array([first, 7**2 / 8, 0]) / variance, np.array([first + both, 7**2 / 8, both]) / variance


def g_function(X):
    return np.prod((np.abs(4 * X - 2) + G_WEIGHTS) / (1 + G_WEIGHTS), axis=1)


def g_exact():
    parts = 1 / (3 * (1 + G_WEIGHTS) ** 2)
    variance = np.prod(1 + parts) - 1
    return parts / variance, parts * np.prod(1 + parts) / (1 + parts) / variance


def test_the_box_is_that_of_the_model(tmp_path):
    """Inputs are uniform where the user will measure, not where he happens to have measured; a file keeps the box."""
    rng = np.random.default_rng(0)
    X = rng.uniform(-0.5, 0.5, (12, 2))
    gpm = pma.ard_gp(X, X[:, 0] + X[:, 1] ** 3, bounds=[(-1, 1), (-2, 2)])
    fit = pma.fit_laplace(gpm, n_restarts=1, random_seed=0, progressbar=False)
    few = {"draws": 4, "n_points": 64, "random_seed": 1}
    found = pma.sobol_indices(fit, **few)
    assert found.low.values.tolist() == [-1, -2]
    assert found.high.values.tolist() == [1, 2]
    assert_allclose(found.total, pma.sobol_indices(fit, bounds=[(-1, 1), (-2, 2)], **few).total)
    # Each function drawn has indices of its own.
    assert found.total_draws.dims == ("draw", "input")
    assert_allclose(found.total.sel(summary="median"), found.total_draws.median("draw"))
    pma.Learner(gpm, bounds=[(-1, 1), (-2, 2)], criterion="random").save(tmp_path / "run.nc")
    box = pma.Learner.load(tmp_path / "run.nc").gpm.box
    assert np.stack(box, axis=1).tolist() == [[-1, 1], [-2, 2]]
    plain = pma.fit_laplace(pma.ard_gp(X, np.sin(X[:, 0])), n_restarts=1, random_seed=0, progressbar=False)
    assert_allclose(pma.sobol_indices(plain, **few).low, X.min(0))


@pytest.mark.parametrize(
    ("f", "box", "exact"), [(ishigami, PI_BOX, ishigami_exact), (g_function, [(0, 1)] * 4, g_exact)]
)
def test_the_estimates_tend_to_the_exact_indices(f, box, exact):
    low, high = np.array(box, float).T
    A, B = np.split(qmc.Sobol(2 * len(box), rng=2).random_base2(15), 2, axis=1)
    found = _indices(lambda X: f(low + (high - low) * X)[None], A, B, list(np.arange(A.shape[1])[:, None]))
    first, total = exact()
    assert_allclose(found["first"][0], first, atol=2e-3)
    assert_allclose(found["total"][0], total, atol=2e-3)


def gaussian_mean(points, lengthscale):
    """Of exp(-(x - p)² / 2 l²) over x uniform on [0, 1], by the error function."""
    scale = np.sqrt(2) * lengthscale
    return lengthscale * np.sqrt(np.pi / 2) * (erf((1 - points) / scale) + erf(points / scale))


def test_a_certain_posterior_has_the_closed_form_of_its_mean():
    """Products of one-dimensional Gaussians have integrals in closed form, so the mean's indices are exact."""
    lengthscale = np.array([0.3, 0.6])
    rng = np.random.default_rng(0)
    X = qmc.Sobol(2, rng=rng).random_base2(6)
    y = np.sin(5 * X[:, 0]) + X[:, 0] * X[:, 1]
    gpm = pma.ard_gp(X, y)
    point = {"log_lengthscale": np.log(lengthscale), "log_outputscale": 0.0, "log_noise": np.log(0.01)}
    found = pma.sobol_indices(
        pma.as_ensemble(point, model=gpm),
        bounds=[(0, 1)] * 2,
        draws=16,
        n_points=4096,
        random_seed=1,
    )
    square = np.square((X[:, None] - X) / lengthscale)
    weights = np.linalg.solve(np.exp(-0.5 * square.sum(-1)) + 1e-4 * np.eye(64), y)
    # E[k k'] and E[k] E[k'] for each input: a product of two Gaussians is one at their middle, l / √2 wide.
    middle = (X[:, None] + X) / 2
    product = np.stack([gaussian_mean(middle[..., i], lengthscale[i] / np.sqrt(2)) for i in (0, 1)])
    product *= np.exp(-0.25 * np.moveaxis(square, -1, 0))
    single = np.stack([gaussian_mean(X[:, i], lengthscale[i]) for i in (0, 1)])
    apart = single[:, :, None] * single[:, None]
    variance, *first = (
        weights @ matrix @ weights - weights @ (apart[0] * apart[1]) @ weights
        for matrix in (product[0] * product[1], product[0] * apart[1], apart[0] * product[1])
    )
    first = np.array(first) / variance
    assert_allclose(found.variance.sel(summary="mean"), variance, rtol=0.01)
    assert_allclose(found.first.sel(summary="mean"), first, atol=0.005)
    assert_allclose(found.total.sel(summary="mean"), 1 - first[::-1], atol=0.005)


@pytest.mark.nightly
def test_intervals_cover_functions_that_the_model_describes():
    """89 % intervals of 40 draws from the prior: the truth by Gauss-Legendre quadrature, in place of random points."""
    at, w = np.polynomial.legendre.leggauss(24)
    grid = np.stack(np.meshgrid(at, at, indexing="ij"), axis=-1).reshape(-1, 2)
    X = qmc.Sobol(2, rng=3).random_base2(3) * 2 - 1
    point = {"log_lengthscale": np.log([0.6, 1.2]), "log_outputscale": 0.0, "log_noise": np.log(0.1)}
    rng = np.random.default_rng(4)
    prior = pma.draw_paths(point, model=pma.ard_gp(np.full((1, 2), 99.0), [0.0]), n_paths=40, random_seed=rng)
    at_X, on_grid = prior(X).to_numpy(), prior(grid).to_numpy().reshape(40, 24, 24)
    covered = []
    for y, f in zip(at_X, on_grid, strict=True):
        gpm = pma.ard_gp(X, y + 0.1 * rng.normal(size=8))
        ensemble = pma.as_ensemble(point, model=gpm)
        found = pma.sobol_indices(ensemble, bounds=[(-1, 1)] * 2, draws=64, n_points=256, random_seed=rng)
        f = f - w @ f @ w / 4
        parts = np.array([w @ (f @ w / 2) ** 2 / 2, w @ (w @ f / 2) ** 2 / 2]) / (w @ f**2 @ w / 4)
        for index, truth in (("first", parts), ("total", 1 - parts[::-1])):
            low, high = found[index].sel(summary=["lower", "upper"]).to_numpy()
            covered.append((low <= truth) & (truth <= high))
    # 40 functions are 40 independent trials at least: the standard error is at most 0.05.
    assert 0.79 < np.mean(covered) < 0.99


@pytest.fixture(scope="module")
def fit():
    rng = np.random.default_rng(1)
    X = rng.normal(size=(40, 2))
    y = X[:, 0] + X[:, 1] + 0.05 * rng.normal(size=40)
    return pma.fit_laplace(pma.ard_gp(X, y, mean="linear"), random_seed=1, progressbar=False)


@pytest.mark.slow
def test_distributions_weigh_the_inputs(fit):
    """Of a sum, the first order of an input is its share of the variance."""
    wide = pma.sobol_indices(fit, distribution=[norm(0, 0.5), norm(0, 1)], draws=20, random_seed=1)
    assert_allclose(wide.first.sel(summary="mean"), [0.2, 0.8], atol=0.02)
    rows = np.random.default_rng(0).normal(size=(500, 2)) * [0.5, 1]
    share = rows.var(0) / rows.var(0).sum()
    assert_allclose(pma.sobol_indices(fit, distribution=rows, draws=20).first.sel(summary="mean"), share, atol=0.02)
    few = {"draws": 16, "n_points": 64, "random_seed": 1}
    box = pma.sobol_indices(fit, bounds=[(-1, 1), (-2, 2)], **few)
    same = pma.sobol_indices(fit, distribution=[uniform(-1, 2), uniform(-2, 4)], **few)
    assert_allclose(box.total, same.total, atol=1e-6)


def test_several_models_and_a_seed(fit):
    fits = {"one": fit, "two": pma.fit_laplace(pma.ard_gp(fit.X, fit.y, kernel="Matern52"), random_seed=1)}
    found = [pma.sobol_indices(fits, draws=16, n_points=64, random_seed=7) for _ in range(2)]
    assert found[0].identical(found[1])


def test_data_at_one_place_span_no_box():
    known = {"log_lengthscale": 0.0, "log_outputscale": 0.0, "log_noise": -2.0}
    fit = pma.fit(pma.ard_gp(np.full((3, 1), 0.1), [0.0, 0.1, -0.1], priors=known))
    with pytest.raises(ValueError, match=r"3 point\(s\) of the data are at one place.* pass bounds="):
        pma.sobol_indices(fit)
    assert_allclose(pma.sobol_indices(fit, bounds=[(0, 1)], draws=16, random_seed=1).total[0], 1, atol=0.05)


def test_an_input_that_is_held_does_not_narrow_the_box_of_the_others():
    """Of a model somebody wrote, whose paths are drawn for a box."""
    rng = np.random.default_rng(0)
    data = rng.uniform(size=(12, 2))
    y = np.sin(3 * data[:, 0]) + data[:, 1]
    with pm.Model():
        gp = pm.gp.Marginal(cov_func=pm.gp.cov.ExpQuad(2, ls=pm.LogNormal("ls", -1, 0.01)))
        gp.marginal_likelihood("y", X=pm.Data("X", data), y=pm.Data("values", y), sigma=0.05)
        own = pma.fit(pma.from_marginal(gp), random_seed=1, progressbar=False)
    rows = np.column_stack([rng.uniform(0, 4, 200), np.full(200, 0.5)])
    found = pma.sobol_indices(own, distribution=rows, random_seed=1, draws=30)
    # Mostly the prior's variance of one, between 0 and 4; it was 0.3.
    assert found.variance.sel(summary="mean") > 0.6


def test_inputs_that_vary_together_are_warned_of():
    """Spectra: ten channels of two substances. Few points of many inputs count too."""
    rng = np.random.default_rng(0)
    spectra = rng.normal(size=(40, 2)) @ rng.normal(size=(2, 10)) + 0.01 * rng.normal(size=(40, 10))
    known = {"log_lengthscale": 0.0, "log_outputscale": 0.0, "log_noise": -2.0}
    fit = pma.fit(pma.ard_gp(spectra, np.tanh(spectra[:, 0]), priors=known))
    with pytest.warns(pma.DataWarning, match=r"the 10 inputs of the 40 points vary together, as [12]\.?\d* "):
        pma.sobol_indices(fit, draws=2, n_points=2)
    for n, D, is_confounded in [(25, 30, True), (60, 30, False), (10, 6, False), (4, 1, False)]:
        assert bool(confounded(rng.uniform(size=(n, D)), range(D))) == is_confounded


def test_an_input_that_never_varied_is_warned_of():
    """Its share comes from the prior alone, and is large."""
    rng = np.random.default_rng(0)
    X = np.column_stack([rng.uniform(size=(20, 2)), np.ones(20)])
    fit = pma.fit(pma.ard_gp(X, X[:, 0], bounds=[(0, 1), (0, 1), (0, 2)]), random_seed=1, progressbar=False)
    for ask in (pma.relevance, lambda fit: pma.sobol_indices(fit, draws=2, n_points=2)):
        with pytest.warns(pma.DataWarning, match="^input 2: in the 20 points each of these inputs never varies"):
            ask(fit)
    assert "the 2 inputs of the 20 points vary together" in confounded(X[:, 1:], [0, 1])


@pytest.mark.parametrize("n", [8, 40])
def test_inputs_of_which_one_follows_from_the_others_are_warned_of(n):
    """Fractions that add up to one, written with three digits, and the columns of a factor."""
    rng = np.random.default_rng(1)
    mixtures = np.column_stack([rng.uniform(size=n), rng.dirichlet([1, 1, 1], n).round(3)])
    levels = np.column_stack([np.eye(3)[np.arange(n) % 3], rng.uniform(size=n)])
    for X, named in ((mixtures, "water, resin, wax:"), (levels, "heat, water, resin:")):
        assert confounded(X, ["heat", "water", "resin", "wax"]).startswith(f"{named} in the {n} points")
    # One left out, and as many inputs as could be independent.
    assert confounded(mixtures[:, :3], range(3)) is None
    for D in range(1, n - 1):
        assert confounded(rng.uniform(size=(n, D)), range(D)) is None
