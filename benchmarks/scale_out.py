"""Candidates that no memory holds.

What do ten million candidates cost, as a dask array, in memory and time?

    python benchmarks/scale_out.py              # 4 minutes; needs dask and distributed
    python benchmarks/scale_out.py --smallest   # a hundredth of the candidates

BALD of a GP with n = 50 and D = 3 over uniform candidates, made lazily in blocks of 100,000, and the best of them:
with dask's threads, with a cluster of two processes, and as one array in memory. Each case has a process of its own,
whose peak memory is that beyond what Python, the package and the fit had taken; of a cluster also that of its workers.
Beside them what a process is sent, and fits with their restarts in other processes, of which one is killed.

Targets: the lazy peak does not grow with the pool, by more than 100 MB from one million to ten; the scores of each
block are those of its rows alone, bit for bit, and the best candidate is that of the whole array; fits elsewhere are
those of this process, bit for bit, also when a worker is killed.
"""

from __future__ import annotations

import json
import os
import time

import _report

N, D = 50, 3
BLOCK = 100_000
SIZES = (100_000, 1_000_000, 10_000_000)
MB = 1e6
LARGEST_GROWTH = 100


def data():
    import numpy as np

    rng = np.random.default_rng(0)
    X = rng.uniform(-1, 1, (N, D))
    return X, np.sin(4 * X[:, 0]) * X[:, 1] + 0.1 * rng.normal(size=N)


def make_pool(n_candidates: int):
    import dask.array as da

    return da.random.default_rng(1).uniform(-1, 1, (n_candidates, D), chunks=(min(BLOCK, n_candidates), D))


def make_fit():
    import pymc_active as pma

    return pma.fit_laplace(pma.ard_gp(*data()), random_seed=1, progressbar=False)


def best_of(scores) -> tuple[int, str]:
    """Row and value, to the last bit, of the largest of scores."""
    import dask

    row, value = dask.compute(scores.argmax(), scores.max())
    return int(row), float(value).hex()


def clocked(work, peak_before: int) -> dict:
    cpu, start = time.process_time(), time.perf_counter()
    row, value = work()
    return {
        "seconds": time.perf_counter() - start,
        "cpu_seconds": time.process_time() - cpu,
        "peak_bytes": _report.peak_memory() - peak_before,
        "best_row": row,
        "best_value": value,
    }


def run_lazy(n_candidates: int) -> dict:
    import dask

    from pymc_active.active import bald

    fit = make_fit()
    bald(fit, make_pool(1000)).compute(scheduler="threads")
    before = _report.peak_memory()
    with dask.config.set(scheduler="threads", num_workers=2):
        return clocked(lambda: best_of(bald(fit, make_pool(n_candidates)).data), before)


def run_array(n_candidates: int) -> dict:
    """All candidates and scores in memory; also whether these are the bits of the lazy ones."""
    import numpy as np

    from pymc_active.active import bald

    fit = make_fit()
    bald(fit, make_pool(1000)).compute(scheduler="threads")
    before = _report.peak_memory()
    pool = make_pool(n_candidates).compute(scheduler="threads")
    kept = []

    def work():
        kept.append(bald(fit, pool).to_numpy())
        return int(kept[0].argmax()), float(kept[0].max()).hex()

    result = clocked(work, before)
    if n_candidates <= 1_000_000:
        lazy = bald(fit, make_pool(n_candidates)).compute(scheduler="threads").to_numpy()
        alone = np.concatenate([bald(fit, pool[i : i + BLOCK]) for i in range(0, n_candidates, BLOCK)])
        result["blocks_alone_are_equal"] = bool((lazy == alone).all())
        result["largest_difference_nats"] = float(np.abs(lazy - kept[0]).max())
    return result


def run_cluster(n_candidates: int) -> dict:
    import resource

    import cloudpickle
    from distributed import Client, LocalCluster

    import pymc_active as pma

    fit = make_fit()
    lazy = pma.active.bald(fit, make_pool(n_candidates)).data
    tasks = sorted(len(cloudpickle.dumps(task)) for task in dict(lazy.__dask_graph__()).values())

    def peak():
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024

    with (
        LocalCluster(n_workers=2, threads_per_worker=1, processes=True, dashboard_address=":0") as cluster,
        Client(cluster) as client,
    ):
        best_of(pma.active.bald(fit, make_pool(1000)).data)
        client.run(make_fit)
        before, workers = _report.peak_memory(), client.run(peak)
        result = clocked(lambda: best_of(lazy), before)
        after = client.run(peak)
    del result["cpu_seconds"]
    return result | {
        "worker_peak_bytes": max(after[name] - workers[name] for name in workers),
        "largest_task_bytes": tasks[-1],
        "second_largest_task_bytes": tasks[-2],
        "tasks": len(tasks),
    }


def run_fits(n_restarts: int) -> dict:
    """One fit of four models here, in a cluster, in one whose worker is killed, and in processes of which one is."""
    import signal
    import threading
    import warnings
    from concurrent.futures import ProcessPoolExecutor
    from multiprocessing import get_context

    from distributed import Client, LocalCluster

    import pymc_active as pma
    from pymc_active.laplace import fit_laplace_models

    X, y = data()

    def fits(executor=None):
        models = {k: pma.composite_gp(X, y, k) for k in ("SE", "SE[0] * SE[1]", "PER[0] + SE", "RQ * LIN[1]")}
        start = time.perf_counter()
        found = fit_laplace_models(models, n_restarts=n_restarts, random_seed=3, executor=executor, progressbar=False)
        return time.perf_counter() - start, {k: (f.theta.tobytes(), f.hessian.tobytes()) for k, f in found.items()}

    def killing(pid, after):
        return threading.Timer(after, os.kill, (pid, signal.SIGKILL))

    here, expected = fits()
    rows = {"here": {"seconds": here, "equal": True}}

    def add(name, executor):
        seconds, found = fits(executor)
        rows[name] = {"seconds": seconds, "equal": found == expected}

    with (
        LocalCluster(n_workers=2, threads_per_worker=1, processes=True, dashboard_address=":0") as cluster,
        Client(cluster) as client,
    ):
        executor = client.get_executor()
        fits(executor)
        add("two workers of a cluster", executor)
        timer = killing(min(client.run(os.getpid).values()), here / 4)
        timer.start()
        add("two workers of a cluster, one killed", executor)
        timer.join()
    with ProcessPoolExecutor(2, mp_context=get_context("spawn")) as executor:
        fits(executor)
        add("two processes", executor)
        timer = killing(executor.submit(os.getpid).result(), here / 4)
        timer.start()
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            add("two processes, one killed", executor)
        timer.join()
        rows["two processes, one killed"]["warnings"] = [str(w.message) for w in caught if "broken" in str(w.message)]
    return rows


def draw(pools: dict):
    figure, (left, right) = _report.panels(1, 2, figsize=(10, 3.6))
    for axes, quantity, unit in ((left, "peak_bytes", MB), (right, "seconds", 1)):
        for name, color in (("array in memory", _report.GREY), ("lazy, threads", _report.BLUE)):
            sizes = list(map(int, pools[name]))
            axes.loglog(sizes, [row[quantity] / unit for row in pools[name].values()], "o-", color=color, label=name)
        axes.set_xlabel("candidates")
    left.loglog(sizes, [8 * D * n / MB for n in sizes], ":", color="black", label="the candidates themselves")
    left.set_ylabel("peak memory beyond the fit's, MB")
    right.set_ylabel("time to the best candidate, s")
    left.legend()
    return figure


def main() -> None:
    arguments = _report.parser(__doc__).parse_args()
    if arguments.child:
        case = json.loads(arguments.child)
        run = {"lazy": run_lazy, "array": run_array, "cluster": run_cluster, "fits": run_fits}[case.pop("measure")]
        print(json.dumps(run(**case)))
        return
    sizes = [n // 100 for n in SIZES] if arguments.smallest else SIZES
    environment = {"OMP_NUM_THREADS": "1"}

    def child(measure, **case):
        return _report.child({"measure": measure, **case}, environment=environment)

    pools = {
        name: {str(n): child(measure, n_candidates=n) for n in sizes}
        for name, measure in (("lazy, threads", "lazy"), ("array in memory", "array"))
    }
    middle = str(sizes[1])
    pools["lazy, cluster"] = {middle: child("cluster", n_candidates=sizes[1])}
    fits = child("fits", n_restarts=1 if arguments.smallest else 20)
    rows, targets = [], []
    for name, cases in pools.items():
        for n, r in cases.items():
            rows.append((name, f"{int(n):,}", f"{r['seconds']:.1f} s", f"{r['peak_bytes'] / MB:.0f} MB", r["best_row"]))
            same = r["best_row"] == pools["array in memory"][n]["best_row"]
            targets.append(_report.target(f"best of {n} is that of the array, {name}", same, ">=", 1))
    growth = (pools["lazy, threads"][str(sizes[-1])]["peak_bytes"] - pools["lazy, threads"][middle]["peak_bytes"]) / MB
    targets.append(
        _report.target(f"growth of the lazy peak beyond {int(middle):,} candidates (MB)", growth, "<", LARGEST_GROWTH)
    )
    equal = pools["array in memory"][middle]["blocks_alone_are_equal"]
    targets.append(_report.target("blocks have the bits of their rows alone", equal, ">=", 1))
    for name, r in fits.items():
        targets.append(_report.target(f"fits are equal, bit for bit: {name}", r["equal"], ">=", 1))
    _report.table(("pool", "candidates", "time", "peak", "best row"), rows)
    _report.table(("fits of four models", "time"), [(name, f"{r['seconds']:.2f} s") for name, r in fits.items()])
    _report.write(
        __doc__,
        quick=arguments.smallest,
        threads="BLAS 1; two threads or processes of dask",
        targets=targets,
        results={"pools": pools, "fits": fits, "block": BLOCK},
        figure=draw(pools),
    )


if __name__ == "__main__":
    main()
