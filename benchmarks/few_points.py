"""Do the intervals of the plain way hold when there are two, three, ... points?

``pma.fit(pma.ard_gp(X, y, bounds=bounds))``, whose priors follow the mean and sd of y, on functions of one and three
inputs in [-1, 1]^D: draws from the default priors around a scale of one, Gaussian bumps and slopes with a wave. Thirty
data sets of each kind and number of points; 200 new observations each. Scores: the share of them inside the central
90 % interval, the share of data sets in which fewer than 60 % are, and the negative log density (nats).
"""

from functools import partial

import _one_thread  # noqa: F401
import numpy as np
from _records import every, main
from _report import panels, table_of, target

import pymc_active as pma

POINTS, REPEATS, N_NEW = (2, 3, 4, 5, 8, 12, 20, 40), 30, 200


def draw_of_the_priors(X, rng):
    D = X.shape[1]
    lengthscale, scale = np.exp(rng.normal(0.5 * np.log(D), 1, D)), np.exp(rng.normal())
    noise, level = np.exp(rng.normal(np.log(0.1), 1)), rng.normal()
    K = np.exp(-0.5 * np.square((X[:, None] - X) / lengthscale).sum(-1)) + 1e-8 * np.eye(len(X))
    return level + scale * np.linalg.cholesky(K) @ rng.normal(size=len(X)), noise


def bump(X, rng):
    D = X.shape[1]
    center, width = rng.uniform(-0.7, 0.7, D), rng.uniform(0.5, 1.2, D)
    return 20 + 60 * np.exp(-0.5 * np.square((X - center) / width).sum(1)), 1.0


def slope(X, rng):
    return 50 + X @ (10 * rng.normal(size=X.shape[1])) + 3 * np.sin(2 * X[:, 0]), 1.0


FUNCTIONS = {"draws of the priors": draw_of_the_priors, "bumps": bump, "slopes": slope}
ROWS = {f"{name}, {D} input{'s' * (D > 1)}": (make, D) for name, make in FUNCTIONS.items() for D in (1, 3)}


def record(row, n, repeat):
    make, D = ROWS[row]
    rng = np.random.default_rng((repeat, int(n), D))
    X = rng.uniform(-1, 1, (int(n) + N_NEW, D))
    f, noise = make(X, rng)
    y = f + noise * rng.normal(size=len(f))
    n = int(n)
    gpm = pma.ard_gp(X[:n], y[:n], bounds=[(-1, 1)] * D)
    fit = pma.fit(gpm, random_seed=repeat, progressbar=False)
    p = pma.predict(fit, X[n:], quantiles=(0.05, 0.95), y_new=y[n:])
    low, high = p.y_quantile.to_numpy()
    return {"coverage_90": float(np.mean((low < y[n:]) & (y[n:] < high))), "nll": float(-p.y_log_density.mean())}


def summarize(records):
    table = []
    for row in ROWS:
        for n in POINTS:
            found = [r for (name, points, _), r in records.items() if (name, points) == (row, str(n))]
            coverage = np.array([r["coverage_90"] for r in found])
            if len(found):
                table.append({
                    "functions": row,
                    "points": n,
                    "data sets": len(found),
                    "90 % intervals hold": float(coverage.mean()),
                    "standard error": float(coverage.std() / np.sqrt(len(found))),
                    "below 60 %": float((coverage < 0.6).mean()),
                    "NLL, median": float(np.median([r["nll"] for r in found])),
                })  # fmt: skip
    return table


def picture(table):
    figure, ax = panels(figsize=(6, 3.6))
    for k, row in enumerate(ROWS):
        of_row = [r for r in table if r["functions"] == row]
        x = np.array([r["points"] for r in of_row]) * (1 + 0.01 * (k - 2.5))
        error = [r["standard error"] for r in of_row]
        ax.errorbar(x, [r["90 % intervals hold"] for r in of_row], error, fmt="o-", ms=4, lw=1, label=row)
    ax.axhline(0.9, color="0.5", ls="--", lw=1, zorder=0)
    ax.set(xscale="log", xlabel="points", ylabel="share inside the 90 % interval", ylim=(0.5, 1))
    ax.set_xticks(POINTS, map(str, POINTS))
    ax.minorticks_off()
    ax.legend(fontsize=8)
    return figure


def report(records):
    table = summarize(records)
    table_of(table)
    later = [r["90 % intervals hold"] for r in table if r["points"] >= 5]
    targets = [target("smallest share inside, from five points on", min(later), ">=", 0.85)] if later else []
    return {"table": table}, picture(table), targets


if __name__ == "__main__":
    small = {(row, "5", 0): partial(record, row, "5", 0) for row in ROWS}
    main(__doc__, every(ROWS, [str(n) for n in POINTS], REPEATS), record, report, small)
