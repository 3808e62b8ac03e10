"""How much faster than at random are the best rows of two public tables of materials found?

    python benchmarks/outside/materials.py --data FOLDER --minutes 30   # makes missing records for so long; resumable
    python benchmarks/outside/materials.py                              # table, JSON and picture from the records

Crossed Barrel (toughness of 600 printed structures, four inputs) and AutoAM (score of 100 printed lines, four inputs),
tables of Liang et al. (2021), "Benchmarking the performance of Bayesian optimization across multiple experimental
materials science domains", which compares Gaussian processes and random forests on them. FOLDER has the CSV files.
Each run starts from two random rows, as there, the same for all methods. Ours is the plain way,
``pma.ard_gp(X, y, bounds=box of the table)`` and ``Learner(gpm, "maximum", pool=X, criterion=...)``; the peer is
expected improvement by the mean and spread of a random forest of 100 trees. Recorded is the number of rows among the
best 5 % that were measured after each answer. At random, a share t of them takes t N measurements in the mean: the
acceleration is that number by the number of measurements of a method.
"""

import os
import sys
from pathlib import Path

os.environ.setdefault("OMP_NUM_THREADS", "1")
sys.path.insert(0, str(Path(__file__).parent.parent))

import time
import warnings

import numpy as np
import pandas as pd

PATH = Path(__file__).parent / "results" / "materials.jsonl"
# File, number of asks.
TABLES = {"crossed_barrel": ("materials_crossed_barrel.csv", 78), "autoam": ("materials_autoam.csv", 48)}
METHODS = ("default", "pes", "forest")
REPEATS, N_START, BEST = 10, 2, 0.05
# Shares of the best rows for which accelerations are shown.
SHARES = (0.2, 0.4, 0.6)


def table(name, folder):
    numbers = pd.read_csv(Path(folder) / "outside" / TABLES[name][0], header=None).to_numpy(float)
    X, where = np.unique(numbers[:, :-1], axis=0, return_inverse=True)
    return X, np.bincount(where.ravel(), numbers[:, -1]) / np.bincount(where.ravel())


def ours(X, y, start, n_ask, method, seed):
    import pymc_active as pma

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
    from scipy.stats import norm
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


def run(folder):
    def one(name, method, repeat):
        X, y = table(name, folder)
        n_ask = TABLES[name][1]
        start = np.random.default_rng(repeat).choice(len(y), N_START, replace=False)
        begin = time.process_time()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            if method == "forest":
                rows = forest(X, y, start, n_ask, repeat)
            else:
                rows = ours(X, y, start, n_ask, method, repeat)
        best = np.argsort(-y)[: round(BEST * len(y))]
        found = np.cumsum(np.isin(rows, best))
        regret = y.max() - np.maximum.accumulate(y[rows])
        return {
            "n_rows": len(y),
            "n_best": len(best),
            "found": found.tolist(),
            "regret_in_sds": (regret / y.std()).round(4).tolist(),
            "seconds_an_ask": round((time.process_time() - begin) / n_ask, 3),
        }

    return one


def keys(methods, repeats):
    for repeat in range(repeats):
        for name in TABLES:
            for method in methods:
                yield name, method, repeat


def needed(record, share):
    """Measurements until a share of the best rows is found, NaN if it never was."""
    enough = np.flatnonzero(np.array(record["found"]) >= share * record["n_best"])
    return enough[0] + 1.0 if len(enough) else np.nan


def summarize(records, methods):
    rows = []
    for name in TABLES:
        repeats = [r for r in range(REPEATS) if all((name, m, r) in records for m in methods)]
        for method in methods:
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
            found = np.array([record["found"][-1] / record["n_best"] for record in runs])
            row |= {
                "measured": len(runs[0]["found"]),
                "found": float(found.mean()),
                "found_se": float(found.std(ddof=1) / np.sqrt(len(runs))) if len(runs) > 1 else None,
                "best_row_found": int(sum(record["regret_in_sds"][-1] == 0 for record in runs)),
                "seconds_an_ask": float(np.mean([record["seconds_an_ask"] for record in runs])),
            }
            rows.append(row)
    return rows


def picture(records, methods):
    import matplotlib as mpl

    mpl.use("Agg")
    import matplotlib.pyplot as plt

    labels = {"default": 'learn="maximum"', "pes": 'criterion="pes"', "forest": "random forest, EI"}
    figure, axes = plt.subplots(1, len(TABLES), figsize=(8, 3.4), sharey=True, layout="constrained")
    for ax, name in zip(axes, TABLES, strict=True):
        for k, method in enumerate(methods):
            runs = [r for (n, m, _), r in records.items() if (n, m) == (name, method)]
            if not runs:
                continue
            shares = np.array([r["found"] for r in runs]) / runs[0]["n_best"]
            count = 1 + np.arange(shares.shape[1])
            ax.plot(count, shares.mean(0), color=f"C{k}", label=labels.get(method, method))
            ax.fill_between(count, *np.quantile(shares, [0.1, 0.9], axis=0), color=f"C{k}", alpha=0.15, lw=0)
        first = next(r for (n, _, _), r in records.items() if n == name)
        count = 1 + np.arange(len(first["found"]))
        ax.plot(count, count / first["n_rows"], color="0.5", ls=":", label="at random, in the mean")
        ax.set_title(f"{name}, {first['n_rows']} rows", fontsize=10)
        ax.set_xlabel("measured")
        ax.spines[["top", "right"]].set_visible(False)
    axes[0].set_ylabel("share of the best 5 % found")
    axes[0].legend(frameon=False, fontsize=8)
    return figure


def main():
    from _records import fill, load
    from _report import parser, write

    arguments = parser(__doc__)
    arguments.add_argument("--minutes", type=float, default=0.0)
    arguments.add_argument("--methods", nargs="*", default=list(METHODS))
    arguments.add_argument("--repeats", type=int, default=REPEATS)
    arguments.add_argument("--data")
    options = arguments.parse_args()
    if options.minutes:
        fill(PATH, keys(options.methods, options.repeats), run(options.data), options.minutes)
    records = {key: record for key, record in load(PATH).items() if key[1] in options.methods}
    rows = summarize(records, options.methods)
    for row in rows:
        print(" ".join(f"{v:.3g}" if isinstance(v, float) else str(v) for v in row.values()))
    sources = sorted({record["source"] for record in records.values()})
    write(
        __doc__,
        quick=options.quick,
        threads="1",
        targets=[],
        results={"versions_of_the_records": sources, "table": rows},
        figure=picture(records, options.methods),
    )


if __name__ == "__main__":
    main()
