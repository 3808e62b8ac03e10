"""Hierarchical diagonal sampling as a whole: what it finds, what it costs, and what it survives."""

import contextlib
import pickle

import matplotlib as mpl
import numpy as np
import pytest
from nightly import nightly

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


@pytest.mark.parametrize(("test", "is_active"), [("gpt", True), ("fdt", False), *nightly(("gpt", False))])
def test_nodes_are_misjudged_no_more_often_than_declared(test, is_active):
    """Wald's bounds, with low thresholds, within three standard errors; finite differences miss what is flat."""
    levels = {"accept": 2.0, "reject": -3.0}
    scales, wrong, n_runs = {"bandwidth": 0.3, "signal_variance": 1.0, "noise_variance": 0.09}, 0, 100
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
    sizes = []
    result = hds(lambda X: sizes.append(len(X)) or f(X), 30, random_seed=3, batch_size=3, **keywords)
    assert max(sizes) <= 3
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
    assert result.data()[0].shape == (result.n_evaluations, 0)
    with pytest.raises(ValueError, match="no active input was found"):
        result.to_model()


def test_a_function_flat_on_the_first_background_is_found_by_the_retest():
    keywords = SMOOTH | {"test": "gpt", "bandwidth": 0.2, "random_seed": 1}
    flat = HDSLearner(2, **keywords).halving.nodes[0].background[1]

    def f(X):
        return 1.5 * np.sin(20 * X[:, 0]) * (abs((X[:, 1] + 1) / 2 - flat) > 1e-6)

    with pytest.warns(UserWarning, match="0-1 changed f, but neither half did"):
        once = hds(f, 2, **keywords)
    assert (once.active, once.contradicted) == ([], ["0-1"])
    assert "CONTRADICTED nodes 0-1;" in repr(once)
    twice = hds(f, 2, retest=True, **keywords)
    assert 0 in twice.active
    assert twice.learner.halving.nodes[0].was_retested


def test_user_units_do_not_matter():
    """Bounds of any size, also one for each input; the bandwidth is in units of the inputs."""
    low, width = np.linspace(-5, 5, 20), np.linspace(1, 30, 20)
    f, bounds = two_of(20, 3, 15, noise=0.0), np.stack([low, low + width], 1)
    keywords = SMOOTH | {"bandwidth": 0.3 * width, "bounds": bounds}
    result = hds(lambda X: f(2 * (X - low) / width - 1), 20, random_seed=1, **keywords)
    assert result.settings.bandwidth == pytest.approx(HDSLearner(20, **SMOOTH).settings.bandwidth)
    assert result.active == [3, 15]
    X = result.history.X()
    assert ((low <= X) & (low + width >= X)).all()
    # Answers may have gone through single precision.
    learner = HDSLearner(20, bounds=bounds, random_seed=3)
    x = learner.ask()
    learner.tell(x.astype(np.float32)[::-1], np.arange(8.0))
    assert np.array_equal(HDSResult(learner).history.X(), x[::-1])
    assert HDSResult(learner).history.y.tolist() == list(range(8))


def test_a_hundred_thousand_inputs():
    D = 100_000
    result = hds(two_of(D, 31_234, 77_777), D, test="gpt", retest=True, random_seed=1, **SMOOTH)
    assert result.active == [31_234, 77_777]


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
    with pytest.raises(ValueError, match="leave n_dims out"):
        hds(f, 4, model=fit)
    with pytest.raises(ValueError, match="needs bandwidth"):
        hds(np.sum, model=pma.composite_gp(X[:8, :1], X[:8, 0], "LIN"))


# The learner


def test_what_is_answered_must_be_pending():
    learner = HDSLearner(30, random_seed=3)
    assert repr(learner) == "HDSLearner of 30 inputs, active so far: none; 0 of at most 2000 evaluations"
    x = learner.ask()
    for told, y, message in (
        (x.round(3), np.ones(8), r"x must be among the 8 point\(s\) asked .* row 0, \[.* \.\.\. "),
        (x[[1, 1, 1]], np.ones(3), "row 2"),
        (x[:, :4], np.ones(8), "x must have 30 columns"),
        (x, [1.0], "equally many points"),
        (x, np.full(8, np.inf), "y must be finite"),
        (x, np.full(8, 1e308), "y must be finite"),
    ):
        with pytest.raises(ValueError, match=message):
            learner.tell(told, y)
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

    failing = lambda X: np.ma.masked_array(f(X), rng.random(len(X)) < 0.2)  # noqa: E731
    with pytest.warns(UserWarning, match="f returned NaN or infinity at"):
        result = hds(failing, 30, random_seed=3, **keywords)
    assert result.active == [4, 20]
    assert np.isnan(result.history.y).sum() > 2
    assert np.isfinite(result.data()[1]).all()


@pytest.mark.parametrize(
    ("raised", "kind"), [(OSError("the robot is stuck"), EvaluationError), (KeyboardInterrupt(), EvaluationInterrupt)]
)
def test_nothing_is_lost_when_f_raises_or_is_interrupted(raised, kind):
    f, seen = two_of(30, 4, 20), []

    def raising(X):
        if len(seen) + len(X) > 20:
            raise raised
        seen.extend(f(X))
        return seen[-len(X) :]

    with pytest.raises(kind, match=r"robot|KeyboardInterrupt") as caught:
        hds(raising, 30, random_seed=3, **SMOOTH)
    kept = pickle.loads(pickle.dumps(caught.value))
    assert str(kept) == str(caught.value)
    for learner in (caught.value.learner, kept.learner):
        assert HDSResult(learner).history.y.tolist() == seen
        waiting = learner.pending
        learner.run(two_of(30, 4, 20))
        assert learner.recommend() == [4, 20]
        assert np.array_equal(HDSResult(learner).history.X(slice(len(seen), len(seen) + len(waiting))), waiting)


def test_a_function_may_write_into_its_argument_and_return_a_column():
    def writes(X):
        X[:, 3] *= 2
        return np.sin(2 * X[:, 3])[:, None]

    result = hds(writes, 30, random_seed=1)
    assert result.active == [3]
    assert abs(result.history.X()).max() <= 1
    with pytest.raises(EvaluationError, match=r"shape \(8,\); got shape \(8, 2\)"):
        hds(lambda X: X[:, :2], 30, random_seed=1)


@pytest.mark.parametrize(
    ("keywords", "message"),
    [
        ({"test": "t-test"}, "test must be one of bisection, fdt, gpt"),
        ({"bandwidth": None}, "needs bandwidth"),
        ({"bandwidth": 0.0}, "bandwidth must be positive"),
        ({"bandwidth": np.ones(3)}, r"array of shape \(30,\)"),
        ({"budget": 10.5}, "budget must be a"),
        ({"bounds": [(0, 1)] * 4}, "bounds must have 30 pairs"),
    ],
)
def test_bad_input_is_refused_before_anything_is_evaluated(keywords, message):
    def never(X):
        raise AssertionError("f was called")

    with pytest.raises(ValueError, match=message):
        hds(never, **({"n_dims": 30} | SMOOTH | keywords))
    with pytest.raises(TypeError, match="f must be callable"):
        hds(3, 30, **SMOOTH)


# The result


@pytest.fixture(scope="module")
def result():
    return hds(two_of(40, 7, 30), 40, random_seed=2, **SMOOTH)


def test_the_tree_and_the_history_add_up(result):
    assert abs(result.history.y - two_of(40, 7, 30, noise=0.0)(result.history.X())).max() < 0.5
    halving, settings = result.learner.halving, result.settings
    assert halving.found == result.active == [7, 30]
    # The rest are the pairs of the last check.
    assert sum(len(node.y) for node in halving.nodes) < result.n_evaluations
    for node in halving.nodes:
        assert (node.llr >= settings.accept, node.llr <= settings.reject) == (
            node.status == "active",
            node.status == "inactive",
        )


def test_datatree_can_be_saved(result, tmp_path):
    tree = result.to_datatree()
    tree.to_netcdf(tmp_path / "hds.nc")
    assert tree["constant_data"].X.shape == (result.n_evaluations, 40)
    assert HDSResult(HDSLearner(40, random_seed=1)).to_datatree()["constant_data"].X.shape == (0, 40)


def test_to_model_holds_all_samples_on_the_inputs_found(result):
    gpm = result.to_model()
    assert (gpm.X.shape, gpm.inputs) == ((result.n_evaluations, 2), [7, 30])
    fit = pma.fit_laplace(gpm, random_seed=1, n_restarts=2, population=0, progressbar=False)
    error = pma.predict(fit, gpm.X).f_mean.to_numpy() - two_of(40, 7, 30, noise=0.0)(result.history.X())
    assert np.sqrt(np.mean(error**2)) < 0.1


def test_the_picture_shows_f_against_the_inputs_found(result):
    axes = plots.plot(result)
    assert [ax.get_xlabel() for ax in axes[0]] == ["input 7", "input 30"]
    assert np.array_equal(axes[0, 1].lines[0].get_xydata(), np.stack([result.history.X()[:, 30], result.history.y], 1))
    assert plots.plot_active_inputs(result, n_inputs=1).shape == (1, 1)
    with pytest.raises(TypeError, match="result of hds"):
        plots.plot_active_inputs(3)
    mpl.pyplot.close("all")


@pytest.mark.parametrize(
    ("owner", "name"), [(Bisection, "_is_followed"), (Settings, "scale"), (HDSLearner, "_advance")]
)
def test_an_interrupt_inside_the_library_changes_nothing(monkeypatch, tmp_path, owner, name):
    """Wherever it comes: the search goes on as if it had not been interrupted, and its file can be loaded."""
    f = lambda X: 3 * X[:, 1] + X[:, 2] ** 2  # noqa: E731
    undisturbed = HDSLearner(60, random_seed=0)
    undisturbed.run(f)
    original = getattr(owner, name)
    for call in range(2, 60, 19):
        calls = iter(range(1000))

        def interrupted(self, *arguments, calls=calls, call=call):
            if next(calls, -1) == call:
                raise KeyboardInterrupt
            return original(self, *arguments)

        learner = HDSLearner(60, random_seed=0)
        with monkeypatch.context() as patched, contextlib.suppress(KeyboardInterrupt):
            patched.setattr(owner, name, interrupted)
            learner.run(f)
        learner.run(f)
        learner.save(tmp_path / f"{call}.nc")
        assert HDSLearner.load(tmp_path / f"{call}.nc").recommend() == undisturbed.recommend() == [1, 2]
        assert learner.n_evaluations == undisturbed.n_evaluations
