"""The demonstration: choose meat samples for the wet lab.

The near-infrared spectra of 215 samples are known; the fat content of each costs an assay. A Gaussian process on a
learned two-dimensional embedding of the 100 channels starts from 5 assays and asks for 40 more.
"""

from __future__ import annotations

import multiprocessing
import os
import queue
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pymc as pm
import xarray as xr
from rich.console import Console
from rich.table import Table

import pymc_active as pma
from pymc_active import plots
from pymc_active.datasets import meats
from pymc_active.plots.axes import pyplot
from pymc_active.support.progress import progress
from pymc_active.support.user_warnings import DoubtfulFitWarning, ignoring

METHODS = {
    "function": 'learn="function"',
    "hyperparameters": 'learn="hyperparameters"',
    "random": "random",
}
N_TEST, N_START = 65, 5
REPORTED = (10, 20, 30, 45)
# A chemist's prior knowledge: fat is 18 % give or take 12, and repeated assays differ by about 0.4 %.
FAT_SCALE = (18.0, 12.0)
PRIORS = {"log_noise": (np.log(0.03), 0.1), "log_outputscale": (0.0, 0.3)}


def one_run(
    method: str, split: int, n_asks: int, report: queue.Queue | None = None
) -> tuple[np.ndarray, pma.active.Learner]:
    """Start from 5 assays, ask for ``n_asks`` more, test on 65 other spectra.

    Parameters
    ----------
    method : {"function", "hyperparameters", "random"}
    split : int
        Seed of the random start and of the learner.
    n_asks : int
    report : Queue, optional
        Gets an item after every assay.

    Returns
    -------
    curve : ndarray, shape (n_asks / 5 + 1, 2)
        RMSE (% fat) and NLL (nats) after every fifth assay.
    learner : Learner
    """
    spectra, fat = meats()
    order = np.random.default_rng(split).permutation(len(fat))
    test, candidates = order[:N_TEST], order[N_TEST:]
    start = candidates[:N_START]
    gpm = pma.embedding_gp(
        spectra.iloc[start],
        fat.iloc[start],
        n_components=2,
        y_scale=FAT_SCALE,
        priors={name: pm.Normal.dist(*prior) for name, prior in PRIORS.items()},
    )
    learner = pma.active.Learner(
        gpm,
        "function" if method == "random" else method,
        criterion="random" if method == "random" else None,
        pool=spectra.iloc[candidates],
        random_seed=split,
    )
    curve = []
    for asked in range(n_asks + 1):
        if asked % 5 == 0:
            prediction = pma.predict(learner.fit, spectra.iloc[test])
            error = fat.iloc[test].to_numpy() - prediction.f_mean.to_numpy()
            variance = prediction.y_variance.to_numpy()
            nll = 0.5 * (np.log(2 * np.pi * variance) + error**2 / variance)
            curve.append((np.sqrt(np.mean(error**2)), nll.mean()))
        if asked < n_asks:
            x = learner.ask()
            learner.tell(x, fat.loc[x.index])
        if report is not None:
            report.put(1)
    return np.array(curve), learner


def _worker(method: str, split: int, n_asks: int, report: queue.Queue, save: Path | None) -> np.ndarray:
    # Fits to the first few assays are often doubtful.
    with ignoring(DoubtfulFitWarning):
        curve, learner = one_run(method, split, n_asks, report)
        if save is not None:
            tree = learner.to_datatree(draws=500)
            tree.to_netcdf(save / "meats_trace.nc", engine="h5netcdf")
            _pictures(learner, save)
    return curve


def _pictures(learner: pma.active.Learner, folder: Path) -> None:
    spectra, fat = meats()
    assert isinstance(learner.fit, pma.LaplaceFit), "one model was given"
    asked = spectra.index.get_indexer(learner.asked_labels)
    fig, ax = _subplots(figsize=(7, 5.2))
    plots.plot_embedding(learner.fit, X=spectra.to_numpy(), y=fat.to_numpy(), highlight=asked, ax=ax)
    ax.set_title("215 spectra of meat in the learned plane", loc="left", fontsize=11)
    # The colour bar.
    fig.axes[-1].set_ylabel("fat (%)")
    fig.savefig(folder / "plane.png", dpi=150)
    fig, ax = _subplots(figsize=(7.5, 4))
    plots.plot_loadings(learner.fit, X=spectra.to_numpy(), random_seed=0, ax=ax)
    ax.set_xlabel("wavelength (nm)")
    ax.set_title("what the two learned components load on (median and 89 % interval)", loc="left", fontsize=11)
    fig.savefig(folder / "wavelengths.png", dpi=150)


def _subplots(*shape: int, figsize: tuple[float, float]) -> tuple[Any, Any]:
    import matplotlib

    # Pictures go to files, also where there is no display.
    matplotlib.use("Agg")
    return pyplot().subplots(*shape, figsize=figsize, layout="constrained")


def main(folder: str | Path = "demo_output", n_splits: int = 4, n_asks: int = 40) -> xr.Dataset:
    """Run the demonstration on two processes, print a table, write pictures and a trace.

    Parameters
    ----------
    folder : path
    n_splits : int
        Random starts, each with its own held-out spectra.
    n_asks : int
        Assays after the first five.

    Returns
    -------
    xarray.Dataset
        ``rmse`` (% fat) and ``nll`` (nats) over ``method``, ``split`` and ``n``.
    """
    console, folder = Console(), Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    spectra, _ = meats()
    console.print(
        f"[bold]{len(spectra)} near-infrared spectra of meat.[/bold] Which {n_asks} samples should go to the wet lab "
        f"after {N_START} random ones? {n_splits} split(s), {N_TEST} spectra held out in each."
    )
    # Each process computes on one thread.
    os.environ["OMP_NUM_THREADS"] = os.environ["OPENBLAS_NUM_THREADS"] = "1"
    context = multiprocessing.get_context("spawn")
    with context.Manager() as manager, ProcessPoolExecutor(2, mp_context=context) as executor:
        report = manager.Queue()
        jobs = [
            (m, s, n_asks, report, folder if (m, s) == ("function", 0) else None)
            for s in range(n_splits)
            for m in METHODS
        ]
        futures = [executor.submit(_worker, *job) for job in jobs]
        total = len(jobs) * (n_asks + 1)
        with progress("Asking", total, enabled=True) as advance:
            done = 0
            while done < total and not any(f.done() and f.exception() for f in futures):
                try:
                    report.get(timeout=1.0)
                except queue.Empty:
                    continue
                done += 1
                advance()
        curves = np.array([future.result() for future in futures]).reshape(n_splits, len(METHODS), -1, 2)
    n = N_START + 5 * np.arange(curves.shape[2])
    results = xr.Dataset(
        {
            "rmse": (("split", "method", "n"), curves[..., 0], {"units": "% fat"}),
            "nll": (("split", "method", "n"), curves[..., 1], {"units": "nats"}),
        },
        coords={"split": np.arange(n_splits), "method": list(METHODS.values()), "n": n},
    )
    with xr.open_datatree(folder / "meats_trace.nc", engine="h5netcdf") as stored:
        tree = stored.load()
    tree["learning_curves"] = results
    tree.to_netcdf(folder / "meats_trace.nc", engine="h5netcdf")
    curves_figure(results).savefig(folder / "learning_curves.png", dpi=150)
    _table(results, console)
    console.print(
        f"Written to {folder}/: learning_curves.png, plane.png, wavelengths.png, and meats_trace.nc "
        "(xarray.open_datatree)."
    )
    return results


def curves_figure(results: xr.Dataset) -> Any:
    """RMSE and NLL against the number of assays, as a matplotlib figure."""
    fig, axes = _subplots(1, 2, figsize=(11, 4.2))
    for ax, metric, label in zip(
        axes, ("rmse", "nll"), ("RMSE (% fat)", "negative log likelihood (nats)"), strict=True
    ):
        plots.plot_learning_curves(results, metric=metric, log=metric == "rmse", ax=ax)
        ax.set(xlabel="assays", ylabel=label)
    return fig


def _table(results: xr.Dataset, console: Console) -> None:
    shown = [n for n in REPORTED if n in results.n]
    for metric, title in (("rmse", "RMSE, % fat"), ("nll", "Negative log likelihood, nats")):
        table = Table(title=f"{title}: 65 held-out spectra, mean ± sd over {results.sizes['split']} splits")
        table.add_column("learn=", no_wrap=True)
        for n in shown:
            table.add_column(f"{n} assays", justify="right")
        for method in results.method.to_numpy():
            # As a keyword, method would be an argument of sel itself.
            part = results[metric].sel({"method": method})
            cells = [f"{float(part.sel(n=n).mean()):.2f} ± {float(part.sel(n=n).std()):.2f}" for n in shown]
            # Without the shared part of the labels, which leaves room for the numbers.
            table.add_row(str(method).removeprefix("learn=").strip('"'), *cells)
        console.print(table)
