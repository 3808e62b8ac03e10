"""The demonstration (``make demo``): of 215 meat samples with known spectra, choose those whose fat content to assay.

A Gaussian process on a learned two-dimensional embedding of the 100 channels starts from 5 assays and asks for 40 more.
"""

from __future__ import annotations

import multiprocessing
import os
from concurrent.futures import ProcessPoolExecutor
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import xarray as xr

import pymc_active as pma
from pymc_active import plots
from pymc_active.datasets import meats
from pymc_active.plots.axes import new_axes, new_grid
from pymc_active.support.progress import progress
from pymc_active.support.user_warnings import DoubtfulFitWarning, ignoring

METHODS = {"function": 'learn="function"', "hyperparameters": 'learn="hyperparameters"', "random": "random"}
N_TEST, N_START = 65, 5
REPORTED = (10, 20, 30, 45)
# On test spectra: % fat, nats, and the share inside the 90 % interval.
METRICS = ("rmse", "nll", "coverage")


def one_run(method: str, split: int, n_asks: int) -> tuple[np.ndarray, pma.active.Learner]:
    """The learner, after the curve of its METRICS at each fifth assay, (n_asks / 5 + 1, 3); ``split`` is a seed."""
    spectra, fat = meats()
    order = np.random.default_rng(split).permutation(len(fat))
    test, candidates = order[:N_TEST], order[N_TEST:]
    start = candidates[:N_START]
    pool = spectra.iloc[candidates]
    bounds = list(zip(pool.min(), pool.max(), strict=True))
    gpm = pma.embedding_gp(spectra.iloc[start], fat.iloc[start], n_components=2, bounds=bounds)
    goal, criterion = ("function", "random") if method == "random" else (method, None)
    learner = pma.active.Learner(gpm, goal, criterion=criterion, pool=pool, random_seed=split)
    curve = []
    for asked in range(n_asks + 1):
        if asked % 5 == 0:
            truth = fat.iloc[test].to_numpy()
            p = pma.predict(learner.fit, spectra.iloc[test], y_new=fat.iloc[test], quantiles=(0.05, 0.95))
            low, high = p.y_quantile.to_numpy()
            rmse = np.sqrt(np.mean((truth - p.f_mean.to_numpy()) ** 2))
            curve.append((rmse, -float(p.y_log_density.mean()), np.mean((low < truth) & (truth < high))))
        if asked < n_asks:
            x = learner.ask()
            learner.tell(x, fat.loc[x.index])
    return np.array(curve), learner


def _worker(split: int, method: str, n_asks: int, folder: Path) -> np.ndarray:
    # Fits to the first few assays are often doubtful.
    with ignoring(DoubtfulFitWarning):
        curve, learner = one_run(method, split, n_asks)
        if (split, method) == (0, "function"):
            learner.to_datatree(draws=500).to_netcdf(folder / "meats_trace.nc", engine="h5netcdf")
            _pictures(learner, folder)
    return curve


def _pictures(learner: pma.active.Learner, folder: Path) -> None:
    spectra, fat = meats()
    assert isinstance(learner.fit, pma.Fit), "one model was given"
    asked, X = spectra.index.get_indexer(learner.asked_labels), spectra.to_numpy()
    ax: Any = new_axes(None, (7, 5.2))
    plots.plot_embedding(learner.fit, X=X, y=fat.to_numpy(), highlight=asked, ax=ax)
    ax.set_title("215 spectra of meat in the learned plane", loc="left", fontsize=11)
    # The colour bar.
    ax.figure.axes[-1].set_ylabel("fat (%)")
    ax.figure.savefig(folder / "plane.png", dpi=150)
    ax = new_axes(None, (7.5, 4))
    plots.plot_loadings(learner.fit, X=X, random_seed=0, ax=ax)
    ax.set_xlabel("wavelength (nm)")
    ax.set_title("what the two learned components load on (median and 89 % interval)", loc="left", fontsize=11)
    ax.figure.savefig(folder / "wavelengths.png", dpi=150)


def main(folder: str | Path = "demo_output", n_splits: int = 4, n_asks: int = 40) -> xr.Dataset:
    """Run the demonstration on two processes, print a table, write pictures and a trace.

    It returns ``rmse`` (% fat), ``nll`` (nats) and ``coverage``, the share of test spectra inside their 90 % interval,
    over ``split``, ``method`` and ``n``, the number of assays.
    """
    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    print(
        f"{len(meats()[1])} near-infrared spectra of meat. Which {n_asks} samples should go to the wet lab after "
        f"{N_START} random ones? {n_splits} split(s), {N_TEST} spectra held out in each."
    )
    # Each process computes on one thread. Pictures go to files, also where there is no display.
    os.environ |= {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1", "MPLBACKEND": "Agg"}
    jobs = [(split, method, n_asks, folder) for split, method in product(range(n_splits), METHODS)]
    curves = []
    with (
        ProcessPoolExecutor(2, mp_context=multiprocessing.get_context("spawn")) as executor,
        progress("Asking", len(jobs), enabled=True) as advance,
    ):
        for curve in executor.map(_worker, *zip(*jobs, strict=True)):
            curves.append(curve)
            advance()
    values = np.reshape(curves, (n_splits, len(METHODS), -1, len(METRICS)))
    n = N_START + 5 * np.arange(values.shape[2])
    dims = ("split", "method", "n")
    results = xr.Dataset(
        {metric: (dims, values[..., i]) for i, metric in enumerate(METRICS)},
        coords={"split": np.arange(n_splits), "method": list(METHODS.values()), "n": n},
    )
    with xr.open_datatree(folder / "meats_trace.nc", engine="h5netcdf") as stored:
        tree = stored.load()
    tree["learning_curves"] = results
    tree.to_netcdf(folder / "meats_trace.nc", engine="h5netcdf")
    curves_figure(results).savefig(folder / "learning_curves.png", dpi=150)
    _table(results)
    pictures = "learning_curves.png, plane.png, wavelengths.png"
    print(f"Written to {folder}/: {pictures}, and meats_trace.nc (xarray.open_datatree).")
    return results


def curves_figure(results: xr.Dataset) -> Any:
    """RMSE, NLL and coverage against the number of assays, medians and quartiles, as a matplotlib figure."""
    axes = new_grid((1, 3), (13, 4))[0]
    labels = "RMSE (% fat)", "negative log likelihood (nats)", "share inside the 90 % interval"
    for ax, metric, label in zip(axes, METRICS, labels, strict=True):
        curves = results[metric].quantile([0.25, 0.5, 0.75], "split").transpose("method", "quantile", "n").to_numpy()
        for method, (low, middle, high) in zip(results.method.to_numpy(), curves, strict=True):
            ax.fill_between(results.n, low, high, alpha=0.15, lw=0)
            ax.plot(results.n, middle, "o-", ms=3, label=method)
        ax.set(xlabel="assays", ylabel=label)
    axes[0].set_yscale("log")
    axes[-1].axhline(0.9, ls="--", color="0.5", zorder=0)
    axes[-1].set_ylim(0.5, 1)
    axes[0].legend(frameon=False)
    return axes[0].figure


def _table(results: xr.Dataset) -> None:
    shown = [n for n in REPORTED if n in results.n]
    titles = "RMSE, % fat", "Negative log likelihood, nats", "Share inside the 90 % interval"
    for metric, title in zip(METRICS, titles, strict=True):
        found = results[metric].sel(n=shown).transpose("method", "n", "split")
        cells = [[f"{of_n.mean():.2f} ± {of_n.std():.2f}" for of_n in row] for row in found.to_numpy()]
        print(f"{title}: {N_TEST} held-out spectra, mean ± sd over {results.sizes['split']} splits")
        print(pd.DataFrame(cells, list(METHODS), [f"{n} assays" for n in shown]).to_string())


# Spawned workers import this file.
if __name__ == "__main__":
    main()
