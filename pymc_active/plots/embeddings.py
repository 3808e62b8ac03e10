"""Plot learned embeddings: their points, loadings and certainty, and which inputs matter."""

from __future__ import annotations

from numbers import Real
from typing import Any

import numpy as np
import xarray as xr

from pymc_active.inference.fit import Fit
from pymc_active.plots.axes import Axes, new_axes, show_legend
from pymc_active.plots.marks import dots, draw_band, intervals, ring
from pymc_active.plots.measurements import around, band, data_of
from pymc_active.plots.predictions import coloured_dots, draw_map, grid_of, read_limits
from pymc_active.plots.style import BLUE, CYCLE, GREY
from pymc_active.predictions.model_average import check_one_fit
from pymc_active.predictions.predict import predict
from pymc_active.structure.relevance import embedding_draws, principal_axes, relevance
from pymc_active.support.numbers import QUANTILES
from pymc_active.support.options import count
from pymc_active.support.tables import read_inputs

# Names beside each other, above which some are left out.
_MANY = 25
# Letters per inch, above which names are turned, and in a name, above which it is shortened.
_LETTERS, _LONGEST = 10, 26
_SUMMARY = ["lower", "median", "upper"]


def plot_embedding(
    fit: Fit,
    *,
    X: Any = None,
    y: Any = None,
    highlight: Any = None,
    number: bool = False,
    limits: Any = None,
    ax: Axes | None = None,
) -> Axes:
    """The prediction over the components that the model has learned, with the data.

    The coordinates are u = R x / lengthscale, at the highest mode or particle, turned to the principal axes of R (its
    singular vectors, the largest first, the largest weight of each positive): the model does not know any rotation or
    reflection of it. One component is drawn with y, two or the first two as a map of the mean of f, on whose scale the
    data are coloured. Predictions are ``predict(fit, x)`` where x is what X has on average at u, by linear
    regression: R is uncertain, and points unlike X would go elsewhere by each draw of it. ``limits`` are pairs
    (low, high) of the components drawn, by default a tenth beyond X on either side. The colour bar is the figure's last
    Axes. The rest is as in :mod:`pymc_active.plots`.
    """
    check_one_fit(fit, "plot_embedding")
    R, x_map, output = principal_axes(fit), fit.gpm.x_map, fit.gpm.output
    X, y = data_of(fit, X, y)
    scaled = x_map(X)
    u = (scaled @ R.T)[:, :2]
    ends = read_limits([around(part) for part in u.T] if limits is None else limits, u.shape[1])
    if len(R) == 1:
        ax = new_axes(ax, (6.4, 4.4))
        grid = np.linspace(ends[0, 0], ends[0, 1], 200)
        draw_band(ax, grid, band(fit, x_map.shift + x_map.scale * _typical(scaled, R, grid[:, None])))
        dots(ax, u[:, 0], y)
        ring(ax, np.column_stack([u, y]), highlight, number)
        ax.set(xlabel="learned component u", ylabel=output, xlim=ends[0])
    else:
        ax = new_axes(ax, (6.4, 4.8))
        sides, grid = grid_of(ends, 40)
        mean = predict(fit, x_map.shift + x_map.scale * _typical(scaled, R, grid)).f_mean.to_numpy()
        drawn = draw_map(ax, sides, mean, f"mean of f: {output}", y)
        coloured_dots(ax, drawn, u, y)
        ring(ax, u, highlight, number)
        ax.set(xlabel="first learned component $u_1$", ylabel="second learned component $u_2$")
    show_legend(ax, is_below=True)
    return ax


def _typical(X: np.ndarray, R: np.ndarray, u: np.ndarray) -> np.ndarray:
    """Points x (m, D) that go to the first components u (m, 1 or 2), the regression of X (n, D) on them."""
    all_u = X @ R.T
    center, center_u = X.mean(0), all_u.mean(0)
    slope = np.linalg.lstsq(all_u - center_u, X - center)[0]
    there = np.column_stack([u, np.broadcast_to(center_u[u.shape[1] :], (len(u), len(R) - u.shape[1]))])
    x = center + (there - center_u) @ slope
    # Nothing is left to add unless the components of X are dependent, as those of a single row are.
    return x + (there - x @ R.T) @ np.linalg.pinv(R).T


def plot_relevance(
    fit: Fit | xr.Dataset,
    *,
    draws: int = 500,
    random_seed: int | np.random.Generator | None = None,
    ax: Axes | None = None,
) -> Axes:
    """Importance of each input: medians and 89 % intervals of draws of the fit, or what ``relevance`` returned.

    For an embedding the ``loading`` of :func:`pymc_active.relevance`; else 1 / lengthscale. Both refer to the scaled
    inputs (``x_scale``) and count the slope of a linear mean, see :func:`~pymc_active.relevance`. Inputs named by more
    than ten increasing numbers, such as wavelengths, give a curve with a band; consecutive integers only number the
    inputs. The rest is as in :mod:`pymc_active.plots`.
    """
    table: Any = fit
    if "loading" not in getattr(fit, "data_vars", ()):
        check_one_fit(fit, "plot_relevance")
        table = relevance(table, draws=count("draws", draws), random_seed=random_seed)
    labels, interval = table.input.to_numpy().tolist(), f"{100 * table.attrs['ci_prob']:.3g} % interval"
    summary = table.loading.sel(summary=_SUMMARY).to_numpy()
    if _is_scale(labels):
        ax = new_axes(ax, (6.8, 3.6))
        x, (low, middle, high) = np.asarray(labels, float), summary
        ax.fill_between(x, low, high, color=BLUE, alpha=0.2, lw=0, label=interval)
        ax.plot(x, middle, color=BLUE, lw=1.6, label="median")
        ax.set(xlabel="input", xlim=(x[0], x[-1]))
    else:
        ax = new_axes(ax, (float(np.clip(1.6 + 0.32 * len(labels), 4.2, 9.0)), 3.6))
        intervals(ax, _side_by_side(ax, labels), summary, f"median and {interval}")
    show_legend(ax)
    per = "lengthscales per scaled unit" if "leverage" in table else "1 / lengthscale"
    ax.set(ylabel=f"relevance, {per}", ylim=(0, None))
    return ax


def plot_loadings(
    fit: Fit,
    *,
    X: Any = None,
    draws: int = 300,
    random_seed: int | np.random.Generator | None = None,
    ax: Axes | None = None,
) -> Axes:
    """Correlations of the learned components with the inputs over the rows of X, with 89 % bands.

    If inputs are strongly correlated, as neighbouring wavelengths are, many R give the same components, so single
    entries of R mean little. The correlations show what the components measure: a curve with a band for each
    component, on the principal axes of R at the highest mode or particle, to which each draw of R is rotated
    (orthogonal Procrustes). Inputs with names stand side by side. The rest is as in :mod:`pymc_active.plots`.
    """
    from scipy.linalg import orthogonal_procrustes

    check_one_fit(fit, "plot_loadings")
    gpm, mode = fit.gpm, principal_axes(fit)
    d, D = mode.shape
    points = gpm.x_map(read_inputs(fit.X if X is None else X, inputs=gpm.inputs))
    centred = points - points.mean(0)
    spread = np.linalg.norm(centred, axis=0)
    components = centred @ mode.T
    loadings = np.empty((count("draws", draws), d, D))
    for s, R in enumerate(embedding_draws(fit, None, draws, random_seed)):
        U = centred @ R.T
        U = U @ orthogonal_procrustes(U, components)[0]
        loadings[s] = U.T @ centred / np.outer(np.linalg.norm(U, axis=0), spread + (spread == 0))
    ax = new_axes(ax, (6.8, 3.6))
    is_named = any(isinstance(name, str) for name in gpm.inputs)
    x = _side_by_side(ax, gpm.inputs) if is_named else np.asarray(gpm.inputs, float)
    for k, color in zip(range(d), CYCLE, strict=False):
        low, middle, high = np.quantile(loadings[:, k], QUANTILES, axis=0)
        ax.fill_between(x, low, high, color=color, alpha=0.2, lw=0)
        ax.plot(x, middle, color=color, lw=1.6, label=f"$u_{k + 1}$: median and 89 % interval")
    ax.axhline(0, color=GREY, lw=0.8, zorder=0)
    ax.set(xlabel="input", ylabel="correlation with the component", ylim=(-1.03, 1.03))
    ax.margins(x=0)
    show_legend(ax)
    return ax


def _is_scale(labels: list) -> bool:
    """Whether inputs are more than ten increasing numbers, such as wavelengths; consecutive integers only count."""
    if len(labels) <= 10 or not all(isinstance(label, Real) for label in labels):
        return False
    steps = np.diff(np.asarray(labels, float))
    return bool((steps > 0).all() and ((steps != 1).any() or not isinstance(labels[0], int)))


def _side_by_side(ax: Axes, labels: list) -> np.ndarray:
    """Places (D,) of inputs along the x axis, with as many of their names as have room."""
    at, step = np.arange(len(labels)), -(-len(labels) // _MANY)
    names = [name if len(name) <= _LONGEST else f"{name[:_LONGEST]}…" for name in map(str, labels[::step])]
    is_long = len("  ".join(names)) > _LETTERS * ax.bbox.width / ax.figure.dpi
    turned: dict[str, Any] = {"rotation": 40, "ha": "right"} if is_long else {}
    ax.set_xticks(at[::step], names, **turned)
    ax.set(xlabel="" if isinstance(labels[0], str) else "input", xlim=(-0.6, len(labels) - 0.4))
    return at
