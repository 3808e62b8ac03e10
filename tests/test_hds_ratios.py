"""The paper's tests of a node against reference numbers and second routes; thresholds."""

import json
from pathlib import Path

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.stats import multivariate_normal, norm

from pymc_active.relevant_inputs.halving import FDT, GPT
from pymc_active.relevant_inputs.settings import threshold

REFERENCE = json.loads((Path(__file__).parent / "reference" / "hds_independent.json").read_text())
SCALES = REFERENCE["b"], REFERENCE["sigma_s2"], REFERENCE["sigma2"]
TESTS = {"paper": GPT(0.3, 2.0, 0.4), "offset": GPT(0.3, 2.0, 0.4, 0.7)}


def covariance(test, is_active, z):
    """Written out once more, with noise."""
    inside = np.exp(-np.square((z[:, None] - z) / test.bandwidth)) if is_active else 1.0
    return test.offset + test.signal * inside + test.noise * np.eye(len(z))


def density(mean, variance):
    return norm(mean, np.sqrt(variance))


def test_finite_differences_agree_with_reference_numbers():
    """At a spacing of 3b the exponent is 9 and not 3, whatever b is."""
    reference, test = REFERENCE["FDT"], FDT(0.1, *SCALES[1:])
    assert_allclose(test.spacing / 0.1, reference["delta"] / SCALES[0], rtol=1e-14)
    dy = np.array(reference["dy"])
    path = test.path(np.zeros(2 * len(dy)), np.stack([np.ones(len(dy)), 1 + dy], 1).ravel())
    assert_allclose(np.diff(path, prepend=0), reference["llr_exact"], rtol=1e-12)


def test_the_gp_test_agrees_with_reference_numbers():
    reference, test = REFERENCE["GPT"], GPT(*SCALES)
    z, y = np.array(reference["x"], float), np.array(reference["y"])
    path = test.path(z, y)
    assert_allclose(np.diff(path, prepend=0), reference["llr_sequential"], rtol=1e-11, atol=1e-13)
    assert_allclose(path[-1], reference["llr_total"], rtol=1e-12)
    mean, variance = test.llr_moments(z, y, np.array(reference["x_new"], float))
    assert_allclose(mean, reference["E_llr"], rtol=1e-10)
    assert_allclose(variance, reference["Var_llr"], rtol=1e-10)
    assert_allclose(mean + np.sqrt(variance), reference["ucb_index"], rtol=1e-10)


@pytest.mark.parametrize("test", TESTS.values(), ids=TESTS)
def test_the_path_is_the_ratio_of_joint_densities_and_ends_with_what_predict_says(test):
    """With an offset, the first observation is the prior mean."""
    z, y = np.random.default_rng(21).uniform(size=(2, 9))
    mean = np.full(9, y[0] if test.offset else 0.0)
    joint = [multivariate_normal(mean, covariance(test, which, z)).logpdf(y) for which in (False, True)]
    path = test.path(z, y)
    assert_allclose(path[-1], joint[1] - joint[0], rtol=1e-9)
    low, high = (density(*test.predict(which, z[:-1], y[:-1], z[-1:])) for which in (False, True))
    step = high.logpdf(y[-1]) - low.logpdf(y[-1])
    assert_allclose(path[-1] - path[-2], step[0], rtol=1e-9)


@pytest.mark.parametrize("test", TESTS.values(), ids=TESTS)
def test_moments_of_the_next_observation_agree_with_monte_carlo(test):
    rng = np.random.default_rng(24)
    z, y = rng.uniform(size=(2, 6))
    new = rng.uniform(size=4)
    low, high = (density(*test.predict(which, z, y, new)) for which in (False, True))
    draws = high.rvs((100_000, 4), random_state=rng)
    llr = high.logpdf(draws) - low.logpdf(draws)
    mean, variance = test.llr_moments(z, y, new)
    assert (abs(llr.mean(0) - mean) < 4 * llr.std(0) / np.sqrt(len(llr))).all()
    spread = np.square(llr - llr.mean(0))
    assert (abs(spread.mean(0) - variance) < 4 * spread.std(0) / np.sqrt(len(llr))).all()


def test_what_tells_nothing_has_no_ratio():
    """Repeats at one place; before any data, where the paper's non-central χ² is 0/0."""
    test = GPT(0.1, 1.0, 0.1)
    assert_allclose(test.path(np.full(6, 0.4), np.random.default_rng(3).normal(size=6)), 0, atol=1e-12)
    assert_allclose(test.llr_moments(np.empty(0), np.empty(0), np.array([0.1, 0.9])), 0, atol=1e-14)


def test_thresholds_keep_the_declared_recovery():
    """A union bound: 2 d (⌈log₂ D⌉ + 1) tests, each with the error rate of the thresholds."""
    assert_allclose(np.exp(-threshold(200)), 0.01 / 72)
    assert_allclose(np.exp(-threshold(1)), 0.01 / 2)
