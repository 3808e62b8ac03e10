"""Hierarchical diagonal sampling as a whole: what it finds, what it costs, and what it survives."""

import contextlib
import pickle
import warnings

import matplotlib as mpl
import numpy as np
import pytest
from numpy.testing import assert_allclose

import pymc_active as pma
from pymc_active import plots
from pymc_active.active import hds
from pymc_active.hds import EvaluationError, EvaluationInterrupt, HDSLearner, HDSResult
from pymc_active.relevant_inputs.bisection import Bisection
from pymc_active.relevant_inputs.settings import Settings

pytestmark = pytest.mark.slow

mpl.use("agg")

SMOOTH = {"bandwidth": 0.6, "signal_variance": 1.0, "noise_variance": 0.01}
# With scales for a smooth function that has an offset: the default, and the paper's tests with a retest.
SEARCHES = {
    "bisection": {},
    "checked": SMOOTH,
    "gpt": SMOOTH | {"test": "gpt", "offset_variance": 10.0, "retest": True},
    "fdt": SMOOTH | {"test": "fdt", "retest": True},
}
each_search = pytest.mark.parametrize("keywords", SEARCHES.values(), ids=SEARCHES)


def two_of(n_dims, first, second, noise=0.1):
    """A smooth noisy function of two inputs, with the same noise at every call."""
    rng = np.random.default_rng(0)

    def f(X):
        assert X.shape[1] == n_dims
        return 1.5 * np.sin(4 * X[:, first]) + np.cos(5 * X[:, second]) + rng.normal(0, noise, len(X))

    return f


# What it finds


@pytest.mark.parametrize(("test", "is_active"), [("gpt", False), ("gpt", True), ("fdt", False)])
def test_nodes_are_misjudged_no_more_often_than_declared(test, is_active):
    """Wald's bounds, with low thresholds, within three standard errors; finite differences miss what is flat."""
    levels = {"accept": 2.0, "reject": -3.0}
    scales, wrong, n_runs = {"bandwidth": 0.3, "signal_variance": 1.0, "noise_variance": 0.09}, 0, 200
    for seed in range(n_runs):
        rng = np.random.default_rng(seed)
        # By random Fourier features, exp(-(x - x')² / 0.3²) is the covariance over draws.
        w, phase, weight = rng.normal(0, np.sqrt(2) / 0.3, 500), rng.uniform(0, 2 * np.pi, 500), rng.normal(size=500)
        draw = lambda X, w=w, b=phase, v=weight: np.sqrt(2 / 500) * np.cos(X * w + b) @ v  # noqa: E731
        f = lambda X, draw=draw, rng=rng: is_active * draw(X) + rng.normal(0, 0.3, len(X))  # noqa: E731
        wrong += (hds(f, 1, test=test, random_seed=seed, **levels, **scales).active == [0]) != is_active
    declared = n_runs * np.exp(levels["reject"] if is_active else -levels["accept"])
    assert wrong <= declared + 3 * np.sqrt(declared)


def test_what_nobody_named_is_careful_and_what_was_named_is_the_papers():
    def settings(**keywords):
        found = HDSLearner(30, **keywords).settings
        return found.test, found.retest, found.check, found.offset_variance

    assert settings()[0] == settings(noise_variance=0.1)[0] == "bisection"
    assert settings(**SMOOTH) == ("gpt", True, True, 10.0)
    assert settings(**SMOOTH, check=False, offset_variance=0.0) == ("gpt", True, False, 0.0)
    for test in ("gpt", "fdt"):
        assert settings(test=test, **SMOOTH) == (test, False, False, 0.0)


@each_search
def test_asking_by_hand_is_what_hds_does(keywords):
    """The same seed and answers give the same questions, in any order; one more input is no special case."""
    assert hds(two_of(1, 0, 0), 1, random_seed=1, **keywords).active == [0]
    f = lambda X: two_of(30, 4, 20, noise=0.0)(X)  # noqa: E731
    learner, rng = HDSLearner(30, random_seed=3, **keywords), np.random.default_rng(1)
    while not learner.is_finished:
        learner.ask(2)
        X = rng.permutation(learner.pending)[:2]
        learner.tell(X, f(X))
    result = hds(f, 30, random_seed=3, **keywords)
    assert learner.recommend() == result.active == [4, 20]
    X = HDSResult(learner).history.X()
    assert np.array_equal(np.unique(X, axis=0), np.unique(result.history.X(), axis=0))


@each_search
def test_a_simulator_without_noise(keywords):
    """Offsets do not matter either, and a constant ends the search."""
    f, keywords = two_of(50, 10, 40, noise=0.0), keywords | {"noise_variance": 0.0}
    assert hds(lambda X: 300 + f(X), 50, random_seed=1, **keywords).active == [10, 40]
    with pytest.warns(pma.DoubtfulFitWarning, match=r"f was 3 at all \d+ points"):
        result = hds(lambda X: np.full(len(X), 3.0), 50, batch_size=5, random_seed=1, **keywords)
    assert (result.active, result.undecided) == ([], [])


def test_no_active_input():
    rng = np.random.default_rng(1)
    result = hds(lambda X: rng.normal(0, 0.1, len(X)), 30, test="fdt", random_seed=2, **SMOOTH)
    assert result.active == []
    assert result.tree_table().status.tolist() == ["inactive"]
    with pytest.raises(ValueError, match="no active input was found"):
        result.to_model()
    for n_foreign in range(2):
        X, y = HDSResult(result.learner).data()
        assert X.shape == (result.n_evaluations + n_foreign, 0)
        assert len(y) == len(X)
        result.learner.tell(np.zeros(30), 5.0)
    # What the learner was told since does not change the result.
    assert len(result.data()[1]) == result.n_evaluations


def test_a_function_flat_on_the_first_background_is_found_by_the_retest():
    keywords = SMOOTH | {"test": "gpt", "bandwidth": 0.2, "random_seed": 1}
    flat = HDSLearner(2, **keywords)._halving._backgrounds[0][1]

    def f(X):
        return 1.5 * np.sin(20 * X[:, 0]) * (abs((X[:, 1] + 1) / 2 - flat) > 1e-6)

    with pytest.warns(UserWarning, match="0-1 changed f, but neither half did"):
        once = hds(f, 2, **keywords)
    assert (once.active, once.contradicted) == ([], ["0-1"])
    assert "CONTRADICTED nodes 0-1;" in repr(once)
    twice = hds(f, 2, retest=True, **keywords)
    assert 0 in twice.active
    assert len(twice.llr["0"]) == 2


def test_user_units_do_not_matter():
    """Bounds of any size, also one for each input; the bandwidth is in units of the inputs."""
    low, width = np.linspace(-5, 5, 20), np.linspace(1, 30, 20)
    f = two_of(20, 3, 15, noise=0.0)
    bounds = np.stack([low, low + width], 1)

    def scaled(X):
        assert ((bounds[:, 0] <= X) & (bounds[:, 1] >= X)).all()
        return f(2 * (X - low) / width - 1)

    result = hds(scaled, 20, bounds=bounds, random_seed=1, **(SMOOTH | {"bandwidth": 0.3 * width}))
    reference = HDSLearner(20, bandwidth=0.6, signal_variance=1.0, noise_variance=0.01)
    assert result.settings.scales == pytest.approx(reference.settings.scales)
    assert result.active == [3, 15]


def test_a_hundred_thousand_inputs():
    D = 100_000
    result = hds(two_of(D, 31_234, 77_777), D, test="gpt", retest=True, random_seed=1, **SMOOTH)
    assert result.active == [31_234, 77_777]
    assert "X" not in result.to_datatree()["constant_data"]


def test_scales_come_from_a_fitted_model():
    rng = np.random.default_rng(3)
    X = rng.uniform(-1, 1, (60, 3))
    f = lambda X: 1.5 * np.sin(4 * X[:, 0]) + np.cos(5 * X[:, 2]) + rng.normal(0, 0.1, len(X))  # noqa: E731
    gpm = pma.ard_gp(X, f(X), y_scale=(1.0, 2.0))
    fit = pma.fit_laplace(gpm, random_seed=1, n_restarts=4, population=0, progressbar=False)
    found = hds(f, model=fit, random_seed=1)
    assert found.active == [0, 2]
    settings, point = found.settings, fit.constrained_point
    assert settings.test == "gpt"
    assert settings.bandwidth == pytest.approx(np.sqrt(2) * point["lengthscale"].min() / 2)
    assert settings.signal_variance == pytest.approx(point["outputscale"] ** 2)
    assert settings.noise_variance == pytest.approx(point["noise"] ** 2)
    assert hds(f, model=fit, bandwidth=0.5, random_seed=1).settings.bandwidth == 0.25
    with pytest.raises(ValueError, match="leave n_dims out"):
        hds(f, 4, model=fit)
    with pytest.raises(ValueError, match="pass bandwidth="):
        hds(np.sum, model=pma.composite_gp(X[:8, :1], X[:8, 0], "LIN"))
    with pytest.raises(TypeError, match="model must be a GPModel or a fit"):
        hds(np.sum, 30, model="ard")


# The learner


@each_search
def test_batches_find_the_same_inputs(keywords):
    """No more than asked for, and everything at once that can be."""
    sizes = []
    f = two_of(30, 4, 20)

    def counted(X):
        sizes.append(len(X))
        return f(X)

    assert hds(counted, 30, batch_size=3, random_seed=3, **keywords).active == [4, 20]
    assert max(sizes) == 3
    sizes.clear()
    hds(counted, 30, random_seed=3, **keywords)
    assert max(sizes) > 3 if "test" not in keywords else max(sizes) > 1


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


def test_answers_that_went_through_single_precision_are_answers():
    low = np.linspace(-5, 5, 30)
    learner = HDSLearner(30, bounds=np.stack([low, low + 3], 1), random_seed=3)
    x = learner.ask()
    learner.tell(x.astype(np.float32)[::-1], np.arange(len(x), dtype=float))
    assert len(learner.pending) == 0
    assert np.array_equal(HDSResult(learner).history.X(), x[::-1])
    assert HDSResult(learner).history.y.tolist() == list(range(len(x)))


def test_points_that_nobody_asked_for_are_data_and_warned_of_once_while_others_are_pending():
    learner = HDSLearner(30, random_seed=3)
    learner.tell(np.zeros(30), 1.0)
    x = learner.ask()
    assert len(x) == 8
    match = r"8 of the point\(s\) told were not asked for, while 8 .*pass those as asked="
    with pytest.warns(UserWarning, match=match):
        learner.tell(x.round(3), np.ones(8))
    learner.tell(x[:3].round(2), np.ones(3))
    assert len(learner.pending) == 8
    # Each of the four points is asked twice; those told twice are kept once.
    assert len(HDSResult(learner).data()[1]) == 1 + 4 + 3
    learner.tell(x[0].round(3), 0.5)
    assert len(HDSResult(learner).data()[1]) == 9


def test_what_is_answered_must_be_pending():
    learner = HDSLearner(30, random_seed=3)
    x = learner.ask()
    for asked, message in (
        (x[:2], "asked must have a row for each point told; got 2 row"),
        (x[[0, 1, 1, 1]][1:], r"asked must be among the 8 point\(s\) asked and not told yet"),
        (x[:3].round(2), r"row 0, \[.* \.\.\. .*\], is not"),
        (x[:3, :4], "asked must have 30 columns"),
    ):
        with pytest.raises(ValueError, match=message):
            learner.tell(x[:3], np.ones(3), asked=asked)
    for y, message in (
        ([1.0], "one number for each"),
        (np.full(8, np.inf), "finite or NaN"),
        (np.ones((8, 2)), "each"),
    ):
        with pytest.raises(ValueError, match=message):
            learner.tell(x, y)
    with pytest.raises(ValueError, match="30 columns"):
        learner.tell(x[:, :4], np.ones(8))
    with pytest.raises(ValueError, match="n must be a positive"):
        learner.ask(0)
    assert learner.n_evaluations == 0
    assert np.array_equal(learner.pending, x)
    # Nothing can be asked before these are told.
    assert learner.ask().shape == (0, 30)


@each_search
@pytest.mark.parametrize("budget", [21, 22])
def test_a_budget_is_kept_and_what_is_open_is_named(keywords, budget):
    with pytest.warns(UserWarning, match=f"budget of {budget} ended"):
        result = hds(two_of(64, 4, 50), 64, budget=budget, random_seed=3, **keywords)
    assert result.n_evaluations == budget
    assert result.undecided
    assert result.stopped == "budget"
    assert f"at most {budget}, budget; UNDECIDED nodes {result.undecided[0]}" in repr(result)


# What goes wrong


@each_search
def test_failed_evaluations_are_replaced(keywords):
    f = two_of(30, 4, 20)
    rng = np.random.default_rng(8)

    def failing(X):
        return np.where(rng.random(len(X)) < 0.2, np.nan, f(X))

    with pytest.warns(UserWarning, match="f returned NaN or infinity at"):
        result = hds(failing, 30, random_seed=3, **keywords)
    assert result.active == [4, 20]
    assert np.isnan(result.history.y).sum() > 2
    assert np.isfinite(result.data()[1]).all()


@pytest.mark.parametrize("n", [0, 20])
@pytest.mark.parametrize(
    ("raised", "kind"), [(OSError("the robot is stuck"), EvaluationError), (KeyboardInterrupt(), EvaluationInterrupt)]
)
def test_nothing_is_lost_when_f_raises_or_is_interrupted(n, raised, kind):
    f, seen = two_of(30, 4, 20), []

    def raising(X):
        if len(seen) + len(X) > n:
            raise raised
        seen.extend(f(X))
        return seen[-len(X) :]

    with pytest.raises(kind, match=r"robot|KeyboardInterrupt") as caught:
        hds(raising, 30, random_seed=3, **SMOOTH)
    assert type(caught.value) is kind
    kept = pickle.loads(pickle.dumps(caught.value))
    assert str(kept) == str(caught.value)
    for learner in (caught.value.learner, kept.learner):
        assert HDSResult(learner).history.y.tolist() == seen
        waiting = learner.pending
        assert len(waiting)
        learner.run(two_of(30, 4, 20))
        assert learner.recommend() == [4, 20]
        assert np.array_equal(HDSResult(learner).history.X(slice(len(seen), len(seen) + len(waiting))), waiting)


@pytest.mark.parametrize("name", ["gpt.GPT.places", "bisection.Bisection._p_value"])
def test_nothing_is_lost_when_the_search_itself_is_interrupted(name, monkeypatch):
    """An exception ends a generator, and another one takes its place."""
    whole = hds(two_of(30, 4, 20, noise=0.0), 30, random_seed=3, **SMOOTH)
    learner = HDSLearner(30, random_seed=3, **SMOOTH)
    learner.run(two_of(30, 4, 20, noise=0.0), 10)
    with monkeypatch.context() as patched:
        patched.setattr(f"pymc_active.relevant_inputs.{name}", lambda *_: (_ for _ in ()).throw(KeyboardInterrupt))
        with pytest.raises(EvaluationInterrupt):
            learner.run(two_of(30, 4, 20, noise=0.0))
    assert not learner.is_finished
    learner.run(two_of(30, 4, 20, noise=0.0))
    assert np.array_equal(HDSResult(learner).history.X(), whole.history.X())


def test_a_function_that_always_fails_ends():
    for value in (np.nan, np.inf):
        with pytest.raises(EvaluationError, match=r"NaN or infinity 20 times in a row"):
            hds(lambda X, value=value: np.full(len(X), value), 30, random_seed=1, **SMOOTH)


def test_a_function_may_write_into_its_argument_and_return_what_it_likes():
    def writes(X):
        X[:, 3] *= 2
        return np.sin(2 * X[:, 3])[:, None]

    result = hds(writes, 30, random_seed=1)
    assert result.active == [3]
    assert abs(result.history.X()).max() <= 1
    learner = HDSLearner(8, random_seed=1)
    learner.run(lambda X: float(X[0, 2]), batch_size=1)
    assert learner.recommend() == [2]
    with pytest.raises(EvaluationError, match=r"shape \(8,\); got shape \(8, 2\)"):
        hds(lambda X: X[:, :2], 30, random_seed=1)


@pytest.mark.parametrize(
    ("keywords", "message"),
    [
        ({"n_dims": 0}, "n_dims, the number of inputs"),
        ({"test": "t-test"}, "test must be one of bisection, fdt, gpt"),
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


# The result


@pytest.fixture(scope="module")
def result():
    return hds(two_of(40, 7, 30), 40, random_seed=2, **SMOOTH)


def test_the_tree_and_the_history_add_up(result):
    X, settings, history = result.history.X(), result.settings, result.history
    assert X.shape == (result.n_evaluations, 40)
    assert abs(history.y - two_of(40, 7, 30, noise=0.0)(X)).max() < 0.5
    table = result.tree_table()
    assert table.n_evaluations.sum() == result.n_evaluations
    for number, row in table.iterrows():
        children = table[table.parent == number]
        if len(children) and row.n_tests:
            assert (row.status, children.start.min(), children.stop.max()) == ("active", row.start, row.stop)
        for path in result.llr.get(row.inputs, []):
            assert not settings.reject < path[-1] < settings.accept
            assert (path[:-1] > settings.reject).all()
            assert (path[:-1] < settings.accept).all()
    for x, node, z in zip((X + 1) / 2, history.node, history.z, strict=True):
        if np.isfinite(z):
            assert_allclose(x[table.start[node] : table.stop[node]], z)
    leaves = table[(table.status == "active") & (table.stop - table.start == 1)]
    assert sorted(set(leaves.start)) == result.active == [7, 30]


def test_to_model_holds_equal_samples_once():
    """Repeats of a simulator would pass for rows that were entered twice."""
    result = pma.active.hds(lambda X: X[:, 3], 20, random_seed=0)
    gpm, rows = result.to_model(), np.column_stack(result.data())
    assert len(gpm.y) == len(np.unique(rows, axis=0)) < len(rows)
    with warnings.catch_warnings():
        warnings.simplefilter("error", pma.RunWarning)
        pma.fit(gpm, random_seed=1, progressbar=False)


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
    assert tree["llr"].llr.shape[0] == sum(map(len, result.llr.values()))
    assert tree["design"].attrs["stopped"] == "decided"


def test_a_bisection_shows_f_against_the_inputs_found():
    f = lambda X: 3 * (X[:, 7] > 0.5) + X[:, 30] + 0 * X[:, 2]  # noqa: E731
    result = hds(f, 40, random_seed=1)
    axes = plots.plot(result)
    assert [ax.get_xlabel() for ax in axes[0]] == ["input 7", "input 30"]
    for ax, i in zip(axes[0], (7, 30), strict=True):
        x, y = ax.lines[0].get_data()
        np.testing.assert_array_equal(x, result.history.X()[:, i])
        np.testing.assert_array_equal(y, result.history.y)
    assert plots.plot_active_inputs(result, n_inputs=1).shape == (1, 1)
    with pytest.warns(pma.DoubtfulFitWarning, match="f was 0 at all"):
        nothing = hds(lambda X: np.zeros(len(X)), 5, random_seed=1)
    assert plots.plot(nothing).shape == (1, 1)
    mpl.pyplot.close("all")
    with pytest.raises(TypeError, match="result of hds"):
        plots.plot_active_inputs(3)


@pytest.mark.parametrize("where", ["the test of a pair", "the next points", "the log"])
def test_an_interrupt_inside_the_library_changes_nothing(monkeypatch, tmp_path, where):
    """Wherever it comes: the search goes on as if it had not been interrupted, and its file can be loaded."""

    def f(X):
        return 3 * X[:, 1] + X[:, 2] ** 2

    undisturbed = pma.hds.HDSLearner(60, random_seed=0)
    undisturbed.run(f)
    owner, name = {
        "the test of a pair": (Bisection, "_is_followed"),
        "the next points": (Settings, "scale"),
        "the log": (pma.hds.HDSLearner, "_advance"),
    }[where]
    original = getattr(owner, name)
    for call in range(2, 60, 7):
        calls = iter(range(1000))

        def interrupted(self, *arguments, original=original, calls=calls, call=call):
            if next(calls, -1) == call:
                raise KeyboardInterrupt
            return original(self, *arguments)

        learner = pma.hds.HDSLearner(60, random_seed=0)
        monkeypatch.setattr(owner, name, interrupted)
        with contextlib.suppress(KeyboardInterrupt):
            learner.run(f)
        monkeypatch.setattr(owner, name, original)
        learner.run(f)
        assert learner.recommend() == undisturbed.recommend() == [1, 2]
        assert learner.n_evaluations == undisturbed.n_evaluations
        learner.save(tmp_path / f"{call}.nc")
        assert pma.hds.HDSLearner.load(tmp_path / f"{call}.nc").recommend() == [1, 2]


def test_values_whose_squares_are_infinite_are_failures_of_f_and_refused_by_tell():
    learner = pma.hds.HDSLearner(5, random_seed=0)
    x = learner.ask()
    with pytest.raises(ValueError, match=r"at most 1e\+150 in size"):
        learner.tell(x, np.full(len(x), 1e308))
    assert learner.n_evaluations == 0
    with pytest.warns(pma.RunWarning, match="NaN or infinity"):
        found = pma.active.hds(lambda X: np.where(X[:, 0] > 0.9, 1e308, X[:, 1]), 5, random_seed=0)
    assert found.active == [1]
