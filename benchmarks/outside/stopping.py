"""Does ``learner.stop`` keep its promise, and how many measurements does it save?

Functions of two and three inputs of ``optimum.py``, with its starts and noise, called as a new user would. After every
second answer ``learner.stop(epsilon, 0.05)`` is asked, epsilon being 0.1 sds of the function, until it says so or 40
points were asked for. Recorded: the number of answers, whether the run stopped, and the regret of the recommended point
in sds. Of the runs that stop, at least 95 % should have a regret of at most 0.1.
"""

import warnings
from functools import partial

import _above  # noqa: F401
import numpy as np
from _functions import FUNCTIONS, NOISES, Problem
from _records import every, main
from _report import panels, table_of, target

import pymc_active as pma

EPSILON, DELTA, N_MOST, EVERY, REPEATS = 0.1, 0.05, 40, 2, 18
NAMES = [name for name, (_, bounds) in FUNCTIONS.items() if len(bounds) <= 3]


def record(name, method, repeat, n_most=N_MOST):
    problem = Problem(name, repeat)
    gpm = pma.ard_gp(problem.X, problem.y, bounds=problem.bounds)
    learner = pma.Learner(gpm, "maximum", bounds=problem.bounds, random_seed=repeat)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        for _ in range(n_most // EVERY):
            learner.run(problem.measure, EVERY, progressbar=False)
            stopped = learner.stop(EPSILON * problem.sd, DELTA)
            if stopped:
                break
        offered = any(issubclass(w.category, pma.DataWarning) for w in caught)
        regret = problem.regret(learner.recommend())
    return {"asked": len(learner.y) - learner.n_start, "stopped": stopped, "regret": regret, "map_offered": offered}


def summarize(records):
    rows = []
    groups = {"all": lambda r: True, "no output map offered": lambda r: not r["map_offered"]}
    groups |= {f"noise {noise:.0%}": lambda r, k=k: r["repeat"] % len(NOISES) == k for k, noise in enumerate(NOISES)}
    groups |= {name: lambda r, name=name: r["row"] == name for name in NAMES}
    for what, belongs in groups.items():
        some = [r for r in records.values() if belongs(r)]
        stopped = [r for r in some if r["stopped"]]
        if some:
            rows.append({
                "runs": what,
                "n": len(some),
                "stopped": len(stopped),
                "kept_promise": float(np.mean([r["regret"] <= EPSILON for r in stopped])) if stopped else None,
                "median_asked": float(np.median([r["asked"] for r in stopped])) if stopped else None,
                "kept_without_stop": float(np.mean([r["regret"] <= EPSILON for r in some])),
            })  # fmt: skip
    return rows


def picture(records):
    figure, ax = panels(figsize=(6.5, 4))
    jitter = np.random.default_rng(0)
    for stopped, color, label in ((True, "C0", "stopped"), (False, "0.6", f"not after {N_MOST}")):
        some = [r for r in records.values() if r["stopped"] is stopped]
        x = [r["asked"] + jitter.uniform(-0.6, 0.6) for r in some]
        ax.semilogy(x, [r["regret"] for r in some], "o", ms=4, alpha=0.6, color=color, label=label)
    ax.axhline(EPSILON, color="0.3", lw=1, ls="--")
    ax.set(xlabel="points asked for", ylabel="regret, sds of the function")
    ax.legend()
    return figure


def report(records):
    rows = summarize(records)
    table_of(rows)
    kept = rows[0]["kept_promise"]
    targets = [target("share of stopped runs with a regret of at most epsilon", kept, ">=", 0.95)] if kept else []
    return {"table": rows}, picture(records), targets


if __name__ == "__main__":
    small = {("branin", "default", 0): partial(record, "branin", "default", 0, 2 * EVERY)}
    main(__doc__, every(NAMES, ("default",), REPEATS), record, report, small)
