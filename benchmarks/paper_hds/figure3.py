"""Does HDS survive wrong noise variances and bandwidths?

Figure 3 of Chen, Castro & Krause (2012), and the sentence on b beside it: draws as in figure 2 with D = 200, σ² = 0.1
and b = 0.1, while the tests are told another σ² or b. The paper's "ratio between the mis-estimated σ and the truth"
is taken as one of variances: with σ itself wrong by a factor of ten GPT would not work as its picture says. Pairs of
FDT are 3 b apart, of the b that it is told, and half of the line's length at most. Thresholds (5, -10), a budget of
2,000, the same draws for all methods. *Warned*: the share of runs in which ``hds`` said that its
budget ended, or that a test contradicted itself; *silent*: of wrong ones without such a warning.
"""

from functools import partial

import _above  # noqa: F401
import numpy as np
from _records import every, main
from _report import panels, table
from _runs import BLOCK, METHODS, block, cell, gather, gp_problem, plus_minus, run_hds

NOISE_RATIOS, BANDWIDTH_RATIOS = (0.1, 0.25, 0.5, 1.0, 2.0, 4.0, 10.0), (0.01, 0.1, 0.3, 3.0, 10.0)
ROWS = [f"noise x {r:g}" for r in NOISE_RATIOS] + [f"bandwidth x {r:g}" for r in BANDWIDTH_RATIOS]
RUN = ("gpt", "fdt")
SEED, BLOCKS = 2012, 5
D, NOISE, BANDWIDTH = 200, 0.1, 0.1


def record(row: str, method: str, number: int, trials: int = BLOCK) -> dict:
    what, _, ratio = row.partition(" x ")
    name, true = ("noise_variance", NOISE) if what == "noise" else (what, BANDWIDTH)
    told = {name: true * float(ratio)}

    def trial(i: int) -> dict:
        problem = gp_problem(D, 2, BANDWIDTH, np.random.default_rng((SEED, D, i)))
        return run_hds(problem, method, NOISE, (SEED, D, i, 1), **told)

    return block(trial(i) for i in range(number * BLOCK, number * BLOCK + trials))


def summarise(records: dict) -> dict:
    trials = {row: {method: gather(records, row, method) for method in RUN} for row in ROWS}
    return {row: {method: cell(some) for method, some in of.items() if some} for row, of in trials.items()}


def plot(cells: dict):
    figure, axes = panels(2, 2, figsize=(9.5, 6), sharex="col")
    for i, (what, ratios) in enumerate(
        (("noise", NOISE_RATIOS), ("bandwidth", tuple(sorted((*BANDWIDTH_RATIOS, 1.0)))))
    ):
        for method in RUN:
            # Nothing is wrong at a ratio of 1, whichever scale is meant.
            known = [(r, cells.get("noise x 1" if r == 1 else f"{what} x {r:g}", {}).get(method)) for r in ratios]
            known = [(r, c) for r, c in known if c]
            if not known:
                continue
            label, colour = METHODS[method]
            at, count = [r for r, _ in known], [c["evaluations"] for _, c in known]
            axes[0, i].errorbar(
                at, [c["mean"] for c in count], [3 * c["standard_error"] for c in count],
                color=colour, marker="o", ms=4, capsize=2, label=label,
            )  # fmt: skip
            axes[1, i].plot(at, [c["accuracy"]["mean"] for _, c in known], "o-", ms=4, color=colour)
        axes[0, i].set(yscale="log", xscale="log", title=f"{what} {'variance ' if i == 0 else ''}told / true")
        axes[1, i].set(ylim=(-0.03, 1.03), xlabel="ratio")
    axes[0, 0].set(ylabel="evaluations")
    axes[1, 0].set(ylabel="accuracy")
    axes[0, 0].legend(fontsize=8)
    return figure


def report(records):
    cells = summarise(records)
    rows = [
        [row, METHODS[m][0], c["accuracy"]["n"], f"{c['accuracy']['mean']:.2f}", plus_minus(c["evaluations"]),
         f"{c['warned']:.2f}", f"{c['wrong_without_warning']:.2f}"]
        for row, methods in cells.items()
        for m, c in methods.items()
    ]  # fmt: skip
    table(("told", "method", "trials", "accuracy", "evaluations ± 3 se", "warned", "silent"), rows)
    return cells, plot(cells), []


if __name__ == "__main__":
    small = {(row, m, 0): partial(record, row, m, 0, 2) for row in ("noise x 1", "noise x 2") for m in RUN}
    main(__doc__, every(ROWS, RUN, BLOCKS), record, report, small)
