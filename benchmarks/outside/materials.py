"""How much faster than at random are the best rows of two public tables of materials found?

Crossed Barrel (toughness of 600 printed structures, four inputs) and AutoAM (score of 100 printed lines, four inputs),
tables of Liang et al. (2021), "Benchmarking the performance of Bayesian optimization across multiple experimental
materials science domains", which compares Gaussian processes and random forests on them. CSV files are read from the
folder in ``PYMC_ACTIVE_DATA``.
Each run starts from two random rows, as there, the same for all methods. Ours is the plain way,
``pma.ard_gp(X, y, bounds=box of the table)`` and ``Learner(gpm, "maximum", pool=X, criterion=...)``; the peer is
expected improvement by the mean and spread of a random forest of 100 trees. Recorded is the number of rows among the
best 5 % that were measured after each answer. At random, a share t of them takes t N measurements in the mean: the
acceleration is that number by the number of measurements of a method.
"""

import os
import time
from functools import partial
from pathlib import Path

import _above  # noqa: F401
import numpy as np
import pandas as pd
from _records import every, main
from _report import mean_and_error, panels, table_of
from scipy.stats import norm

import pymc_active as pma

DATA = os.environ.get("PYMC_ACTIVE_DATA", "no folder")
# File, number of asks.
TABLES = {"crossed_barrel": ("materials_crossed_barrel.csv", 78), "autoam": ("materials_autoam.csv", 48)}
METHODS = ("default", "pes", "forest")
REPEATS, N_START, BEST = 10, 2, 0.05
# Shares of the best rows for which accelerations are shown.
SHARES = (0.2, 0.4, 0.6)


def table(name):
    numbers = pd.read_csv(Path(DATA) / "outside" / TABLES[name][0], header=None).to_numpy(float)
    X, where = np.unique(numbers[:, :-1], axis=0, return_inverse=True)
    return X, np.bincount(where.ravel(), numbers[:, -1]) / np.bincount(where.ravel())


def ours(X, y, start, n_ask, method, seed):
    gpm = pma.ard_gp(X[start], y[start], bounds=np.column_stack([X.min(0), X.max(0)]))
    keywords = {} if method == "default" else {"criterion": method}
    learner = pma.Learner(gpm, "maximum", pool=X, random_seed=seed, **keywords)
    row_of, rows = {tuple(x): row for row, x in enumerate(X)}, list(start)
    for _ in range(n_ask):
        x = learner.ask()
        rows.append(row_of[tuple(x[0])])
        learner.tell(x, y[rows[-1]])
    return rows


def forest(X, y, start, n_ask, seed):
    from sklearn.ensemble import RandomForestRegressor

    rows = list(start)
    for step in range(n_ask):
        model = RandomForestRegressor(100, random_state=1000 * seed + step).fit(X[rows], y[rows])
        values = np.array([tree.predict(X) for tree in model.estimators_])
        mean, sd = values.mean(0), values.std(0) + 1e-12
        z = (mean - y[rows].max()) / sd
        gain = sd * (z * norm.cdf(z) + norm.pdf(z))
        gain[rows] = -np.inf
        rows.append(int(gain.argmax()))
    return rows


def record(name, method, repeat, n_ask=None):
    try:
        X, y = table(name)
    except FileNotFoundError:
        return None
    n_ask = n_ask or TABLES[name][1]
    start = np.random.default_rng(repeat).choice(len(y), N_START, replace=False)
    begin = time.process_time()
    choose = forest if method == "forest" else partial(ours, method=method)
    rows = choose(X, y, start, n_ask, seed=repeat)
    best = np.argsort(-y)[: round(BEST * len(y))]
    regret = y.max() - np.maximum.accumulate(y[rows])
    return {
        "n_rows": len(y),
        "n_best": len(best),
        "found": np.cumsum(np.isin(rows, best)).tolist(),
        "regret_in_sds": (regret / y.std()).round(4).tolist(),
        "seconds_an_ask": round((time.process_time() - begin) / n_ask, 3),
    }


def needed(record, share):
    """Measurements until a share of the best rows is found, NaN if it never was."""
    enough = np.flatnonzero(np.array(record["found"]) >= share * record["n_best"])
    return enough[0] + 1.0 if len(enough) else np.nan


def summarize(records):
    rows = []
    for name in TABLES:
        repeats = [r for r in range(REPEATS) if all((name, m, r) in records for m in METHODS)]
        for method in METHODS:
            runs = [records[name, method, r] for r in repeats]
            if not runs:
                continue
            row = {"table": name, "method": method, "runs": len(runs)}
            for share in SHARES:
                counts = [needed(record, share) for record in runs]
                at_random = share * runs[0]["n_rows"]
                # The median of counts; runs that never arrived are the slowest.
                median = float(np.median(np.nan_to_num(counts, nan=np.inf)))
                row[f"acceleration_{share}"] = at_random / median if np.isfinite(median) else None
            found, error = mean_and_error([record["found"][-1] / record["n_best"] for record in runs])
            row |= {
                "measured": len(runs[0]["found"]),
                "found": found,
                "found_se": error,
                "best_row_found": int(sum(record["regret_in_sds"][-1] == 0 for record in runs)),
                "seconds_an_ask": float(np.mean([record["seconds_an_ask"] for record in runs])),
            }
            rows.append(row)
    return rows


def picture(records):
    labels = {"default": 'learn="maximum"', "pes": 'criterion="pes"', "forest": "random forest, EI"}
    figure, axes = panels(1, len(TABLES), figsize=(8, 3.4), sharey=True)
    for ax, name in zip(axes, TABLES, strict=True):
        for k, method in enumerate(METHODS):
            runs = [r for (n, m, _), r in records.items() if (n, m) == (name, method)]
            if not runs:
                continue
            shares = np.array([r["found"] for r in runs]) / runs[0]["n_best"]
            count = 1 + np.arange(shares.shape[1])
            ax.plot(count, shares.mean(0), color=f"C{k}", label=labels.get(method, method))
            ax.fill_between(count, *np.quantile(shares, [0.1, 0.9], axis=0), color=f"C{k}", alpha=0.15, lw=0)
        first = next((r for (n, _, _), r in records.items() if n == name), None)
        if first is None:
            continue
        count = 1 + np.arange(len(first["found"]))
        ax.plot(count, count / first["n_rows"], color="0.5", ls=":", label="at random, in the mean")
        ax.set_title(f"{name}, {first['n_rows']} rows", fontsize=10)
        ax.set_xlabel("measured")
    axes[0].set_ylabel("share of the best 5 % found")
    axes[0].legend(fontsize=8)
    return figure


def report(records):
    rows = summarize(records)
    table_of(rows)
    return {"table": rows}, picture(records), []


if __name__ == "__main__":
    small = {("autoam", method, 0): partial(record, "autoam", method, 0, 2) for method in METHODS}
    main(__doc__, every(TABLES, METHODS, REPEATS), record, report, small, peers=("forest",))
