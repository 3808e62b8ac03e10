"""How well do PES and its rivals rank candidates by the true information about the maximum's place?

Figure 1 of Hernandez-Lobato et al. (2014) on many data sets: 10 with 10 points and 10 with 20, drawn uniformly from
the unit square, outputs from a GP with output variance 1, squared lengthscales 0.1 and noise variance 1e-6, all
known. The truth is ``pes_ground_truth``: rejection sampling on a grid of 40 x 40 cells, two independent halves of
100,000 draws of the function each. The Spearman correlation of the halves says how well the truth knows itself: a
perfect criterion would reach the *ceiling* sqrt(2 r / (1 + r)) on the average (Spearman-Brown).

All criteria are scored at the centres of the cells. PES (with the options that the paper has for mixed derivatives
and for maxima on the boundary beside our defaults), JES and MES have 200 maxima of sample paths; ES has 50
representers. BoTorch's (``--install`` of ``benchmarks/pes_peers.py`` first; left out otherwise) have default
settings: qPES and qJES the same 200 maxima as ours, qMES and GIBBON 200 Gumbel samples over the 1,600 cells; qPES
once more with its jitter at 1e-8 in place of 1e-4. *Pick*: the true information at the cell that a criterion likes
best, over that of the best cell.

Targets: a mean correlation of PES of at least 0.97 with 10 points and 0.88 with 20.
"""

import time
from functools import partial

import _above  # noqa: F401
import numpy as np
from _pes_ground_truth import pes_ground_truth
from _records import RESULTS, Key, every, load, main
from _report import table, target
from _runs import METHODS, OUTPUTSCALE, PEERS, POINT, kernel, known_arguments, known_gpm, peer
from pes_peers import is_installed
from scipy.stats import spearmanr

import pymc_active as pma
from pymc_active.criteria.maximum.base import OptimumScorer
from pymc_active.criteria.maximum.domain import Domain
from pymc_active.criteria.maximum.pes import Pes

ROWS = {"10 points": 10, "20 points": 20}
OURS = ("pes", "jes", "mes", "es", "pes_path", "pes_zero", "pes_stationary")
RIVALS = ("qPES", "qPES_fine", "qJES", "qMES", "GIBBON")
OPTIONS = {
    "pes": {},
    "pes_path": {"mixed": "path"},
    "pes_zero": {"mixed": "zero"},
    "pes_stationary": {"boundary": "stationary"},
}
N_OPTIMA, GRID, HALF, REPEATS = 200, 40, 100_000, 10
BOUNDS = [(0.0, 1.0)] * 2
# Maps of this data set are kept, for the picture.
SHOWN = 0
TARGETS = {"10 points": 0.97, "20 points": 0.88}


def draw_data(n: int, repeat: int) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng((n, repeat))
    X = rng.uniform(size=(n, 2))
    K = kernel(X, X) + np.exp(2 * POINT["log_noise"]) * np.eye(n)
    return X, OUTPUTSCALE * np.linalg.cholesky(K) @ rng.normal(size=n)


def cells() -> np.ndarray:
    """Centres of the grid, in the order of ``pes_ground_truth``."""
    sides = (np.arange(GRID) + 0.5) / GRID
    return np.stack(np.meshgrid(sides, sides, indexing="ij"), axis=-1).reshape(-1, 2)


def find_truth(n: int, repeat: int, draws: int = HALF) -> dict:
    gpm = known_gpm(*draw_data(n, repeat))
    halves = [
        pes_ground_truth(
            gpm,
            bounds=BOUNDS,
            point=POINT,
            n_grid=GRID,
            draws=draws,
            random_seed=np.random.default_rng((n, repeat, half)),
        )
        for half in range(2)
    ]
    a, b = (h.information.to_numpy() for h in halves)
    agreement = float(spearmanr(a, b)[0])
    return {
        "information": np.round(0.5 * (a + b), 5).tolist(),
        "halves": agreement,
        "ceiling": float(np.sqrt(2 * agreement / (1 + agreement))),
        "coverage": float(np.mean([h.coverage for h in halves])),
        "standard_error": float(np.median(np.concatenate([h.standard_error for h in halves])) / np.sqrt(2)),
    }


def prepared(n: int, repeat: int, **options: str) -> OptimumScorer:
    """PES with its places of the maximum, which BoTorch gets too."""
    criterion = Pes(Domain(np.zeros(2), np.ones(2)), n_optima=N_OPTIMA, random_seed=repeat, **options)
    return criterion.prepare(POINT, model=known_gpm(*draw_data(n, repeat)))


def score(method: str, n: int, repeat: int) -> dict:
    """Values at the cells, or why there are none."""
    X, y = draw_data(n, repeat)
    start = time.perf_counter()
    if method in OPTIONS:
        return {"values": prepared(n, repeat, **OPTIONS[method]).score(cells()).tolist()}
    if method in PEERS:
        scorer = prepared(n, repeat)
        heights = np.concatenate([o.maxima.values for o in scorer.optima])
        answer = peer(
            "score", methods=[method], candidates=cells().tolist(), places=scorer.seeds.tolist(),
            heights=heights.tolist(), seed=repeat, **known_arguments(X, y),
        )[method]  # fmt: skip
        return {key: answer[key] for key in ("values", "error") if key in answer}
    keywords = {"model": known_gpm(X, y), "bounds": BOUNDS, "random_seed": repeat}
    if method == "es":
        found = pma.active.entropy_search(POINT, cells(), **keywords)
    else:
        function = pma.active.joint_entropy_search if method == "jes" else pma.active.max_value_entropy
        found = function(POINT, cells(), n_optima=N_OPTIMA, **keywords)
    return {"values": found.to_numpy().tolist(), "score_seconds": time.perf_counter() - start}


def record(row: str, method: str, repeat: int) -> dict | None:
    n = ROWS[row]
    if method == "truth":
        return find_truth(n, repeat)
    if method in PEERS and not is_installed():
        return None
    truth = load(RESULTS / "figure1.jsonl", pma.ENGINE)[row, "truth", repeat]["information"]
    return judged(method, n, repeat, np.array(truth))


def judged(method: str, n: int, repeat: int, truth: np.ndarray) -> dict:
    found = score(method, n, repeat)
    if "values" not in found:
        return {"error": found["error"]}
    values = np.array(found["values"])
    kept = {"values": np.round(values, 5).tolist()} if repeat == SHOWN and method in ("pes", "es", "qPES") else {}
    finite = np.isfinite(values)
    return {
        "spearman": float(spearmanr(values[finite], truth[finite])[0]),
        "pick": float(truth[np.argmax(np.where(finite, values, -np.inf))] / truth.max()),
        "peak": float(values[finite].max() / truth.max()),
        "finite": float(finite.mean()),
        **kept,
    }


def summarise(records: dict[Key, dict]) -> dict:
    summary: dict = {}
    for row in ROWS:
        truths = [r for (name, method, _), r in records.items() if (name, method) == (row, "truth")]
        if not truths:
            continue
        means = {k: float(np.mean([t[k] for t in truths])) for k in ("halves", "ceiling", "coverage", "standard_error")}
        summary[row] = {"truth": {**means, "data_sets": len(truths)}, "methods": {}}
        for method in (*OURS, *RIVALS):
            found = [r for (name, m, _), r in records.items() if (name, m) == (row, method)]
            scored = [r for r in found if "spearman" in r]
            if not scored:
                continue
            values = {k: np.array([r[k] for r in scored]) for k in ("spearman", "pick", "peak")}
            summary[row]["methods"][method] = {
                "spearman": values["spearman"].tolist(),
                "mean": float(values["spearman"].mean()),
                "standard_error": float(values["spearman"].std(ddof=1) / np.sqrt(len(scored)))
                if len(scored) > 1
                else None,
                "smallest": float(values["spearman"].min()),
                "pick": float(values["pick"].mean()),
                "peak": float(values["peak"].mean()),
                "failed": len(found) - len(scored),
            }
    return summary


def targets(summary: dict) -> list[dict]:
    result = []
    for row, limit in TARGETS.items():
        if row not in summary or "pes" not in summary[row]["methods"]:
            continue
        cell = summary[row]
        n = cell["truth"]["data_sets"]
        what = f"{row}, {n} data sets: Spearman correlation of PES with the truth, mean"
        result.append(target(what, cell["methods"]["pes"]["mean"], ">=", limit))
        if "qPES" in cell["methods"]:
            gain = cell["methods"]["pes"]["mean"] - cell["methods"]["qPES"]["mean"]
            result.append(target(f"{row}: above BoTorch's qPES by", gain, ">=", 0))
    return result


def plot(records: dict[Key, dict], summary: dict):
    import matplotlib.pyplot as plt

    figure = plt.figure(figsize=(11, 6.6), layout="constrained")
    top, bottom = figure.subfigures(2, 1, height_ratios=(1, 1.05))
    maps = ("truth", "es", "pes", "qPES")
    shown = {m: records[k] for m in maps if (k := ("10 points", m, SHOWN)) in records}
    X, _ = draw_data(ROWS["10 points"], SHOWN)
    for ax, (method, one) in zip(top.subplots(1, len(shown), squeeze=False)[0], shown.items(), strict=True):
        values = np.array(one.get("values", one.get("information"))).reshape(GRID, GRID)
        image = ax.imshow(values.T, origin="lower", extent=(0, 1, 0, 1), cmap="viridis")
        ax.plot(*X.T, "x", color="white", ms=5, mew=1.2)
        name = "rejection sampling" if method == "truth" else f"{METHODS[method][0]}: {one['spearman']:.3f}"
        ax.set_title(name, fontsize=9)
        ax.set_xticks([])
        ax.set_yticks([])
        top.colorbar(image, ax=ax, shrink=0.75)
    axes = bottom.subplots(1, len(summary), sharex=True, squeeze=False)[0]
    for ax, (row, cell) in zip(axes, summary.items(), strict=True):
        ranked = sorted(cell["methods"], key=lambda m: cell["methods"][m]["mean"])
        for i, method in enumerate(ranked):
            one = cell["methods"][method]
            ax.barh(i, one["mean"], color=METHODS[method][1], alpha=0.75, height=0.7)
            ax.plot(one["spearman"], [i] * len(one["spearman"]), ".", color="black", ms=4, alpha=0.5)
        ax.set_yticks(range(len(ranked)), [METHODS[m][0] for m in ranked], fontsize=7)
        ax.axvline(cell["truth"]["ceiling"], color="grey", lw=1, ls=":")
        lowest = min(min(c["spearman"]) for other in summary.values() for c in other["methods"].values())
        ax.set_xlim(min(0.0, lowest), 1)
        ax.set_xlabel("Spearman correlation with the truth (dotted: ceiling)")
        ax.set_title(f"{row}, {cell['truth']['data_sets']} data sets", fontsize=9)
        ax.spines[["top", "right"]].set_visible(False)
    return figure


def small(row: str, method: str) -> dict:
    truth = find_truth(ROWS[row], 0, 2000)
    return truth if method == "truth" else judged(method, ROWS[row], 0, np.array(truth["information"]))


def report(records):
    summary = summarise(records)
    for row, cell in summary.items():
        t = cell["truth"]
        print(
            f"\n{row}, {t['data_sets']} data sets; halves of the truth {t['halves']:.4f}, ceiling {t['ceiling']:.4f}, "
            f"coverage {t['coverage']:.3f}"
        )
        rows = [
            [METHODS[m][0], f"{c['mean']:.3f} ± {c['standard_error'] or np.nan:.3f}", f"{c['smallest']:.3f}",
             f"{c['pick']:.3f}", f"{c['peak']:.2f}", c["failed"]]
            for m, c in sorted(cell["methods"].items(), key=lambda pair: -pair[1]["mean"])
        ]  # fmt: skip
        table(("method", "Spearman", "smallest", "pick", "peak over truth's", "failed"), rows)
    return summary, plot(records, summary), targets(summary)


if __name__ == "__main__":
    smallest = {("10 points", m, 0): partial(small, "10 points", m) for m in ("truth", "pes", "mes", "es")}
    main(__doc__, every(ROWS, ("truth", *OURS, *RIVALS), REPEATS), record, report, smallest)
