"""Which of 18 kernel structures has the highest evidence on the whole airline and Mauna Loa series?

Table 1 of Malkomes & Garnett (2015): four base kernels, their sums and products, an expert's kernel and that of
compositional kernel search (CKS), on all data. Evidences are Laplace's, summed over the modes found in a cold search of
20 starts (and from the modes of the same kernel with LIN through the origin, where it has a location), in nats, for
inputs in [0, 1] and standardised outputs (so without the Jacobian of the scaling).

Mauna Loa needs co2_mauna_loa.csv in the folder that PYMC_ACTIVE_DATA names. Records are kept in
``results/table1.jsonl``.
"""

import warnings
from collections.abc import Iterator
from functools import partial

import _above  # noqa: F401
import numpy as np
import pymc as pm
from _records import Key, main
from _report import BLUE, ORANGE, panels, table, target
from figure2 import ROWS as ROWS_OF_FIGURE_2
from figure2 import series

import pymc_active as pma

THIRD = "airline, N(log 0.01, 1) noise, rooted LIN"
ROWS = ROWS_OF_FIGURE_2 | {THIRD: ("airline", "third", "LIN0")}
# Places among the 18 models.
EXPERT, CKS = 16, 17


def record(row: str, model: str, repeat: int, n_restarts: int = 20) -> dict:
    name, priors, _ = ROWS[row]
    x, y = series(name)
    noise = {"log_noise": pm.Normal.dist(np.log(0.01), 1.0)}
    gpm = pma.composite_gp(
        x,
        y,
        model,
        mean="constant",
        priors=noise if priors == "third" else priors,
        x_scale="unit",
        y_scale="standardize",
    )
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        # The location makes a search harder; the modes without one are good starts.
        rooted = [gpm.with_expression(model.replace("LIN", "LIN0"))] if "LIN" in model and "LIN0" not in model else []
        starts = [
            pma.fit_laplace(other, n_restarts=n_restarts, random_seed=repeat, progressbar=False) for other in rooted
        ]
        fit = pma.fit_laplace(gpm, start=starts, n_restarts=n_restarts, random_seed=repeat, progressbar=False)
    jacobian = len(y) * np.log(gpm.y_map.scale)
    evidence = float(np.logaddexp.reduce([mode.log_evidence for mode in fit.modes]))
    return {
        "log_evidence": evidence + jacobian,
        "best_mode": fit.log_evidence + jacobian,
        "n_modes": len(fit.modes),
        "converged": fit.diagnostics["converged"],
        "n_floored": fit.diagnostics["n_floored"],
        "warnings": [str(w.message) for w in caught],
    }


def keys() -> Iterator[Key]:
    for row, (name, _, linear) in ROWS.items():
        for expression in pma.kernels.paper_models(name, rooted=linear == "LIN0"):
            yield row, str(expression), 0


def summarise(records: dict) -> dict:
    summary = {}
    for row, (name, _, linear) in ROWS.items():
        models = [str(e) for e in pma.kernels.paper_models(name, rooted=linear == "LIN0")]
        found = {m: [f for (r, e, _), f in records.items() if (r, e) == (row, m)] for m in models}
        found = {m: fs for m, fs in found.items() if fs}
        if not found:
            continue
        evidence = {m: max(f["log_evidence"] for f in fs) for m, fs in found.items()}
        values = np.array(list(evidence.values()))
        probability = np.exp(values - np.logaddexp.reduce(values))
        summary[row] = {
            "log_evidence": evidence,
            "probability": dict(zip(evidence, probability.round(6).tolist(), strict=True)),
            "spread_over_seeds": {m: float(np.ptp([f["log_evidence"] for f in fs])) for m, fs in found.items()},
            "doubtful": [m for m, fs in found.items() if any(not f["converged"] or f["n_floored"] for f in fs)],
            "cpu_seconds": sum(np.mean([f["cpu_seconds"] for f in fs]) for fs in found.values()),
            "searches": len(next(iter(found.values()))),
            "models": len(found),
            "expert": models[EXPERT],
            "cks": models[CKS],
        }
    return summary


def targets(summary: dict) -> list[dict]:
    result = []

    def ask(row: str, what: str, value: float, relation: str, limit: float) -> None:
        result.append(target(f"{row}: {what}", value, relation, limit))

    for row, cell in summary.items():
        evidence, cks, expert = cell["log_evidence"], cell["cks"], cell["expert"]
        if cell["models"] < 18:
            continue
        others = [value for m, value in evidence.items() if m not in (cks, expert)]
        if row.startswith("airline"):
            ask(row, "CKS less the expert's", evidence[cks] - evidence[expert], ">=", 10)
            ask(row, "the expert's less the best of the others", evidence[expert] - max(others), ">=", 0)
        else:
            ask(row, "CKS less the best of the others", evidence[cks] - max(evidence[expert], *others), ">=", 0)
        if row == THIRD:
            ask(row, "CKS", evidence[cks], ">=", 102.6)
        if row == "mauna_loa, toolbox noise, rooted LIN":
            ask(row, "CKS", evidence[cks], ">=", 1430.7)
            ask(row, "the expert's", evidence[expert], ">=", 1428.3)
    return result


def plot(summary: dict):
    columns = 2
    rows = -(-len(summary) // columns)
    figure, axes = panels(rows, columns, figsize=(10, 3.6 * rows), squeeze=False)
    for ax, (row, cell) in zip(axes.flat, summary.items(), strict=False):
        ranked = sorted(cell["log_evidence"].items(), key=lambda pair: pair[1])
        values = np.array([value for _, value in ranked]) - ranked[-1][1]
        colours = [ORANGE if m in (cell["cks"], cell["expert"]) else BLUE for m, _ in ranked]
        ax.scatter(values, range(len(ranked)), c=colours, s=18, zorder=3)
        ax.set_yticks(range(len(ranked)), [m for m, _ in ranked], fontsize=6)
        ax.set_xscale("symlog", linthresh=10)
        ax.set_xlim(right=2)
        ax.grid(axis="x", color="0.9")
        ax.set_title(f"{row}\nbest: {ranked[-1][1]:.1f} nats", fontsize=8)
        ax.set_xlabel("log evidence less the best, nats", fontsize=8)
    for ax in axes.flat[len(summary) :]:
        ax.set_visible(False)
    return figure


def report(records):
    summary = summarise(records)
    for row, cell in summary.items():
        print(f"\n{row} (doubtful: {', '.join(cell['doubtful']) or 'none'})")
        ranked = sorted(cell["log_evidence"].items(), key=lambda pair: -pair[1])
        table(("model", "log evidence", "probability"),
              [(m, f"{value:.2f}", f"{cell['probability'][m]:.3g}") for m, value in ranked])  # fmt: skip
    return summary, plot(summary), targets(summary)


if __name__ == "__main__":
    small = {(THIRD, m, 0): partial(record, THIRD, m, 0, 1) for m in ("SE", "LIN0")}
    main(__doc__, keys(), record, report, small)
