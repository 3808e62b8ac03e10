"""The maximum on the inputs found, and the picture of the tree."""

import pickle

import matplotlib as mpl
import numpy as np
import pytest
from numpy.testing import assert_allclose

from pymc_active.plots.hierarchy import plot_search_tree
from pymc_active.problems import BRANIN_BOUNDS, BRANIN_MINIMUM, branin
from pymc_active.relevant_inputs.baselines.gp_ucb import _Surrogate, gp_ucb, regret, theorem_beta
from pymc_active.relevant_inputs.evaluations import EvaluationError, EvaluationInterrupt
from pymc_active.relevant_inputs.search import hds, hds_then_optimize

pytestmark = pytest.mark.slow

mpl.use("agg")

SCALES = {"bandwidth": 0.8, "signal_variance": 1.0, "noise_variance": 1e-3}
# Of the tree alone.
SEARCH = SCALES | {"check": False}


def bump(X):
    """Largest, 1, where x₄ = 0.4 and x₂₁ = -0.3."""
    return 2 * np.exp(-3 * (X[:, 4] - 0.4) ** 2 - 2 * (X[:, 21] + 0.3) ** 2) - 1


def bump_of_eight(X):
    return 2 * np.exp(-3 * (X[:, 4] - 0.4) ** 2 - 2 * (X[:, 6] + 0.3) ** 2) - 1


def embedded_branin(X):
    """Branin of inputs 2 and 9, standardised and upside down."""
    low, high = np.array(BRANIN_BOUNDS).T
    return (54.3 - branin(low + (X[:, [2, 9]] + 1) / 2 * (high - low))) / 51.3


@pytest.fixture(scope="module")
def found():
    rng = np.random.default_rng(0)
    return hds_then_optimize(
        lambda X: bump(X) + rng.normal(0, 0.03, len(X)), 30, n=15, beta=4.0, random_seed=1, **SEARCH
    )


def test_the_maximum_is_found_on_the_inputs_found(found):
    assert found.selection.active == [4, 21]
    assert bump(found.best[None])[0] > 0.97
    inactive = np.delete(found.best, found.selection.active)
    assert_allclose(inactive, 0)


def test_the_units_of_the_inputs_do_not_matter_to_the_maximum(found):
    """Intervals of other lengths, and bandwidths in the same units: the same search, and the same next question."""
    width = np.where(np.arange(30) == 4, 2.0, 200.0)
    bounds = [(-w / 2, w / 2) for w in width]
    rng = np.random.default_rng(0)
    other = hds_then_optimize(
        lambda X: bump(X / width * 2) + rng.normal(0, 0.03, len(X)),
        30,
        n=5,
        beta=4.0,
        bounds=bounds,
        random_seed=1,
        **(SEARCH | {"bandwidth": 0.8 * width / 2}),
    )
    assert other.selection.active == found.selection.active
    assert_allclose(other.selection.history.z, found.selection.history.z, atol=1e-6)
    # Later questions follow from the first, whose rounding errors they may enlarge.
    assert_allclose(other.X[0] / width[[4, 21]] * 2, found.X[0], atol=1e-3)
    assert bump(found.best[None])[0] - bump(other.best[None] / width * 2)[0] < 0.1


def test_all_evaluations_are_accounted_for(found):
    X = found.points()
    assert X.shape == (found.selection.n_evaluations + 15, 30)
    assert len(found.values) == len(X)
    assert abs(bump(X) - found.values).max() < 0.2
    curve = regret(bump(X), 1.0)
    assert_allclose(curve.average[-1], (1 - bump(X)).mean())
    assert (np.diff(curve.minimum) <= 0).all()
    assert_allclose(curve.cumulative[-1], curve.instantaneous.sum())
    assert curve.minimum[-1] < 0.05


def test_regret_of_minimisation_is_not_negative():
    curve = regret([3.0, 1.0, 2.0], 0.5, minimize=True)
    assert_allclose(curve.instantaneous, [2.5, 0.5, 1.5])
    assert_allclose(curve.minimum, [2.5, 0.5, 0.5])


def test_minimising_is_maximising_the_negative():
    runs = [
        gp_ucb(lambda X, s=s: s * bump(X), 30, n=6, inputs=[4, 21], beta=4.0, minimize=s < 0, random_seed=1, **SCALES)
        for s in (1, -1)
    ]
    assert_allclose(runs[0].X, runs[1].X)
    assert_allclose(runs[0].y, -runs[1].y)


def test_branin_hidden_among_twelve_inputs_is_minimised():
    keywords = {"bandwidth": 0.6, "signal_variance": 1.0, "noise_variance": 1e-3, "budget": 500}
    found = hds_then_optimize(embedded_branin, 12, n=25, beta=4.0, random_seed=3, **keywords)
    assert found.selection.active == [2, 9]
    best = 54.3 - 51.3 * embedded_branin(found.best[None])[0]
    assert best < BRANIN_MINIMUM + 1.0


def test_expected_improvement_fits_the_scales_itself():
    noise = np.random.default_rng(0)
    found = hds_then_optimize(
        lambda X: bump_of_eight(X) + noise.normal(0, 0.03, len(X)),
        8,
        n=1,
        method="expected_improvement",
        random_seed=1,
        **SEARCH,
    )
    assert found.X.shape == (1, 2)
    assert bump_of_eight(found.best[None])[0] > 0.9


def test_predictive_entropy_search_on_the_inputs_found():
    noise = np.random.default_rng(0)
    found = hds_then_optimize(
        lambda X: bump_of_eight(X) + noise.normal(0, 0.03, len(X)), 8, n=1, method="pes", random_seed=1, **SEARCH
    )
    assert found.selection.active == [4, 6]
    assert found.X.shape == (1, 2)
    assert bump_of_eight(found.best[None])[0] > 0.9


def test_gp_ucb_on_all_inputs():
    run = gp_ucb(lambda X: -np.square(X - 0.2).sum(1), 3, n=25, beta=4.0, random_seed=1, **SCALES)
    assert_allclose(run.best, 0.2, atol=0.15)
    assert run.X.shape == (25, 3)
    assert (abs(run.X) <= 1).all()


def test_the_bound_agrees_with_a_direct_solve_and_its_gradient_with_differences():
    rng = np.random.default_rng(1)
    U, y, u = rng.random((9, 2)), rng.normal(5, 1, 9), rng.random((1, 2))
    surrogate = _Surrogate(U, y, np.array([0.4, 0.7]), 2.0, 0.1)

    def kernel(a, b):
        return 2.0 * (100 + np.exp(-np.square((a[:, None] - b) / [0.4, 0.7]).sum(-1)))

    G, k = kernel(U, U) + 0.1 * np.eye(9), kernel(u, U)
    variance = kernel(u, u) - k @ np.linalg.solve(G, k.T)
    mean = y.mean() + k @ np.linalg.solve(G, y - y.mean())
    assert_allclose(surrogate.bound(u, 1.5), mean + 1.5 * np.sqrt(variance[0]), rtol=1e-9)
    value, gradient = surrogate.value_and_gradient(u[0], 1.5)
    assert_allclose(-value, surrogate.bound(u, 1.5)[0], rtol=1e-9)
    for i, step in enumerate(1e-4 * np.eye(2)):
        difference = (surrogate.bound(u + step, 1.5) - surrogate.bound(u - step, 1.5))[0] / 2e-4
        assert_allclose(-gradient[i], difference, rtol=1e-4, atol=1e-6)


def test_beta_of_the_theorem():
    """Term by term, d = 3, at t = 5."""
    lipschitz = 2.0 / 0.2 * np.sqrt(np.log(12 / 0.05))
    expected = 2 * np.log(25 * 2 * np.pi**2 / 0.15) + 6 * np.log(2 * 25 * 3 * lipschitz)
    assert_allclose(theorem_beta(5, 3, signal_variance=4.0, bandwidth=0.2, delta=0.05), expected)


def test_beta_may_be_a_function_of_time():
    seen = []
    gp_ucb(bump, 30, n=3, inputs=[4], beta=lambda t: seen.append(t) or 1.0, random_seed=1, **SCALES)
    assert seen == [1, 2, 3]


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: hds_then_optimize(bump, 30, n=5, method="annealing", **SEARCH), "expected_improvement, gp_ucb, pes"),
        (lambda: hds_then_optimize(bump, 30, n=0, **SEARCH), "n must be a positive"),
        (lambda: hds_then_optimize(bump, 30, n=5, method="pes", beta=2.0, **SEARCH), "beta belongs to"),
        (lambda: gp_ucb(bump, 30, n=5, inputs=[30], **SCALES), "from 0 to 29"),
        (lambda: gp_ucb(bump, 30, n=5, beta=-1.0, **SCALES), "beta must not be negative"),
        (lambda: gp_ucb(never, 30, n=5, **(SCALES | {"noise_variance": -1.0})), "noise_variance"),
        (lambda: gp_ucb(never, 30, n=5, inputs=[3, 3], **SCALES), "each once"),
        (lambda: gp_ucb(never, 30, n=5, inputs=[3], X=[[0.0], [0.5]], y=[1, np.nan], **SCALES), "y must be finite"),
        (lambda: gp_ucb(never, 30, n=5, inputs=[3], X=[[0.0], [0.5]], y=[1.0], **SCALES), "equally many points"),
        (lambda: gp_ucb(never, 30, n=5, inputs=[3], X=[[0.0], [0.5]], **SCALES), "both or neither"),
        (lambda: gp_ucb(never, 30, n=5, inputs=[3], y=[0.0], **SCALES), "both or neither"),
        (lambda: gp_ucb(never, 30, n=5, inputs=[3], X=[[0.0, 1.0]], y=[1.0], **SCALES), "X must have 1 columns"),
        (lambda: gp_ucb(never, 30, n=5, others=np.zeros(3), **SCALES), "others must have a value for each of the 30"),
        (lambda: hds_then_optimize(never, 30, n=5, beta=-1, **SEARCH), "beta must not be negative"),
        (lambda: hds_then_optimize(never, 30, n=5, beta="wide", **SEARCH), "beta must be a number"),
        (lambda: theorem_beta(0, 2, signal_variance=1.0, bandwidth=0.1), "t >= 1"),
    ],
)
def test_bad_input_is_refused(call, message):
    with pytest.raises((ValueError, TypeError), match=message):
        call()


def test_nothing_to_optimise_keeps_the_selection():
    rng = np.random.default_rng(0)
    with pytest.raises(EvaluationError, match="no active input was found") as caught:
        hds_then_optimize(lambda X: rng.normal(0, 0.03, len(X)), 20, n=5, random_seed=1, **SEARCH)
    assert caught.value.selection.n_evaluations > 10


# What goes wrong

METHODS = ("gp_ucb", "expected_improvement", "pes")


def never(X):
    raise AssertionError("f was called")


class Failing:
    """The bump of eight inputs, which does something else from an evaluation on, or at every other one."""

    def __init__(self, otherwise, after=0, every=1):
        self.otherwise, self.after, self.every = otherwise, after, every
        self.seen, self.rng = [], np.random.default_rng(0)

    def __call__(self, X):
        self.seen.extend(X.copy())
        n = len(self.seen) - self.after
        if n > 0 and n % self.every == 0:
            return self.otherwise(X)
        return bump_of_eight(X) + self.rng.normal(0, 0.03, len(X))


def breaks(X):
    raise OSError("the robot is stuck")


@pytest.fixture(scope="module")
def n_selected():
    f = Failing(never, 1000)
    return hds(f, 8, random_seed=np.random.default_rng(1), **SEARCH).n_evaluations


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("otherwise", [breaks, lambda X: X])
def test_nothing_is_lost_when_f_fails_in_the_search_for_the_maximum(method, otherwise, n_selected):
    f = Failing(otherwise, n_selected + 1)
    with pytest.raises(EvaluationError, match=r"the robot is stuck.*error\.X|shape \(1,\); got shape") as caught:
        hds_then_optimize(f, 8, n=3, method=method, random_seed=1, **SEARCH)
    error = pickle.loads(pickle.dumps(caught.value))
    assert error.selection.active == [4, 6]
    assert error.selection.n_evaluations == n_selected
    assert_allclose(error.X, [f.seen[n_selected][[4, 6]]])
    X, y = error.selection.data()
    X, y = np.concatenate([X, error.X]), np.concatenate([y, error.y])
    assert_allclose(bump_of_eight(np.array(f.seen[: n_selected + 1])), y, atol=0.2)
    run = gp_ucb(bump_of_eight, 8, n=2, inputs=[4, 6], X=X, y=y, beta=4.0, random_seed=1, **SCALES)
    best = np.zeros((1, 8))
    best[0, [4, 6]] = run.best
    assert bump_of_eight(best)[0] > 0.9


@pytest.mark.parametrize("method", METHODS)
def test_a_failed_evaluation_counts_and_another_point_is_asked(method, n_selected):
    f = Failing(lambda X: np.full(len(X), np.nan), n_selected, every=2)
    with pytest.warns(UserWarning, match=r"NaN or infinity at 1 point"):
        found = hds_then_optimize(f, 8, n=3, method=method, random_seed=1, **SEARCH)
    assert np.isnan(found.y).tolist() == [False, True, False]
    assert len(np.unique(found.X, axis=0)) == 3
    assert bump_of_eight(found.best[None])[0] > 0.9
    assert np.isfinite(regret(found.values, 1.0).minimum).all()
    assert "y of these" in found._repr_html_()


def test_a_place_that_fails_is_left():
    """Nothing can be evaluated around the maximum."""
    seen = []

    def f(X):
        seen.append(X[0, [4, 21]])
        return np.where(bump(X) > 0.8, np.nan, bump(X))

    with pytest.warns(UserWarning, match="NaN or infinity at"):
        run = gp_ucb(f, 30, n=30, inputs=[4, 21], beta=4.0, random_seed=1, **SCALES)
    assert 0 < np.isnan(run.y).sum() < 25
    assert len(np.unique(np.round(seen, 6), axis=0)) == 30
    assert "of 30 evaluations" in repr(run)
    assert "nan" not in run._repr_html_()


def test_a_search_for_the_maximum_that_always_fails_ends():
    nowhere = lambda X: np.full(len(X), np.nan)  # noqa: E731
    with pytest.raises(EvaluationError, match="at all 2 point") as caught:
        gp_ucb(nowhere, 3, n=2, **SCALES)
    assert caught.value.X.shape == (0, 3)
    for start in ({}, {"X": np.zeros((1, 3)), "y": [1.0]}):
        with pytest.raises(EvaluationError, match="NaN or infinity 20 times in a row") as caught:
            gp_ucb(nowhere, 3, n=50, random_seed=1, **SCALES, **start)
        assert caught.value.X.shape == (0, 3)


def test_other_errors_keep_the_selection(n_selected):
    with pytest.raises(EvaluationError, match=r"ended with ZeroDivisionError: .* see error\.X, error\.y") as caught:
        hds_then_optimize(
            Failing(bump_of_eight, n_selected), 8, n=3, beta=lambda t: 1 / (2 - t), random_seed=1, **SEARCH
        )
    assert isinstance(caught.value.__cause__, ZeroDivisionError)
    assert caught.value.selection.active == [4, 6]
    assert caught.value.X.shape == (1, 2)


@pytest.mark.parametrize("method", METHODS)
def test_an_interrupt_keeps_what_was_evaluated(method, n_selected):
    calls = []

    def f(X):
        calls.extend(X)
        if len(calls) > n_selected + 2:
            raise KeyboardInterrupt
        return bump_of_eight(X)

    with pytest.raises(EvaluationInterrupt) as caught:
        hds_then_optimize(f, 8, n=5, method=method, random_seed=1, **SEARCH)
    assert caught.value.selection.active == [4, 6]
    evaluated = np.array(calls[caught.value.selection.n_evaluations : -1])
    assert len(evaluated) > 1
    assert_allclose(caught.value.X, evaluated[:, [4, 6]])
    assert_allclose(caught.value.y, bump_of_eight(evaluated))


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.filterwarnings("ignore:on the inputs found")
def test_the_maximum_of_a_simulator_without_noise(method):
    keywords = SEARCH | {"noise_variance": 0.0}
    found = hds_then_optimize(bump_of_eight, 8, n=2, method=method, random_seed=1, **keywords)
    assert found.selection.active == [4, 6]
    assert bump_of_eight(found.best[None])[0] > 0.9


def test_many_evaluations_without_noise_near_one_place():
    keywords = SCALES | {"noise_variance": 0.0}
    run = gp_ucb(bump, 30, n=60, inputs=[4, 21], beta=0.0, random_seed=1, **keywords)
    assert_allclose(run.best, [0.4, -0.3], atol=0.02)


def test_regret_leaves_out_what_failed():
    curve = regret([np.nan, 1.0, np.nan, 3.0], 3.5)
    assert_allclose(curve.instantaneous, [np.nan, 2.5, np.nan, 0.5])
    assert_allclose(curve.cumulative, [0, 2.5, 2.5, 3.0])
    assert_allclose(curve.average, [np.nan, 2.5, 2.5, 1.5])
    assert_allclose(curve.minimum, [np.nan, 2.5, 2.5, 0.5])


# The picture


def test_tree_shows_every_node_once():
    result = hds(bump, 30, random_seed=1, **SEARCH)
    ax = plot_search_tree(result)
    boxes = [text.get_text().split("\n")[0] for text in ax.texts]
    assert sorted(boxes) == sorted(result.tree_table().inputs)
    bold = [text.get_text().split("\n")[0] for text in ax.texts if text.get_fontweight() == "bold"]
    assert sorted(map(int, bold)) == result.active
    assert "found: 4, 21" in ax.get_title(loc="left")
    places = [text.get_position() for text in ax.texts]
    assert len(set(places)) == len(places)
    shallow = plot_search_tree(result, max_depth=1)
    # The root with its halves, and the test of the rest.
    assert len(shallow.texts) == 4
    mpl.pyplot.close("all")


@pytest.mark.parametrize(("retest", "n_roots"), [(False, 1), (True, 2)])
def test_trees_of_one_node_can_be_drawn(retest, n_roots):
    rng = np.random.default_rng(0)
    result = hds(lambda X: rng.normal(0, 0.03, len(X)), 20, retest=retest, random_seed=1, **SEARCH)
    assert len(plot_search_tree(result).texts) == n_roots
    mpl.pyplot.close("all")


def test_other_objects_are_not_drawn():
    with pytest.raises(TypeError, match="result of hds"):
        plot_search_tree(3)
