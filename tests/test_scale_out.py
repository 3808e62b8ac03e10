"""Other processes and clusters: not a bit changes, nothing is lost when a worker dies, and pools need no memory."""

import os
import signal
import warnings
from concurrent.futures import BrokenExecutor, Executor, ProcessPoolExecutor, ThreadPoolExecutor
from contextlib import contextmanager, suppress
from multiprocessing import get_context
from threading import Event

import numpy as np
import pymc as pm
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from users import users_gp

import pymc_active as pma
from pymc_active.active import Learner, bald, uncertainty
from pymc_active.criteria.bald import Bald
from pymc_active.criteria.screening import screened
from pymc_active.laplace.fitting import fit_laplace_models
from pymc_active.learner.lazy_pool import LazyPool
from pymc_active.support.user_warnings import DoubtfulFitWarning, ignoring, warn_user

pytestmark = pytest.mark.nightly

da = pytest.importorskip("dask.array", reason="only the dask extra brings it")
distributed = pytest.importorskip("distributed", reason="only the dask extra brings it")

RNG = np.random.default_rng(20261122)
X = RNG.uniform(-1, 1, (20, 2))
Y = np.sin(3 * X[:, 0]) + 0.1 * RNG.normal(size=20)
POOL = RNG.uniform(-1, 1, (300, 2))
KERNELS = ("SE[0]", "LIN[0] + SE[1]", "LIN[1]")


def truth(x):
    return np.sin(3 * x[:, 0])


def ard():
    return pma.ard_gp(X, Y)


def kernels():
    return {kernel: pma.composite_gp(X[:12], Y[:12], kernel) for kernel in KERNELS}


def user_model():
    """A model of compiled functions, which neither threads nor processes can share."""
    return users_gp(X, Y, lambda: pm.gp.cov.ExpQuad(2, ls=pm.Gamma("ls", 2, 1)))


def fit(gpm, **keywords):
    return pma.fit_laplace(gpm, **{"random_seed": 1, "progressbar": False} | keywords)


def several(**keywords):
    return Learner(kernels(), "model", pool=POOL, random_seed=1, **keywords)


def assert_same_fit(one, other):
    assert_array_equal(one.theta, other.theta)
    assert_array_equal(one.hessian, other.hessian)
    assert one.diagnostics == other.diagnostics


def assert_same_fits(executor, fits):
    for label, one in fit_laplace_models(kernels(), n_restarts=4, random_seed=3, executor=executor).items():
        assert_same_fit(one, fits[label])


@pytest.fixture(scope="module")
def client():
    with (
        distributed.LocalCluster(n_workers=2, threads_per_worker=1, processes=True, dashboard_address=None) as cluster,
        distributed.Client(cluster) as client,
    ):
        yield client


@pytest.fixture(scope="module")
def processes():
    """Of a kind that imports everything anew, as those of other machines do."""
    with ProcessPoolExecutor(2, mp_context=get_context("spawn")) as executor:
        yield executor


@pytest.fixture(params=["dask", "processes"])
def executor(request):
    if request.param == "dask":
        return request.getfixturevalue("client").get_executor()
    return request.getfixturevalue("processes")


@pytest.fixture(scope="module")
def ard_fit():
    return fit(ard())


@pytest.fixture(scope="module")
def several_fits():
    return fit_laplace_models(kernels(), n_restarts=4, random_seed=3)


@pytest.fixture(scope="module")
def user_fit():
    return fit(user_model(), n_restarts=2)


@pytest.fixture(scope="module")
def learned():
    """Fits of several models in every round."""
    active = several()
    active.run(truth, 2, progressbar=False)
    return active


def assert_same_course(one, other):
    assert_array_equal(one.X, other.X)
    assert one.fit.probability.equals(other.fit.probability)


def test_what_is_searched_and_asked_elsewhere_changes_no_bit(executor, ard_fit, several_fits, learned):
    assert_same_fit(fit(ard(), executor=executor), ard_fit)
    assert_same_fits(executor, several_fits)
    active = several(executor=executor)
    active.run(truth, 2, progressbar=False)
    assert_same_course(active, learned)
    settings = {"bases": ("LIN", "SE"), "depth": 1, "random_seed": 1, "progressbar": False}
    here = pma.search.compositional_kernel_search(X, Y, **settings)
    there = pma.search.compositional_kernel_search(X, Y, **settings, executor=executor)
    assert there.table.identical(here.table)


@pytest.mark.parametrize("kind", [ProcessPoolExecutor, ThreadPoolExecutor])
def test_models_of_compiled_functions_are_fitted_here(kind, user_fit):
    with kind(2) as executor:
        assert_same_fit(fit(user_fit.gpm, n_restarts=2, executor=executor), user_fit)


class Killing(Executor):
    """Passes calls on; before the ``at``-th a worker is killed, and a pool of processes has noticed it."""

    def __init__(self, executor, pid, at):
        self.executor, self.pid, self.at, self.n_calls = executor, pid, at, 0

    def submit(self, function, /, *arguments, **keywords):
        self.n_calls += 1
        if self.n_calls == self.at:
            os.kill(self.pid, signal.SIGKILL)
            with suppress(BrokenExecutor):
                while isinstance(self.executor, ProcessPoolExecutor):
                    self.executor.submit(os.getpid).result()
        return self.executor.submit(function, *arguments, **keywords)


@contextmanager
def killed_process(at):
    # One process, since it takes seconds to start another.
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as executor:
        yield Killing(executor, executor.submit(os.getpid).result(), at)


BROKEN = "the Killing is broken: a worker was killed .* done in this process, slower and with the same result"


def test_fits_of_a_killed_process_are_made_here(ard_fit, several_fits):
    with killed_process(at=1) as executor:
        with pytest.warns(UserWarning, match=BROKEN) as record:
            assert_same_fit(fit(ard(), executor=executor), ard_fit)
        # Once, with the caller's line, which knows the executor.
        assert [warning.filename for warning in record] == [__file__]
        # Broken for good, of which nothing more is said.
        assert_same_fit(fit(ard(), executor=executor), ard_fit)
    with killed_process(at=3) as executor, pytest.warns(UserWarning, match=BROKEN):
        assert_same_fits(executor, several_fits)


def test_a_learner_goes_on_when_a_process_is_killed(learned):
    """And with a new executor in other processes again."""
    with killed_process(at=3) as executor:
        active = several(executor=executor)
        with pytest.warns(UserWarning, match=r"set learner\.executor"):
            active.run(truth, 1, progressbar=False)
        assert len(active.y) == 13
    with ThreadPoolExecutor(2) as executor:
        active.executor = executor
        active.run(truth, 1, progressbar=False)
        assert_same_course(active, learned)


def test_a_killed_worker_of_a_cluster_is_replaced_unnoticed(client, several_fits):
    pids = set(client.run(os.getpid).values())
    assert_same_fits(Killing(client.get_executor(), min(pids), at=3), several_fits)
    # Until the scheduler has noticed; a worker that is just dying does not answer.
    while len(alive := set(client.run(os.getpid, on_error="ignore").values()) - {min(pids)}) < 2:
        client.wait_for_workers(2)
    assert max(pids) in alive


@pytest.mark.parametrize("criterion", [bald, uncertainty, pma.active.bams])
def test_every_block_of_a_lazy_pool_has_the_bits_of_its_rows_alone(criterion, ard_fit, several_fits, client):
    """In threads and in a cluster alike; all rows at once may round otherwise. A bad block is named."""
    source, bad = several_fits if criterion is pma.active.bams else ard_fit, POOL.copy()
    lazy, whole = criterion(source, da.from_array(POOL, chunks=(70, 1))), criterion(source, POOL)
    assert lazy.chunks is not None
    assert lazy.attrs == whole.attrs
    alone = np.concatenate([criterion(source, POOL[i : i + 70]) for i in range(0, len(POOL), 70)])
    for scheduler in ("threads", "synchronous"):
        assert_array_equal(lazy.compute(scheduler=scheduler), alone)
    with client.as_current():
        assert_array_equal(lazy.compute(), alone)
    assert_allclose(alone, whole, rtol=1e-10)
    bad[75, 1] = np.nan
    with pytest.raises(ValueError, match=r"block 1 of X_pool must be finite: 1 value.* the first at row 5, column 1"):
        criterion(source, da.from_array(bad, chunks=(70, 2))).compute(scheduler="synchronous")


def test_a_model_of_compiled_functions_scores_blocks_in_threads_and_elsewhere(client, user_fit):
    """PyTensor's functions keep their arguments where a call from another thread would find them."""
    pool = da.random.default_rng(3).uniform(-1, 1, (6000, 2), chunks=(300, 2))
    lazy, here = bald(user_fit, pool), bald(user_fit, pool.compute(scheduler="synchronous"))
    assert_allclose(lazy.compute(scheduler="threads", num_workers=4), here, rtol=1e-9)
    with client.as_current():
        assert_allclose(lazy.compute(), here, rtol=1e-9)


@pytest.mark.parametrize("criterion", ["bald", "uncertainty"])
def test_a_learner_chooses_from_a_lazy_pool_in_a_cluster(criterion, client):
    pool = da.from_array(POOL, chunks=(70, 1))
    one, other = (Learner(ard(), pool=pool, criterion=criterion, random_seed=2) for _ in range(2))
    here = one.ask()
    with client.as_current():
        assert_array_equal(other.ask(), here)


def test_scores_by_draws_do_not_depend_on_the_blocks(ard_fit):
    """A choice screens the candidates of each block by itself; the scores and the choice are those of an array."""
    pool, options = RNG.uniform(-1, 1, (2400, 2)), {"method": "draws", "draws": 64, "random_seed": 0}
    whole = bald(ard_fit, pool, **options).to_numpy()
    for size in (2400, 1200, 500):
        blocks = bald(ard_fit, da.from_array(pool, chunks=(size, 2)), **options)
        assert_allclose(blocks, whole, rtol=0, atol=1e-10)
    scorer = Bald(**options).prepare(ard_fit)
    # The coarser scores of a large block, and of a whole array.
    parts = np.concatenate([screened(scorer, pool[i : i + 1200]) for i in (0, 1200)])
    assert np.abs(parts - screened(scorer, pool)).max() > 1e-3
    assert np.abs(parts - whole).max() > 1e-3
    lazy = LazyPool(da.from_array(pool, chunks=(1200, 2)), 2, repeat=False)
    chosen = lazy.choose(scorer, np.empty((0, 2)), [], RNG)
    assert chosen.row == whole.argmax()
    assert_allclose(chosen.score, whole.max(), rtol=1e-9)


def test_what_a_process_is_sent_does_not_grow_with_the_blocks(ard_fit):
    def size(n_blocks):
        graph = bald(ard_fit, da.zeros((n_blocks * 10, 2), chunks=(10, 2))).data.__dask_graph__()
        return [len(cloudpickle.dumps(task)) for task in dict(graph).values()]

    from distributed.protocol.pickle import cloudpickle

    few, many = size(2), size(50)
    assert max(many) < 1.1 * max(few)
    # The fit is in one of them. The others are Dask's own, which grow by what it has imported.
    assert sorted(many)[-2] < max(many) / 2


def test_threads_ignore_warnings_each_by_itself():
    """Two threads that leave in another order than they came leave the filters as they were."""
    steps = [Event() for _ in range(3)]

    def first():
        with ignoring(DoubtfulFitWarning):
            steps[0].set()
            assert steps[1].wait(60)
            warn_user("not shown", DoubtfulFitWarning)
        steps[2].set()

    def second():
        assert steps[0].wait(60)
        with ignoring(DoubtfulFitWarning):
            steps[1].set()
            assert steps[2].wait(60)

    before = list(warnings.filters)
    with ThreadPoolExecutor(2) as executor:
        for done in [executor.submit(first), executor.submit(second)]:
            done.result()
    assert list(warnings.filters) == before
    with pytest.warns(DoubtfulFitWarning, match="shown"):
        warn_user("shown", DoubtfulFitWarning)


def test_a_lazy_pool_is_scored_for_the_box_of_the_model():
    X = np.random.default_rng(0).uniform(-1, 1, (8, 2))
    fit = pma.fit(pma.ard_gp(X, X[:, 0], bounds=[(-1, 1)] * 2), n_particles=32, random_seed=0, progressbar=False)
    pool = da.from_array(X + 0.01, chunks=(3, 2))
    boxed = pma.active.integrated_variance(fit, pool, bounds=[(-1, 1)] * 2)
    assert_array_equal(pma.active.integrated_variance(fit, pool).compute(), boxed.compute())
