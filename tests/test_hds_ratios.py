"""Likelihood ratios of hierarchical diagonal sampling against reference numbers and second routes; thresholds."""

import json
from pathlib import Path

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.stats import multivariate_normal, norm

from pymc_active.relevant_inputs.anchored import farthest_from_mean
from pymc_active.relevant_inputs.fdt import difference_llr
from pymc_active.relevant_inputs.guarantees import nodes_visited, threshold
from pymc_active.relevant_inputs.likelihood_ratio import LikelihoodRatio

REFERENCE = json.loads((Path(__file__).parent / "reference" / "hds_independent.json").read_text())
SCALES = REFERENCE["b"], REFERENCE["sigma_s2"], REFERENCE["sigma2"]
RATIOS = {
    "line": LikelihoodRatio(0.3, 2.0, 0.4, 0.7, 0.5),
    "plane": LikelihoodRatio(0.3, 2.0, 0.4, offset_variance=3.0, mean=0.5, n_others=4, share=0.6),
}


def covariance(ratio, is_active, z, c):
    """Written out once more, with noise."""
    share = ratio.share if is_active else 0.0
    inside = 1 - share + share * np.exp(-np.square((z[:, None] - z) / ratio.bandwidth))
    elsewhere = np.exp(-ratio.n_others * np.square((c[:, None] - c) / ratio.bandwidth))
    return ratio.offset_variance + ratio.signal_variance * elsewhere * inside + ratio.noise_variance * np.eye(len(z))


def on_a_line(z):
    return np.array([z, z], float)


def test_finite_differences_agree_with_reference_numbers():
    """The spacing is 3b, where the exponent is 9 and not 3."""
    reference = REFERENCE["FDT"]
    assert_allclose(3 * SCALES[0], reference["delta"], rtol=1e-14)
    assert_allclose(
        difference_llr(np.array(reference["dy"]), 3 * SCALES[0], *SCALES), reference["llr_exact"], rtol=1e-12
    )


def test_the_gp_test_agrees_with_reference_numbers():
    reference, ratio = REFERENCE["GPT"], LikelihoodRatio(*SCALES)
    at, y = on_a_line(reference["x"]), np.array(reference["y"])
    path = ratio.llr_path(at, y)
    assert_allclose(path, reference["llr_sequential"], rtol=1e-11, atol=1e-13)
    assert_allclose(path.sum(), reference["llr_total"], rtol=1e-12)
    moments = ratio.llr_moments(at, y, on_a_line(reference["x_new"]))
    assert_allclose(moments.mean, reference["E_llr"], rtol=1e-10)
    assert_allclose(moments.variance, reference["Var_llr"], rtol=1e-10)
    assert_allclose(moments.bound, reference["ucb_index"], rtol=1e-10)


@pytest.mark.parametrize("ratio", RATIOS.values(), ids=RATIOS)
def test_the_path_is_the_ratio_of_joint_densities_and_ends_with_what_predict_says(ratio):
    rng = np.random.default_rng(21)
    z, c, y = rng.uniform(size=(3, 9))
    joint = [multivariate_normal(np.full(9, 0.5), covariance(ratio, which, z, c)).logpdf(y) for which in (False, True)]
    at = np.array([z, c])
    path = ratio.llr_path(at, y)
    assert_allclose(path.sum(), joint[1] - joint[0], rtol=1e-9)
    low, high = ratio.predict(at[:, :-1], y[:-1], at[:, -1:])
    step = norm(high.mean, np.sqrt(high.variance)).logpdf(y[-1]) - norm(low.mean, np.sqrt(low.variance)).logpdf(y[-1])
    assert_allclose(path[-1], step[0], rtol=1e-9)


@pytest.mark.parametrize("ratio", RATIOS.values(), ids=RATIOS)
def test_moments_of_the_next_observation_agree_with_monte_carlo(ratio):
    rng = np.random.default_rng(24)
    data = rng.uniform(size=(3, 6))
    at, y, new = data[:2], data[2], rng.uniform(size=(2, 4))
    low, high = ratio.predict(at, y, new)
    draws = rng.normal(high.mean, np.sqrt(high.variance), size=(100_000, 4))
    llr = norm(high.mean, np.sqrt(high.variance)).logpdf(draws) - norm(low.mean, np.sqrt(low.variance)).logpdf(draws)
    moments = ratio.llr_moments(at, y, new)
    assert (abs(llr.mean(0) - moments.mean) < 4 * llr.std(0) / np.sqrt(len(llr))).all()
    spread = np.square(llr - llr.mean(0))
    assert (abs(spread.mean(0) - moments.variance) < 4 * spread.std(0) / np.sqrt(len(llr))).all()


def test_what_tells_nothing_has_no_ratio():
    """Repeats at one place; before any data, where the paper's non-central χ² is 0/0."""
    ratio = LikelihoodRatio(0.1, 1.0, 0.1)
    path = ratio.llr_path(on_a_line(np.full(6, 0.4)), np.random.default_rng(3).normal(size=6))
    assert_allclose(path, 0, atol=1e-12)
    assert_allclose(ratio.llr_moments(np.empty((2, 0)), np.empty(0), on_a_line([0.1, 0.9])).bound, 0, atol=1e-7)


def test_the_anchor_is_where_f_is_farthest_from_its_mean():
    z = np.linspace(0, 1, 12)
    y = 100 + np.where(z == z[7], -4.0, np.random.default_rng(0).normal(0, 0.5, 12))
    assert farthest_from_mean(LikelihoodRatio(0.05, 1.0, 0.1), z, y) == z[7]


def test_thresholds_keep_the_declared_recovery():
    """A union bound: 2 d (⌈log₂ D⌉ + 1) tests, each with the error rate of the thresholds."""
    assert nodes_visited(200, 2) == 18
    assert_allclose(np.exp(-threshold(200, 2, 0.99)), 0.01 / 36)
    assert_allclose(np.exp(-threshold(1, 4, 0.9)), 0.05)
    with pytest.raises(ValueError, match="recovery"):
        threshold(4, 2, 1.0)
