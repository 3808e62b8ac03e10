"""Plot the probabilities of a classifier along one input or over two."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.special import ndtr

from pymc_active.classification.fit import ProbitFit
from pymc_active.plots.axes import Axes, check_result, legend_above, new_axes
from pymc_active.plots.measurements import around, column_of, name_slice
from pymc_active.plots.style import BLUE, INK, VERMILION
from pymc_active.support.arguments import checked
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

    Along one input the band is the central 89 % interval of Φ(f). Over two, both answers are equally likely on the
    line. ``n_points`` of the grid along each input are by default 200 for one input and 60 for two.

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
    means, variances = fit.latent(grid)
    probability = ndtr(means / np.sqrt(1 + variances)).mean(0)
    style: dict[str, Any] = {"ls": "none", "ms": 6, "zorder": 3, "alpha": 0.4 if len(names) > len(columns) else 1.0}
    ax = new_axes(ax, (6.4, 4.0) if len(columns) == 1 else (5.6, 4.4))
    if len(columns) == 1:
        low, high = (ndtr(_quantile(means, variances, tail)) for tail in (0.055, 0.945))
        ax.fill_between(axes[0], low, high, color=BLUE, alpha=0.2, lw=0, label="89 % of Φ(f)")
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
    x = fit.X[:, columns[0]]
    # Shapes distinguish the labels as well as colours.
    ax.plot(x[fit.labels], heights[fit.labels], marker="o", color=VERMILION, mec="white", label="yes", **style)
    ax.plot(x[~fit.labels], heights[~fit.labels], marker="s", mfc="white", mec=INK, label="no", **style)
    ax.set_xlim(axes[0][0], axes[0][-1])
    name_slice(ax, names, columns, grid[0], np.array([around(x) for x in fit.X.T]))
    legend_above(ax)
    return ax


def _quantile(means: np.ndarray, variances: np.ndarray, level: float) -> np.ndarray:
    """Quantile of a mixture of equally weighted Gaussians (S, m), by bisection."""
    sd = np.sqrt(variances)
    low, high = (means - 6 * sd).min(0), (means + 6 * sd).max(0)
    for _ in range(60):
        middle = 0.5 * (low + high)
        is_below = ndtr((middle - means) / np.maximum(sd, 1e-12)).mean(0) < level
        low, high = np.where(is_below, middle, low), np.where(is_below, high, middle)
    return 0.5 * (low + high)
