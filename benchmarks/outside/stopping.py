"""Does ``learner.stop`` keep its promise, and how many measurements does it save?

    python benchmarks/outside/stopping.py --minutes 60    # makes missing records for so long; resumable
    python benchmarks/outside/stopping.py                 # table, JSON and picture from the records

Functions of two and three inputs of ``optimum.py``, with its starts and noise, called as a new user would. After every
second answer ``learner.stop(epsilon, 0.05)`` is asked, epsilon being 0.1 sds of the function, until it says so or 40
points were asked for. Recorded: the number of answers, whether the run stopped, and the regret of the recommended point
in sds. Of the runs that stop, at least 95 % should have a regret of at most 0.1.
"""

import os
import sys
from pathlib import Path

os.environ.setdefault("OMP_NUM_THREADS", "1")
sys.path.insert(0, str(Path(__file__).parent.parent))

import warnings

import numpy as np
from optimum import FUNCTIONS, NOISES, Problem

PATH = Path(__file__).parent / "results" / "stopping.jsonl"
EPSILON, DELTA, N_MOST, EVERY, REPEATS = 0.1, 0.05, 40, 2, 18
NAMES = [name for name, (_, bounds) in FUNCTIONS.items() if len(bounds) <= 3]


def run(name, method, repeat):
    import pymc_active as pma

    problem = Problem(name, repeat)
    gpm = pma.ard_gp(problem.X, problem.y, bounds=problem.bounds)
    learner = pma.active.Learner(gpm, "maximum", bounds=problem.bounds, random_seed=repeat)
    offered = 0
    for _ in range(N_MOST // EVERY):
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            learner.run(problem.measure, EVERY, progressbar=False)
            stopped = learner.stop(EPSILON * problem.sd, DELTA)
        offered += sum(issubclass(w.category, pma.OutputScaleWarning) for w in caught)
        if stopped:
            break
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        regret = problem.regret(learner.recommend())
    asked = len(learner.y) - learner.n_start
    return {"asked": asked, "stopped": stopped, "regret": regret, "map_offered": bool(offered)}


def summarize(records):
    rows = []
    groups = {"all": lambda r: True, "no output map offered": lambda r: not r["map_offered"]}
    groups |= {f"noise {noise:.0%}": lambda r, k=k: r["repeat"] % len(NOISES) == k for k, noise in enumerate(NOISES)}
    groups |= {name: lambda r, name=name: r["row"] == name for name in NAMES}
    for what, belongs in groups.items():
        some = [r for r in records.values() if belongs(r)]
        stopped = [r for r in some if r["stopped"]]
        if some:
            rows.append(
                {
                    "runs": what,
                    "n": len(some),
                    "stopped": len(stopped),
                    "kept_promise": float(np.mean([r["regret"] <= EPSILON for r in stopped])) if stopped else None,
                    "median_asked": float(np.median([r["asked"] for r in stopped])) if stopped else None,
                    "kept_without_stop": float(np.mean([r["regret"] <= EPSILON for r in some])),
                }
            )
    return rows


def picture(records):
    import matplotlib as mpl

    mpl.use("Agg")
    import matplotlib.pyplot as plt

    figure, ax = plt.subplots(figsize=(6.5, 4), layout="constrained")
    jitter = np.random.default_rng(0)
    for stopped, color, label in ((True, "C0", "stopped"), (False, "0.6", f"not after {N_MOST}")):
        some = [r for r in records.values() if r["stopped"] is stopped]
        x = [r["asked"] + jitter.uniform(-0.6, 0.6) for r in some]
        ax.semilogy(x, [r["regret"] for r in some], "o", ms=4, alpha=0.6, color=color, label=label)
    ax.axhline(EPSILON, color="0.3", lw=1, ls="--")
    ax.set(xlabel="points asked for", ylabel="regret, sds of the function")
    ax.spines[["top", "right"]].set_visible(False)
    ax.legend(frameon=False)
    return figure


def main():
    from _records import recorded
    from _report import target, write

    keys = ((name, "default", repeat) for repeat in range(REPEATS) for name in NAMES)
    options, records = recorded(__doc__, PATH, keys, run)
    rows = summarize(records)
    for row in rows:
        print(row)
    sources = sorted({record["source"] for record in records.values()})
    write(
        __doc__,
        quick=options.quick,
        threads="1",
        targets=[target("share of stopped runs with a regret of at most epsilon", rows[0]["kept_promise"], ">=", 0.95)],
        results={"versions_of_the_records": sources, "table": rows},
        figure=picture(records),
    )


if __name__ == "__main__":
    main()
