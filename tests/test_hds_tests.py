"""The likelihood ratio tests of hierarchical diagonal sampling: formulas, moments, error rates, guarantees."""

import json
from pathlib import Path

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.stats import multivariate_normal, norm

from pymc_active.relevant_inputs.baselines.fdt import (
    DifferenceRatio,
    fixed_sample_size,
    fixed_sample_test,
    simulated_false_inactive,
)
from pymc_active.relevant_inputs.guarantees import expected_evaluations, n_levels, node_error_rate, thresholds
from pymc_active.relevant_inputs.likelihood_ratios import LineRatio, PlaneRatio

REFERENCE = json.loads((Path(__file__).parent / "reference" / "hds_independent.json").read_text())
SCALES = REFERENCE["b"], REFERENCE["sigma_s2"], REFERENCE["sigma2"]


def function_values(bandwidth, n_functions, z, rng):
    """Draws of a GP of unit variance at given places, (n_functions, len(z))."""
    values, vectors = np.linalg.eigh(np.exp(-np.square((z[:, None] - z) / bandwidth)))
    return rng.normal(size=(n_functions, len(z))) @ (vectors * np.sqrt(np.maximum(values, 0))).T


# Reference numbers, to rounding


def test_fdt_agrees_with_reference_numbers():
    reference = REFERENCE["FDT"]
    test = DifferenceRatio(*SCALES)
    assert_allclose(test.distance, reference["delta"], rtol=1e-14)
    assert_allclose(test.inactive_variance, reference["sigma0_sq"], rtol=1e-14)
    assert_allclose(test.active_variance, reference["sigma1_sq_exact"], rtol=1e-13)
    assert_allclose(test.llr(reference["dy"]), reference["llr_exact"], rtol=1e-12)


def test_gpt_agrees_with_reference_numbers():
    reference, test = REFERENCE["GPT"], LineRatio(*SCALES)
    path = test.llr_path(reference["x"], reference["y"])
    assert_allclose(path, reference["llr_sequential"], rtol=1e-11, atol=1e-13)
    assert_allclose(path.sum(), reference["llr_total"], rtol=1e-12)
    moments = test.llr_moments(reference["x"], reference["y"], reference["x_new"])
    assert_allclose(moments.mean, reference["E_llr"], rtol=1e-10)
    assert_allclose(moments.variance, reference["Var_llr"], rtol=1e-10)
    assert_allclose(moments.bound, reference["ucb_index"], rtol=1e-10)


# Second routes


@pytest.mark.parametrize("test", [LineRatio(0.3, 2.0, 0.4, 0.7, 0.5), LineRatio(0.1, 1.0, 0.01)])
def test_gpt_path_sums_to_the_ratio_of_joint_densities(test):
    rng = np.random.default_rng(1)
    z, y = rng.uniform(size=9), rng.normal(0.5, 1.5, size=9)
    shape = np.exp(-np.square(z[:, None] - z) / test.bandwidth**2)
    noise = test.noise_variance * np.eye(9)
    active = multivariate_normal(np.full(9, test.mean), test.offset_variance + test.signal_variance * shape + noise)
    inactive = multivariate_normal(np.full(9, test.mean), test.offset_variance + test.signal_variance + noise)
    assert_allclose(test.llr_path(z, y).sum(), active.logpdf(y) - inactive.logpdf(y), rtol=1e-9)


def test_gpt_path_ends_with_what_predict_says():
    test, rng = LineRatio(0.2, 1.0, 0.1, 3.0, -1.0), np.random.default_rng(2)
    z, y = rng.uniform(size=7), rng.normal(size=7)
    low, high = test.predict(z[:-1], y[:-1], z[-1:])
    step = norm(high.mean, np.sqrt(high.variance)).logpdf(y[-1]) - norm(low.mean, np.sqrt(low.variance)).logpdf(y[-1])
    assert_allclose(test.llr_path(z, y)[-1], step[0], rtol=1e-10)


def test_observations_at_one_place_do_not_tell_the_hypotheses_apart():
    path = LineRatio(0.1, 1.0, 0.1).llr_path(np.full(6, 0.4), np.random.default_rng(3).normal(size=6))
    assert_allclose(path, 0, atol=1e-12)


def plane_covariance(is_active, z, c):
    inside = 0.4 + 0.6 * np.exp(-np.square((z[:, None] - z) / 0.3)) if is_active else 1.0
    return 3 + 2 * np.exp(-4 * np.square((c[:, None] - c) / 0.3)) * inside + 0.4 * np.eye(len(z))


PLANE = PlaneRatio(0.3, 2.0, 0.4, offset_variance=3.0, mean=0.5, share=0.6)


def test_plane_path_sums_to_the_ratio_of_joint_densities():
    rng = np.random.default_rng(21)
    z, c, y = rng.uniform(size=(3, 9))
    joint = [multivariate_normal(np.full(9, 0.5), plane_covariance(which, z, c)).logpdf(y) for which in (False, True)]
    assert_allclose(PLANE.llr_path(np.array([z, c]), y).sum(), joint[1] - joint[0], rtol=1e-9)


def test_plane_path_ends_with_what_predict_says():
    rng = np.random.default_rng(22)
    *at, y = rng.uniform(size=(3, 7))
    at = np.array(at)
    low, high = PLANE.predict(at[:, :-1], y[:-1], at[:, -1:])
    step = norm(high.mean, np.sqrt(high.variance)).logpdf(y[-1]) - norm(low.mean, np.sqrt(low.variance)).logpdf(y[-1])
    assert_allclose(PLANE.llr_path(at, y)[-1], step[0], rtol=1e-10)


@pytest.mark.parametrize("is_active", [True, False])
def test_moments_of_the_plane_llr_under_both_hypotheses(is_active):
    """Mean ½ (tr A + log det C0 - log det C1) and variance ½ tr A², A = (C0⁻¹ - C1⁻¹) C of the truth."""
    rng = np.random.default_rng(23)
    z, c = rng.uniform(size=(2, 6))
    C0, C1 = plane_covariance(False, z, c), plane_covariance(True, z, c)
    truth = C1 if is_active else C0
    A = (np.linalg.inv(C0) - np.linalg.inv(C1)) @ truth
    mean = 0.5 * (np.trace(A) + np.linalg.slogdet(C0)[1] - np.linalg.slogdet(C1)[1])
    y = 0.5 + rng.normal(size=(4000, 6)) @ np.linalg.cholesky(truth).T
    llr = np.array([PLANE.llr_path(np.array([z, c]), row).sum() for row in y])
    assert abs(llr.mean() - mean) < 4 * llr.std() / np.sqrt(len(llr))
    spread = np.square(llr - mean)
    assert abs(spread.mean() - 0.5 * np.trace(A @ A)) < 4 * spread.std() / np.sqrt(len(llr))


def test_plane_moments_of_the_next_observation_agree_with_monte_carlo():
    rng = np.random.default_rng(24)
    data = rng.uniform(size=(3, 6))
    at, y, new = data[:2], data[2], rng.uniform(size=(2, 4))
    low, high = PLANE.predict(at, y, new)
    draws = rng.normal(high.mean, np.sqrt(high.variance), size=(100_000, 4))
    llr = norm(high.mean, np.sqrt(high.variance)).logpdf(draws) - norm(low.mean, np.sqrt(low.variance)).logpdf(draws)
    moments = PLANE.llr_moments(at, y, new)
    assert (abs(llr.mean(0) - moments.mean) < 4 * llr.std(0) / np.sqrt(len(llr))).all()
    spread = np.square(llr - llr.mean(0))
    assert (abs(spread.mean(0) - moments.variance) < 4 * spread.std(0) / np.sqrt(len(llr))).all()


def test_index_moments_agree_with_monte_carlo():
    test, rng = LineRatio(0.25, 1.0, 0.2, 0.5), np.random.default_rng(4)
    z, y, z_new = rng.uniform(size=4), rng.normal(size=4), np.array([0.05, 0.5, z_near := 0.51])
    low, high = test.predict(z, y, z_new)
    draws = rng.normal(high.mean, np.sqrt(high.variance), size=(200_000, 3))
    llr = norm(high.mean, np.sqrt(high.variance)).logpdf(draws) - norm(low.mean, np.sqrt(low.variance)).logpdf(draws)
    moments = test.llr_moments(z, y, z_new)
    assert (abs(llr.mean(0) - moments.mean) < 4 * llr.std(0) / np.sqrt(len(llr))).all()
    spread = np.square(llr - llr.mean(0))
    assert (abs(spread.mean(0) - moments.variance) < 4 * spread.std(0) / np.sqrt(len(llr))).all()
    assert z_near in z_new


def test_index_is_finite_where_both_variances_are_equal():
    """There the paper's non-central χ² form is 0/0."""
    moments = LineRatio(0.2, 1.0, 0.1).llr_moments([], [], [0.1, 0.9])
    assert_allclose(moments.bound, 0, atol=1e-7)


@pytest.mark.parametrize("is_active", [True, False])
def test_mean_and_variance_of_the_llr_under_both_hypotheses(is_active):
    """Against moments of quadratic forms: E = ½ (tr(AΣ) + log det ratio), Var = ½ tr(AΣAΣ), A = C0⁻¹ - C1⁻¹."""
    test, rng = LineRatio(0.3, 1.0, 0.25), np.random.default_rng(5)
    z = np.array([0.0, 0.2, 0.55, 0.6, 0.95])
    C1 = np.exp(-np.square((z[:, None] - z) / 0.3)) + 0.25 * np.eye(5)
    C0 = np.ones((5, 5)) + 0.25 * np.eye(5)
    truth = C1 if is_active else C0
    A = (np.linalg.inv(C0) - np.linalg.inv(C1)) @ truth
    mean = 0.5 * (np.trace(A) + np.linalg.slogdet(C0)[1] - np.linalg.slogdet(C1)[1])
    y = rng.normal(size=(4000, 5)) @ np.linalg.cholesky(truth).T
    llr = np.array([test.llr_path(z, row).sum() for row in y])
    assert abs(llr.mean() - mean) < 4 * llr.std() / np.sqrt(len(llr))
    spread = np.square(llr - mean)
    assert abs(spread.mean() - 0.5 * np.trace(A @ A)) < 4 * spread.std() / np.sqrt(len(llr))
    assert (mean > 0) == is_active


@pytest.mark.parametrize("is_active", [True, False])
def test_moments_of_the_finite_difference_llr_under_both_hypotheses(is_active):
    test = DifferenceRatio(0.1, 1.0, 0.2)
    variance = test.active_variance if is_active else test.inactive_variance
    llr = test.llr(np.random.default_rng(6).normal(0, np.sqrt(variance), 100_000))
    slope = 0.5 * (1 / test.inactive_variance - 1 / test.active_variance)
    mean = slope * variance + 0.5 * np.log(test.inactive_variance / test.active_variance)
    assert abs(llr.mean() - mean) < 4 * llr.std() / np.sqrt(len(llr))
    spread = np.square(llr - mean)
    assert abs(spread.mean() - 2 * (slope * variance) ** 2) < 4 * spread.std() / np.sqrt(len(llr))


def test_pairs_three_bandwidths_apart_differ_by_the_active_variance():
    test = DifferenceRatio(0.1, 1.0, 0.2)
    rng = np.random.default_rng(7)
    f = function_values(0.1, 50_000, np.array([0.2, 0.2 + test.distance]), rng)
    square = np.square(f[:, 0] - f[:, 1] + rng.normal(0, np.sqrt(0.4), len(f)))
    assert abs(square.mean() - test.active_variance) < 4 * square.std() / np.sqrt(len(square))


# Guarantees


def test_fixed_sample_test_keeps_both_errors():
    test, alpha = DifferenceRatio(0.1, 1.0, 0.5), 0.02
    n = test.fixed_pairs(alpha)
    rng = np.random.default_rng(8)
    for variance, is_active in ((test.inactive_variance, False), (test.active_variance, True)):
        dy = rng.normal(0, np.sqrt(variance), (20_000, n))
        _, threshold = fixed_sample_test(dy[0], 0.5, alpha)
        wrong = ((np.square(dy).sum(1) / (2 * 0.5) > threshold) != is_active).mean()
        assert wrong < alpha + 4 * np.sqrt(alpha / 20_000)
    _, threshold = fixed_sample_test(np.zeros(n - 1), 0.5, alpha)
    missed = (np.square(rng.normal(0, np.sqrt(test.active_variance), (20_000, n - 1))).sum(1) <= threshold).mean()
    assert missed > 0.9 * alpha, "one pair fewer would do: the number is not the smallest"


def test_sample_size_of_proposition_3_1_keeps_both_errors_for_a_function():
    """Δ² of a given function, bounded by M, with a mean of at least c."""
    c, largest, alpha = 2.0, 4.0, 0.05
    n = fixed_sample_size(c, largest, alpha)
    rng = np.random.default_rng(9)
    shift = np.sqrt(rng.choice([0.0, largest], size=(2000, n)))
    _, threshold = fixed_sample_test(np.zeros(n), 1.0, alpha)
    missed = (np.square(rng.normal(size=(2000, n)) + shift).sum(1) < threshold).mean()
    false = (np.square(rng.normal(size=(2000, n))).sum(1) > threshold).mean()
    assert missed <= alpha
    assert abs(false - alpha) < 4 * np.sqrt(alpha / 2000)


def test_thresholds_keep_the_declared_recovery():
    """A union bound: 2 d (⌈log₂ D⌉ + 1) tests, each with the error rate of the thresholds."""
    accept, reject = thresholds(200, 2, 0.99)
    assert_allclose(np.exp(-accept), 0.01 / 36)
    assert_allclose(reject, -accept)
    assert_allclose(node_error_rate(1, 1, 0.9), 0.05)


def test_expected_evaluations_bound_a_simulated_tree():
    D, d, alpha = 64, 3, 0.2
    rng = np.random.default_rng(10)

    def visit(start, stop, active):
        is_active = any(start <= a < stop for a in active)
        count = 1
        if stop - start > 1 and (is_active or rng.random() < alpha):
            middle = (start + stop) // 2
            count += visit(start, middle, active) + visit(middle, stop, active)
        return count

    counts = np.array([visit(0, D, rng.choice(D, d, replace=False)) for _ in range(400)])
    assert counts.mean() < expected_evaluations(D, d, alpha, 1.0)
    assert expected_evaluations(D, d, 0.0, 1.0) == 1 + 2 * d * n_levels(D)


# Error rates on 2,000 nodes


def sequential_errors(is_active, test, accept, reject, rng, n_nodes, bandwidth=0.05):
    """Share of wrong verdicts of the GP test, choosing places as the search does."""
    wrong = 0
    grid = np.linspace(0, 1, 161)
    f = function_values(bandwidth, n_nodes, grid, rng) if is_active else rng.normal(size=(n_nodes, 1)) + 0 * grid
    for values in f:
        rows, y, llr = [int(rng.integers(len(grid)))], [], 0.0
        while reject < llr < accept:
            y.append(values[rows[-1]] + rng.normal(0, np.sqrt(test.noise_variance)))
            llr = test.llr_path(grid[rows], y).sum()
            places = rng.integers(0, len(grid), 16)
            index = test.llr_moments(grid[rows], y, grid[places]).bound
            rows.append(int(rng.choice(places[index >= index.max() * (1 - 1e-6)])))
        wrong += (llr >= accept) != is_active
    return wrong / n_nodes


@pytest.mark.parametrize(("is_active", "declared"), [(True, np.exp(-3)), (False, np.exp(-2))])
def test_gpt_errs_no_more_often_than_declared(is_active, declared):
    test = LineRatio(0.05, 1.0, 0.3)
    rate = sequential_errors(is_active, test, 2.0, -3.0, np.random.default_rng(11), 300)
    assert rate < declared + 3 * np.sqrt(declared / 300)


@pytest.mark.parametrize("is_active", [True, False])
def test_fdt_errs_no_more_often_than_declared(is_active):
    accept, reject, test = 3.0, -10.0, DifferenceRatio(0.05, 1.0, 0.36)
    rng = np.random.default_rng(12)
    z = np.linspace(0, 1, 301)
    n_nodes = 2000
    f = function_values(0.05, n_nodes, z, rng) if is_active else np.zeros((n_nodes, len(z)))
    llr, still, step = np.zeros(n_nodes), np.arange(n_nodes), round(test.distance * 300)
    while len(still):
        at = rng.integers(0, len(z) - step, len(still))
        dy = f[still, at] - f[still, at + step] + rng.normal(0, np.sqrt(0.72), len(still))
        llr[still] += test.llr(dy)
        still = still[(llr[still] > reject) & (llr[still] < accept)]
    rate = ((llr >= accept) != is_active).mean()
    declared = simulated_false_inactive(test, accept, reject, None) if is_active else np.exp(-accept)
    assert rate < declared + 3 * np.sqrt(declared / n_nodes)
    if is_active:
        assert rate > 10 * np.exp(reject), "flat projections make errors that no threshold removes"


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: fixed_sample_size(1.0, 0.5, 0.01), "smallest_mean <= largest"),
        (lambda: fixed_sample_size(1.0, 2.0, 0.7), "alpha"),
        (lambda: fixed_sample_test([], 0.1, 0.01), "at least one difference"),
        (lambda: fixed_sample_test([1.0], 0.0, 0.01), "noise_variance must be a positive"),
        (lambda: DifferenceRatio(0.1, 1e-9, 1.0).fixed_pairs(0.01), "more than 1,000,000 pairs"),
        (lambda: thresholds(4, 5, 0.9), "n_active must be a positive whole number from 1 to 4; got 5"),
        (lambda: thresholds(4, 0, 0.9), "n_active must be a positive whole number"),
        (lambda: thresholds(4, 2, 1.0), "recovery"),
        (lambda: expected_evaluations(8, 1, 0.5, 3.0), "false_active"),
        (lambda: expected_evaluations(8, 1, 0.1, 0.0), "per_node"),
    ],
)
def test_bad_numbers_are_refused(call, message):
    with pytest.raises(ValueError, match=message):
        call()
