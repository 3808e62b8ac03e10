"""Experiments that give no number: what is recorded, what is asked next, and what is recommended."""

import copy
from functools import cache

import numpy as np
import pandas as pd
import pymc as pm
import pytest
from nightly import nightly
from numpy.testing import assert_allclose, assert_array_equal

import pymc_active as pma
from pymc_active.active import Learner
from pymc_active.criteria.improvement import ExpectedImprovement, UpperConfidenceBound
from pymc_active.learner.success import Success
from pymc_active.learner.weighted import expected, likely

BOUNDS = [(0.0, 2.0), (-1.0, 1.0)]
LOW, HIGH = np.array(BOUNDS).T
RNG = np.random.default_rng(3)
POOL = RNG.uniform(LOW, HIGH, (120, 2))
# Points that work, and points that fail.
START = np.array([[1.9, 0.9], [1.1, 0.8], [1.8, -0.3], [1.5, 0.3], [1.2, 0.1]])
FAILING = np.array([[0.2, -0.8], [0.5, 0.3], [0.9, -0.6], [0.1, 0.6]])


def truth(X):
    """Nothing where the sum is small; its maximum over the whole box is there."""
    X = np.asarray(X, float)
    return np.where(X[:, 0] + X[:, 1] < 0.9, np.nan, np.sin(2 * X[:, 0]) - X[:, 1] ** 2)


def learner(learn="maximum", X=START, *, failures=FAILING, **keywords):
    if "pool" not in keywords:
        keywords["bounds"] = BOUNDS
    gpm = pma.ard_gp(X, truth(X), bounds=BOUNDS)
    active = Learner(gpm, learn, **{"random_seed": 1, "inference": "laplace", **keywords})
    if len(failures):
        active.tell(failures, np.full(len(failures), np.nan), failed=True)
    return active


PLACES = {"pool": {"pool": POOL}, "box": {}}


def probability(active, X):
    return np.exp(active._current.success()(np.atleast_2d(X)))


def differences(function, X, step):
    """Slopes of a function of rows, by central differences."""
    steps = step * np.eye(X.shape[1])
    return np.stack([(function(X + h) - function(X - h)) / (2 * step) for h in steps], axis=1)


@cache
def odds(low=tuple(LOW), high=tuple(HIGH)):
    """What START and FAILING say of where experiments work."""
    return Success(np.concatenate([START, FAILING]), np.arange(9) >= 5, np.array(low), np.array(high), 1)


def test_a_learner_tells_the_probability_of_success():
    """By columns in any order, of a run without failures and of one with some."""
    active = learner()
    inputs = pd.DataFrame(POOL, columns=["a", "b"])
    assert_array_equal(learner(failures=[]).success_probability(POOL), np.ones(len(POOL)))
    assert_array_equal(active.success_probability(POOL), np.exp(odds()(POOL)))
    assert active.success_probability(FAILING).max() < 0.5 < active.success_probability(START).min()
    named = Learner(None, "maximum", pool=inputs, random_seed=1)
    odd = np.arange(9) % 2 == 1
    named.tell(inputs.iloc[:9], np.where(odd, np.nan, 1.0 + np.arange(9)), failed=odd)
    assert_array_equal(named.success_probability(inputs[["b", "a"]]), named.success_probability(inputs))
    with pytest.raises(ValueError, match="X must have the model's inputs as columns"):
        named.success_probability(inputs[["a"]])


def test_probability_is_that_of_a_model_of_labels():
    """By the public calls on scaled points, with many more particles."""
    scaled, Z = (2 * (X - LOW) / (HIGH - LOW) - 1 for X in (np.concatenate([START, FAILING]), POOL))
    priors = {"log_outputscale": pm.Normal.dist(2.0, 1.0)}
    gpm = pma.ard_gp(scaled, np.arange(9) < 5, likelihood="bernoulli", mean="constant", priors=priors)
    fit = pma.fit(gpm, n_particles=512, random_seed=1, progressbar=False)
    assert_allclose(np.exp(odds()(POOL)), pma.predict(fit, Z).y_mean, atol=0.06)


@pytest.mark.parametrize("width", [*nightly(2), 25])
def test_gradient_of_the_log_probability_is_that_of_differences(width):
    """Also where there are too many inputs to learn a lengthscale for each."""
    rng = np.random.default_rng(1)
    low, high = -np.ones(width), np.linspace(1, 5, width)
    X, Z = rng.uniform(low, high, (20, width)), rng.uniform(low, high, (6, width))
    success = Success(X, X[:, 0] > 0.2, low, high, 1)
    value, slope = success.gradient(Z)
    assert_allclose(value, success(Z), rtol=1e-13)
    assert_allclose(slope, differences(success, Z, 1e-5), rtol=1e-5, atol=1e-7)


@cache
def scorer(kind="gain"):
    active = learner(failures=())
    criterion = {
        "log": ExpectedImprovement(method="map"),
        "level": UpperConfidenceBound(method="map"),
        "gain": pma.criteria.bald.Uncertainty("map"),
    }[kind]
    return criterion.prepare(active.fit), criterion.name


@pytest.mark.parametrize("kind", ["log", "level", "gain"])
def test_a_score_is_what_the_experiment_is_expected_to_be_worth(kind):
    plain, name = scorer(kind)
    p, score = np.exp(odds()(POOL)), plain.score(POOL)
    zero = plain.score(START).max() if kind == "level" else 0.0
    gain = score - zero
    by_hand = score + np.log(p) if kind == "log" else zero + np.where(gain > 0, p * gain, gain / p)
    weighed = expected(plain, name, odds())
    assert_allclose(weighed.score(POOL), by_hand, rtol=1e-10)
    for one in (weighed, likely(plain, odds(), POOL)):
        value, slope = one.gradient(POOL[:30])
        assert_allclose(value, one.score(POOL[:30]), rtol=1e-9)
        by_differences = differences(one.score, POOL[:30], 1e-6)
        assert_allclose(slope, by_differences, rtol=2e-4, atol=1e-5 * np.abs(slope).max())
    # A likely failure never gains, also not where the score is negative.
    never, always = (lambda X, log_p=log_p: np.full(len(X), log_p) for log_p in (-50.0, 0.0))
    assert (expected(plain, name, never).score(POOL) <= score).all()
    assert_allclose(expected(plain, name, always).score(POOL), score, rtol=1e-12)


def test_failures_are_recorded_and_the_model_does_not_see_them():
    active = learner(pool=POOL, failures=())
    fit = active.fit
    active.tell(FAILING[0], np.nan)
    assert active.fit is fit
    x = active.ask(3)
    active.tell(x, [1.0, np.nan, 2.0], failed=[False, True, False])
    assert_array_equal(active.failures, [FAILING[0], x[1]])
    assert_array_equal(active.X, [*START, *x[[0, 2]]])
    assert_array_equal(active.y[5:], [1.0, 2.0])
    assert len(active.pending) == 0
    assert active.n_left == 117
    tree = active.to_datatree(draws=2)
    assert_array_equal(tree["failures"]["x"], active.failures)
    assert_array_equal(POOL[tree["failures"]["pool_row"][1].item()], x[1])
    assert tree["design"].sizes["step"] == 2
    # A point that failed can be measured later.
    active.tell(FAILING[0], 0.3)
    assert (len(active.y), len(active.failures)) == (8, 2)
    active.run(truth, n=2, progressbar=False)
    assert len(active.failures) + len(active.y) == 12
    assert np.isfinite(active.y).all()


@pytest.mark.parametrize("random_seed", [0, *nightly(1, 2)])
def test_what_worked_is_likelier_to_work_than_what_failed(random_seed):
    """A single restart ended at a mode that says the opposite."""
    pool = np.linspace(-1, 1, 21)[:, None]
    gpm = pma.ard_gp(pool[[5, 15]], [1.0, 0.9], bounds=[(-1, 1)])
    active = Learner(gpm, "maximum", pool=pool, random_seed=random_seed)
    active.tell(pool[[10, 19]], [np.nan, np.nan], failed=True)
    worked, failed = np.split(active.success_probability(pool[[5, 15, 10, 19]]), 2)
    assert failed.max() < 0.4 < 0.6 < worked.min()
    # Whatever the classifier says of new experiments, what has failed is not the place of the maximum.
    assert active.optimum(50).row_probabilities()[[10, 19]].sum() == 0


def test_where_results_are_likely_is_known_at_what_was_tried():
    X, new = np.array([[0.0], [0.5], [1.0], [0.5]]), np.array([[0.3], [0.9]])
    success = Success(X, np.array([False, True, True, False]), np.array([0.0]), np.array([1.0]), 1)
    assert success.is_likely(X[:3]).tolist() == [True, True, False]
    assert_array_equal(success.is_likely(new), success(new) >= np.log(0.5))
    # A column that never varies has no effect.
    X = np.column_stack([START[:, :1], np.full(5, 3.0)])
    assert np.isfinite(Success(X, X[:, 0] > 1.5, X.min(0), X.max(0), 1)(X)).all()


def test_none_is_no_failure_and_numbers_are_none():
    active = learner(failures=())
    for tell in (
        lambda: active.tell(FAILING[0], None),
        lambda: active.correct(0, None),
        lambda: active.run(lambda x: [None], 1, progressbar=False),
    ):
        with pytest.raises(TypeError, match=r"None is no number, .* write float\('nan'\) for one"):
            tell()
    for y, failed, message in (
        ([1.0, np.nan], True, "the y of a failed experiment is NaN, .*; row 0 has 1"),
        ([1.0, np.nan], [True], "failed must be True or False, or 2 of them"),
        ([np.nan, np.nan], "yes", "failed must be True or False"),
        ([1.0, np.nan], [0, 1], "failed must be True or False"),
    ):
        with pytest.raises(ValueError, match=message):
            active.tell(FAILING[:2], y, failed=failed)
    assert len(active.failures) == 0
    assert_array_equal(active.X, START)
    assert_array_equal(active.y, truth(START))


EMPTY = {
    "NaN": lambda y: y,
    "None": lambda y: [None if np.isnan(one) else one for one in y],
    "pandas": lambda y: pd.Series(y, dtype="Float64"),
    "masked": lambda y: np.ma.masked_invalid(y),
}


@pytest.mark.parametrize("write", EMPTY.values(), ids=EMPTY)
@pytest.mark.parametrize("asks", [True, False])
def test_empty_cells_of_a_table_are_not_measured_yet(write, asks):
    """As in a sheet of suggestions that comes back half filled in: those left stay pending."""
    active = learner(failures=())
    x = active.ask(3) if asks else FAILING[:3]
    with pytest.warns(pma.RunWarning, match="2 of 3 rows have no y and are left out, as not measured") as caught:
        active.tell(x, write(np.array([np.nan, 0.5, np.nan])))
    assert len(caught) == 1
    assert_array_equal(active.X[5:], x[1:2])
    assert (len(active.failures), len(active.pending)) == (0, 2 * asks)
    for failed in (True, [True, True], pd.Series([True, True])):
        one = copy.copy(active)
        one.tell(x[[0, 2]], write(np.full(2, np.nan)), failed=failed)
        assert_array_equal(one.failures, x[[0, 2]])
        assert len(one.pending) == 0
    active.tell(x[[0, 2]], write(np.array([np.nan, 0.1])), failed=[True, False])
    assert_array_equal(active.failures, x[:1])
    assert_array_equal(active.y[5:], [0.5, 0.1])


def test_a_table_of_a_pool_in_which_most_is_not_measured():
    pool = pd.DataFrame(POOL, columns=["a", "b"])
    named = Learner(None, "maximum", pool=pool, random_seed=1)
    y = pd.Series([1.0, 2.0, 3.0, 2.5], pool.index[:4]).reindex(pool.index)
    with pytest.warns(pma.RunWarning, match="rows have no y"):
        named.tell(pool, y)
    # All rows empty, and said to be so.
    named.tell(pool.iloc[5:8], y.iloc[5:8], failed=False)
    assert (len(named.y), len(named.failures), named.n_left) == (4, 0, len(pool) - 4)
    asked = named.ask(2)
    named.tell(asked + 1e-3, [1.0, np.nan], asked=asked, failed=False)
    assert_array_equal(named.pending, asked.iloc[1:])


def test_a_row_is_free_again_as_often_as_it_is_given_up():
    """A failed row is not asked again; an equal one is, and one of which another was measured or failed."""
    pool = np.concatenate([POOL[:6], POOL[:1]])
    active = learner(pool=pool, criterion="random", failures=())
    active.tell(pool[0], np.nan)
    active.forget(active.ask(6))
    assert active.n_left == 6
    x = active.ask(2)
    active.tell(x[0], np.nan, asked=x[1])
    assert active.n_left == 4
    active.forget(x[0])
    assert active.n_left == 5
    # Rounded settings settle the point that was asked.
    x = active.ask()
    active.tell(np.round(x, 1), np.nan, asked=x)
    assert len(active.pending) == 0
    assert_array_equal(active.failures[-1:], np.round(x, 1))


def test_labels_of_failed_rows_are_saved(tmp_path):
    table = pd.DataFrame(POOL, columns=["a", "b"], index=[f"run {i}" for i in range(120)])
    active = Learner(pma.ard_gp(table[:3], [1.0, 2.0, 3.0]), pool=table, random_seed=1)
    active.tell(table.iloc[[7]], np.nan)
    active.save(tmp_path / "run.nc")
    other = Learner.load(tmp_path / "run.nc")
    assert other.to_datatree(draws=2)["failures"]["label"].values.tolist() == ["run 7"]
    assert other.n_left == 116


@pytest.mark.parametrize("place", [*nightly("box"), "pool"])
def test_random_points_are_drawn_in_proportion_to_their_probability(place):
    active = learner(criterion="random", **PLACES[place])
    x = active.ask(40)
    assert len(np.unique(x, axis=0)) == 40
    p, everywhere = probability(active, x), probability(active, POOL)
    wanted = (everywhere**2).sum() / everywhere.sum()
    assert abs(p.mean() - wanted) < 4 * p.std() / np.sqrt(40)
    assert p.mean() > everywhere.mean() + 0.1
    assert_array_equal(x[:8], learner(criterion="random", **PLACES[place]).ask(8))


def test_a_failed_place_of_a_box_is_not_asked_again():
    """A criterion of one's own that insists on it."""
    active = learner("function", criterion=lambda fit, X: 1e9 - np.square(X - 0.5).sum(1), failures=())
    first = active.ask()
    active.tell(first, np.nan)
    assert np.abs(active.ask() - first).max() > 1e-6


def test_several_models_weigh_too():
    models = [pma.composite_gp(START, truth(START), kernel, bounds=BOUNDS) for kernel in ("SE", "LIN")]
    active = Learner(models, "model", pool=POOL, random_seed=1, inference="laplace")
    plain = active._current.scorer().score(POOL)
    active.tell(FAILING, np.full(4, np.nan), failed=True)
    weights = np.exp(odds(tuple(POOL.min(0)), tuple(POOL.max(0)))(POOL))
    assert_allclose(active._current.scorer().score(POOL), plain * weights, rtol=1e-7)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("learn", "place"), [("maximum", "pool"), *nightly(("maximum", "box"), ("function", "pool"), ("function", "box"))]
)
def test_the_best_point_that_is_likely_to_work_is_recommended(learn, place):
    active = learner(learn, **PLACES[place])
    x = active.recommend()
    X = POOL if place == "pool" else RNG.uniform(LOW, HIGH, (4000, 2))
    method = {"method": "draws", "draws": 128, "random_seed": 0} if learn == "maximum" else {"method": "map"}
    mean = pma.predict(active.fit, np.concatenate([x, X]), **method).f_mean.to_numpy()
    # Where success is a little less likely, much more must be promised.
    assert (x == START).all(1).any() or probability(active, x) >= 0.75
    # In a box the climb ends at a wall, a few thousandths of the range below the best point there.
    assert mean[0] >= mean[1:][probability(active, X) >= 0.8].max() - 5e-3


@pytest.mark.nightly
def test_where_all_is_likely_to_fail_the_best_result_is_recommended():
    """Near one result everything failed."""
    X = np.array([[1.5, 0.5], [1.52, 0.5]])
    ring = X[0] + 0.05 * np.stack([np.cos(np.arange(8)), np.sin(np.arange(8))], axis=1)
    active = learner(X=X, failures=np.concatenate([ring, POOL[:24]]))
    best = X[np.argmax(pma.predict(active.fit, X, method="draws", draws=128, random_seed=0).f_mean.to_numpy())]
    assert (probability(active, RNG.uniform(LOW, HIGH, (500, 2))) < 0.5).all()
    assert_array_equal(active.recommend(), best[None])


@pytest.mark.slow
@pytest.mark.parametrize("place", [*nightly("box"), "pool"])
def test_maxima_of_paths_are_where_experiments_work(place):
    active = learner(**PLACES[place])
    optimum = active.optimum(20)
    x = optimum.samples.x.to_numpy()
    is_best = (x == optimum.x).all(1)
    # By the learner itself: another one scales inputs from another box.
    assert (probability(active, x) >= 0.499)[~is_best].all()
    # Paths end no lower than on a grid of such points.
    assert optimum.regret >= 0
    assert not (learner(failures=()).optimum(20).samples.x.to_numpy().sum(1) >= 0.9).all()


@pytest.mark.nightly
# Without noise, at sixty points.
@pytest.mark.filterwarnings("ignore::pymc_active.DoubtfulFitWarning")
def test_it_is_time_to_stop_even_if_more_is_promised_where_nothing_works():
    X = RNG.uniform(LOW, HIGH, (60, 2))
    good = np.isfinite(truth(X))
    assert learner(X=X[good], failures=X[~good]).stop(0.3)


@pytest.mark.nightly
@pytest.mark.slow
@pytest.mark.parametrize(("criterion", "place"), [(None, "pool"), ("random", "box"), (None, "box")])
def test_a_saved_run_asks_the_same(tmp_path, criterion, place):
    active = learner(criterion=criterion, **PLACES[place])
    active.run(truth, n=2, progressbar=False)
    active.save(tmp_path / "run.nc")
    other = Learner.load(tmp_path / "run.nc")
    assert_array_equal(other.failures, active.failures)
    assert_array_equal(other.ask(2), active.ask(2))
    # Which criterion asked makes no difference to the recommendation, for which the climbs in a box are long.
    if criterion is None:
        assert_array_equal(other.recommend(), active.recommend())


@pytest.mark.parametrize("place", ["pool", *nightly("box")])
def test_a_failure_that_was_none_is_forgotten(place):
    """As many points as before, but others of them failed: the classifier is fitted anew, and only then."""
    active, other = learner(**PLACES[place]), learner(failures=FAILING[1:], **PLACES[place])
    asked = active.ask(2)
    known = active._current.success()
    with pytest.raises(ValueError, match=r"2 pending point\(s\), learner.pending or the 4 that failed"):
        active.forget([[0.3, 0.3]])
    assert active._current.success() is known
    active.forget(np.concatenate([asked[:1], FAILING[:1]]))
    assert_array_equal(active.failures, FAILING[1:])
    assert_array_equal(active.pending, asked[1:])
    active.forget()
    for one in (active, other):
        one.tell(FAILING[:1], 0.2)
    assert active._current.success() is not known
    assert_array_equal(*(one._current.success()(POOL) for one in (active, other)))
