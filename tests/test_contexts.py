"""Inputs that are measured and not chosen: the best point, and where the maximum is, at their values."""

from __future__ import annotations

import copy

import dask.array as da
import matplotlib as mpl
import numpy as np
import pandas as pd
import pytest
from scipy.linalg import cho_factor, cho_solve

import pymc_active as pma
from pymc_active.predictions.ensembles import conditioned_gps, ensemble_of

mpl.use("agg")

RNG = np.random.default_rng(0)
BOUNDS = {"a": (-1, 1), "humidity": (0, 80)}
SPACE = pma.Space({"a": (-1, 1), "stir": pma.Steps(100, 500, 100), "solvent": ["DMF", "MeCN", "water"]}, "a <= 0.9")
ROWS = pd.DataFrame([[a, h] for h in (20, 40, 60) for a in np.linspace(-1, 1, 9)], columns=list(BOUNDS))


def dryness(table):
    return -((table.a - table.humidity / 60 + 0.5) ** 2)


@pytest.fixture(scope="module")
def box():
    table = pd.DataFrame(RNG.uniform([-1, 0], [1, 80], (16, 2)), columns=list(BOUNDS))
    gpm = pma.ard_gp(table, dryness(table) + 0.05 * RNG.normal(size=16), kernel="ExpQuad", bounds=BOUNDS)
    learner = pma.Learner(gpm, "function", bounds=BOUNDS, random_seed=0, inference="laplace")
    assert learner.fit
    return learner


@pytest.fixture(scope="module")
def pool():
    gpm = pma.ard_gp(ROWS[::2], dryness(ROWS[::2]))
    return pma.Learner(gpm, "function", pool=ROWS, random_seed=0, inference="laplace")


@pytest.fixture(scope="module")
def space():
    table = SPACE.sample(20, random_seed=1)
    best = table.solvent.map({"DMF": -0.5, "MeCN": 0.2, "water": 0.6})
    y = -((table.a - best) ** 2) - ((table.stir - 300) / 400) ** 2 + (table.solvent == "water")
    gpm = pma.ard_gp(table, y, space=SPACE)
    return pma.Learner(gpm, "function", random_seed=0, inference="laplace")


def test_of_a_box_the_best_point_at_the_value_that_was_measured(box):
    for humidity in (10, 47.5):
        found = box.recommend(fixed={"humidity": humidity})
        grid = pd.DataFrame({"a": np.linspace(-1, 1, 801), "humidity": humidity})
        mean = pma.predict(box.fit, grid).f_mean.to_numpy()
        assert found.humidity.item() == humidity
        assert found.a.item() == pytest.approx(grid.a[mean.argmax()], abs=0.003)
    assert box.recommend(fixed={"a": 0.25, "humidity": 47.5}).to_numpy().tolist() == [[0.25, 47.5]]
    pd.testing.assert_frame_equal(box.recommend(fixed={}), box.recommend())


def draws_on_a_grid(learner, grid, n):
    """Draws (n, m) of f from the posterior on a grid, by the textbook's formula."""
    seed, found = 5, []
    for gp in conditioned_gps(ensemble_of(learner.fit, draws=64, random_seed=seed), 64, random_seed=seed):
        Z = gp.x_map(grid.to_numpy(float))
        factor = cho_factor(gp.covariance(gp.X, gp.X) + np.diag(np.broadcast_to(gp.data_noise, len(gp.X))))
        cross = gp.covariance(Z, gp.X)
        mean = gp.prior_mean(Z)[0] + cross @ cho_solve(factor, gp.y - gp.prior_mean(gp.X)[0])
        S = gp.covariance(Z, Z) - cross @ cho_solve(factor, cross.T)
        values, vectors = np.linalg.eigh(S)
        z = RNG.normal(size=(n // 64, len(Z)))
        found.append(gp.to_user_y(mean + z * np.sqrt(np.maximum(values, 0)) @ vectors.T))
    return np.concatenate(found)


def test_of_a_box_the_place_of_the_maximum_at_that_value(box):
    found = box.optimum(200, fixed={"humidity": 47}, progressbar=False)
    places = found.samples.x.to_numpy()
    assert (places[:, 1] == 47).all()
    grid = pd.DataFrame({"a": np.linspace(-1, 1, 201), "humidity": 47.0})
    f = draws_on_a_grid(box, grid, 64 * 40)
    a = grid.a.to_numpy()[f.argmax(1)]
    assert places[:, 0].mean() == pytest.approx(a.mean(), abs=5 * a.std() / 14)
    assert places[:, 0].std() == pytest.approx(a.std(), rel=0.25)
    at = np.abs(grid.a - found.x.a.item()).argmin()
    short = f.max(1) - f[:, at]
    assert found.regret == pytest.approx(short.mean(), abs=5 * found.regret_error)
    assert found.f_mean == pytest.approx(f[:, at].mean(), abs=0.3 * f[:, at].std())
    assert found.f_sd == pytest.approx(f[:, at].std(), rel=0.4)
    pd.testing.assert_frame_equal(found.x, box.recommend(fixed={"humidity": 47}))
    assert "humidity  " in repr(found)
    with pytest.raises(ValueError, match="with fixed inputs see plot_predictions"):
        pma.plots.plot(found)


def test_all_inputs_may_be_fixed(box):
    found = box.optimum(8, fixed={"a": 0.1, "humidity": 30}, progressbar=False)
    assert (found.samples.x == [0.1, 30]).all()
    assert found.regret == pytest.approx(0, abs=1e-9)


def test_of_a_pool_rows_with_that_value(pool):
    for humidity in (20, 60):
        rows = ROWS[ROWS.humidity == humidity]
        mean = pma.predict(pool.fit, rows).f_mean.to_numpy()
        found = pool.recommend(fixed={"humidity": humidity})
        assert found.index.item() == rows.index[mean.argmax()]
        optimum = pool.optimum(16, fixed={"humidity": humidity}, progressbar=False)
        assert optimum.x.index.item() == found.index.item()
        assert (optimum.samples.x[:, 1] == humidity).all()
        assert optimum.row_probabilities().shape == (9,)
        assert optimum.domain.labels.tolist() == rows.index.tolist()
        assert len(pma.plots.plot(optimum)[0]) == 2
    lazy = pma.Learner(
        pma.ard_gp(ROWS[::2].to_numpy(), dryness(ROWS[::2])),
        pool=da.from_array(ROWS.to_numpy(float), chunks=(9, 2)),
        inference="laplace",
    )
    assert lazy.recommend(fixed={1: 60})[0, 1] == 60
    with pytest.raises(ValueError, match="cannot be told for a dask array"):
        lazy.optimum(fixed={1: 60})


@pytest.mark.parametrize(
    "fixed", [{"solvent": "DMF", "stir": 250}, pytest.param({"solvent": "MeCN"}, marks=pytest.mark.slow)]
)
def test_in_a_space_the_other_inputs_are_chosen(space, fixed):
    found = space.recommend(fixed=fixed)
    stirs = [fixed["stir"]] if "stir" in fixed else range(100, 501, 100)
    grid = pd.DataFrame(
        [[a, s, fixed["solvent"]] for a in np.linspace(-1, 0.9, 96) for s in stirs], columns=found.columns
    )
    mean = pma.predict(space.fit, grid).f_mean.to_numpy()
    best = grid.iloc[mean.argmax()]
    assert (found.solvent.item(), found.stir.item()) == (best.solvent, best.stir)
    assert found.a.item() == pytest.approx(best.a, abs=0.02)
    optimum = space.optimum(20, fixed=fixed, progressbar=False)
    places = SPACE.decode(optimum.samples.x.to_numpy())
    assert (places[list(fixed)] == list(fixed.values())).all().all()
    assert SPACE.can_be(optimum.samples.x.to_numpy()).all()
    assert places.a.mean() == pytest.approx(best.a, abs=0.1)
    assert optimum.samples.f.mean().item() == pytest.approx(mean.max(), abs=0.2)
    assert 0 <= optimum.regret < 0.2
    assert f"{fixed['solvent']} 100%" in repr(optimum)


@pytest.mark.slow
def test_after_failures_a_row_that_works(pool):
    learner = copy.copy(pool)
    rows = ROWS[(ROWS.humidity == 20) & (ROWS.index % 2 > 0)]
    learner.tell(rows, np.full(len(rows), np.nan), failed=True)
    found = learner.optimum(16, fixed={"humidity": 20}, progressbar=False)
    for table in (found.x, found.samples.x.to_pandas()):
        assert (table.humidity == 20).all()
        assert not table.merge(rows).size
    assert pool.recommend(fixed={"humidity": 20}).index.item() in rows.index


@pytest.mark.slow
def test_after_failures_it_stays_where_experiments_work(box):
    learner = copy.copy(box)
    learner.tell(pd.DataFrame({"a": [0.4, 0.8], "humidity": 47}), [np.nan, np.nan], failed=True)
    best = box.recommend(fixed={"humidity": 47}).a.item()
    found = learner.optimum(8, fixed={"humidity": 47}, progressbar=False)
    assert found.x.humidity.item() == 47
    assert found.x.a.item() < best
    assert (found.samples.x[:, 1] == 47).all()
    assert learner.success_probability(found.x)[0] > 0.5


def test_looking_changes_nothing(box):
    one, other = copy.copy(box), copy.copy(box)
    one.recommend(fixed={"humidity": 33})
    one.optimum(4, fixed={"humidity": 33}, progressbar=False)
    pd.testing.assert_frame_equal(one.recommend(), other.recommend())
    pd.testing.assert_frame_equal(one.ask(), other.ask())


@pytest.mark.parametrize("what", ["recommend", "optimum", "ask"])
def test_values_that_cannot_be_are_refused_before_any_fit(what):
    in_box = pma.Learner(pma.ard_gp(ROWS[::2], dryness(ROWS[::2]), bounds=BOUNDS), "maximum", bounds=BOUNDS)
    in_pool = pma.Learner(pma.ard_gp(ROWS[::2], dryness(ROWS[::2])), "maximum", pool=ROWS)
    for learner, fixed, error, told in (
        (in_box, {"humidity": 90}, ValueError, "humidity = 90, outside the bounds from 0 to 80"),
        (in_box, {"wind": 3}, ValueError, "none of the inputs a, humidity"),
        (in_box, {0: 3}, ValueError, "none of the inputs a, humidity"),
        (in_box, {"a": [0.1, 0.2]}, ValueError, "one finite number"),
        (in_box, {"a": "low"}, TypeError, "must hold numbers"),
        (in_box, {"humidity": np.nan}, ValueError, "one finite number"),
        (in_box, [47], TypeError, "a dict of inputs"),
        (
            in_pool,
            {"humidity": 47},
            ValueError,
            r"values that a row of the pool has; got \{'humidity': 47\}, which none",
        ),
    ):
        with pytest.raises(error, match=told):
            getattr(learner, what)(fixed=fixed)
        assert learner._run.fit is None


@pytest.mark.slow
def test_a_label_of_a_model_is_given_no_inputs():
    models = [pma.ard_gp(ROWS[::9], dryness(ROWS[::9]), mean=mean) for mean in ("zero", "constant")]
    learner = pma.Learner(models, "model", pool=ROWS, random_seed=0, inference="laplace")
    with pytest.raises(ValueError, match="leave fixed out"):
        learner.recommend(fixed={"humidity": 20})
