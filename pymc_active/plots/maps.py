"""Plot a fit with two inputs as maps of its mean and its uncertainty."""

from __future__ import annotations

from typing import Any

import numpy as np

from pymc_active.inference.fit import Fit
from pymc_active.plots.axes import Axes, new_grid, plain_ticks, read_axes, show_legend
from pymc_active.plots.marks import dots, ring
from pymc_active.plots.measurements import box_of, data_of, names_of, reach_beyond
from pymc_active.plots.style import INK
from pymc_active.predictions.model_average import ModelAverage, check_one_fit
from pymc_active.predictions.predict import predict
from pymc_active.support.options import count


def plot_map(
    fit: Fit | ModelAverage,
    *,
    X: Any = None,
    y: Any = None,
    highlight: Any = None,
    number: bool = False,
    limits: Any = None,
    n_points: int = 60,
    axes: Any = None,
) -> np.ndarray:
    """Mean and standard deviation of f over two inputs, side by side, (2,) Axes: what ``predict(fit, grid)`` returns.

    The data are coloured on the scale of the mean: a point that stands out is far from what the model makes of it. On
    the right they are small dots. ``limits`` are pairs (low, high) of the two inputs, by default the model's box or,
    without one, a tenth beyond the data on either side; ``n_points`` those of the grid along each input. The colour
    bars have the figure's last two Axes. The rest is as in :mod:`pymc_active.plots`.
    """
    if not isinstance(fit, ModelAverage):
        check_one_fit(fit, "plot_map")
    inputs, output = fit.gpm.inputs, fit.gpm.output
    if len(inputs) != 2:
        raise ValueError(
            f"plot_map draws models with two inputs; this one has {len(inputs)}: plot_predictions(fit) draws a slice"
        )
    X, y = data_of(fit, X, y)
    count("n_points", n_points, least=2)
    ends = read_limits(box_of(fit.gpm, X) if limits is None else limits)
    sides, grid = grid_of(ends, n_points)
    left, right = axes = new_grid((1, 2), (10.5, 4.3))[0] if axes is None else read_axes(axes, (2,))
    prediction = predict(fit, grid)
    drawn = draw_map(left, sides, prediction.f_mean.to_numpy(), f"mean of f: {output}", y)
    draw_map(right, sides, np.sqrt(prediction.f_variance.to_numpy()), f"sd of f: {output}", cmap="Purples")
    clip_on = reach_beyond(ends, X)
    coloured_dots(left, drawn, X, y, clip_on)
    dots(right, *X.T, ms=3.5, clip_on=clip_on)
    ring(left, X, highlight, number, clip_on)
    for ax in axes:
        ax.set(**dict(zip(("xlabel", "ylabel"), names_of(inputs), strict=True)))
        plain_ticks(ax)
    show_legend(left, is_below=True)
    return axes


def grid_of(limits: np.ndarray, n_points: int) -> tuple[list[np.ndarray], np.ndarray]:
    """The sides of a grid between ``limits`` (2, 2), a row for each input; and its points (n_points², 2)."""
    sides = [np.linspace(low, high, n_points) for low, high in limits]
    return sides, np.stack(np.meshgrid(*sides), axis=-1).reshape(-1, 2)


def draw_map(
    ax: Axes, sides: list[np.ndarray], values: np.ndarray, label: str, others: Any = (), cmap: str = "Blues"
) -> Any:
    """Filled contours of values at the points of :func:`grid_of`, with their colour bar, which spans ``others`` too."""
    import matplotlib as mpl

    # Pale enough for what is drawn on it.
    pale = mpl.colors.ListedColormap(mpl.colormaps[cmap](np.linspace(0.02, 0.72, 256)))
    everything = np.concatenate([values, others])
    levels = mpl.ticker.MaxNLocator(20).tick_values(everything.min(), everything.max())
    table = values.reshape(len(sides[1]), len(sides[0]))
    filled = ax.contourf(*sides, table, levels=levels, cmap=pale, vmin=levels[0], vmax=levels[-1])
    ax.figure.colorbar(filled, ax=ax, label=label)
    ax.set(xlim=sides[0][[0, -1]], ylim=sides[1][[0, -1]])
    return filled


def coloured_dots(ax: Axes, drawn: Any, X: np.ndarray, y: np.ndarray, clip_on: bool = True) -> None:
    """Measurements at X (n, 2), in the colours of a map."""
    style: dict[str, Any] = {"s": 42, "edgecolors": INK, "linewidths": 0.9, "zorder": 3, "label": "data"}
    ax.scatter(X[:, 0], X[:, 1], c=y, cmap=drawn.cmap, norm=drawn.norm, clip_on=clip_on, **style)


def read_limits(limits: Any, n: int = 2) -> np.ndarray:
    """Pairs (low, high) of the n axes of a picture, (n, 2), or a ValueError."""
    pairs = np.asarray(limits, float)
    if pairs.shape != (n, 2) or not (np.isfinite(pairs).all() and (pairs[:, 0] < pairs[:, 1]).all()):
        what = "two pairs" if n == 2 else "one pair"
        raise ValueError(f"limits must be {what} of finite numbers (low, high), low < high; got {limits!r}")
    return pairs
