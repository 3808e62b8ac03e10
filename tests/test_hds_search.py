"""Hierarchical diagonal sampling as a whole: what it finds, what it costs, and what it survives."""

import pickle

import numpy as np
import pytest
from numpy.testing import assert_allclose

import pymc_active as pma
from pymc_active.problems import gp_draw
from pymc_active.relevant_inputs.anchored import _LONGEST_SCAN, _SET_ASIDE
from pymc_active.relevant_inputs.evaluations import EvaluationError, EvaluationInterrupt
from pymc_active.relevant_inputs.learner import HDSLearner
from pymc_active.relevant_inputs.result import HDSResult
from pymc_active.relevant_inputs.search import hds
from pymc_active.relevant_inputs.verdicts import conclude

pytestmark = pytest.mark.slow

SCALES = {"bandwidth": 0.1, "signal_variance": 1.0, "noise_variance": 0.1, "check": False}
SMOOTH = {"bandwidth": 0.6, "signal_variance": 1.0, "noise_variance": 0.01, "check": False}
# For functions that are no draws of the assumed process, or whose inputs are not all found.
unlike_a_draw = pytest.mark.filterwarnings("ignore:on the inputs found, the evaluations look like")


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


# What it finds


@unlike_a_draw
@pytest.mark.parametrize("n_parts", [1, 2])
def test_nodes_are_misjudged_no_more_often_than_declared(n_parts):
    """With low thresholds, within two standard errors; in more runs by benchmarks/paper_hds/theory.py."""
    wrong, total = np.zeros((2, 2))
    for seed in range(40):
        rng = np.random.default_rng(seed)
        active = sorted(rng.choice(32, 2, replace=False).tolist())
        # One function of both inputs, or a sum of functions of one.
        parts = [(gp_draw(len(inputs), 0.3, random_seed=rng), inputs) for inputs in np.split(np.array(active), n_parts)]

        def f(X, parts=parts, rng=rng):
            return sum(part(X[:, inputs]) for part, inputs in parts) / np.sqrt(n_parts) + rng.normal(0, 0.3, len(X))

        scales = {"bandwidth": 0.3, "signal_variance": 1.0, "noise_variance": 0.09, "share": 1 / n_parts}
        result = hds(f, 32, **scales, accept=2.0, reject=-3.0, retest=False, check=False, random_seed=seed)
        for trial in result.state.trials:
            is_active = bool(trial.node.has(active))
            total[int(is_active)] += 1
            wrong[int(is_active)] += (trial.verdict == "active") != is_active
    declared = np.array([result.error_rates.false_active, result.error_rates.false_inactive])
    assert total.min() > 200
    assert (wrong <= declared * total + 2 * np.sqrt(declared * total)).all()


@pytest.mark.parametrize(
    "keywords",
    [
        {},
        {"share": 1.0},
        {"noise_variance": 0.36},
        {"retest": False},
        {"test": "gpt", "accept": 5, "reject": -10},
        {"test": "gpt", "accept": 5, "reject": -10, "offset_variance": 10.0, "retest": True},
        {"test": "fdt", "accept": 5, "reject": -10, "retest": True},
    ],
)
def test_two_inputs_of_fifty_are_found(keywords):
    """Draws of the assumed process: in longer runs, 99 % of the searches are right."""
    keywords, wrong = SCALES | keywords, 0
    for seed in range(3):
        rng = np.random.default_rng(seed)
        active = sorted(rng.choice(50, 2, replace=False).tolist())
        draw = gp_draw(2, 0.1, random_seed=rng)

        def f(X, draw=draw, active=active, rng=rng):
            return draw(X[:, active]) + rng.normal(0, np.sqrt(keywords["noise_variance"]), len(X))

        wrong += hds(f, 50, random_seed=seed, **keywords).active != active
    assert wrong <= 1


def test_the_number_of_inputs_costs_its_logarithm():
    """Thirty times as many inputs cost twice as much."""
    few, many = (hds(two_of(D, 3, D - 5), D, random_seed=1, **SMOOTH).n_evaluations for D in (32, 1024))
    assert many < 5 * few


@unlike_a_draw
def test_inputs_of_a_sum_are_found():
    """Each of four accounts for a quarter of the variance, less than the assumed process lets one expect."""
    inputs, rng = [3, 20, 33, 41], np.random.default_rng(0)
    f = lambda X: 1.7 * np.square(X[:, inputs] - 0.3).sum(1) - 2.5 + rng.normal(0, 0.1, len(X))  # noqa: E731
    assert hds(f, 50, random_seed=1, **SMOOTH).active == inputs


@pytest.mark.parametrize("test", ["anchored", "gpt", "fdt"])
def test_asking_by_hand_is_what_hds_does(test):
    """The same seed and answers give the same questions."""
    assert hds(two_of(1, 0, 0), 1, test=test, random_seed=1, **SMOOTH).active == [0]
    learner = HDSLearner(30, test=test, random_seed=3, **SMOOTH)
    ask_and_tell(learner, two_of(30, 4, 20))
    result = hds(two_of(30, 4, 20), 30, test=test, random_seed=3, **SMOOTH)
    assert learner.recommend() == result.active == [4, 20]
    assert_allclose(HDSResult(learner).history.X(), result.history.X())


@unlike_a_draw
@pytest.mark.parametrize("test", ["anchored", "gpt", "fdt"])
def test_a_simulator_without_noise(test):
    """Offsets do not matter either, and a constant ends the search."""
    f, keywords = two_of(50, 10, 40, noise=0.0), SMOOTH | {"noise_variance": 0.0, "test": test}
    keywords |= {"offset_variance": 10.0, "retest": True} if test == "gpt" else {}
    assert hds(lambda X: 3 + f(X), 50, random_seed=1, **keywords).active == [10, 40]
    result = hds(lambda X: np.zeros(len(X)), 50, batch_size=5, random_seed=1, **keywords)
    assert (result.active, result.undecided) == ([], [])


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
def test_effects_that_cancel_along_the_diagonal_are_found_in_other_directions():
    """Four equal slopes, which cancel in pairs along half of all diagonals."""
    active, keywords = [3, 9, 17, 30], {"bandwidth": 1.5, "signal_variance": 2.0, "noise_variance": 0.01}
    for seed in range(20):
        learner = HDSLearner(40, check=False, random_seed=seed, **keywords)
        if learner.state().backgrounds[0].is_reversed[active].sum() == 2:
            break
    rng = np.random.default_rng(0)
    learner.run(lambda X: 1.5 * X[:, active].sum(1) + 0.1 * rng.normal(size=len(X)))
    assert learner.recommend() == active


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


# The learner


@pytest.mark.parametrize("test", ["anchored", "gpt", "fdt"])
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


@pytest.mark.parametrize("test", ["anchored", "gpt", "fdt"])
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


@pytest.mark.parametrize("n", [0, 20])
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
    for value in (np.nan, np.inf):
        with pytest.raises(EvaluationError, match=r"NaN or infinity \d+ times in a row"):
            hds(lambda X, value=value: np.full(len(X), value), 30, random_seed=1, **SMOOTH)


def test_a_function_may_write_into_its_argument():
    def writes(X):
        X[:, 3] *= 2
        return np.sin(2 * X[:, 3])

    result = hds(writes, 30, random_seed=1, **SMOOTH)
    assert result.active == [3]
    assert abs(result.history.X()).max() <= 1


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
        ({"test": "t-test"}, "test must be one of anchored, bisection, fdt, gpt"),
        ({"bandwidth": None}, "needs bandwidth"),
        ({"bandwidth": 0.0}, "bandwidth must be a positive"),
        ({"bandwidth": np.ones(3)}, r"array of shape \(30,\)"),
        ({"signal_variance": -1.0}, "signal_variance must be a positive"),
        ({"noise_variance": -1.0}, "noise_variance must be a positive"),
        ({"noise_variance": np.nan}, "noise_variance must be a positive"),
        ({"accept": -5.0}, "accept > 0 > reject"),
        ({"reject": 10.0}, "accept > 0 > reject"),
        ({"budget": 10.5}, "budget must be a"),
        ({"recovery": 1.0}, "recovery"),
        ({"n_active": 0}, "n_active"),
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
    with pytest.raises(TypeError, match="f must be callable"):
        hds(3, 30, **SMOOTH)


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


def test_the_tree_and_the_history_add_up(result):
    X = result.history.X()
    assert X.shape == (result.n_evaluations, 40)
    assert_allclose(result.history.columns([30, 7]), X[:, [30, 7]])
    assert abs(result.history.y - two_of(40, 7, 30, noise=0.0)(X)).max() < 0.5
    assert result.error_rates.recovery >= 0.99 - 1e-12
    assert result.error_rates.false_active == pytest.approx(np.exp(-result.settings.accept))
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
    assert (rest.label, rest.status, rest.parent) == ("0-39 without 7, 30", "inactive", None)
    own = result.history.node == rest.number
    place = result.settings.unscale(result.history.X(own))
    place = np.where(state.backgrounds[0].is_reversed, 1 - place, place)
    directions = set()
    for point, z, c in zip(place, result.history.z[own], result.history.rest[own], strict=True):
        # Each evaluation has directions of its own; what was found stays on the diagonal.
        moved = np.delete(point, [7, 30])
        assert_allclose(np.abs(moved - 0.5), abs(z - 0.5), atol=1e-12)
        assert_allclose(point[[7, 30]], c)
        directions.add(tuple(moved > 0.5))
    assert len(directions) == len(place) > 2
    aside = [trial.node.number for trial in state.trials if trial.verdict == "set aside"]
    assert set(table.status[aside]) == {"inactive"}


def test_without_retests_each_node_is_rejected_by_itself():
    plain, default = (hds(two_of(40, 7, 30), 40, retest=retest, random_seed=2, **SMOOTH) for retest in (False, True))
    assert plain.active == default.active
    assert {trial.verdict for trial in plain.state.trials} == {"active", "inactive"}


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
    assert aside.node.label in HDSResult(learner).undecided
    [sibling] = [half for half in aside.node.parent.children if half is not aside.node]
    assert sibling.status == "active"
    sibling.was_retested = True
    for trial in [trial for trial in state.trials if trial.node in sibling.children]:
        assert not conclude(state, trial, "inactive", _SET_ASIDE).nodes
    assert sibling.status == "contradicted"
    assert aside.verdict == aside.node.status == "open"
    n_before = len(aside.told)
    learner = HDSLearner.from_state(state)
    learner.run(f)
    aside = learner.state().trials[aside.number]
    assert aside.verdict == "inactive"
    assert aside.llr <= learner.settings.reject
    assert len(aside.told) > n_before


def test_to_model_holds_all_samples_on_the_inputs_found(result):
    other = result.to_model(x_scale="box", y_scale="standardize", mean="zero", kernel="Matern52")
    assert "mean_constant" not in other.shapes
    gpm = result.to_model()
    assert gpm.X.shape == (result.n_evaluations, 2)
    assert gpm.inputs == [7, 30]
    fit = pma.fit_laplace(gpm, random_seed=1, n_restarts=2, population=0, progressbar=False)
    error = pma.predict(fit, gpm.X).f_mean.to_numpy() - two_of(40, 7, 30, noise=0.0)(result.history.X())
    assert np.sqrt(np.mean(error**2)) < 0.1


def test_datatree_can_be_saved(result, tmp_path):
    tree = result.to_datatree()
    tree.to_netcdf(tmp_path / "hds.nc")
    assert tree["constant_data"].X.shape == (result.n_evaluations, 40)
    assert tree["tree"].sizes["node"] == len(result.tree_table())
    assert tree["llr"].llr.shape[0] == len(result.state.trials)
    assert tree["design"].attrs["stopped"] == "decided"
