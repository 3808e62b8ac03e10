"""A search for relevant inputs survives in a file, in a copy, and in another process."""

import pickle
from copy import deepcopy

import numpy as np
import pytest
import xarray as xr
from nightly import nightly

from pymc_active.hds import HDSLearner, HDSResult
from pymc_active.relevant_inputs.learner import FORMAT_VERSION, KIND
from pymc_active.support import files

SCALES = {"bandwidth": 0.6, "signal_variance": 1.0, "noise_variance": 0.01}
SEARCHES = {
    "bisection": {},
    "checked": SCALES,
    "gpt": SCALES | {"test": "gpt"},
    "fdt": SCALES | {"test": "fdt", "retest": True},
    "bounds": {"bounds": np.stack([np.linspace(-2, 0, 30), np.linspace(1, 9, 30)], 1)},
}


def two(X):
    return 1.5 * np.sin(4 * X[:, 4]) + np.cos(5 * X[:, 20])


def ask_and_tell(learner, n):
    """One point after another; those asked."""
    asked = []
    while not learner.is_finished and len(asked) < n:
        X = learner.pending[:1] if len(learner.pending) else learner.ask(1)
        asked.append(X[0])
        learner.tell(X, two(X))
    return np.array(asked)


def loaded(learner, path):
    learner.save(path)
    return HDSLearner.load(path)


@pytest.mark.parametrize("name", ["checked", "bounds", *nightly("bisection", "gpt", "fdt")])
@pytest.mark.parametrize("n", [30, *nightly(0)])
def test_a_loaded_search_asks_the_same_bit_for_bit(name, n, tmp_path):
    learner = HDSLearner(30, random_seed=3, **SEARCHES[name])
    ask_and_tell(learner, n)
    learner.tell(learner.ask(1), np.nan)
    waiting = learner.ask(2)
    others = loaded(learner, tmp_path / "search.nc"), deepcopy(learner), pickle.loads(pickle.dumps(learner))
    asked = ask_and_tell(learner, 100)
    for one in others:
        assert np.array_equal(one.pending, waiting)
        assert np.array_equal(asked, ask_and_tell(one, 100))
        assert repr(HDSResult(one)) == repr(HDSResult(learner))
    with xr.open_datatree(tmp_path / "search.nc", engine="h5netcdf") as tree:
        assert np.array_equal(tree["observed_data"].y, HDSResult(learner).history.y[: n + 1], equal_nan=True)


def test_a_run_that_is_saved_goes_on_from_its_file(tmp_path):
    HDSLearner(30, random_seed=3).run(two, 25, batch_size=5, save_to=tmp_path / "search.nc")
    learner, whole = HDSLearner.load(tmp_path / "search.nc"), HDSLearner(30, random_seed=3)
    assert learner.n_evaluations == 25
    for one in (learner, whole):
        one.run(two, batch_size=5)
    assert np.array_equal(HDSResult(learner).history.X(), HDSResult(whole).history.X())


def test_a_search_is_not_begun_over_another_or_saved_over_what_another_told(tmp_path):
    path = tmp_path / "search.nc"
    HDSLearner(30, random_seed=3).run(two, 3, save_to=path)
    first, second = HDSLearner.load(path), HDSLearner.load(path)
    first.tell(first.pending[:1], [5.0])
    first.save(path)
    for other in (second, HDSLearner(30, random_seed=4)):
        with pytest.raises(FileExistsError, match="neither wrote nor loaded"):
            other.save(path)
    assert HDSLearner.load(path).n_evaluations == first.n_evaluations


@pytest.mark.parametrize("change", [{"seed": 1}, {"n_asked": 300}])
def test_a_file_whose_answers_lead_elsewhere_is_refused(change, tmp_path):
    path = tmp_path / "search.nc"
    learner = HDSLearner(30, random_seed=3, **SCALES)
    ask_and_tell(learner, 3)
    learner.save(path)
    contents = files.read(path, KIND, FORMAT_VERSION)
    contents.document.update(change)
    files.write(path, contents, KIND, FORMAT_VERSION)
    with pytest.raises(ValueError, match="not those that its answers lead to"):
        HDSLearner.load(path)
