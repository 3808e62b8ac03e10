"""BAMS over a pool against the predictions it is made of.

What does the information about the model cost, over predicting with all models?

    python benchmarks/bams_scoring.py [--quick]

The 18 models of Malkomes & Garnett (2015) on 60 of the airline passengers (random months) and 10,000 candidates. BAMS
against the 18 marginal GPs' predictions one after another. With the posterior's weights most models have none and
are left out; so equal weights, where all 18 count, are measured as well, and beside them query by committee.

Target: at most 3 times the predictions.
"""

from __future__ import annotations

import json
import time
import warnings

import _report

N, CANDIDATES, LARGEST_RATIO = 60, 10_000, 3


def make_average():
    """Modes need not be the best ones: they cost the same."""
    import numpy as np

    import pymc_active as pma
    from pymc_active.predictions.model_average import ModelAverage

    time_, passengers = pma.datasets.airline()
    rows = np.sort(np.random.default_rng(0).choice(len(passengers), N, replace=False))
    X, y = time_.to_numpy(float)[rows], passengers.to_numpy(float)[rows]
    fits = {}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        for expression in pma.kernels.paper_models("airline"):
            gpm = pma.composite_gp(X, y, expression, x_scale="unit", y_scale="standardize")
            fits[str(expression)] = pma.fit_laplace(gpm, n_restarts=1, population=0, random_seed=0, progressbar=False)
        return ModelAverage(fits)


def run(rounds: int) -> dict:
    import numpy as np

    import pymc_active as pma
    from pymc_active.predictions.moments import marginal_moments

    average = make_average()
    low, high = average.X.min(), average.X.max()
    pool = np.linspace(low, high + 0.2 * (high - low), CANDIDATES)[:, None]
    tasks = {
        "18 predictions": lambda: [marginal_moments(fit.best, pool) for fit in average.values()],
        "BAMS, posterior weights": lambda: pma.active.bams(average, pool),
        "BAMS, equal weights": lambda: pma.active.bams(average, pool, weights="uniform"),
        "query by committee": lambda: pma.active.committee(average, pool),
    }
    times: dict[str, list[float]] = {name: [] for name in tasks}
    for _ in range(rounds + 1):
        for name, task in tasks.items():
            start = time.perf_counter()
            task()
            times[name].append(time.perf_counter() - start)
    return {name: _report.quartiles(values[1:]) for name, values in times.items()}


def draw(seconds: dict[str, dict]):
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(figsize=(7, 2.6))
    base = seconds["18 predictions"]["median"]
    for row, t in enumerate(seconds.values()):
        error = [[t["median"] - t["lower"]], [t["upper"] - t["median"]]]
        axes.barh(row, t["median"], 0.6, xerr=error, color=_report.BLUE if row else _report.GREY)
        axes.text(t["upper"], row, f"  {t['median']:.2f} s  ({t['median'] / base:.2f} ×)", va="center", fontsize=9)
    axes.set_yticks(range(len(seconds)), seconds)
    axes.invert_yaxis()
    axes.set_xlim(0, 1.4 * axes.get_xlim()[1])
    axes.set_xlabel(f"seconds for {CANDIDATES:,} candidates, n = {N} (median, quartiles)")
    axes.spines[["top", "right"]].set_visible(False)
    figure.tight_layout()
    return figure


def main() -> None:
    arguments = _report.parser(__doc__).parse_args()
    if arguments.child:
        print(json.dumps(run(**json.loads(arguments.child))))
        return
    seconds = _report.child({"rounds": 3 if arguments.quick else 15}, threads=1)
    base = seconds["18 predictions"]["median"]
    targets = [
        _report.target(f"{name} / 18 predictions", t["median"] / base, "<=", LARGEST_RATIO)
        for name, t in seconds.items()
        if name.startswith("BAMS")
    ]
    rows = [(name, _report.show(t), f"{t['median'] / base:.2f}") for name, t in seconds.items()]
    _report.table(("task", f"{CANDIDATES:,} candidates: median [quartiles]", "ratio"), rows)
    _report.write(
        __doc__,
        quick=arguments.quick,
        threads="1",
        targets=targets,
        results={"candidates": CANDIDATES, "n": N, "seconds": seconds},
        figure=draw(seconds),
    )


if __name__ == "__main__":
    main()
