"""A picture of what is known and of what is suggested, for any model and any number of inputs."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from pymc_active.command_line.output import Suggestion
from pymc_active.command_line.settings import Settings
from pymc_active.learner.learner import Learner
from pymc_active.plots.any_result import plot
from pymc_active.plots.style import BLUE, INK, VERMILION, Z89, legend_above, new_axes, pyplot
from pymc_active.predictions.predict import predict

if TYPE_CHECKING:
    from matplotlib.axes import Axes

# Candidates of a large pool that are drawn, evenly spread over it.
_MOST = 2000


def check_picture(path: str | os.PathLike) -> None:
    """Raise an ImportError without matplotlib, and a ValueError for a kind of file that it cannot write."""
    pyplot()
    from matplotlib.backend_bases import FigureCanvasBase

    known = FigureCanvasBase.get_supported_filetypes()
    if Path(path).suffix.removeprefix(".").lower() not in known:
        raise ValueError(
            f"--plot {path}: the name must end in one of {', '.join(f'.{kind}' for kind in sorted(known))}"
        )


def save_picture(path: str | os.PathLike, learner: Learner, settings: Settings, found: Sequence[Suggestion]) -> None:
    """Draw into a file whose kind its name says.

    With a single input the predictions along it; of several models their probabilities, if these are what is learned;
    else the measurements among all candidates, ordered by their prediction, or in a box one after the other. The
    suggestions are red.
    """
    plt = pyplot()
    if settings.learn == "model":
        ax = plot(learner)
    elif learner.X.shape[1] == 1:
        ax = _along_the_input(learner, settings, found)
    elif learner.domain.is_pool:
        ax = _over_the_pool(learner, settings, found)
    else:
        ax = _one_after_another(learner, settings, found)
    try:
        ax.figure.savefig(path, dpi=150)
    finally:
        plt.close(ax.figure)


def _along_the_input(learner: Learner, settings: Settings, found: Sequence[Suggestion]) -> Axes:
    ax = new_axes(None, (7.0, 4.2))
    low, high = learner.X.min(), learner.X.max()
    places = [float(one.x[0]) for one in found]
    shown = [low, high, *places] if settings.bounds is None else settings.bounds[0][1:]
    grid = np.linspace(min(shown), max(shown), 300)
    _band(ax, learner, grid, grid[:, None])
    ax.plot(learner.X[:, 0], learner.y, "o", ms=5, color=INK, mec="white", mew=0.5, label="measured")
    _suggested(ax, np.array(places), found)
    ax.set(xlabel=(settings.inputs or [""])[0], ylabel=settings.target)
    legend_above(ax)
    return ax


def _over_the_pool(learner: Learner, settings: Settings, found: Sequence[Suggestion]) -> Axes:
    pool = learner.domain.pool
    assert pool is not None
    rows = np.unique(np.linspace(0, len(pool) - 1, min(_MOST, len(pool))).astype(int))
    n, parts = len(learner.y), [learner.X, *(one.x[None] for one in found), pool[rows]]
    # Those that are in the pool as well are drawn once.
    X, which = np.unique(np.concatenate(parts), axis=0, return_inverse=True)
    order = np.argsort(predict(learner.fit, X).f_mean.to_numpy(), kind="stable")
    place = 1 + np.argsort(order)[which.ravel()]
    ax = new_axes(None, (7.5, 4.5))
    _band(ax, learner, np.arange(1, len(X) + 1), X[order])
    ax.plot(place[:n], learner.y, "o", ms=5, color=INK, mec="white", mew=0.5, label="measured")
    _suggested(ax, place[n : n + len(found)], found)
    ax.set(xlabel="candidates, by their prediction", ylabel=settings.target)
    legend_above(ax)
    return ax


def _one_after_another(learner: Learner, settings: Settings, found: Sequence[Suggestion]) -> Axes:
    from matplotlib.ticker import MaxNLocator

    n = len(learner.y)
    ax = new_axes(None, (7.0, 4.2))
    ax.plot(np.arange(1, n + 1), learner.y, "o", ms=5, color=INK, mec="white", mew=0.5, label="measured")
    if settings.learn == "maximum":
        best = (np.minimum if settings.minimize else np.maximum).accumulate(learner.y)
        ax.step(np.arange(1, n + 1), best, where="post", color=BLUE, lw=1.5, label="best so far")
    _suggested(ax, n + 1 + np.arange(len(found)), found)
    ax.set(xlabel="measurement", ylabel=settings.target)
    ax.xaxis.set_major_locator(MaxNLocator(integer=True))
    legend_above(ax)
    return ax


def _band(ax: Axes, learner: Learner, x: np.ndarray, X: np.ndarray) -> None:
    prediction = predict(learner.fit, X)
    mean, half = prediction.f_mean.to_numpy(), Z89 * np.sqrt(prediction.y_variance.to_numpy())
    ax.fill_between(x, mean - half, mean + half, color=BLUE, alpha=0.2, lw=0, label="89 % of a measurement")
    ax.plot(x, mean, color=BLUE, lw=1.5, label="predicted")


def _suggested(ax: Axes, x: np.ndarray, found: Sequence[Suggestion]) -> None:
    if not found:
        return
    mean, half = np.array([one.mean for one in found]), Z89 * np.array([one.sd for one in found])
    ax.errorbar(x, mean, half, fmt="D", ms=5, color=VERMILION, lw=1.3, capsize=2, label="suggested")
    for place, height, number in zip(x, mean, range(1, len(found) + 1), strict=True):
        ax.annotate(str(number), (place, height), xytext=(6, 4), textcoords="offset points", color=VERMILION)
