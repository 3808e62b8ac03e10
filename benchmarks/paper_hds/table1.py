"""Does HDS find the inputs of well-known functions, which are no draws of a Gaussian process?

Table 1 and figure 4 of Chen, Castro & Krause (2012): Quad, QuadMix (d = 2, 4, 6), Branin and Beale, hidden among D =
200 inputs, at most 2,000 evaluations, 40 trials. What the paper leaves open, and how it is read here:

* "All functions are rescaled to [-1, 1]", for inputs, outputs or both. Inputs always are; the outputs are *raw*, or
  *rescaled* so that their smallest value in the box is -1 and their largest 1. No reading gives all of its table: on
  raw outputs CWS would not fail, on rescaled ones HDS would.
* The noise variance is 0.1 for raw and for rescaled outputs, as in its figures. The tests are told b = 0.1, σ_s² = 1
  and σ² = 0.1, and have thresholds (5, -10). The paper takes "the best parameter set found in the previous section" of
  nine, and does not say which that is.
* Quad is |P (x - x*)|² with P = 1/b for relevant inputs and 1/100 for others, b = 0.1, and x* uniform; QuadMix has M
  P (x - x*), M = (1 - r) I + r 1 1', r = 1/D. "+ σ_n²" is the noise.
* CWS has as many pairs along each input as the first success needs, within the budget: 5.

The lasso and ARD screening see 250 random points with rescaled outputs and are told d.
"""

import time
from functools import partial

import _above  # noqa: F401
import numpy as np
import screening
from _problems import BEALE_BOUNDS, HiddenProblem, beale, hidden, quad
from _records import every, main
from _report import panels, table
from _runs import BLOCK, METHODS, block, cell, gather, hidden_branin, noisy, plus_minus, run_cws, run_hds

D, NOISE, BUDGET = 200, 0.1, 2000
N_SCREENED = 250
FUNCTIONS = {
    **{f"Quad, d = {d}": ("quad", d) for d in (2, 4, 6)},
    **{f"QuadMix, d = {d}": ("quadmix", d) for d in (2, 4, 6)},
    **{"Branin": ("branin", 2), "Beale": ("beale", 2)},
}
ROWS = [f"{name}, {scale}" for scale in ("raw", "rescaled") for name in FUNCTIONS]
RUN = ("fdt", "gpt", "gpt_sure", "cws", "lasso", "ard")
# Accuracies and evaluations that are printed (FDT, GPT, CWS).
PAPER = {
    **{f"{name}, d = {d}": {"fdt": 1, "gpt": 1, "cws": 0} for name in ("Quad", "QuadMix") for d in (2, 4)},
    "QuadMix, d = 6": {"fdt": 1, "gpt": 0.95, "cws": 0},
    "Branin": {"fdt": 1, "gpt": 1, "cws": 0.45},
    "Beale": {"fdt": 0, "gpt": 0, "cws": 0.25},
}
PAPER_EVALUATIONS = {
    "Branin": {"fdt": "267 ± 28", "gpt": "236 ± 12", "cws": "1703 ± 96"},
    "Beale": {"fdt": "280 ± 10", "gpt": "674 ± 44", "cws": "1802 ± 82"},
}
SEED, BLOCKS = 2012, 2


def problem(row: str, trial: int) -> HiddenProblem:
    name, _, scale = row.rpartition(", ")
    kind, d = FUNCTIONS[name]
    rng = np.random.default_rng((SEED, list(FUNCTIONS).index(name), trial))
    if kind == "branin":
        made, low, high = hidden_branin(D, rng), 0.397887, 308.129096
    elif kind == "beale":
        made = hidden(beale, BEALE_BOUNDS, D, sorted(rng.choice(D, 2, replace=False).tolist()))
        low, high = 0.0, 181_853.61
    else:
        made = quad(D, d, mix=1 / D if kind == "quadmix" else 0.0, random_seed=rng)
        low, high = 0.0, _largest(made)
    if scale == "raw":
        return made
    return made._replace(function=lambda X: 2 * (made.function(X) - low) / (high - low) - 1)


def _largest(made: HiddenProblem) -> float:
    """The largest value of a convex function among 4,096 corners; exact but for inputs that hardly matter."""
    rng = np.random.default_rng(0)
    corners = rng.choice([-1.0, 1.0], (4096, D))
    d = len(made.active)
    corners[:, made.active] = 2 * ((np.arange(4096)[:, None] >> np.arange(d)) & 1) - 1
    return float(made.function(corners).max())


def record(row: str, method: str, number: int, trials: int = BLOCK) -> dict | None:
    if method in ("lasso", "ard") and row.endswith("raw"):
        return None

    def trial(i: int) -> dict:
        made, seed = problem(row, i), (SEED, i, 1)
        if method == "cws":
            return run_cws(made, NOISE, seed, BUDGET)
        if method in ("lasso", "ard"):
            return screen(made, method, seed)
        return run_hds(made, method, NOISE, seed, budget=BUDGET)

    return block(trial(i) for i in range(number * BLOCK, number * BLOCK + trials))


def screen(made: HiddenProblem, method: str, seed: tuple) -> dict:
    rng = np.random.default_rng(seed)
    X = rng.uniform(-1, 1, (N_SCREENED, D))
    y, d = noisy(made.function, NOISE, rng)(X), len(made.active)
    start = time.process_time()
    found = (screening.lasso if method == "lasso" else screening.ard)(X, y, d)
    seconds = round(time.process_time() - start, 3)
    return {"right": found == made.active, "evaluations": N_SCREENED, "seconds": seconds}


def summarise(records: dict) -> dict:
    cells: dict = {}
    for row in ROWS:
        name = row.rpartition(", ")[0]
        for method in RUN:
            trials = gather(records, row, method)
            if not trials:
                continue
            one = cell(trials)
            if "found" in trials:
                one["share_found"] = float(np.mean(trials["found"]) / FUNCTIONS[name][1])
                one["false"] = float(np.mean(trials["false"]))
            cells.setdefault(row, {})[method] = one
    return {"cells": cells, "paper_accuracy": PAPER, "paper_evaluations": PAPER_EVALUATIONS}


def plot(summary: dict):
    figure, axes = panels(2, 2, figsize=(11, 6), sharex=True)
    methods = [m for m in RUN if any(m in cells for cells in summary["cells"].values())]
    width = 0.8 / len(methods)
    for i, scale in enumerate(("raw", "rescaled")):
        for j, method in enumerate(methods):
            label, colour = METHODS[method]
            for k, name in enumerate(FUNCTIONS):
                one = summary["cells"].get(f"{name}, {scale}", {}).get(method)
                if one:
                    at = k + (j - (len(methods) - 1) / 2) * width
                    axes[0, i].bar(at, one["accuracy"]["mean"], width, color=colour)
                    axes[0, i].plot([at, at], [one["accuracy"]["low"], one["accuracy"]["high"]], color="k", lw=0.6)
                    axes[1, i].bar(at, one["evaluations"]["mean"], width, color=colour)
            axes[0, i].plot([], [], "s", color=colour, label=label)
        axes[0, i].set(title=f"{scale} outputs", ylim=(0, 1.03))
        axes[1, i].set(yscale="log", ylim=(20, 2500))
        axes[1, i].set_xticks(range(len(FUNCTIONS)), [n.replace(", ", "\n") for n in FUNCTIONS], fontsize=8)
    axes[0, 0].set(ylabel="accuracy")
    axes[1, 0].set(ylabel="evaluations")
    figure.legend(*axes[0, 0].get_legend_handles_labels(), fontsize=7.5, loc="outside upper center", ncols=4)
    return figure


def report(records):
    summary = summarise(records)
    rows = [
        [row, METHODS[m][0], c["accuracy"]["n"], f"{c['accuracy']['mean']:.2f}", plus_minus(c["evaluations"]),
         *(f"{c[k]:.2f}" if k in c else "" for k in ("share_found", "false", "warned", "wrong_without_warning"))]
        for row, cells in summary["cells"].items()
        for m, c in cells.items()
    ]  # fmt: skip
    header = "function", "method", "trials", "accuracy", "evaluations ± 3 se", "found", "false", "warned", "silent"
    table(header, rows)
    return summary, plot(summary), []


if __name__ == "__main__":
    small = {("Branin, rescaled", m, 0): partial(record, "Branin, rescaled", m, 0, 2) for m in RUN if m != "ard"}
    main(__doc__, every(ROWS, RUN, BLOCKS), record, report, small)
