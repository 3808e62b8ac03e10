"""Verbs of a learner are all or nothing, whenever somebody interrupts them, and copies go their own way."""

import copy
import pickle
import sys
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pandas as pd
import pytest
from nightly import nightly
from numpy.testing import assert_array_equal

import pymc_active as pma
from pymc_active.learner.track import Track

BOX = [(0.0, 5.0)] * 2
X = np.random.default_rng(0).uniform(0, 5, (8, 2))
POOL = np.random.default_rng(1).uniform(0, 5, (20, 2))


def truth(x):
    return np.sin(np.asarray(x)[:, 0])


def learner(several=False, **keywords):
    where = {"pool": POOL} if keywords.pop("has_pool", True) else {"bounds": BOX}
    models = [pma.ard_gp(X, truth(X), kernel=kernel, bounds=BOX) for kernel in ("ExpQuad", "Matern32")[: 1 + several]]
    return pma.Learner(models if several else models[0], random_seed=1, **where, **keywords)


def known(active):
    """Everything that was asked and told."""
    ledger = active._ledger
    points = [[tuple(choice.x) for choice in part] for part in (ledger.told, ledger.failed, ledger.pending)]
    return active.X.tolist(), active.y.tolist(), points, active.gpm.y.tolist(), active._run.generator


class Interrupt:
    """Raise a KeyboardInterrupt at the n-th line that the package executes in ``learner`` and ``models``."""

    def __init__(self, n):
        self.n = n

    def __enter__(self):
        sys.settrace(self.trace)
        return self

    def __exit__(self, *_):
        sys.settrace(None)

    def trace(self, frame, event, _):
        name = frame.f_code.co_filename
        if "pymc_active/learner/" not in name and "pymc_active/models/" not in name:
            return None
        if event == "line":
            self.n -= 1
            if not self.n:
                raise KeyboardInterrupt
        return self.trace


VERBS = {
    "tell": (False, lambda active: active.tell(active.pending, truth(active.pending))),
    "tell of a failure": (False, lambda active: active.tell(active.pending, [1.0, np.nan], failed=[False, True])),
    "tell several models": (True, lambda active: active.tell(active.pending, truth(active.pending))),
    "correct": (False, lambda active: active.correct(2, 0.5)),
    "correct to a failure": (False, lambda active: active.correct(2, np.nan)),
}


@pytest.mark.parametrize(("several", "verb"), VERBS.values(), ids=VERBS)
def test_what_is_told_is_told_wholly_or_not_at_all(several, verb):
    start = learner(several)
    start.expect(POOL[:2])
    done = copy.deepcopy(start)
    verb(done)
    before, after = known(start), known(done)
    assert before != after
    outcomes, n = set(), 0
    while True:
        n += 1
        active = copy.deepcopy(start)
        try:
            with Interrupt(n):
                verb(active)
            break
        except KeyboardInterrupt:
            outcomes.add(known(active) == after)
            assert known(active) in (before, after)
            assert all(len(gpm.y) == len(active.y) for gpm in active.models.values())
    assert n > 10
    assert False in outcomes


@pytest.mark.parametrize("has_pool", [True, pytest.param(False, marks=pytest.mark.nightly)])
def test_questions_that_nobody_saw_are_not_asked(has_pool, monkeypatch):
    expected = learner(has_pool=has_pool).ask(3)
    active, choose = learner(has_pool=has_pool), pma.Learner._choose
    calls = []

    def tired(self, ledger, rng):
        calls.append(rng.uniform())
        if len(calls) == 3:
            raise KeyboardInterrupt
        return choose(self, ledger, rng)

    before = known(active)
    monkeypatch.setattr(pma.Learner, "_choose", tired)
    with pytest.raises(KeyboardInterrupt):
        active.ask(3)
    monkeypatch.undo()
    assert known(active) == before
    assert_array_equal(active.ask(3), expected)
    assert len(active.pending) == 3


@pytest.mark.parametrize("made", [copy.copy, copy.deepcopy, lambda active: pickle.loads(pickle.dumps(active))])
def test_a_copy_goes_its_own_way_and_leaves_the_workers(made):
    with ThreadPoolExecutor(1) as executor:
        active = learner(several=True, executor=executor)
        other = made(active)
    assert other.executor is None
    other.correct(0, 7.0)
    other.expect(POOL[:1])
    assert active.y[0] == truth(X)[0]
    assert len(active.pending) == 0


def test_arrays_that_users_fill_anew_change_nothing():
    active, x = learner(), np.array([[0.3, 0.4]])
    for verb in (lambda: active.tell(x, 1.0), lambda: active.tell(x + 1, np.nan), lambda: active.tell(x, np.nan)):
        x[:] = [[0.3, 0.4]]
        verb()
        x[:] = 99.0
    active.failures[:], active.pending[:] = 9.0, 9.0
    for part in (active.X, active.y, active.domain.pool):
        with pytest.raises(ValueError, match="read-only"):
            part[:] = 9.0
    assert_array_equal(active.design().x, [[0.3, 0.4]])
    assert_array_equal(active.X, [*X, [0.3, 0.4]])
    assert_array_equal(active.failures, [[1.3, 1.4], [0.3, 0.4]])
    row = POOL[3].copy()
    active.expect(row)
    row[:] = 99.0
    active.ask()[:] = 99.0
    assert_array_equal(active.pending[0], POOL[3])
    assert active.pending.max() <= 5


def test_a_function_may_keep_and_change_what_it_makes_the_model_of():
    def make(X, y):
        gpm = pma.ard_gp(X, y, bounds=BOX)
        X[:] = y[:] = 9.0
        return gpm

    active = pma.Learner(make, pool=POOL, random_seed=0, criterion="random")
    active.tell(POOL[:5], truth(POOL[:5]))
    assert_array_equal(active.X, POOL[:5])
    assert_array_equal(active.y, active.gpm.y)


def test_what_is_told_or_given_up_while_another_thread_asks_counts():
    active = learner(criterion=lambda fit, X: meanwhile.pop()() or X[:, 0] if meanwhile else X[:, 0])
    meanwhile = []
    first, second, third = active.ask(3)
    meanwhile[:] = [lambda: active.tell(first, 1.0), lambda: active.forget(second), lambda: active.expect(POOL[2])]
    new = active.ask(3)
    assert not meanwhile
    assert_array_equal(active.design().x, [first])
    assert_array_equal(active.pending, [third, POOL[2], *new])


@pytest.mark.parametrize("name", ["bounds", "pool", "minimise"])
def test_what_a_learner_does_not_have_cannot_be_set(name):
    with pytest.raises(AttributeError, match=f"has no attribute '{name}'"):
        setattr(learner(), name, True)


class Refusing(ThreadPoolExecutor):
    def submit(self, *_):
        raise RuntimeError("no licence for workers")


def test_what_else_an_executor_raises_is_raised():
    with Refusing(1) as executor, pytest.raises(RuntimeError, match="no licence"):
        _ = learner(several=True, executor=executor).fit


def test_names_of_a_table_that_was_refused_are_not_taken():
    active = pma.Learner(None, bounds=BOX, random_seed=1)
    for wrong in (None, "none"):
        with pytest.raises(TypeError):
            active.tell(pd.DataFrame([[1.0, 2.0]], columns=["tmp", "b"]), wrong)
    active.tell(pd.DataFrame([[1.0, 2.0]], columns=["a", "b"]), 1.0)
    active.tell(pd.DataFrame([[3.0, 1.0]], columns=["b", "a"]), 2.0)
    assert_array_equal(active.X, [[1.0, 2.0], [1.0, 3.0]])


@pytest.mark.slow
def test_a_learner_goes_on_when_its_workers_are_gone():
    expected = learner(several=True)
    expected.tell(POOL[:1], truth(POOL[:1]))
    with ThreadPoolExecutor(1) as executor:
        active = learner(several=True, executor=executor)
        active.tell(POOL[:1], truth(POOL[:1]))
    with pytest.warns(pma.RunWarning, match="the ThreadPoolExecutor is shut down .* set learner.executor"):
        found = active.fit.probability
    assert_array_equal(found, expected.fit.probability)


@pytest.mark.slow
@pytest.mark.parametrize("n", [2, *nightly(1)])
def test_fits_that_were_interrupted_are_made_again_alike(n, monkeypatch):
    """Fits draw from generators, which an interrupt must not advance."""
    start = two_kernels()
    expected, done = copy.deepcopy(start), []
    points = expected.ask(2)
    follow = Track.follow

    def tired(self, *arguments, **keywords):
        done.append(self)
        if len(done) == n:
            raise KeyboardInterrupt
        return follow(self, *arguments, **keywords)

    monkeypatch.setattr(Track, "follow", tired)
    with pytest.raises(KeyboardInterrupt):
        start.ask(2)
    monkeypatch.setattr(Track, "follow", follow)
    assert_array_equal(start.ask(2), points)


def two_kernels():
    x = np.linspace(-1, 1, 9)[:, None]
    models = [pma.composite_gp(x[:6], np.sin(4 * x[:6, 0]), kernel) for kernel in ("SE", "LIN")]
    active = pma.Learner(models, "model", pool=np.linspace(-2, 2, 41)[:, None], random_seed=1)
    active.tell(x[6:], np.sin(4 * x[6:, 0]))
    return active
