"""The loop: what is asked, what is told, and what survives when something goes wrong."""

import pickle
from copy import deepcopy
from functools import partial
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
from nightly import nightly
from numpy.testing import assert_allclose, assert_array_equal

import pymc_active as pma
from pymc_active.active import Learner, bald, integrated_variance, uncertainty
from pymc_active.support.progress import _is_shown, progress

GRID = np.linspace(-3, 3, 25)[:, None]


def truth(X):
    return np.sin(2 * np.asarray(X, float)[:, 0]) + 0.3 * np.asarray(X, float)[:, 0]


def model(rows=(4, 12, 20)):
    X = GRID[list(rows)]
    return pma.ard_gp(X, truth(X))


def learner(learn="function", pool=GRID, **keywords):
    return Learner(model(), learn, pool=pool, **{"random_seed": 1, **keywords})


def is_in_pool(x, pool=GRID):
    return [int(np.flatnonzero((pool == row).all(1))[0]) for row in np.atleast_2d(x)]


# Asking.


@pytest.mark.parametrize(
    ("learn", "criterion", "score"),
    [
        ("function", None, partial(integrated_variance, random_seed=0)),
        ("hyperparameters", None, bald),
        ("function", "bald", bald),
        ("function", partial(bald, method="modes"), lambda fit, X: bald(fit, X, method="modes")),
        ("function", partial(bald, target="f", draws=64), lambda fit, X: bald(fit, X, target="f", draws=64)),
        ("hyperparameters", "uncertainty", uncertainty),
    ],
)
def test_the_best_candidate_is_asked_for(learn, criterion, score):
    active = learner(learn, criterion=criterion)
    values = score(active.fit, GRID).to_numpy()
    values[[4, 12, 20]] = -np.inf
    assert is_in_pool(active.ask()) == [int(np.argmax(values))]


@pytest.mark.parametrize("criterion", [None, "bald", "random"])
def test_nothing_is_asked_twice(criterion):
    """Neither rows that the model began with nor rows asked before, told or not."""
    pool = GRID[::3]
    active = Learner(model((0, 12)), pool=pool, criterion=criterion, random_seed=1)
    asked = []
    for step in range(len(pool) - 2):
        x = active.ask()
        asked += is_in_pool(x, pool)
        if step % 2:
            active.tell(x, truth(x))
    assert sorted(asked) == [i for i in range(len(pool)) if i not in (0, 4)]
    with pytest.raises(ValueError, match=r"0 candidate\(s\) left and 1 were asked for"):
        active.ask()


def test_more_than_is_left_is_refused_and_changes_nothing():
    active = learner(pool=GRID[:3], criterion="random")
    with pytest.raises(ValueError, match=r"3 candidate\(s\) left and 4 .* repeat=True"):
        active.ask(4)
    assert len(active.ask(3)) == 3


def test_pending_points_are_conditioned_on():
    """The second question is the best given that the first came out as predicted."""
    # The widest gap is inside: without it, a neighbour of the first would come second.
    start = [0, 3, 24]
    active = Learner(model(start), pool=GRID, criterion="uncertainty", random_seed=1)
    first = active.ask()
    [row] = is_in_pool(first)
    fit = active.fit
    imagined = fit.given(
        np.concatenate([fit.gpm.X, first]),
        np.append(fit.gpm.y, pma.predict(fit, first).f_mean),
    )
    values = uncertainty(imagined, GRID).to_numpy()
    values[[*start, row]] = -np.inf
    unconditioned = uncertainty(fit, GRID).to_numpy()
    unconditioned[[*start, row]] = -np.inf
    assert abs(np.argmax(unconditioned) - row) == 1
    assert abs(np.argmax(values) - row) > 1
    assert is_in_pool(active.ask()) == [int(np.argmax(values))]
    # The model itself knows nothing of it.
    assert len(active.gpm.y) == 3


def test_asking_for_several_is_asking_one_after_another():
    together, one_by_one = learner(), learner()
    rows = is_in_pool(together.ask(3))
    assert rows == [is_in_pool(one_by_one.ask())[0] for _ in range(3)]


def test_a_row_may_be_repeated_on_request():
    active = learner(pool=GRID[[4, 12]], repeat=True, criterion="random")
    for _ in range(4):
        x = active.ask()
        active.tell(x, truth(x))
    assert len(active.gpm.y) == 7


@pytest.mark.parametrize("criterion", ["bald", "random"])
def test_a_pending_row_is_not_asked_again_even_if_rows_may_be_repeated(criterion):
    active = learner(pool=GRID[[4, 12]], repeat=True, criterion=criterion)
    assert len({float(active.ask()[0, 0]) for _ in range(2)}) == 2
    with pytest.raises(ValueError, match=r"0 candidate\(s\) left"):
        active.ask()


def test_equal_rows_of_a_pool_are_two_candidates():
    """Replicates in the pool are offered one by one."""
    pool = np.concatenate([GRID[[2]], GRID[[2]], GRID[[22]]])
    active = learner(pool=pool)
    asked = []
    for _ in range(3):
        x = active.ask()
        active.tell(x, truth(x))
        asked.append(float(x[0, 0]))
    assert sorted(asked) == sorted(pool[:, 0])
    rows = active.to_datatree(draws=2)["design"]["pool_row"].to_numpy()
    assert_array_equal(np.sort(rows), [0, 1, 2])


def test_equal_rows_can_be_asked_for_in_any_order():
    active = learner(pool=GRID[[2, 2, 2, 22, 22]], criterion="random")
    active.ask(5)
    assert sorted(active.design(pending=True).pool_row) == [0, 1, 2, 3, 4]


def test_the_same_seed_asks_the_same_questions():
    def questions(seed, criterion):
        active = learner("hyperparameters", random_seed=seed, criterion=criterion)
        asked = []
        for _ in range(4):
            x = active.ask()
            asked.append(float(x[0, 0]))
            active.tell(x, truth(x))
        return asked, active.fit.ensemble.thetas

    for criterion in (None, "random"):
        (first, theta), (second, same_theta) = questions(5, criterion), questions(5, criterion)
        assert first == second
        assert_array_equal(theta, same_theta)
    assert questions(6, "random")[0] != first


def _of_several(**keywords):
    models = [pma.composite_gp(GRID[::8], truth(GRID[::8]), kernel) for kernel in ("SE", "LIN")]
    return Learner(models, "model", pool=GRID, random_seed=3, **keywords)


def _of_embedding(**keywords):
    X = np.random.default_rng(0).uniform(-1, 1, (6, 4))
    gpm = pma.embedding_gp(X, X[:, 0] ** 2, n_components=1, bounds=[(-1, 1)] * 4)
    return Learner(gpm, "hyperparameters", bounds=[(-1, 1)] * 4, random_seed=3, **keywords)


@pytest.mark.parametrize(
    "make",
    [
        pytest.param(lambda: learner("hyperparameters"), id="particles", marks=pytest.mark.nightly),
        pytest.param(lambda: learner("hyperparameters", inference="laplace"), id="modes", marks=pytest.mark.nightly),
        pytest.param(lambda: learner("function", verify="sometimes"), id="verified", marks=pytest.mark.nightly),
        pytest.param(_of_embedding, id="embedding", marks=pytest.mark.nightly),
        pytest.param(_of_several, id="several models", marks=pytest.mark.slow),
        pytest.param(
            lambda: Learner(None, "maximum", bounds=[(-3, 3)], random_seed=3),
            id="first design",
            marks=pytest.mark.nightly,
        ),
    ],
)
@pytest.mark.filterwarnings("ignore::pymc_active.ActiveWarning")
def test_looking_changes_nothing(make, tmp_path):
    """Reads, plots, saves and reports between every two tells, before and after the first question."""
    watched, left_alone = make(), make()

    def look(i):
        if not len(watched.models):
            return
        pma.predict(watched.fit, watched.X[:2])
        pma.plots.plot(watched)
        repr(watched)
        watched.to_datatree(draws=5)
        watched.save(tmp_path / f"run{i}.nc")

    width = watched.X.shape[1]
    for i, place in enumerate(np.linspace(-0.9, 0.9, 3 if watched.models else 4)):
        look(i)
        x = np.full((1, width), place)
        for one in (watched, left_alone):
            one.tell(x, truth(x))
    a, b = watched.ask(), left_alone.ask()
    assert_array_equal(a, b)
    assert_array_equal(_evidences(watched), _evidences(left_alone))
    for one, x in ((watched, a), (left_alone, b)):
        one.tell(x, truth(x))
    look(9)
    assert_array_equal(watched.ask(), left_alone.ask())


@pytest.mark.parametrize(
    ("make", "copied"),
    [
        (lambda: learner("hyperparameters"), lambda one: pickle.loads(pickle.dumps(one))),
        *nightly((_of_several, deepcopy)),
    ],
    ids=["one model", "several models"],
)
@pytest.mark.filterwarnings("ignore::pymc_active.ActiveWarning")
def test_a_copy_goes_its_own_way(make, copied):
    """It asks what the learner asks, and the learner knows nothing of what it is told."""
    one, other = make(), make()
    for run in (one, other):
        run.tell(run.ask(), 0.3)
    hoped = copied(one)
    x = hoped.ask()
    hoped.tell(x, 5.0)
    hoped.ask()
    assert_array_equal(one.ask(), x)
    assert_array_equal(other.ask(), x)
    assert len(hoped.y) == len(one.y) + 1
    for run in (one, other):
        run.tell(x, 0.2)
    assert_array_equal(one.ask(), other.ask())
    assert_array_equal(_evidences(one), _evidences(other))


def _evidences(one):
    fits = one.fit.values() if isinstance(one.fit, pma.ModelAverage) else [one.fit]
    return [fit.log_evidence for fit in fits]


def test_a_file_between_two_answers_goes_on_with_the_same_fits(tmp_path):
    """Although no fit had been made when it was written."""
    saved, left_alone = (learner("hyperparameters") for _ in range(2))
    for place in (-2.1, 0.3, 1.7):
        for one in (saved, left_alone):
            one.tell([[place]], truth(np.array([[place]])))
        saved.save(tmp_path / "run.nc")
        saved = Learner.load(tmp_path / "run.nc")
    assert_array_equal(saved.ask(), left_alone.ask())
    assert saved.fit.log_evidence == left_alone.fit.log_evidence


def test_a_criterion_of_the_user():
    """It sees the fit and the rows that are left, and the largest value wins."""
    seen = []

    def leftmost(fit, X):
        seen.append((fit, X.shape))
        return -X[:, 0]

    active = learner(criterion=leftmost)
    assert is_in_pool(active.ask()) == [0]
    assert seen == [(active.fit, (22, 1))]
    assert "criterion leftmost" in repr(active)


def test_nan_scores_are_never_chosen():
    active = learner(criterion=lambda fit, X: np.where(X[:, 0] > 0, np.nan, X[:, 0]))
    assert active.ask()[0, 0] <= 0


# Telling.


def test_told_points_reach_the_model_and_the_fit():
    active = learner()
    before = active.fit
    x = active.ask()
    active.tell(x, truth(x))
    assert_array_equal(active.gpm.X[-1:], x)
    assert active.gpm.y[-1] == truth(x)[0]
    assert active.fit is not before
    prediction = pma.predict(active.fit, x, method="map")
    assert_allclose(prediction.f_mean, truth(x), atol=0.3)


def test_points_nobody_asked_for_are_welcome():
    active = learner()
    active.tell([[0.123], [GRID[7, 0]]], [1.0, 2.0])
    with pytest.warns(pma.DataWarning, match=r"row 0 of X has input 0 = 10, far outside -3 to 3"):
        active.tell([10.0], 3.0)
    assert_array_equal(active.gpm.y[-3:], [1, 2, 3])
    # The one that is in the pool is not offered any more.
    assert "21 left in the pool" in repr(active)
    design = active.to_datatree(draws=2)["design"]
    assert design["pool_row"].to_numpy().tolist() == [-1, 7, -1]
    assert design["label"].to_numpy().tolist() == ["", "7", ""]
    assert np.isnan(design["score"]).all()


def test_answers_may_come_in_any_order():
    active = learner()
    x = active.ask(3)
    active.tell(x[[2, 0]], truth(x[[2, 0]]))
    active.tell(x[1], truth(x[[1]]))
    rows = is_in_pool(x)
    design = active.to_datatree(draws=2)["design"]
    assert design["pool_row"].to_numpy().tolist() == [rows[2], rows[0], rows[1]]
    # Nothing is pending any more: the next question is that of a learner who knew all along.
    assert len(set(is_in_pool(active.ask())) & set(rows)) == 0


# What is pending.


def test_pending_points_are_those_asked_and_not_told():
    active = learner()
    assert active.pending.shape == (0, 1)
    x = active.ask(3)
    active.tell(x[1], truth(x[[1]]))
    assert_array_equal(active.pending, x[[0, 2]])
    assert active.n_left == 25 - 3 - 3
    design = active.design(pending=True)
    assert_array_equal(design.x, x[[1, 0, 2]])
    assert_array_equal(np.isnan(design.y), [False, True, True])
    assert np.isfinite(design.score).all()
    assert design.isel(step=[0]).identical(active.design())


def test_pending_points_of_a_box_are_an_array():
    active = learner(pool=None, bounds=[(-3, 3)], criterion="random")
    assert active.pending.shape == (0, 1)
    assert active.n_left == np.inf
    x = active.ask(2)
    assert_array_equal(active.pending, x)
    active.forget(x[0])
    assert_array_equal(active.pending, x[1:])


def test_a_forgotten_row_is_offered_again_and_no_longer_conditioned_on():
    """The next question is the one that would have come without it."""
    active, other = learner(), learner()
    first = active.ask()
    second = active.ask()
    assert is_in_pool(first) != is_in_pool(second)
    active.forget(second)
    assert_array_equal(active.ask(), second)
    active.forget()
    assert active.pending.shape == (0, 1)
    assert_array_equal(active.ask(2), other.ask(2))


def test_every_point_can_be_given_up():
    active = learner(criterion="random")
    assert len(active.ask(22)) == 22
    assert active.n_left == 0
    active.forget()
    active.forget()
    assert active.n_left == 22
    assert sorted(is_in_pool(active.ask(22))) == [i for i in range(25) if i not in (4, 12, 20)]


@pytest.mark.parametrize(
    ("x", "message"),
    [
        ([[0.123]], r"among the 2 pending point\(s\).*row 0, \(0.123\), is not"),
        ("both and another", r"row 2, .* is not"),
        ("one twice", r"row 1, .* is not"),
        ([[0.1, 0.2]], "x must have 1 columns"),
        ([[np.nan]], "x must be finite"),
    ],
)
def test_what_is_not_pending_cannot_be_forgotten(x, message):
    active = learner()
    asked = active.ask(2)
    given = {"both and another": [*asked, [0.5]], "one twice": asked[[0, 0]]}.get(x, x) if isinstance(x, str) else x
    with pytest.raises(ValueError, match=message):
        active.forget(given)
    assert_array_equal(active.pending, asked)
    assert active.n_left == 20


def test_equal_rows_are_forgotten_and_told_by_their_labels():
    pool = pd.DataFrame({"dose": [1.0, 1.0, 2.5]}, index=["a", "b", "c"])
    active = learner(pool=pool, criterion="random")
    active.ask(3)
    active.forget(pool.loc[["b"]])
    assert sorted(active.pending.index) == ["a", "c"]
    assert list(active.ask().index) == ["b"]
    active.tell(pool.loc[["b"]], 1.0)
    assert list(active.asked_labels) == ["b"]
    active.forget()
    assert active.n_left == 2
    assert sorted(active.ask(2).index) == ["a", "c"]


def test_a_measured_row_that_is_repeated_and_forgotten_stays_measured():
    """Its twin has the place of the next answer that nobody asked for."""
    active = learner(pool=GRID[[2, 2]], repeat=True, criterion="random")
    for _ in range(2):
        active.tell(GRID[2], 1.0)
    active.forget(active.ask())
    assert "2 left in the pool" in repr(active)
    assert active.design().pool_row.to_numpy().tolist() == [0, 1]


def test_an_answer_may_be_near_what_was_asked():
    active = learner(pool=None, bounds=[(-3, 3)], criterion="random")
    x = active.ask(2)
    active.tell(x[1] + 0.01, 2.0, asked=x[1])
    assert_array_equal(active.pending, x[:1])
    assert_array_equal(active.X[-1:], x[1:] + 0.01)
    frame = pd.DataFrame({"dose": GRID[:, 0]}, index=[f"vial{i}" for i in range(len(GRID))])
    active = learner(pool=frame)
    row = active.ask()
    active.tell(row + 0.01, 2.0, asked=row)
    assert list(active.asked_labels) == list(row.index)
    assert active.n_left == 21
    assert np.isfinite(active.design().score).all()
    assert active.design().score.attrs == {"units": "units of y, squared"}


@pytest.mark.parametrize(
    ("asked", "message"),
    [
        ([[0.123]], "asked must be among the 1 pending point"),
        ([[0.1], [0.2]], "among the 1"),
        (None, "for each point told"),
    ],
)
def test_answers_to_what_was_not_asked_are_refused(asked, message):
    active = learner()
    x = active.ask()
    with pytest.raises(ValueError, match=message):
        active.tell(*((x, 1.0) if asked else ([[0.5], [0.6]], [1.0, 2.0])), asked=asked or x)
    assert len(active.y) == 3
    assert_array_equal(active.pending, x)


def test_points_under_way_elsewhere_are_pending():
    """Conditioned on and not offered, as if asked for here."""
    active, other = learner(), learner()
    active.expect(other.ask(2))
    assert_array_equal(active.pending, other.pending)
    assert_array_equal(active.ask(), other.ask())
    active.forget()
    assert active.n_left == 22
    with pytest.raises(ValueError, match=r"row 1 of x is not in the pool, so it cannot be pending"):
        active.expect([GRID[0], [0.123]])
    assert active.pending.shape == (0, 1)


# Frames.


def test_rows_of_a_frame_come_back_with_their_labels():
    frame = pd.DataFrame({"dose": GRID[:, 0]}, index=[f"vial{i}" for i in range(len(GRID))])
    active = learner(pool=frame)
    x = active.ask(2)
    assert isinstance(x, pd.DataFrame)
    assert x.columns.tolist() == ["dose"]
    pd.testing.assert_frame_equal(x, frame.loc[x.index])
    pd.testing.assert_frame_equal(active.pending, x)
    active.tell(x, pd.Series(truth(x), index=x.index))
    design = active.to_datatree(draws=2)["design"]
    assert design["label"].to_numpy().tolist() == x.index.tolist()
    assert isinstance(active.recommend(), pd.DataFrame)


# Running.


def test_run_asks_and_tells():
    active = learner()
    calls = []

    def oracle(x):
        calls.append(x)
        return truth(x)

    active.run(oracle, n=3, progressbar=False)
    assert len(active.gpm.y) == 6
    assert all(x.shape == (1, 1) for x in calls)
    by_hand = learner()
    for x in calls:
        assert_array_equal(by_hand.ask(), x)
        by_hand.tell(x, truth(x))


def test_an_oracle_may_write_into_what_it_is_given():
    def oracle(x):
        x *= 2
        return np.sin(x[:, 0])

    for places in ({"pool": GRID.copy()}, {"bounds": [(-3.0, 3.0)], "pool": None}):
        active = learner(criterion="random", **places)
        active.run(oracle, n=4, progressbar=False)
        assert len(active.pending) == 0
        assert_allclose(active.y[3:], np.sin(2 * active.X[3:, 0]))


@pytest.fixture
def bars(monkeypatch):
    """The progress bars that a terminal would show."""
    started = []
    monkeypatch.setattr("pymc_active.support.progress._is_shown", lambda: True)
    monkeypatch.setattr("rich.progress.Progress.start", lambda bar: started.append(bar.tasks))
    return started


def test_an_ask_that_draws_the_fit_anew_shows_a_bar_and_says_why(bars, caplog):
    """Unless it is told not to, as within the bar of a run: there can be one at a time."""
    caplog.set_level("INFO", "pymc_active")
    active = learner()
    x = active.ask(2)
    assert [len(bars), caplog.messages] == [
        1,
        ["ard_gp(ExpQuad), 3 points: a fit is drawn anew, since it is the first"],
    ]
    caplog.clear()
    active.tell(x, truth(x))
    active.ask(progressbar=False)
    why = "there were 3 at the last fresh fit"
    assert caplog.messages == [f"ard_gp(ExpQuad), 5 points: a fit is drawn anew, since {why}"]
    assert len(bars) == 1


def test_no_bar_is_drawn_where_none_can_be_seen(capsys, monkeypatch):
    """In a pipe not even an empty line; in a notebook only if the package is there that draws it."""
    with progress("Waiting", 2, True) as advance:
        advance()
    assert capsys.readouterr().out == ""
    for package, is_shown in ((None, False), ("a package", True)):
        monkeypatch.setattr("rich.get_console", lambda: SimpleNamespace(is_terminal=False, is_jupyter=True))
        monkeypatch.setattr("pymc_active.support.progress.find_spec", lambda name, package=package: package)
        assert _is_shown() is is_shown


@pytest.mark.parametrize("failure", ["raises", "none"])
def test_a_failing_oracle_loses_nothing(failure):
    active, calls = learner(), []

    def oracle(x):
        calls.append(x)
        if len(calls) == 3:
            if failure == "raises":
                raise RuntimeError("the robot stopped")
            return None
        return truth(x)

    message = "the robot stopped" if failure == "raises" else "y must hold numbers, .*None is no number"
    with pytest.raises((RuntimeError, TypeError), match=message):
        active.run(oracle, n=5, progressbar=False)
    assert len(active.gpm.y) == 5
    assert np.isfinite(active.gpm.y).all()
    # The failed point stays pending: it is not asked again, and its answer can still be told.
    assert is_in_pool(active.ask()) != is_in_pool(calls[2])
    active.tell(calls[2], truth(calls[2]))
    active.run(truth, n=1, progressbar=False)
    assert len(active.gpm.y) == 7


def test_learning_helps():
    """Fifteen chosen points predict the function to a few hundredths."""
    active = learner()
    active.run(truth, n=12, progressbar=False)
    error = pma.predict(active.fit, GRID).f_mean - truth(GRID)
    assert np.sqrt(np.mean(error**2)) < 0.05


# Reading off.


@pytest.mark.parametrize("minimize", [False, True])
def test_recommend_takes_the_best_posterior_mean(minimize):
    active = learner(minimize=minimize)
    mean = pma.predict(active.fit, GRID).f_mean.to_numpy()
    expected = np.argmin(mean) if minimize else np.argmax(mean)
    assert is_in_pool(active.recommend()) == [int(expected)]


def test_to_datatree_records_the_design():
    active = learner("hyperparameters", criterion="bald")
    xs = []
    for _ in range(3):
        x = active.ask()
        best = float(bald(active.fit, GRID).to_numpy()[is_in_pool(x)[0]])
        active.tell(x, truth(x))
        xs.append((x, best))
    tree = active.to_datatree(draws=5)
    assert {"posterior", "sample_stats", "observed_data", "constant_data", "design"} <= set(tree.children)
    design = tree["design"]
    assert_array_equal(design["x"], np.concatenate([x for x, _ in xs]))
    assert_array_equal(design["y"], truth(np.concatenate([x for x, _ in xs])))
    assert_array_equal(design["pool_row"], [is_in_pool(x)[0] for x, _ in xs])
    assert_allclose(design["score"], [score for _, score in xs], rtol=1e-9)
    assert design.attrs["learn"] == "hyperparameters"
    assert design.attrs["n_start"] == 3
    assert tree["observed_data"].sizes["obs"] == 6


# What is refused.


# Inference.


def test_the_posterior_is_represented_as_asked_for():
    assert isinstance(learner().fit, pma.ParticleFit)
    assert not isinstance(learner(inference="laplace").fit, pma.ParticleFit)
    assert learner(inference="smc").fit.diagnostics["method"] == "smc"
    with pytest.raises(ValueError, match="inference must be one of auto, smc, laplace; got 'mcmc'"):
        learner(inference="mcmc")


def test_particles_are_updated_by_what_is_told():
    active = learner()
    n_fresh = active.fit.diagnostics["n_fresh"]
    x = active.ask()
    active.tell(x, truth(x))
    assert active.fit.diagnostics["n_fresh"] == n_fresh
    assert len(active.fit.y) == n_fresh + 1
    # So are those of a learner that nobody looked at before; a fresh fit is another estimate of the same evidence.
    again = learner()
    again.tell(x, truth(x))
    assert again.fit.log_evidence == active.fit.log_evidence
    fresh = pma.fit(again.gpm, random_seed=5, progressbar=False)
    error = np.hypot(fresh.log_evidence_error, active.fit.log_evidence_error)
    assert abs(fresh.log_evidence - active.fit.log_evidence) < 4 * error
    assert error < 1
