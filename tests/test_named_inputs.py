"""Columns with names are taken by their names, wherever candidates or data are given."""

import numpy as np
import pandas as pd
import pymc as pm
import pytest
import xarray as xr
from advised import said
from numpy.testing import assert_allclose, assert_array_equal

import pymc_active as pma

rng = np.random.default_rng(1)
X = pd.DataFrame(rng.uniform(size=(10, 2)), columns=["heat", "acid"])
y = np.sin(5 * X["heat"].to_numpy()) + 0.1 * rng.normal(size=10)
CANDIDATES = pd.DataFrame(rng.uniform(size=(6, 2)), columns=X.columns, index=list("uvwxyz"))
SWAPPED = CANDIDATES[["acid", "heat"]]
POINT = {"log_lengthscale": np.log([0.3, 2.0]), "log_outputscale": 0.0, "log_noise": np.log(0.1)}
BOUNDS = [(0, 1), (0, 1)]


@pytest.fixture(scope="module")
def fit():
    return pma.fit_laplace(pma.ard_gp(X, y), point=POINT, optimize=False)


ON_CANDIDATES = {
    "predict": lambda fit, c: pma.predict(fit, c).f_mean,
    "bald": lambda fit, c: pma.active.bald(fit, c),
    "upper confidence bound": lambda fit, c: pma.active.upper_confidence_bound(fit, c),
    "pes in a box": lambda fit, c: pma.active.pes(fit.gpm, c, bounds=BOUNDS, point=POINT, n_optima=8, random_seed=1),
    "pes of a pool": lambda fit, c: pma.active.pes(fit.gpm, c, point=POINT, n_optima=8, random_seed=1),
    "paths": lambda fit, c: pma.draw_paths(POINT, model=fit.gpm, n_paths=2, random_seed=1)(c),
    "graphs": lambda fit, c: pma.graphs.predictive(fit.gpm, c).mean.eval(
        {variable: fit.point[variable.name] for variable in fit.gpm.model.value_vars}, mode="FAST_COMPILE"
    ),
}


@pytest.mark.parametrize("of_candidates", ON_CANDIDATES.values(), ids=ON_CANDIDATES)
def test_candidates_with_columns_in_another_order_are_the_same_candidates(fit, of_candidates):
    assert_allclose(of_candidates(fit, SWAPPED), of_candidates(fit, CANDIDATES), rtol=1e-12)


def test_columns_are_read_by_name_or_by_position_and_others_are_refused(fit):
    expected, nameless = pma.predict(fit, CANDIDATES).f_mean, CANDIDATES.to_numpy()
    of_array = xr.DataArray(SWAPPED, dims=("row", "input"))
    for candidates in (of_array, nameless, CANDIDATES.set_axis([0, 1], axis=1)):
        assert_allclose(pma.predict(fit, candidates).f_mean, expected, rtol=1e-12)
    for candidates, message in (
        (CANDIDATES.rename(columns={"acid": "alkali"}), r"any order \(missing: acid; unknown: alkali\)"),
        (CANDIDATES.assign(price=1.0), r"any order \(unknown: price\)"),
        (CANDIDATES[["heat", "acid", "acid"]], r"any order \(twice: acid\)"),
    ):
        with pytest.raises(ValueError, match="X_new must have the model's inputs as columns, in " + message):
            pma.predict(fit, candidates)
    # As many points as inputs, so that the shape does not tell.
    points = xr.DataArray(np.arange(4.0).reshape(2, 2), dims=("input", "point"))
    with pytest.raises(ValueError, match=r"dimensions are \('input', 'point'\): write X\.T"):
        pma.ard_gp(points, [0.0, 1.0])
    assert_array_equal(pma.ard_gp(points.T, [0.0, 1.0]).X, points.to_numpy().T)
    # To a model without names those of candidates mean nothing.
    plain = pma.fit_laplace(pma.ard_gp(X.to_numpy(), y), point=POINT, optimize=False)
    assert_allclose(pma.predict(plain, CANDIDATES).f_mean, pma.predict(plain, nameless).f_mean)


def test_numbered_columns_are_the_same_as_text():
    table, values = pd.DataFrame([[0.1, 0.2], [0.3, 0.9], [0.5, 0.4]], columns=[850, 852]), [1.0, 2.0, 3.0]
    gpm = pma.ard_gp(table, values)
    for names in (["852", "850"], ["852.0", "850.0"], [852.0, 850.0]):
        gpm.set_data(table[[852, 850]].set_axis(names, axis=1), values)
        assert_array_equal(gpm.X, table)
    # Counted columns have no names.
    for names in ([0, 1], [1, 2]):
        gpm.set_data(table.set_axis(names, axis=1), values)
    for names in ([1850, 1852], ["a", 850]):
        with pytest.raises(ValueError, match=r"columns, in any order \(missing: .*852; unknown: .*"):
            gpm.set_data(table.set_axis(names, axis=1), values)
    # Names that only look like numbers stay distinct.
    for inputs, columns in (
        (["1_1", "11"], ["11", "1_1"]),
        (["1", "1.0"], ["1.0", "1"]),
        ([10**16 + 1, 10**16], [10**16, 10**16 + 1]),
        ([10**400, 1], ["1", str(10**400)]),
        (["inf", "1e400"], ["1e400", "inf"]),
    ):
        gpm = pma.ard_gp(table.set_axis(inputs, axis=1), values)
        gpm.set_data(table[[852, 850]].set_axis(columns, axis=1), values)
        assert_array_equal(gpm.X, table)


def test_columns_of_several_levels_are_named_by_text():
    columns, values = pd.MultiIndex.from_tuples([("heat", "C"), ("time", "h")]), [1.0, 2.0, 3.0]
    table = pd.DataFrame([[0.1, 0.2], [0.3, 0.9], [0.5, 0.4]], columns=columns)
    gpm = pma.ard_gp(table, values)
    fit = pma.fit(gpm, n_particles=32, random_seed=1, progressbar=False)
    assert pma.relevance(fit).input.to_numpy().tolist() == ["('heat', 'C')", "('time', 'h')"]
    gpm.set_data(table.iloc[:, ::-1], values)
    assert_array_equal(gpm.X, table)
    with pytest.raises(ValueError, match="columns, in any order"):
        gpm.set_data(table.set_axis(["heat", "time"], axis=1), values)


def test_a_users_own_model_knows_its_inputs_by_the_models_coordinates():
    with pm.Model(coords={"feature": ["heat", "acid"]}) as model:
        gp = pm.gp.Marginal(cov_func=pm.gp.cov.ExpQuad(2, ls=pm.LogNormal("ls", 0, 1)))
        data = pm.Data("X", X.to_numpy(), dims=("obs", "feature")), pm.Data("y_data", y)
        gp.marginal_likelihood("y", *data, sigma=0.1)
    gpm = pma.from_marginal(gp, "y", model=model)
    gpm.set_data(SWAPPED, np.arange(6))
    assert_array_equal(gpm.X, CANDIDATES)


def test_a_box_may_be_a_dict_by_the_names_of_the_inputs():
    named = {"acid": (2.0, 3.0), "heat": (0.0, 1.0)}
    gpm = pma.ard_gp(X.assign(acid=X["acid"] + 2), y, bounds=named)
    assert_array_equal(np.stack(gpm.box, axis=1), [(0, 1), (2, 3)])
    asked = pma.Learner(gpm, bounds=named, criterion="random", random_seed=1).ask(20)
    assert asked["heat"].between(0, 1).all()
    assert asked["acid"].between(2, 3).all()
    with pytest.raises(ValueError, match="bounds by name must have the inputs heat, acid; got acid"):
        pma.ard_gp(X, y, bounds={"acid": (2, 3)})
    # They lend their names to an array; numbers are positions, in any order.
    assert pma.ard_gp(X.to_numpy(), y, bounds={"heat": (0, 1), "acid": (0, 1)}).inputs == ["heat", "acid"]
    by_position = pma.ard_gp(X.to_numpy(), y, bounds={1: (0, 3), 0: (0, 1)})
    assert by_position.inputs == [0, 1]
    assert_array_equal(np.stack(by_position.box, axis=1), [(0, 1), (0, 3)])
    with pytest.raises(ValueError, match="bounds by name must have the inputs 0, 1; got heat"):
        pma.ard_gp(X.to_numpy(), y, bounds={"heat": (0, 1)})


def through_a_file(learner, folder):
    learner.save(folder / "run.nc")
    return pma.Learner.load(folder / "run.nc")


def test_a_pool_that_its_owner_changes_stays_as_it_was():
    """Users sort their tables, and add columns."""
    keywords = {"criterion": "random", "random_seed": 1}
    table, array = CANDIDATES.copy(), CANDIDATES.to_numpy().copy()
    one, other = (pma.Learner(pma.ard_gp(X, y, bounds=BOUNDS), pool=pool, **keywords) for pool in (table, CANDIDATES))
    of_array = pma.Learner(pma.ard_gp(X.to_numpy(), y), pool=array, **keywords)
    table["heat"] = table["heat"].sort_values().to_numpy()
    table["operator"] = "Max"
    array *= 1000
    pd.testing.assert_frame_equal(one.ask(3), other.ask(3))
    assert (of_array.ask(3) <= CANDIDATES.to_numpy().max()).all()


def test_rows_of_a_dataarray_are_asked_for_by_their_labels(tmp_path):
    pool = xr.DataArray(
        CANDIDATES.to_numpy(), {"vial": CANDIDATES.index, "input": CANDIDATES.columns}, ("vial", "input")
    )
    one, other = (pma.Learner(pma.ard_gp(X, y), pool=each, random_seed=1) for each in (pool, CANDIDATES))
    pd.testing.assert_frame_equal(one.ask(2), other.ask(2), check_names=False)
    pd.testing.assert_frame_equal(through_a_file(one, tmp_path).ask(), one.ask())


def test_a_model_of_arrays_takes_columns_by_the_names_of_the_pool(tmp_path):
    """A run without data takes those of its box."""
    learner = pma.Learner(pma.ard_gp(X.to_numpy(), y), pool=CANDIDATES, criterion="random", random_seed=1)
    for one in (learner, through_a_file(learner, tmp_path)):
        asked = one.ask()
        one.tell(asked[["acid", "heat"]], 1.0)
        assert_array_equal(one.X[-1:], asked)
        with pytest.raises(ValueError, match="unknown: pH"):
            one.tell(asked.rename(columns={"acid": "pH"}), 1.0)
    begun = pma.Learner(None, bounds={"heat": (20, 80), "acid": (1, 5)}, random_seed=0)
    begun.run(lambda x: x["heat"] + x["acid"], n=5, progressbar=False)
    assert begun.gpm.inputs == begun.recommend().columns.tolist() == ["heat", "acid"]
    begun.tell(pd.DataFrame({"acid": [2.0], "heat": [50.0]}), 52.0)
    assert begun.X[-1].tolist() == [50, 2]


def test_a_dict_by_input_is_a_point():
    for as_dict in (lambda row: row.iloc[0].to_dict(), lambda row: row.to_dict()):
        learner = pma.Learner(pma.ard_gp(X, y), pool=SWAPPED, criterion="random", random_seed=1)
        row = learner.ask()
        learner.tell(as_dict(row), 1.0)
        assert len(learner.pending) == 0
        assert_array_equal(learner.X[-1], row[["heat", "acid"]].to_numpy()[0])
    with pytest.raises(ValueError, match=r"model's inputs as columns, in any order \(missing: heat; unknown: heatt\)"):
        learner.tell({"heatt": 0.5, "acid": 0.5}, 1.0)
    learner.tell({"heat": [0.5, 0.6], "acid": [0.5, 0.6]}, [1.0, 2.0])
    assert_array_equal(learner.X[-2:], [[0.5, 0.5], [0.6, 0.6]])


def test_an_array_of_whole_numbers_is_asked_for_as_such(tmp_path):
    """Before and after a file; a float array stays one."""
    pool = np.array([[1, 2], [3, 4], [5, 6], [7, 9]])
    for given in (pool, pool.astype(float)):
        learner = pma.Learner(pma.ard_gp(X.to_numpy(), y), pool=given, repeat=True, criterion="random", random_seed=1)
        learner.ask()
        loaded = through_a_file(learner, tmp_path)
        asked, again = learner.ask(2), loaded.ask(2)
        assert asked.dtype == again.dtype == learner.pending.dtype == given.dtype
        assert_array_equal(again, asked)
        (tmp_path / "run.nc").unlink()


def test_a_vector_is_one_input(fit):
    x = np.linspace(0, 1, 10)
    matrix, vector, series = (pma.ard_gp(points, y) for points in (x[:, None], x, pd.Series(x, name="hour")))
    assert_array_equal(vector.X, matrix.X)
    assert series.inputs == ["hour"]
    point = POINT | {"log_lengthscale": np.log([0.3])}
    of_one = pma.fit_laplace(series, point=point, optimize=False)
    assert pma.predict(of_one, x + 0.1).identical(pma.predict(of_one, x[:, None] + 0.1))
    with pytest.raises(ValueError, match=r"a column for each input; got shape \(10,\)\.$"):
        pma.predict(fit, x)


def test_candidates_far_from_all_data_are_in_other_units():
    """Kelvin for degrees, of a pool or a box; going on from the data by less than half their width is no mistake."""
    gpm = pma.ard_gp(X, y, bounds={"heat": (0, 1), "acid": (0, 1)})
    apart = "the candidates have heat from 273 to 274, the data and bounds of the model from 0 to 1: give both in"
    for candidates, words in (
        ({"pool": CANDIDATES.assign(heat=[273.0, 273.5, 273.2, 273.1, 274.0, 273.9])}, apart),
        ({"bounds": {"heat": (273, 274), "acid": (0, 1)}}, apart),
        ({"bounds": [(1.3, 2.3), (0, 1)]}, "the candidates have heat from 1.3 to 2.3, the data and bounds"),
    ):
        with pytest.warns(pma.DataWarning, match=words):
            pma.Learner(gpm, **candidates)
    pma.Learner(pma.ard_gp(X, y), bounds=[(1.3, 2.3), (0, 1)])
    several = "all 10 points have heat from 273.134 to 273.8277, its bounds from 0 to 1: give both in the same units"
    assert said(pma.ard_gp(X.assign(heat=X["heat"] + 273), y, bounds=BOUNDS), several)
    # So is a single measurement far outside; a step outside is no slip.
    far = X.copy()
    far.iloc[3, 1] = 8.5
    assert said(pma.ard_gp(far, y, bounds=BOUNDS), "row 3 of X has acid = 8.5, far outside 0 to 1")
    learner = pma.Learner(gpm, pool=CANDIDATES, criterion="random")
    with pytest.warns(pma.DataWarning, match="row 0 of X has heat = -3, far outside"):
        learner.tell(pd.DataFrame({"acid": [0.5], "heat": [-3.0]}), 1.0)
    learner.tell(pd.DataFrame({"acid": [1.1], "heat": [0.5]}), 1.0)


def test_data_of_which_all_lie_outside_the_bounds_are_in_other_units():
    """As learning rates where bounds are of their logarithms, which is less than a width away."""
    rates = X.assign(heat=10 ** -(2 + 3 * X["heat"]))
    units = "all 10 points have heat from 3.3e-05 to 0.003962, its bounds from -5 to -1: give both in"
    bounds = {"heat": (-5.0, -1.0), "acid": (0.0, 1.0)}
    gpm = pma.ard_gp(rates, y, bounds=bounds)
    assert said(gpm, units)
    learner = pma.Learner(None, bounds=bounds, random_seed=1)
    learner.tell(rates, y)
    with pytest.warns(pma.DataWarning, match=units):
        learner.ask()
    # Neither are replicates of a point, nor points beside the bounds.
    pma.Learner(None, bounds=bounds).tell(pd.DataFrame({"heat": [-5.5] * 3, "acid": [0.5] * 3}), y[:3])
    pma.Learner(None, bounds=bounds).tell(pd.DataFrame({"heat": [-5.3, -5.2, -5.1], "acid": [0.5] * 3}), y[:3])
    # One point outside is none of these, and what is predicted may be.
    some = rates.assign(heat=np.r_[-6.0, np.full(9, -3.0)])
    pma.Learner(None, bounds=bounds).tell(some, y)
    fit = pma.fit_laplace(gpm, n_restarts=2, population=0, random_seed=1, progressbar=False)
    pma.predict(fit, rates)
