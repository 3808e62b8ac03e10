"""Scales: estimated, doubted, taken from models; and one input at a time."""

import warnings

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.stats import kstest, multivariate_normal

import pymc_active as pma
from pymc_active.problems import beale, gp_draw, quad
from pymc_active.relevant_inputs.coordinate_wise import coordinate_wise
from pymc_active.relevant_inputs.diagnostics import diagnose
from pymc_active.relevant_inputs.learner import HDSLearner
from pymc_active.relevant_inputs.result import HDSResult
from pymc_active.relevant_inputs.scales import estimate_scales, whitened_differences
from pymc_active.relevant_inputs.search import hds

# Of the tree alone: a last check would settle the doubts.
SCALES = {"bandwidth": 0.3, "signal_variance": 1.0, "noise_variance": 0.05, "check": False}
INPUTS = [4, 20]


def draw(seed, bandwidth=0.3, inputs=INPUTS):
    """A draw of a GP of unit variance with kernel exp(-r² / b²), of some inputs."""
    function = gp_draw(len(inputs), bandwidth, random_seed=seed)
    return lambda X: function(X[:, inputs])


def noisy(f, sd, seed=0):
    rng = np.random.default_rng(seed)
    return lambda X: f(X) + rng.normal(0, sd, len(X))


def search(function, seed, noise=0.05, **keywords):
    return hds(noisy(function, np.sqrt(noise), seed), 30, random_seed=seed, **(SCALES | keywords))


# Scales from a design of their own


def test_scales_are_found_within_their_uncertainty():
    """Geometric means over eight functions; a single function determines its variance to a factor of two only."""
    found = []
    for seed in range(8):
        one = draw(seed)
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            scales = estimate_scales(noisy(lambda X, one=one: 10 + 3 * one(X), 0.5, seed), 100, random_seed=seed)
        assert len(scales.y) == 48
        assert scales.doubt is None
        found.append([scales.bandwidth, scales.signal_variance, scales.noise_variance])
    mean = np.exp(np.log(found).mean(0))
    assert 0.2 < mean[0] < 0.45
    assert 9 / 2 < mean[1] < 9 * 2
    assert 0.25 / 1.6 < mean[2] < 0.25 * 1.6


def test_estimated_scales_suffice_for_the_search():
    f = noisy(draw(1, 0.4), 0.1)
    scales = estimate_scales(f, 60, random_seed=1)
    result = hds(f, 60, random_seed=2, **scales.keywords())
    assert result.active == INPUTS
    assert estimate_scales(draw(1), 60, n_active=4, random_seed=1).bandwidth == pytest.approx(
        2 * estimate_scales(draw(1), 60, n_active=1, random_seed=1).bandwidth
    )
    result.learner.tell(scales.X, scales.y)
    assert len(HDSResult(result.learner).data()[1]) == result.n_evaluations + 48


def test_estimated_scales_are_those_of_the_unit_box_whatever_the_units():
    """The search takes the smallest bandwidth as a fraction of its input's interval."""
    width = np.where(np.arange(60) == 4, 2.0, 200.0)
    bounds = [(-w / 2, w / 2) for w in width]
    seen = []
    for box, unit in ((None, np.full(60, 2.0)), (bounds, width)):
        f = noisy(lambda X, unit=unit: draw(1, 0.4)(X / unit * 2), 0.1)
        scales = estimate_scales(f, 60, bounds=box, random_seed=1)
        seen.append(HDSLearner(60, bounds=box, random_seed=1, **scales.keywords()).settings.bandwidth)
    assert_allclose(*seen, rtol=1e-6)


def test_functions_unlike_a_process_are_warned_of():
    flat = lambda X: 2 * beale(4.5 * X[:, [3, 30]]) / 181_853.61 - 1  # noqa: E731
    with pytest.warns(UserWarning, match="unlike a Gaussian process: mostly flat"):
        scales = estimate_scales(noisy(flat, 0.01), 50, random_seed=1)
    assert "flat" in scales.doubt
    assert "DOUBTFUL" in repr(scales)


def test_residuals_are_standard_normal_where_the_assumptions_hold():
    rng = np.random.default_rng(2)
    X = rng.uniform(size=(40, 2))
    K = 2 * np.exp(-np.square((X[:, None] - X) / 0.3).sum(-1)) + 0.1 * np.eye(40)
    y = 100 + rng.normal(size=(50, 40)) @ np.linalg.cholesky(K).T
    residual = np.array([whitened_differences(K, row)[0] for row in y])
    assert kstest(residual.ravel(), "norm").pvalue > 0.01


def test_failed_evaluations_are_left_out_of_the_estimate():
    """As many as leave sixteen; f is called once, and may write into its argument."""
    f = noisy(draw(1), 0.3)

    def failing(X, n=20):
        y = np.where(np.arange(len(X)) < n, [np.nan, np.inf] * (len(X) // 2), f(X))
        X *= 100
        return y

    with pytest.warns(UserWarning, match="NaN or infinity at 20 of 48 points"):
        scales = estimate_scales(failing, 50, random_seed=1)
    assert scales.X.shape == (28, 50)
    assert abs(scales.X).max() <= 1
    assert np.isfinite(scales.y).all()
    assert 0.1 < scales.bandwidth < 1
    with pytest.raises(ValueError, match="at 33 of 48 points; at least 16 must succeed"):
        estimate_scales(lambda X: failing(X, 33), 50, random_seed=1)


NOISE_FREE = {
    "product": lambda X: 2 * np.sin(5 * X[:, 3]) * np.cos(4 * X[:, 70]),
    "skewed": lambda X: np.exp(3 * X[:, 3]) + X[:, 70],
    "linear": lambda X: X[:, 3] - 2 * X[:, 70],
    "steps": lambda X: np.where(X[:, 3] > 0.2, 1.0, 0.0) + np.where(X[:, 70] > -0.3, 1.0, 0.0),
}


@pytest.mark.filterwarnings("ignore:the data are unlike", "ignore:on the inputs found")
@pytest.mark.parametrize("f", NOISE_FREE.values(), ids=NOISE_FREE)
def test_scales_of_a_simulator_without_noise_find_its_inputs(f):
    """The last check finds the inputs even of steps, which are unlike a Gaussian process."""
    scales = estimate_scales(f, 100, random_seed=1)
    assert scales.noise_variance >= 0.99e-8 * scales.signal_variance
    assert hds(f, 100, random_seed=1, **scales.keywords()).active == [3, 70]


# Scales of a model


def test_scales_come_from_a_fitted_model():
    rng = np.random.default_rng(3)
    X = rng.uniform(-1, 1, (60, 3))
    f = noisy(lambda X: 1.5 * np.sin(4 * X[:, 0]) + np.cos(5 * X[:, 2]), 0.1)
    gpm = pma.ard_gp(X, f(X), y_scale=(1.0, 2.0))
    fit = pma.fit_laplace(gpm, random_seed=1, n_restarts=4, population=0, progressbar=False)
    found = hds(f, model=fit, random_seed=1)
    assert found.active == [0, 2]
    settings, point = found.settings, fit.constrained_point
    assert settings.bandwidth == pytest.approx(np.sqrt(2) * point["lengthscale"].min() / 2)
    assert settings.signal_variance == pytest.approx(point["outputscale"] ** 2)
    assert settings.noise_variance == pytest.approx(point["noise"] ** 2)
    assert hds(f, model=fit, bandwidth=0.5, random_seed=1).settings.bandwidth == 0.25
    with pytest.raises(ValueError, match="leave n_dims out"):
        hds(f, 4, model=fit)


def test_a_model_without_a_lengthscale_needs_a_bandwidth():
    X = np.linspace(-1, 1, 8)[:, None]
    with pytest.raises(ValueError, match="pass bandwidth="):
        hds(np.sum, model=pma.composite_gp(X, X[:, 0], "LIN"))
    with pytest.raises(TypeError, match="model must be a GPModel or a fit"):
        hds(np.sum, 30, model="ard")


# Whether a search agrees with its scales


@pytest.fixture(scope="module")
def of_a_draw():
    return search(draw(5), 5)


@pytest.mark.parametrize("test", ["anchored", "gpt"])
def test_draws_of_the_assumed_process_are_not_doubted(test):
    """Offsets do not matter, nor does less noise than assumed."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for seed, noise in ((0, 0.05), (1, 0.05), (2, 0.05), (3, 0.005)):
            function = draw(seed)
            keywords = {"test": test, "offset_variance": 10.0}
            result = search(lambda X, f=function: 5 + f(X), seed, noise, **keywords)
            assert result.active == INPUTS
            assert result.diagnostics.is_plausible


@pytest.mark.filterwarnings("ignore:on the inputs found")
def test_the_likelihood_ratio_is_that_of_differences():
    """Differences to the first evaluation do not know the mean; so does their joint density."""
    result = search(draw(1), 1, signal_variance=0.2)
    diagnostics, X = result.diagnostics, result.history.columns(result.active)

    def log_likelihood(signal, noise):
        K = signal * np.exp(-np.square(X[:, None] - X).sum(-1) / 0.3**2) + noise * np.eye(len(X))
        K = K[1:, 1:] - K[1:, :1] - K[:1, 1:] + K[0, 0]
        return multivariate_normal(np.zeros(len(K)), K).logpdf(result.history.y[1:] - result.history.y[0])

    fitted = diagnostics.signal_variance, diagnostics.noise_variance
    assert_allclose(diagnostics.log_ratio, log_likelihood(*fitted) - log_likelihood(0.2, 0.05), rtol=1e-6)
    for factor in (0.8, 1.25):
        assert log_likelihood(fitted[0] * factor, fitted[1]) < log_likelihood(*fitted)
    assert log_likelihood(fitted[0], fitted[1] * 1.25) < log_likelihood(*fitted)


def test_inputs_of_a_function_on_another_scale_are_not_missed_silently():
    bowl = lambda X: 5 * np.square(X[:, [3, 8, 20, 27]] - 0.3).sum(1)  # noqa: E731
    with pytest.warns(UserWarning, match=r"look like a signal variance of .* inputs may be missed.*estimate_scales"):
        result = search(bowl, 1)
    assert "DOUBTFUL scales" in repr(result)
    assert result.diagnostics.signal_variance > 4
    assert result.to_datatree()["design"].attrs["is_plausible"] == 0


@pytest.mark.parametrize("told", [{"signal_variance": 100.0}, {"noise_variance": 0.12}])
def test_wrong_scales_are_named(told):
    with pytest.warns(UserWarning, match=r"look like|spread over"):
        search(draw(2), 2, 0.3, **told)


def test_an_input_that_is_missed_is_noise_that_nobody_told(of_a_draw):
    """The other input explains the rest, as long as nothing but noise is left unexplained."""
    complete, history, settings = of_a_draw.diagnostics, of_a_draw.history, of_a_draw.settings
    partial = diagnose(settings.unscale(history.columns([4])), history.y, settings, True)
    assert complete.is_plausible
    assert not partial.is_plausible
    assert partial.noise_variance > 3 * complete.noise_variance


def test_values_far_apart_are_warned_of_while_nodes_are_undecided():
    with pytest.warns(UserWarning, match="y is spread over .* of the sds"):
        result = search(quad(30, 4, random_seed=1).function, 1, budget=16, test="fdt")
    assert result.undecided


def test_what_shows_nothing_is_plausible():
    """A search that has not begun, and a constant."""
    nothing = HDSResult(HDSLearner(30, random_seed=1, **SCALES)).diagnostics
    assert (nothing.is_plausible, nothing.spread) == (True, 0)
    result = search(lambda X: np.full(len(X), 3.0), 1)
    assert result.active == []
    assert result.diagnostics.is_plausible
    assert result.diagnostics.signal_variance == 1.0


# One input at a time


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
        (lambda: estimate_scales(np.sum, 5, n_evaluations=4), "at least 16"),
        (lambda: estimate_scales(np.sum, 5, n_active=0), "n_active"),
        (lambda: estimate_scales(lambda X: np.ones(len(X)), 5), "f is constant"),
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
