"""The first minute: imports, the first question, the first Hessian.

How long from import to the first suggested point?

    python benchmarks/cold_start.py [--quick]

Every measurement is a fresh process with empty compile caches of PyTensor and Numba; files and byte
code are warm. (a) ``import pymc``. (b) From starting Python to the first point that a learner asks
for: import, an ``embedding_gp`` with 10 inputs, d = 2 and 20 data, a pool of 2,000, the full mode
search, BALD. Each repeat draws another function, since the search works longer on some. (c) The
Hessian of the same model's log posterior as PyMC compiles it, ``model.compile_d2logp()`` and one
call, against ours at the same point. (d) ``import pymc_active`` against ``import pymc``. The package
loads its modules, and PyMC, on first use, so the bare import says little: what counts is the second
line, with the names that an ask needs, and the third, the same with JAX hidden, which other packages
may import where it is installed.

Beside the times: what the row asked loses against the best row of the pool, in nats of BALD by
plain formulas (the marginal GP by complex steps, at the fitted mode), and the difference between
both Hessians.

Targets: (b) less than 4 times (a); (d) adds less than 10 %; no row loses more than 0.05 nats.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time

import _report

N, D, COMPONENTS, POOL = 20, 10, 2, 2_000
STAGES = {
    "start_python": "start Python",
    "import_pymc": "import pymc",
    "import_pymc_active": "import pymc_active",
    "load_modules": "load its modules",
    "build_model": "build model",
    "learner": "make learner",
    "fit": "mode search",
    "score": "BALD",
}
TIME_LIMIT = 600.0
LARGEST_LOSS = 0.05
NAMES = "from pymc_active import active, embedding_gp, fit_laplace, predict"
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
    with tempfile.TemporaryDirectory() as folder:
        process = subprocess.run(
            [sys.executable, "-c", IMPORT.format(statement=statement, hide=hide)],
            env={**os.environ, **fresh_caches(folder)},
            stdout=subprocess.PIPE,
            text=True,
            check=True,
        )
    return float(process.stdout)


def run_stage(stage: str, seed: int) -> dict:
    """Run one of the stages below in a fresh process."""
    with tempfile.TemporaryDirectory() as folder:
        # The clock is the system's, the same in both processes.
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
    from _reference import bald, draw_problem

    X, y, _ = draw_problem(N, D, COMPONENTS, seed)
    pool = np.random.default_rng((seed, 1)).uniform(-1, 1, size=(POOL, D))
    # Drawing the data is the user's business.
    gone = time.monotonic() - times[-1]
    gpm = make_model(X, y, n_components=COMPONENTS)
    times.append(time.monotonic() - gone)
    learner = make_learner(gpm, learn="hyperparameters", pool=pool, random_seed=seed)
    times.append(time.monotonic() - gone)
    fit = learner.fit
    times.append(time.monotonic() - gone)
    asked = learner.ask()
    times.append(time.monotonic() - gone)

    score = bald(X, y, (COMPONENTS, D), fit.theta, fit.covariance, pool)
    [row] = np.flatnonzero((pool == asked[0]).all(1))
    return {
        "seed": seed,
        "seconds": times[-1] - started,
        "stages": dict(zip(STAGES, np.diff(times).tolist(), strict=True)),
        "loss_of_the_row_asked_nats": float(score.max() - score[row]),
        "log_posterior": fit.log_posterior,
        "search": {
            key: fit.diagnostics[key]
            for key in (
                "converged",
                "condition_number",
                "n_evaluations",
                "n_starts",
                "n_best",
                "used_population",
            )
        },
    }


def stock_hessian(seed: int, started: float) -> dict:
    import numpy as np
    import pytensor
    from _reference import draw_problem

    import pymc_active as pma
    from pymc_active.support.threads import one_blas_thread

    X, y, R = draw_problem(N, D, COMPONENTS, seed)
    gpm = pma.embedding_gp(X, y, n_components=COMPONENTS)
    point = {"R": R, "log_outputscale": np.array(0.0), "log_noise": np.array(np.log(0.1))}
    start = time.perf_counter()
    with one_blas_thread():
        posterior = gpm.posterior()
        ours = posterior.hessian(posterior.state(gpm.flatten(point)))
    our_seconds = time.perf_counter() - start
    start = time.perf_counter()
    function = gpm.model.compile_d2logp(negate_output=False)
    compiled = time.perf_counter()
    theirs = np.asarray(function(point))
    called = time.perf_counter()
    function(point)
    again = time.perf_counter()
    difference = np.abs(ours + theirs).max()
    return {
        "seconds": called - start,
        "compile_seconds": compiled - start,
        "first_call_seconds": called - compiled,
        "second_call_seconds": again - called,
        "pymc_active_first_hessian_seconds": our_seconds,
        "relative_difference": float(difference / np.abs(ours).max()),
        "linker": str(pytensor.config.linker),
        "has_c_compiler": bool(pytensor.config.cxx),
    }


def measure_hessians(repeats: int) -> dict:
    """The stock route, as often as asked or until it takes too long."""
    runs: list[dict] = []
    for _ in range(repeats):
        try:
            runs.append(run_stage("hessian", seed=0))
        except subprocess.TimeoutExpired:
            return {"runs": runs, "time_limit_reached": TIME_LIMIT}
    return {"runs": runs}


def draw(imports: dict, asks: list[dict], hessians: dict):
    import matplotlib.pyplot as plt

    figure, (left, right) = plt.subplots(1, 2, figsize=(12, 3.6), width_ratios=(3, 1.3))
    asks = sorted(asks, key=lambda run: run["seconds"])
    chosen = {
        "first ask, fastest": asks[0],
        "first ask, median": asks[(len(asks) - 1) // 2],
        "first ask, slowest": asks[-1],
    }
    for row, t in enumerate(imports.values()):
        left.barh(row, t["median"], color=_report.GREY)
        left.text(t["median"], row, f"  {t['median']:.2f} s", va="center", fontsize=9)
    colors = dict(zip(STAGES, plt.get_cmap("tab10").colors, strict=False))
    for row, run in enumerate(chosen.values(), len(imports)):
        start = 0.0
        for stage, seconds in run["stages"].items():
            label = STAGES[stage] if run is asks[-1] else None
            left.barh(row, seconds, left=start, color=colors[stage], label=label)
            start += seconds
        left.text(start, row, f"  {start:.2f} s", va="center", fontsize=9)
    rows = [*imports, *chosen]
    left.set_yticks(range(len(rows)), rows)
    left.set_ylim(len(rows) - 0.5, -0.5)
    left.set_xlim(0, 1.12 * max(asks[-1]["seconds"], 4 * imports["import pymc"]["median"]))
    left.axvline(4 * imports["import pymc"]["median"], color="black", linestyle="--", linewidth=1)
    left.set_xlabel("seconds (dashed: 4 × import pymc)")
    left.set_title(f"To the first suggested point (D = {D}, d = {COMPONENTS}, n = {N})", fontsize=10)

    names = ["pymc_active", "compile_d2logp()"]
    right.set_title("To the first Hessian of this model", fontsize=10)
    for run in hessians["runs"]:
        for y, key, color in (
            (0, "pymc_active_first_hessian_seconds", _report.BLUE),
            (1, "seconds", _report.ORANGE),
        ):
            right.plot(run[key], y, "o", color=color, ms=8)
    for y, key in enumerate(("pymc_active_first_hessian_seconds", "seconds")):
        for run in hessians["runs"][:1]:
            label = f"{run[key]:.3g} s" if run[key] > 1 else f"{1e3 * run[key]:.2g} ms"
            right.text(run[key], y - 0.12, label, ha="center", va="bottom", fontsize=9)
    right.set_xscale("log")
    right.set_xlim(1e-3, 2 * TIME_LIMIT)
    right.set_yticks(range(2), names)
    right.set_ylim(1.5, -0.5)
    right.set_xlabel("seconds after building the model")
    right.grid(axis="x", alpha=0.3)
    for axes in (left, right):
        axes.spines[["top", "right"]].set_visible(False)
    figure.suptitle("Fresh process, compile caches empty")
    figure.tight_layout()
    figure.legend(loc="upper center", bbox_to_anchor=(0.5, 0.0), ncols=len(STAGES), frameon=False, fontsize=9)
    return figure


def main() -> None:
    arguments = _report.parser(__doc__).parse_args()
    if arguments.child:
        case = json.loads(arguments.child)
        stage = {"ask": first_ask, "hessian": stock_hessian}[case.pop("stage")]
        print(json.dumps(stage(**case)))
        return
    repeats = 2 if arguments.quick else 9
    tasks = {name: lambda seed, case=case: time_import(*case) for name, case in IMPORTS.items()}
    tasks["first ask"] = lambda seed: run_stage("ask", seed)
    # Once for the byte code and the system's file cache.
    for task in tasks.values():
        task(0)
    raw: dict[str, list] = {name: [] for name in tasks}
    for repeat in range(repeats):
        order = list(tasks) if repeat % 2 else list(reversed(tasks))
        for name in order:
            raw[name].append(tasks[name](repeat))
    hessians = measure_hessians(1)

    asks = raw.pop("first ask")
    imports = {name: _report.quartiles(values) for name, values in raw.items()}
    first = _report.quartiles([run["seconds"] for run in asks])
    stages = {stage: _report.quartiles([run["stages"][stage] for run in asks]) for stage in STAGES}
    rows = [(name, _report.show(t)) for name, t in {**imports, "first ask, all in all": first}.items()]
    rows += [(f"    {STAGES[stage]}", _report.show(t)) for stage, t in stages.items()]
    for run in hessians["runs"]:
        rows.append(("stock compile_d2logp", f"{run['compile_seconds']:.3g} s"))
        rows.append(("    first call", f"{run['first_call_seconds']:.3g} s"))
        rows.append(("    second call", f"{1e3 * run['second_call_seconds']:.3g} ms"))
        ours = run["pymc_active_first_hessian_seconds"]
        rows.append(("    pymc_active, first Hessian", f"{1e3 * ours:.3g} ms"))
    if "time_limit_reached" in hessians:
        rows.append(("stock compile_d2logp", f"gave up after {TIME_LIMIT:.0f} s"))
    _report.table(("what", "median [quartiles]"), rows)
    print()
    _report.table(
        (
            "function",
            "seconds",
            "evaluations",
            "population",
            "at the best mode",
            "condition",
            "loss",
        ),
        [
            (
                run["seed"],
                f"{run['seconds']:.2f}",
                run["search"]["n_evaluations"],
                "yes" if run["search"]["used_population"] else "no",
                f"{run['search']['n_best']} of {run['search']['n_starts']}",
                f"{run['search']['condition_number']:.0e}",
                f"{run['loss_of_the_row_asked_nats']:.2g}",
            )
            for run in asks
        ],
    )

    pymc = imports["import pymc"]["median"]
    targets = [_report.target("first ask / import pymc", first["median"] / pymc, "<", 4)]
    for name in list(IMPORTS)[1:]:
        added = imports[name]["median"] / pymc - 1
        what = f"{name}: added to import pymc (%)"
        targets.append(_report.target(what, 100 * added, "<", 10))
    loss = max(run["loss_of_the_row_asked_nats"] for run in asks)
    targets.append(_report.target("largest loss of a row asked (nats)", loss, "<", LARGEST_LOSS))
    for run in hessians["runs"]:
        what = "difference from the stock Hessian (relative)"
        targets.append(_report.target(what, run["relative_difference"], "<", 1e-8))
    _report.write(
        __doc__,
        quick=arguments.quick,
        threads="as installed: nothing is set",
        targets=targets,
        results={
            "imports": imports,
            "first_ask": {"total": first, "stages": stages, "runs": asks},
            "stock_hessian": hessians,
        },
        figure=draw(imports, asks, hessians),
    )


if __name__ == "__main__":
    main()
