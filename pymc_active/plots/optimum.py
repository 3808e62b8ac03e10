"""Plot where the maximum may be, at the end of a search for it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from pymc_active.learner.optimum import Optimum
from pymc_active.plots.axes import check_result, coordinate_axis, legend_above, name_rows, new_grid, read_axes
from pymc_active.plots.maps import draw_map, grid_of
from pymc_active.plots.marks import dots
from pymc_active.plots.measurements import names_of
from pymc_active.plots.style import BLUE, GREY, INK, LEGEND, VERMILION
from pymc_active.predictions.predict import predict
from pymc_active.support.arguments import checked
from pymc_active.support.numbers import Z89
from pymc_active.support.options import count

# Panels side by side, for more than two inputs.
_ACROSS = 4


@checked
def plot_optimum(
    optimum: Optimum,
    *,
    units: Sequence[str] | Mapping[Any, str] | None = None,
    y_unit: str | None = None,
    labels: Sequence | None = None,
    n_candidates: int = 12,
    n_points: int | None = None,
    axes: Any = None,
    figsize: tuple[float, float] | None = None,
) -> np.ndarray:
    """The recommended point, the posterior around it, and where else the maximum (or minimum) of f may be.

    Bands and bars are central 89 % intervals of f with the hyperparameters marginalised. Histograms and clouds show
    ``optimum.samples``, each a possible place of the maximum. Axes, by shape:

    * One input: (2, 1). The posterior with the data and the height of each possible maximum; below, its place.
    * Two inputs: (1, 1). The posterior mean as a map, with the possible places. Its colour bar has the last Axes.
    * More: (2, D). As for one input, along each input through the recommended point. Data off these lines are faint.
    * A pool: (1, 2). The probability of being the best with its Monte Carlo error (68 %), and f.

    Parameters
    ----------
    optimum : Optimum
        From :meth:`Learner.optimum`.
    units, y_unit : sequence of str or dict by input, and str, optional
        Of the inputs and of y.
    labels, n_candidates
        For a pool: labels of its rows (default: its own), and how many of those most likely to be the best are shown.
    n_points : int, optional
        Points of the grid along each input. Default: 200, or 60 for a map.
    axes, figsize : as in :mod:`pymc_active.plots`
    """
    check_result(optimum, Optimum, "plot_optimum", "what learner.optimum() returns")
    count("n_candidates", n_candidates)
    if n_points is not None:
        count("n_points", n_points, least=2)
    names = _axis_labels(optimum.samples.input.to_numpy().tolist(), units)
    height = optimum.fit.gpm.output + (f" ({y_unit})" if y_unit else "")
    if optimum.domain.is_pool:
        return _plot_pool(optimum, height, labels, n_candidates, axes, figsize)
    if labels is not None:
        raise ValueError("labels belong to the rows of a pool, but this maximum was sought in a box: leave labels out")
    if len(names) == 2:
        return _plot_map(optimum, names, height, n_points or 60, axes, figsize)
    return _plot_lines(optimum, names, height, n_points or 200, axes, figsize)


def _plot_lines(
    optimum: Optimum, names: list[str], height: str, n_points: int, axes: Any, figsize: tuple[float, float] | None
) -> np.ndarray:
    """The posterior along each input through the recommended point, and the possible places below."""
    D = len(names)
    axes = read_axes(axes, (2, D)) if axes is not None else _pairs_of_panels(D, figsize)
    at = np.asarray(optimum.x, float)[0]
    low, high = optimum.domain.low, optimum.domain.high
    grid = np.tile(at, (D, n_points, 1))
    for d in range(D):
        grid[d, :, d] = np.linspace(low[d], high[d], n_points)
    mean, sd = (part.reshape(D, n_points) for part in _moments(optimum, grid.reshape(-1, D)))
    places, heights = optimum.samples.x.to_numpy(), optimum.samples.f.to_numpy()
    X, y = optimum.fit.X, optimum.fit.y
    inside = ((low <= X) & (high >= X)).all(1)
    edges = np.concatenate([(mean - Z89 * sd).ravel(), (mean + Z89 * sd).ravel(), y[inside]])
    bottom, top = edges.min(), edges.max()
    what = _kind(optimum)
    for d, (upper, lower) in enumerate(axes.T):
        x, m, half = grid[d, :, d], mean[d], Z89 * sd[d]
        upper.fill_between(x, m - half, m + half, color=BLUE, alpha=0.2, lw=0, label="89 % of f")
        upper.plot(x, m, color=BLUE, lw=1.8, label="mean of f")
        if D == 1:
            style = {"color": VERMILION, "alpha": 0.35, "mew": 0, "zorder": 2}
            upper.plot(places[:, d], heights, ".", ms=5, label=f"possible {what}", **style)
        data = "data" if D == 1 else "data off the line"
        dots(upper, X[inside, d], y[inside], data, alpha=1.0 if D == 1 else 0.3)
        upper.errorbar(
            at[d], optimum.f_mean, Z89 * optimum.f_sd, fmt="*", ms=13, color=VERMILION, mec="white", mew=0.8, lw=1.6,
            zorder=5, label="recommended",
        )  # fmt: skip
        width = np.full(len(places), 100 / len(places))
        lower.hist(places[:, d], np.linspace(low[d], high[d], 41), weights=width, color=VERMILION, alpha=0.75)
        lower.axvline(at[d], color=INK, lw=1.0, ls=(0, (5, 3)))
        margin, above = 0.02 * (high[d] - low[d]), 0.05 * (top - bottom)
        xlim = (low[d] - margin, high[d] + margin)
        upper.set(xlim=xlim, ylim=(bottom - above, top + above))
        lower.set(xlim=xlim, ylim=(0, None), xlabel=names[d])
        for ax in (upper, lower):
            coordinate_axis(ax, "x")
        upper.tick_params(axis="x", labelbottom=False)
        if d % _ACROSS == 0:
            upper.set_ylabel(height)
            lower.set_ylabel(f"place of the\n{what} (%)")
        else:
            upper.tick_params(axis="y", labelleft=False)
    if D == 1:
        legend_above(axes[0, 0])
        axes[0, 0].figure.align_ylabels(axes[:, 0])
    else:
        handles, texts = axes[0, 0].get_legend_handles_labels()
        axes[0, 0].figure.legend(handles, texts, loc="outside upper left", ncols=len(texts), **LEGEND)
    return axes


def _plot_map(
    optimum: Optimum, names: list[str], height: str, n_points: int, axes: Any, figsize: tuple[float, float] | None
) -> np.ndarray:
    """The posterior mean over two inputs, with the possible places."""
    axes = new_grid((1, 1), figsize or (6.4, 4.8)) if axes is None else read_axes(axes, (1, 1))
    ax = axes[0, 0]
    low, high = optimum.domain.low, optimum.domain.high
    sides, grid = grid_of(np.stack([low, high], axis=1), n_points)
    draw_map(ax, sides, _moments(optimum, grid)[0], f"posterior mean of {height}")
    places, at = optimum.samples.x.to_numpy(), np.asarray(optimum.x, float)[0]
    # The frame must not clip points that lie on it.
    shown: dict[str, Any] = {"clip_on": False}
    style = {"ms": 6, "color": VERMILION, "mec": "none", "alpha": 0.4, **shown}
    ax.plot(*places.T, "o", label=f"possible {_kind(optimum)}", zorder=3, **style)
    X = optimum.fit.X
    inside = ((low <= X) & (high >= X)).all(1)
    dots(ax, *X[inside].T, zorder=4, **shown)
    best = f"recommended: {optimum.f_mean:.4g} ± {Z89 * optimum.f_sd:.2g} (89 %)"
    ax.plot(*at[:, None], "*", ms=15, color=VERMILION, mec="white", mew=1.0, label=best, zorder=5, **shown)
    ax.set(xlabel=names[0], ylabel=names[1])
    legend_above(ax)
    return axes


def _plot_pool(
    optimum: Optimum, height: str, labels: Any, n_candidates: int, axes: Any, figsize: tuple[float, float] | None
) -> np.ndarray:
    """Probabilities of the leading candidates, and f there."""
    pool = optimum.domain.pool
    assert pool is not None
    labels = optimum.domain.labels if labels is None else labels
    texts = [str(label) for label in (range(len(pool)) if labels is None else labels)]
    if len(texts) != len(pool):
        raise ValueError(f"labels must have one entry for each of the {len(pool)} rows of the pool; got {len(texts)}")
    n_paths, probability = optimum.samples.sizes["path"], optimum.row_probabilities()
    recommended = int((pool == np.asarray(optimum.x, float)).all(1).argmax())
    leading = np.argsort(-probability, kind="stable")[: min(n_candidates, np.count_nonzero(probability))]
    shown = leading if recommended in leading else np.append(leading[: n_candidates - 1], recommended)
    mean, sd = _moments(optimum, pool[shown])
    k = len(shown)
    if axes is None:
        axes = new_grid((1, 2), figsize or (7.2, 1.3 + 0.3 * k), sharey=True, width_ratios=[1, 1.2])
    axes = read_axes(axes, (1, 2))
    left, right = axes[0]
    at = np.arange(k)
    p = probability[shown]
    is_best = shown == recommended
    half = Z89 * sd
    for part, color, label in ((~is_best, BLUE, "89 % of f"), (is_best, VERMILION, "recommended")):
        left.barh(at[part], 100 * p[part], color=color, alpha=0.75, height=0.7)
        style: dict[str, Any] = {"fmt": "o", "ms": 6, "color": color, "mfc": "white", "mew": 1.6, "label": label}
        right.errorbar(mean[part], at[part], xerr=half[part], **style)
    left.errorbar(100 * p, at, xerr=100 * np.sqrt(p * (1 - p) / n_paths), fmt="none", ecolor=INK, elinewidth=1.0)
    what = _kind(optimum)
    rest = 1 - p.sum()
    xlabel = f"probability of the {what} (%)" + (f"; others {100 * rest:.0f}" if rest > 0.5 / n_paths else "")
    left.set(xlabel=xlabel, xlim=(0, None))
    name_rows(left, [texts[row] for row in shown])
    measured = [
        (y, row)
        for x, y in zip(optimum.fit.X, optimum.fit.y, strict=True)
        for row in np.flatnonzero((pool[shown] == x).all(1))
    ]
    if measured:
        dots(right, *np.transpose(measured), zorder=4)
    right.set_xlabel(height)
    legend_above(right)
    for ax in (left, right):
        ax.tick_params(axis="y", length=0)
        ax.grid(axis="y", color=GREY, lw=0.4, alpha=0.4)
        ax.set_axisbelow(True)
    return axes


def _moments(optimum: Optimum, X: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Mean and sd of f at the rows of X, from the draws of the recommendation, so that its mean lies on the curve."""
    prediction = predict(optimum.fit, X)
    return prediction.f_mean.to_numpy(), np.sqrt(prediction.f_variance.to_numpy())


def _kind(optimum: Optimum) -> str:
    return "minimum" if optimum.minimize else "maximum"


def _axis_labels(inputs: list, units: Sequence[str] | Mapping[Any, str] | None) -> list[str]:
    """Names of the inputs with their units."""
    if isinstance(units, Mapping):
        unknown = [name for name in units if name not in inputs]
        if unknown:
            raise ValueError(f"units must be those of {', '.join(map(str, inputs))}; got {unknown}")
        units = [units.get(name, "") for name in inputs]
    elif isinstance(units, str) or (units is not None and len(units) != len(inputs)):
        raise ValueError(f"units must hold {len(inputs)} text(s), one for each input; got {units!r}")
    names = names_of(inputs)
    return names if units is None else [f"{n} ({u})" if u else n for n, u in zip(names, units, strict=True)]


def _pairs_of_panels(D: int, figsize: tuple[float, float] | None) -> np.ndarray:
    """Axes (2, D): one above the other for each input, a few inputs in a row of the figure."""
    across, rows = min(D, _ACROSS), -(-D // _ACROSS)
    size = (6.4, 4.6) if D == 1 else (1.2 + 2.4 * across, 0.5 + 3.6 * rows)
    grid = new_grid((2 * rows, across), figsize or size, height_ratios=[2.2, 1] * rows)
    panels = [grid[2 * (d // across) : 2 * (d // across) + 2, d % across] for d in range(rows * across)]
    for ax in (ax for panel in panels[D:] for ax in panel):
        ax.remove()
    return np.stack(panels[:D], axis=1)
