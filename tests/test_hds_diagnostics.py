"""Searches that miss inputs because f is unlike the assumed process say so; others do not."""

import warnings

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.stats import multivariate_normal

from pymc_active.problems import gp_draw, quad
from pymc_active.relevant_inputs.diagnostics import SearchDiagnostics
from pymc_active.relevant_inputs.learner import HDSLearner
from pymc_active.relevant_inputs.result import HDSResult
from pymc_active.relevant_inputs.search import hds

# Of the tree alone: a last check would settle the doubts.
SCALES = {"bandwidth": 0.3, "signal_variance": 1.0, "noise_variance": 0.05, "check": False}
INPUTS = [4, 20]


def search(function, seed, noise=0.05, **keywords):
    rng = np.random.default_rng(seed)
    f = lambda X: function(X) + rng.normal(0, np.sqrt(noise), len(X))  # noqa: E731
    return hds(f, 30, random_seed=seed, **(SCALES | keywords))


def draw(seed, bandwidth=0.3):
    function = gp_draw(2, bandwidth, random_seed=seed)
    return lambda X: function(X[:, INPUTS])


def bowl(X):
    """A sum of four terms, with an sd of 3."""
    return 5 * np.square(X[:, [3, 8, 20, 27]] - 0.3).sum(1)


@pytest.mark.parametrize("test", ["anchored", "gpt"])
def test_draws_of_the_assumed_process_are_not_doubted(test):
    """Offsets do not matter. In longer runs none of 600 was."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for seed in range(8):
            function = draw(seed)
            result = search(lambda X, f=function: 5 + f(X), seed, test=test, offset_variance=10.0)
            assert result.active == INPUTS
            assert result.diagnostics.is_plausible


def test_the_most_likely_variances_are_near_the_truth():
    found = [search(draw(seed), seed).diagnostics for seed in range(8)]
    assert 0.7 < np.exp(np.mean([np.log(d.signal_variance) for d in found])) < 1.4
    assert 0.045 < np.exp(np.mean([np.log(d.noise_variance) for d in found])) < 0.065


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


@pytest.mark.parametrize("seed", range(4))
def test_inputs_of_a_function_on_another_scale_are_not_missed_silently(seed):
    with pytest.warns(UserWarning, match=r"look like a signal variance of .* inputs may be missed.*estimate_scales"):
        result = search(bowl, seed)
    assert "DOUBTFUL scales" in repr(result)
    assert result.diagnostics.signal_variance > 4
    assert result.to_datatree()["design"].attrs["is_plausible"] == 0


@pytest.mark.parametrize("told", [{"signal_variance": 100.0}, {"noise_variance": 0.12}, {"bandwidth": 3.0}])
def test_wrong_scales_are_named(told):
    with pytest.warns(UserWarning, match=r"look like|spread over"):
        search(draw(2), 2, 0.3, **told)


def test_more_noise_than_there_is_does_no_harm():
    assert search(draw(3), 3, 0.005).diagnostics.is_plausible


def test_an_input_that_is_missed_is_noise_that_nobody_told():
    """The other input explains the rest, as long as nothing but noise is left unexplained."""
    result = search(draw(5), 5)
    complete = result.diagnostics
    U, y = complete.U, complete.y
    partial = SearchDiagnostics(U[:, :1], y, result.settings, True)
    assert complete.is_plausible
    assert not partial.is_plausible
    assert partial.noise_variance > 3 * complete.noise_variance


def test_values_far_apart_are_warned_of_while_nodes_are_undecided():
    problem = quad(30, 4, random_seed=1)
    with pytest.warns(UserWarning, match="y is spread over .* of the sds"):
        result = search(problem.function, 1, budget=16, test="fdt")
    assert result.undecided


def test_nothing_is_judged_before_there_is_something_to_judge():
    learner = HDSLearner(30, random_seed=1, **SCALES)
    assert HDSResult(learner).diagnostics.is_plausible
    assert HDSResult(learner).diagnostics.spread == 0
    assert "plausible" in repr(HDSResult(learner).diagnostics)


def test_a_constant_function_is_plausible():
    result = search(lambda X: np.full(len(X), 3.0), 1)
    assert result.active == []
    assert result.diagnostics.is_plausible
    assert result.diagnostics.signal_variance == 1.0
