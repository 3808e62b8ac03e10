"""Pictures of fits, designs and checks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from numbers import Real
from typing import TYPE_CHECKING, Any

import numpy as np
import xarray as xr

from pymc_active.embeddings import embedding_draws, principal_rotation, relevance, subspace_angles
from pymc_active.laplace.fit import LaplaceFit
from pymc_active.model_average import check_one_fit
from pymc_active.models.data import read_inputs, read_outputs
from pymc_active.plots.style import (
    BLUE,
    CYCLE,
    GREY,
    INK,
    VERMILION,
    Z95,
    label_ends,
    legend_above,
    log_axis,
    new_axes,
    pyplot,
)
from pymc_active.predictions import predict

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from pymc_active.models.gpmodel import GPModel
    from pymc_active.search import EmbeddingDimension

__all__ = [
    "plot_check",
    "plot_embedding",
    "plot_embedding_dimension",
    "plot_learning_curves",
    "plot_loadings",
    "plot_parameters",
    "plot_predictions",
    "plot_relevance",
    "plot_subspace_angles",
]

_INTERVAL = (0.055, 0.25, 0.5, 0.75, 0.945)
# More inputs than this are drawn as a curve if their labels are numbers, such as wavelengths.
_CONTINUOUS = 10


def plot_predictions(
    fit: LaplaceFit,
    *,
    input: Any = 0,
    limits: tuple[float, float] | None = None,
    n_points: int = 200,
    target: str = "f",
    trace: xr.DataTree | None = None,
    X: Any = None,
    y: Any = None,
    highlight: Any = None,
    number: bool = False,
    ax: Axes | None = None,
) -> Axes:
    """Data and predictions along one input, with the hyperparameters marginalised (MGP) and fixed (MAP).

    Parameters
    ----------
    fit : LaplaceFit
    input : int or label
        The input along the x axis, by position or by name. Others stay at the median of the data, which are then
        drawn faintly, since they do not lie on this slice.
    limits : (low, high), optional
        Range of that input. Default: a tenth beyond the data on either side.
    n_points : int
        Points of the grid.
    target : {"f", "y"}
        Bands of the latent function or of a new observation.
    trace : xarray.DataTree, optional
        Draws of the same model by MCMC, whose band is shown beside the others.
    X, y : array_like, shapes (n, D) and (n,), optional
        Data to show. Default: those the model holds.
    highlight : array_like of int or bool, optional
        Rows of X to ring.
    number : bool
        Write 1, 2, ... beside the ringed points.
    ax : matplotlib Axes, optional

    Returns
    -------
    matplotlib Axes
        The band is mean ± 1.96 sd of ``predict(fit, grid, method="mgp")``, the dashed lines those of ``"map"``, and
        the red lines those of the trace: the exact moments of the mixture over its draws.

    Raises
    ------
    TypeError, ValueError
        For another object than a fit, an unknown input or target, limits that do not increase, data that are not the
        fit's, or a trace of another model or of a model whose data changed since the fit.
    """
    check_one_fit(fit, "plot_predictions")
    if target not in ("f", "y"):
        raise ValueError(f"target must be 'f' or 'y'; got {target!r}")
    gpm = fit.gpm
    if trace is not None and not (np.array_equal(gpm.X, fit.X) and np.array_equal(gpm.y, fit.y)):
        raise ValueError("the model's data changed since this fit: fit again, or leave out the trace")
    column, name = _column(fit, input)
    X, y = _data(fit, X, y)
    if limits is None:
        low, high = X[:, column].min(), X[:, column].max()
        margin = 0.1 * (high - low) or 1.0
        limits = (low - margin, high + margin)
    elif not -np.inf < limits[0] < limits[1] < np.inf:
        raise ValueError(f"limits must be two finite numbers, the lower one first; got {limits!r}")
    grid = np.tile(np.median(X, axis=0), (n_points, 1))
    grid[:, column] = x = np.linspace(*limits, n_points)
    exact = None if trace is None else _band(predict(trace, grid, model=gpm), target)

    ax = new_axes(ax, (6.4, 4.0))
    mean, half = _band(predict(fit, grid, method="mgp"), target)
    what = f"95 % of {target}"
    ax.fill_between(x, mean - half, mean + half, color=BLUE, alpha=0.2, lw=0, label=f"MGP, {what}")
    ax.plot(x, mean, color=BLUE, lw=1.8, label="MGP mean")
    center, half = _band(predict(fit, grid, method="map"), target)
    for sign, label in ((-1, f"MAP, {what}"), (1, None)):
        ax.plot(x, center + sign * half, color=INK, lw=0.9, ls=(0, (5, 3)), label=label)
        if exact is not None:
            ax.plot(x, exact[0] + sign * exact[1], color=VERMILION, lw=1.3, label=label and f"MCMC, {what}")
    slice_only = X.shape[1] > 1
    ax.plot(
        X[:, column],
        y,
        "o",
        ms=5,
        color=INK,
        mec="white",
        mew=0.5,
        alpha=0.35 if slice_only else 1.0,
        label="data off the slice" if slice_only else "data",
        zorder=3,
    )
    _ring(ax, X[:, column], y, highlight, number)
    ax.set(xlabel=name, ylabel=fit.gpm.name)
    ax.set_xlim(x[0], x[-1])
    legend_above(ax)
    return ax


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


def plot_embedding(
    fit: LaplaceFit,
    *,
    X: Any = None,
    y: Any = None,
    highlight: Any = None,
    number: bool = False,
    ax: Axes | None = None,
) -> Axes:
    """Points in the plane that the model has learned, coloured by y.

    The plane is turned to the principal axes of R (its singular vectors, the largest first, the largest weight of
    each positive): the model does not know any rotation or reflection of it.

    Parameters
    ----------
    fit : LaplaceFit
        Of a model with an embedding.
    X, y : array_like, shapes (m, D) and (m,), optional
        Points to show, in the user's units. Default: the data that the model holds. X without y is drawn in grey.
    highlight : array_like of int or bool, optional
        Rows of X to ring, such as those that were asked for.
    number : bool
        Write 1, 2, ... beside the ringed points, in the order of ``highlight``.
    ax : matplotlib Axes, optional

    Returns
    -------
    matplotlib Axes
        For one component u against y, with the mean ± 1.96 sd of ``predict(fit, x)`` where x is the point of least
        norm, in scaled inputs, that goes to u. For more than two components the first two. The colour bar is the
        figure's last Axes.

    Raises
    ------
    TypeError, ValueError
        For another object than a fit, a model without an embedding, or rows to ring that are not there.
    """
    check_one_fit(fit, "plot_embedding")
    R = principal_rotation(fit) @ fit.point[str(fit.gpm.embedding)]
    given = X is not None
    if y is not None and not given:
        raise ValueError("y belongs to points: pass X with it")
    if given:
        X = read_inputs(X, "X", width=fit.gpm.X.shape[1])
        y = None if y is None else read_outputs(y, len(X))
    else:
        X, y = _data(fit, None, None)
    if y is None and len(R) == 1:
        raise ValueError("an embedding with one component is drawn against y: pass y with X")
    u = fit.gpm.x_map(X) @ R.T
    if len(R) == 1:
        ax = new_axes(ax, (6.0, 4.0))
        x_map, grid = fit.gpm.x_map, np.linspace(u.min(), u.max(), 200)
        mean, half = _band(predict(fit, x_map.shift + x_map.scale * np.outer(grid, np.linalg.pinv(R))), "f")
        ax.fill_between(grid, mean - half, mean + half, color=BLUE, alpha=0.2, lw=0, label="MGP, 95 % of f")
        ax.plot(grid, mean, color=BLUE, lw=1.8, label="MGP mean")
        ax.plot(u[:, 0], y, "o", ms=5, color=INK, mec="white", mew=0.5, label="data", zorder=3)
        _ring(ax, u[:, 0], y, highlight, number)
        ax.set(xlabel="learned component u", ylabel=fit.gpm.name)
        legend_above(ax)
        return ax
    ax = new_axes(ax, (6.4, 4.8))
    style: dict[str, Any] = {"s": 34, "linewidths": 0.4, "edgecolors": "white"}
    if y is None:
        ax.scatter(u[:, 0], u[:, 1], color=GREY, **style)
    else:
        points = ax.scatter(u[:, 0], u[:, 1], c=y, cmap="viridis", **style)
        bar = ax.figure.colorbar(points, ax=ax, pad=0.02, aspect=28)
        bar.outline.set_visible(False)
        bar.set_label(fit.gpm.name)
    _ring(ax, u[:, 0], u[:, 1], highlight, number)
    ax.set(xlabel="first learned component $u_1$", ylabel="second learned component $u_2$")
    # One unit is one lengthscale in both directions; a thin cloud would be no more than a line.
    spans = np.ptp(u[:, :2], axis=0)
    if spans.max() < 3 * spans.min():
        ax.set_aspect("equal", adjustable="datalim")
    return ax


def plot_relevance(
    fit: LaplaceFit,
    *,
    draws: int = 500,
    random_seed: int = 0,
    labels: Sequence | None = None,
    var_name: str = "lengthscale",
    ax: Axes | None = None,
) -> Axes:
    """How much each input matters: medians and 89 % intervals of draws from the Laplace approximation.

    Parameters
    ----------
    fit : LaplaceFit
    draws, random_seed : int
    labels : sequence, optional
        Of the inputs; default those of X. More than ten increasing numbers, as wavelengths, make a curve with a band;
        consecutive integers only number the inputs.
    var_name : str
        For models without an embedding: the variable with one lengthscale for each input, in the units of X.
    ax : matplotlib Axes, optional

    Returns
    -------
    matplotlib Axes
        For an embedding the ``loading`` of :func:`pymc_active.relevance`; else 1 / lengthscale. Both refer to the
        inputs as the kernel sees them (``x_scale``).

    Raises
    ------
    TypeError, ValueError
        For another object than a fit, a model with neither an embedding nor such a variable, or too few labels.
    """
    check_one_fit(fit, "plot_relevance")
    gpm = fit.gpm
    D = gpm.X.shape[1]
    if gpm.embedding is not None:
        loading = relevance(fit, draws=draws, random_seed=random_seed).loading
        low, middle, high = loading.sel(summary=["lower", "median", "upper"]).to_numpy()
        what = "relevance, norm of the column of R"
    else:
        drawn = gpm.constrain(fit.draw(draws, random_seed))
        if var_name not in drawn or drawn[var_name].shape[1:] != (D,):
            raise ValueError(
                f"plot_relevance needs an embedding or a variable {var_name!r} with one entry for each of the {D} "
                f"inputs; the model has {', '.join(sorted(drawn))}. Name another one with var_name=..."
            )
        low, middle, high = np.quantile(gpm.x_map.scale / drawn[var_name], (0.055, 0.5, 0.945), axis=0)
        what = f"relevance, 1 / {var_name}"
    labels = list(gpm.inputs if labels is None else labels)
    if len(labels) != D:
        raise ValueError(f"labels must name the {D} inputs; got {len(labels)}")
    if _is_continuous(labels):
        ax = new_axes(ax, (6.8, 3.6))
        x = np.asarray(labels, float)
        ax.fill_between(x, low, high, color=BLUE, alpha=0.22, lw=0, label="89 % interval")
        ax.plot(x, middle, color=BLUE, lw=1.6, label="median")
        ax.set_xlim(x[0], x[-1])
        ax.set_xlabel("input")
        legend_above(ax)
    else:
        ax = new_axes(ax, (float(np.clip(1.6 + 0.32 * D, 4.2, 9.0)), 3.6))
        is_numbered = _is_numbered(labels)
        at = np.arange(D) + (labels[0] if is_numbered else 0)
        ax.vlines(at, low, high, color=BLUE, lw=1.4, label="89 % interval")
        ax.plot(at, middle, "o", ms=5, color="white", mec=BLUE, mew=1.6, label="median", zorder=3)
        names = list(map(str, labels))
        if D <= 25:
            is_long = sum(map(len, names)) > 60
            ax.set_xticks(at, names, rotation=40 if is_long else 0, ha="right" if is_long else "center")
        else:
            _number_ticks(ax, dict(zip(at.tolist(), names, strict=True)), is_numbered)
        ax.set_xlim(at[0] - 0.6, at[-1] + 0.6)
        if is_numbered:
            ax.set_xlabel("input")
        legend_above(ax)
    ax.set_ylabel(what)
    ax.set_ylim(0, None)
    return ax


def plot_loadings(
    fit: LaplaceFit,
    *,
    X: Any = None,
    draws: int = 300,
    random_seed: int = 0,
    labels: Sequence | None = None,
    ax: Axes | None = None,
) -> Axes:
    """Which inputs the learned components load on: their correlations over the rows of X, with 89 % bands.

    Where inputs are strongly correlated, as neighbouring wavelengths are, single entries of R mean little: many R give
    the same components. What the components *are* shows in their correlations with the inputs.

    Parameters
    ----------
    fit : LaplaceFit
        Of a model with an embedding.
    X : array_like, shape (m, D), optional
        Points to correlate over, in the user's units; default those of the fit.
    draws, random_seed : int
        Draws of R from the Laplace approximation, each turned onto the mode (orthogonal Procrustes).
    labels : sequence, optional
        Increasing numbers, one for each input; default those of X.
    ax : matplotlib Axes, optional

    Returns
    -------
    matplotlib Axes
        A curve with a band for each component, on the principal axes of R at the mode.

    Raises
    ------
    TypeError, ValueError
        For another object than a fit, a model without an embedding, or labels that are no increasing numbers.
    """
    from scipy.linalg import orthogonal_procrustes

    check_one_fit(fit, "plot_loadings")
    gpm = fit.gpm
    mode = principal_rotation(fit) @ fit.point[str(gpm.embedding)]
    shape = mode.shape
    labels = list(gpm.inputs if labels is None else labels)
    if len(labels) != shape[1] or not all(isinstance(label, Real) for label in labels):
        raise ValueError(f"labels must be {shape[1]} increasing numbers, one for each input; got {labels!r}")
    points = gpm.x_map(read_inputs(fit.X if X is None else X, width=shape[1]))
    centred = points - points.mean(0)
    spread = np.linalg.norm(centred, axis=0)
    components = centred @ mode.T
    loadings = np.empty((draws, *shape))
    for s, R in enumerate(embedding_draws(fit, None, draws, random_seed)[1]):
        U = centred @ R.T
        U = U @ orthogonal_procrustes(U, components)[0]
        loadings[s] = U.T @ centred / np.outer(np.linalg.norm(U, axis=0), spread + (spread == 0))
    ax = new_axes(ax, (6.8, 3.6))
    x = np.asarray(labels, float)
    ends = []
    for k, color in zip(range(shape[0]), CYCLE, strict=False):
        low, middle, high = np.quantile(loadings[:, k], (0.055, 0.5, 0.945), axis=0)
        ax.fill_between(x, low, high, color=color, alpha=0.2, lw=0)
        ax.plot(x, middle, color=color, lw=1.6)
        ends.append((f"$u_{k + 1}$", float(x[-1]), float(middle[-1]), color))
    for text, end, height, color in ends:
        ax.annotate(text, (end, height), xytext=(5, 0), textcoords="offset points", color=color, va="center")
    ax.axhline(0, color=GREY, lw=0.8, zorder=0)
    ax.set_xlim(x[0], x[-1])
    ax.set_ylim(-1.03, 1.03)
    ax.set_xlabel("input")
    ax.set_ylabel("correlation with the component")
    return ax


def plot_subspace_angles(
    source: LaplaceFit | xr.DataTree,
    reference: Any = None,
    *,
    model: GPModel | None = None,
    draws: int = 1000,
    random_seed: int = 0,
    ax: Axes | None = None,
) -> Axes:
    """How sure the learned subspace is: medians and 89 % intervals of its angles to the mode or to a reference.

    Parameters
    ----------
    source, reference, model, draws, random_seed
        As in :func:`pymc_active.subspace_angles`.
    ax : matplotlib Axes, optional

    Returns
    -------
    matplotlib Axes
        One interval for each principal angle; grey marks are the medians of random subspaces, an embedding not known
        at all.

    Raises
    ------
    TypeError, ValueError
        As :func:`pymc_active.subspace_angles`.
    """
    angles = subspace_angles(source, reference, model=model, draws=draws, random_seed=random_seed)
    low, middle, high = angles.angle.sel(summary=["lower", "median", "upper"]).to_numpy()
    at = angles.principal_angle.to_numpy()
    ax = new_axes(ax, (float(np.clip(2.4 + 1.2 * len(at), 4.8, 9.0)), 3.6))
    ax.hlines(angles.random, at - 0.22, at + 0.22, color=GREY, lw=1.4, label="random subspace")
    ax.vlines(at, low, high, color=BLUE, lw=1.4, label="89 % interval")
    ax.plot(at, middle, "o", ms=5, color="white", mec=BLUE, mew=1.6, label="median", zorder=3)
    for x, values in zip(at, np.stack([low, middle, high]).T, strict=True):
        text = "{1:.2g}\n{0:.2g} to {2:.2g}".format(*values)
        ax.annotate(text, (x, values[1]), xytext=(9, 3), textcoords="offset points", fontsize=9, color=INK)
    ax.set_xticks(at)
    ax.set_xlim(0.4, len(at) + 0.6)
    # Beyond 90 there is room for the numbers at a large angle.
    ax.set_ylim(0, 105)
    ax.set_yticks(range(0, 91, 15))
    what = "the mode" if isinstance(source, LaplaceFit) else "the mean subspace"
    ax.set_xlabel("principal angle, the largest first")
    ax.set_ylabel(f"angle to {what if reference is None else 'the reference'} (degrees)")
    legend_above(ax)
    return ax


def plot_embedding_dimension(result: EmbeddingDimension, *, ax: Axes | None = None) -> Axes:
    """Log evidence of each number of components, with the posterior probabilities.

    Parameters
    ----------
    result : EmbeddingDimension
        From :func:`pymc_active.search.embedding_dimension`.
    ax : matplotlib Axes, optional

    Returns
    -------
    matplotlib Axes
        Evidences relative to the largest, logarithmic below one nat; hollow points are doubtful fits.

    Raises
    ------
    TypeError
        For another object.
    """
    from matplotlib.ticker import FuncFormatter

    from pymc_active.search import EmbeddingDimension

    if not isinstance(result, EmbeddingDimension):
        raise TypeError(
            f"plot_embedding_dimension takes the result of embedding_dimension; got {type(result).__name__}"
        )
    table = result.table.sortby("n_components")
    d, evidence = table.n_components.to_numpy(), table.log_evidence.to_numpy()
    below = evidence - evidence.max()
    ax = new_axes(ax, (float(np.clip(2.0 + 0.8 * len(d), 4.2, 9.0)), 3.6))
    ax.plot(d, below, color=BLUE, lw=1.4, zorder=1)
    for doubtful in (False, True):
        shown = table.doubtful.to_numpy() == doubtful
        face = "white" if doubtful else BLUE
        ax.plot(d[shown], below[shown], "o", ms=6, color=face, mec=BLUE, mew=1.6)
    for x, y, p in zip(d, below, table.probability.to_numpy(), strict=True):
        text = f"{p:.2f}" if p >= 0.005 else "< 0.01"
        ax.annotate(
            text,
            (x, y),
            xytext=(0, 9),
            textcoords="offset points",
            ha="center",
            fontsize=9,
            color=INK,
            bbox={"fc": "white", "ec": "none", "pad": 1},
        )
    ax.set_yscale("symlog", linthresh=1)
    ax.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    bottom, scale = 1.5 * min(below.min(), -1), ax.yaxis.get_transform()
    # The largest evidence is at zero; an eighth of the axis above it is for its number.
    ax.set_ylim(bottom, scale.inverted().transform(-scale.transform([bottom]) / 7)[0])
    ax.set_xticks(d)
    ax.set_xlim(d[0] - 0.5, d[-1] + 0.5)
    ax.set_xlabel("components d (number: posterior probability)")
    ax.set_ylabel("log evidence below the best (nats)")
    return ax


def plot_learning_curves(
    curves: xr.Dataset | xr.DataArray,
    *,
    metric: str | None = None,
    reference: float | Mapping[str, float] | None = None,
    log: bool = False,
    ax: Axes | None = None,
) -> Axes:
    """Error against the number of points: the mean over repetitions, with the band of their quartiles.

    Parameters
    ----------
    curves : xarray.Dataset or DataArray
        Over ``n``, and ``method`` and ``split`` where there are several. NaN are left out.
    metric : str, optional
        Variable of a Dataset; needed if it has several.
    reference : float or dict, optional
        Horizontal lines, by label: ``{"noise floor": 0.1}``.
    log : bool
        A logarithmic y axis.
    ax : matplotlib Axes, optional

    Returns
    -------
    matplotlib Axes
        Methods are labelled at the ends of their lines; ``attrs["units"]`` of the metric goes to the y axis.

    Raises
    ------
    TypeError, ValueError
        For another object, an unknown metric or dimension, or none named ``n``.
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
        raise TypeError(
            f"curves must be an xarray Dataset or DataArray over method, split and n; got {type(curves).__name__}"
        )
    values = values.expand_dims([dim for dim in ("method", "split") if dim not in values.dims])
    if set(values.dims) != {"method", "split", "n"}:
        raise ValueError(f"curves must have the dims method, split and n; got {', '.join(map(str, values.dims))}")
    values = values.transpose("method", "split", "n")
    ax = new_axes(ax, (6.8, 4.0))
    n = values.n.to_numpy()
    ends = []
    for i, method in enumerate(values.method.to_numpy() if "method" in values.coords else [""]):
        color, part = CYCLE[i % len(CYCLE)], values.isel(method=i)
        if part.sizes["split"] > 1:
            low, high = (part.quantile(q, "split").to_numpy() for q in (0.25, 0.75))
            ax.fill_between(n, low, high, color=color, alpha=0.15, lw=0)
        mean = part.mean("split").to_numpy()
        ax.plot(n, mean, color=color, lw=1.8, marker="o", ms=3, label=str(method))
        last = np.flatnonzero(np.isfinite(mean))
        if len(last) and method != "":
            ends.append((str(method), n[last[-1]], mean[last[-1]], color))
    references = reference if isinstance(reference, Mapping) else {} if reference is None else {"": reference}
    for name, level in references.items():
        ax.axhline(level, color=GREY, lw=0.9, ls=(0, (5, 3)), zorder=0)
        ax.annotate(
            name,
            (0.01, level),
            xycoords=("axes fraction", "data"),
            xytext=(0, 3),
            textcoords="offset points",
            color=GREY,
            fontsize=9,
        )
    units = values.attrs.get("units")
    ax.set(xlabel="number of points n", ylabel=f"{metric or values.name or 'error'}" + (f" ({units})" if units else ""))
    ax.locator_params(axis="x", integer=True)
    if log:
        log_axis(ax, "y")
    label_ends(ax, ends)
    return ax


def plot_check(tree: xr.DataTree, *, metric: str = "skl", ax: Axes | None = None) -> Axes:
    """How far MAP, BBQ and MGP are from the truth: one dot a point, a bar at the median.

    Parameters
    ----------
    tree : xarray.DataTree
        From :func:`pymc_active.check`.
    metric : {"skl", "skl_mixture", "skl_y"}
        Divergence to show.
    ax : matplotlib Axes, optional

    Returns
    -------
    matplotlib Axes
        With a logarithmic x axis; zeros are left out.

    Raises
    ------
    TypeError, ValueError
        For a tree that does not come from ``check``, or an unknown metric.
    """
    if not isinstance(tree, xr.DataTree):
        raise TypeError(f"plot_check takes the DataTree of pma.check; got {type(tree).__name__}")
    if "predictions" not in tree.children:
        raise ValueError(f"the tree does not come from pma.check: no group 'predictions' among {sorted(tree.children)}")
    what = {
        "skl": "symmetrised KL to MCMC, function f",
        "skl_mixture": "symmetrised KL to MCMC's mixture, function f",
        "skl_y": "symmetrised KL to MCMC, observation y",
    }
    if metric not in what:
        raise ValueError(f"metric must be one of {', '.join(sorted(what))}; got {metric!r}")
    values = tree["predictions"][metric].transpose("approximation", "point")
    methods = [str(method) for method in values.approximation.to_numpy()]
    ax = new_axes(ax, (6.4, 0.9 + 0.62 * len(methods)))
    for i, (method, row) in enumerate(zip(methods, values.to_numpy(), strict=True)):
        shown = np.sort(row[row > 0])
        color = BLUE if method == "MGP" else GREY
        # Neighbours in value are kept apart by a low-discrepancy sequence.
        jitter = 0.24 * (2 * ((np.arange(len(shown)) * 0.6180339887) % 1) - 1)
        ax.plot(shown, i + jitter, "o", ms=4, color=color, alpha=0.45, mew=0)
        middle = float(np.median(row))
        ax.vlines(middle, i - 0.32, i + 0.32, color=INK, lw=2)
        ax.annotate(
            f"{middle:.2g}",
            (middle, i - 0.32),
            xytext=(0, 1),
            textcoords="offset points",
            ha="center",
            va="bottom",
            fontsize=9,
            color=INK,
        )
    ax.set_yticks(range(len(methods)), methods)
    ax.set_ylim(len(methods) - 0.5, -0.65)
    ax.tick_params(axis="y", length=0)
    log_axis(ax, "x")
    ax.set_xlabel(f"{what[metric]} ({tree['predictions'].attrs.get('units', 'nats')})")
    return ax


def _data(fit: LaplaceFit, X: Any, y: Any) -> tuple[np.ndarray, np.ndarray]:
    """The data given, or the fit's."""
    if (X is None) != (y is None):
        raise ValueError("pass both X and y, or neither")
    if X is None:
        return fit.X, fit.y
    X = read_inputs(X, "X", width=fit.X.shape[1])
    return X, read_outputs(y, len(X))


def _column(fit: LaplaceFit, input: Any) -> tuple[int, str]:
    """Position and label of an input given by either; names come first."""
    inputs = fit.gpm.inputs
    if input in inputs:
        column = inputs.index(input)
    elif isinstance(input, int | np.integer) and 0 <= input < len(inputs):
        column = int(input)
    else:
        raise ValueError(f"input must be one of {', '.join(map(str, inputs))} or a position; got {input!r}")
    if isinstance(inputs[column], str):
        return column, inputs[column]
    return column, "x" if len(inputs) == 1 else f"input {inputs[column]}"


def _band(prediction: xr.Dataset, target: str) -> tuple[np.ndarray, np.ndarray]:
    return prediction.f_mean.to_numpy(), Z95 * np.sqrt(prediction[f"{target}_variance"].to_numpy())


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


def _is_numbered(labels: list) -> bool:
    is_integer = all(isinstance(label, int | np.integer) for label in labels)
    return is_integer and labels == list(range(labels[0], labels[0] + len(labels)))


def _is_continuous(labels: list) -> bool:
    if len(labels) <= _CONTINUOUS or _is_numbered(labels):
        return False
    is_number = all(isinstance(label, int | float | np.number) for label in labels)
    return is_number and bool((np.diff(np.asarray(labels, float)) > 0).all())


def _number_ticks(ax: Axes, names: dict[int, str], is_numbered: bool) -> None:
    """Names of some of many positions, whatever part of the axis is shown."""
    from matplotlib.ticker import FuncFormatter, MaxNLocator

    ax.xaxis.set_major_locator(MaxNLocator("auto" if is_numbered else 25, integer=True, steps=[1, 2, 5, 10]))
    ax.xaxis.set_major_formatter(FuncFormatter(lambda value, _: names.get(round(value), "")))
    ax.tick_params(axis="x", rotation=0 if is_numbered else 90)


def _ring(ax: Axes, x: np.ndarray, y: np.ndarray, highlight: Any, number: bool) -> None:
    """Ring points, and number them in the order given."""
    if highlight is None:
        return
    rows = np.asarray(highlight)
    rows = np.flatnonzero(rows) if rows.dtype == bool and len(rows) == len(x) else rows
    if rows.size == 0:
        return
    if rows.ndim != 1 or rows.dtype.kind not in "iu" or rows.min() < 0 or rows.max() >= len(x):
        raise ValueError(
            f"highlight must hold rows of X, 0 to {len(x) - 1}, or be a mask of that length; got {highlight!r}"
        )
    ax.scatter(x[rows], y[rows], s=95, facecolors="none", edgecolors=VERMILION, linewidths=1.4, zorder=4, label="asked")
    if number:
        for i, row in enumerate(rows):
            ax.annotate(
                str(i + 1),
                (x[row], y[row]),
                xytext=(5, 5),
                textcoords="offset points",
                fontsize=8,
                color=VERMILION,
                zorder=5,
            )
