"""Which first design shows the embedding, or the lengthscales, of a function of many inputs?

Functions of D inputs with noise of sd 0.1: "20/2, 42" are functions on embeddings of 20 inputs in 2 components from
``embedding_gp``'s prior (lengthscale and output scale one), fitted to 42 points by ``embedding_gp``; "10, 21" are
functions of 10 inputs with lengthscales from ``ard_gp``'s prior, fitted to 21 points by ``ard_gp``. The points are
random, a Latin hypercube, or ``gradient_design`` with so many centres and such a radius ("2 x 0.7") and the rest at
random. Errors of the hyperparameters are the mean over the principal angles (degrees; medians over the posterior)
between R and the truth, or the root mean square of the posterior means of the log lengthscales less the truth. RMSE
and NLL (nats) are those of 300 noisy outputs at random test points.

Target: with the default design and the rest at random, errors of the hyperparameters are smaller than with random
points.
"""

from functools import partial

import _one_thread  # noqa: F401
import numpy as np
from _problems import random_embedding_problem
from _records import main
from _report import mean_and_error, panels, table_of, target

import pymc_active as pma

NOISE, N_TEST = 0.1, 300
DEFAULT = "1 x 0.7"
SOME, ALL = ["random", "latin", DEFAULT], ["random", "latin", DEFAULT, "2 x 0.5", "2 x 0.7", "2 x 1", "3 x 0.7"]
# Inputs, components (None for lengthscales), points, designs.
ROWS = {
    "10, 11": (10, None, 11, SOME),
    "10, 21": (10, None, 21, SOME),
    "20, 31": (20, None, 31, SOME),
    "10/2, 33": (10, 2, 33, ALL),
    "20/2, 42": (20, 2, 42, [method for method in ALL if method != "3 x 0.7"]),
    "20/2, 63": (20, 2, 63, ALL),
    "20/3, 103": (20, 3, 103, [*SOME, "3 x 0.7"]),
}
REPEATS = 20


def points(method, bounds, n, seed):
    if method == "random":
        return pma.active.random_design(bounds, n, seed)
    if method == "latin":
        return pma.active.latin_hypercube(bounds, n, seed)
    n_centers, radius = method.split(" x ")
    X = pma.active.gradient_design(bounds, n_centers=int(n_centers), radius=float(radius), random_seed=seed)
    rest = n - len(X)
    return np.concatenate([X, pma.active.random_design(bounds, rest, seed + 1)]) if rest else X


def record(row, method, repeat):
    D, d, n, _ = ROWS[row]
    bounds = [(-1.0, 1.0)] * D
    rng = np.random.default_rng((1, repeat))
    X_test, X = rng.uniform(-1, 1, (N_TEST, D)), points(method, bounds, n, 1000 + repeat)
    both = np.concatenate([X_test, X])
    if d is None:
        log_lengthscale = rng.normal(0.5 * np.log(D), 1, D)
        U = both / np.exp(log_lengthscale)
        # The test points come first, and so have the same outputs for all designs.
        K = np.exp(-0.5 * np.square(U[:, None] - U).sum(-1)) + 1e-8 * np.eye(len(U))
        f = np.linalg.cholesky(K) @ rng.normal(size=len(U))
    else:
        problem = random_embedding_problem(D, d, random_seed=np.random.default_rng((D, d, repeat)))
        f = problem.function(both)
    y = f + NOISE * rng.normal(size=len(f))
    make = pma.ard_gp if d is None else pma.embedding_gp
    gpm = make(X, y[N_TEST:], **({} if d is None else {"n_components": d}))
    fit = pma.fit(gpm, random_seed=repeat, progressbar=False)
    if d is None:
        e = fit.ensemble
        result = {"error": float(np.sqrt(np.mean(np.square(e.weights @ e.thetas[:, :D] - log_lengthscale))))}
    else:
        angles = pma.subspace_angles(fit, problem.R, random_seed=1).angle.sel(summary="median").to_numpy()
        result = {"error": float(angles.mean()), "angles": angles.round(2).tolist()}
    p = pma.predict(fit, X_test, y_new=y[:N_TEST])
    return result | {
        "rmse": float(np.sqrt(np.mean(np.square(p.f_mean.to_numpy() - y[:N_TEST])))),
        "nll": float(-p.y_log_density.mean()),
    }


def summarize(records):
    """Means over the repeats that all designs of a row have, with paired differences to random points."""
    table = []
    for row, (*_, methods) in ROWS.items():
        runs = {m: {r: v for (w, k, r), v in records.items() if (w, k) == (row, m)} for m in methods}
        common = sorted(set.intersection(*map(set, runs.values())))
        for method in methods if common else ():
            entry = {"row": row, "design": method, "repeats": len(common)}
            if "angles" in runs[method][common[0]]:
                entry["angles"] = np.mean([runs[method][r]["angles"] for r in common], axis=0).round(1).tolist()
            for name in ("error", "rmse", "nll"):
                values, random = (np.array([runs[m][r][name] for r in common]) for m in (method, "random"))
                entry[name] = float(values.mean())
                entry[f"{name}_less_random"], entry[f"{name}_se"] = mean_and_error((values - random).tolist())
            table.append(entry)
    return table


def picture(table):
    figure, axes = panels(1, 3, figsize=(12, 3.8))
    shown = {"error": "error of hyperparameters / that of random points", "rmse": "RMSE", "nll": "NLL (nats)"}
    rows = list(dict.fromkeys(e["row"] for e in table))
    for ax, (name, title) in zip(axes, shown.items(), strict=True):
        for i, row in enumerate(rows):
            some = [e for e in table if e["row"] == row]
            unit = some[0]["error"] if name == "error" else 1.0
            ax.errorbar(
                [ALL.index(e["design"]) + 0.1 * (i - len(rows) / 2) for e in some],
                [(name == "error") + e[f"{name}_less_random"] / unit for e in some],
                [e[f"{name}_se"] / unit for e in some],
                fmt="o",
                ms=4,
                label=f"{row} points, {some[0]['repeats']} functions",
            )
        ax.axhline(name == "error", color="black", lw=0.8)
        ax.set_title(title if name == "error" else f"{title}, less that of random points", fontsize=9)
        ax.set_xticks(range(len(ALL)), ALL, rotation=60)
    axes[2].legend(fontsize=7, loc="upper left", bbox_to_anchor=(1, 1))
    return figure


def report(records):
    table = summarize(records)
    table_of([{name: value for name, value in e.items() if name != "angles"} for e in table])
    targets = [
        target(f"{e['row']} points: error less that of random points", e["error_less_random"], "<", 0)
        for e in table
        if e["design"] == DEFAULT
    ]
    return {"table": table}, picture(table), targets


if __name__ == "__main__":
    keys = [(row, method, repeat) for repeat in range(REPEATS) for row in ROWS for method in ROWS[row][-1]]
    # Lengthscales first, because they cost little.
    keys.sort(key=lambda key: ROWS[key[0]][1] is not None)
    small = {("10, 11", method, 0): partial(record, "10, 11", method, 0) for method in SOME}
    main(__doc__, keys, record, report, small)
