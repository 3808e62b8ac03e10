"""Do the evaluations that HDS needs grow with the logarithm of the number of inputs, and with the noise?

Figure 2 of Chen, Castro & Krause (2012): draws of a Gaussian process of d = 2 inputs with b = 0.1 on [-1, 1] and unit
variance, hidden among D inputs; all scales known; 100 draws in each setting, the same for all methods. GPT and FDT
are the paper's tests with thresholds (5, -10), of the nine pairs that it tried, and a budget of 2,000 (10,000 for D
= 200 with the noise varied, which is not reached). CWS adds pairs along every input until the two largest mean squared
differences are those of the relevant ones, which it could not know: the paper's reading, "clairvoyantly", is taken for
each function by itself, and both pairs' ends count.

Accuracy counts a run as right if exactly the two inputs are found. Bars are three standard errors.

Targets: at D = 200 and σ² = 0.1 GPT takes 203-243 evaluations with an accuracy of 0.97 or more, FDT 440-495 with
0.94; they grow by about 33 and 69 evaluations per doubling of D.
"""

from functools import partial

import _above  # noqa: F401
import numpy as np
from _records import every, main
from _report import panels, table, target
from _runs import BLOCK, METHODS, block, cell, gather, gp_problem, plus_minus, run_cws, run_hds

SIZES, NOISES = (10, 20, 40, 80, 200, 400), (0.05, 0.1, 0.25, 0.36)
ROWS = [f"D={D}, noise=0.1" for D in SIZES] + [f"D=200, noise={v}" for v in NOISES if v != 0.1]
RUN = ("gpt", "fdt", "gpt_sure", "cws")
# Printed in the text for D = 200, σ² = 0.1; others are in a picture only. All accuracies are 1 there.
PAPER = {"gpt": 228, "fdt": 412}
SEED, BLOCKS = 2012, 5


def read(row: str) -> tuple[int, float]:
    D, noise = (part.partition("=")[2] for part in row.split(", "))
    return int(D), float(noise)


def record(row: str, method: str, number: int, trials: int = BLOCK) -> dict:
    D, noise = read(row)

    def trial(i: int) -> dict:
        problem = gp_problem(D, 2, 0.1, np.random.default_rng((SEED, D, i)))
        if method == "cws":
            return run_cws(problem, noise, (SEED, D, i, 1))
        return run_hds(problem, method, noise, (SEED, D, i, 1), budget=10_000)

    return block(trial(i) for i in range(number * BLOCK, number * BLOCK + trials))


def slope(points: list[tuple[float, dict]]) -> dict[str, float]:
    """Weighted least squares of mean evaluations, with the standard error that the errors of the means give."""
    x, y = np.array([p[0] for p in points]), np.array([p[1]["mean"] for p in points])
    w = np.array([p[1]["standard_error"] for p in points]) ** -2.0
    middle = np.average(x, weights=w)
    information = (w * (x - middle) ** 2).sum()
    value = (w * (x - middle) * y).sum() / information
    return {"mean": float(value), "standard_error": float(information**-0.5)}


def summarise(records: dict) -> dict:
    cells: dict = {row: {} for row in ROWS}
    for row in ROWS:
        for method in RUN:
            trials = gather(records, row, method)
            if trials:
                cells[row][method] = cell(trials)
                if "seconds" in trials:
                    cells[row][method]["cpu_seconds"] = float(np.mean(trials["seconds"]))
    slopes: dict = {}
    for method in RUN:
        by_size = [(D, cells[f"D={D}, noise=0.1"].get(method)) for D in SIZES]
        known = [(D, c["evaluations"]) for D, c in by_size if c and c["evaluations"]["standard_error"] > 0]
        noisy = [(v, cells[f"D=200, noise={v}"].get(method)) for v in NOISES]
        if len(known) > 2:
            slopes[method] = {
                "per_doubling": slope([(np.log2(D), c) for D, c in known]),
                "per_input": slope([(float(D), c) for D, c in known]),
                "per_tenth_of_noise": slope([(10 * v, c["evaluations"]) for v, c in noisy if c]),
            }
    return {"cells": cells, "slopes": slopes, "paper": PAPER}


def targets(summary: dict) -> list[dict]:
    known = summary["cells"]["D=200, noise=0.1"]
    found = []
    for method, least, low, high, slope in (("gpt", 0.97, 203, 243, 33), ("fdt", 0.94, 440, 495, 69)):
        if method not in known or method not in summary["slopes"]:
            continue
        name, mean = METHODS[method][0], known[method]["evaluations"]["mean"]
        found.append(target(f"{name}, D = 200, σ² = 0.1: accuracy", known[method]["accuracy"]["mean"], ">=", least))
        found.append(target(f"{name}: evaluations", mean, ">=", low))
        found.append(target(f"{name}: evaluations", mean, "<=", high))
        fitted = summary["slopes"][method]["per_doubling"]
        away = abs(fitted["mean"] - slope)
        found.append(target(f"{name}: slope per doubling less {slope}, in evaluations", away, "<=", 0.2 * slope))
    return found


def plot(summary: dict):
    figure, axes = panels(2, 2, figsize=(9.5, 6.2), height_ratios=[2.2, 1], sharex="col")
    for i, (title, rows, x) in enumerate(
        (
            ("D inputs, σ² = 0.1", [f"D={D}, noise=0.1" for D in SIZES], SIZES),
            ("noise variance, D = 200", [f"D=200, noise={v}" for v in NOISES], NOISES),
        )
    ):
        for method in RUN:
            cells = [(at, summary["cells"][row][method]) for row, at in zip(rows, x, strict=True)
                     if method in summary["cells"][row]]  # fmt: skip
            if not cells:
                continue
            label, colour = METHODS[method]
            at = [a for a, _ in cells]
            count = [c["evaluations"] for _, c in cells]
            axes[0, i].errorbar(
                at, [c["mean"] for c in count], [3 * c["standard_error"] for c in count],
                color=colour, marker="o", ms=4, capsize=2, label=label,
            )  # fmt: skip
            axes[1, i].plot(at, [c["accuracy"]["mean"] for _, c in cells], "o-", ms=4, color=colour)
        for method, value in PAPER.items():
            axes[0, i].plot(200 if i == 0 else 0.1, value, "*", ms=11, mec="k", color=METHODS[method][1])
        axes[0, i].set(yscale="log", title=title)
        axes[1, i].set(ylim=(0.8, 1.01))
    axes[0, 0].set(xscale="log", ylabel="evaluations (stars: paper)")
    axes[1, 0].set(ylabel="accuracy", xlabel="D")
    axes[1, 0].set_xticks(SIZES, SIZES)
    axes[1, 0].minorticks_off()
    axes[1, 1].set(xlabel="σ²")
    axes[0, 0].legend(fontsize=7)
    return figure


def report(records):
    summary = summarise(records)
    rows = [
        [row, METHODS[m][0], c["accuracy"]["n"], f"{c['accuracy']['mean']:.3f}", plus_minus(c["evaluations"])]
        for row, cells in summary["cells"].items()
        for m, c in cells.items()
    ]
    table(("setting", "method", "trials", "accuracy", "evaluations ± 3 se"), rows)
    print()
    table(
        ("method", "per doubling of D ± se", "per input ± se", "per 0.1 of σ² ± se"),
        [
            [METHODS[m][0], *(f"{c['mean']:.1f} ± {c['standard_error']:.1f}" for c in found.values())]
            for m, found in summary["slopes"].items()
        ],
    )
    return summary, plot(summary), targets(summary)


if __name__ == "__main__":
    small = {(row, m, 0): partial(record, row, m, 0, 2) for row in ROWS[:1] for m in RUN}
    main(__doc__, every(ROWS, RUN, BLOCKS), record, report, small)
