"""Does BAMS find the structure that a series was drawn from, where the truth is not a matter of opinion?

25 series, five from each of five kernels, on 150 points. Every log-parameter of a draw is the prior's mean plus half a
prior sd times a normal number (output scales are equal, so that every term matters), and the noise sd is 0.1 of the
signal's. The 16 candidates are SE, PER, LIN, RQ and their sums and products of pairs. Posterior probability of the true
kernel against the number of observations, from two random points to 25, by the default Learner, from the same starting
points for every design.

Records are made breadth first and kept in ``results/synthetic.jsonl``.
"""

from functools import partial

import _above  # noqa: F401
import numpy as np
from _records import every, main
from _report import panels, table, target
from _runs import COLOURS, DESIGNS, PAPERS, area, curve, mean_and_error, run

import pymc_active as pma

TRUTHS = ("SE", "LIN + PER", "SE * PER", "PER + RQ", "LIN * PER")
N_SERIES, N_GRID, N_POINTS = 5, 150, 25
# The area under the curve is taken from here on.
FIRST = 10
CANDIDATES = [str(e) for e in pma.kernels.grid()]


def series(truth: str, number: int) -> tuple[np.ndarray, np.ndarray]:
    """One draw from the kernel; x (n, 1) in [0, 1]."""
    rng = np.random.default_rng((TRUTHS.index(truth), number))
    x = np.linspace(0, 1, N_GRID)[:, None]
    gpm = pma.composite_gp(x, np.linspace(-1, 1, N_GRID), truth, x_scale="unit")
    posterior = gpm.posterior()
    theta = posterior.prior.mean + 0.5 * posterior.prior.sd * rng.normal(size=posterior.n_parameters)
    theta[[i for i, label in enumerate(gpm.labels) if label.startswith(("log_outputscale", "mean"))]] = 0.0
    K = posterior.kernel.at(theta, x).K
    values, vectors = np.linalg.eigh(K)
    f = vectors @ (np.sqrt(np.maximum(values, 0.0)) * rng.normal(size=N_GRID))
    return x, f + 0.1 * f.std() * rng.normal(size=N_GRID)


def record(truth: str, design: str, number: int, n_points: int = N_POINTS, models: slice = slice(None)) -> dict:
    known = {str(e): e for e in pma.kernels.grid()}
    label = next(text for text, e in known.items() if e == pma.kernels.parse(truth))
    return {"truth": label} | run(CANDIDATES[models], *series(truth, number), design, number, n_points)


def summarise(records: dict) -> dict:
    held = {d: sum(key[1] == d for key in records) for d in DESIGNS}
    # A design that has only been tried on a few series would hide the others.
    designs = [d for d in DESIGNS if held[d] >= 0.8 * max(held.values())]
    # Series that every design has seen.
    complete = [
        (truth, number)
        for truth in TRUTHS
        for number in range(N_SERIES)
        if all((truth, d, number) in records for d in designs)
    ]
    summary: dict = {"series": len(complete), "designs": {}, "by_truth": {}}
    areas: dict = {}
    for design in designs:
        found = [records[truth, design, number] for truth, number in complete]
        curves = np.stack([curve(f, f["truth"]) for f in found])
        areas[design] = np.array([area(f, f["truth"], FIRST) for f in found])
        top = [f["models"][int(np.argmax(f["searched"]))] == f["truth"] for f in found]
        sure, right = np.transpose([most_probable(f) for f in found])
        summary["designs"][design] = {
            "n": found[0]["n"],
            "mean": curves.mean(0).tolist(),
            "standard_error": (curves.std(0) / np.sqrt(max(len(curves) - 1, 1))).tolist(),
            "area": mean_and_error(areas[design]),
            "at_the_end": mean_and_error(curves[:, -1]),
            "found": mean_and_error(top),
            "sure": mean_and_error(sure),
            "right": mean_and_error(right),
            "cpu_seconds": float(np.median([f["cpu_seconds"] for f in found])),
        }
    for truth in TRUTHS:
        rows = [i for i, (t, _) in enumerate(complete) if t == truth]
        if rows:
            summary["by_truth"][truth] = {d: float(areas[d][rows].mean()) for d in designs}
    for design in designs:
        for other in ("random", "uncertainty", "committee"):
            if other in areas and other != design:
                summary["designs"][design][f"area_minus_{other}"] = mean_and_error(areas[design] - areas[other])
    summary["tried"] = {
        d: mean_and_error([area(r, r["truth"], FIRST) - area(b, b["truth"], FIRST) for r, b in shared])
        for d in DESIGNS
        if d not in designs and len(shared := beside_bams(records, d)) > 1
    }
    return summary


def most_probable(record: dict) -> tuple[float, float]:
    """Probability of the most probable kernel, and how often it is the true one, from ``FIRST`` points on."""
    n = np.array(record["n"])
    p = np.array(record["probability"])[n >= min(FIRST, n[-1])]
    return float(p.max(1).mean()), float(np.mean(p.argmax(1) == record["models"].index(record["truth"])))


def beside_bams(records: dict, design: str) -> list[tuple[dict, dict]]:
    """Records of a design, each with BAMS's of the same series."""
    return [
        (record, records[truth, "bams", number])
        for (truth, d, number), record in records.items()
        if d == design and (truth, "bams", number) in records
    ]


def targets(summary: dict) -> list[dict]:
    cell = summary["designs"].get("bams", {})
    result = []
    for other, limit in (("random", 2.0), ("uncertainty", None), ("committee", None)):
        versus = cell.get(f"area_minus_{other}")
        if versus and limit:
            ratio = versus["mean"] / versus["standard_error"]
            result.append(target(f"area of BAMS less {DESIGNS[other]}'s, in standard errors", ratio, ">=", limit))
        elif versus:
            result.append(target(f"area of BAMS less {DESIGNS[other]}'s", versus["mean"], ">=", -0.10))
    return result


def plot(summary: dict):
    figure, (left, right) = panels(1, 2, figsize=(10, 3.6))
    for design, cell in summary["designs"].items():
        n, mean, error = (np.array(cell[k]) for k in ("n", "mean", "standard_error"))
        style = "-" if design in PAPERS else "--"
        left.plot(n, mean, style, color=COLOURS[design], label=DESIGNS[design])
        if design in PAPERS:
            left.fill_between(n, mean - error, mean + error, color=COLOURS[design], alpha=0.15, lw=0)
    left.set(xlabel="observations", ylabel="p(true kernel)", ylim=(0, 1), title=f"{summary['series']} series")
    left.legend(fontsize=7)
    for i, cells in enumerate(summary["by_truth"].values()):
        for design, value in cells.items():
            right.plot(value, i, "o" if design in PAPERS else "x", color=COLOURS[design])
    right.set_yticks(range(len(summary["by_truth"])), list(summary["by_truth"]))
    right.set(xlabel=f"mean p(true kernel) from {FIRST} points on", xlim=(0, 1))
    return figure


def report(records):
    summary = summarise(records)
    rows = [
        [DESIGNS[d], *(f"{c[k]['mean']:.2f} ± {c[k]['standard_error']:.2f}" for k in ("area", "at_the_end", "found"))]
        for d, c in summary["designs"].items()
    ]
    table(("design", "area", f"at n = {N_POINTS}", "true kernel on top"), rows)
    return summary, plot(summary), targets(summary)


if __name__ == "__main__":
    small = {("SE", d, 0): partial(record, "SE", d, 0, 5, slice(0, 2)) for d in ("bams", "random")}
    main(__doc__, every(TRUTHS, PAPERS, N_SERIES), record, report, small)
