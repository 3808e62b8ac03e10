"""Plot learned embeddings: their points, loadings and certainty, and which inputs matter."""

from __future__ import annotations

from collections.abc import Sequence
from numbers import Real
from typing import Any

import numpy as np
import xarray as xr

from pymc_active.inference.fit import Fit
from pymc_active.models.gpmodel import GPModel
from pymc_active.plots.axes import Axes, check_result, color_bar, legend_above, new_axes
from pymc_active.plots.marks import dots, label_ends, medians, note
from pymc_active.plots.measurements import band, data_of, name_of, ring
from pymc_active.plots.style import BLUE, CYCLE, GREY, VERMILION
from pymc_active.predictions.model_average import check_one_fit
from pymc_active.structure.relevance import (
    embedding_draws,
    principal_axes,
    relevance,
    subspace_angles,
)
from pymc_active.support.arguments import checked
from pymc_active.support.numbers import QUANTILES
from pymc_active.support.options import count
from pymc_active.support.tables import read_inputs

# Names beside each other, above which some are left out.
_MANY = 25
# Letters per inch, above which names are turned, and in a name, above which it is shortened.
_LETTERS, _LONGEST = 9, 26


@checked
def plot_embedding(
    fit: Fit,
    *,
    X: Any = None,
    y: Any = None,
    highlight: Any = None,
    number: bool = False,
    ax: Axes | None = None,
) -> Axes:
    """Points in the plane that the model has learned, coloured by y, or in grey for X without y.

    Its coordinates are u = R x / lengthscale, at the highest mode or particle, turned to the principal axes of R (its
    singular vectors, the largest first, the largest weight of each positive): the model does not know any rotation or
    reflection of it. One component u is drawn against y, with the central 89 % interval of ``predict(fit, x)`` where x
    is the point of least norm, in scaled inputs, that goes to u. Of more than two components the first two are drawn.
    The colour bar is the figure's last Axes. X, y, highlight, number and ax are as in :mod:`pymc_active.plots`.
    """
    check_one_fit(fit, "plot_embedding")
    R = principal_axes(fit)
    if X is not None and y is None:
        X = read_inputs(X, "X", inputs=fit.gpm.inputs)
    else:
        X, y = data_of(fit, X, y)
    if y is None and len(R) == 1:
        raise ValueError("an embedding with one component is drawn against y: pass y with X")
    u = fit.gpm.x_map(X) @ R.T
    if len(R) == 1:
        ax = new_axes(ax, (6.0, 4.0))
        x_map, grid = fit.gpm.x_map, np.linspace(u.min(), u.max(), 200)
        mean, low, high = band(fit, x_map.shift + x_map.scale * np.outer(grid, np.linalg.pinv(R)))
        ax.fill_between(grid, low, high, color=BLUE, alpha=0.2, lw=0, label=f"{name_of(fit)}, 89 % of f")
        ax.plot(grid, mean, color=BLUE, lw=1.8, label=f"{name_of(fit)} mean")
        dots(ax, u[:, 0], y)
        ring(ax, u[:, 0], y, highlight, number)
        ax.set(xlabel="learned component u", ylabel=fit.gpm.output)
        legend_above(ax)
        return ax
    ax = new_axes(ax, (6.4, 4.8))
    style: dict[str, Any] = {"s": 34, "linewidths": 0.4, "edgecolors": "white"}
    if y is None:
        ax.scatter(u[:, 0], u[:, 1], color=GREY, **style)
    else:
        color_bar(ax, ax.scatter(u[:, 0], u[:, 1], c=y, cmap="viridis", **style), fit.gpm.output)
    # One unit is one lengthscale in both directions; a thin cloud would be no more than a line.
    spans = np.ptp(u[:, :2], axis=0)
    if spans.max() < 3 * spans.min():
        ax.set_aspect("equal", adjustable="datalim")
    ring(ax, u[:, 0], u[:, 1], highlight, number)
    if ax.get_legend_handles_labels()[0]:
        legend_above(ax)
    ax.set(xlabel="first learned component $u_1$", ylabel="second learned component $u_2$")
    return ax


@checked
def plot_relevance(
    fit: Fit | xr.Dataset,
    *,
    draws: int = 500,
    random_seed: int | np.random.Generator | None = None,
    labels: Sequence | None = None,
    var_name: str = "lengthscale",
    ax: Axes | None = None,
) -> Axes:
    """Importance of each input: medians and 89 % intervals of draws of the fit, or what ``relevance`` returned.

    For an embedding the ``loading`` of :func:`pymc_active.relevance`; else 1 / lengthscale of the variable
    ``var_name``, which has one lengthscale per input in the units of X. Both refer to the scaled inputs (``x_scale``)
    and count the slope of a linear mean, see :func:`~pymc_active.relevance`. ``labels`` of the inputs are by default
    those of X. More than ten increasing numbers, such as wavelengths, give a curve with a band; consecutive integers
    only number the inputs. The rest is as in :mod:`pymc_active.plots`.
    """
    found: Any = fit
    if "loading" not in getattr(fit, "data_vars", ()):
        check_one_fit(fit, "plot_relevance")
        found = relevance(found, draws=count("draws", draws), random_seed=random_seed, var_name=var_name)
    D, interval = found.sizes["input"], f"{100 * found.attrs['ci_prob']:.3g} % interval"
    low, middle, high = found.loading.sel(summary=["lower", "median", "upper"]).to_numpy()
    what = f"relevance, 1 / {var_name}" if "leverage" not in found else "relevance, lengthscales per scaled unit"
    labels = found.input.to_numpy().tolist() if labels is None else list(labels)
    if len(labels) != D:
        raise ValueError(f"labels must name the {D} inputs; got {len(labels)}")
    if _is_continuous(labels):
        ax = new_axes(ax, (6.8, 3.6))
        x = np.asarray(labels, float)
        ax.fill_between(x, low, high, color=BLUE, alpha=0.22, lw=0, label=interval)
        ax.plot(x, middle, color=BLUE, lw=1.6, label="median")
        ax.set(xlabel="input", xlim=(x[0], x[-1]))
    else:
        ax = new_axes(ax, (_width(D), 3.6))
        at = _side_by_side(ax, labels)
        ax.vlines(at, low, high, color=BLUE, lw=1.4, label=interval)
        medians(ax, at, middle)
    legend_above(ax)
    ax.set(ylabel=what, ylim=(0, None))
    return ax


@checked
def plot_sobol_indices(indices: xr.Dataset, *, ax: Axes | None = None) -> Axes:
    """What :func:`pymc_active.sobol_indices` returned: total and first-order index of each input."""
    check_result(indices, xr.Dataset, "plot_sobol_indices", "what sobol_indices returns")
    if not {"total", "first"} <= set(indices):
        raise ValueError(f"expected total and first of each input; got {', '.join(map(str, indices))}")
    ax = new_axes(ax, (_width(indices.sizes["input"]), 3.6))
    at = _side_by_side(ax, indices.input.to_numpy().tolist())
    for name, color, aside in (("total", BLUE, -0.12), ("first", VERMILION, 0.12)):
        low, middle, high = indices[name].sel(summary=["lower", "median", "upper"]).to_numpy()
        ax.vlines(at + aside, low, high, color=color, lw=1.4)
        medians(ax, at + aside, middle, color, "first order" if name == "first" else name)
    ax.axhline(0, color=GREY, lw=0.8, zorder=0)
    legend_above(ax)
    ax.set(ylabel=f"share of the variance, {100 * indices.attrs['ci_prob']:.3g} % intervals")
    return ax


@checked
def plot_loadings(
    fit: Fit,
    *,
    X: Any = None,
    draws: int = 300,
    random_seed: int | np.random.Generator | None = None,
    labels: Sequence | None = None,
    ax: Axes | None = None,
) -> Axes:
    """Correlations of the learned components with the inputs over the rows of X, with 89 % bands.

    If inputs are strongly correlated, as neighbouring wavelengths are, many R give the same components, so single
    entries of R mean little. The correlations show what the components measure: a curve with a band for each
    component, on the principal axes of R at the highest mode or particle, to which each draw of R is rotated
    (orthogonal Procrustes). ``labels`` are increasing numbers, one for each input, by default those of X; inputs with
    names stand side by side. The rest is as in :mod:`pymc_active.plots`.
    """
    from scipy.linalg import orthogonal_procrustes

    check_one_fit(fit, "plot_loadings")
    gpm = fit.gpm
    mode = principal_axes(fit)
    shape = mode.shape
    names = gpm.inputs if labels is None else []
    is_named = any(isinstance(name, str) for name in names)
    labels = list(range(shape[1]) if is_named else gpm.inputs if labels is None else labels)
    is_scale = all(isinstance(label, Real) for label in labels) and bool(names or np.all(np.diff(labels) > 0))
    if len(labels) != shape[1] or not is_scale:
        raise ValueError(f"labels must be {shape[1]} increasing numbers, one for each input; got {labels!r}")
    points = gpm.x_map(read_inputs(fit.X if X is None else X, inputs=gpm.inputs))
    centred = points - points.mean(0)
    spread = np.linalg.norm(centred, axis=0)
    components = centred @ mode.T
    loadings = np.empty((count("draws", draws), *shape))
    for s, R in enumerate(embedding_draws(fit, None, draws, random_seed)):
        U = centred @ R.T
        U = U @ orthogonal_procrustes(U, components)[0]
        loadings[s] = U.T @ centred / np.outer(np.linalg.norm(U, axis=0), spread + (spread == 0))
    ax = new_axes(ax, (6.8, 3.6))
    x = np.asarray(labels, float)
    ends = []
    for k, color in zip(range(shape[0]), CYCLE, strict=False):
        low, middle, high = np.quantile(loadings[:, k], QUANTILES, axis=0)
        ax.fill_between(x, low, high, color=color, alpha=0.2, lw=0)
        ax.plot(x, middle, color=color, lw=1.6)
        ends.append((f"$u_{k + 1}$", float(x[-1]), float(middle[-1]), color))
    ax.axhline(0, color=GREY, lw=0.8, zorder=0)
    if is_named:
        _side_by_side(ax, names)
    ax.set(xlabel="input", ylabel="correlation with the component", ylim=(-1.03, 1.03))
    if len(x) > 1:
        ax.set_xlim(x[0], x[-1])
    label_ends(ax, ends)
    return ax


@checked
def plot_subspace_angles(
    source: Fit | xr.DataTree,
    reference: Any = None,
    *,
    model: GPModel | None = None,
    draws: int = 1000,
    random_seed: int | np.random.Generator | None = None,
    ax: Axes | None = None,
) -> Axes:
    """Certainty of the learned subspace: medians and 89 % intervals of its angles to their mean or to a reference.

    Grey marks are the medians for random subspaces, which is what an unknown embedding would give. Arguments are
    those of :func:`pymc_active.subspace_angles`, and ``ax`` as in :mod:`pymc_active.plots`.
    """
    angles = subspace_angles(source, reference, model=model, draws=draws, random_seed=random_seed)
    low, middle, high = angles.angle.sel(summary=["lower", "median", "upper"]).to_numpy()
    at = angles.principal_angle.to_numpy()
    ax = new_axes(ax, (float(np.clip(2.4 + 1.2 * len(at), 4.8, 9.0)), 3.6))
    ax.hlines(angles.random, at - 0.22, at + 0.22, color=GREY, lw=1.4, label="random subspace")
    ax.vlines(at, low, high, color=BLUE, lw=1.4, label="89 % interval")
    medians(ax, at, middle)
    for x, values in zip(at, np.stack([low, middle, high]).T, strict=True):
        # If two subspaces must intersect, some angles are rounding errors.
        text = "{1:.2g}\n{0:.2g} to {2:.2g}".format(*values.round(3))
        note(ax, text, (x, values[1]), (9, 3))
    ylabel = f"angle to {angles.attrs['reference']} (degrees)"
    ax.set(xlabel="principal angle, the largest first", ylabel=ylabel, xticks=at, yticks=range(0, 91, 15))
    # The room above 90 is for the numbers at a large angle.
    ax.set(xlim=(0.4, len(at) + 0.6), ylim=(0, 105))
    legend_above(ax)
    return ax


def _is_numbered(labels: list) -> bool:
    is_integer = all(isinstance(label, int | np.integer) for label in labels)
    return is_integer and labels == list(range(labels[0], labels[0] + len(labels)))


def _is_continuous(labels: list) -> bool:
    if len(labels) <= 10 or _is_numbered(labels):
        return False
    is_number = all(isinstance(label, int | float | np.number) for label in labels)
    return is_number and bool((np.diff(np.asarray(labels, float)) > 0).all())


def _width(n: int) -> float:
    """Inches for so many inputs side by side."""
    return float(np.clip(1.6 + 0.32 * n, 4.2, 9.0))


def _side_by_side(ax: Axes, labels: list) -> np.ndarray:
    """Places (D,) of inputs along the x axis, with as many of their names as have room."""
    from matplotlib.ticker import FuncFormatter, MaxNLocator

    is_numbered = _is_numbered(labels)
    # Longer ones would take the room of the picture.
    names = [name if len(name) <= _LONGEST else f"{name[: _LONGEST - 1].rstrip()}…" for name in map(str, labels)]
    at = np.arange(len(labels)) + (labels[0] if is_numbered else 0)
    if len(labels) <= _MANY:
        is_long = not is_numbered and sum(map(len, names)) + 2 * len(names) > _LETTERS * _width(len(names))
        ax.set_xticks(at, names, rotation=40 if is_long else 0, ha="right" if is_long else "center")
    else:
        # Some of them, whichever part of the axis is shown.
        known = dict(zip(at.tolist(), names, strict=True))
        ax.xaxis.set_major_locator(MaxNLocator("auto" if is_numbered else _MANY, integer=True, steps=[1, 2, 5, 10]))
        ax.xaxis.set_major_formatter(FuncFormatter(lambda value, _: known.get(round(value), "")))
        ax.tick_params(axis="x", rotation=0 if is_numbered else 90)
    ax.set(xlabel="input" if is_numbered else "", xlim=(at[0] - 0.6, at[-1] + 0.6))
    return at
