"""Unknown scales, doubtful assumptions, and the rivals of hierarchical diagonal sampling."""

import sys
import warnings

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.stats import kstest

import pymc_active as pma
from pymc_active.problems import beale, gp_draw
from pymc_active.relevant_inputs.baselines.screening import ard_screening, coordinate_wise, lasso_screening
from pymc_active.relevant_inputs.diagnostics import check_assumptions, whitened_differences
from pymc_active.relevant_inputs.learner import HDSLearner
from pymc_active.relevant_inputs.result import HDSResult
from pymc_active.relevant_inputs.scales import estimate_scales
from pymc_active.relevant_inputs.search import hds


def draw(bandwidth, inputs, seed):
    """A draw of a GP of unit variance with kernel exp(-r² / b²), of some inputs."""
    function = gp_draw(len(inputs), bandwidth, random_seed=seed)
    return lambda X: function(X[:, inputs])


def noisy(f, sd, seed=0):
    rng = np.random.default_rng(seed)
    return lambda X: f(X) + rng.normal(0, sd, len(X))


def flat(X):
    """Beale's function of inputs 3 and 30, [-1, 1] scaled to its box and the values to [-1, 1]."""
    return 2 * beale(4.5 * X[:, [3, 30]]) / 181_853.61 - 1


# Scales from a held-out design


def test_scales_are_found_within_their_uncertainty():
    """Geometric means over eight functions; a single function determines its variance to a factor of two only."""
    found = []
    for seed in range(8):
        one = draw(0.3, [5, 40], seed)
        f = noisy(lambda X, one=one: 10 + 3 * one(X), 0.5, seed)
        scales = estimate_scales(f, 100, random_seed=seed)
        assert len(scales.y) == 48
        found.append([scales.bandwidth, scales.signal_variance, scales.noise_variance])
    mean = np.exp(np.log(found).mean(0))
    assert 0.2 < mean[0] < 0.45
    assert 9 / 2 < mean[1] < 9 * 2
    assert 0.25 / 1.6 < mean[2] < 0.25 * 1.6


def test_estimated_scales_suffice_for_the_search():
    f = noisy(draw(0.4, [5, 40], 1), 0.1)
    scales = estimate_scales(f, 60, random_seed=1)
    result = hds(f, 60, random_seed=2, **scales.keywords())
    assert result.active == [5, 40]
    result.learner.tell(scales.X, scales.y)
    assert len(HDSResult(result.learner).data()[1]) == result.n_evaluations + 48


def test_estimated_scales_are_those_of_the_unit_box_whatever_the_units():
    """The search takes the smallest bandwidth as a fraction of its input's interval."""
    width = np.where(np.arange(60) == 5, 2.0, 200.0)
    bounds = [(-w / 2, w / 2) for w in width]
    seen = []
    for box, unit in ((None, np.full(60, 2.0)), (bounds, width)):
        f = noisy(lambda X, unit=unit: draw(0.4, [5, 40], 1)(X / unit * 2), 0.1)
        scales = estimate_scales(f, 60, bounds=box, random_seed=1)
        seen.append(HDSLearner(60, bounds=box, random_seed=1, **scales.keywords()).settings.bandwidth)
    assert_allclose(*seen, rtol=1e-6)


def test_a_mostly_flat_function_is_warned_of():
    f = noisy(flat, 0.01)
    with pytest.warns(UserWarning, match="unlike the assumed Gaussian process: mostly flat"):
        scales = estimate_scales(f, 50, random_seed=1)
    assert not scales.check.is_plausible


def test_draws_of_a_gaussian_process_are_not_warned_of():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for seed in range(8):
            f = noisy(draw(0.3, [5, 40], seed), 0.3, seed)
            estimate_scales(f, 50, random_seed=seed)


def test_residuals_are_standard_normal_where_the_assumptions_hold():
    rng = np.random.default_rng(2)
    X = rng.uniform(size=(40, 2))
    K = 2 * np.exp(-np.square((X[:, None] - X) / 0.3).sum(-1)) + 0.1 * np.eye(40)
    y = 100 + rng.normal(size=(50, 40)) @ np.linalg.cholesky(K).T
    residual = np.array([whitened_differences(K, row)[0] for row in y])
    assert kstest(residual.ravel(), "norm").pvalue > 0.01
    keywords = {"bandwidth": 0.3, "signal_variance": 2.0, "noise_variance": 0.1, "random_seed": 0}
    checks = [check_assumptions(X, row, **keywords) for row in y]
    assert all(check.is_plausible for check in checks)
    assert kstest([check.scale_p for check in checks], "uniform").pvalue > 0.01


def test_wrong_scales_are_noticed():
    rng = np.random.default_rng(3)
    X = rng.uniform(size=(60, 1))
    y = rng.normal(0, 1, 60)
    check = check_assumptions(X, y, bandwidth=0.1, signal_variance=9.0, noise_variance=4.0, random_seed=0)
    assert check.scale_p < 1e-3
    with pytest.warns(UserWarning, match="scaled differently"):
        check.warn()


def test_failed_evaluations_are_left_out_of_the_estimate():
    """As many as leave sixteen; f is called once."""
    f = noisy(draw(0.3, [5, 40], 1), 0.3)

    def failing(X, n=20):
        return np.where(np.arange(len(X)) < n, [np.nan, np.inf] * (len(X) // 2), f(X))

    with pytest.warns(UserWarning, match="NaN or infinity at 20 of 48 points"):
        scales = estimate_scales(failing, 50, random_seed=1)
    assert scales.X.shape == (28, 50)
    assert np.isfinite(scales.y).all()
    assert 0.1 < scales.bandwidth < 1
    with pytest.raises(ValueError, match="at 33 of 48 points; at least 16 must succeed"):
        estimate_scales(lambda X: failing(X, 33), 50, random_seed=1)


def test_an_estimate_holds_what_was_asked_whatever_f_does_to_it():
    def writes(X):
        X[:, 5] *= 100
        return np.sin(X[:, 5] / 30)

    assert abs(estimate_scales(writes, 50, random_seed=1).X).max() <= 1


def noise_free(name):
    """Functions of inputs 3 and 70 that answer the same whenever they are asked."""
    return {
        "product": lambda X: 2 * np.sin(5 * X[:, 3]) * np.cos(4 * X[:, 70]),
        "bowl": lambda X: -((X[:, 3] - 0.3) ** 2) - (X[:, 70] + 0.2) ** 2,
        "skewed": lambda X: np.exp(3 * X[:, 3]) + X[:, 70],
        "linear": lambda X: X[:, 3] - 2 * X[:, 70],
    }[name]


@pytest.mark.filterwarnings("ignore:the data are unlike", "ignore:on the inputs found")
@pytest.mark.parametrize("name", ["product", "bowl", "skewed", "linear"])
def test_scales_of_a_simulator_without_noise_find_its_inputs(name):
    for seed in range(5):
        scales = estimate_scales(noise_free(name), 100, random_seed=seed)
        assert scales.noise_variance >= 0.99e-8 * scales.signal_variance
        assert hds(noise_free(name), 100, random_seed=seed, **scales.keywords()).active == [3, 70]


@pytest.mark.filterwarnings("ignore:the data are unlike", "ignore:on the inputs found")
def test_steps_without_noise_have_scales():
    """Unlike a Gaussian process, so that not all inputs need be found."""
    for seed in range(4):
        f = lambda X: np.where(X[:, 3] > 0.2, 1.0, 0.0) + np.where(X[:, 70] > -0.3, 1.0, 0.0)  # noqa: E731
        scales = estimate_scales(f, 100, random_seed=seed)
        assert hds(f, 100, random_seed=seed, **scales.keywords()).stopped == "decided"


def test_data_without_noise_are_checked():
    x = np.linspace(0, 1, 40)
    scales = {"bandwidth": 0.5, "signal_variance": 1.0}
    none, least = (
        check_assumptions(x[:, None], np.sin(5 * x), noise_variance=noise, **scales) for noise in (0.0, 1e-10)
    )
    assert np.array_equal(none.residual, least.residual)


# Rivals


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
        np.testing.assert_allclose(X[1::2, i] - X[::2, i], 0.9)


def test_one_input_at_a_time_with_a_test_keeps_its_error_rate():
    """At most one of a hundred searches without an active input finds any, up to Monte Carlo error."""
    wrong = sum(
        bool(coordinate_wise(noisy(lambda X: 0 * X[:, 0], 0.5, s), 20, n_pairs=2, noise_variance=0.25).active)
        for s in range(200)
    )
    assert wrong <= 8


def test_ard_screening_takes_short_lengthscales():
    rng = np.random.default_rng(1)
    X = rng.uniform(-1, 1, (80, 6)) * [1, 1, 1, 1, 1, 1000]
    y = np.sin(3 * X[:, 1]) + np.cos(X[:, 5] / 300) + rng.normal(0, 0.05, 80)
    gpm = pma.ard_gp(X, y, x_scale="box")
    fit = pma.fit_laplace(gpm, n_restarts=4, population=0, random_seed=1, progressbar=False)
    assert ard_screening(fit).active == [1, 5]
    assert ard_screening(fit, n_active=1).active in ([1], [5])


def test_lasso_finds_linear_inputs_only():
    pytest.importorskip("sklearn")
    rng = np.random.default_rng(1)
    X = rng.uniform(-1, 1, (100, 30))
    y = X[:, 4] + 0.5 * X[:, 9] + np.cos(6 * X[:, 20]) + rng.normal(0, 0.05, 100)
    assert lasso_screening(X, y, n_active=2, random_seed=1).active == [4, 9]
    assert set(lasso_screening(X, y, random_seed=1).active) >= {4, 9}


def test_lasso_without_scikit_learn_names_the_extra(monkeypatch):
    monkeypatch.setitem(sys.modules, "sklearn.linear_model", None)
    with pytest.raises(ImportError, match=r"pymc-active\[bench\]"):
        lasso_screening(np.eye(4), np.arange(4.0))


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: estimate_scales(np.sum, 5, n_evaluations=4), "at least 16"),
        (lambda: estimate_scales(np.sum, 5, n_active=0), "n_active"),
        (lambda: estimate_scales(lambda X: np.ones(len(X)), 5), "f is constant"),
        (lambda: estimate_scales(lambda X: np.full(len(X), np.nan), 5), "48 of 48 points"),
        (lambda: check_assumptions(np.ones((3, 1)), np.ones(3), bandwidth=1, signal_variance=1, noise_variance=1), "8"),
        (lambda: coordinate_wise(np.sum, 5, n_pairs=2), "either n_active"),
        (lambda: coordinate_wise(np.sum, 5, n_pairs=0, n_active=1), "n_pairs"),
        (lambda: coordinate_wise(np.sum, 5, n_pairs=2, n_active=6), "1 to 5"),
        (lambda: coordinate_wise(lambda X: X[:, 0] * np.nan, 5, n_pairs=2, n_active=1), "finite numbers"),
        (lambda: ard_screening(pma.composite_gp(np.eye(3)[:, :1], [1.0, 2.0, 0.5], "LIN")), "lengthscale for each"),
    ],
)
def test_bad_input_is_refused(call, message):
    with pytest.raises(ValueError, match=message):
        call()


def test_a_model_without_lengthscales_is_refused_before_it_is_fitted(monkeypatch):
    def never(*args, **keywords):
        raise AssertionError("it was fitted")

    monkeypatch.setattr("pymc_active.relevant_inputs.scales.fit_laplace", never)
    X = np.random.default_rng(1).uniform(-1, 1, (20, 6))
    with pytest.raises(ValueError, match="lengthscale for each"):
        ard_screening(pma.embedding_gp(X, X[:, 0], n_components=1))
    with pytest.raises(ValueError, match="n_active"):
        ard_screening(pma.ard_gp(X, X[:, 0]), n_active=7)


def test_other_objects_are_refused():
    with pytest.raises(TypeError, match="GPModel or a fit"):
        ard_screening(3)
