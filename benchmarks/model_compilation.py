"""Eighteen kernel structures from cold.

What do the paper's 18 models cost from cold, compared with the largest of them alone?

    python benchmarks/model_compilation.py [--quick]

Every measurement is a fresh process with empty compile caches, after the imports; CPU seconds of one
thread, until a model has answered everything that a fit needs: the model is built, the log posterior
and its gradient evaluated, the posterior expanded at a point (Hessian, evidence), and the parameters
given in the user's space. Compilation is what of that a second evaluation does not need: building the
model, first calls, compiling. By three routes: (a) by arrays, the default for models of builders, which
compiles nothing; (b) the same, and the PyMC model, which is made when asked for, is asked for; (c) by
PyTensor graphs, as ``compile_kwargs`` or priors of the user's own ask for them, under the virtual
machine without a JIT; up to the gradient only. The largest model is the one of compositional kernel
search for the airline series, SE * (LIN + LIN * (PER + RQ)).

Target: by arrays the compilation for all 18 takes at most 3 times that for the largest one alone.
Route (c) shares nothing between models, and is reported.
"""

from __future__ import annotations

import json
import statistics
import tempfile
import time
import warnings

import _report

N = 60
ROUTES = {"arrays": "arrays (default)", "pymc": "arrays, and the PyMC model", "graphs": "PyTensor graphs, VM"}
WHICH = {"largest": "the largest alone", "all": "all 18"}
LARGEST_RATIO = 3


def measure(route: str, which: str) -> dict:
    """CPU seconds of each model, in a fresh process."""
    import numpy as np

    import pymc_active as pma
    from pymc_active.posterior.compile_mode import vm_mode

    # The point is no mode, which is as good for this.
    warnings.filterwarnings("ignore", message="the Laplace fit is doubtful")
    # The imports are another benchmark's business.
    build, fit_laplace, models = pma.composite_gp, pma.fit_laplace, pma.kernels.paper_models("airline")
    mode = vm_mode()
    x = np.linspace(0, 1, N)
    y = np.sin(40 * x) + 3 * x
    seconds, again = {}, {}
    for expression in models if which == "all" else models[-1:]:

        def evaluate(gpm):
            theta = np.full(gpm.n_parameters, -1.0)
            if route == "graphs":
                gpm.posterior({"mode": mode}).value_and_gradient(theta)
            else:
                fit = fit_laplace(gpm, point=gpm.unflatten(theta), optimize=False)
                assert "noise" in fit.constrained_point
            if route == "pymc":
                assert len(gpm.model.free_RVs) == len(gpm.shapes)

        start = time.process_time()
        gpm = build(x[:, None], y, expression, y_scale="standardize")
        evaluate(gpm)
        first = time.process_time()
        evaluate(gpm)
        seconds[str(expression)] = first - start
        again[str(expression)] = time.process_time() - first
    total = sum(seconds.values())
    return {"seconds": seconds, "total": total, "compilation": total - sum(again.values())}


def run(route: str, which: str) -> dict:
    with tempfile.TemporaryDirectory() as folder:
        environment = {"PYTENSOR_FLAGS": f"base_compiledir={folder}/pytensor", "NUMBA_CACHE_DIR": f"{folder}/numba"}
        return _report.child({"route": route, "which": which}, threads=1, environment=environment)


def draw(results: dict):
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(figsize=(7.5, 2.8))
    for row, route in enumerate(ROUTES):
        for offset, which, color in ((-0.18, "largest", _report.GREY), (0.18, "all", _report.BLUE)):
            t = results[route][which]["total"]
            label = WHICH[which] if row == 0 else None
            axes.barh(row + offset, t["median"], height=0.34, color=color, label=label)
            axes.text(t["median"], row + offset, "  " + _report.show(t), va="center", fontsize=8)
        axes.text(
            1.2e-3,
            row + 0.47,
            f"compilation of all: {results[route]['ratio_compilation']:.1f} times the largest's",
            fontsize=8,
            va="center",
        )
    axes.set_yticks(range(len(ROUTES)), list(ROUTES.values()))
    axes.set_ylim(len(ROUTES) - 0.3, -0.5)
    axes.set_xscale("log")
    axes.set_xlim(1e-3, 3e3)
    axes.set_xlabel("CPU seconds, fresh process, after the imports")
    axes.spines[["top", "right"]].set_visible(False)
    axes.legend(frameon=False, fontsize=8, loc="upper right")
    return figure


def main() -> None:
    arguments = _report.parser(__doc__).parse_args()
    if arguments.child:
        print(json.dumps(measure(**json.loads(arguments.child))))
        return
    repeats = {"arrays": 5, "pymc": 5, "graphs": 1}
    if arguments.quick:
        repeats |= {"arrays": 2, "pymc": 1}
    # Once for the byte code and the system's file cache.
    run("arrays", "largest")
    results: dict = {}
    for route, times in repeats.items():
        runs = {which: [] for which in WHICH}
        for _ in range(times):
            for which in WHICH:
                runs[which].append(run(route, which))
        results[route] = {
            which: {
                "total": _report.quartiles([r["total"] for r in done]),
                "compilation": _report.quartiles([r["compilation"] for r in done]),
                "models": {name: statistics.median(r["seconds"][name] for r in done) for name in done[0]["seconds"]},
            }
            for which, done in runs.items()
        }
        for what in ("total", "compilation"):
            medians = {which: results[route][which][what]["median"] for which in WHICH}
            results[route][f"ratio_{what}"] = medians["all"] / medians["largest"]

    _report.table(
        ("route", "", *WHICH.values(), "ratio"),
        [
            (
                title,
                what,
                *(_report.show(results[route][which][what]) for which in WHICH),
                f"{results[route][f'ratio_{what}']:.2f}",
            )
            for route, title in ROUTES.items()
            for what in ("total", "compilation")
        ],
    )
    _report.write(
        __doc__,
        quick=arguments.quick,
        threads="one, pinned to one CPU",
        targets=[
            _report.target(
                "compilation by arrays: all 18 / the largest alone",
                results["arrays"]["ratio_compilation"],
                "<=",
                LARGEST_RATIO,
            )
        ],
        results=results,
        figure=draw(results),
    )


if __name__ == "__main__":
    main()
