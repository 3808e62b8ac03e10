"""Plot what searches found: kernels that the data prefer, the components of one, and relevant inputs."""

from __future__ import annotations

from typing import Any

import numpy as np
import xarray as xr

from pymc_active.plots.axes import Axes, check_result, name_rows, new_axes, new_grid, show_legend, small_title
from pymc_active.plots.marks import note_in_row
from pymc_active.plots.measurements import column_of, names_of
from pymc_active.plots.style import BLUE, CYCLE, GREY, INK
from pymc_active.predictions.predict import predict
from pymc_active.relevant_inputs.search import HDSResult
from pymc_active.structure.decompose import Decomposition
from pymc_active.support.numbers import Z89
from pymc_active.support.options import count


def plot_decomposition(decomposition: Decomposition, *, input: Any = 0, axes: Any = None) -> np.ndarray:
    """The posterior with the data, one panel for each additive component, and the residuals.

    Bands (with several inputs, bars) are central 89 % intervals of the function, and of the noise in the last panel.
    A component that does not act on ``input`` is drawn along the first input on which it acts, with the component at
    the data plus the residual as dots. The mean function has no panel. The result comes from
    :func:`pymc_active.decompose`; the rest is as in :mod:`pymc_active.plots`.
    """
    check_result(decomposition, Decomposition, "plot_decomposition", "the result of decompose")
    fit, table, X_new = decomposition.fit, decomposition.components, decomposition.X_new
    column, _ = column_of(fit.gpm.inputs, input)
    own = [column if acts[column] or not acts.any() else int(acts.argmax()) for acts in table.acts_on.to_numpy()]
    is_shared, n = set(own) <= {column}, len(own) + 2
    axes = new_grid((n, 1), (7.2, 1.2 + (1.9 if is_shared else 2.2) * n), axes, sharex=is_shared)[:, 0]
    what = f"{fit.gpm.description}: mean and 89 % interval of f, with the data"
    # Of each panel: title, color, mean, variance, dots.
    panels = [(what, BLUE, table.f_mean, table.f_variance, fit.y)]
    for c in range(len(own)):
        part = table.isel(component=c)
        what = f"{part.component.item()}: {part.description.item()}"
        color = CYCLE[1 + c % (len(CYCLE) - 2)]
        panels.append((what, color, part["mean"], part.variance, part.mean_at_data + table.residual))
    for ax, along, (what, color, mean, variance, values) in zip(axes, [column, *own], panels, strict=False):
        order = np.argsort(X_new[:, along], kind="stable")
        x, middle, half = X_new[order, along], mean.to_numpy()[order], Z89 * np.sqrt(variance.to_numpy()[order])
        if fit.X.shape[1] == 1:
            ax.fill_between(x, middle - half, middle + half, color=color, alpha=0.22, lw=0)
            ax.plot(x, middle, color=color, lw=1.2)
        else:
            ax.vlines(x, middle - half, middle + half, color=color, alpha=0.25, lw=1)
            ax.plot(x, middle, "o", ms=3, color=color)
        ax.plot(fit.X[:, along], values, "o", ms=3, color=INK, alpha=0.7, mew=0, zorder=3)
        small_title(ax, what)
    one, residual = predict(fit, fit.X[:1]), table.residual.to_numpy()
    reach = Z89 * float(np.sqrt(one.y_variance[0] - one.f_variance[0]))
    axes[-1].axhspan(-reach, reach, color=GREY, alpha=0.25, lw=0)
    axes[-1].set_ymargin(0.15)
    axes[-1].plot(fit.X[:, column], residual, "o", ms=3, color=INK, alpha=0.7, mew=0, zorder=3)
    what = f"{np.count_nonzero(np.abs(residual) <= reach)} of {len(residual)} inside the band"
    small_title(axes[-1], f"Residuals, {what}, where 89 % of the noise falls (sd {decomposition.noise})")
    for ax, along in zip(axes, [column, *own, column], strict=True):
        ax.set_ylabel(table.attrs["y_unit"] or fit.gpm.output)
        if ax is not axes[0]:
            ax.axhline(0, color=GREY, lw=0.6, zorder=0)
        if ax is axes[-1] or not is_shared:
            name, unit = names_of(fit.gpm.inputs)[along], table.attrs["input_units"][along]
            # A column called year, in years, needs no unit.
            ax.set_xlabel(f"{name} ({unit})" if unit and not unit.startswith(name) else name)
    axes[0].figure.align_ylabels(axes)
    if fit.X.shape[1] == 1:
        axes[-1].set_xlim(X_new.min(), X_new.max())
    return axes


def plot_evidence(posterior: xr.DataArray | xr.Dataset, *, n: int = 20, ax: Axes | None = None) -> Axes:
    """Log evidences of up to ``n`` models, the best first, with their posterior probabilities.

    Nats below the best are logarithmic beyond ten if there are many. Hollow points are doubtful fits. ``posterior``
    comes from :func:`pymc_active.active.model_posterior` or is the table of a search: the probability,
    ``log_evidence`` and ``doubtful`` over ``model``.
    """
    check_result(posterior, (xr.DataArray, xr.Dataset), "plot_evidence", "what model_posterior returns")
    table = posterior if isinstance(posterior, xr.Dataset) else posterior.to_dataset(name="probability")
    table = table.reset_coords()
    if not {"probability", "log_evidence", "doubtful"} <= set(table) or "model" not in table.dims:
        raise ValueError(f"expected probability, log_evidence and doubtful over model; got {list(table)}")
    table = table.isel(model=np.isfinite(table.log_evidence.to_numpy()))
    table = table.isel(model=np.argsort(-table.log_evidence.to_numpy(), kind="stable")[: count("n", n)])
    below = table.log_evidence.to_numpy() - float(table.log_evidence.max())
    rows = np.arange(len(below))
    ax = new_axes(ax, (6.8, 1.2 + 0.26 * len(rows)))
    ax.hlines(rows, below, 0, color=GREY, lw=0.6, alpha=0.6)
    colors = np.where(table.doubtful.to_numpy().astype(bool), "white", BLUE)
    ax.scatter(below, rows, s=36, color=colors, edgecolors=BLUE, linewidths=1.4, zorder=3)
    for row, p in zip(rows, table.probability.to_numpy(), strict=True):
        note_in_row(ax, f"{p:.2f}" if p >= 0.005 else "< 0.01", row)
    name_rows(ax, [str(model) for model in table.model.to_numpy()])
    ax.set_title("probability", loc="right", fontsize=9, color=GREY)
    lowest = float(below.min())
    if lowest < -50:
        ax.set_xscale("symlog", linthresh=10.0)
        ax.xaxis.set_major_formatter("{x:g}")
    ax.set(xlabel="log evidence below the best (nats)", xlim=(min(1.2 * lowest, -1.0), 0.5))
    return ax


def plot_model_posterior(history: xr.DataArray, *, n_models: int = 5, ax: Axes | None = None) -> Axes:
    """Posterior probabilities of models over a run.

    ``history`` holds them over ``n_observations`` and ``model``, as ``learner.model_history`` does; NaN where a model
    had not been added yet. The ``n_models`` with the highest probability at any time get a colour and a name. The
    others are grey.
    """
    check_result(history, xr.DataArray, "plot_model_posterior", "an xarray DataArray over n_observations and model")
    if set(history.dims) != {"n_observations", "model"}:
        raise ValueError(f"history must have the dims n_observations and model; got {list(history.dims)}")
    values = history.transpose("n_observations", "model").to_numpy()
    n = history.n_observations.to_numpy()
    named = np.argsort(-np.nan_to_num(values).max(0), kind="stable")[: count("n_models", n_models)]
    ax = new_axes(ax, (7.2, 4.0))
    ax.plot(n, np.delete(values, named, axis=1), color=GREY, lw=0.8, alpha=0.6, zorder=1)
    labels = history.model.to_numpy()
    for i, color in zip(named, CYCLE * len(named), strict=False):
        ax.plot(n, values[:, i], color=color, lw=1.8, marker="o", ms=3, label=str(labels[i]))
    ax.set(xlabel="number of observations", ylabel="posterior probability", ylim=(-0.07, 1.03))
    ax.locator_params(axis="x", integer=True, min_n_ticks=1)
    show_legend(ax)
    return ax


def plot_active_inputs(result: HDSResult, *, n_inputs: int = 6, axes: Any = None) -> np.ndarray:
    """All evaluations of :func:`pymc_active.active.hds` against each input found, up to ``n_inputs``: (1, k) Axes.

    Those inputs come first between whose values the mean of f varies most.
    """
    check_result(result, HDSResult, "plot_active_inputs", "the result of hds")
    X, y = map(np.asarray, result.data())
    # Of ten groups of equally many evaluations.
    means = [[part.mean() for part in np.array_split(y[np.argsort(x)], 10) if len(part)] for x in X.T]
    shown = sorted(range(len(means)), key=lambda k: -np.std(means[k]))[: count("n_inputs", n_inputs)]
    shape = (1, max(len(shown), 1))
    grid = new_grid(shape, (1.2 + 2.0 * shape[1], 2.8), axes, sharey=True)
    for ax, k in zip(grid[0], shown, strict=False):
        ax.plot(X[:, k], y, "o", ms=3, color=BLUE, alpha=0.5, mew=0)
        ax.set_xlabel(f"input {result.active[k]}")
    grid[0, 0].set_ylabel("f")
    rest = len(result.active) - len(shown)
    text = f"{result.settings.n_dims:,} inputs, {result.n_evaluations} evaluations: {len(result.active)} found"
    small_title(grid[0, 0], text + (f", {rest} not shown" if rest else ""))
    return grid
