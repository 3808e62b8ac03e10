"""Plot the probabilities of a classifier along one input or over two."""

from __future__ import annotations

from typing import Any

import numpy as np

from pymc_active.classification.fit import ProbitFit
from pymc_active.plots.axes import Axes, check_result, legend_above, new_axes
from pymc_active.plots.measurements import around, column_of, name_slice
from pymc_active.plots.style import BLUE, INK, VERMILION
from pymc_active.support.arguments import checked
from pymc_active.support.numbers import QUANTILES
from pymc_active.support.options import count


@checked
def plot_probability(
    fit: ProbitFit,
    *,
    inputs: Any = None,
    n_points: int | None = None,
    ax: Axes | None = None,
) -> Axes:
    """Probability of yes along one input, or as a map over two, with the labels.

    Along one input the band is the central 89 % interval of Φ(f). If it is the only one, points that were measured
    several times are circles at their share of yes, with an area in proportion to their number. Over two inputs, both
    answers are equally likely on the line. ``n_points`` of the grid along each input are by default 200 for one input
    and 60 for two.

    Parameters
    ----------
    inputs : an input, or a sequence of one or two, optional
        By position or by name. Default: the first two, or the only one. The others stay at the median of the data;
        the labels are then drawn faintly because they do not lie on this slice.
    """
    check_result(fit, ProbitFit, "plot_probability", "a ProbitFit, made by fit_probit")
    names = fit.gp.inputs
    inputs = names[:2] if inputs is None else inputs
    chosen = list(inputs) if isinstance(inputs, list | tuple | np.ndarray) else [inputs]
    if len(chosen) not in (1, 2):
        raise ValueError(f"inputs must name one or two inputs; got {inputs!r}")
    columns, labels = (list(part) for part in zip(*(column_of(names, one) for one in chosen), strict=True))
    if len(set(columns)) < len(columns):
        raise ValueError(f"inputs must be different; got {inputs!r}")
    n = count("n_points", n_points or (200 if len(columns) == 1 else 60))
    axes = [np.linspace(*around(fit.X[:, column]), n) for column in columns]
    meshes = np.meshgrid(*axes)
    grid = np.tile(np.median(fit.X, axis=0), (meshes[0].size, 1))
    grid[:, columns] = np.stack([mesh.ravel() for mesh in meshes], axis=1)
    predicted = fit.predict(grid, quantiles=QUANTILES[::2] if len(columns) == 1 else None)
    probability = predicted.probability.to_numpy()
    style: dict[str, Any] = {"ls": "none", "ms": 6, "zorder": 3, "alpha": 0.4 if len(names) > len(columns) else 1.0}
    ax = new_axes(ax, (6.4, 4.0) if len(columns) == 1 else (5.6, 4.4))
    if len(columns) == 1:
        ax.fill_between(
            axes[0], *predicted.probability_quantile.to_numpy(), color=BLUE, alpha=0.2, lw=0, label="89 % of Φ(f)"
        )
        ax.plot(axes[0], probability, color=BLUE, lw=1.8, label="probability of yes")
        heights = fit.labels.astype(float)
        ax.set(ylabel="probability of yes", ylim=(-0.05, 1.05), xlabel=labels[0])
    else:
        table = probability.reshape(meshes[0].shape)
        filled = ax.contourf(*meshes, table, levels=np.linspace(0, 1, 11), cmap="PuOr_r", alpha=0.8)
        ax.contour(*meshes, table, levels=[0.5], colors=INK, linewidths=1.2)
        ax.figure.colorbar(filled, ax=ax, label="probability of yes")
        heights = fit.X[:, columns[1]]
        ax.set(xlabel=labels[0], ylabel=labels[1])
    x, once = fit.X[:, columns[0]], np.ones(len(fit.X), bool)
    if len(names) == 1:
        places, group, counts = np.unique(x, return_inverse=True, return_counts=True)
        once, often = counts[group] == 1, counts > 1
        shares = np.bincount(group, fit.labels)[often] / counts[often]
        if often.any():
            area = 250 * counts[often] / counts.max()
            kind: dict[str, Any] = {"facecolor": "white", "edgecolor": VERMILION, "zorder": 3, "label": "share of yes"}
            ax.scatter(places[often], shares, area, **kind)
    # Shapes distinguish the labels as well as colours.
    yes, no = fit.labels & once, ~fit.labels & once
    ax.plot(x[yes], heights[yes], marker="o", color=VERMILION, mec="white", label="yes" if yes.any() else None, **style)
    ax.plot(x[no], heights[no], marker="s", mfc="white", mec=INK, label="no" if no.any() else None, **style)
    ax.set_xlim(axes[0][0], axes[0][-1])
    name_slice(ax, names, columns, grid[0], np.array([around(x) for x in fit.X.T]))
    legend_above(ax)
    return ax
