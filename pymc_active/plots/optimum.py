"""Plot where the maximum may be, at the end of a search for it."""

from __future__ import annotations

from typing import Any

import numpy as np

from pymc_active.learner.optimum import Optimum
from pymc_active.plots.axes import check_result, name_rows, new_grid, plain_ticks, show_legend
from pymc_active.plots.marks import dots, draw_band
from pymc_active.plots.measurements import band, data_of, names_of, output_of
from pymc_active.plots.predictions import draw_map, grid_of
from pymc_active.plots.slices import plot_slices
from pymc_active.plots.style import BLUE, GREY, INK, VERMILION
from pymc_active.support.numbers import coordinate
from pymc_active.support.options import count
from pymc_active.support.tables import read_inputs

_STAR: dict[str, Any] = {"color": VERMILION, "mec": "white", "zorder": 5}


def plot_optimum(
    optimum: Optimum, *, n_candidates: int = 12, n_points: int | None = None, axes: Any = None
) -> np.ndarray:
    """The recommended point, the posterior around it, and where else the maximum (or minimum) of f may be.

    Bands and bars are central 89 % intervals of f with the hyperparameters marginalised. Histograms and clouds show
    ``optimum.samples``, each a possible place of the maximum. ``optimum`` comes from :meth:`Learner.optimum`;
    ``n_points`` of the grid along each input are by default 200, or 60 for a map. Axes, by shape:

    * One input: (2, 1). The posterior with the data and the height of each possible maximum; below, its place.
    * Two inputs: (1, 1). The mean of f as a map, with the possible places. Its colour bar has the last Axes.
    * More: (2, D). As for one input, along each input through the recommended point. Data off these lines are faint.
    * A pool: (1, 2). The probability of being the best with its Monte Carlo error (68 %), and f, of the
      ``n_candidates`` most likely ones.
    * A space: as :func:`plot_slices`, through the recommended point.
    """
    check_result(optimum, Optimum, "plot_optimum", "what learner.optimum() returns")
    if optimum.domain.space is not None:
        return plot_slices(optimum.fit, optimum.x, axes=axes)
    if optimum.domain.fixed and not optimum.domain.is_pool:
        raise ValueError("with fixed inputs see plot_predictions(optimum.fit, at=optimum.x)")
    if optimum.domain.is_pool:
        return _plot_pool(optimum, count("n_candidates", n_candidates), axes)
    is_map = optimum.samples.sizes["input"] == 2
    n_points = count("n_points", (60 if is_map else 200) if n_points is None else n_points, least=2)
    return (_plot_map if is_map else _plot_lines)(optimum, n_points, axes)


def _plot_lines(optimum: Optimum, n_points: int, axes: Any) -> np.ndarray:
    """The posterior along each input through the recommended point, and the possible places below."""
    names = names_of(optimum.samples.input.to_numpy().tolist())
    D, what = len(names), _kind(optimum)
    size = (6.4 if D == 1 else 1.2 + 2.4 * D, 4.4)
    axes = new_grid((2, D), size, axes, sharex="col", sharey="row", height_ratios=[2, 1])
    at, places = np.asarray(optimum.x, float)[0], optimum.samples.x.to_numpy()
    low, high = optimum.domain.low, optimum.domain.high
    grid = np.tile(at, (D, n_points, 1))
    grid[np.arange(D), :, np.arange(D)] = np.linspace(low, high, n_points, axis=1)
    mean, bottom, top = (part.reshape(D, n_points) for part in band(optimum.fit, grid.reshape(-1, D)))
    half = _half(*band(optimum.fit, at[None]))
    X, y = _data_inside(optimum)
    for d, (upper, lower) in enumerate(axes.T):
        draw_band(upper, grid[d, :, d], (mean[d], bottom[d], top[d]))
        if D == 1:
            style = {"color": VERMILION, "alpha": 0.35, "mew": 0, "zorder": 2}
            upper.plot(places[:, d], optimum.samples.f, ".", ms=5, label=f"possible {what}", **style)
        dots(upper, X[:, d], y, "data" if D == 1 else "data off the line", alpha=1.0 if D == 1 else 0.3)
        upper.errorbar(at[d], optimum.f_mean, half, fmt="*", ms=13, lw=1.6, label="recommended", **_STAR)
        width = np.full(len(places), 100 / len(places))
        lower.hist(places[:, d], np.linspace(low[d], high[d], 41), weights=width, color=VERMILION, alpha=0.75)
        lower.axvline(at[d], color=INK, lw=1.0, ls="--")
        lower.set_xlabel(names[d])
        for ax in (upper, lower):
            ax.margins(x=0.02)
            plain_ticks(ax, "x", 8 if D == 1 else 4)
    axes[0, 0].set_ylabel(output_of(optimum.fit))
    axes[1, 0].set_ylabel(f"place of the\n{what} (%)")
    if D == 1:
        show_legend(axes[0, 0])
    else:
        handles = axes[0, 0].get_legend_handles_labels()
        axes[0, 0].figure.legend(*handles, loc="outside upper left", ncols=4, fontsize=9, frameon=False)
    return axes


def _plot_map(optimum: Optimum, n_points: int, axes: Any) -> np.ndarray:
    """The mean of f over two inputs, with the possible places."""
    axes = new_grid((1, 1), (6.4, 4.8), axes)
    ax = axes[0, 0]
    sides, grid = grid_of(np.stack([optimum.domain.low, optimum.domain.high], axis=1), n_points)
    draw_map(ax, sides, band(optimum.fit, grid)[0], f"mean of f: {output_of(optimum.fit)}")
    # The frame must not clip points that lie on it.
    style = {"ms": 6, "color": VERMILION, "mec": "none", "alpha": 0.4, "clip_on": False}
    ax.plot(*optimum.samples.x.to_numpy().T, "o", label=f"possible {_kind(optimum)}", zorder=3, **style)
    dots(ax, *_data_inside(optimum)[0].T, zorder=4, clip_on=False)
    low, high = np.ravel(band(optimum.fit, np.asarray(optimum.x, float))[1:])
    reach = " to ".join(coordinate(end, 100 * (high - low)) for end in (low, high))
    best = f"recommended: {optimum.f_mean:.4g} (89 %: {reach})"
    ax.plot(*np.asarray(optimum.x, float).T, "*", ms=15, label=best, clip_on=False, **_STAR)
    names = names_of(optimum.samples.input.to_numpy().tolist())
    ax.set(xlabel=names[0], ylabel=names[1])
    plain_ticks(ax)
    show_legend(ax, is_below=True)
    return axes


def _plot_pool(optimum: Optimum, n_candidates: int, axes: Any) -> np.ndarray:
    """Probabilities of the leading candidates, and f there."""
    pool, labels = optimum.domain.pool, optimum.domain.labels
    assert pool is not None
    n_paths, probability = optimum.samples.sizes["path"], optimum.row_probabilities()
    recommended = int((pool == read_inputs(optimum.x, "x", inputs=optimum.fit.gpm.inputs)).all(1).argmax())
    leading = np.argsort(-probability, kind="stable")[: min(n_candidates, np.count_nonzero(probability))]
    shown = leading if recommended in leading else np.append(leading[: n_candidates - 1], recommended)
    mean, *ends = band(optimum.fit, pool[shown])
    half = _half(mean, *ends)
    at, p, is_best = np.arange(len(shown)), probability[shown], shown == recommended
    axes = new_grid((1, 2), (7.2, 1.3 + 0.3 * len(shown)), axes, sharey=True, width_ratios=[1, 1.2])
    left, right = axes[0]
    for part, color, label in ((~is_best, BLUE, "89 % interval of f"), (is_best, VERMILION, "recommended")):
        left.barh(at[part], 100 * p[part], color=color, alpha=0.75, height=0.7)
        style: dict[str, Any] = {"fmt": "o", "ms": 6, "color": color, "mfc": "white", "mew": 1.6, "label": label}
        right.errorbar(mean[part], at[part], xerr=half[:, part], **style)
    left.errorbar(100 * p, at, xerr=100 * np.sqrt(p * (1 - p) / n_paths), fmt="none", ecolor=INK, elinewidth=1.0)
    rest = 1 - p.sum()
    others = f"; others {100 * rest:.0f}" if rest > 0.5 / n_paths else ""
    left.set(xlabel=f"probability of the {_kind(optimum)} (%){others}", xlim=(0, None))
    name_rows(left, [str(row if labels is None else labels[row]) for row in shown])
    X, y = data_of(optimum.fit, None, None)
    rows, measured = np.nonzero((pool[shown][:, None] == X).all(2))
    if len(rows):
        dots(right, y[measured], rows, zorder=4)
    right.set_xlabel(output_of(optimum.fit))
    show_legend(right, is_below=True)
    for ax in (left, right):
        ax.tick_params(axis="y", length=0)
        ax.grid(axis="y", color=GREY, lw=0.4, alpha=0.4)
        ax.set_axisbelow(True)
    return axes


def _data_inside(optimum: Optimum) -> tuple[np.ndarray, np.ndarray]:
    """The data in the box."""
    X, y = data_of(optimum.fit, None, None)
    inside = ((optimum.domain.low <= X) & (optimum.domain.high >= X)).all(1)
    return X[inside], y[inside]


def _half(mean: np.ndarray, low: np.ndarray, high: np.ndarray) -> np.ndarray:
    """Bars below and above a mean (2, m), which may lie beyond an end where f is skewed."""
    return np.maximum([mean - low, high - mean], 0.0)


def _kind(optimum: Optimum) -> str:
    return "minimum" if optimum.minimize else "maximum"
