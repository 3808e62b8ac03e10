"""A learner of a dask array asks what it would ask of the same rows in memory, and holds none of them."""

import itertools
import tracemalloc

import numpy as np
import pytest
from numpy.testing import assert_array_equal

import pymc_active as pma
from pymc_active.active import Learner
from pymc_active.learner.verification import Verification

pytestmark = pytest.mark.slow

dask = pytest.importorskip("dask", reason="only the dask extra brings it")
da = pytest.importorskip("dask.array", reason="only the dask extra brings it")

RNG = np.random.default_rng(7)
# Rows 0 and 250 are equal, in different blocks.
POOL = RNG.uniform(-1, 1, (300, 2))
POOL[250] = POOL[0]
START = [3, 120, 299]


def truth(x):
    return np.sin(3 * x[:, 0]) + x[:, 1]


def lazy(pool=POOL, chunks=(70, 1)):
    return da.from_array(pool, chunks=chunks)


def learner(pool, learn="function", **keywords):
    X = POOL[START]
    return Learner(pma.ard_gp(X, truth(X)), learn, pool=pool, random_seed=3, **keywords)


# Of expected improvement the test of what cannot be looked for.
OF_DAY = {("random", True)}


@pytest.mark.parametrize(
    ("criterion", "repeat"),
    [
        pytest.param(*one, marks=[] if one in OF_DAY else pytest.mark.nightly)
        for one in itertools.product(("uncertainty", "bald", "expected_improvement", "random"), (False, True))
    ],
)
def test_it_asks_what_the_learner_of_the_array_asks(criterion, repeat):
    # Blocks of up to a thousand rows are not screened, so draws score them all.
    one, other = (learner(pool, criterion=criterion, repeat=repeat) for pool in (POOL, lazy()))
    for _ in range(2):
        x = other.ask(2)
        assert_array_equal(x, one.ask(2))
        for active in (one, other):
            active.tell(x, truth(x))
    assert_array_equal(other.asked_labels, one.asked_labels)
    assert other.n_left == one.n_left
    assert repr(other) == repr(one)
    assert_array_equal(other.recommend(), one.recommend())
    assert_array_equal(other.design()["pool_row"], one.design()["pool_row"])


def test_a_criterion_of_your_own_scores_blocks():
    active = learner(lazy(), criterion=lambda fit, X: -np.abs(X - 0.2).sum(1))
    order = np.argsort(np.abs(POOL - 0.2).sum(1))
    assert_array_equal(active.ask(3), POOL[order[:3]])


def test_every_row_is_offered_once_and_then_no_more():
    active = learner(lazy(POOL[:9], (4, 2)), criterion="random")
    # Row 3 is measured at the start.
    assert active.n_left == 8
    asked = active.ask(8)
    assert len(np.unique(asked, axis=0)) == 8
    assert not (asked == POOL[3]).all(1).any()
    with pytest.raises(ValueError, match=r"the pool has 0 candidate\(s\) left and 1 were asked for"):
        active.ask()
    active.forget(asked[2])
    assert active.n_left == 1
    assert_array_equal(active.ask(), asked[[2]])


def test_equal_rows_are_two_candidates():
    active = learner(lazy(), criterion="random")
    for left, value in ((296, 1.0), (295, 1.1), (295, 1.2)):
        active.tell(POOL[0], value)
        assert active.n_left == left
    active = learner(lazy(), criterion="random")
    active.expect(POOL[[0, 0]])
    assert active.n_left == 295
    active.forget(POOL[0])
    assert active.n_left == 296


def test_only_its_rows_can_be_expected():
    active = learner(lazy(), criterion="random")
    with pytest.raises(ValueError, match="row 1 of x is not in the pool"):
        active.expect([POOL[5], [0.0, 0.0]])
    assert not len(active.pending)


def test_a_file_holds_what_was_offered_and_goes_on_with_the_same_array(tmp_path):
    name = "run.nc"
    active = learner(lazy())
    x = active.ask(2)
    active.tell(x[0], truth(x[:1]))
    active.save(tmp_path / name)
    other = Learner.load(tmp_path / name, pool=lazy())
    assert repr(other) == repr(active)
    assert_array_equal(other.pending, x[1:])
    assert_array_equal(other.ask(2), active.ask(2))
    with pytest.raises(ValueError, match=r"dask array of candidates, of shape \(300, 2\), as pool=; got nothing"):
        Learner.load(tmp_path / name)
    with pytest.raises(ValueError, match=r"got ndarray of shape \(300, 2\)"):
        Learner.load(tmp_path / name, pool=POOL)
    with pytest.raises(ValueError, match="rows that were offered differ"):
        Learner.load(tmp_path / name, pool=lazy() + 1.0)


def test_a_file_with_its_candidates_takes_no_others(tmp_path):
    learner(POOL).save(tmp_path / "run.nc")
    with pytest.raises(ValueError, match="this file holds its candidates"):
        Learner.load(tmp_path / "run.nc", pool=lazy())


def test_verification_and_targets_are_the_same_rows_of_a_lazy_pool_and_of_an_array(monkeypatch):
    rows = []
    for pool in (lazy(), POOL):
        active = learner(pool, verify=1)
        monkeypatch.setattr(Verification, "verify", lambda self, fits, X, *_: rows.append(X) or self)
        active.ask()
        rows.append(active.criterion.targets)
    assert len(np.unique(rows[0], axis=0)) == 100
    assert all(np.array_equal(one, rows[0]) for one in rows)


@pytest.mark.nightly
def test_memory_is_bounded_by_the_block():
    def peak(n_blocks):
        active = learner(da.random.default_rng(3).uniform(-1, 1, (n_blocks * 10_000, 2), chunks=(10_000, 2)))
        active.fit  # noqa: B018
        tracemalloc.start()
        try:
            with dask.config.set(scheduler="synchronous"):
                active.ask()
            return tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()

    peak(1)
    few, many = peak(5), peak(45)
    # Forty more blocks are 6.4 MB.
    assert many - few < 1.5e6


@pytest.mark.parametrize(
    ("pool", "message"),
    [
        (lazy()[:, :1], r"pool must have shape \(m, 2\), as the model's X has; got \(300, 1\)"),
        (lazy()[:0], "pool is empty"),
        (lazy()[lazy()[:, 0] > 0], "compute_chunk_sizes"),
    ],
)
def test_an_array_that_cannot_be_a_pool_is_refused(pool, message):
    with pytest.raises(ValueError, match=message):
        learner(pool)


def test_nan_is_found_in_its_block():
    bad = POOL.copy()
    bad[100, 1] = np.nan
    with pytest.raises(ValueError, match="the block of pool that begins with row 70 must be finite"):
        learner(lazy(bad)).ask()


def test_the_maximum_is_not_looked_for_in_it():
    with pytest.raises(ValueError, match="cannot be told for a dask array: pass an array or bounds"):
        learner(lazy(), "maximum", criterion="pes")
    active = learner(lazy(), "maximum", criterion="expected_improvement")
    assert_array_equal(active.ask(), learner(POOL, "maximum", criterion="expected_improvement").ask())
    with pytest.raises(ValueError, match="cannot be told for a dask array"):
        active.optimum()


@pytest.mark.parametrize("criterion", [lambda fit, X: np.nan * X[:, 0], lambda fit, X: X])
def test_scores_that_are_none_are_refused(criterion):
    with pytest.raises(ValueError, match=r"is NaN for every candidate|must give one number a candidate, shape"):
        learner(lazy(), criterion=criterion).ask()
