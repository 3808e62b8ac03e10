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


def odds(X=START, failures=FAILING):
    failed = np.arange(len(X) + len(failures)) >= len(X)
    return Success(np.concatenate([X, failures]), failed, LOW, HIGH, 1)


@cache
def known_odds():
    return odds()


# The probability of success.


def test_a_learner_tells_the_probability_of_success():
    """By columns in any order, of a run without failures and of one with some."""
    active = learner()
    active.tell(active.ask(), 1.0)
    inputs = pd.DataFrame(POOL, columns=["a", "b"])
    assert_array_equal(learner(failures=[]).success_probability(POOL), np.ones(len(POOL)))
    assert_array_equal(active.success_probability(POOL), np.exp(odds(active.X, active.failures)(POOL)))
    assert active.success_probability(FAILING).max() < 0.5 < active.success_probability(START).min()
    named = Learner(None, "maximum", pool=inputs, random_seed=1)
    odd = np.arange(9) % 2 == 1
    named.tell(inputs.iloc[:9], np.where(odd, np.nan, 1.0 + np.arange(9)), failed=odd)
    assert_array_equal(named.success_probability(inputs[["b", "a"]]), named.success_probability(inputs))
    with pytest.raises(ValueError, match="X must have the model's inputs as columns"):
        named.success_probability(inputs[["a"]])


def test_probability_is_that_of_a_model_of_labels():
    """By the public calls on scaled points, with many more particles."""
    X, failed = np.concatenate([START, FAILING]), np.arange(9) >= 5
    scaled, Z = (2 * (values - LOW) / (HIGH - LOW) - 1 for values in (X, POOL))
    priors = {"log_outputscale": pm.Normal.dist(2.0, 1.0)}
    gpm = pma.ard_gp(scaled, ~failed, likelihood="bernoulli", mean="constant", priors=priors)
    fit = pma.fit(gpm, n_particles=512, random_seed=1, progressbar=False)
    assert_allclose(np.exp(Success(X, failed, LOW, HIGH, 1)(POOL)), pma.predict(fit, Z).y_mean, atol=0.06)


@pytest.mark.parametrize("width", [*nightly(2), 25])
def test_gradient_of_the_log_probability_is_that_of_differences(width):
    """Also where there are too many inputs to learn a lengthscale for each."""
    rng = np.random.default_rng(1)
    low, high = -np.ones(width), np.linspace(1, 5, width)
    X = rng.uniform(low, high, (20, width))
    success = Success(X, X[:, 0] > 0.2, low, high, 1)
    Z = rng.uniform(low, high, (6, width))
    value, slope = success.gradient(Z)
    step = 1e-5 * np.eye(width)
    differences = np.stack([(success(Z + h) - success(Z - h)) / 2e-5 for h in step], axis=1)
    assert_allclose(value, success(Z), rtol=1e-13)
    assert_allclose(slope, differences, rtol=1e-5, atol=1e-7)


def test_a_column_that_never_varies_has_no_effect():
    X = np.column_stack([START[:, :1], np.full(5, 3.0)])
    success = Success(X, X[:, 0] > 1.5, X.min(0), X.max(0), 1)
    assert np.isfinite(success(X)).all()


# Weighing.


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
    success = known_odds()
    p, score = np.exp(success(POOL)), plain.score(POOL)
    zero = plain.score(START).max() if kind == "level" else 0.0
    gain = score - zero
    by_hand = score + np.log(p) if kind == "log" else zero + np.where(gain > 0, p * gain, gain / p)
    assert_allclose(expected(plain, name, success).score(POOL), by_hand, rtol=1e-10)


@pytest.mark.parametrize("kind", ["log", "level", "gain"])
@pytest.mark.parametrize("rule", [expected, None])
def test_gradient_is_that_of_differences(kind, rule):
    plain, name = scorer(kind)
    success = known_odds()
    weighed = likely(plain, success, POOL) if rule is None else expected(plain, name, success)
    X = POOL[:30]
    value, slope = weighed.gradient(X)
    step = 1e-6 * np.eye(2)
    differences = np.stack([(weighed.score(X + h) - weighed.score(X - h)) / 2e-6 for h in step], axis=1)
    assert_allclose(value, weighed.score(X), rtol=1e-9)
    assert_allclose(slope, differences, rtol=2e-4, atol=1e-5 * np.abs(slope).max())


def test_a_likely_failure_never_gains():
    """Also not where the score is negative."""

    class Never:
        def __call__(self, X):
            return np.full(len(X), -50.0)

    class Always(Never):
        def __call__(self, X):
            return np.zeros(len(X))

    for kind in ("log", "level", "gain"):
        plain, name = scorer(kind)
        assert (expected(plain, name, Never()).score(POOL) <= plain.score(POOL)).all()
        assert_allclose(expected(plain, name, Always()).score(POOL), plain.score(POOL), rtol=1e-12)


# Telling.


def test_failures_are_recorded_and_the_model_does_not_see_them():
    active = learner(pool=POOL, failures=())
    x = active.ask(3)
    y = np.array([1.0, np.nan, 2.0])
    active.tell(x, y, failed=np.isnan(y))
    assert_array_equal(active.failures, x[[1]])
    assert_array_equal(active.X, [*START, *x[[0, 2]]])
    assert_array_equal(active.y[5:], [1.0, 2.0])
    assert len(active.pending) == 0
    assert active.n_left == 117
    tree = active.to_datatree(draws=2)
    assert_array_equal(tree["failures"]["x"], x[[1]])
    assert POOL[tree["failures"]["pool_row"].item()].tolist() == x[1].tolist()
    assert tree["design"].sizes["step"] == 2


def test_a_failure_alone_keeps_the_fit():
    active = learner(failures=())
    fit = active.fit
    active.tell(FAILING[0], np.nan)
    assert active.fit is fit


@pytest.mark.parametrize("random_seed", [0, *(pytest.param(k, marks=pytest.mark.nightly) for k in (1, 2))])
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
    X = np.array([[0.0], [0.5], [1.0], [0.5]])
    success = Success(X, np.array([False, True, True, False]), np.array([0.0]), np.array([1.0]), 1)
    assert success.is_likely(X[:3]).tolist() == [True, True, False]
    new = np.array([[0.3], [0.9]])
    assert_array_equal(success.is_likely(new), success(new) >= np.log(0.5))


def test_none_is_no_failure():
    active = learner(failures=())
    told = active.X, active.y
    for tell in (
        lambda: active.tell(FAILING[0], None),
        lambda: active.correct(0, None),
        lambda: active.run(lambda x: [None], 1, progressbar=False),
    ):
        with pytest.raises(TypeError, match=r"None is no number, .* write float\('nan'\) for one"):
            tell()
    assert len(active.failures) == 0
    assert_array_equal(active.X, told[0])
    assert_array_equal(active.y, told[1])


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
    y = pd.Series(np.nan, index=pool.index)
    y.iloc[:4] = [1.0, 2.0, 3.0, 2.5]
    with pytest.warns(pma.RunWarning, match="rows have no y"):
        named.tell(pool, y)
    assert (len(named.y), len(named.failures), named.n_left) == (4, 0, len(pool) - 4)
    # All rows empty, and said to be so.
    named.tell(pool.iloc[5:8], y.iloc[5:8], failed=False)
    assert (len(named.y), len(named.failures)) == (4, 0)
    asked = named.ask(2)
    named.tell(asked + 1e-3, y.iloc[:2].to_numpy() * [1, np.nan], asked=asked, failed=False)
    assert_array_equal(named.pending, asked.iloc[1:])


@pytest.mark.parametrize(
    ("y", "failed", "message"),
    [
        ([1.0, np.nan], True, "the y of a failed experiment is NaN, .*; row 0 has 1"),
        ([1.0, np.nan], [True], "failed must be True or False, or 2 of them"),
        ([np.nan, np.nan], "yes", "failed must be True or False"),
        ([1.0, np.nan], [0, 1], "failed must be True or False"),
    ],
)
def test_what_cannot_have_failed(y, failed, message):
    active = learner(failures=())
    with pytest.raises(ValueError, match=message):
        active.tell(FAILING[:2], y, failed=failed)
    assert (len(active.y), len(active.failures)) == (5, 0)


def test_a_failed_row_is_not_asked_again_and_a_forgotten_equal_one_is():
    pool = np.concatenate([POOL[:6], POOL[:1]])
    active = learner(pool=pool, criterion="random", failures=())
    active.tell(pool[0], np.nan)
    asked = active.ask(6)
    assert len(asked) == 6
    active.forget(asked)
    assert active.n_left == 6


def test_a_row_that_is_given_up_is_free_again_wherever_another_was_measured():
    active = learner(pool=POOL[:6], criterion="random", failures=())
    x = active.ask(2)
    active.tell(x[0], np.nan, asked=x[1])
    assert active.n_left == 4
    active.forget(x[0])
    assert active.n_left == 5


def test_rounded_settings_settle_the_point_that_was_asked():
    active = learner(failures=())
    x = active.ask()
    active.tell(np.round(x, 1), np.nan, asked=x)
    assert len(active.pending) == 0
    assert_array_equal(active.failures, np.round(x, 1))


def test_a_point_that_failed_can_be_measured_later():
    active = learner()
    active.tell(FAILING[0], 0.3)
    assert len(active.y) == 6
    assert len(active.failures) == 4
    active.ask()


def test_an_oracle_may_fail():
    active, calls = learner(failures=()), []

    def oracle(x):
        calls.append(x)
        return truth(x)

    active.run(oracle, n=2, progressbar=False)
    assert len(calls) == 2
    assert len(active.failures) + len(active.y) == 5 + 2
    assert np.isfinite(active.y).all()


# Asking.


def works(X):
    return np.isfinite(truth(np.reshape(X, (-1, 2))))


WEIGHED = ["expected_improvement", "upper_confidence_bound", "thompson", "uncertainty", "bald", "max_value_entropy"]
# One of each way to weigh: a logarithm, a level and a gain.
WAYS = ["expected_improvement", "upper_confidence_bound", "uncertainty"]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("candidates", "criterion"),
    [
        pytest.param(where, criterion, marks=() if criterion in ways else pytest.mark.nightly)
        for where, ways in (("pool", WAYS), ("box", ()))
        for criterion in WEIGHED
    ],
)
def test_points_that_would_fail_are_asked_less(candidates, criterion):
    """A batch has a higher probability of success than that of a learner who was not told of the failures."""
    keywords, n = ({"pool": POOL}, 4) if candidates == "pool" else ({}, 2)
    ignorant, told = (learner(criterion=criterion, failures=f, **keywords) for f in ((), FAILING))
    one, other = ignorant.ask(n), told.ask(n)
    assert probability(told, other).mean() > probability(told, one).mean() + 0.02


@pytest.mark.parametrize("candidates", [*nightly("box"), "pool"])
def test_random_points_are_drawn_in_proportion_to_their_probability(candidates):
    keywords = {"pool": POOL} if candidates == "pool" else {}
    active = learner(criterion="random", **keywords)
    x = active.ask(40)
    assert len(np.unique(x, axis=0)) == 40
    p, everywhere = probability(active, x), probability(active, POOL)
    wanted = (everywhere**2).sum() / everywhere.sum()
    assert abs(p.mean() - wanted) < 4 * p.std() / np.sqrt(40)
    assert p.mean() > everywhere.mean() + 0.1
    assert_array_equal(x[:8], learner(criterion="random", **keywords).ask(8))


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
    weighed = active._current.scorer().score(POOL)
    assert_allclose(weighed, plain * np.exp(odds_in_pool()(POOL)), rtol=1e-7)


def odds_in_pool():
    failed = np.arange(9) >= 5
    return Success(np.concatenate([START, FAILING]), failed, POOL.min(0), POOL.max(0), 1)


@pytest.mark.nightly
def test_a_dask_array_asks_as_the_array_does():
    da = pytest.importorskip("dask.array", reason="only the dask extra brings it")
    lazy = da.from_array(POOL, chunks=(50, 2))
    for criterion in ("uncertainty", "random"):
        one, other = (learner("function", pool=pool, criterion=criterion) for pool in (POOL, lazy))
        assert_array_equal(other.ask(3), one.ask(3))
        assert_array_equal(other.recommend(), one.recommend())


@pytest.mark.nightly
def test_the_classifier_is_fitted_once_for_the_same_data():
    active = learner()
    active.ask()
    known = active._current.success()
    active.ask()
    assert active._current.success() is known
    active.tell(START[0] + 0.01, 1.0)
    assert active._current.success() is not known


# The answer.


def probability(active, X):
    return np.exp(active._current.success()(np.atleast_2d(X)))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("learn", "candidates"),
    [
        ("maximum", "pool"),
        pytest.param("maximum", "box", marks=pytest.mark.nightly),
        pytest.param("function", "pool", marks=pytest.mark.nightly),
        pytest.param("function", "box", marks=pytest.mark.nightly),
    ],
)
def test_the_best_point_that_is_likely_to_work_is_recommended(learn, candidates):
    active = learner(learn, **({"pool": POOL} if candidates == "pool" else {}))
    x = active.recommend()
    X = POOL if candidates == "pool" else RNG.uniform(LOW, HIGH, (4000, 2))
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
@pytest.mark.parametrize("candidates", [pytest.param("box", marks=pytest.mark.nightly), "pool"])
def test_maxima_of_paths_are_where_experiments_work(candidates):
    active = learner(**({"pool": POOL} if candidates == "pool" else {}))
    optimum = active.optimum(20)
    x = optimum.samples.x.to_numpy()
    is_best = (x == optimum.x).all(1)
    assert (probability(active, x) >= 0.499)[~is_best].all()
    # Paths end no lower than on a grid of such points.
    assert optimum.regret >= 0
    assert not (learner(failures=()).optimum(20).samples.x.to_numpy().sum(1) >= 0.9).all()


@pytest.mark.nightly
# Without noise, at sixty points.
@pytest.mark.filterwarnings("ignore::pymc_active.DoubtfulFitWarning")
def test_it_is_time_to_stop_even_if_more_is_promised_where_nothing_works():
    X = RNG.uniform(LOW, HIGH, (60, 2))
    good = works(X)
    active = learner(X=X[good], failures=X[~good])
    assert active.stop(0.3)


# Files.


@pytest.mark.nightly
@pytest.mark.slow
@pytest.mark.parametrize(
    ("criterion", "candidates"),
    [(None, "pool"), ("random", "box"), (None, "box")],
)
def test_a_saved_run_asks_the_same(tmp_path, criterion, candidates):
    active = learner(criterion=criterion, **({"pool": POOL} if candidates == "pool" else {}))
    active.run(truth, n=2, progressbar=False)
    active.save(tmp_path / "run.nc")
    other = Learner.load(tmp_path / "run.nc")
    assert_array_equal(other.failures, active.failures)
    assert_array_equal(other.ask(2), active.ask(2))
    # Which criterion asked makes no difference to the recommendation, for which the climbs in a box are long.
    if criterion is None:
        assert_array_equal(other.recommend(), active.recommend())


def test_labels_of_failed_rows_are_saved(tmp_path):
    table = pd.DataFrame(POOL, columns=["a", "b"], index=[f"run {i}" for i in range(120)])
    X = pd.DataFrame(START, columns=["a", "b"])
    active = Learner(pma.ard_gp(X, truth(X)), pool=table, random_seed=1)
    row = table.iloc[[7]]
    active.tell(row, np.nan)
    active.save(tmp_path / "run.nc")
    other = Learner.load(tmp_path / "run.nc")
    assert other.to_datatree(draws=2)["failures"]["label"].values.tolist() == ["run 7"]
    assert other.n_left == 119


@pytest.mark.parametrize("candidates", ["pool", *nightly("box")])
def test_a_failure_that_was_none_is_forgotten(candidates):
    keywords = {"pool": POOL} if candidates == "pool" else {}
    active, other = learner(**keywords), learner(failures=FAILING[1:], **keywords)
    asked = active.ask(2)
    with pytest.raises(ValueError, match=r"2 pending point\(s\), learner.pending or the 4 that failed"):
        active.forget([[0.3, 0.3]])
    active.forget(np.concatenate([asked[:1], FAILING[:1]]))
    assert_array_equal(active.failures, FAILING[1:])
    assert_array_equal(active.pending, asked[1:])
    active.forget()
    chances = []
    for one in (active, other):
        # As many points as before, but others of them failed.
        one.tell(FAILING[:1], 0.2)
        chances.append(one._current.success()(POOL))
    assert_array_equal(*chances)


@pytest.mark.nightly
def test_a_correction_to_a_failure_changes_where_experiments_work():
    active, other = learner(), learner(X=START[1:], failures=np.concatenate([FAILING, START[:1]]))
    active.ask()
    active.forget()
    active.correct(0, np.nan)
    chance, expected_ = (one._current.success()(POOL) for one in (active, other))
    assert_allclose(chance, expected_, atol=1e-10)
