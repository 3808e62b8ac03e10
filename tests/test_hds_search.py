"""Hierarchical diagonal sampling as a whole: what it finds, what it costs, and what it survives."""

import pickle
import warnings

import numpy as np
import pytest
from numpy.testing import assert_allclose

import pymc_active as pma
from pymc_active.problems import gp_draw
from pymc_active.relevant_inputs.anchored import _LONGEST_SCAN, _SET_ASIDE, Anchored, farthest_from_mean
from pymc_active.relevant_inputs.by_name import TESTS
from pymc_active.relevant_inputs.evaluations import EvaluationError, EvaluationInterrupt
from pymc_active.relevant_inputs.learner import HDSLearner
from pymc_active.relevant_inputs.likelihood_ratios import LineRatio
from pymc_active.relevant_inputs.result import HDSResult
from pymc_active.relevant_inputs.search import hds
from pymc_active.relevant_inputs.state import HDSState
from pymc_active.relevant_inputs.verdicts import conclude

pytestmark = pytest.mark.slow

SCALES = {"bandwidth": 0.1, "signal_variance": 1.0, "noise_variance": 0.1, "check": False}
SMOOTH = {"bandwidth": 0.6, "signal_variance": 1.0, "noise_variance": 0.01, "check": False}
# For functions that are no draws of the assumed process, or whose inputs are not all found.
unlike_a_draw = pytest.mark.filterwarnings("ignore:on the inputs found, the evaluations look like")


def trial(seed, n_dims, noise_variance=0.1, **keywords):
    """Whether both inputs of a fresh draw were found, and the evaluations used."""
    rng = np.random.default_rng(seed)
    active = sorted(rng.choice(n_dims, 2, replace=False).tolist())
    draw = gp_draw(2, 0.1, random_seed=rng)

    def f(X):
        return draw(X[:, active]) + rng.normal(0, np.sqrt(noise_variance), len(X))

    result = hds(f, n_dims, random_seed=seed, **(SCALES | {"noise_variance": noise_variance} | keywords))
    return result.active == active, result.n_evaluations


def two_of(n_dims, first, second, noise=0.1):
    """A smooth noisy function of two inputs, with the same noise at every call."""
    rng = np.random.default_rng(0)

    def f(X):
        assert X.shape[1] == n_dims
        return 1.5 * np.sin(4 * X[:, first]) + np.cos(5 * X[:, second]) + rng.normal(0, noise, len(X))

    return f


def ask_and_tell(learner, f, n=None):
    asked = []
    while not learner.is_finished and (n is None or len(asked) < n):
        X = learner.ask(1)
        asked.append(X[0])
        learner.tell(X, f(X))
    return np.array(asked)


# What it finds and what it costs, in few runs. The bounds are one and a half times the average, more than the mean of
# so few runs varies by: 60 evaluations with the anchored test, 130 with more noise, 150 without retests; 150 with the
# GP test, 180 with an offset; 330 with finite differences.


@pytest.mark.parametrize(
    ("keywords", "n_runs", "most", "most_wrong"),
    [
        ({}, 10, 100, 0),
        ({"share": 1.0}, 8, 80, 0),
        ({"noise_variance": 0.36}, 3, 220, 0),
        ({"retest": False}, 6, 250, 0),
        ({"test": "gpt", "accept": 5, "reject": -10}, 8, 280, 1),
        ({"test": "gpt", "accept": 5, "reject": -10, "offset_variance": 10.0, "retest": True}, 8, 280, 1),
        ({"test": "fdt", "accept": 5, "reject": -10}, 8, 500, 1),
        ({"test": "fdt", "accept": 5, "reject": -10, "retest": True}, 8, 500, 1),
    ],
)
def test_two_inputs_of_fifty_are_found(keywords, n_runs, most, most_wrong):
    is_right, count = np.array([trial(seed, 50, **keywords) for seed in range(n_runs)]).T
    assert (1 - is_right).sum() <= most_wrong
    assert count.mean() < most


@unlike_a_draw
def test_smooth_functions_take_few_evaluations():
    """Along a line they hardly differ from a constant; off the diagonal they do."""
    f = two_of(50, 10, 40, noise=0.3)
    smooth = SMOOTH | {"bandwidth": 0.8, "noise_variance": 0.09, "budget": 600}
    tests = ("anchored", "gpt")
    default, line = (hds(f, 50, test=test, offset_variance=10.0, random_seed=1, **smooth) for test in tests)
    assert default.active == [10, 40]
    assert default.n_evaluations < 300
    assert line.n_evaluations > 1.5 * default.n_evaluations


@unlike_a_draw
def test_inputs_of_a_sum_are_found():
    """Each of four accounts for a quarter of the variance, less than the assumed process lets one expect."""
    inputs, rng = [3, 20, 33, 41], np.random.default_rng(0)

    def f(X):
        return 1.7 * np.square(X[:, inputs] - 0.3).sum(1) - 2.5 + rng.normal(0, 0.1, len(X))

    for seed in range(3):
        assert hds(f, 50, random_seed=seed, **(SMOOTH | {"noise_variance": 0.01})).active == inputs


def sum_of_two(n_dims, rng):
    """Each input accounts for half of the variance."""
    active = sorted(rng.choice(n_dims, 2, replace=False).tolist())
    parts = [gp_draw(1, 0.3, random_seed=rng) for _ in active]
    return active, lambda X: sum(part(X[:, [i]]) for part, i in zip(parts, active, strict=True)) / np.sqrt(2)


def draw_of_two(n_dims, rng):
    active = sorted(rng.choice(n_dims, 2, replace=False).tolist())
    draw = gp_draw(2, 0.3, random_seed=rng)
    return active, lambda X: draw(X[:, active])


@unlike_a_draw
@pytest.mark.parametrize(("make", "share"), [(draw_of_two, 1.0), (draw_of_two, 0.6), (sum_of_two, 0.5)])
def test_nodes_are_misjudged_no_more_often_than_declared(make, share):
    """With low thresholds, so that there is something to count in some 400 nodes of either kind; no retests."""
    low = {"accept": 2.0, "reject": -3.0, "retest": False, "bandwidth": 0.3, "signal_variance": 1.0, "share": share}
    wrong, total = np.zeros(2), np.zeros(2)
    for seed in range(55):
        rng = np.random.default_rng(seed)
        active, function = make(32, rng)
        result = hds(
            lambda X, function=function, rng=rng: function(X) + rng.normal(0, 0.3, len(X)),
            32,
            noise_variance=0.09,
            check=False,
            random_seed=seed,
            **low,
        )
        for trial in result.state.trials:
            node = result.state.nodes[trial.node]
            is_active = any(node.start <= i < node.stop for i in active)
            total[int(is_active)] += 1
            wrong[int(is_active)] += (trial.verdict == "active") != is_active
    declared = np.array([result.error_rates.false_active, result.error_rates.false_inactive])
    assert total.min() > 300
    assert (wrong / total <= declared).all()
    assert wrong.sum() > 0


def test_fixed_sample_test_finds_the_inputs():
    is_right, _ = np.array([trial(seed, 20, test="fdt_fixed") for seed in range(4)]).T
    # Fifteen of sixteen in longer runs.
    assert is_right.mean() >= 0.5


@pytest.mark.parametrize("test", ["anchored", "gpt"])
def test_evaluations_grow_with_the_logarithm_of_the_inputs(test):
    counts = [
        np.mean([hds(two_of(D, 3, D - 5), D, test=test, random_seed=s, **SMOOTH).n_evaluations for s in range(3)])
        for D in (32, 1024)
    ]
    # Twice the depth; three times the evaluations with the GP test. Growth with the number would be 32-fold.
    assert counts[1] < 6 * counts[0]


def test_one_input():
    f = two_of(1, 0, 0)
    for test in ("anchored", "gpt", "fdt"):
        assert hds(f, 1, test=test, random_seed=1, **SMOOTH).active == [0]


def test_no_active_input():
    rng = np.random.default_rng(1)
    for test, n_roots in (("anchored", 2), ("fdt", 1)):
        result = hds(lambda X: 5 + rng.normal(0, 0.1, len(X)), 30, test=test, random_seed=2, **SMOOTH)
        assert result.active == []
        # A flat diagonal is not believed before inputs moved in other directions as well.
        assert result.tree_table().status.tolist() == ["inactive"] * n_roots
    with pytest.raises(ValueError, match="no active input was found"):
        result.to_model()
    for n_foreign in range(2):
        X, y = HDSResult(result.learner).data()
        assert X.shape == (result.n_evaluations + n_foreign, 0)
        assert len(y) == len(X)
        result.learner.tell(np.zeros(30), 5.0)
    assert len(result.data()[1]) == result.n_evaluations


@unlike_a_draw
def test_all_inputs_active():
    # Unlike plain sums, this changes whichever inputs move together.
    def f(X):
        return np.sin(3 * X @ np.array([1.0, 1.4, -1.2, 0.9])) + np.cos(2.0 * X).sum(1)

    assert hds(f, 4, random_seed=1, **SMOOTH).active == [0, 1, 2, 3]


@pytest.mark.parametrize("offset", [100.0, -1e4])
def test_an_offset_of_the_output_does_not_matter(offset):
    f = two_of(40, 3, 30)
    assert hds(lambda X: offset + f(X), 40, random_seed=1, **SMOOTH).active == [3, 30]


@unlike_a_draw
def test_inputs_that_cancel_on_the_diagonal_are_found():
    """A function of x₁ - x₂ is constant along every line of the paper on which both move."""

    def f(X):
        return 2 * np.sin(5 * (X[:, 2] - X[:, 3]))

    assert hds(f, 16, random_seed=1, **SMOOTH).active == [2, 3]
    assert hds(f, 16, test="gpt", random_seed=1, **SMOOTH).active == []


def test_a_function_flat_on_the_first_background_is_found_by_the_retest():
    keywords = SMOOTH | {"test": "gpt", "bandwidth": 0.2, "random_seed": 1}
    seen = []
    for retest in (False, True):
        learner = HDSLearner(2, retest=retest, **keywords)
        flat = 2 * learner.state().backgrounds[0].position[1] - 1

        def f(X, flat=flat):
            return 1.5 * np.sin(20 * X[:, 0]) * (abs(X[:, 1] - flat) > 1e-6)

        learner.run(f)
        seen.append(HDSResult(learner))
    assert (seen[0].active, seen[0].contradicted) == ([], ["0-1"])
    assert 0 in seen[1].active
    assert "CONTRADICTED nodes 0-1;" in repr(seen[0])
    assert len(seen[1].llr["0"]) == 2


@unlike_a_draw
def test_a_smooth_function_flat_along_the_first_diagonal_is_found_along_another():
    """A constant and a smooth function of unknown mean differ by the logarithm of the evaluations only."""
    rng = np.random.default_rng(1)
    learner = HDSLearner(
        16, bandwidth=1.6, signal_variance=0.5, noise_variance=0.1, share=1.0, budget=600, random_seed=2
    )
    first = np.where(learner.state().backgrounds[0].is_reversed, -1, 1)
    learner.run(lambda X: (first * X)[:, 2] - (first * X)[:, 9] + rng.normal(0, 0.3, len(X)))
    result = HDSResult(learner)
    assert result.active == [2, 9]
    assert len(result.llr["0-15"][0]) == _LONGEST_SCAN


def test_a_constant_is_given_up_before_the_budget_ends():
    """Along two flat diagonals the ratio hardly moves where f may be smooth; all inputs in new directions decide."""
    learner = HDSLearner(200, bandwidth=2.0, signal_variance=1.0, noise_variance=0.1, check=False, random_seed=0)
    learner.run(lambda X: np.full(len(X), 3.0))
    result = HDSResult(learner)
    assert (result.active, result.undecided) == ([], [])
    # Two scans of 96, and the test of all inputs.
    assert result.n_evaluations < 292


def test_user_units_do_not_matter():
    """Bounds of any size, also one for each input; the bandwidth is in units of the inputs."""
    low, width = np.linspace(-5, 5, 20), np.linspace(1, 30, 20)
    f = two_of(20, 3, 15)
    bounds = np.stack([low, low + width], 1)

    def scaled(X):
        assert ((bounds[:, 0] <= X) & (bounds[:, 1] >= X)).all()
        return f(2 * (X - low) / width - 1)

    result = hds(scaled, 20, bounds=bounds, random_seed=1, **(SMOOTH | {"bandwidth": 0.3 * width}))
    reference = hds(two_of(20, 3, 15), 20, random_seed=1, **SMOOTH)
    assert result.active == reference.active == [3, 15]
    assert_allclose(result.history.z, reference.history.z)


def test_a_hundred_thousand_inputs():
    D = 100_000
    result = hds(two_of(D, 31_234, 77_777), D, random_seed=1, **SMOOTH)
    assert result.active == [31_234, 77_777]
    assert len(result.state.nodes) < 100
    assert "X" not in result.to_datatree()["constant_data"]


# Without noise


@unlike_a_draw
@pytest.mark.parametrize("test", set(TESTS) - {"bisection"})
@pytest.mark.parametrize("noise_variance", [0.0, 1e-16, 1e-12])
def test_the_noise_may_be_zero(test, noise_variance):
    f = two_of(50, 10, 40, noise=0.0)
    for seed in range(3):
        result = hds(f, 50, test=test, random_seed=seed, **(SMOOTH | {"noise_variance": noise_variance}))
        assert result.active == [10, 40]
        assert result.n_evaluations < 60


@unlike_a_draw
@pytest.mark.parametrize("offset_variance", [10.0, 1e9])
def test_an_offset_without_noise_does_not_matter(offset_variance):
    f = two_of(50, 10, 40, noise=0.0)
    keywords = SMOOTH | {"noise_variance": 0.0, "test": "gpt", "offset_variance": offset_variance, "retest": True}
    assert hds(lambda X: 3 + f(X), 50, random_seed=1, **keywords).active == [10, 40]


@pytest.mark.parametrize("test", ["anchored", "gpt"])
def test_a_constant_without_noise_is_given_up(test):
    keywords = SMOOTH | {"noise_variance": 0.0, "test": test}
    result = hds(lambda X: np.zeros(len(X)), 50, batch_size=5, random_seed=1, **keywords)
    assert (result.active, result.undecided) == ([], [])


# The learner


@pytest.mark.parametrize("test", ["anchored", "gpt", "fdt"])
def test_asking_by_hand_is_what_hds_does(test):
    learner = HDSLearner(30, test=test, random_seed=3, **SMOOTH)
    ask_and_tell(learner, two_of(30, 4, 20))
    result = hds(two_of(30, 4, 20), 30, test=test, random_seed=3, **SMOOTH)
    assert learner.recommend() == result.active == [4, 20]
    assert_allclose(HDSResult(learner).history.z, result.history.z)


@pytest.mark.parametrize("test", ["anchored", "gpt", "fdt", "fdt_fixed"])
@pytest.mark.parametrize("n", [1, 7, 25, 42])
def test_a_resumed_learner_asks_the_same_bit_for_bit(test, n):
    learner = HDSLearner(30, test=test, random_seed=3, **SMOOTH)
    ask_and_tell(learner, two_of(30, 4, 20), n)
    waiting = learner.ask(2)
    resumed = HDSLearner.from_state(learner.state())
    assert np.array_equal(resumed.pending, waiting)
    futures = []
    for one in (learner, resumed):
        f = two_of(30, 4, 20)
        one.tell(waiting, f(waiting))
        futures.append(ask_and_tell(one, f))
    assert np.array_equal(*futures)
    assert learner.recommend() == resumed.recommend()
    assert HDSResult(learner).tree_table().equals(HDSResult(resumed).tree_table())


def test_a_state_is_a_copy():
    learner = HDSLearner(30, random_seed=3, **SMOOTH)
    f = two_of(30, 4, 20)
    ask_and_tell(learner, f, 20)
    state, result = learner.state(), HDSResult(learner)

    def held():
        y = [at.y for at in state.evaluations]
        return repr((y, state.told, state.nodes, state.trials, state.rng.bit_generator.state)), repr(result)

    before = held()
    ask_and_tell(learner, f)
    ask_and_tell(HDSLearner.from_state(state), f)
    assert held() == before
    assert len(result.history) == len(state.told) == 20


@pytest.mark.parametrize("test", ["anchored", "gpt", "fdt", "fdt_fixed"])
@pytest.mark.parametrize("batch_size", [3, 40])
def test_batches_find_the_same_inputs(test, batch_size):
    sizes = []
    f = two_of(30, 4, 20)

    def counted(X):
        sizes.append(len(X))
        return f(X)

    result = hds(counted, 30, test=test, batch_size=batch_size, random_seed=3, **SMOOTH)
    assert result.active == [4, 20]
    assert max(sizes) == batch_size


def test_answers_may_come_in_any_order_and_unasked():
    learner, f = HDSLearner(30, random_seed=3, **SMOOTH), two_of(30, 4, 20)
    rng = np.random.default_rng(1)
    while not learner.is_finished:
        X = learner.ask(3)[rng.permutation(3)[: learner.pending.shape[0]]] if len(learner.pending) < 3 else None
        X = learner.pending[::-1][:2] if X is None else X
        learner.tell(X, f(X))
        if learner.n_evaluations > 1000:
            pytest.fail("does not end")
    assert learner.recommend() == [4, 20]
    extra = rng.uniform(-1, 1, (5, 30))
    learner.tell(extra, f(extra))
    X, y = HDSResult(learner).data()
    assert len(y) == learner.n_evaluations + 5
    assert_allclose(X[-5:], extra[:, [4, 20]])


def test_answers_at_rounded_settings_name_what_they_answer():
    learner, f = HDSLearner(30, random_seed=3, **SMOOTH), two_of(30, 4, 20)
    while not learner.is_finished:
        asked = learner.ask()
        measured = asked.round(3)
        learner.tell(measured[::-1], f(measured)[::-1], asked=asked[::-1])
    result = HDSResult(learner)
    assert result.active == [4, 20]
    X, _ = result.data()
    assert len(X) == learner.n_evaluations
    assert np.array_equal(X, X.round(3))
    assert np.array_equal(result.history.X(), result.history.X().round(3))
    resumed = HDSLearner.from_state(learner.state())
    assert np.array_equal(HDSResult(resumed).history.X(), result.history.X())


def test_answers_that_went_through_single_precision_are_answers():
    low = np.linspace(-5, 5, 30)
    bounds = np.stack([low, low + 3], 1)
    learner = HDSLearner(30, bounds=bounds, random_seed=3, **SMOOTH)
    x = learner.ask()
    learner.tell(x.astype(np.float32)[::-1], np.arange(len(x), dtype=float))
    assert len(learner.pending) == 0
    assert np.array_equal(HDSResult(learner).history.X(), x[::-1])
    assert HDSResult(learner).history.y.tolist() == list(range(len(x)))


def test_points_that_nobody_asked_for_are_warned_of_once_while_others_are_pending():
    learner = HDSLearner(30, random_seed=3, **SMOOTH)
    learner.tell(np.zeros(30), 1.0)
    x = learner.ask()
    with pytest.warns(
        UserWarning, match=r"12 of the point\(s\) told were not asked for, while 12 .*pass those as asked="
    ):
        learner.tell(x.round(3), np.ones(12))
    learner.tell(x.round(2), np.ones(12))
    assert len(learner.pending) == 12
    assert len(HDSResult(learner).data()[1]) == 25


def test_what_is_told_twice_is_kept_once():
    """As after a retry; another value at the same point is a repeat."""
    learner = HDSLearner(30, random_seed=3, **SMOOTH)
    x = learner.ask()
    for _ in range(2):
        learner.tell(x, np.arange(12.0))
        learner.tell(np.zeros((2, 30)), [5.0, 5.0])
    assert len(HDSResult(learner).data()[1]) == 13
    learner.tell(x[0], 0.5)
    assert len(HDSResult(learner).data()[1]) == 14
    x = learner.ask()
    with pytest.warns(UserWarning, match="were not asked for"):
        learner.tell(x[[0, 0]], [1.0, 1.0])
    assert len(HDSResult(learner).data()[1]) == 15


def test_what_is_answered_must_be_pending():
    learner = HDSLearner(30, random_seed=3, **SMOOTH)
    x = learner.ask()
    for asked, message in (
        (x[:2], "asked must have a row for each point told; got 2 row"),
        (x[[0, 1, 1]], r"asked must be among the 12 point\(s\) asked and not told yet.*row 2"),
        (x[:3].round(2), r"row 0, \[.* \.\.\. .*\], is not"),
        (x[:3, :4], "asked must have 30 columns"),
    ):
        with pytest.raises(ValueError, match=message):
            learner.tell(x[:3], np.ones(3), asked=asked)
    assert len(learner.pending) == 12


def test_two_asks_in_a_row_give_different_points():
    learner = HDSLearner(30, random_seed=3, **SMOOTH)
    X = np.concatenate([learner.ask(1) for _ in range(20)])
    assert len(np.unique(X, axis=0)) == 20


def test_the_same_seed_asks_the_same():
    runs = [hds(two_of(30, 4, 20), 30, random_seed=5, **SMOOTH).history.X() for _ in range(2)]
    assert np.array_equal(*runs)


def test_a_budget_is_kept_and_what_is_open_is_named():
    for test in ("anchored", "gpt", "fdt"):
        for budget in (21, 22):
            result = hds(two_of(64, 4, 50), 64, test=test, budget=budget, random_seed=3, **SMOOTH)
            assert result.n_evaluations <= budget
            assert result.n_evaluations >= budget - 1
            assert result.undecided
            assert result.stopped == "budget"
            assert f"at most {budget}, budget; UNDECIDED nodes {result.undecided[0]}" in repr(result)


# What goes wrong


@pytest.mark.parametrize("test", ["anchored", "gpt", "fdt", "fdt_fixed"])
def test_failed_evaluations_are_replaced(test):
    f = two_of(30, 4, 20)
    rng = np.random.default_rng(8)

    def failing(X):
        return np.where(rng.random(len(X)) < 0.2, np.nan, f(X))

    with pytest.warns(UserWarning, match="f returned NaN or infinity at"):
        result = hds(failing, 30, test=test, random_seed=3, **SMOOTH)
    assert result.active == [4, 20]
    assert np.isnan(result.history.y).sum() > 2
    assert np.isfinite(result.data()[1]).all()


@pytest.mark.parametrize("n", [0, 5, 12, 20])
def test_nothing_is_lost_when_f_raises(n):
    f, count = two_of(30, 4, 20), [0]

    def raising(X):
        count[0] += len(X)
        if count[0] > n:
            raise OSError("the robot is stuck")
        return f(X)

    with pytest.raises(EvaluationError, match="the robot is stuck") as caught:
        hds(raising, 30, random_seed=3, **SMOOTH)
    learner = caught.value.learner
    told = learner.n_evaluations
    assert told <= n
    waiting = learner.pending
    assert len(waiting)
    learner.run(f)
    assert learner.recommend() == [4, 20]
    assert np.array_equal(HDSResult(learner).history.X(slice(told, told + len(waiting))), waiting)


def test_a_function_that_always_fails_ends():
    with pytest.raises(EvaluationError, match=r"NaN .* times in a row"):
        hds(lambda X: np.full(len(X), np.nan), 30, random_seed=1, **SMOOTH)


def test_infinite_values_are_named():
    with pytest.raises(EvaluationError, match=r"NaN or infinity \d+ times in a row"):
        hds(lambda X: np.full(len(X), np.inf), 30, random_seed=1, **SMOOTH)


def test_a_function_may_write_into_its_argument():
    def writes(X):
        X[:, 3] *= 2
        return np.sin(2 * X[:, 3])

    result = hds(writes, 30, random_seed=1, **SMOOTH)
    assert result.active == [3]
    assert abs(result.history.X()).max() <= 1


def test_a_round_that_settles_nothing_ends(monkeypatch):
    learner = HDSLearner(30, random_seed=1, **SMOOTH)
    monkeypatch.setattr(HDSState, "distance", lambda state, row, point: 1.0)
    with pytest.raises(EvaluationError, match="asked must be among the 12") as caught:
        learner.run(lambda X: X[:, 0])
    assert caught.value.learner is learner


def test_errors_of_evaluations_come_back_from_other_processes():
    learner = HDSLearner(30, random_seed=1, **SMOOTH)
    with pytest.raises(EvaluationError) as caught:
        learner.run(lambda X: X[:, 100])
    error = pickle.loads(pickle.dumps(caught.value))
    assert str(error) == str(caught.value)
    assert np.array_equal(error.learner.pending, learner.pending)


def test_a_number_will_do_for_one_point():
    """As it does in Learner.run."""
    f, learner = two_of(8, 2, 5), HDSLearner(8, test="gpt", random_seed=1, **SMOOTH)
    learner.run(lambda X: float(f(X)[0]))
    assert learner.recommend() == hds(two_of(8, 2, 5), 8, test="gpt", random_seed=1, **SMOOTH).active == [2, 5]
    g = two_of(30, 4, 20)
    assert hds(lambda X: g(X)[:, None], 30, random_seed=3, **SMOOTH).active == [4, 20]


def test_an_interrupt_keeps_what_was_told_and_is_an_interrupt():
    f, told = two_of(30, 4, 20), []

    def interrupted(X):
        if len(told) > 12:
            raise KeyboardInterrupt
        told.extend(f(X))
        return told[-len(X) :]

    with pytest.raises(KeyboardInterrupt) as caught:
        hds(interrupted, 30, random_seed=3, **SMOOTH)
    assert type(caught.value) is EvaluationInterrupt
    assert HDSResult(caught.value.learner).history.y.tolist() == told
    assert len(pickle.loads(pickle.dumps(caught.value)).learner.pending)
    caught.value.learner.run(f)
    assert caught.value.learner.recommend() == [4, 20]


def test_a_function_of_the_wrong_shape_is_named():
    with pytest.raises(EvaluationError, match=r"shape \(12,\); got shape \(12, 2\)"):
        hds(lambda X: X[:, :2], 30, random_seed=1, **SMOOTH)


@pytest.mark.parametrize(
    ("keywords", "message"),
    [
        ({"n_dims": 0}, "n_dims, the number of inputs"),
        ({"test": "t-test"}, "test must be one of anchored, bisection, fdt, fdt_fixed, gpt"),
        ({"bandwidth": None}, "needs bandwidth"),
        ({"bandwidth": 0.0}, "bandwidth must be a positive"),
        ({"bandwidth": np.ones(3)}, r"array of shape \(30,\)"),
        ({"signal_variance": -1.0}, "signal_variance must be a positive"),
        ({"noise_variance": -1.0}, "noise_variance must be a positive"),
        ({"noise_variance": np.nan}, "noise_variance must be a positive"),
        ({"accept": -5.0}, "accept > 0 > reject"),
        ({"reject": 10.0}, "accept > 0 > reject"),
        ({"budget": 5}, "smaller than one test"),
        ({"budget": 1, "test": "fdt"}, "smaller than one test"),
        ({"offset_variance": -1.0}, "offset_variance"),
        ({"share": 0.0}, "share, a part of the variance"),
        ({"bounds": [(0, 1)] * 4}, "one pair .* or 30"),
        ({"bounds": (1, 0)}, "low < high"),
        ({"batch_size": 0}, "batch_size"),
    ],
)
def test_bad_input_is_refused_before_anything_is_evaluated(keywords, message):
    def never(X):
        raise AssertionError("f was called")

    with pytest.raises(ValueError, match=message):
        hds(never, **({"n_dims": 30} | SMOOTH | keywords))


def test_bad_kinds_are_refused():
    with pytest.raises(TypeError, match="f must be callable"):
        hds(3, 30, **SMOOTH)
    with pytest.raises(ValueError, match="budget must be a whole number"):
        hds(np.sum, 30, budget=10.5, **SMOOTH)
    with pytest.raises(TypeError, match="model must be a GPModel or a fit"):
        hds(np.sum, 30, model="ard")


def test_bad_answers_are_refused_and_nothing_is_told():
    learner = HDSLearner(30, random_seed=3, **SMOOTH)
    X = learner.ask(2)
    for y, message in (([1.0], "one number for each"), ([1.0, np.inf], "finite or NaN"), (np.ones((2, 2)), "each")):
        with pytest.raises(ValueError, match=message):
            learner.tell(X, y)
    with pytest.raises(ValueError, match="30 columns"):
        learner.tell(X[:, :4], [1.0, 2.0])
    with pytest.raises(ValueError, match="n must be a positive"):
        learner.ask(0)
    assert learner.n_evaluations == 0
    assert len(learner.pending) == 2


# The result


@pytest.fixture(scope="module")
def result():
    return hds(two_of(40, 7, 30), 40, random_seed=2, **SMOOTH)


def test_history_holds_every_point(result):
    X = result.history.X()
    assert X.shape == (result.n_evaluations, 40)
    assert_allclose(result.history.columns([30, 7]), X[:, [30, 7]])
    assert (abs(X) <= 1).all()
    noiseless = two_of(40, 7, 30, noise=0.0)(X)
    assert abs(result.history.y - noiseless).max() < 0.5


def test_the_tree_adds_up(result):
    table = result.tree_table()
    assert table.n_evaluations.sum() == result.n_evaluations
    assert set(table.status) <= {"active", "inactive"}
    for _, row in table.iterrows():
        children = table[table.parent == row.name]
        if len(children):
            assert (row.status, children.start.min(), children.stop.max()) == ("active", row.start, row.stop)
    leaves = table[(table.status == "active") & (table.stop - table.start == 1)]
    assert sorted(leaves.start) == result.active


def test_llr_paths_end_at_their_threshold(result):
    settings, trials = result.settings, result.state.trials
    assert {trial.verdict for trial in trials} == {"active", "inactive", "set aside"}
    for trial in trials:
        low, high = {
            "active": (settings.accept, np.inf),
            "inactive": (-np.inf, settings.reject),
            "set aside": (settings.reject, _SET_ASIDE),
        }[trial.verdict]
        assert low <= trial.llr <= high, trial


def test_all_inputs_that_were_not_found_are_rejected_in_one_test(result):
    state, table = result.state, result.tree_table()
    [rest] = [node for node in state.nodes if node.without]
    assert (rest.label, rest.status, rest.parent) == ("0-39 without 7, 30", "inactive", -1)
    asked = result.history.X(result.history.node == rest.number)
    place = result.settings.unscale(asked)
    place = np.where(state.backgrounds[0].is_reversed, 1 - place, place)
    directions = set()
    for point, (z, c) in zip(place, state.places(state.trials[-1].rows).T, strict=True):
        # Each evaluation has directions of its own; what was found stays on the diagonal.
        moved = np.delete(point, [7, 30])
        assert_allclose(np.abs(moved - 0.5), abs(z - 0.5), atol=1e-12)
        assert_allclose(point[[7, 30]], c)
        directions.add(tuple(moved > 0.5))
    assert len(directions) == len(place) > 2
    aside = [trial.node for trial in state.trials if trial.verdict == "set aside"]
    assert set(table.status[aside]) == {"inactive"}
    assert table.n_evaluations[aside].mean() < 2


def n_right_of_equal_effects():
    """Of ten searches for four inputs with equal slopes, which cancel in pairs along half of all diagonals."""
    active = [3, 9, 17, 30]

    def right(seed):
        rng = np.random.default_rng(seed)
        settings = {"bandwidth": 1.5, "signal_variance": 2.0, "noise_variance": 0.01, "check": False}
        f = lambda X: 1.5 * X[:, active].sum(1) + 0.1 * rng.normal(size=len(X))  # noqa: E731
        return hds(f, 40, random_seed=seed, **settings).active == active

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return sum(right(seed) for seed in range(10))


def test_effects_that_cancel_along_a_diagonal_are_found_off_it(monkeypatch):
    assert n_right_of_equal_effects() >= 8
    monkeypatch.setattr(Anchored, "next_background", lambda self, state, trial: trial.background)
    assert n_right_of_equal_effects() <= 4


def test_without_retests_each_node_is_rejected_by_itself():
    plain, default = (hds(two_of(40, 7, 30), 40, retest=retest, random_seed=2, **SMOOTH) for retest in (False, True))
    assert plain.active == default.active
    assert {trial.verdict for trial in plain.state.trials} == {"active", "inactive"}
    assert default.n_evaluations < 0.8 * plain.n_evaluations


def test_an_input_that_was_set_aside_is_found_in_the_rest(monkeypatch):
    """As soon as one half is active the other is set aside, here, whatever is known of it."""
    monkeypatch.setattr("pymc_active.relevant_inputs.anchored._SET_ASIDE", 8.0)
    learner = HDSLearner(40, random_seed=2, **SMOOTH)
    f = two_of(40, 7, 30)
    while not any(node.without for node in learner.state().nodes):
        X = learner.ask(1)
        learner.tell(X, f(X))
    assert len(learner.recommend()) == 1
    early = HDSResult(learner)
    assert (early.stopped, early.undecided) == ("interrupted", [f"0-39 without {early.active[0]}"])
    learner.run(f)
    table = HDSResult(learner).tree_table()
    assert learner.recommend() == [7, 30]
    assert HDSResult(learner).undecided == []
    has_active = [bool(node.has([7, 30])) for node in learner.state().nodes if not node.without]
    assert table[~table.inputs.str.contains("without")].status.eq("active").tolist() == has_active


@unlike_a_draw
def test_a_node_set_aside_comes_back_if_its_sibling_is_contradicted():
    learner = HDSLearner(40, random_seed=2, **SMOOTH)
    f = two_of(40, 7, 30)
    while all(trial.verdict != "set aside" for trial in learner.state().trials):
        X = learner.ask(1)
        learner.tell(X, f(X))
    state = learner.state()
    aside = next(trial for trial in state.trials if trial.verdict == "set aside")
    assert state.nodes[aside.node].label in HDSResult(learner).undecided
    parent = state.nodes[state.nodes[aside.node].parent]
    [sibling] = [state.nodes[child] for child in parent.children if child != aside.node]
    assert sibling.status == "active"
    sibling.was_retested = True
    for trial in [trial for trial in state.trials if trial.node in sibling.children]:
        assert not conclude(state, trial, "inactive", _SET_ASIDE).nodes
    assert sibling.status == "contradicted"
    assert aside.verdict == state.nodes[aside.node].status == "open"
    n_before = len(aside.rows)
    learner = HDSLearner.from_state(state)
    learner.run(f)
    aside = learner.state().trials[aside.number]
    assert aside.verdict == "inactive"
    assert aside.llr <= learner.settings.reject
    assert len(aside.rows) > n_before


@unlike_a_draw
@pytest.mark.parametrize(("make", "share"), [(draw_of_two, 0.6), (sum_of_two, 0.5)])
def test_the_rest_is_misjudged_no_more_often_than_declared(make, share, monkeypatch):
    """With low thresholds, and one active input in nearly every rest."""
    monkeypatch.setattr("pymc_active.relevant_inputs.anchored._SET_ASIDE", 1.9)
    wrong, total = np.zeros(2), np.zeros(2)
    for seed in range(45):
        rng = np.random.default_rng(seed)
        active, function = make(32, rng)
        result = hds(
            lambda X, function=function, rng=rng: function(X) + rng.normal(0, 0.3, len(X)),
            32,
            bandwidth=0.3,
            signal_variance=1.0,
            noise_variance=0.09,
            accept=2.0,
            reject=-3.0,
            share=share,
            check=False,
            random_seed=seed,
        )
        for trial in result.state.trials:
            node = result.state.nodes[trial.node]
            if node.without and node.parent < 0:
                is_active = len(set(active) - set(node.without)) > 0
                total[int(is_active)] += 1
                wrong[int(is_active)] += (trial.verdict == "active") != is_active
    declared = np.array([result.error_rates.false_active, result.error_rates.false_inactive])
    assert total.min() > 30
    assert (wrong / total <= declared).all()


def test_declared_recovery_is_kept(result):
    rates = result.error_rates
    assert rates.recovery >= 0.99 - 1e-12
    assert rates.false_active == pytest.approx(np.exp(-result.settings.accept))


def test_to_model_holds_all_samples_on_the_inputs_found(result):
    gpm = result.to_model()
    assert gpm.X.shape == (result.n_evaluations, 2)
    assert gpm.inputs == [7, 30]
    fit = pma.fit_laplace(gpm, random_seed=1, n_restarts=2, population=0, progressbar=False)
    error = pma.predict(fit, gpm.X).f_mean.to_numpy() - two_of(40, 7, 30, noise=0.0)(result.history.X())
    assert np.sqrt(np.mean(error**2)) < 0.1


def test_to_model_takes_other_settings(result):
    gpm = result.to_model(x_scale="box", y_scale="standardize", mean="zero", kernel="Matern52")
    assert "mean_constant" not in gpm.shapes


def test_datatree_can_be_saved(result, tmp_path):
    tree = result.to_datatree()
    tree.to_netcdf(tmp_path / "hds.nc")
    assert tree["constant_data"].X.shape == (result.n_evaluations, 40)
    assert tree["tree"].sizes["node"] == len(result.tree_table())
    assert tree["llr"].llr.shape[0] == len(result.state.trials)
    assert tree["design"].attrs["stopped"] == "decided"


def test_repr_says_what_was_found(result):
    assert f"active inputs 7, 30; evaluations {result.n_evaluations} of at most 2000, decided;" in repr(result)
    assert "40 inputs" in repr(result.learner)
    assert repr(result.history) == f"<History of {result.n_evaluations} evaluations: failed 0>"


def test_scales_come_from_a_fitted_model():
    rng = np.random.default_rng(3)
    X = rng.uniform(-1, 1, (60, 3))
    f = two_of(3, 0, 2)
    gpm = pma.ard_gp(X, f(X), y_scale=(1.0, 2.0))
    fit = pma.fit_laplace(gpm, random_seed=1, n_restarts=4, population=0, progressbar=False)
    found = hds(f, model=fit, random_seed=1)
    assert found.active == [0, 2]
    settings, point = found.settings, fit.constrained_point
    assert settings.bandwidth == pytest.approx(np.sqrt(2) * point["lengthscale"].min() / 2)
    assert settings.signal_variance == pytest.approx(point["outputscale"] ** 2)
    assert settings.noise_variance == pytest.approx(point["noise"] ** 2)
    assert hds(f, model=fit, bandwidth=0.5, random_seed=1).settings.bandwidth == 0.25


def test_a_model_without_a_lengthscale_needs_a_bandwidth():
    X = np.linspace(-1, 1, 8)[:, None]
    gpm = pma.composite_gp(X, X[:, 0], "LIN")
    with pytest.raises(ValueError, match="pass bandwidth="):
        hds(np.sum, model=gpm)


def test_the_anchor_is_where_f_is_farthest_from_its_mean():
    z = np.linspace(0, 1, 12)
    y = 100 + np.where(z == z[7], -4.0, np.random.default_rng(0).normal(0, 0.5, 12))
    assert farthest_from_mean(LineRatio(0.05, 1.0, 0.1), z, y) == z[7]
