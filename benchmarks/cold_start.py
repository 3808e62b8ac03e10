"""The first minute: imports, the first question, the first Hessian.

How long from import to the first suggested point?

    python benchmarks/cold_start.py              # a few minutes
    python benchmarks/cold_start.py --smallest   # once each, without the stock Hessian

Every measurement is a fresh process with empty compile caches of PyTensor and Numba; files and byte code are warm. (a)
``import pymc``. (b) From starting Python to the first point that a learner asks for: import, an ``embedding_gp`` of 10
inputs, d = 2 and 20 data, a pool of 2,000, the first fit, BALD. Each repeat draws another function. (c) The Hessian of
the same model's log posterior as PyMC compiles it, ``model.compile_d2logp()`` and one call, against ours at the same
point. (d) ``import pymc_active`` against ``import pymc``. The package loads its modules, and PyMC, on first use, so the
bare import says little: what counts is the second line, with the names that an ask needs, and the third, the same with
JAX hidden, which other packages may import where it is installed.

Targets: (b) less than 4 times (a); (d) adds less than 10 %; both Hessians are the same.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time

import _report

N, D, COMPONENTS, POOL, REPEATS = 20, 10, 2, 2_000, 9
STAGES = ("start Python", "import pymc", "import pymc_active", "its modules", "make model", "learner", "fit", "BALD")
TIME_LIMIT = 600.0
NAMES = "from pymc_active import active, embedding_gp, fit, predict"
# What is imported, and whether JAX is hidden from it.
IMPORTS = {
    "import pymc": ("import pymc", False),
    "import pymc_active": ("import pymc_active", False),
    "pymc_active, names of an ask": (NAMES, False),
    "the same without JAX": (NAMES, True),
}
IMPORT = """
import sys, time
{hide}
start = time.perf_counter()
{statement}
print(time.perf_counter() - start)
"""


def fresh_caches(folder: str) -> dict[str, str]:
    """Environment with empty compile caches."""
    flags = [flag for flag in os.environ.get("PYTENSOR_FLAGS", "").split(",") if flag]
    flags = [flag for flag in flags if not flag.startswith(("base_compiledir", "compiledir"))]
    return {
        "PYTENSOR_FLAGS": ",".join([*flags, f"base_compiledir={folder}/pytensor"]),
        "NUMBA_CACHE_DIR": f"{folder}/numba",
    }


def time_import(statement: str, without_jax: bool) -> float:
    """Seconds that an import takes in a fresh process."""
    hide = 'sys.modules["jax"] = None' if without_jax else ""
    command = [sys.executable, "-c", IMPORT.format(statement=statement, hide=hide)]
    with tempfile.TemporaryDirectory() as folder:
        environment = {**os.environ, **fresh_caches(folder)}
        return float(subprocess.run(command, env=environment, stdout=subprocess.PIPE, text=True, check=True).stdout)


def run_stage(stage: str, seed: int) -> dict:
    """Run one of the functions below in a fresh process; the clock is the system's, the same in both."""
    with tempfile.TemporaryDirectory() as folder:
        arguments = {"stage": stage, "seed": seed, "started": time.monotonic()}
        return _report.child(arguments, environment=fresh_caches(folder), timeout=TIME_LIMIT)


def first_ask(seed: int, started: float) -> dict:
    times = [started, time.monotonic()]
    import pymc  # noqa: F401

    times.append(time.monotonic())
    import pymc_active as pma

    times.append(time.monotonic())
    make_model, make_learner = pma.embedding_gp, pma.active.Learner
    times.append(time.monotonic())
    import numpy as np
    from _problems import random_embedding_problem

    # Drawing the data is the user's business.
    rng = np.random.default_rng(seed)
    X, pool = rng.uniform(-1, 1, (N, D)), rng.uniform(-1, 1, (POOL, D))
    y = random_embedding_problem(D, COMPONENTS, random_seed=rng).function(X) + 0.1 * rng.normal(size=N)
    gone = time.monotonic() - times[-1]
    gpm = make_model(X, y, n_components=COMPONENTS)
    times.append(time.monotonic() - gone)
    learner = make_learner(gpm, learn="hyperparameters", pool=pool, random_seed=seed)
    times.append(time.monotonic() - gone)
    learner.fit  # noqa: B018 - timed
    times.append(time.monotonic() - gone)
    learner.ask()
    times.append(time.monotonic() - gone)
    stages = dict(zip(STAGES, np.diff(times).tolist(), strict=True))
    return {"seed": seed, "seconds": times[-1] - started, "stages": stages}


def stock_hessian(seed: int, started: float) -> dict:
    import numpy as np

    import pymc_active as pma
    from pymc_active.support.threads import one_blas_thread

    rng = np.random.default_rng(seed)
    gpm = pma.embedding_gp(rng.uniform(-1, 1, (N, D)), rng.normal(size=N), n_components=COMPONENTS)
    theta = 0.1 * rng.normal(size=gpm.n_parameters)
    point = gpm.unflatten(theta)
    start = time.perf_counter()
    with one_blas_thread():
        posterior = gpm.posterior()
        ours = posterior.hessian(posterior.state(theta))
    our_seconds, start = time.perf_counter() - start, time.perf_counter()
    function = gpm.model.compile_d2logp(negate_output=False)
    compiled = time.perf_counter()
    theirs = np.asarray(function(point))
    called = time.perf_counter()
    return {
        "seconds": called - start,
        "compile_seconds": compiled - start,
        "pymc_active_first_hessian_seconds": our_seconds,
        "relative_difference": float(np.abs(ours + theirs).max() / np.abs(ours).max()),
    }


def draw(imports: dict, asks: list[dict]):
    figure, ax = _report.panels(figsize=(9, 3.6))
    asks = sorted(asks, key=lambda run: run["seconds"])
    chosen = {"fastest": asks[0], "median": asks[(len(asks) - 1) // 2], "slowest": asks[-1]}
    for row, t in enumerate(imports.values()):
        ax.barh(row, t["median"], color=_report.GREY)
        ax.text(t["median"], row, f"  {t['median']:.2f} s", va="center", fontsize=9)
    for row, run in enumerate(chosen.values(), len(imports)):
        start = 0.0
        for k, (stage, seconds) in enumerate(run["stages"].items()):
            ax.barh(row, seconds, left=start, color=f"C{k}", label=stage if run is asks[-1] else None)
            start += seconds
        ax.text(start, row, f"  {start:.2f} s", va="center", fontsize=9)
    ax.set_yticks(range(len(imports) + 3), [*imports, *(f"first ask, {name}" for name in chosen)])
    ax.invert_yaxis()
    ax.axvline(4 * imports["import pymc"]["median"], color="black", linestyle="--", linewidth=1)
    ax.set_xlabel("seconds, fresh process, compile caches empty (dashed: 4 × import pymc)")
    figure.legend(loc="outside lower center", ncols=len(STAGES) // 2, fontsize=9)
    return figure


def main() -> None:
    arguments = _report.parser(__doc__).parse_args()
    if arguments.child:
        case = json.loads(arguments.child)
        stage = {"ask": first_ask, "hessian": stock_hessian}[case.pop("stage")]
        print(json.dumps(stage(**case)))
        return
    tasks = {name: lambda seed, case=case: time_import(*case) for name, case in IMPORTS.items()}
    tasks["first ask"] = lambda seed: run_stage("ask", seed)
    # Once for the byte code and the system's file cache.
    for task in () if arguments.smallest else tasks.values():
        task(0)
    raw: dict[str, list] = {name: [] for name in tasks}
    for repeat in range(1 if arguments.smallest else REPEATS):
        for name in list(tasks) if repeat % 2 else list(reversed(tasks)):
            raw[name].append(tasks[name](repeat))
    asks = raw.pop("first ask")
    imports = {name: _report.quartiles(values) for name, values in raw.items()}
    first = _report.quartiles([run["seconds"] for run in asks])
    stages = {stage: _report.quartiles([run["stages"][stage] for run in asks]) for stage in STAGES}
    rows = [(name, _report.show(t)) for name, t in {**imports, "first ask, all in all": first}.items()]
    rows += [(f"    {stage}", _report.show(t)) for stage, t in stages.items()]
    pymc = imports["import pymc"]["median"]
    targets = [_report.target("first ask / import pymc", first["median"] / pymc, "<", 4)]
    for name in list(IMPORTS)[1:]:
        added = 100 * (imports[name]["median"] / pymc - 1)
        targets.append(_report.target(f"{name}: added to import pymc (%)", added, "<", 10))
    hessian = None
    if not arguments.smallest:
        try:
            hessian = run_stage("hessian", seed=0)
        except subprocess.TimeoutExpired:
            rows.append(("stock Hessian", f"gave up after {TIME_LIMIT:.0f} s"))
    if hessian:
        rows += [(f"Hessian: {name}", f"{value:.3g}") for name, value in hessian.items()]
        difference = hessian["relative_difference"]
        targets.append(_report.target("difference from the stock Hessian (relative)", difference, "<", 1e-8))
    _report.table(("what", "median [quartiles]"), rows)
    _report.write(
        __doc__,
        quick=arguments.smallest,
        threads="as installed: nothing is set",
        targets=targets,
        results={
            "imports": imports,
            "first_ask": {"total": first, "stages": stages, "runs": asks},
            "stock_hessian": hessian,
        },
        figure=draw(imports, asks),
    )


if __name__ == "__main__":
    main()
