"""Laplace evidences of kernels against importance sampling around the same modes.

How far off are Laplace's evidences, summed over modes, on few data and on more?

    python benchmarks/evidence_accuracy.py [--quick]

The 18 models of Malkomes & Garnett (2015) on 15 and on 60 random months of the airline passengers, default priors, and
on 60 once more those with a linear kernel through the origin in place of ours with a location. One mode search for each
model; the same modes serve Laplace's evidence and the proposals, so that modes nobody found are missing in both.
Estimates whose effective sample size is below 50 are shown, but not counted.

Target: within 0.7 nats for every model at n = 60.
"""

from __future__ import annotations

import json
import time
import warnings

import _report

CASES = {"15": {"n": 15}, "60": {"n": 60}, "60, rooted LIN": {"n": 60, "rooted": True}}
COLOURS = (_report.ORANGE, _report.BLUE, _report.GREY)
LARGEST_DIFFERENCE, FEWEST = 0.7, 50


def run(n: int, draws: int, n_restarts: int, rooted: bool = False) -> list[dict]:
    import numpy as np

    import pymc_active as pma

    year, passengers = pma.datasets.airline()
    rows = np.sort(np.random.default_rng(0).choice(len(passengers), n, replace=False))
    X, y = year.to_numpy(float)[rows], passengers.to_numpy(float)[rows]
    found = []
    for expression in pma.kernels.paper_models("airline", rooted=rooted):
        if rooted and "LIN0" not in str(expression):
            continue
        gpm = pma.composite_gp(X, y, expression, x_scale="unit", y_scale="standardize")
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)
            fit = pma.fit_laplace(gpm, n_restarts=n_restarts, population=0, random_seed=0, progressbar=False)
        start = time.perf_counter()
        estimate = fit.sampled_evidence(draws=draws, random_seed=0)
        found.append(
            {
                "model": str(expression).replace("LIN0", "LIN"),
                "n_modes": len(fit.modes),
                "laplace": fit.evidence.value,
                "best_mode": fit.log_evidence,
                "difference": fit.evidence.value - estimate.log_evidence,
                "seconds": time.perf_counter() - start,
                **estimate._asdict(),
            }
        )
    return found


def counted(results: list[dict]) -> list[dict]:
    return [r for r in results if r["effective_sample_size"] >= FEWEST]


def draw(by_case: dict[str, list[dict]]):
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(figsize=(7.5, 5))
    models = [r["model"] for r in by_case["15"]]
    for offset, color, (n, results) in zip((-0.2, 0.0, 0.2), COLOURS, by_case.items(), strict=True):
        for i, r in enumerate(results):
            trusted = r["effective_sample_size"] >= FEWEST
            axes.errorbar(
                r["difference"],
                models.index(r["model"]) + offset,
                xerr=2 * r["standard_error"],
                fmt="o" if trusted else "x",
                color=color,
                markersize=4,
                label=f"n = {n}" if not i else None,
            )
    axes.set_yticks(range(len(models)), models, fontsize=8)
    axes.invert_yaxis()
    axes.axvspan(-LARGEST_DIFFERENCE, LARGEST_DIFFERENCE, color="0.93", zorder=0)
    axes.axvline(0, color="0.5", linewidth=0.8)
    axes.set_xlabel(
        f"Laplace, modes summed - importance sampling, nats (± 2 se; x: fewer than {FEWEST} effective draws)"
    )
    axes.legend(frameon=False)
    axes.spines[["top", "right"]].set_visible(False)
    figure.tight_layout()
    return figure


def main() -> None:
    arguments = _report.parser(__doc__).parse_args()
    if arguments.child:
        print(json.dumps(run(**json.loads(arguments.child))))
        return
    options = {"draws": 4000, "n_restarts": 4} if arguments.quick else {"draws": 20_000, "n_restarts": 12}
    by_case = {name: _report.child({**case, **options}, threads=1) for name, case in CASES.items()}
    targets = []
    for n, results in by_case.items():
        print(f"\nn = {n}")
        columns = ("laplace", "difference", "standard_error", "effective_sample_size", "pareto_k", "seconds")
        rows = [(r["model"], r["n_modes"], *(f"{r[name]:.2f}" for name in columns)) for r in results]
        _report.table(("model", "modes", *columns), rows)
        largest = max(abs(r["difference"]) for r in counted(results))
        what = f"largest difference at n = {n} (nats), {len(counted(results))} of {len(results)} models"
        if n.startswith("60"):
            targets.append(_report.target(what, largest, "<=", LARGEST_DIFFERENCE))
        else:
            print(f"{what}: {largest:.2f}")
    _report.write(__doc__, quick=arguments.quick, threads="1", targets=targets, results=by_case, figure=draw(by_case))


if __name__ == "__main__":
    main()
