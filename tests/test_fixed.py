"""Inputs that are given for one question: ``ask(fixed=...)``."""

from __future__ import annotations

import dask.array as da
import numpy as np
import pandas as pd
import pytest
from nightly import nightly

import pymc_active as pma
from pymc_active.criteria.base import Scorer
from pymc_active.criteria.maximize import maximize

RNG = np.random.default_rng(0)
X = RNG.uniform(-1, 1, (6, 3))
Y = X[:, 0] + np.sin(2 * X[:, 1])
BOUNDS = {"a": (-1, 1), "b": (-1, 1), "batch": (0, 4)}
TABLE = pd.DataFrame(X * [1, 1, 0] + [0, 0, 2], columns=list(BOUNDS))
GRID = pd.DataFrame([[a, b, batch] for a in (-1, 0, 1) for b in (-1, 0, 1) for batch in (1, 2)], columns=list(BOUNDS))


def gpm():
    X = TABLE + np.outer(np.arange(6) % 3, [0, 0, 1])
    return pma.ard_gp(X, Y, bounds=BOUNDS)


@pytest.mark.parametrize("learn", [*nightly("function"), "maximum"])
def test_the_criterion_is_maximised_over_the_other_inputs(learn):
    learner = pma.Learner(gpm(), learn, bounds=BOUNDS, random_seed=0)
    x = learner.ask(fixed={"batch": 3})
    assert list(x.columns) == list(BOUNDS)
    assert x.batch.item() == 3
    scores = learner._current.scorer([])
    others = np.column_stack([RNG.uniform(-1, 1, (500, 2)), np.full(500, 3.0)])
    assert scores.score(x.to_numpy())[0] >= scores.score(others).max()
    assert learner.pending.batch.item() == 3
    learner.tell(x, [0.3])
    assert not len(learner.pending)


def test_a_batch_and_what_is_pending():
    learner = pma.Learner(gpm(), bounds=BOUNDS, random_seed=0)
    first, more = learner.ask(fixed={"batch": 1, "b": -0.5}), learner.ask(3, fixed={"batch": 1, "b": -0.5})
    rows = pd.concat([first, more])
    assert (rows[["b", "batch"]] == [-0.5, 1]).all().all()
    assert np.diff(np.sort(rows.a)).min() >= 0.02 * 2
    assert learner.ask().batch.item() != 1


def test_all_inputs_may_be_fixed():
    learner = pma.Learner(gpm(), bounds=BOUNDS, random_seed=0)
    x = learner.ask(fixed={"a": 0.1, "b": 0.2, "batch": 4.0})
    assert x.to_numpy().tolist() == [[0.1, 0.2, 4.0]]


def test_columns_of_arrays_have_numbers():
    bounds = [(-1, 1)] * 3
    learner = pma.Learner(pma.ard_gp(X, Y, bounds=bounds), bounds=bounds, random_seed=0)
    assert learner.ask(fixed={1: 0.25})[:, 1].tolist() == [0.25]
    learner = pma.Learner(pma.ard_gp(X, Y, bounds=bounds), criterion="random", bounds=bounds, random_seed=0)
    x = learner.ask(5, fixed={2: -1})
    assert (x[:, 2] == -1).all()
    assert len(np.unique(x[:, 0])) == 5


@pytest.mark.parametrize(
    ("criterion", "is_lazy"),
    [(None, False), ("random", True), *nightly((None, True), ("random", False))],
)
def test_of_a_pool_only_rows_with_that_value_are_asked_for(criterion, is_lazy):
    data = pd.DataFrame(X, columns=list(BOUNDS))
    pool = da.from_array(GRID.to_numpy(float), chunks=(4, 3)) if is_lazy else GRID
    model = pma.ard_gp(X if is_lazy else data, Y)
    learner = pma.Learner(model, criterion=criterion, pool=pool, random_seed=0)
    fixed = {2 if is_lazy else "batch": 2}
    x = np.concatenate([np.asarray(learner.ask(fixed=fixed)), np.asarray(learner.ask(8, fixed=fixed))])
    assert (x[:, 2] == 2).all()
    assert len(np.unique(x, axis=0)) == 9
    with pytest.raises(ValueError, match=r"0 candidate\(s\) with (batch|input 2) = 2 left and 1 were asked for"):
        learner.ask(fixed=fixed)
    assert len(learner.pending) == 9
    assert np.asarray(learner.ask())[0, 2] == 1


def test_the_best_row_of_a_pool():
    learner = pma.Learner(pma.ard_gp(pd.DataFrame(X, columns=list(BOUNDS)), Y), pool=GRID, random_seed=0)
    x = learner.ask(fixed={"batch": 2})
    rows = GRID[GRID.batch == 2]
    assert x.index.item() == rows.index[learner._current.scorer([]).score(rows.to_numpy(float)).argmax()]
    assert learner.pending.index.tolist() == x.index.tolist()


@pytest.mark.parametrize("where", ["box", "pool"])
def test_points_of_the_first_design(where):
    learner = pma.Learner(None, **({"bounds": BOUNDS} if where == "box" else {"pool": GRID}), random_seed=0)
    design = []
    for _ in range(5):
        x = learner.ask(fixed={"batch": 1})
        design.append(x.to_numpy()[0])
        learner.tell(x, float(x.a.item()))
    assert (np.array(design)[:, 2] == 1).all()
    assert len(np.unique(design, axis=0)) == 5
    rows = learner.X
    np.testing.assert_array_equal(rows, design)
    if where == "box":
        plain = pma.Learner(None, bounds=BOUNDS, random_seed=0).ask(5).to_numpy()
        np.testing.assert_array_equal(np.array(design)[:, :2], plain[:, :2])


def test_a_question_without_fixed_inputs_is_as_before():
    one, other = (pma.Learner(gpm(), pool=GRID, random_seed=0) for _ in range(2))
    np.testing.assert_array_equal(one.ask(), other.ask(fixed={}))


def test_equal_ends_of_a_box():
    class Hill(Scorer):
        def score(self, X):
            return -np.square(X - [0.3, 0.4, 0.0]).sum(1)

    hill = Hill(pma.fit(gpm(), random_seed=0, progressbar=False).ensemble, "")
    found = maximize(hill, np.array([-1, -1, 2.0]), np.array([1, 1, 2.0]), np.random.default_rng(0))
    np.testing.assert_allclose(found.X[0], [0.3, 0.4, 2.0], atol=1e-4)
    point = np.array([0.1, 0.2, 3.0])
    found = maximize(hill, point, point, np.random.default_rng(0))
    assert (found.X == point).all()
    # One start and where it leads, and both again with where these lead.
    assert len(found.X) == 2 + 4


def test_equal_bounds_say_how_to_fix_an_input():
    with pytest.raises(ValueError, match=r"ask\(fixed="):
        pma.Learner(gpm(), bounds=BOUNDS | {"batch": (2, 2)})
