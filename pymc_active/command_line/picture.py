"""A picture of what is known and of what is suggested, for any model and any number of inputs."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from pymc_active.command_line.options import Settings
from pymc_active.command_line.state import Suggestion
from pymc_active.learner.learner import Learner
from pymc_active.plots.any_result import learner_map, plot
from pymc_active.plots.axes import legend_above, new_axes, pyplot
from pymc_active.plots.marks import dots, note, note_on_map
from pymc_active.plots.measurements import around, band
from pymc_active.plots.style import BLUE, VERMILION
from pymc_active.predictions.predict import predict
from pymc_active.support.numbers import Z89

# Candidates of a large pool that are drawn, evenly spread over it.
_MOST = 2000
_SUGGESTED: dict[str, Any] = {"ms": 6, "color": VERMILION}


def check_picture(path: str | os.PathLike) -> None:
    """Raise an ImportError without matplotlib, and a ValueError for a kind of file that it cannot write."""
    pyplot()
    from matplotlib.backend_bases import FigureCanvasBase

    known = sorted(f".{kind}" for kind in FigureCanvasBase.get_supported_filetypes())
    if Path(path).suffix.lower() not in known:
        raise ValueError(f"--plot {path}: the name must end in one of {', '.join(known)}")


def save_picture(path: str | os.PathLike, learner: Learner, settings: Settings, found: Sequence[Suggestion]) -> None:
    """Draw probabilities of models if these are compared, else the measurements, with the suggestions in red.

    Along a single input, on a map of two, else among candidates in the order of their predictions, or in a box one
    after the other.
    """
    if settings.learn == "model":
        ax = plot(learner)
    else:
        ax = (_map if learner.X.shape[1] == 2 else _measurements)(learner, settings, found)
    ax.figure.savefig(path, dpi=150)
    pyplot().close(ax.figure)


def _map(learner: Learner, settings: Settings, found: Sequence[Suggestion]):
    # What a model of a pool takes for its box may leave out the edges of the pool.
    everything = learner.X if learner.domain.pool is None else np.concatenate([learner.domain.pool, learner.X])
    limits = [around(x) for x in everything.T] if settings.bounds is None else [end[1:] for end in settings.bounds]
    axes = learner_map(learner, limits=limits)
    for ax in axes if found else ():
        rim = {"mec": "white", "mew": 0.8, "zorder": 6, "clip_on": False}
        ax.plot(*np.transpose([one.x for one in found]), "D", label="suggested", **_SUGGESTED, **rim)
        for number, one in enumerate(found, start=1):
            note_on_map(ax, str(number), tuple(one.x), (6, 4))
        legend_above(ax)
    return axes[0]


def _measurements(learner: Learner, settings: Settings, found: Sequence[Suggestion]):
    ax, n = new_axes(None, (7.5, 4.5)), len(learner.y)
    X = np.concatenate([learner.X, *(one.x[None] for one in found)])
    pool = learner.domain.pool
    if X.shape[1] == 1:
        place = X[:, 0]
        ends = place if settings.bounds is None else settings.bounds[0][1:]
        grid = np.linspace(min(ends), max(ends), 300)
        _band(ax, learner, grid, grid[:, None])
        ax.set_xlabel((settings.inputs or [""])[0])
    elif pool is not None:
        rows = np.unique(np.linspace(0, len(pool) - 1, min(_MOST, len(pool))).astype(int))
        # Points that are in the pool as well are drawn once.
        once, which = np.unique(np.concatenate([X, pool[rows]]), axis=0, return_inverse=True)
        order = np.argsort(predict(learner.fit, once).f_mean.to_numpy(), kind="stable")
        place = 1 + np.argsort(order)[which.ravel()]
        _band(ax, learner, np.arange(1, len(once) + 1), once[order])
        ax.set_xlabel("candidates, by their prediction")
    else:
        place = np.arange(1, len(X) + 1)
        if settings.learn == "maximum":
            best = (np.minimum if settings.minimize else np.maximum).accumulate(learner.y)
            ax.step(place[:n], best, where="post", color=BLUE, lw=1.5, label="best so far")
        ax.set_xlabel("measurement")
        ax.locator_params(axis="x", integer=True)
    dots(ax, place[:n], learner.y, "measured")
    if found:
        at, mean, half = place[n : n + len(found)], [one.mean for one in found], [Z89 * one.sd for one in found]
        ax.errorbar(at, mean, half, fmt="D", lw=1.3, capsize=2, **_SUGGESTED, label="suggested, bars: 89 %")
        for number, where in enumerate(zip(at, mean, strict=True), start=1):
            note(ax, str(number), where, (6, 4), color=VERMILION)
    ax.set_ylabel(settings.target)
    legend_above(ax)
    return ax


def _band(ax, learner: Learner, x: np.ndarray, X: np.ndarray) -> None:
    mean, low, high = band(learner.fit, X, "y")
    ax.fill_between(x, low, high, color=BLUE, alpha=0.2, lw=0, label="89 % of a measurement")
    ax.plot(x, mean, color=BLUE, lw=1.5, label="predicted")
