"""Do the intervals of ``sobol_indices`` hold, by defaults, on functions that are draws from the model and others?

``pma.sobol_indices(pma.fit(gpm))`` of Latin hypercubes of 15 to 160 points: functions of three inputs drawn from the
prior of ``ard_gp`` (noise of 0.02 sd), and three of the literature, whose interactions are few: Ishigami, Sobol' G and
borehole. ``pairs`` is a kernel that says so, ``SE[0] + SE[1] + SE[2] + SE[0]*SE[1] + ...``, compared by evidence;
``search`` is the average over the kernels of ``pma.search.compositional_kernel_search(X, y)``. The score is the share
of first and total indices inside their 89 % intervals. Exact indices are known, or come from 2^16 points of the
function itself.
"""

from functools import partial
from itertools import combinations

import _above  # noqa: F401
import numpy as np
import screening
from _records import main
from _report import BLUE, ORANGE, panels, table_of, target
from scipy.stats import qmc

import pymc_active as pma


def drawn(repeat):
    """By random Fourier features of a squared exponential in [-1, 1]^3, with lengthscales of the prior's spread."""
    rng = np.random.default_rng(repeat)
    frequencies = rng.normal(size=(3000, 3)) / np.exp(rng.normal(0, 0.8, 3))
    phases, weights = rng.uniform(0, 2 * np.pi, 3000), rng.normal(size=3000) * np.sqrt(2 / 3000)
    return lambda X: np.cos((2 * X - 1) @ frequencies.T + phases) @ weights


KNOWN = {
    "Ishigami": (screening.FUNCTIONS["ishigami"][2], 3),
    "Sobol' G": (screening.g_function([0.0, 1.0, 4.5, 9.0]), 4),
    "borehole": (screening.FUNCTIONS["borehole"][2], 8),
}
DRAWN = "drawn from the model"
FEW = tuple((kernel, n) for n in (40, 80) for kernel in ("ard", "pairs", "search"))
CELLS = {
    DRAWN: ((("ard", 15), ("ard", 40), ("ard", 80)), 12),
    "Ishigami": ((*FEW, ("ard", 160)), 4),
    "Sobol' G": ((*FEW, ("ard", 160)), 4),
    "borehole": ((("ard", 40), ("search", 40), ("ard", 80), ("ard", 160)), 4),
}


def exact(f, D, power):
    """First and total indices by the function itself."""
    A, B = np.split(qmc.Sobol(2 * D, rng=1).random_base2(power), 2, axis=1)
    f_A, f_B = f(A), f(B)
    center, variance = 0.5 * (f_A.mean() + f_B.mean()), 0.5 * (f_A.var() + f_B.var())
    steps = np.stack([f(np.where(np.arange(D) == i, B, A)) - f_A for i in range(D)])
    return steps @ (f_B - center) / len(A) / variance, 0.5 * np.square(steps).mean(1) / variance


def record(row, method, repeat):
    kernel, n = method.split(", ")
    f, D = (drawn(repeat), 3) if row == DRAWN else KNOWN[row]
    box = [(0, 1)] * D
    X = pma.active.latin_hypercube(box, int(n), random_seed=repeat)
    y = f(X) + (0.02 * np.random.default_rng(repeat).normal(size=int(n)) if row == DRAWN else 0.0)
    if kernel == "search":
        fit = pma.search.compositional_kernel_search(X, y, random_seed=repeat, progressbar=False).average
    else:
        terms = [f"SE[{i}]" for i in range(D)] + [f"SE[{i}] * SE[{j}]" for i, j in combinations(range(D), 2)]
        pairs = kernel == "pairs"
        gpm = pma.composite_gp(X, y, " + ".join(terms), bounds=box) if pairs else pma.ard_gp(X, y, bounds=box)
        fit = pma.fit(gpm, random_seed=repeat, progressbar=False)
    found = pma.sobol_indices(fit, bounds=box, random_seed=repeat)
    evidences = [one.log_evidence for one in fit.values()] if kernel == "search" else [fit.log_evidence]
    result = {"log_evidence": max(evidences)}
    for name, truth in zip(("first", "total"), exact(f, D, 13 if row == DRAWN else 16), strict=True):
        middle, low, high = (found[name].sel(summary=s).to_numpy() for s in ("median", "lower", "upper"))
        result[name] = {
            "inside": float(np.mean((low <= truth) & (truth <= high))),
            "error": float(np.mean(middle - truth)),
            "width": float(np.mean(high - low)),
        }
    return result


def keys():
    for repeat in range(max(repeats for _, repeats in CELLS.values())):
        for row, (cells, repeats) in CELLS.items():
            for kernel, n in cells:
                if repeat < repeats:
                    yield row, f"{kernel}, {n}", repeat


def summarize(records):
    table = []
    for row, (cells, _) in CELLS.items():
        for kernel, n in cells:
            found = [r for (a, b, _), r in records.items() if (a, b) == (row, f"{kernel}, {n}")]
            if not found:
                continue
            cell = {"function": row, "kernel": kernel, "points": n, "designs": len(found)}
            for name in ("first", "total"):
                cell |= {f"{name}: {key}": float(np.mean([r[name][key] for r in found])) for key in found[0][name]}
            table.append(cell | {"log evidence": float(np.mean([r["log_evidence"] for r in found]))})
    return table


def picture(table):
    figure, ax = panels(figsize=(7, 4))
    at = np.arange(len(table))
    for name, color in (("first", BLUE), ("total", ORANGE)):
        ax.plot([r[f"{name}: inside"] for r in table], at, "o", color=color, label=f"{name} indices")
    ax.axvline(0.89, color="0.5", ls="--", lw=1, zorder=0)
    ax.set_yticks(at, [f"{r['function']}, {r['kernel']}, {r['points']} points" for r in table])
    ax.invert_yaxis()
    ax.set(xlabel="share inside the 89 % interval", xlim=(0, 1.02))
    ax.legend()
    return figure


def report(records):
    table = summarize(records)
    table_of(table)

    def inside(belongs):
        return [r[f"{name}: inside"] for r in table if belongs(r) for name in ("first", "total")]

    shares = {
        "share inside, functions drawn from the model": inside(
            lambda r: r["kernel"] == "ard" and r["function"] == DRAWN
        ),
        "share inside, functions of the literature": inside(lambda r: r["kernel"] == "ard" and r["function"] != DRAWN),
        "the same by a kernel of single inputs and pairs": inside(lambda r: r["kernel"] == "pairs"),
    }
    targets = [target(what, float(np.mean(some)), ">=", 0.85) for what, some in shares.items() if some]
    return {"table": table}, picture(table), targets


if __name__ == "__main__":
    small = {(row, "ard, 15", 0): partial(record, row, "ard, 15", 0) for row in (DRAWN,)}
    small["Ishigami", "pairs, 40", 0] = partial(record, "Ishigami", "pairs, 40", 0)
    main(__doc__, keys(), record, report, small)
