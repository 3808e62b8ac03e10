"""Does BAMS find the best kernel structure from fewer points than other designs?

Figure 2 of Malkomes & Garnett (2015): posterior probability of the best of 18 models against the number of
observations, from two random points to 50, on the airline and Mauna Loa series. The best model is the one with the
highest evidence on all data (``table1.py``), under the same priors. Two noise priors (log noise sd ~ N(log 0.1, 1),
our default, and the toolbox's N(log 0.01, 0.1)) and two linear kernels (with a location, our default, and through the
origin). All designs share the Learner, which follows particles of every model (``inference="auto"``), and its starting
points; only the criterion differs.

Mauna Loa needs co2_mauna_loa.csv in the folder that PYMC_ACTIVE_DATA names.
Records are made breadth first and kept in ``results/figure2.jsonl``.
"""

import json
import os
from functools import partial
from pathlib import Path

import _above  # noqa: F401
import numpy as np
import pandas as pd
from _records import RESULTS, Key, every, main
from _report import panels, table, target
from _runs import COLOURS, DESIGNS, PAPERS, area, curve, mean_and_error, run

import pymc_active as pma

N_POINTS = 50
ROWS = {
    f"{series}, {priors} noise, {'rooted' if linear == 'LIN0' else 'located'} LIN": (series, priors, linear)
    for priors, linear in (("wide", "LIN"), ("toolbox", "LIN0"), ("wide", "LIN0"), ("toolbox", "LIN"))
    for series in ("airline", "mauna_loa")
}
MAIN = [name for name in ROWS if name.endswith("wide noise, located LIN")]
# Ten starts of our default priors and of the paper's.
STARTS = {name: 10 for name in ROWS if name in MAIN or "toolbox noise, rooted" in name}


def series(name: str) -> tuple[np.ndarray, np.ndarray]:
    """Years (n, 1) and values (n,), as the papers used them."""
    if name == "airline":
        years, passengers = pma.datasets.airline()
        return years.to_numpy(), passengers.to_numpy()
    data = pd.read_csv(Path(os.environ["PYMC_ACTIVE_DATA"]) / "co2_mauna_loa.csv")
    return data[["year_decimal"]].to_numpy(float), data["co2_ppm"].to_numpy(float)


def record(row: str, design: str, repeat: int, n_points: int = N_POINTS, models: slice = slice(None)) -> dict:
    name, priors, linear = ROWS[row]
    expressions = [str(e) for e in pma.kernels.paper_models(name, rooted=linear == "LIN0")][models]
    return run(expressions, *series(name), design, repeat, n_points, priors)


def best_models() -> dict[str, str]:
    """The model with the highest evidence on all data, by row of ``table1.py``."""
    stored = json.loads((RESULTS / "table1.json").read_text())["results"]
    return {row: max(stored[row]["log_evidence"], key=stored[row]["log_evidence"].get) for row in stored}


def summarise(records: dict[Key, dict]) -> dict:
    summary: dict = {}
    best = best_models()
    for row in ROWS:
        cells = {}
        for design in DESIGNS:
            found = {r: records[row, d, r] for name, d, r in records if (name, d) == (row, design)}
            # The best model of a series is known once its table is.
            if not found or row not in best:
                continue
            curves = np.stack([curve(f, best[row]) for f in found.values()])
            areas = {r: area(f, best[row]) for r, f in found.items()}
            cells[design] = {
                "n": next(iter(found.values()))["n"],
                "mean": curves.mean(0).tolist(),
                # One start says nothing of a spread.
                "standard_error": (curves.std(0, ddof=1) / np.sqrt(len(curves))).tolist() if len(found) > 1 else None,
                "area": mean_and_error(list(areas.values())),
                "at_the_end": mean_and_error(curves[:, -1]),
                "after_a_full_search": mean_and_error(
                    [f["searched"][f["models"].index(best[row])] for f in found.values()]
                ),
                "cpu_seconds": float(np.median([f["cpu_seconds"] for f in found.values()])),
                "_areas": areas,
            }
        for design, cell in cells.items():
            for other in ("random", "uncertainty", "committee"):
                if other in cells and other != design:
                    shared = sorted(cell["_areas"].keys() & cells[other]["_areas"].keys())
                    differences = [cell["_areas"][r] - cells[other]["_areas"][r] for r in shared]
                    cell[f"area_minus_{other}"] = mean_and_error(differences) if differences else None
        if cells:
            summary[row] = {"best": best[row], "designs": cells}
    for row in summary.values():
        for cell in row["designs"].values():
            del cell["_areas"]
    return summary


def targets(summary: dict) -> list[dict]:
    result = []
    for row in MAIN:
        if row not in summary or "bams" not in summary[row]["designs"]:
            continue
        cell = summary[row]["designs"]["bams"]
        if cell.get("area_minus_random"):
            difference = cell["area_minus_random"]
            result.append(target(f"{row}: area of BAMS less RAND's, in standard errors",
                                 difference["mean"] / difference["standard_error"], ">=", 2))  # fmt: skip
        for other in ("uncertainty", "committee"):
            if cell.get(f"area_minus_{other}"):
                what = f"{row}: area of BAMS less {DESIGNS[other]}'s"
                result.append(target(what, cell[f"area_minus_{other}"]["mean"], ">=", -0.10))
        result.append(target(f"{row}: CPU seconds of a run of 50 points", cell["cpu_seconds"], "<=", 60))
    return result


def plot(summary: dict):
    columns = 2
    rows = -(-len(summary) // columns)
    figure, axes = panels(rows, columns, figsize=(9, 2.9 * rows), squeeze=False, sharex=True, sharey=True)
    for ax, (name, row) in zip(axes.flat, summary.items(), strict=False):
        for design, cell in row["designs"].items():
            n, mean = np.array(cell["n"]), np.array(cell["mean"])
            style = "-" if design in PAPERS else "--"
            ax.plot(n, mean, style, color=COLOURS[design], label=DESIGNS[design], lw=1.6 if style == "-" else 1.1)
            if cell["standard_error"] is not None and design in PAPERS:
                error = np.array(cell["standard_error"])
                ax.fill_between(n, mean - error, mean + error, color=COLOURS[design], alpha=0.15, lw=0)
        repeats = {cell["area"]["repeats"] for cell in row["designs"].values()}
        ax.set_title(f"{name} ({'-'.join(map(str, sorted(repeats)))} starts)\n{row['best']}", fontsize=8)
        ax.set_ylim(0, 1)
    for ax in axes[-1]:
        ax.set_xlabel("observations")
    for ax in axes[:, 0]:
        ax.set_ylabel("p(best model)")
    for ax in axes.flat[len(summary) :]:
        ax.set_visible(False)
    axes[0, 0].legend(fontsize=7)
    return figure


def report(records):
    summary = summarise(records)
    for name, row in summary.items():
        print(f"\n{name}: {row['best']}")
        rows = []
        for design, cell in row["designs"].items():
            versus = cell.get("area_minus_random")
            measured = [cell[k] for k in ("area", "at_the_end", "after_a_full_search")]
            shown = [f"{m['mean']:.2f} ± {m['standard_error']:.2f}" for m in measured]
            shown.append(f"{versus['mean']:+.2f} ± {versus['standard_error']:.2f}" if versus else "")
            rows.append([DESIGNS[design], cell["area"]["repeats"], *shown, f"{cell['cpu_seconds']:.0f}"])
        table(("design", "starts", "area", "at n = 50", "after a full search", "area less RAND's", "CPU s"), rows)
    return summary, plot(summary), targets(summary)


if __name__ == "__main__":
    # The expert's and the best of the 18 models.
    small = {(MAIN[0], d, 0): partial(record, MAIN[0], d, 0, 5, slice(-2, None)) for d in ("bams", "random")}
    keys = [key for row, starts in STARTS.items() for key in every([row], PAPERS, starts)]
    main(__doc__, keys, record, report, small)
