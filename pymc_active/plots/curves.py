"""Learning curves: error against the number of points."""

from __future__ import annotations

from collections.abc import Mapping

import xarray as xr

from pymc_active.plots.axes import Axes, log_axis, new_axes
from pymc_active.plots.marks import curve, label_ends, note_in_row
from pymc_active.plots.style import CYCLE, GREY, LIMIT
from pymc_active.support.arguments import checked


@checked
def plot_learning_curves(
    curves: xr.Dataset | xr.DataArray,
    *,
    metric: str | None = None,
    reference: float | Mapping[str, float] | None = None,
    log: bool = False,
    ax: Axes | None = None,
) -> Axes:
    """Error against the number of points: the median over repetitions, with the band of their quartiles.

    ``curves`` are over ``n``, and over ``method`` and ``split`` if there are several. NaN are left out, and
    ``attrs["units"]`` goes to the y axis, logarithmic with ``log``. A Dataset with several variables needs a
    ``metric``, the name of one. ``reference`` draws horizontal lines, by label: ``{"noise floor": 0.1}``.
    """
    if isinstance(curves, xr.Dataset):
        if metric is None and len(curves.data_vars) == 1:
            metric = str(next(iter(curves.data_vars)))
        if metric not in curves:
            raise ValueError(f"metric must be one of {', '.join(sorted(map(str, curves.data_vars)))}; got {metric!r}")
        values = curves[metric]
    elif isinstance(curves, xr.DataArray):
        values = curves
    else:
        raise TypeError(f"curves must be a Dataset or DataArray over method, split and n; got {type(curves).__name__}")
    values = values.expand_dims([dim for dim in ("method", "split") if dim not in values.dims])
    if set(values.dims) != {"method", "split", "n"}:
        raise ValueError(f"curves must have the dims method, split and n; got {', '.join(map(str, values.dims))}")
    values = values.transpose("method", "split", "n")
    ax = new_axes(ax, (6.8, 4.0))
    n = values.n.to_numpy()
    ends: list[tuple[str, float, float, str]] = []
    # Without coordinates several methods are numbered.
    names = values.method.to_numpy() if "method" in values.coords or values.sizes["method"] > 1 else [""]
    for i, method in enumerate(names):
        color, part = CYCLE[i % len(CYCLE)], values.isel(method=i)
        if part.sizes["split"] > 1:
            low, high = (part.quantile(q, "split").to_numpy() for q in (0.25, 0.75))
            ax.fill_between(n, low, high, color=color, alpha=0.15, lw=0)
        ends += curve(ax, n, part.median("split").to_numpy(), color, str(method))
    references = reference if isinstance(reference, Mapping) else {} if reference is None else {"": reference}
    for name, level in references.items():
        ax.axhline(level, **LIMIT)
        note_in_row(ax, name, 0.01, level, offset=(0, 3), color=GREY, va="baseline")
    units = values.attrs.get("units")
    ax.set(xlabel="number of points n", ylabel=f"{metric or values.name or 'error'}" + (f" ({units})" if units else ""))
    ax.locator_params(axis="x", integer=True)
    if log:
        log_axis(ax, "y")
    label_ends(ax, ends)
    return ax
