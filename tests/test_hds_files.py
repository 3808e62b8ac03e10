"""A search for relevant inputs survives in a file."""

import numpy as np
import pytest
import xarray as xr

from pymc_active.relevant_inputs.evaluations import EvaluationError
from pymc_active.relevant_inputs.learner import HDSLearner
from pymc_active.relevant_inputs.result import HDSResult
from pymc_active.relevant_inputs.saved import FORMAT_VERSION, KIND, to_contents
from pymc_active.support import files

pytestmark = pytest.mark.slow

SCALES = {"bandwidth": 0.6, "signal_variance": 1.0, "noise_variance": 0.01}


def two(X):
    return 1.5 * np.sin(4 * X[:, 4]) + np.cos(5 * X[:, 20])


def ask_and_tell(learner, n=None):
    asked = []
    while not learner.is_finished and (n is None or len(asked) < n):
        X = learner.ask(1)
        asked.append(X[0])
        learner.tell(X, two(X))
    return np.array(asked)


@pytest.mark.parametrize("test", ["anchored", "gpt", "fdt"])
@pytest.mark.parametrize("n", [0, 30])
def test_a_loaded_search_asks_the_same_bit_for_bit(test, n, tmp_path):
    learner = HDSLearner(30, test=test, random_seed=3, **SCALES)
    ask_and_tell(learner, n)
    waiting = learner.ask(2)
    with pytest.warns(UserWarning, match="not asked for"):
        learner.tell(np.zeros(30), 1.0)
    state = learner.state()
    state.nodes[0].was_retested = True
    learner = HDSLearner.from_state(state)
    learner.save(tmp_path / "search.nc")
    loaded = HDSLearner.load(tmp_path / "search.nc")
    assert repr(to_contents(loaded.state()).document) == repr(to_contents(learner.state()).document)
    assert np.array_equal(loaded.pending, waiting)
    for one in (learner, loaded):
        one.tell(waiting, two(waiting))
    assert np.array_equal(ask_and_tell(learner), ask_and_tell(loaded))
    assert loaded.recommend() == learner.recommend() == [4, 20]
    assert all(np.array_equal(*pair) for pair in zip(HDSResult(loaded).data(), HDSResult(learner).data(), strict=True))


def test_bounds_of_each_input_are_kept(tmp_path):
    bounds = np.stack([np.linspace(-2, 0, 30), np.linspace(1, 9, 30)], 1)
    learner = HDSLearner(30, bounds=bounds, random_seed=3, **SCALES)
    ask_and_tell(learner, 5)
    learner.save(tmp_path / "search.nc")
    assert np.array_equal(HDSLearner.load(tmp_path / "search.nc").ask(), learner.ask())


def test_a_killed_run_has_lost_nothing(tmp_path):
    path, told = tmp_path / "search.nc", []

    def dies(X):
        if len(told) > 25:
            raise KeyboardInterrupt
        told.extend(two(X))
        return two(X)

    with pytest.raises(KeyboardInterrupt):
        HDSLearner(30, random_seed=3, **SCALES).run(dies, batch_size=5, save_to=path)
    learner = HDSLearner.load(path)
    assert np.array_equal(HDSResult(learner).history.y, told)
    learner.run(two, batch_size=5)
    whole = HDSLearner(30, random_seed=3, **SCALES)
    whole.run(two, batch_size=5)
    assert np.array_equal(HDSResult(learner).history.X(), HDSResult(whole).history.X())


def test_a_search_is_not_begun_over_another_or_saved_over_what_another_told(tmp_path):
    path = tmp_path / "search.nc"
    HDSLearner(30, random_seed=3, **SCALES).run(two, 3, save_to=path)
    with pytest.raises(FileExistsError, match="neither wrote nor loaded"):
        HDSLearner(30, random_seed=4, **SCALES).run(lambda X: pytest.fail("asked"), 3, save_to=path)
    first, second = HDSLearner.load(path), HDSLearner.load(path)
    for learner in (first, second):
        ask_and_tell(learner, 1)
    first.tell(first.ask(1), [5.0])
    first.save(path)
    with pytest.raises(FileExistsError, match="neither wrote nor loaded"):
        second.save(path)
    assert HDSLearner.load(path).n_evaluations == first.n_evaluations


def test_failed_evaluations_are_kept(tmp_path):
    learner = HDSLearner(30, random_seed=3, **SCALES)
    with pytest.raises(EvaluationError):
        learner.run(lambda X: np.full(len(X), np.nan))
    learner.save(tmp_path / "search.nc")
    loaded = HDSLearner.load(tmp_path / "search.nc")
    assert np.isnan(HDSResult(loaded).history.y).sum() == learner.n_evaluations
    loaded.run(two)
    assert loaded.recommend() == [4, 20]


def test_where_it_was_measured_is_kept(tmp_path):
    learner = HDSLearner(30, random_seed=3, **SCALES)
    asked = learner.ask(4)
    learner.tell(asked[:2].round(2), two(asked[:2]), asked=asked[:2])
    learner.save(tmp_path / "search.nc")
    loaded = HDSLearner.load(tmp_path / "search.nc")
    assert np.array_equal(loaded.pending, asked[2:])
    assert np.array_equal(HDSResult(loaded).history.X(), asked[:2].round(2))
    for one in (learner, loaded):
        one.tell(asked[2:], two(asked[2:]))
    assert np.array_equal(ask_and_tell(learner), ask_and_tell(loaded))


def test_others_can_read_what_was_told(tmp_path):
    learner = HDSLearner(30, random_seed=3, **SCALES)
    ask_and_tell(learner, 20)
    learner.save(tmp_path / "search.nc")
    tree = xr.open_datatree(tmp_path / "search.nc", engine="h5netcdf")
    assert np.array_equal(tree["observed_data"].y, HDSResult(learner).history.y)
    assert np.array_equal(tree["design"].z, HDSResult(learner).history.z)
    tree.close()


def rewrite(path, change):
    contents = files.read(path, KIND, FORMAT_VERSION)
    change(contents.document)
    files.write(path, contents, KIND, FORMAT_VERSION)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda d: d.pop("nodes"), "damaged"),
        (lambda d: d["settings"].update(surprise=1), "damaged"),
        (lambda d: d["told"].append(10_000), "damaged"),
        (lambda d: d["trials"][0].update(node=7), "damaged"),
        (lambda d: d["settings"].update(n_dims=7), "a line of another number of inputs"),
        (lambda d: d["generator"].update(bit_generator="seed"), "random generator"),
    ],
)
def test_damaged_files_are_named(change, message, tmp_path):
    learner = HDSLearner(30, random_seed=3, **SCALES)
    ask_and_tell(learner, 3)
    learner.save(tmp_path / "search.nc")
    rewrite(tmp_path / "search.nc", change)
    with pytest.raises(ValueError, match=message):
        HDSLearner.load(tmp_path / "search.nc")
    with pytest.raises(FileNotFoundError):
        HDSLearner.load(tmp_path / "other.nc")


def test_a_newer_version_says_to_upgrade(tmp_path):
    path = tmp_path / "search.nc"
    HDSLearner(30, random_seed=3, **SCALES).save(path)
    files.write(path, files.read(path, KIND, FORMAT_VERSION), KIND, FORMAT_VERSION + 1)
    with pytest.raises(ValueError, match=r"has version 4 .* knows version 3: upgrade it"):
        HDSLearner.load(path)
