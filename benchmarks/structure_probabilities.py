"""Are the probabilities of kernels that a search returns calibrated?

Series of 40 points are drawn from the prior of the search itself: a kernel of at most two (or three) base kernels with
the default probability, its hyperparameters from the default priors, x uniform in [0, 1]. The search is the default
one, no larger than the prior. Calibrated is: the best kernel is right as often as its probability says, the true one
has on average the probability that a draw from the result would have, and of the series said to have a base kernel with
0.8, eight of ten do.
"""

import os

os.environ.setdefault("OMP_NUM_THREADS", "1")

from functools import partial

import numpy as np
from _records import main
from _report import BLUE, panels, table_of

import pymc_active as pma
from pymc_active.kernels import parse
from pymc_active.kernels.expressions import base_kernels, is_redundant

BASES = ("SE", "PER", "LIN", "RQ", "STEP")
ROWS = {"at most two base kernels": (2, 85), "at most three": (3, 60)}
COST = 1 + np.log(len(BASES))
EDGES = (0, 0.05, 0.2, 0.4, 0.6, 0.8, 0.95, 1)


def kernels(depth):
    """Every kernel of at most so many base kernels, and the constant one; with their prior probabilities."""

    def idle(kernel):
        # Series have the constant mean that the search has by default.
        return is_redundant(kernel, beside_a_constant=True)

    found = level = dict.fromkeys(map(parse, BASES))
    for _ in range(depth - 1):
        children = {child: None for parent in level for child in parent.neighbours(BASES)}
        level = {child: None for child in children if child not in found and not idle(child)}
        found = {**found, **{child: None for child in level if len(base_kernels(child)) <= depth}}
    found = [*found, parse("C")]
    weight = np.exp([-COST * len(base_kernels(kernel)) for kernel in found])
    return found, weight / weight.sum()


def record(row, method, repeat, depth=None):
    depth = depth or ROWS[row][0]
    rng = np.random.default_rng([depth, repeat])
    found, weight = kernels(depth)
    true = found[rng.choice(len(found), p=weight)]
    x = rng.uniform(size=(40, 1))
    posterior = pma.composite_gp(x, np.zeros(40), true, x_scale=None, y_scale=None).posterior()
    theta = posterior.prior.mean + posterior.prior.sd * rng.normal(size=len(posterior.prior.mean))
    factor = posterior.state(theta).factor
    y = factor.L @ rng.normal(size=40) - factor.residual
    scales = {"x_scale": (0.0, 1.0), "y_scale": (0.0, 1.0)}
    result = pma.search.compositional_kernel_search(x, y, depth=depth, random_seed=repeat, progressbar=False, **scales)
    p = result.table.probability.to_series().fillna(0.0)
    right = np.array([parse(label) == true for label in p.index])
    return {
        "true": str(true),
        "best": str(p.idxmax()),
        "probability": float(p.max()),
        "right": bool(right[p.argmax()]),
        "of_true": float(p[right].sum()),
        "expected_of_true": float(np.square(p).sum()),
        "n_kernels": len(p),
        "contains": {base: float(p[p.index.str.contains(rf"\b{base}\b")].sum()) for base in BASES},
        "truly": {base: base in {part.name for part in base_kernels(true)} for base in BASES},
    }


def summary(records):
    columns = ("probability", "right", "of_true", "expected_of_true", "n_kernels", "cpu_seconds")
    means = {name: float(np.mean([r[name] for r in records])) for name in columns}
    p = np.array([r["probability"] for r in records])
    means["standard_error"] = float(np.sqrt((p * (1 - p)).sum()) / len(p))
    said = np.array([r["contains"][base] for r in records for base in BASES])
    true = np.array([r["truly"][base] for r in records for base in BASES])
    part = np.clip(np.digitize(said, EDGES) - 1, 0, len(EDGES) - 2)
    bins = [
        {"said": float(said[part == k].mean()), "true": float(true[part == k].mean()), "count": int((part == k).sum())}
        for k in range(len(EDGES) - 1)
        if (part == k).any()
    ]
    return {**means, "count": len(records), "contains": bins}


def draw(results):
    figure, axes = panels(1, len(results), figsize=(4.2 * len(results), 4.2), squeeze=False)
    for ax, (row, result) in zip(axes[0], results.items(), strict=True):
        ax.plot([0, 1], [0, 1], color="0.6", lw=0.8)
        for one in result["contains"]:
            error = np.sqrt(max(one["said"] * (1 - one["said"]), 1e-4) / one["count"])
            ax.errorbar(one["said"], one["true"], 2 * error, fmt="o", color=BLUE, ms=5)
            ax.annotate(f" {one['count']}", (one["said"], one["true"]), fontsize=8, color="0.4", va="top")
        ax.set(xlabel="probability of a base kernel, as said", ylabel="share of the series that have it", title=row)
        ax.set(xlim=(-0.03, 1.03), ylim=(-0.06, 1.06))
    return figure


def report(records):
    by_row = {row: [r for r in records.values() if r["row"] == row] for row in ROWS}
    results = {row: summary(some) for row, some in by_row.items() if some}
    table_of([{"prior": row} | {k: v for k, v in r.items() if k != "contains"} for row, r in results.items()])
    for row, r in results.items():
        print(f"\nProbability of a base kernel, {row}:")
        table_of(r["contains"])
    return results, draw(results), []


if __name__ == "__main__":
    most = max(n for _, n in ROWS.values())
    keys = [(row, "search", i) for i in range(most) for row, (_, n) in ROWS.items() if i < n]
    row = next(iter(ROWS))
    small = {(row, "search", i): partial(record, row, "search", i, depth=1) for i in range(2)}
    main(__doc__, keys, record, report, small)
