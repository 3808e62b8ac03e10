"""Relevant inputs by bisection: of functions that no line through the box shows, with and without noise."""

import numpy as np
import pytest
from nightly import nightly
from numpy.testing import assert_allclose

import pymc_active as pma
from pymc_active.active import coordinate_wise, hds
from pymc_active.hds import EvaluationError, HDSLearner, HDSResult
from pymc_active.relevant_inputs.bisection import Bisection

BOX = {"bounds": (0, 1)}


def signs(X):
    return np.sign(X[:, 3] - 0.5) * np.sign(X[:, 40] - 0.5) * np.sign(X[:, 77] - 0.5)


def if_then(X):
    return np.where(X[:, 8] > 0.5, X[:, 1], -X[:, 90])


def all_three(X):
    return (X[:, [0, 50, 51]] > 0.4).all(1) * 1.0


def weak(X):
    """The weak input has 1 % of the variance."""
    return np.sin(3 * X[:, 2]) + X[:, 30] + 0.145 * (X[:, 31] - 0.5)


def ten(X):
    return X[:, 10:20] @ np.linspace(1, 2, 10)


FUNCTIONS = {
    signs: [3, 40, 77],
    if_then: [1, 8, 90],
    all_three: [0, 50, 51],
    weak: [2, 30, 31],
    ten: list(range(10, 20)),
}


def noisy(f, sd, seed=0):
    rng = np.random.default_rng(seed)
    return lambda X: f(X) + rng.normal(0, sd, len(X))


def test_noise_that_some_points_lack_is_noticed():
    """Repeats that agree in one half of the box say nothing about the other."""
    rng = np.random.default_rng(3)
    f = lambda X: (X[:, 4] > 0.5) * (2 + 0.3 * rng.normal(size=len(X)))  # noqa: E731
    for seed in range(2):
        assert hds(f, 60, random_seed=seed, **BOX).active == [4]


def test_a_rough_simulator_needs_to_know_which_changes_do_not_matter():
    """Repeats agree, and all inputs change f a little: that is not noise unless it is said."""
    f = lambda X: 2 * np.sin(5 * X[:, 3]) * np.cos(4 * X[:, 17]) + 0.1 * np.cos(1e4 * X.sum(1))  # noqa: E731
    assert hds(f, 24, random_seed=1).active == list(range(24))
    result = hds(f, 24, noise_variance=0.005, random_seed=1)
    assert result.active == [3, 17]


def test_constants_and_noise_alone_have_no_inputs():
    result = hds(noisy(lambda X: np.zeros(len(X)), 1.0), 50, random_seed=1)
    assert (result.active, result.stopped, result.doubt) == ([], "decided", None)


def solver(X):
    """Converged to a relative 1e-10."""
    return signs(X) * X[:, 5] + 1e-10 * np.sin(1e6 * X.sum(1))


def cancelled(X):
    return (X.sum(1) + 100) + signs(X) - X.sum(1) - 100


@pytest.mark.parametrize(
    ("f", "active"),
    [
        (lambda X: np.where(X[:, 9] > 0.4, 1e9, X[:, 5]), [5, 9]),
        (solver, [3, 5, 40, 77]),
        *nightly(
            (lambda X: np.where(X[:, 9] > 0.4, 1e20, signs(X)), [3, 9, 40, 77]),
            (lambda X: 1e8 + 1e-4 * X[:, 5], [5]),
            (cancelled, [3, 40, 77]),
        ),
    ],
    ids=["penalty 1e9", "solver", "penalty 1e20", "offset", "cancelled"],
)
def test_what_counts_as_rounding_depends_on_the_values_that_are_compared(f, active):
    for seed in range(3):
        assert hds(f, 100, random_seed=seed, **BOX).active == active


@pytest.mark.parametrize("seed", [25, 258, *nightly(45, 60, 67, 102, 164, 181)])
def test_readings_rounded_to_ten_times_their_noise(seed):
    """Repeats agree by chance at first: what was found before noise was seen is confirmed anew."""
    rng = np.random.default_rng(seed)
    f = lambda X: np.round(2 * (2 * np.sin(5 * X[:, 3]) + X[:, 11] + rng.normal(0, 0.05, len(X)))) / 2  # noqa: E731
    assert hds(f, 60, random_seed=seed).active == [3, 11]


def test_all_inputs_may_matter():
    assert hds(lambda X: X[:, 0], 1, random_seed=1).active == [0]
    result = hds(lambda X: X.sum(1), 5, random_seed=1)
    assert result.active == [0, 1, 2, 3, 4]
    assert result.changed_by_others == 0
    assert hds(if_then, 100, random_seed=1, **BOX).changed_by_others == pytest.approx(1 - 0.05 ** (1 / 32))
    rng = np.random.default_rng(0)
    nothing = hds(lambda X: rng.normal(size=len(X)), 20, random_seed=1, **BOX)
    assert f"at most {nothing.check.share_of_others[1]:.1%} of the variance of y" in repr(nothing)


def test_the_last_check_finds_what_the_tests_missed():
    """A guess of smooth scales loses a product of signs; pairs of points find it."""
    scales = {"bandwidth": 0.5, "signal_variance": 1.0, "noise_variance": 1e-6, **BOX}
    assert hds(signs, 100, check=False, random_seed=1, **scales).active != [3, 40, 77]
    result = hds(signs, 100, random_seed=1, **scales)
    assert result.active == [3, 40, 77]
    assert result.doubt is None


def test_p_values_of_pairs_without_effect_are_uniform():
    """Whatever the distribution of the noise: the values of a pair are exchangeable."""
    rng = np.random.default_rng(0)
    p = [Bisection(2, [], rng)._p_value(rng.lognormal(0, 1.5, (20, 4)).tolist()) for _ in range(400)]
    # The standard error of a share of 400 is at most 0.025.
    for level in (0.05, 0.2, 0.5, 0.8):
        assert abs(np.mean(np.array(p) <= level) - level) < 4 * np.sqrt(level * (1 - level) / 400)


@pytest.mark.parametrize("n_values", [1, 2])
def test_the_share_of_others_is_their_total_index(n_values):
    """Of uniform pairs that differ in the second and third input only; two standard errors more are rarely below it."""
    coefficients, sd = np.array([2.0, 0.5, 0.3]), 0.3
    exact = (coefficients[1:] ** 2).sum() / (coefficients**2).sum()
    rng = np.random.default_rng(0)
    shares = []
    for _ in range(200):
        a, b = rng.random((2, 60, 3))
        b[:, 0] = a[:, 0]
        y = np.repeat(np.stack([a @ coefficients, b @ coefficients], 1), n_values, axis=1)
        search = Bisection(3, [0], rng)
        for one, other in rng.normal(0, sd, (60, 2)):
            search._enter(values := [], one)
            search._enter(values, other)
        shares.append(search._share((y + rng.normal(0, sd, y.shape)).tolist()))
    estimates, most = np.array(shares).T
    assert abs(estimates.mean() - exact) < 0.1 * exact
    assert np.mean(most > exact) > 0.85


@pytest.mark.parametrize(("size", "is_told"), [(0.02, False), (0.5, True)])
def test_what_is_left_is_told_unless_it_is_negligible(monkeypatch, size, is_told):
    """Where something is left for certain: 0.04 % of the variance, or 20 %, both within a large noise."""
    monkeypatch.setattr(Bisection, "_p_value", lambda self, values: 0.001)
    monkeypatch.setattr(Bisection, "_is_followed", lambda self, a, b: a[7] != b[7])
    learner = HDSLearner(20, random_seed=0, budget=10_000, **BOX)
    learner.run(noisy(lambda X: X[:, 7] + size * X[:, 3], 0.01))
    result = HDSResult(learner)
    assert result.active == [7]
    assert (result.doubt is not None, result.check.n_shown) == (is_told, 128 if is_told else 32)
    if is_told:
        assert f"about {result.check.share_of_others[0]:.1%} of its variance" in result.doubt
    else:
        assert f"at most {result.check.share_of_others[1]:.1%} of the variance of f" in repr(result)


@pytest.mark.parametrize("f", [if_then, *nightly(signs, all_three, weak, ten)])
def test_faint_noise_costs_little(f):
    """Of the 64 values of the last pairs none comes twice; with more noise all do."""
    n, active = {}, FUNCTIONS[f]
    for sd in (0, 1e-4, 0.05):
        learner = HDSLearner(100, random_seed=1, **BOX)
        learner.run(noisy(f, sd))
        assert learner.recommend() == active
        n[sd] = HDSResult(learner).n_evaluations
    assert n[0] < n[1e-4] < n[0.05] - 64
    assert n[1e-4] < n[0] + 8 * len(active) + 40


@pytest.mark.slow
def test_a_simulator_of_one_point():
    keywords = {"vectorized": False, "random_seed": 1}
    assert hds(lambda x: 3 * x[4], 20, **keywords).active == [4]
    assert coordinate_wise(lambda x: 3 * x[4], 20, n_pairs=2, n_active=1, **keywords).active == [4]
    with pytest.raises(EvaluationError, match="vectorized=False"):
        hds(lambda x: 3 * x[19], 20, random_seed=1)
    with pytest.raises(EvaluationError, match=r"what f returns must hold numbers; .*None is no number"):
        hds(lambda X: None, 100, random_seed=1)


def test_a_model_of_a_simulator_without_noise_is_well_conditioned():
    """Rows that differ in other inputs only are equal in the model, whose noise is a thousandth of the signal."""
    result = hds(lambda X: 3 * X[:, 3] + np.sin(3 * X[:, 17]) + X[:, 3] * X[:, 9], 40, random_seed=2)
    gpm = result.to_model()
    assert len(np.unique(np.column_stack([gpm.X, gpm.y]), axis=0)) == len(gpm.y) < result.n_evaluations
    fit = pma.fit(gpm, random_seed=1, progressbar=False)
    there = pma.predict(fit, gpm.X[:1])
    assert_allclose(there.y_variance - there.f_variance, 1e-6 * result.data()[1].var(), rtol=1e-6)
    assert not fit.diagnostics["warnings"]
    # A noise that was seen stays.
    result = hds(noisy(lambda X: 3 * X[:, 3], 0.1), 8, random_seed=2)
    assert "log_noise" in result.to_model().shapes
    assert result.check.noise_variance == pytest.approx(0.01, rel=0.5)
