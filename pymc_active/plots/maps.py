"""Plot a fit with two inputs as maps of its mean and its uncertainty."""

from __future__ import annotations

from typing import Any

import numpy as np

from pymc_active.inference.fit import Fit
from pymc_active.plots.axes import (
    Axes,
    color_bar,
    coordinate_axis,
    legend_above,
    new_grid,
    read_axes,
    small_title,
)
from pymc_active.plots.marks import dots
from pymc_active.plots.measurements import box_of, data_of, names_of, ring
from pymc_active.plots.style import INK
from pymc_active.predictions.model_average import ModelAverage, check_one_fit
from pymc_active.predictions.predict import predict
from pymc_active.support.arguments import checked
from pymc_active.support.options import count


@checked
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
    figsize: tuple[float, float] | None = None,
) -> np.ndarray:
    """Posterior mean and standard deviation of f over two inputs, side by side: what ``predict(fit, grid)`` returns.

    The data are coloured on the scale of the mean: a point that stands out is far from what the model makes of it. On
    the right they are small dots. The colour bars have the figure's last two Axes.

    Parameters
    ----------
    limits : array_like, shape (2, 2), optional
        Pairs (low, high) of the two inputs, by default the model's box or, without one, a tenth beyond the data on
        either side.
    n_points : int
        Of the grid, along each input.

    Returns
    -------
    ndarray of Axes, shape (2,)

    Raises
    ------
    ValueError
        For a model without exactly two inputs, or limits that do not increase.
    """
    if not isinstance(fit, ModelAverage):
        check_one_fit(fit, "plot_map")
    inputs = fit.gpm.inputs
    if len(inputs) != 2:
        raise ValueError(
            f"plot_map draws models with two inputs; this one has {len(inputs)}: plot_predictions(fit) draws a slice"
        )
    X, y = data_of(fit, X, y)
    count("n_points", n_points, least=2)
    sides, grid = grid_of(_read_limits(box_of(fit.gpm, X) if limits is None else limits), n_points)
    axes = new_grid((1, 2), figsize or (10.5, 4.3))[0] if axes is None else read_axes(axes, (2,))
    prediction = predict(fit, grid)
    mean, sd = prediction.f_mean.to_numpy(), np.sqrt(prediction.f_variance.to_numpy())
    left, right = axes
    drawn = draw_map(left, sides, mean, fit.gpm.output, y)
    draw_map(right, sides, sd, f"sd of {fit.gpm.output}", cmap="Purples")
    clip_on = reach_beyond(left, X)
    style: dict[str, Any] = {"s": 42, "edgecolors": INK, "linewidths": 0.9, "zorder": 3, "label": "data"}
    left.scatter(*X.T, c=y, cmap=drawn.cmap, norm=drawn.norm, clip_on=clip_on, **style)
    dots(right, *X.T, ms=3.5, clip_on=clip_on)
    for ax, what in ((left, "posterior mean of f"), (right, "posterior sd of f")):
        ax.set(**dict(zip(("xlabel", "ylabel"), names_of(inputs), strict=True)))
        small_title(ax, what)
    ring(left, X[:, 0], X[:, 1], highlight, number, clip_on)
    for ax in axes:
        legend_above(ax)
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
    table, everything = values.reshape(len(sides[1]), len(sides[0])), np.concatenate([values, others])
    # A dozen of the map itself, unless others span far more.
    n_levels = int(12 * min(np.ptp(everything) / max(np.ptp(values), 1e-300), 3.0))
    levels = mpl.ticker.MaxNLocator(n_levels, steps=[1, 2, 2.5, 5, 10]).tick_values(everything.min(), everything.max())
    filled = ax.contourf(*sides, table, levels=levels, cmap=pale, vmin=levels[0], vmax=levels[-1])
    bar = color_bar(ax, filled, label)
    # Others may span more than the map: without any level in its range Matplotlib warns.
    if (inside := levels[(levels > values.min()) & (levels < values.max())]).size:
        bar.add_lines(ax.contour(*sides, table, levels=inside, colors="white", linewidths=0.6, linestyles="solid"))
    ax.set(xlim=sides[0][[0, -1]], ylim=sides[1][[0, -1]])
    for which in "xy":
        coordinate_axis(ax, which)
    return filled


def reach_beyond(ax: Axes, X: np.ndarray) -> bool:
    """Whether points (n, 2) lie beyond the frame, which then clips them; it must not clip points that lie on it."""
    low, high = np.transpose([ax.get_xlim(), ax.get_ylim()])
    return bool(((X < low) | (high < X)).any())


def _read_limits(limits: Any) -> np.ndarray:
    pairs = np.asarray(limits, float)
    if pairs.shape != (2, 2) or not (np.isfinite(pairs).all() and (pairs[:, 0] < pairs[:, 1]).all()):
        raise ValueError(f"limits must be two pairs of finite numbers (low, high), low < high; got {limits!r}")
    return pairs
