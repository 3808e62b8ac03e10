"""Plot kernel structures: which one the data prefer, and its components."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import Any

import numpy as np
import xarray as xr

from pymc_active.plots.axes import (
    Axes,
    check_result,
    name_rows,
    nats_axis,
    new_axes,
    new_grid,
    read_axes,
    show_legend,
    small_title,
)
from pymc_active.plots.marks import doubtful_dots, note, note_in_row
from pymc_active.plots.measurements import column_of, names_of
from pymc_active.plots.style import BLUE, CYCLE, GREY, INK, PAPER, VERMILION
from pymc_active.predictions.predict import predict
from pymc_active.structure.decompose import Decomposition, percent
from pymc_active.structure.kernel_search import StructureSearch
from pymc_active.support.arguments import checked
from pymc_active.support.numbers import Z89
from pymc_active.support.options import count


@checked
def plot_decomposition(
    decomposition: Decomposition,
    *,
    input: Any = 0,
    data: bool = True,
    axes: Any = None,
    figsize: tuple[float, float] | None = None,
) -> np.ndarray:
    """The posterior with the data, one panel for each additive component, and the residuals.

    Bands (with several inputs, bars) are central 89 % intervals of the function, and of the noise in the last panel.
    A component that does not act on ``input`` is drawn along the first input on which it acts. The mean function has
    no panel. ``data`` shows the data in the first panel, and in the others the component at the data plus the residual.
    The result comes from :func:`pymc_active.decompose`; the rest is as in :mod:`pymc_active.plots`.
    """
    check_result(decomposition, Decomposition, "plot_decomposition", "the result of decompose")
    fit, table = decomposition.fit, decomposition.components
    column, _ = column_of(fit.gpm.inputs, input)
    n, y_unit, X_new = table.sizes["component"], table.attrs["y_unit"], decomposition.X_new
    own = [column if acts[column] or not acts.any() else int(acts.argmax()) for acts in table.acts_on.to_numpy()]
    along = [column, *own, column]
    is_shared = set(along) == {column}
    if axes is None:
        height = (1.9 if is_shared else 2.2) * (n + 2)
        axes = new_grid((n + 2, 1), figsize or (7.2, 1.2 + height), sharex=is_shared)
    axes = read_axes(axes, (n + 2,))
    figure = axes[0].figure

    def draw(panel: int, mean: np.ndarray, variance: np.ndarray, color: str) -> None:
        ax, order = axes[panel], np.argsort(X_new[:, along[panel]], kind="stable")
        x = X_new[order, along[panel]]
        low, high = (mean + sign * Z89 * np.sqrt(np.maximum(variance, 0)) for sign in (-1, 1))
        if fit.X.shape[1] == 1:
            ax.fill_between(x, low[order], high[order], color=color, alpha=0.22, lw=0)
            ax.plot(x, mean[order], color=color, lw=1.2)
        else:
            ax.vlines(x, low[order], high[order], color=color, alpha=0.25, lw=1)
            ax.plot(x, mean[order], "o", ms=3, color=color)

    def finish(panel: int, title: str, values: np.ndarray, shown: bool = data) -> None:
        if shown:
            style: dict[str, Any] = {"ms": 3.5 if len(values) < 300 else 2.0, "color": INK, "alpha": 0.7, "mew": 0}
            axes[panel].plot(fit.X[:, along[panel]], values, ".", zorder=3, **style)
        small_title(axes[panel], title)

    draw(0, table.f_mean.to_numpy(), table.f_variance.to_numpy(), BLUE)
    what = f"{fit.gpm.description}: posterior of the whole function" + (", with the data" if data else "")
    if "probability" in table.attrs:
        what += f". The search gives this kernel {percent(table.attrs['probability'])} of the probability"
    finish(0, what, fit.y)
    for c in range(n):
        part = table.isel(component=c)
        draw(c + 1, part["mean"].to_numpy(), part["variance"].to_numpy(), CYCLE[1 + c % (len(CYCLE) - 2)])
        what = f"{part.component.item()}: {part.description.item()}"
        finish(c + 1, what, (part.mean_at_data + table.residual).to_numpy())
    one = predict(fit, fit.X[:1])
    noise = float(np.sqrt(one.y_variance[0] - one.f_variance[0]))
    axes[-1].axhspan(-Z89 * noise, Z89 * noise, color=GREY, alpha=0.25, lw=0)
    axes[-1].set_ymargin(0.15)
    residual = table.residual.to_numpy()
    inside = np.count_nonzero(np.abs(residual) <= Z89 * noise)
    what = f"Residuals, {inside} of {len(residual)} inside the band, where 89 % of the noise falls"
    finish(n + 1, f"{what} (sd {decomposition.noise})", residual, shown=True)
    for panel, ax in enumerate(axes):
        ax.set_ylabel(y_unit or fit.gpm.output)
        if panel > 0:
            ax.axhline(0, color=GREY, lw=0.6, zorder=0)
        if panel == n + 1 or not is_shared:
            name, x_unit = names_of(fit.gpm.inputs)[along[panel]], table.attrs["input_units"][along[panel]]
            # A column called year, in years, needs no unit.
            ax.set_xlabel(f"{name} ({x_unit})" if x_unit and not x_unit.startswith(name) else name)
    figure.align_ylabels(axes)
    if fit.X.shape[1] == 1:
        axes[-1].set_xlim(X_new.min(), X_new.max())
    return axes


@checked
def plot_structure_search(result: StructureSearch, *, n_labels: int = 1, ax: Axes | None = None) -> Axes:
    """The evidence of all kernels of a search over its levels, with lines from the parents of the best.

    The y axis has nats below the best, of log evidence and prior. Hollow points are doubtful fits. The best
    ``n_labels`` kernels of each level are named. The result comes from
    :func:`pymc_active.search.compositional_kernel_search`; if it went on with the logarithm of y, that is shown.
    """
    check_result(result, StructureSearch, "plot_structure_search", "the result of compositional_kernel_search")
    result = result.logarithm or result
    table = result.table
    score = (table.log_evidence + table.log_prior).to_numpy()
    table, score = table.isel(model=np.isfinite(score)), score[np.isfinite(score)]
    below = score - score.max()
    level, labels = table.level.to_numpy(), [str(label) for label in table.model.to_numpy()]
    place = dict(zip(labels, zip(level, below, strict=True), strict=True))
    ax = new_axes(ax, (7.2, 4.2))
    doubtful_dots(ax, level, below, table.doubtful.to_numpy(), ms=5, mew=1.0, alpha=0.6)
    label = next(name for name in labels if result.fits[name] is result.best)
    while label:
        parent = str(table.parent.sel(model=label).item())
        if parent in place:
            ax.plot(*zip(place[parent], place[label], strict=True), color=VERMILION, lw=1.4, zorder=0)
        label = parent
    for one in np.unique(level):
        here = np.flatnonzero(level == one)
        for i in here[np.argsort(-below[here])][:n_labels]:
            note(ax, labels[i], (one, below[i]), (7, 4), bbox=PAPER)
    lowest = float(below.min())
    nats_axis(ax, "y", lowest)
    of_what = " for the logarithm of y" if result.is_of_logarithm else ""
    ax.set(xlabel=f"level of the search{of_what}", ylabel="log evidence and prior below the best (nats)")
    ax.set(ylim=(1.15 * lowest - 0.5, max(1.0, -0.05 * max(lowest, -20.0))))
    ax.set(xticks=np.unique(level), xlim=(level.min() - 0.3, level.max() + 0.9))
    return ax


@checked
def plot_evidence(posterior: xr.DataArray | xr.Dataset, *, n: int = 20, ax: Axes | None = None) -> Axes:
    """Log evidences of up to ``n`` models, the best first, with their posterior probabilities.

    Nats below the best are logarithmic beyond ten if there are many. Hollow points are doubtful fits. ``posterior``
    comes from :func:`pymc_active.active.model_posterior` or is the table of a search: the probability,
    ``log_evidence`` and ``doubtful`` over ``model``.
    """
    check_result(posterior, (xr.DataArray, xr.Dataset), "plot_evidence", "what model_posterior returns")
    table = posterior.reset_coords() if isinstance(posterior, xr.Dataset) else posterior.to_dataset(name="probability")
    table = table.reset_coords()
    missing = {"probability", "log_evidence", "doubtful"} - set(table)
    if missing or "model" not in table.dims:
        raise ValueError(
            f"expected probability, log_evidence and doubtful over model; got {', '.join(map(str, table))} over "
            f"{', '.join(map(str, table.dims))}"
        )
    table = table.isel(model=np.isfinite(table.log_evidence.to_numpy()))
    table = table.isel(model=np.argsort(-table.log_evidence.to_numpy(), kind="stable")[: count("n", n)])
    below = table.log_evidence.to_numpy() - float(table.log_evidence.max())
    rows = np.arange(len(below))
    ax = new_axes(ax, (6.8, 1.2 + 0.26 * len(rows)))
    ax.hlines(rows, below, 0, color=GREY, lw=0.6, alpha=0.6)
    doubtful_dots(ax, below, rows, table.doubtful.to_numpy().astype(bool))
    for row, p in zip(rows, table.probability.to_numpy(), strict=True):
        note_in_row(ax, f"{p:.2f}" if p >= 0.005 else "< 0.01", row)
    name_rows(ax, [str(model) for model in table.model.to_numpy()])
    ax.set_title("probability", loc="right", fontsize=9, color=GREY)
    lowest = float(below.min())
    nats_axis(ax, "x", lowest)
    ax.set(xlabel="log evidence below the best (nats)", xlim=(min(1.2 * lowest, -1.0), 0.5))
    return ax


@checked
def plot_model_posterior(
    history: xr.DataArray, *, n_models: int = 5, highlight: Sequence[Any] = (), ax: Axes | None = None
) -> Axes:
    """Posterior probabilities of models over a run.

    ``history`` holds them over ``n_observations`` and ``model``, as ``learner.model_history`` does; NaN where a model
    had not been added yet. The ``n_models`` with the highest probability at any time, and those with the labels
    ``highlight``, get a colour and a name. The others are grey.
    """
    check_result(history, xr.DataArray, "plot_model_posterior", "an xarray DataArray over n_observations and model")
    if set(history.dims) != {"n_observations", "model"}:
        raise ValueError(f"history must have the dims n_observations and model; got {list(history.dims)}")
    labels = list(history.model.to_numpy())
    unknown = [label for label in highlight if not isinstance(label, Hashable) or label not in labels]
    if unknown:
        raise ValueError(f"highlight must hold models among {', '.join(map(str, labels))}; got {unknown}")
    values = history.transpose("n_observations", "model").to_numpy()
    n = history.n_observations.to_numpy() if "n_observations" in history.coords else np.arange(len(values))
    order = np.argsort(-np.nan_to_num(values).max(0), kind="stable")
    named = list(dict.fromkeys([*(labels.index(label) for label in highlight), *(int(i) for i in order)]))
    named = named[: max(n_models, len(list(highlight)))]
    ax = new_axes(ax, (7.2, 4.0))
    ax.plot(n, np.delete(values, named, axis=1), color=GREY, lw=0.8, alpha=0.6, zorder=1)
    for i, color in zip(named, CYCLE * len(named), strict=False):
        ax.plot(n, values[:, i], color=color, lw=1.8, marker="o", ms=3, label=str(labels[i]))
    ax.set(xlabel="number of observations", ylabel="posterior probability", ylim=(-0.07, 1.03))
    if len(n) == 1:
        # A narrower axis would have ticks at fractions of an observation.
        ax.set_xlim(n[0] - 1, n[0] + 1)
    ax.locator_params(axis="x", integer=True)
    show_legend(ax)
    return ax
