"""What do runs that ask know after 10, 20 and 30 points, when their own points predict?

    python benchmarks/runs_that_ask.py --minutes 20    # makes missing records for so long; resumable
    python benchmarks/runs_that_ask.py                 # table, JSON and picture from the records

Functions are drawn from ``embedding_gp``'s default prior on 10 inputs and 2 components, with outputs of unit scale and
noise of sd 0.1. A run starts from 5 random points of a pool of 1,000 and asks for 25 more: at random, by
``learn="function"`` or by ``learn="hyperparameters"``, with the default inference and, ``laplace``, with
``inference="laplace"``, that of the first round. RMSE, NLL (nats, of the predictive mixture) and the share of outputs
inside 90 % intervals are those of 300 test points.

Target: NLL of random points at most 1.4, 1.2 and 1.0 at 10, 20 and 30 points.
"""

import os

os.environ.setdefault("OMP_NUM_THREADS", "1")

import time
import warnings

import numpy as np
from _records import recorded
from _report import BLUE, GREY, ORANGE, RESULTS, target, write

import pymc_active as pma

PATH = RESULTS / "runs_that_ask.jsonl"
D, COMPONENTS, NOISE = 10, 2, 0.1
N_START, N_POOL, N_TEST, CHECKED = 5, 1000, 300, (10, 20, 30)
DESIGNS = {
    "random": {"learn": "function", "criterion": "random"},
    "function": {"learn": "function"},
    "hyperparameters": {"learn": "hyperparameters"},
}
WAYS = [*DESIGNS, *(f"{design}, laplace" for design in DESIGNS)]
REPEATS = 20


def function(repeat):
    """Points and outputs, the first for the run and the last for the test."""
    rng = np.random.default_rng((1, repeat))
    X = rng.uniform(-1, 1, size=(N_POOL + N_TEST, D))
    U = X @ (1.25 * np.sqrt(3 / D) * rng.normal(size=(COMPONENTS, D))).T
    K = np.exp(-0.5 * np.square(U[:, None] - U).sum(-1)) + 1e-8 * np.eye(len(X))
    return X, np.linalg.cholesky(K) @ rng.normal(size=len(X)) + NOISE * rng.normal(size=len(X))


def run(row, method, repeat):
    X, y = function(repeat)
    design, _, inference = method.partition(", ")
    gpm = pma.embedding_gp(X[:N_START], y[:N_START], n_components=COMPONENTS)
    keywords = DESIGNS[design] | {"inference": inference or "auto", "random_seed": repeat}
    start, result = time.process_time(), {}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        learner = pma.active.Learner(gpm, pool=X[:N_POOL], **keywords)
        while len(learner.y) < CHECKED[-1]:
            x = learner.ask()
            learner.tell(x, y[np.flatnonzero((X == x).all(1))])
            if (n := len(learner.y)) in CHECKED:
                result[str(n)] = scores(learner.fit, X[N_POOL:], y[N_POOL:]) | {"seconds": time.process_time() - start}
    return {"by_points": result}


def scores(fit, X, y):
    p = pma.predict(fit, X, quantiles=(0.05, 0.95), y_new=y)
    low, high = p.y_quantile.to_numpy()
    return {
        "rmse": float(np.sqrt(np.mean(np.square(p.f_mean.to_numpy() - y)))),
        "nll": float(-p.y_log_density.mean()),
        "inside_90": float(np.mean((low < y) & (y < high))),
    }


def summarize(records):
    table = []
    for method in WAYS:
        runs = [r["by_points"] for (_, m, _), r in records.items() if m == method]
        for n in CHECKED if runs else ():
            entry = {"design": method, "n": n, "runs": len(runs)}
            for name in ("rmse", "nll", "inside_90", "seconds"):
                values = np.array([r[str(n)][name] for r in runs])
                entry[name], entry[f"{name}_median"] = float(values.mean()), float(np.median(values))
                entry[f"{name}_se"] = float(values.std(ddof=1) / np.sqrt(len(values))) if len(runs) > 1 else np.nan
            table.append(entry)
    return table


def picture(table):
    import matplotlib as mpl

    mpl.use("Agg")
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(1, 3, figsize=(11, 3.4), layout="constrained")
    colors = {"random": GREY, "function": BLUE, "hyperparameters": ORANGE}
    shown = {"rmse": "RMSE", "nll": "NLL (nats, median)", "inside_90": "inside the 90 % interval (%)"}
    for ax, (name, title) in zip(axes, shown.items(), strict=True):
        for method in WAYS:
            some = [e for e in table if e["design"] == method]
            design, _, inference = method.partition(", ")
            key = "nll_median" if name == "nll" else name
            values = [e[key] * (100 if name == "inside_90" else 1) for e in some]
            ax.plot(
                [e["n"] for e in some],
                values,
                "--" if inference else "-",
                color=colors[design],
                marker="o",
                ms=4,
                label=design + (" (Laplace)" if inference else ""),
            )
        ax.set(title=title, xlabel="points", xticks=CHECKED)
        for side in ("top", "right"):
            ax.spines[side].set_visible(False)
    axes[2].axhline(90, color="black", lw=0.8)
    axes[0].legend(frameon=False, fontsize=8)
    return figure


def main():
    keys = ((f"{D}/{COMPONENTS}", method, repeat) for repeat in range(REPEATS) for method in WAYS)
    options, records = recorded(__doc__, PATH, keys, run)
    table = summarize(records)
    for e in table:
        print(
            f"{e['design']:24} n={e['n']} runs {e['runs']:3} rmse {e['rmse']:.2f} nll {e['nll']:.2f} (median "
            f"{e['nll_median']:.2f}) 90 %: {e['inside_90']:.2f} {e['seconds']:.0f} s"
        )
    limits = dict(zip(CHECKED, (1.4, 1.2, 1.0), strict=True))
    targets = [
        target(f"NLL at {e['n']} random points", e["nll"], "<=", limits[e["n"]])
        for e in table
        if e["design"] == "random"
    ]
    results = {"versions_of_the_records": sorted({r["source"] for r in records.values()}), "table": table}
    write(__doc__, quick=options.quick, threads="1", targets=targets, results=results, figure=picture(table))


if __name__ == "__main__":
    main()
