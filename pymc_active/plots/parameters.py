"""Forest plot of the parameters of a fit, beside those of a trace; unlike ArviZ's, on logarithmic axes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import xarray as xr

from pymc_active.inference.fit import Fit
from pymc_active.inference.parameter_table import natural_names
from pymc_active.models.datatrees import in_chains
from pymc_active.plots.axes import legend_above, log_axis, name_rows, new_grid, read_axes
from pymc_active.plots.marks import medians
from pymc_active.plots.style import BLUE, VERMILION
from pymc_active.predictions.model_average import check_one_fit
from pymc_active.support.arguments import checked
from pymc_active.support.options import count


@checked
def plot_parameters(
    fit: Fit,
    *,
    trace: xr.DataTree | None = None,
    var_names: Sequence[str] | None = None,
    draws: int = 1000,
    random_seed: int | np.random.Generator | None = None,
    axes: Any = None,
    figsize: tuple[float, float] | None = None,
) -> np.ndarray:
    """Medians, 50 % and 89 % intervals of the parameters on their natural scale.

    Variables with positive draws only are on a logarithmic axis, then the others on a linear one; one Axes if all are
    of one kind, or if one was given. A ``trace`` with MCMC draws of the same model is shown beside the fit.
    ``var_names`` are by default scalars and vectors in the user's units; ``log_noise`` only if the
    model has no ``noise``, and never matrices such as an embedding's R. The rest is as in :mod:`pymc_active.plots`.
    """
    check_one_fit(fit, "plot_parameters")
    values = fit.gpm.constrain(fit.draw(count("draws", draws), random_seed))
    posterior = in_chains(fit.gpm, values, np.arange(draws)[None], len(fit.y))
    own = "Laplace" if fit.evidence.by == "laplace" else "particles"
    if var_names is None:
        var_names = natural_names(str(name) for name, values in posterior.items() if values.ndim <= 3)
    if not len(var_names):
        raise ValueError("the model has no scalar or vector parameters; plot_relevance shows an embedding")
    sources = {own: posterior}
    if trace is not None:
        if "posterior" not in getattr(trace, "children", {}):
            raise ValueError("trace must be a DataTree with a group 'posterior', as pma.sample returns it")
        sources["MCMC"] = trace["posterior"].to_dataset()
    for source, dataset in sources.items():
        missing = [name for name in var_names if not isinstance(name, str) or name not in dataset]
        if missing:
            raise ValueError(f"{source} has no {', '.join(map(str, missing))}; it has {', '.join(map(str, dataset))}")

    is_positive = {name: all((dataset[name] > 0).all() for dataset in sources.values()) for name in var_names}
    groups = [[name for name in var_names if is_positive[name] == wanted] for wanted in (True, False)]
    groups = [list(var_names)] if axes is not None and np.size(axes) == 1 else [group for group in groups if group]
    rows = [{source: _rows(dataset, group) for source, dataset in sources.items()} for group in groups]
    heights = [len(group[own]) for group in rows]
    if axes is None:
        size = figsize or (6.4, 0.5 + 0.6 * len(rows) + (0.34 if trace is None else 0.44) * sum(heights))
        axes = new_grid((len(rows), 1), size, height_ratios=heights)
    axes = read_axes(axes, (len(rows),))
    for ax, group, names in zip(axes, rows, groups, strict=True):
        for (source, values), color, shift in zip(group.items(), (BLUE, VERMILION), (-0.15, 0.15), strict=False):
            at = np.arange(len(values)) + (0.0 if trace is None else shift)
            q = np.quantile(list(values.values()), (0.055, 0.25, 0.5, 0.75, 0.945), axis=1)
            ax.hlines(at, q[0], q[4], color=color, lw=1.4)
            ax.hlines(at, q[1], q[3], color=color, lw=4.0)
            medians(ax, q[2], at, color, source)
        name_rows(ax, list(group[own]))
        if all(is_positive[name] for name in names):
            log_axis(ax, "x")
    axes[-1].set_xlabel("posterior median, 50 % and 89 % interval")
    if trace is not None:
        legend_above(axes[0])
    return axes


def _rows(posterior: xr.Dataset, var_names: Sequence[str]) -> dict[str, np.ndarray]:
    """Draws by row of the picture: a scalar's name, or name[coordinate]."""
    # Importing ArviZ takes as long as the rest of the package.
    from arviz_base import xarray_var_iter
    from arviz_base.labels import BaseLabeller

    found = xarray_var_iter(posterior, var_names=list(var_names), combined=True)
    return {BaseLabeller().make_label_flat(name, at, i): values.ravel() for name, at, i, values in found}
