"""Runs without data: designs of gradients, and learners that begin from zero points."""

import numpy as np
import pandas as pd
import pytest
from nightly import nightly
from numpy.testing import assert_allclose, assert_array_equal
from scipy.special import softmax

import pymc_active as pma
from pymc_active.active import Learner, gradient_design
from pymc_active.learner.saved import FORMAT_VERSION, KIND
from pymc_active.support import files

BOX = [(0.0, 10.0), (-1.0, 1.0), (5.0, 6.0)]
LOW, HIGH = np.array(BOX).T
POOL = pd.DataFrame(
    np.random.default_rng(0).uniform(LOW, HIGH, (40, 3)), columns=["a", "b", "c"], index=[f"r{i}" for i in range(40)]
)
GOALS = ["function", "hyperparameters", "maximum"]


def truth(X):
    X = np.asarray(X, float)
    return np.sin(0.5 * X[:, 0]) + X[:, 1] ** 2


def embedding(X, y):
    return pma.embedding_gp(X, y, n_components=1, bounds=BOX)


# Designs of gradients.


@pytest.mark.parametrize("D", [1, 2, 7, 40])
@pytest.mark.parametrize("radius", [0.3, 1.0])
def test_steps_are_orthogonal_of_one_length_and_inside_the_box(D, radius):
    bounds = [(-3.0 * i - 1, 5.0 + i) for i in range(D)]
    low, high = np.array(bounds).T
    X = gradient_design(bounds, n_centers=4, radius=radius, random_seed=D)
    assert X.shape == (4 * (D + 1), D)
    assert (X >= low).all()
    assert (X <= high).all()
    for part in np.split((X - low) / (high - low) * 2, 4):
        steps = part[1:] - part[0]
        assert_allclose(steps @ steps.T, radius**2 * np.eye(D), atol=1e-12)


def test_centers_are_spread_and_seldom_moved():
    """Short steps leave the centres where the Latin hypercube put them: one in each interval, but for the walls."""
    X = gradient_design([(0.0, 1.0)] * 5, n_centers=10, radius=0.02, random_seed=1)
    for column in X[::6].T:
        assert_array_equal(np.sort(np.floor(10 * column)), np.arange(10))
    for part in np.split(X, 10):
        # Steps of 0.01 lead towards the middle, but for what the walls moved the centre.
        assert ((part[1:] - part[0]) @ (part[0] - 0.5)).max() < 3e-4


# Learners without data.


@pytest.mark.parametrize("learn", GOALS)
@pytest.mark.parametrize(
    "where", [{"bounds": BOX}, {"pool": POOL}, *nightly({"pool": POOL.to_numpy()})], ids=["box", "df", "array"]
)
def test_a_learner_begins_from_zero_points(learn, where):
    active = Learner(None, learn, random_seed=1, **where)
    asked = active.ask(5)
    assert len(np.unique(asked, axis=0)) == 5
    assert active.models == {}
    active.tell(asked, truth(asked))
    assert active.gpm.description == "ard_gp(Matern52)"
    assert_array_equal(active.X, asked)
    x = active.ask()
    assert not (np.asarray(asked) == np.asarray(x)).all(1).any()
    active.tell(x, truth(x))
    assert len(active.recommend()) == 1
    if "pool" in where:
        assert active.n_left == 34
    if isinstance(x, pd.DataFrame):
        assert active.gpm.inputs == ["a", "b", "c"]
        assert set(active.asked_labels) == {*asked.index, *x.index}


def test_the_model_is_that_of_the_box():
    active = Learner(None, bounds=BOX, random_seed=1)
    active.run(truth, 5, progressbar=False)
    direct = pma.ard_gp(active.X, truth(active.X), bounds=BOX)
    assert active.gpm.recipe() == direct.recipe()
    theta = np.linspace(-1, 1, direct.n_parameters)
    assert active.gpm.posterior().value(theta) == direct.posterior().value(theta)


def test_a_function_makes_the_model_from_the_first_results():
    seen = []

    def make(X, y):
        seen.append((X, y))
        return embedding(X, y)

    active = Learner(make, "hyperparameters", pool=POOL, random_seed=1)
    active.run(truth, 5, progressbar=False)
    assert active.gpm.description == "embedding_gp(ExpQuad, d=1)"
    [(X, y)] = seen
    assert list(X.columns) == ["a", "b", "c"]
    assert_array_equal(y, truth(X))


def test_a_function_may_make_several_models():
    active = Learner(lambda X, y: [pma.composite_gp(X, y, e) for e in ("SE", "LIN")], "model", pool=POOL, random_seed=1)
    with pytest.raises(ValueError, match="there is no model yet"):
        active.recommend()
    active.run(truth, 5, progressbar=False)
    assert len(active.models) == 2
    assert active.criterion_name == "bams"
    assert active.recommend() in active.models


def test_hyperparameters_of_many_inputs_are_learned_from_gradients_first():
    bounds = [(0.0, 2.0)] * 8
    first = Learner(None, "hyperparameters", bounds=bounds, random_seed=1).ask(9)
    steps = first[1:] - first[0]
    assert_allclose(steps @ steps.T, np.diag(np.diag(steps @ steps.T)), atol=1e-12)
    spread = Learner(None, "function", bounds=bounds, random_seed=1).ask(10)
    for column in spread.T:
        assert_array_equal(np.sort(np.floor(5 * column)), np.arange(10))


@pytest.mark.parametrize("n_inputs", [1, 2, 3, 18, 19, 60])
def test_the_number_of_first_points(n_inputs):
    active = Learner(None, bounds=[(0, 1)] * n_inputs, random_seed=1)
    n = min(max(4, n_inputs + 2), 20)
    x = active.ask(n - 1)
    active.tell(x, x[:, 0])
    with pytest.raises(
        ValueError,
        match=f"there is no model yet: .* {n} points have been told, failures not counted, and it knows {n - 1}",
    ):
        _ = active.fit
    active.tell(np.full(n_inputs, 0.5), 0.5)
    assert len(active.gpm.y) == n


def test_points_of_a_pool_are_those_nearest_to_the_design():
    of_the_box = list(zip(POOL.min(), POOL.max(), strict=True))
    pool, box = Learner(None, pool=POOL, random_seed=4), Learner(None, bounds=of_the_box, random_seed=4)
    width = np.ptp(POOL.to_numpy(), axis=0)
    away = np.square((POOL.to_numpy() - box.ask()) / width).sum(1)
    assert pool.ask().index == [POOL.index[np.argmin(away)]]


def test_first_points_are_asked_one_by_one_as_all_at_once():
    one, all_at_once = (Learner(None, bounds=BOX, random_seed=2) for _ in range(2))
    assert_array_equal(np.concatenate([one.ask() for _ in range(5)]), all_at_once.ask(5))


def test_more_than_the_design_may_be_asked_before_anything_is_told():
    active = Learner(None, bounds=BOX, random_seed=2)
    asked = active.ask(12)
    assert len(np.unique(asked, axis=0)) == 12
    active.tell(asked[6:], truth(asked[6:]))
    assert len(active.gpm.y) == 6
    assert len(active.pending) == 6


def test_a_forgotten_first_point_is_asked_again():
    active = Learner(None, bounds=BOX, random_seed=2)
    asked = active.ask(5)
    active.forget(asked[1])
    assert_array_equal(active.ask()[0], asked[1])


def test_points_of_the_user_count():
    """They stand for the points of the design nearest to them, also where the user asked for another value."""
    rows = Learner(None, bounds=BOX, random_seed=2).ask(5)
    active = Learner(None, bounds=BOX, random_seed=2)
    near = rows[[3, 0]] + 0.02
    active.tell(near, truth(near))
    assert_array_equal(active.ask(3), rows[[1, 2, 4]])
    active.tell(rows[[1, 2, 4]].round(1), [1, 2, 3], asked=rows[[1, 2, 4]])
    assert len(active.gpm.y) == 5
    assert not len(active.pending)


def test_small_pools_and_constant_columns_are_enough():
    pool = POOL[:3].assign(b=1.0)
    active = Learner(None, pool=pool, random_seed=2)
    active.run(truth, 3, progressbar=False)
    assert len(active.gpm.y) == 3
    assert active.n_left == 0


def test_a_dask_array_asks_what_the_array_asks():
    da = pytest.importorskip("dask.array")
    X = POOL.to_numpy()
    lazy, eager = (Learner(None, pool=pool, random_seed=2) for pool in (da.from_array(X, chunks=(7, 3)), X))
    assert_array_equal(lazy.ask(5), eager.ask(5))


def test_run_may_stop_early_but_not_before_there_is_a_model():
    active = Learner(None, bounds=BOX, random_seed=1)
    active.run(truth, 20, progressbar=False, until=1e6)
    assert len(active.y) == 5


def test_a_function_that_fails_loses_nothing():
    active = Learner(lambda X, y: pma.ard_gp(X, y, kernel="round"), bounds=BOX, random_seed=1)
    x = active.ask(5)
    active.tell(x[:4], truth(x[:4]))
    with pytest.raises(ValueError, match="round"):
        active.tell(x[4], truth(x[4:]))
    assert len(active.y) == 4
    assert_array_equal(active.pending, x[4:])


# Files.


def test_the_function_of_a_run_without_a_model_is_passed_again(tmp_path):
    path = tmp_path / "run.nc"
    active = Learner(embedding, bounds=BOX, random_seed=3)
    active.tell(asked := active.ask(3), truth(asked))
    active.notes = {"unit": "m"}
    active.save(path)
    with pytest.raises(ValueError, match=r"cannot hold the function .* pass it as model="):
        Learner.load(path)
    with pytest.raises(TypeError, match="takes its function as model=; got ArdGP"):
        Learner.load(path, model=pma.ard_gp([[1.0, 0, 5]], [0.0]))
    again = Learner.load(path, model=embedding)
    assert again.notes == active.notes
    for one in (active, again):
        one.run(truth, 3, progressbar=False)
    assert_array_equal(again.X, active.X)
    assert_array_equal(again.ask(), active.ask())
    path.unlink()
    Learner(None, bounds=BOX, random_seed=3).save(path)
    with pytest.raises(TypeError, match="takes no model; got function"):
        Learner.load(path, model=embedding)


@pytest.mark.slow
@pytest.mark.parametrize(
    "change",
    [{"memory": {"has_function": False}}, *nightly({"memory": {}}, {"models": None, "memory": None}), {"steps": 3}],
)
def test_a_file_that_contradicts_itself_is_refused(change, tmp_path):
    path = tmp_path / "run.nc"
    active = Learner(None, bounds=BOX, random_seed=3)
    active.run(truth, 2, progressbar=False)
    active.save(path)
    contents = files.read(path, KIND, FORMAT_VERSION)
    files.write(path, contents._replace(document=contents.document | change), KIND, FORMAT_VERSION)
    with pytest.raises((ValueError, TypeError)):
        Learner.load(path)


def test_failed_points_of_the_design_are_not_asked_again():
    learner = pma.active.Learner(None, "maximum", bounds=[(0, 1)] * 2, random_seed=1)
    asked = []
    for k in range(5):
        x = learner.ask()
        asked.append(x[0])
        learner.tell(x, np.nan if k < 2 else x.sum(1))
    assert len(np.unique(asked, axis=0)) == 5
    assert len(learner.failures) == 2
    assert not learner.models
    learner.run(lambda x: x.sum(1), n=2, progressbar=False)
    assert len(learner.models) == 1


def test_columns_are_taken_by_name_from_the_first_table_told(tmp_path):
    """Bounds that are a list name no inputs."""
    told = pd.DataFrame(np.random.default_rng(1).uniform(LOW, HIGH, (12, 3)), columns=["a", "b", "c"])
    turned = told[["c", "a", "b"]]
    one, other = (Learner(None, "function", bounds=BOX, random_seed=1) for _ in range(2))
    one.tell(told[:3], truth(told[:3]))
    # A row of a table.
    for k in range(3):
        other.tell(told.iloc[k], truth(told[k : k + 1]))
    other.save(tmp_path / "run.nc")
    other = Learner.load(tmp_path / "run.nc")
    one.tell(told[3:], truth(told[3:]))
    other.tell(turned[3:], truth(told[3:]))
    assert_array_equal(one.X, other.X)
    assert one.gpm.inputs == other.gpm.inputs == ["a", "b", "c"]
    with pytest.raises(ValueError, match="missing: a; unknown: d"):
        one.tell(told.rename(columns={"a": "d"})[:1], 0.0)


@pytest.mark.parametrize("goal", ["maximum", *nightly("function")])
def test_two_likelihoods_are_averaged_from_the_first_data_on(goal, tmp_path):
    """As models that the user passes, before and after there are data, in files too."""

    def skewed(X):
        return np.exp(2 * np.sin(2 * X[:, 0]) + X[:, 1])

    box = [(-1, 1)] * 2
    learner = pma.Learner(None, goal, bounds=box, likelihood="auto", random_seed=1)
    learner.ask()
    learner.save(tmp_path / "first.nc")
    learner = pma.Learner.load(tmp_path / "first.nc")
    learner.run(skewed, 6, progressbar=False)
    models = {kind: pma.ard_gp(learner.X, learner.y, bounds=box, likelihood=kind) for kind in ("normal", "warped")}
    given = pma.Learner(models, goal, bounds=box, random_seed=1)
    assert list(learner.models) == list(models)
    assert learner.criterion.name == given.criterion.name
    evidences = {label: fit.log_evidence for label, fit in learner.fit.items()}
    np.testing.assert_allclose(learner.fit.probability, softmax(list(evidences.values())), atol=1e-6)
    for label, fit in given.fit.items():
        assert abs(evidences[label] - fit.log_evidence) < 1.5
    learner.save(tmp_path / "run.nc")
    np.testing.assert_array_equal(pma.Learner.load(tmp_path / "run.nc").ask(), learner.ask())


def test_two_likelihoods_are_refused_where_there_is_one_model():
    with pytest.raises(ValueError, match="takes a single model: choose a likelihood"):
        pma.Learner(None, "hyperparameters", bounds=[(0, 1)], likelihood="auto")
    with pytest.raises(ValueError, match="takes no y_sd: choose 'normal'"):
        pma.Learner(None, "maximum", bounds=[(0, 1)], likelihood="auto").tell([[0.5]], [1.0], y_sd=0.1)
    with pytest.raises(ValueError, match=r"Learner\(None, ..., likelihood='auto'\) takes"):
        pma.ard_gp([[0.0], [1.0]], [0.0, 1.0], likelihood="auto")
