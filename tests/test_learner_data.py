"""What a learner is told belongs to it, by its names and labels."""

import warnings

import numpy as np
import pandas as pd
import pytest
from nightly import nightly
from numpy.testing import assert_array_equal

import pymc_active as pma

rng = np.random.default_rng(1)
POOL = pd.DataFrame(rng.uniform(size=(12, 2)), columns=["heat", "acid"], index=[f"S{i:02d}" for i in range(12)])
SWAPPED = POOL[["acid", "heat"]]
y = pd.Series(np.sin(5 * POOL["heat"]), index=POOL.index)


def model():
    return pma.ard_gp(POOL[:4], y[:4])


def learner(pool=POOL, **keywords):
    return pma.active.Learner(model(), pool=pool, **{"criterion": "random", "random_seed": 1} | keywords)


def test_candidates_may_have_their_columns_in_another_order(tmp_path):
    one = learner(SWAPPED)
    asked = one.ask(3)
    pd.testing.assert_frame_equal(asked, learner().ask(3))
    one.save(tmp_path / "run.nc")
    pd.testing.assert_frame_equal(pma.active.Learner.load(tmp_path / "run.nc").ask(), one.ask())


def test_a_vector_holds_points_of_one_input():
    X = np.linspace(0, 1, 5)
    one = pma.active.Learner(pma.ard_gp(X[:3, None], X[:3]), bounds=[(0, 2)], criterion="random")
    one.tell(X[3:], X[3:])
    assert_array_equal(one.X[:, 0], X)


def test_a_generator_seeds_a_learner_and_none_does():
    asked = [learner(random_seed=np.random.default_rng(5)).ask(12 - 4) for _ in range(2)]
    pd.testing.assert_frame_equal(*asked)
    one = learner(criterion="uncertainty", random_seed=None)
    assert len(one.ask()) == 1
    for bad in (-1, 1.5, "seed"):
        with pytest.raises((TypeError, ValueError)):
            learner(random_seed=bad)


def test_learners_of_one_model_know_nothing_of_each_other():
    gpm = model()
    one, other = (pma.active.Learner(gpm, pool=POOL, criterion="random", random_seed=1) for _ in range(2))
    x = one.ask()
    other.tell(x, y[x.index])
    assert (len(gpm.y), len(one.y), len(other.y)) == (4, 4, 5)
    assert len(one.fit.y) == 4
    assert one.gpm is not gpm


def test_random_design_refuses_a_list_that_may_be_bounds_or_rows():
    rows = [[0, 1], [2, 3], [4, 5]]
    with pytest.raises(ValueError, match=r"pass bounds=\.\.\. or pool="):
        pma.active.random_design(rows, 2)
    drawn = pma.active.random_design(pool=rows, n=2, random_seed=1)
    assert {tuple(x) for x in drawn} < {(0, 1), (2, 3), (4, 5)}
    assert pma.active.random_design(bounds=rows, n=2, random_seed=1).shape == (2, 3)
    with pytest.raises(TypeError, match="one source"):
        pma.active.random_design(pool=rows, bounds=rows, n=2)


def test_without_a_seed_runs_differ_and_tell_their_seed():
    learners = [pma.active.Learner(pma.ard_gp([[0.0], [1.0]], [0.0, 1.0]), bounds=[(0, 1)]) for _ in range(2)]
    assert learners[0].random_seed != learners[1].random_seed


def test_answers_close_to_pending_points_are_warned_of():
    """As of a place that was missed by a little; points elsewhere, rows of the pool and ``asked=`` are no mistake."""
    where = {"pool": np.linspace(0, 1, 400)[:, None]}, {"bounds": [(0.0, 1.0)]}
    for candidates in where:
        X = np.array([[0.1], [0.5], [0.8]])
        active = pma.Learner(pma.ard_gp(X, np.sin(3 * X[:, 0]), bounds=[(0, 1)]), random_seed=0, **candidates)
        x = active.ask()
        with pytest.warns(pma.RunWarning, match=r"1 of 1 point\(s\) told, first row 0 of x, are close to pending"):
            active.tell(x + 1e-4, [0.5])
        assert len(active.pending) == 1
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            active.tell((x + 0.31234) % 1, [0.6])
            active.tell(x + 2e-4, [0.5], asked=x)
    active = pma.Learner(pma.ard_gp(X, np.sin(3 * X[:, 0]), bounds=[(0, 1)]), random_seed=0, **where[0])
    row = int(np.flatnonzero(where[0]["pool"] == active.ask())[0])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        active.tell(where[0]["pool"][[row - 1]], [0.5])


def test_settings_that_were_rounded_are_close_and_replicates_of_a_batch_are_no_mistake():
    bounds = [(40.0, 120.0), (1.0, 6.0)]
    active = pma.Learner(None, "maximum", bounds=bounds, random_seed=0)
    x = active.ask(4)
    with warnings.catch_warnings():
        warnings.simplefilter("error", pma.RunWarning)
        twice = np.repeat(x, 2, axis=0)
        active.tell(twice, np.sin(twice[:, 0] / 20) + twice[:, 1])
    assert len(active.pending) == 0
    x = active.ask()
    low, high = np.array(bounds).T
    # Each input is off by 0.08 of its range.
    rounded = x + 0.08 * (high - low) * np.where(x < (low + high) / 2, 1, -1)
    with pytest.warns(pma.RunWarning, match="close to pending"):
        active.tell(rounded, [1.0])
    assert len(active.pending) == 1


def told(slip=None, **keywords):
    """Two points told after four at the start, the first of them wrongly."""
    one = learner(**{"criterion": "uncertainty"} | keywords)
    for label in ("S05", "S06"):
        one.tell(POOL.loc[[label]], y[label] if slip is None or label == "S06" else slip)
    return one


@pytest.mark.parametrize("seen", [True, *nightly(False)])
def test_a_corrected_run_is_a_run_that_was_told_the_right_value(seen, tmp_path):
    one = told(slip=3.0)
    if seen:
        one.ask()
        one.forget()
    one.correct(4, y["S05"])
    assert_array_equal(one.y, told().y)
    gpm = pma.ard_gp(one.X, one.y)
    fresh = pma.active.Learner(gpm, pool=POOL, criterion="uncertainty", random_seed=1)
    assert one.fit.log_evidence == fresh.fit.log_evidence
    assert_array_equal(one.asked_labels, ["S05", "S06"])
    one.save(tmp_path / "run.nc")
    pd.testing.assert_frame_equal(pma.active.Learner.load(tmp_path / "run.nc").ask(), one.ask())


def test_a_correction_may_name_the_label_that_was_told():
    one, other = told(slip=3.0), told(slip=3.0)
    one.correct("S05", y["S05"])
    other.correct(4, y["S05"])
    assert_array_equal(one.y, other.y)


def test_a_correction_is_saved_before_the_fit_is_made(tmp_path):
    one = told(slip=3.0)
    one.ask()
    one.correct(4, y["S05"])
    one.save(tmp_path / "run.nc")
    pd.testing.assert_frame_equal(pma.active.Learner.load(tmp_path / "run.nc").ask(), one.ask())


def test_a_measurement_may_turn_out_to_have_failed():
    one = told(slip=3.0, repeat=False)
    one.fit  # noqa: B018
    one.correct(4, float("nan"))
    assert_array_equal(one.failures, POOL.loc[["S05"]])
    assert_array_equal(one.asked_labels, ["S06"])
    one.correct(1, np.nan)
    assert_array_equal(one.failures, POOL.loc[["S05", "S01"]])
    assert one.n_start == 3
    assert_array_equal(one.X, POOL.loc[["S00", "S02", "S03", "S06"]])
    assert_array_equal(one.design().y, [y["S06"]])
    assert not set(one.ask(6).index) & {"S01", "S05"}


def test_a_correction_names_a_row_and_a_number():
    one = told()
    for row in (6, -1, 1.0):
        with pytest.raises(ValueError, match="row must be from 0 to 5"):
            one.correct(row, 1.0)
    with pytest.raises(ValueError, match="0 points told have the label 'S09': pass a row"):
        one.correct("S09", 1.0)
    with pytest.raises(TypeError, match="y must hold numbers"):
        one.correct(1, "high")
    with pytest.raises(ValueError, match="finite"):
        one.correct(1, np.inf)
    assert_array_equal(one.y, told().y)
    design = pma.Learner(None, "maximum", bounds=[(0, 1)], random_seed=1)
    design.tell([[0.1]], 5.0)
    design.correct(0, 0.5)
    assert_array_equal(design.y, [0.5])
    one = pma.Learner(pma.ard_gp(POOL[:1], y[:1], bounds={"heat": (0, 1), "acid": (0, 1)}), pool=POOL, random_seed=1)
    with pytest.raises(ValueError, match="cannot have failed"):
        one.correct(0, np.nan)


def test_an_answer_that_comes_twice_is_noticed():
    one = learner()
    asked = one.ask(2)
    one.tell(asked, y[asked.index])
    one.tell(asked.iloc[[0]], y[asked.index[0]] + 0.01)
    with pytest.warns(pma.RunWarning, match="1 of 2 measurement.*first row 1 of x, were told before"):
        one.tell(POOL.loc[[one.ask().index[0], asked.index[1]]], [1.0, y[asked.index[1]]])
    assert len(one.y) == 9


def test_the_only_point_of_a_run_without_data_may_have_failed():
    one = pma.Learner(None, "maximum", bounds=[(0, 1)], random_seed=0)
    with pytest.raises(ValueError, match="no measurement to correct"):
        one.correct(0, 1.0)
    one.tell([0.5], 1.0)
    one.correct(0, np.nan)
    assert len(one.y) == 0
    assert one.ask().shape == (1, 1)


def test_a_first_design_that_may_repeat_does_not_ask_one_row_for_ever():
    rows = np.array([0, 0.01, 0.02, 0.03, 1.0])[:, None]
    one = pma.Learner(None, "maximum", pool=rows, repeat=True, inference="laplace", random_seed=0)
    asked = []
    for _ in range(8):
        x = one.ask()
        asked.append(float(x[0, 0]))
        one.tell(x, np.nan if x[0, 0] == 1 else np.sin(x[0, 0]))
    assert len({*asked}) > 2
    assert len(one.y) > 3


@pytest.mark.nightly
@pytest.mark.filterwarnings("ignore::pymc_active.DoubtfulFitWarning")
def test_modes_are_searched_anew_after_a_correction_and_when_points_are_half_as_many_again():
    """Modes that are only followed fall behind."""
    # Of another seed than the learner's, whose random points would be these.
    rng = np.random.default_rng(7)
    box = [(0, 1)] * 2
    X, w = rng.random((8, 2)), rng.normal(size=2)
    one = pma.Learner(
        pma.embedding_gp(X, np.sin(4 * (X - 0.5) @ w), n_components=1, bounds=box),
        bounds=box,
        inference="laplace",
        criterion="random",
        random_seed=0,
    )
    for _ in range(5):
        x = one.ask()
        one.tell(x, np.sin(4 * (x - 0.5) @ w))
    assert one.fit
    (track,) = one._run.subject.tracks.values()
    assert track.last_search == 13
    assert track.anew().last_search < 0
