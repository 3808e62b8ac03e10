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


def vials():
    return pd.DataFrame({"dose": GRID[:, 0]}, index=[f"vial{i}" for i in range(len(GRID))])


@pytest.mark.parametrize(
    ("learn", "criterion", "score"),
    [
        ("function", None, partial(integrated_variance, random_seed=0)),
        ("hyperparameters", None, bald),
        ("function", partial(bald, method="modes"), partial(bald, method="modes")),
        ("function", partial(bald, target="f", draws=64), partial(bald, target="f", draws=64)),
        ("hyperparameters", "uncertainty", uncertainty),
    ],
)
def test_the_best_candidate_is_asked_for(learn, criterion, score):
    active = learner(learn, criterion=criterion)
    values = score(active.fit, GRID).to_numpy()
    values[[4, 12, 20]] = -np.inf
    assert is_in_pool(active.ask()) == [int(np.argmax(values))]


def test_a_criterion_of_the_user():
    """It sees the fit and the rows that are left; the largest value wins, and NaN never."""
    seen = []

    def leftmost(fit, X):
        seen.append((fit, X.shape))
        return np.where(X[:, 0] > 0, np.nan, -X[:, 0])

    active = learner(criterion=leftmost)
    assert is_in_pool(active.ask()) == [0]
    assert seen == [(active.fit, (22, 1))]
    assert "criterion leftmost" in repr(active)


@pytest.mark.parametrize("criterion", [None, "random"])
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


def test_pending_points_are_conditioned_on():
    """The second question is the best given that the first came out as predicted."""
    # The widest gap is inside: without it, a neighbour of the first would come second.
    start = [0, 3, 24]
    active = Learner(model(start), pool=GRID, criterion="uncertainty", random_seed=1)
    first, fit = active.ask(), active.fit
    [row] = is_in_pool(first)
    imagined = fit.given(np.concatenate([fit.gpm.X, first]), np.append(fit.gpm.y, pma.predict(fit, first).f_mean))
    conditioned, unconditioned = (uncertainty(one, GRID).to_numpy() for one in (imagined, fit))
    conditioned[[*start, row]] = unconditioned[[*start, row]] = -np.inf
    assert abs(np.argmax(unconditioned) - row) == 1
    assert abs(np.argmax(conditioned) - row) > 1
    assert is_in_pool(active.ask()) == [int(np.argmax(conditioned))]
    # The model itself knows nothing of it.
    assert len(active.gpm.y) == 3


@pytest.mark.parametrize("criterion", ["bald", "random"])
def test_rows_are_repeated_on_request_but_not_while_they_are_pending(criterion):
    active = learner(pool=GRID[[4, 12]], repeat=True, criterion=criterion)
    assert len({float(active.ask()[0, 0]) for _ in range(2)}) == 2
    with pytest.raises(ValueError, match=r"0 candidate\(s\) left"):
        active.ask()
    active.tell(active.pending, [1.0, 2.0])
    active.tell(active.ask(), 3.0)
    assert len(active.gpm.y) == 6


def test_equal_rows_of_a_pool_are_two_candidates():
    """Replicates in the pool are offered one by one, and told in any order."""
    active = learner(pool=GRID[[2, 2, 22]])
    asked = [active.ask() for _ in range(2)]
    active.tell(asked[1], 1.0)
    asked.append(active.ask())
    assert_array_equal(np.sort(np.ravel(asked)), GRID[[2, 2, 22], 0])
    assert sorted(active.design(pending=True).pool_row) == [0, 1, 2]
    # A twin has the place of the next answer that nobody asked for, and what is measured stays so.
    active = learner(pool=GRID[[2, 2]], repeat=True, criterion="random")
    for _ in range(2):
        active.tell(GRID[2], 1.0)
    active.forget(active.ask())
    assert "2 left in the pool" in repr(active)
    assert active.design().pool_row.to_numpy().tolist() == [0, 1]


@pytest.mark.parametrize("criterion", [None, "random"])
def test_the_same_seed_asks_the_same_questions(criterion):
    """Several at once are those asked one after another."""

    def questions(seed):
        active = learner("hyperparameters", random_seed=seed, criterion=criterion)
        active.run(truth, n=4, progressbar=False)
        return [*active.X[:, 0], *active.fit.ensemble.thetas.ravel(), *active.ask(3)[:, 0]]

    first = questions(5)
    assert_array_equal(questions(5), first)
    if criterion == "random":
        assert questions(6)[:7] != first[:7]
    together, one_by_one = (learner(criterion=criterion) for _ in range(2))
    assert_array_equal(together.ask(3), np.concatenate([one_by_one.ask() for _ in range(3)]))


def _of_several():
    models = [pma.composite_gp(GRID[::8], truth(GRID[::8]), kernel) for kernel in ("SE", "LIN")]
    return Learner(models, "model", pool=GRID, random_seed=3)


def _of_embedding():
    X, box = np.random.default_rng(0).uniform(-1, 1, (6, 4)), [(-1, 1)] * 4
    gpm = pma.embedding_gp(X, X[:, 0] ** 2, n_components=1, bounds=box)
    return Learner(gpm, "hyperparameters", bounds=box, random_seed=3)


@pytest.mark.parametrize(
    "make",
    [
        *nightly(
            lambda: learner("hyperparameters"),
            lambda: learner("hyperparameters", inference="laplace"),
            lambda: learner("function", verify="sometimes"),
            _of_embedding,
            lambda: Learner(None, "maximum", bounds=[(-3, 3)], random_seed=3),
        ),
        pytest.param(_of_several, marks=pytest.mark.slow),
    ],
    ids=["particles", "modes", "verified", "embedding", "first design", "several models"],
)
@pytest.mark.filterwarnings("ignore::pymc_active.ActiveWarning")
def test_looking_changes_nothing(make, tmp_path):
    """Reads, plots, saves and reports between every two tells, before and after the first question."""
    watched, left_alone = make(), make()

    def look(i):
        if len(watched.models):
            pma.predict(watched.fit, watched.X[:2])
            pma.plots.plot(watched)
            repr(watched)
            watched.to_datatree(draws=5)
            watched.save(tmp_path / f"run{i}.nc")

    for i, place in enumerate(np.linspace(-0.9, 0.9, 3 if watched.models else 4)):
        look(i)
        x = np.full((1, watched.X.shape[1]), place)
        for one in (watched, left_alone):
            one.tell(x, truth(x))
    x = watched.ask()
    assert_array_equal(x, left_alone.ask())
    assert_array_equal(_evidences(watched), _evidences(left_alone))
    for one in (watched, left_alone):
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
            one.tell([place], truth([[place]]))
        saved.save(tmp_path / "run.nc")
        saved = Learner.load(tmp_path / "run.nc")
    assert_array_equal(saved.ask(), left_alone.ask())
    assert saved.fit.log_evidence == left_alone.fit.log_evidence


def test_points_nobody_asked_for_are_welcome():
    active = learner()
    before = active.fit
    active.tell([[0.123], [GRID[7, 0]]], [1.0, 2.0])
    with pytest.warns(pma.DataWarning, match=r"row 0 of X has input 0 = 10, far outside -3 to 3"):
        active.tell([10.0], 3.0)
    assert_array_equal(active.gpm.X[-3:, 0], [0.123, GRID[7, 0], 10.0])
    assert_array_equal(active.gpm.y[-3:], [1, 2, 3])
    assert active.fit is not before
    # The one that is in the pool is not offered any more.
    assert "21 left in the pool" in repr(active)
    design = active.to_datatree(draws=2)["design"]
    assert design["pool_row"].to_numpy().tolist() == [-1, 7, -1]
    assert design["label"].to_numpy().tolist() == ["", "7", ""]
    assert np.isnan(design["score"]).all()


def test_pending_points_are_those_asked_and_not_told():
    """Of a pool and of a box; answers come in any order."""
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
    active.tell(x[[2, 0]], truth(x[[2, 0]]))
    assert_array_equal(active.design().pool_row, is_in_pool(x[[1, 2, 0]]))
    box = learner(pool=None, bounds=[(-3, 3)], criterion="random")
    assert box.pending.shape == (0, 1)
    assert box.n_left == np.inf
    x = box.ask(2)
    assert_array_equal(box.pending, x)
    box.forget(x[0])
    assert_array_equal(box.pending, x[1:])


def test_a_forgotten_row_is_offered_again_and_no_longer_conditioned_on():
    """The next question is the one that would have come without it."""
    active, other = learner(), learner()
    first, second = active.ask(), active.ask()
    assert is_in_pool(first) != is_in_pool(second)
    active.forget(second)
    assert_array_equal(active.ask(), second)
    active.forget()
    assert active.pending.shape == (0, 1)
    assert_array_equal(active.ask(2), other.ask(2))
    # Every point can be given up; more than is left is refused and changes nothing.
    active.forget()
    with pytest.raises(ValueError, match=r"22 candidate\(s\) left and 23 .* repeat=True"):
        active.ask(23)
    assert sorted(is_in_pool(active.ask(22))) == [i for i in range(25) if i not in (4, 12, 20)]
    assert active.n_left == 0
    active.forget()
    assert active.n_left == 22


def test_what_is_not_pending_cannot_be_forgotten():
    active = learner(criterion="random")
    asked = active.ask(2)
    for given, message in (
        ([[0.123]], r"among the 2 pending point\(s\).*row 0, \(0.123\), is not"),
        ([*asked, [0.5]], r"row 2, .* is not"),
        (asked[[0, 0]], r"row 1, .* is not"),
        ([[0.1, 0.2]], "x must have 1 columns"),
        ([[np.nan]], "x must be finite"),
    ):
        with pytest.raises(ValueError, match=message):
            active.forget(given)
        assert_array_equal(active.pending, asked)
        assert active.n_left == 20


def test_an_answer_may_be_near_what_was_asked_but_not_to_anything_else():
    active = learner(pool=None, bounds=[(-3, 3)], criterion="random")
    x = active.ask(2)
    for told, asked, message in (
        ([[0.5]], [[0.123]], "asked must be among the 2 pending point"),
        ([[0.5]], [[0.1], [0.2]], "among the 2"),
        ([[0.5], [0.6]], x[:1], "for each point told"),
    ):
        with pytest.raises(ValueError, match=message):
            active.tell(told, np.ones(len(told)), asked=asked)
        assert len(active.y) == 3
        assert_array_equal(active.pending, x)
    active.tell(x[1] + 0.01, 2.0, asked=x[1])
    assert_array_equal(active.pending, x[:1])
    assert_array_equal(active.X[-1:], x[1:] + 0.01)


def test_rows_of_a_frame_come_back_with_their_labels():
    frame = vials()
    active = learner(pool=frame)
    x = active.ask(2)
    pd.testing.assert_frame_equal(x, frame.loc[x.index])
    pd.testing.assert_frame_equal(active.pending, x)
    active.tell(x, pd.Series(truth(x), index=x.index))
    row = active.ask()
    active.tell(row + 0.01, 2.0, asked=row)
    assert list(active.asked_labels) == active.design().label.to_numpy().tolist() == [*x.index, *row.index]
    assert active.n_left == 19
    assert np.isfinite(active.design().score).all()
    assert active.design().score.attrs == {"units": "units of y, squared"}
    pd.testing.assert_frame_equal(active.recommend(), frame.loc[active.recommend().index])


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
    assert sorted(active.ask(active.n_left).index) == ["a", "c"]


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


def test_an_oracle_may_write_into_what_it_is_given():
    def oracle(x):
        x *= 2
        return np.sin(x[:, 0])

    for places in ({"pool": GRID.copy()}, {"bounds": [(-3.0, 3.0)], "pool": None}):
        active = learner(criterion="random", **places)
        active.run(oracle, n=4, progressbar=False)
        assert len(active.pending) == 0
        assert_allclose(active.y[3:], np.sin(2 * active.X[3:, 0]))


def test_no_bar_is_drawn_where_none_can_be_seen(capsys, monkeypatch):
    """In a pipe not even an empty line; in a notebook only if the package is there that draws it."""
    with progress("Waiting", 2, True) as advance:
        advance()
    assert capsys.readouterr().out == ""
    monkeypatch.setattr("rich.get_console", lambda: SimpleNamespace(is_terminal=False, is_jupyter=True))
    for package in (None, "a package"):
        monkeypatch.setattr("pymc_active.support.progress.find_spec", lambda name, package=package: package)
        assert _is_shown() is bool(package)


def test_an_ask_that_draws_the_fit_anew_shows_a_bar_and_says_why(monkeypatch, caplog):
    """Unless it is told not to, as within the bar of a run: there can be one at a time."""
    bars = []
    monkeypatch.setattr("pymc_active.support.progress._is_shown", lambda: True)
    monkeypatch.setattr("rich.progress.Progress.start", lambda bar: bars.append(bar.tasks))
    caplog.set_level("INFO", "pymc_active")
    active = learner()
    x = active.ask(2)
    assert len(bars) == 1
    active.tell(x, truth(x))
    active.ask(progressbar=False)
    assert len(bars) == 1
    assert caplog.messages == [
        "ard_gp(ExpQuad), 3 points: a fit is drawn anew, since it is the first",
        "ard_gp(ExpQuad), 5 points: a fit is drawn anew, since there were 3 at the last fresh fit",
    ]


@pytest.mark.parametrize("failure", [RuntimeError("the robot stopped"), None], ids=["raises", "none"])
def test_a_failing_oracle_loses_nothing(failure):
    active, by_hand, calls = learner(), learner(), []

    def oracle(x):
        calls.append(x)
        if len(calls) < 3:
            return truth(x)
        if failure:
            raise failure

    with pytest.raises((RuntimeError, TypeError), match=r"the robot stopped|y must hold numbers, .*None is no number"):
        active.run(oracle, n=5, progressbar=False)
    # A run asks and tells, point by point.
    for x in calls:
        assert_array_equal(by_hand.ask(), x)
        by_hand.tell(x, truth(x))
    assert_array_equal(active.y, by_hand.y[:5])
    # The failed point stays pending: it is not asked again, and its answer can still be told.
    assert is_in_pool(active.ask()) != is_in_pool(calls[2])
    active.tell(calls[2], truth(calls[2]))
    # Fifteen chosen points predict the function to a few hundredths, and the best mean is recommended.
    active.run(truth, n=8, progressbar=False)
    mean = pma.predict(active.fit, GRID).f_mean.to_numpy()
    assert np.sqrt(np.mean((mean - truth(GRID)) ** 2)) < 0.05
    assert is_in_pool(active.recommend()) == [int(mean.argmax())]


def test_to_datatree_records_the_design():
    active, scores = learner("hyperparameters", criterion="bald"), []
    for _ in range(3):
        x = active.ask()
        scores.append(float(bald(active.fit, GRID)[is_in_pool(x)[0]]))
        active.tell(x, truth(x))
    tree = active.to_datatree(draws=5)
    assert {"posterior", "sample_stats", "observed_data", "constant_data", "design"} <= set(tree.children)
    for name, expected in (("x", active.X[3:]), ("y", active.y[3:]), ("pool_row", is_in_pool(active.X[3:]))):
        assert_array_equal(tree["design"][name], expected)
    assert_allclose(tree["design"]["score"], scores, rtol=1e-9)
    assert (tree["design"].attrs["learn"], tree["design"].attrs["n_start"]) == ("hyperparameters", 3)
    assert tree["observed_data"].sizes["obs"] == 6


def test_the_posterior_is_represented_as_asked_for_and_updated_by_what_is_told():
    active, again = learner(), learner()
    assert isinstance(active.fit, pma.ParticleFit)
    assert not isinstance(learner(inference="laplace").fit, pma.ParticleFit)
    assert learner(inference="smc").fit.diagnostics["method"] == "smc"
    n_fresh = active.fit.diagnostics["n_fresh"]
    x = active.ask()
    # The particles of a learner that nobody looked at before are updated as well.
    for one in (active, again):
        one.tell(x, truth(x))
    assert active.fit.diagnostics["n_fresh"] == n_fresh
    assert len(active.fit.y) == n_fresh + 1
    assert again.fit.log_evidence == active.fit.log_evidence
    # A fresh fit is another estimate of the same evidence.
    fresh = pma.fit(again.gpm, random_seed=5, progressbar=False)
    error = np.hypot(fresh.log_evidence_error, active.fit.log_evidence_error)
    assert abs(fresh.log_evidence - active.fit.log_evidence) < 4 * error
    assert error < 1
