"""The parameters of a fit, beside those of a trace."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
import xarray as xr

from pymc_active.laplace.fit import LaplaceFit
from pymc_active.plots.style import BLUE, VERMILION, legend_above, log_axis, new_axes, pyplot
from pymc_active.predictions.model_average import check_one_fit

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_INTERVAL = (0.055, 0.25, 0.5, 0.75, 0.945)


def plot_parameters(
    fit: LaplaceFit,
    *,
    trace: xr.DataTree | None = None,
    var_names: Sequence[str] | None = None,
    draws: int = 1000,
    random_seed: int = 0,
    ax: Axes | None = None,
) -> Axes:
    """Medians, 50 % and 89 % intervals of the parameters on their natural scale.

    Parameters
    ----------
    fit : LaplaceFit
    trace : xarray.DataTree, optional
        Draws of the same model by MCMC, shown beside the Laplace approximation.
    var_names : sequence of str, optional
        Default: scalars and vectors in the user's units; ``log_noise`` only where the model has no ``noise``, matrices
        such as an embedding's R never.
    draws, random_seed : int
        For :meth:`LaplaceFit.to_datatree`.
    ax : matplotlib Axes, optional

    Returns
    -------
    matplotlib Axes
        Its x axis is logarithmic if every draw is positive. Without ``ax``, a model that also has parameters of either
        sign gives an array of two Axes: the positive ones, on a logarithmic axis, and the others.

    Raises
    ------
    TypeError, ValueError
        For another object than a fit, an unknown variable, or a trace that lacks one.
    """
    check_one_fit(fit, "plot_parameters")
    posterior = fit.to_datatree(draws, random_seed)["posterior"].to_dataset()
    if var_names is None:
        var_names = [str(name) for name, values in posterior.items() if values.ndim <= 3]
        var_names = [name for name in var_names if name.removeprefix("log_") not in set(var_names) - {name}]
    if not var_names:
        raise ValueError("the model has no scalar or vector parameters; plot_relevance shows an embedding")
    sources = {"Laplace": posterior}
    if trace is not None:
        if "posterior" not in getattr(trace, "children", {}):
            raise ValueError("trace must be a DataTree with a group 'posterior', as pma.sample returns it")
        sources["MCMC"] = trace["posterior"].to_dataset()
    for source, dataset in sources.items():
        missing = [name for name in var_names if name not in dataset]
        if missing:
            raise ValueError(f"{source} has no {', '.join(missing)}; it has {', '.join(map(str, dataset))}")

    samples = {s: _rows(dataset, var_names) for s, dataset in sources.items()}
    labels = list(samples["Laplace"])
    is_positive = {name: all((sources[s][name] > 0).all() for s in sources) for name in var_names}
    if ax is None and len(set(is_positive.values())) > 1:
        return _parameters_by_sign(fit, is_positive, labels, trace, draws, random_seed)
    ax = new_axes(ax, (6.4, 1.1 + (0.34 if trace is None else 0.44) * len(labels)))
    offset = 0.0 if trace is None else 0.15
    for source, color, shift in (("Laplace", BLUE, -offset), ("MCMC", VERMILION, offset)):
        if source not in samples:
            continue
        at = np.arange(len(labels)) + shift
        q = np.array([np.quantile(samples[source][label], _INTERVAL) for label in labels])
        ax.hlines(at, q[:, 0], q[:, 4], color=color, lw=1.4)
        ax.hlines(at, q[:, 1], q[:, 3], color=color, lw=4.0)
        ax.plot(q[:, 2], at, "o", ms=5, color="white", mec=color, mew=1.6, label=source, zorder=3)
    ax.set_yticks(range(len(labels)), labels)
    ax.set_ylim(len(labels) - 0.5, -0.5)
    ax.tick_params(axis="y", length=0)
    if all(is_positive.values()):
        log_axis(ax, "x")
    ax.set_xlabel("posterior median, 50 % and 89 % interval")
    if trace is not None:
        legend_above(ax)
    return ax


def _parameters_by_sign(fit, is_positive, labels, trace, draws, random_seed):
    """Two panels: positive parameters on a logarithmic axis, others below."""
    groups = [[name for name, positive in is_positive.items() if positive == wanted] for wanted in (True, False)]
    heights = [sum(label.split("[")[0] in group for label in labels) for group in groups]
    height = 1.7 + (0.34 if trace is None else 0.44) * len(labels)
    _, axes = pyplot().subplots(2, figsize=(6.4, height), height_ratios=heights, layout="constrained")
    for panel, group in zip(axes, groups, strict=True):
        plot_parameters(fit, trace=trace, var_names=group, draws=draws, random_seed=random_seed, ax=panel)
    axes[0].set_xlabel("")
    if trace is not None:
        axes[1].get_legend().remove()
    return axes


def _rows(posterior: xr.Dataset, var_names: Sequence[str]) -> dict[str, np.ndarray]:
    """Draws by row of the picture: a scalar's name, or name[coordinate]."""
    rows = {}
    for name in var_names:
        stacked = posterior[name].stack(sample=("chain", "draw"), create_index=False)
        stacked = stacked.transpose(..., "sample")
        dims = [dim for dim in stacked.dims if dim != "sample"]
        for index in np.ndindex(stacked.shape[:-1]):
            where = [
                str(stacked[dim].to_numpy()[i]) if dim in stacked.coords else str(i)
                for dim, i in zip(dims, index, strict=True)
            ]
            rows[f"{name}[{', '.join(where)}]" if where else str(name)] = stacked.to_numpy()[index]
    return rows
