"""Does BAMS find the best kernel structure from fewer points than other designs?

    python benchmarks/paper_bams/figure2.py --max-minutes 60     # goes on where it stopped
    python benchmarks/paper_bams/figure2.py --report             # JSON and picture of what is stored

Figure 2 of Malkomes & Garnett (2015): posterior probability of the best of 18 models against the number of
observations, from two random points to 50, on the airline and Mauna Loa series. The best model is the one with the
highest evidence on all data (``table1.py``), under the same priors. Two noise priors (log noise sd ~ N(log 0.1, 1),
our default, and the toolbox's N(log 0.01, 0.1)) and two linear kernels (with a location, our default, and through the
origin). All designs share the Learner, its mode search and its starting points; only the criterion differs.

Needs the papers' series in the folder that PYMC_ACTIVE_DATA names (airline.csv, co2_mauna_loa.csv).
Records are made breadth first and kept in ``results/figure2.jsonl``.
"""

import os

os.environ.setdefault("OMP_NUM_THREADS", "1")

import argparse
from collections.abc import Iterator
from pathlib import Path

import _above  # noqa: F401
import numpy as np
import pandas as pd
from _records import RESULTS, Key, fill, load
from _report import table, target, write
from _runs import COLOURS, DESIGNS, PAPERS, area, curve, mean_and_error, run

import pymc_active as pma

N_POINTS = 50
ROWS = {
    f"{series}, {priors} noise, {'rooted' if linear == 'LIN0' else 'located'} LIN": (series, priors, linear)
    for priors, linear in (("wide", "LIN"), ("toolbox", "LIN0"), ("wide", "LIN0"), ("toolbox", "LIN"))
    for series in ("airline", "mauna_loa")
}
MAIN = [name for name in ROWS if name.endswith("wide noise, located LIN")]
# The same by the present Learner, which follows particles of every model.
PARTICLES = {f"{name}, particles": ROWS[name] for name in MAIN}
ROWS = PARTICLES | ROWS
FILES = {"airline": ("airline.csv", "passengers"), "mauna_loa": ("co2_mauna_loa.csv", "co2_ppm")}


def series(name: str) -> tuple[np.ndarray, np.ndarray]:
    """Years (n, 1) and values (n,), as the papers used them."""
    file, column = FILES[name]
    data = pd.read_csv(Path(os.environ["PYMC_ACTIVE_DATA"]) / file)
    return data[["year_decimal"]].to_numpy(float), data[column].to_numpy(float)


def record(row: str, design: str, repeat: int) -> dict | None:
    name, priors, linear = ROWS[row]
    if row not in MAIN and design not in PAPERS:
        return None
    expressions = [str(e) for e in pma.kernels.paper_models(name, rooted=linear == "LIN0")]
    return run(expressions, *series(name), design, repeat, N_POINTS, priors)


def keys(rows: str, designs: str, repeats: int) -> Iterator[Key]:
    for repeat in range(repeats):
        for row in ROWS:
            if rows and not any(part in row for part in rows.split(";")):
                continue
            for design in designs.split(","):
                if row in MAIN or design in PAPERS:
                    yield row, design, repeat


def best_models() -> dict[str, str]:
    """The model with the highest evidence on all data, by row of ``table1.py``."""
    import json

    stored = json.loads((RESULTS / "table1.json").read_text())["results"]
    best = {row: max(stored[row]["log_evidence"], key=stored[row]["log_evidence"].get) for row in stored}
    return best | {row: best[row.removesuffix(", particles")] for row in PARTICLES}


def summarise(records: dict[Key, dict]) -> dict:
    summary: dict = {}
    best = best_models()
    for row in ROWS:
        cells = {}
        for design in DESIGNS:
            found = {r: records[row, d, r] for name, d, r in records if (name, d) == (row, design)}
            # One start says nothing of a spread.
            if len(found) < 2:
                continue
            curves = np.stack([curve(f, best[row]) for f in found.values()])
            areas = {r: area(f, best[row]) for r, f in found.items()}
            cells[design] = {
                "n": next(iter(found.values()))["n"],
                "mean": curves.mean(0).tolist(),
                "standard_error": (curves.std(0, ddof=1) / np.sqrt(len(curves))).tolist(),
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
    import matplotlib.pyplot as plt

    columns = 2
    rows = -(-len(summary) // columns)
    figure, axes = plt.subplots(rows, columns, figsize=(9, 2.9 * rows), squeeze=False, sharex=True, sharey=True)
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
    figure.tight_layout()
    return figure


def report(path: Path) -> None:
    summary = summarise(load(path))
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
    write(
        __doc__, quick=False, threads="one BLAS thread", targets=targets(summary), results=summary, figure=plot(summary)
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", default="", help="those whose names contain one of these, separated by semicolons")
    parser.add_argument("--designs", default=",".join(DESIGNS), help="comma-separated criteria")
    parser.add_argument("--repeats", type=int, default=10)
    parser.add_argument("--max-minutes", type=float, default=np.inf, help="start no record after this long")
    parser.add_argument("--report", action="store_true", help="only summarise what is stored")
    arguments = parser.parse_args()
    path = RESULTS / "figure2.jsonl"
    if not arguments.report:
        fill(path, keys(arguments.rows, arguments.designs, arguments.repeats), record, arguments.max_minutes)
    report(path)


if __name__ == "__main__":
    main()
