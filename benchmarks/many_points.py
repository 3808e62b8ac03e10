"""Time and memory of fits and suggestions with many points.

How do time and memory grow with the number of points, for every goal?

A smooth function of six inputs, of which three matter, with noise of 7 % of its sd: ``pma.fit`` to n points with known
bounds, predictions of 500 other points, and for each goal a learner's first ask in the box, given that fit, and its
second ask after one told point. Each n is one fresh process with one thread; times are CPU seconds, as the machine may
have other work. The goal "model" compares two kernels and makes its own fits. At the end a fit to 500 of the most
points, those of ``informative_rows``.

Targets: a fit to 1,000 points in 15 s, to 3,000 in 3 minutes, 2,000 points within 1 GiB; 90 % intervals of the fits
cover 85 to 95 % of the test outputs.
"""

from __future__ import annotations

import dataclasses
import json
import sys
import time
import warnings
from functools import partial, reduce
from operator import getitem

import _report
from _records import Key, main

SIZES, GOALS = (100, 300, 1000, 2000, 3000), ("function", "hyperparameters", "maximum")
# Asks are measured up to so many points, those of the goal "model" up to fewer; max_points with the largest n.
LARGEST_ASKS, LARGEST_MODELS, MAX_POINTS = 2000, 1000, 500
D, NOISE, N_TEST, PROBABILITIES = 6, 0.07, 500, (0.05, 0.95)
GIB = 2**30


def make_data(n: int):
    import numpy as np

    def f(X):
        return np.sin(2 * X[:, 0]) + 0.7 * np.cos(2.5 * X[:, 1] + X[:, 0]) + 0.3 * X[:, 2] ** 2

    rng = np.random.default_rng(n)
    X = rng.uniform(-1, 1, size=(n + N_TEST, D))
    sd = NOISE * f(X).std()
    y = f(X) + sd * rng.normal(size=len(X))
    return f, X[:n], y[:n], X[n:], y[n:]


def measured(call):
    """A result, with CPU and wall seconds, and the peak memory so far in GiB."""
    cpu, wall = time.process_time(), time.perf_counter()
    result = call()
    seconds = {"cpu": time.process_time() - cpu, "wall": time.perf_counter() - wall}
    return result, {**seconds, "GiB": _report.peak_memory() / GIB}


def scores(fit, X_test, y_test, f) -> dict:
    """Predictions of other points: RMSE over the sd of the function, NLL, coverage."""
    import numpy as np

    import pymc_active as pma

    p, cost = measured(lambda: pma.predict(fit, X_test, y_new=y_test, quantiles=PROBABILITIES))
    low, high = p.y_quantile.to_numpy()
    return {
        "predict": cost,
        "rmse": float(np.sqrt(np.mean((p.f_mean - f(X_test)) ** 2)) / f(X_test).std()),
        "nll": -float(p.y_log_density.mean()),
        "inside_90": float(np.mean((y_test >= low) & (y_test <= high))),
        "log_evidence": fit.log_evidence,
        "log_evidence_error": fit.log_evidence_error,
        "n_particles": fit.diagnostics["n_particles"],
        "n_weighted": fit.diagnostics.get("n_weighted"),
    }


def asks(learner, f) -> dict:
    x, first = measured(learner.ask)
    learner.tell(x, f(x))
    _, second = measured(learner.ask)
    return {"first": first, "second": second}


def run(n: int, what: str) -> dict:
    import pymc_active as pma

    warnings.simplefilter("ignore", pma.ActiveWarning)
    bounds = [(-1, 1)] * D
    f, X, y, X_test, y_test = make_data(n)
    if what == "model":
        models = [pma.composite_gp(X, y, kernel, bounds=bounds) for kernel in ("SE", "MAT52")]
        learner = pma.active.Learner(models, "model", bounds=bounds, random_seed=1)
        _, cost = measured(lambda: learner.fit)
        return {"fit": cost, **asks(learner, f)}
    gpm = pma.ard_gp(X, y, bounds=bounds)

    def fitted():
        rows = pma.informative_rows(gpm, MAX_POINTS, random_seed=1) if what == "max_points" else slice(None)
        return pma.fit(pma.ard_gp(X[rows], y[rows], bounds=bounds), random_seed=1, progressbar=False)

    fit, cost = measured(fitted)
    found = {"fit": cost, **scores(fit, X_test, y_test, f)}
    for goal in GOALS if what == "one model" and n <= LARGEST_ASKS else ():
        gpm.set_data(X, y)
        learner = pma.active.Learner(gpm, goal, bounds=bounds, random_seed=1)
        # The fit is known, so that only the ask is measured.
        subject = learner._run.subject
        track = subject.tracks["model"]
        track = dataclasses.replace(track, last=dataclasses.replace(fit, gpm=track.gpm))
        subject = dataclasses.replace(subject, tracks={"model": track})
        learner._current.run = dataclasses.replace(learner._run, subject=subject, fit=fit, steps=())
        found[goal] = asks(learner, f)
    return found


def record(what: str, n: str, repeat: int) -> dict:
    """Of a process of its own; ``what`` and ``n`` are the row and the method of the key."""
    return {"n": int(n), "what": what, **_report.child({"n": int(n), "what": what}, threads=1)}


def keys() -> list[Key]:
    models = [("model", str(n), 0) for n in SIZES if n <= LARGEST_MODELS]
    return [*(("one model", str(n), 0) for n in SIZES), ("max_points", str(SIZES[-1]), 0), *models]


def targets(known: dict) -> list[dict]:
    found = []
    for n, most in ((1000, 15), (3000, 180)):
        if (n, "one model") in known:
            found.append(_report.target(f"fit to {n:,} points, CPU s", known[n, "one model"]["fit"]["cpu"], "<=", most))
    if (2000, "one model") in known:
        peak = known[2000, "one model"]["predict"]["GiB"]
        found.append(_report.target("fit and predictions, 2,000 points, GiB", peak, "<=", 1))
    covered = [record["inside_90"] for (_, what), record in known.items() if what == "one model"]
    found.append(_report.target("smallest coverage of 90 % intervals", min(covered), ">=", 0.85))
    found.append(_report.target("largest coverage of 90 % intervals", max(covered), "<=", 0.95))
    return found


def draw(known: dict):
    figure, (left, right) = _report.panels(1, 2, figsize=(10, 4))
    rows = sorted((n, record) for (n, what), record in known.items() if what == "one model")
    asked = [(n, record) for n, record in rows if GOALS[0] in record]

    def line(axes, known, style, color, label, *keys):
        values = [reduce(getitem, keys, record) for _, record in known]
        axes.loglog([n for n, _ in known], values, style, color=color, label=label)

    line(left, rows, "o-", _report.BLUE, "fit", "fit", "cpu")
    for goal, style in zip(GOALS, ("o--", "s--", "^--"), strict=True):
        line(left, asked, style, _report.ORANGE, f"ask, {goal}", goal, "second", "cpu")
    line(right, rows, "o-", _report.BLUE, "fit and predictions", "predict", "GiB")
    line(right, asked, "s--", _report.ORANGE, "with asks", "maximum", "second", "GiB")
    left.set(xlabel="points", ylabel="CPU seconds")
    right.set(xlabel="points", ylabel="peak memory (GiB)")
    for axes in (left, right):
        axes.legend()
    return figure


def report(records):
    known = {(record["n"], record["what"]): record for record in records.values()}
    _report.table_of([{"n": n, "what": what, **known[n, what]["fit"]} for n, what in sorted(known)])
    return [record for _, record in sorted(known.items())], draw(known), targets(known)


if __name__ == "__main__":
    if "--child" in sys.argv:
        print(json.dumps(run(**json.loads(sys.argv[-1]))))
    else:
        small = {(what, "20", 0): partial(record, what, "20", 0) for what in ("one model", "model")}
        main(__doc__, keys(), record, report, small)
