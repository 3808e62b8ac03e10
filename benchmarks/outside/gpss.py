"""Do kernels that are searched predict how a series goes on, beside the ten published methods of Lloyd et al. (2014)?

Thirteen series, the last tenth of which is to be predicted; ``outside/gpss_extrapolation`` of the folder in
``PYMC_ACTIVE_DATA`` has the CSV files and the errors of the ten methods, from their stored predictions. Ours is the
plain way, ``found = pma.search.compositional_kernel_search(x, y)``, then ``found.predict``, in logarithms if the search
went on with them; *of y itself* is its ``average`` all the same. A search that takes longer than 250 seconds of one
core is interrupted and gives what it has, within five minutes.
"""

import os
import signal
import time
from functools import partial
from pathlib import Path

import _above  # noqa: F401
import numpy as np
import pandas as pd
from _records import every, main
from _report import panels, table_of, target

import pymc_active as pma

FOLDER = Path(os.environ.get("PYMC_ACTIVE_DATA", "no folder")) / "outside" / "gpss_extrapolation"
MOST_SECONDS = 250
METHODS = ("all kernels", "of y itself")


def names():
    """Short series first, so that a run that is cut off has most of them."""
    files = [file for file in FOLDER.glob("*.csv") if file.stem != "published"]
    return [file.stem for file in sorted(files, key=lambda file: file.stat().st_size)]


def error(prediction, y):
    mean, variance = prediction.f_mean.values, prediction.y_variance.values
    nll = 0.5 * np.log(2 * np.pi * variance) + 0.5 * np.square(y - mean) / variance
    inside = np.abs(y - mean) < 1.6449 * np.sqrt(variance)
    return {
        "rmse": float(np.sqrt(np.mean(np.square(y - mean)))),
        "nll": float(nll.mean()),
        "coverage_90": float(inside.mean()),
    }


def searched(x, y, seed, seconds):
    """What a search finds within the time, and CPU seconds."""

    def stop(*_):
        raise KeyboardInterrupt

    begin = time.process_time()
    signal.signal(signal.SIGVTALRM, stop)
    signal.setitimer(signal.ITIMER_VIRTUAL, seconds)
    found = pma.search.compositional_kernel_search(x, y, random_seed=seed, progressbar=False)
    signal.setitimer(signal.ITIMER_VIRTUAL, 0)
    return found, time.process_time() - begin


def record(name, method, repeat, seconds=MOST_SECONDS):
    if not FOLDER.is_dir():
        return None
    table = pd.read_csv(FOLDER / f"{name}.csv")
    train, test = table[table.set == "train"], table[table.set == "test"]
    x, x_new = train[["x"]].to_numpy(float), test[["x"]].to_numpy(float)
    y, y_new = train.y.to_numpy(float), test.y.to_numpy(float)
    found, seconds = searched(x, y, repeat, seconds)
    words = pma.decompose(found)
    shown = found if found.logarithm is None else found.logarithm
    return {
        "n": len(x),
        "n_test": len(x_new),
        "kernel": str(words.fit.gpm.expression),
        "is_log": found.logarithm is not None,
        "n_kernels": shown.table.sizes["model"],
        "stopped": shown.stopped,
        "seconds": round(seconds, 1),
        "words": str(words),
        "errors": {
            "all kernels": error(found.predict(x_new), y_new),
            "of y itself": error(pma.predict(found.average, x_new), y_new),
        },
    }


def summarize(records):
    """A row a method: RMSE by the best of the ten published methods, ranks among eleven, and wins."""
    published = pd.read_csv(FOLDER / "published.csv")
    rmse = published.pivot(index="series", columns="method", values="rmse")
    nll = published.pivot(index="series", columns="method", values="nll").drop(columns="Eureqa")
    series = [name for name in names() if (name, "search", 0) in records]
    rmse, nll = rmse.loc[series], nll.loc[series]
    rows, each = [], []

    def row(method, errors, logs, others, other_logs):
        ratio = errors / rmse.min(axis=1)
        rank = 1 + (others.lt(errors, axis=0)).sum(axis=1)
        rank_nll = 1 + (other_logs.lt(logs, axis=0)).sum(axis=1) if logs is not None else None
        return {
            "method": method,
            "median RMSE ratio": float(ratio.median()),
            "mean rank, RMSE": float(rank.mean()),
            "mean rank, NLL": None if rank_nll is None else float(rank_nll.mean()),
            "best of all": int((rank == 1).sum()),
            "mean NLL above the best": None if logs is None else float((logs - nll.min(axis=1)).mean()),
        }

    for method in METHODS:
        errors = pd.Series({name: records[name, "search", 0]["errors"][method]["rmse"] for name in series})
        logs = pd.Series({name: records[name, "search", 0]["errors"][method]["nll"] for name in series})
        rows.append(row(f"ours, {method}", errors, logs, rmse, nll))
    ours = pd.Series({name: records[name, "search", 0]["errors"]["all kernels"]["rmse"] for name in series})
    ours_nll = pd.Series({name: records[name, "search", 0]["errors"]["all kernels"]["nll"] for name in series})
    for method in rmse.columns:
        others = [table.drop(columns=method, errors="ignore") for table in (rmse, nll)]
        logs = nll[method] if method in nll else None
        rows.append(row(method, rmse[method], logs, others[0].assign(ours=ours), others[1].assign(ours=ours_nll)))
    for name in series:
        record = records[name, "search", 0]
        one = record["errors"]["all kernels"]
        of_y = record["errors"]["of y itself"]
        each.append(
            {
                "series": name,
                "n": record["n"],
                "kernel": record["kernel"],
                "RMSE ratio": one["rmse"] / rmse.loc[name].min(),
                "rank": int(1 + (rmse.loc[name] < one["rmse"]).sum()),
                "NLL above the best": one["nll"] - nll.loc[name].min(),
                "in logarithms": record["is_log"],
                "RMSE ratio of y itself": of_y["rmse"] / rmse.loc[name].min(),
                "NLL above of y itself": of_y["nll"] - nll.loc[name].min(),
                "90 % intervals hold": one["coverage_90"],
                "CPU s": record["seconds"],
            }
        )
    return sorted(rows, key=lambda one: one["mean rank, RMSE"]), each


def picture(each, rows):
    figure, (left, right) = panels(1, 2, figsize=(9, 3.8))
    ours = ["C1" if row["method"].startswith("ours") else "0.7" for row in rows]
    left.barh([row["method"] for row in rows], [row["mean rank, RMSE"] for row in rows], color=ours)
    left.invert_yaxis()
    left.set_xlabel("mean rank by RMSE (1 is best)")
    right.barh([one["series"][:28] for one in each], [one["RMSE ratio"] - 1 for one in each], left=1, color="C1")
    logs = [(k, one["RMSE ratio of y itself"]) for k, one in enumerate(each) if one["in logarithms"]]
    if logs:
        places, ratios = zip(*logs, strict=True)
        right.plot(ratios, places, "o", color="C0", ms=5, label="of y itself")
        right.legend(fontsize=8)
    right.axvline(1, color="0.3", lw=1)
    right.set_xscale("log")
    right.set_xticks([0.5, 1, 2, 4], ["0.5", "1", "2", "4"])
    right.minorticks_off()
    right.invert_yaxis()
    right.set_xlabel("RMSE, all kernels / best of the ten")
    for ax in (left, right):
        ax.tick_params(labelsize=8)
    return figure


def report(records):
    rows, each = summarize(records)
    table_of(rows)
    table_of(each)
    [ours] = [row for row in rows if row["method"] == "ours, all kernels"]
    published = [row["mean rank, RMSE"] for row in rows if not row["method"].startswith("ours")]
    ahead = sum(rank < ours["mean rank, RMSE"] for rank in published)
    targets = [
        target("ours, all kernels: median RMSE over the best of ten", ours["median RMSE ratio"], "<=", 1.1),
        target("ours, all kernels: published methods ahead by mean rank", ahead, "<=", 1),
    ]
    return {"methods": rows, "series": each}, picture(each, rows), targets


if __name__ == "__main__":
    small = {(name, "search", 0): partial(record, name, "search", 0, 2) for name in names()[:1] or ["no data"]}
    main(__doc__, every(names(), ["search"], 1), record, report, small)
