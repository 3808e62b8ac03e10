"""Does the default search of ``hds`` find both inputs out of 200, and how long does it take with 100,000?

    python benchmarks/paper_hds/default.py                     # goes on where it stopped
    python benchmarks/paper_hds/default.py --report            # JSON and picture of what is stored

Draws of figure 2 (d = 2, D = 200, b = 0.1 on [-1, 1], unit variance), 200 of them that nothing was tuned on; all
scales are known. Then one search with D = 100,000 and σ² = 0.1, asked and told by hand, and the time of every ask,
which includes making the points.

Targets: accuracy of 0.995 with 250 evaluations at most on average at σ² = 0.1, 0.99 at σ² = 0.36; D = 100,000
finishes.
"""

import os

os.environ.setdefault("OMP_NUM_THREADS", "1")

import argparse
import time
from collections.abc import Iterator

import _above  # noqa: F401
import numpy as np
from _records import RESULTS, Key, fill, load
from _report import peak_memory, table, target, write
from _runs import BLOCK, METHODS, SCALES, block, cell, gather, gp_problem, noisy, plus_minus, run_hds

import pymc_active as pma

# Different from those of the other experiments.
SEED = 20120702
NOISES = (0.1, 0.36)
BLOCKS = 10
LARGE = 100_000


def record(row: str, method: str, number: int) -> dict:
    if method == "large":
        return large(number)
    noise = float(row.partition("=")[2])

    def trial(i: int) -> dict:
        problem = gp_problem(200, 2, 0.1, np.random.default_rng((SEED, i)))
        return run_hds(problem, method, noise, (SEED, i, 1))

    return block(trial(i) for i in range(number * BLOCK, (number + 1) * BLOCK))


def large(number: int) -> dict:
    rng = np.random.default_rng((SEED, LARGE, number))
    problem = gp_problem(LARGE, 2, 0.1, rng)
    f = noisy(problem.function, 0.1, rng)
    learner = pma.hds.HDSLearner(LARGE, check=False, random_seed=rng, **SCALES)
    asks, tells, batches = [], [], []
    while not learner.is_finished:
        start = time.perf_counter()
        x = learner.ask()
        middle = time.perf_counter()
        y = f(x)
        asks.append(middle - start)
        batches.append(len(x))
        start = time.perf_counter()
        learner.tell(x, y)
        tells.append(time.perf_counter() - start)
    return {
        "right": [learner.recommend() == problem.active],
        "evaluations": [learner.n_evaluations],
        "nodes": len(learner.state().nodes),
        "ask_ms": {"median": 1e3 * float(np.median(asks)), "largest": 1e3 * max(asks), "n": len(asks)},
        "tell_ms": {"median": 1e3 * float(np.median(tells)), "largest": 1e3 * max(tells)},
        "largest_batch": max(batches),
        "peak_memory_mb": round(peak_memory() / 1e6),
    }


def keys() -> Iterator[Key]:
    for number in range(BLOCKS):
        for noise in NOISES:
            for method in ("default", "default_share1"):
                yield f"noise={noise}", method, number
        if number < 3:
            yield f"D={LARGE}", "large", number


def summarise(records: dict) -> dict:
    cells: dict = {}
    for noise in NOISES:
        for method in ("default", "default_share1"):
            trials = gather(records, f"noise={noise}", method)
            if trials:
                cells[f"σ² = {noise}, {METHODS[method][0]}"] = cell(trials) | {
                    "histogram": trials["evaluations"],
                    "warned": float(np.mean(trials["warned"])),
                    "cpu_seconds": float(np.mean(trials["seconds"])),
                }
    names = ("right", "evaluations", "nodes", "ask_ms", "tell_ms", "largest_batch", "peak_memory_mb", "wall_seconds")
    runs = [{name: r[name] for name in names} for key, r in sorted(records.items()) if key[1] == "large"]
    return {"cells": cells, "large": runs}


def targets(summary: dict) -> list[dict]:
    found = []
    for noise, least in ((0.1, 0.995), (0.36, 0.99)):
        one = summary["cells"].get(f"σ² = {noise}, default")
        if one:
            found.append(target(f"σ² = {noise}: accuracy", one["accuracy"]["mean"], ">=", least))
            if noise == 0.1:
                found.append(target("σ² = 0.1: evaluations", one["evaluations"]["mean"], "<=", 250))
    if summary["large"]:
        right = float(np.mean([run["right"][0] for run in summary["large"]]))
        found.append(target(f"D = {LARGE:,}: accuracy in {len(summary['large'])} runs", right, ">=", 1))
    return found


def plot(summary: dict):
    import matplotlib.pyplot as plt

    figure, ax = plt.subplots(figsize=(6.5, 3.6), layout="constrained")
    for (name, one), colour in zip(
        summary["cells"].items(), ("#009E73", "#117733", "#D55E00", "#882255"), strict=False
    ):
        values = np.sort(one["histogram"])
        share = f"{one['accuracy']['mean']:.3f}"
        ax.step(values, np.arange(1, len(values) + 1) / len(values), color=colour, label=f"{name}: accuracy {share}")
    ax.set(xlabel="evaluations", ylabel="share of searches that have ended", xscale="log")
    ax.legend(fontsize=7, loc="lower left", bbox_to_anchor=(0, 1), ncols=2, frameon=False)
    ax.spines[["top", "right"]].set_visible(False)
    return figure


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--max-minutes", type=float, default=np.inf, help="start no record after this long")
    parser.add_argument("--report", action="store_true", help="only summarise what is stored")
    arguments = parser.parse_args()
    path = RESULTS / "default.jsonl"
    if not arguments.report:
        fill(path, keys(), record, arguments.max_minutes)
    summary = summarise(load(path))
    rows = [
        [name, c["accuracy"]["n"], "{mean:.3f} [{low:.3f}, {high:.3f}]".format(**c["accuracy"]),
         plus_minus(c["evaluations"]), f"{c['warned']:.3f}"]
        for name, c in summary["cells"].items()
    ]  # fmt: skip
    table(("setting", "trials", "accuracy, 95 %", "evaluations ± 3 se", "warned"), rows)
    print()
    rows = [
        [r["right"][0], r["evaluations"][0], r["nodes"],
         *("{median:.1f} ({largest:.1f})".format(**r[what]) for what in ("ask_ms", "tell_ms")),
         f"{r['wall_seconds']:.1f}", r["peak_memory_mb"]]
        for r in summary["large"]
    ]  # fmt: skip
    header = "right", "evaluations", "nodes", "ms an ask, median (largest)", "ms a tell", "wall s", "peak MB"
    table((f"D={LARGE}: {header[0]}", *header[1:]), rows)
    write(
        __doc__, quick=False, threads="one BLAS thread", targets=targets(summary), results=summary, figure=plot(summary)
    )


if __name__ == "__main__":
    main()
