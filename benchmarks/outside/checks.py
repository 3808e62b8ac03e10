"""Is what ``check`` says of a fit by default right, on seventeen real data sets?

Data sets of statsmodels and scikit-learn; ``yacht.csv`` and ``concrete.csv`` of the folder in ``PYMC_ACTIVE_DATA``,
with four of R as Rdatasets writes them: ``mcycle.csv``, ``ToothGrowth.csv``, ``airquality.csv``, ``quakes.csv``. Two
thirds of the complete rows, at most 100, make ``pma.fit(pma.ard_gp(X, y, bounds=...))``, whose bounds are the ranges of
the table; at most 200 others are predicted. ``pma.check(fit, X_new=..., y_new=...)`` compares with a longer run of the
same method, and ``pma.check(fit, trace, ...)`` with NUTS, another one: ``pma.sample``, 2 chains of 500 + 500. What the
fit loses, in nats a point, should be the same by both, up to 0.05 nats, wherever NUTS has converged.
"""

import os
import time
from functools import partial
from pathlib import Path

import _above  # noqa: F401
import numpy as np
import pandas as pd
from _records import main
from _report import BLUE, ORANGE, panels, table_of, target

import pymc_active as pma

# Its CSV files; tables without theirs are left out.
DATA = os.environ.get("PYMC_ACTIVE_DATA", "no folder")
OF_STATSMODELS = {
    "Nile": ("nile", ["year"], "volume"),
    "stackloss": ("stackloss", ["AIRFLOW", "WATERTEMP", "ACIDCONC"], "STACKLOSS"),
    "engel": ("engel", ["income"], "foodexp"),
    "copper": ("copper", slice(1, 6), "WORLDCONSUMPTION"),
    "strikes": ("strikes", ["iprod"], "duration"),
    "cancer": ("cancer", ["population"], "cancer"),
    "statecrime": ("statecrime", ["urban", "poverty", "hs_grad", "single"], "murder"),
    "longley": ("longley", slice(1, 7), "TOTEMP"),
    "sunspots": ("sunspots", ["YEAR"], "SUNACTIVITY"),
}
OF_R = {
    "mcycle": (["times"], "accel"),
    "ToothGrowth": (["supp", "dose"], "len"),
    "airquality": (["Solar.R", "Wind", "Temp"], "Ozone"),
    "quakes": (["lat", "long", "depth"], "mag"),
}
NAMES = (*OF_STATSMODELS, *OF_R, "diabetes", "linnerud", "yacht", "concrete")
MOST_ROWS, MOST_TESTS = 100, 200


def table(name):
    """Inputs and outputs as pandas has them."""
    from sklearn import datasets
    from statsmodels import datasets as of_statsmodels

    if name in OF_STATSMODELS:
        module, inputs, output = OF_STATSMODELS[name]
        frame = getattr(of_statsmodels, module).load_pandas().data
        return (frame.iloc[:, inputs] if isinstance(inputs, slice) else frame[inputs]), frame[output]
    if name in ("diabetes", "linnerud"):
        found = getattr(datasets, f"load_{name}")(as_frame=True)
        return found.data, found.target if name == "diabetes" else found.target["Waist"]
    frame = pd.read_csv(Path(DATA) / f"{name}.csv")
    if name in OF_R:
        inputs, output = OF_R[name]
        frame = frame[[*inputs, output]].replace({"OJ": 0.0, "VC": 1.0}).dropna().astype(float)
        return frame[inputs], frame[output]
    return frame.iloc[:, :-1], frame.iloc[:, -1]


def record(name, method, repeat, most=MOST_ROWS, draws=500):
    try:
        X, y = table(name)
    except FileNotFoundError:
        return None
    order = np.random.default_rng(repeat).permutation(len(y))
    n = min(2 * len(y) // 3, most)
    some, rest = order[:n], order[n : n + MOST_TESTS]
    bounds = {str(c): (float(low), float(high)) for c, low, high in zip(X.columns, X.min(), X.max(), strict=True)}
    new = {"X_new": X.iloc[rest], "y_new": y.iloc[rest], "random_seed": 2, "progressbar": False}
    begin, seconds = time.process_time(), {}
    gpm = pma.ard_gp(X.iloc[some], y.iloc[some], bounds=bounds)
    fit = pma.fit(gpm, random_seed=1, progressbar=False)
    seconds["fit"] = time.process_time() - begin
    by_run = pma.check(fit, **new)
    seconds["check"] = time.process_time() - begin - seconds["fit"]
    trace = pma.sample(gpm, draws=draws, chains=2, tune=draws, random_seed=3, progressbar=False)
    by_trace = pma.check(fit, trace, **new)
    compared = {"run": by_run, "nuts": by_trace}
    said = {kind: {"loss": loss(found), "verdict": found.attrs["verdict"]} for kind, found in compared.items()}
    return {"n": n, "n_inputs": X.shape[1], "seconds": seconds, **said}


def loss(found):
    """What predictions lose, nats a point, by the first of their approximations."""
    p = found["predictions"].to_dataset()
    return float((p.nll.isel({d: 0 for d in p.nll.dims if d != p.true_nll.dims[0]}) - p.true_nll).mean())


def sentence(verdict):
    return next(text for text in verdict.split(". ") if "predict" in text.lower()).partition(" (mean")[0]


def summarize(records):
    rows = []
    for name in NAMES:
        if (name, "check", 0) not in records:
            continue
        r = records[name, "check", 0]
        converged = "NOT converged" not in r["nuts"]["verdict"]
        losses = {"loss_by_run": r["run"]["loss"], "loss_by_nuts": r["nuts"]["loss"]}
        said = {"says": sentence(r["run"]["verdict"]), "nuts_says": sentence(r["nuts"]["verdict"])}
        rows.append({"data": name, "n": r["n"], "inputs": r["n_inputs"], **losses, "converged": converged, **said})
    return rows


def picture(rows):
    figure, ax = panels(figsize=(7, 4.4))
    at = np.arange(len(rows))
    ax.hlines(at, [r["loss_by_run"] for r in rows], [r["loss_by_nuts"] for r in rows], color="0.7", lw=1.5, zorder=0)
    ax.plot([r["loss_by_run"] for r in rows], at, "o", color=BLUE, label="check, by a longer run")
    for converged, style in ((True, {"mfc": ORANGE, "label": "by NUTS"}), (False, {"mfc": "white", "label": None})):
        some = [i for i, r in enumerate(rows) if r["converged"] is converged]
        ax.plot([rows[i]["loss_by_nuts"] for i in some], at[some], "s", mec=ORANGE, **style)
    ax.axvline(0, color="0.3", lw=1)
    ax.set_yticks(at, [f"{r['data']}, {r['n']} rows, {r['inputs']} input{'s' * (r['inputs'] > 1)}" for r in rows])
    ax.invert_yaxis()
    ax.set_xlabel("what predictions lose, nats a point (white: NUTS has not converged)")
    ax.legend(loc="lower center", bbox_to_anchor=(0.5, 1.0), ncol=2)
    return figure


def report(records):
    rows = summarize(records)
    table_of(rows)
    sound = [abs(row["loss_by_run"] - row["loss_by_nuts"]) for row in rows if row["converged"]]
    what = "largest difference of the losses, nats, where NUTS has converged"
    targets = [target(what, max(sound), "<=", 0.05)] if sound else []
    return {"data_sets": rows}, picture(rows), targets


if __name__ == "__main__":
    keys = [(name, "check", 0) for name in NAMES]
    small = {(name, "check", 0): partial(record, name, "check", 0, 12, 100) for name in ("stackloss", "yacht")}
    main(__doc__, keys, record, report, small)
