"""How many experiments until one of the best is found, in public tables with categories, steps and mixtures?

Eight tables, chosen before any was tried. All are measured in full, so that a run is a search among their rows: direct
arylation, 1,728 reactions (Shields et al. 2021, as BayBE's repository has it), and from Olympus (Häse et al. 2021)
Suzuki couplings, 3,696 (Perera et al. 2018), Buchwald-Hartwig couplings, 792 (Ahneman et al. 2018), 192 perovskites by
band gap, 768 lipid nanoparticles by drug loading, 1,408 redox molecules by absorption, and two mixtures, of four parts
by photodegradation (1,020) and of six metals by overpotential (2,121). CSV files are read from ``outside/laboratory``
in the folder ``PYMC_ACTIVE_DATA``.

Each run starts from ten random rows and asks for 25, one by one; starts are the same for all methods. Ours is the
plain way: ``pma.ard_gp(rows, y, space=table)`` and ``Learner(gpm, "maximum", pool=table)``. BayBE and Ax have their
defaults, labels as such and nothing else known of them (``_laboratory_peers.py --install`` makes their environment). Ax
knows no tables: of what it asks for, the nearest row not measured counts. Recorded is the share of rows that are better
than the best one measured, after each experiment.
"""

import os
import time
from functools import partial
from pathlib import Path

import _above  # noqa: F401
import _laboratory_peers
import numpy as np
import pandas as pd
from _records import every, main
from _report import mean_and_error, panels, table_of

import pymc_active as pma

DATA = Path(os.environ.get("PYMC_ACTIVE_DATA", "no folder")) / "outside" / "laboratory"
# Columns of inputs, the column of results, and whether they are minimised; without names the file has no header.
TABLES = {
    "direct_arylation": (["Base", "Ligand", "Solvent", "Concentration", "Temp_C"], "yield", False),
    "suzuki_edbo": (["electrophile", "nucleophile", "base", "ligand", "solvent"], 5, False),
    "buchwald_a": (["aryl_halide", "additive", "base", "ligand"], 4, False),
    "perovskites": (["organic", "cation", "anion"], 3, True),
    "lnp3": (["drug", "solid_lipid", "solid_lipid_input", "liquid_lipid_input", "surfactant_input"], 5, False),
    "redoxmers": (["r1", "r3", "r4", "r5"], 4, True),
    "photo_wf3": (["mat_1", "mat_2", "mat_3", "mat_4"], 4, True),
    "oer_plate_3496": (["ni", "fe", "co", "mn", "ce", "la"], 6, True),
}
METHODS = ("default", "baybe", "ax", "random")
REPEATS, N_START, N_ASK = 20, 10, 25
SHARES = (0.05, 0.01)


def table(name):
    """Inputs, and results of which more is better; replicates are averaged."""
    columns, target, minimize = TABLES[name]
    frame = pd.read_csv(DATA / f"{name}.csv", header=None if isinstance(target, int) else 0)
    found = frame.iloc[:, : len(columns)].set_axis(columns, axis=1) if isinstance(target, int) else frame[columns]
    y = frame[target].astype(float) * (-1 if minimize else 1)
    mean = y.groupby([found[column] for column in columns], sort=True).mean()
    return mean.index.to_frame(index=False), mean.to_numpy()


def ours(X, y, start, n_ask, seed):
    gpm = pma.ard_gp(X.iloc[start], y[start], space=X)
    learner, rows = pma.Learner(gpm, "maximum", pool=X, random_seed=seed), list(start)
    for _ in range(n_ask):
        x = learner.ask()
        rows.append(int(x.index[0]))
        learner.tell(x, y[rows[-1]])
    return rows


def record(name, method, repeat, n_ask=N_ASK):
    try:
        X, y = table(name)
    except FileNotFoundError:
        return None
    order = np.random.default_rng(repeat).permutation(len(y))
    start, begin = order[:N_START].tolist(), time.process_time()
    if method == "random":
        rows, seconds = order[: N_START + n_ask], 0.0
    elif method == "default":
        rows = ours(X, y, start, n_ask, repeat)
        seconds = (time.process_time() - begin) / n_ask
    else:
        answer = _laboratory_peers.asked(method, X, y, start, n_ask, repeat)
        if answer is None:
            return None
        rows, seconds = answer
    best = np.maximum.accumulate(y[np.array(rows)])
    return {
        "better": [round(float((y > value).mean()), 6) for value in best],
        "seconds_an_ask": round(seconds, 3),
    }


def needed(record, share):
    """Experiments until one of a share of the best rows was measured; as many as there were and one, if none was."""
    found = np.flatnonzero(np.array(record["better"]) < share)
    return float(found[0] + 1 if len(found) else len(record["better"]) + 1)


def summarize(records):
    rows = []
    for name in TABLES:
        for method in METHODS:
            repeats = [r for r in range(REPEATS) if (name, method, r) in records]
            if not repeats or not any((name, "default", r) in records for r in repeats):
                continue
            both = [r for r in repeats if (name, "default", r) in records]
            row = {"table": name, "method": method, "runs": len(both)}
            for share in SHARES:
                counts = np.array([needed(records[name, method, r], share) for r in both])
                own = np.array([needed(records[name, "default", r], share) for r in both])
                row[f"to_best_{share}"] = float(counts.mean())
                gap, error = mean_and_error((own - counts).tolist()) if len(both) > 1 else (np.nan, np.nan)
                row |= {f"ours_less_{share}": float(gap), f"se_{share}": float(error)}
            row["seconds_an_ask"] = float(np.mean([records[name, method, r]["seconds_an_ask"] for r in both]))
            rows.append(row)
    return rows


def picture(records):
    labels = {"default": "pymc_active", "baybe": "BayBE", "ax": "Ax", "random": "random"}
    figure, axes = panels(2, 4, figsize=(11, 5), sharex=True, sharey=True)
    for ax, name in zip(axes.flat, TABLES, strict=True):
        for k, method in enumerate(METHODS):
            runs = [r["better"] for (n, m, _), r in records.items() if (n, m) == (name, method)]
            if runs:
                steps = 1 + np.arange(len(runs[0]))
                ax.plot(steps, 100 * np.mean(runs, axis=0), color=f"C{k}", label=labels[method])
        ax.set_title(name, fontsize=9)
        ax.set_yscale("log")
    figure.supxlabel("experiments", fontsize=9)
    figure.supylabel("% of rows better than the best one found, mean", fontsize=9)
    axes.flat[0].legend(fontsize=8)
    return figure


def report(records):
    rows = summarize(records)
    table_of(rows)
    return {"table": rows}, picture(records), []


if __name__ == "__main__":
    small = {("perovskites", m, 0): partial(record, "perovskites", m, 0, 1) for m in METHODS}
    main(__doc__, every(TABLES, METHODS, REPEATS), record, report, small, peers=METHODS[1:])
